"""Labels and tokens for workers: made once, in a folder that all machines see."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal

from dhilgt.classifier.cache import Cache, cache_folder
from dhilgt.classifier.pipeline import Pipeline
from dhilgt.classifier.sharing import share
from dhilgt.cluster.machines import unseen
from dhilgt.errors import ArtifactError
from dhilgt.graph.graph import Graph
from dhilgt.settings.settings import Settings
from dhilgt.training.clock import StageClock
from dhilgt.utils.progress import progress_note

SMALL = 2_000_000
"""Nodes and edges up to which one machine has labels and tokens before a cluster has begun."""


def shared_cache(
    ray: Any,
    cluster: str,
    graph: Graph,
    wanted: bool,
    below: Path,
    progress: bool | Literal["auto"],
) -> Cache:
    """Return the cache of labels and tokens: the user's where all machines see it, else another.

    Those of a graph that is not `SMALL` are made on the cluster.

    Args:
        ray: The package, connected.
        cluster: "auto", or the address of the cluster.
        graph: The graph.
        wanted: Whether the user's cache may be used.
        below: A folder that all machines see, for another cache.
        progress: False for no notes.
    """
    builders = cluster if graph.num_nodes + graph.num_edges > SMALL else None
    if wanted:
        root = cache_folder()
        try:
            root.mkdir(parents=True, exist_ok=True)
            blind = unseen(ray, root)
        except (ArtifactError, OSError) as error:
            blind = {"this machine": str(error)}
        if not blind:
            return Cache(root, cluster=builders)
        machine = next(iter(blind))
        progress_note(
            f"labels and tokens are kept in {below}, as {machine} does not see the cache {root}",
            enabled=progress,
        )
    return Cache(below, cluster=builders)


def make_parts(
    graph: Graph,
    settings: Iterable[Settings],
    cache: Cache,
    *,
    progress: bool | Literal["auto"],
    clock: StageClock,
) -> None:
    """Make the labels and tokens that workers will open from the cache.

    Args:
        graph: The graph.
        settings: Those of each model.
        cache: Of `shared_cache`.
        progress: False for no display.
        clock: Measures the seconds of each stage.
    """
    made: list[Pipeline] = []
    for one in settings:
        pipeline = Pipeline(graph, one, cache=cache, progress=progress, clock=clock)
        share(pipeline, made)
        _ = pipeline.tokens
        if one.hub_inputs:
            _ = pipeline.labels
        made.append(pipeline)
