"""Load a public dataset by name as a graph."""

import warnings
from collections.abc import Callable
from importlib import import_module
from os import PathLike
from typing import Any

import numpy as np

from dhilgt.datasets import splits
from dhilgt.datasets.files import Files
from dhilgt.datasets.readers.raw_graph import RawGraph
from dhilgt.datasets.registry import DatasetInfo, info
from dhilgt.errors import DatasetError, GraphError, GraphWarning, argument
from dhilgt.graph.graph import Graph


def load(
    name: str,
    root: "str | PathLike[str] | None" = None,
    split: str | None = "paper",
    seed: int = 0,
    *,
    drop_isolated: bool = False,
    features: bool = True,
    download: bool = True,
    verify: bool = True,
    progress: bool = False,
) -> Graph:
    """Return a public dataset as a graph with features, classes and a split.

    Missing files are fetched from their publishers. Self-loops and repeated edges are removed, and
    edges get their reverse unless the name ends in "directed".

    Args:
        name: One of `names()`.
        root: Folder of all datasets; by default the one that the variable DHILGT_DATA names, else
            the user's cache.
        split: "paper" (random 60/20/20 of the labelled nodes; the official one for OGB graphs),
            "random" (60/20/20), other percentages such as "50/25/25", "official", or None for no
            split.
        seed: Number of the random split; of the official ones, ``seed`` modulo their number is
            used. The graph itself does not depend on it.
        drop_isolated: Leave out nodes without an edge; the others keep their numbers as ids.
        features: Read the features; without them their file is not needed.
        download: Fetch missing files; otherwise they are an error.
        verify: Compare files with the SHA-256 in the catalogue.
        progress: Show a progress bar during transfers.

    Raises:
        DatasetError: If the dataset or split is unknown, or its files are missing or unreadable.

    Example:
        >>> load("genius")  # doctest: +SKIP
        Graph(genius, nodes=421,961, edges=922,868, ..., train=253,176, val=84,392, test=84,393)
    """
    about = info(name)
    kind = _split_kind(about, split)
    percentages = splits.parse_percentages(kind)
    _check_split(about, kind, percentages)
    files = Files(about, root, download=download, verify=verify, progress=progress)
    raw = read(files, features=features, official=kind == "official")
    masks = None
    if kind == "official":
        masks = splits.official_split(raw.splits, raw.num_nodes, seed, about.name)
    with warnings.catch_warnings():
        # Expected for public datasets, and counted in Graph.cleaning.
        warnings.filterwarnings("ignore", "the input was cleaned", GraphWarning)
        try:
            graph = _graph(raw, masks, percentages, seed, drop_isolated, about.directed)
        except GraphError as error:
            raise DatasetError(
                f"the files of {about.name} in {files.home} make no graph ({error}); fetch them "
                "again"
            ) from error
    return graph.named(about.title)


def resplit(graph: Graph, name: str, split: str, seed: int) -> Graph | None:
    """Return a dataset's graph with another split, without reading it again.

    Args:
        graph: The result of `load` with the same name and split.
        name: Name of the dataset.
        split: As for `load`.
        seed: Number of the split.

    Returns:
        The graph, or None where the split has to be read from files.

    Example:
        >>> graph = Graph.from_edges([0, 1, 2], [1, 2, 3], labels=[0, 0, 1, 1])
        >>> resplit(graph, "cora", "50/25/25", seed=1).masks["train"].sum().item()
        2
    """
    about = info(name)
    percentages = splits.parse_percentages(_split_kind(about, split))
    if percentages is not None and graph.labels is not None:
        return graph.with_data(masks=splits.random_split(graph.labels, seed, percentages))
    return graph if about.official_splits == 1 else None


def read(files: Files, *, features: bool = True, official: bool = False) -> RawGraph:
    """Return the content of a dataset's files."""
    module = "standins" if files.info.generated else f"readers.{files.info.reader}"
    reader: Callable[..., RawGraph] = import_module(f"dhilgt.datasets.{module}").read
    return reader(files, features=features, official=official)


def _split_kind(about: DatasetInfo, split: str | None) -> str | None:
    """Return "official", percentages such as "60/20/20", or None."""
    kind = about.paper_split if split == "paper" else split
    return "60/20/20" if kind == "random" else kind


def _check_split(about: DatasetInfo, kind: str | None, percentages: Any) -> None:
    if kind is None or percentages is not None:
        return
    if kind != "official":
        raise DatasetError(
            f"{argument('split', kind)}; pass 'paper', 'random', 'official', None, or shares such "
            "as '50/25/25'"
        )
    if about.official_splits == 0:
        raise DatasetError(
            f"{about.name} has no official split; pass {argument('split', 'random')} or shares "
            "such as '60/20/20'"
        )


def _graph(
    raw: RawGraph,
    masks: splits.Masks | None,
    percentages: tuple[float, ...] | None,
    seed: int,
    drop_isolated: bool,
    directed: bool,
) -> Graph:
    sources, targets, labels, x, nodes = raw.sources, raw.targets, raw.labels, raw.features, None
    if drop_isolated:
        is_edge = sources != targets
        sources, targets = sources[is_edge], targets[is_edge]
        connected = np.zeros(raw.num_nodes, dtype=np.bool_)
        connected[sources] = connected[targets] = True
        nodes = np.flatnonzero(connected)
        labels = labels[nodes]
        x = None if x is None else x[nodes]
        masks = None if masks is None else {part: mask[nodes] for part, mask in masks.items()}
    if percentages is not None:
        masks = splits.random_split(labels, seed, percentages)
    return Graph.from_edges(
        sources,
        targets,
        num_nodes=raw.num_nodes if nodes is None else None,
        nodes=nodes,
        directed=directed,
        features=x,
        labels=labels,
        masks=masks,
    )
