"""From a name to a graph."""

import warnings
from collections.abc import Callable
from importlib import import_module
from os import PathLike
from typing import Any

import numpy as np

from dhilgt.datasets import splits
from dhilgt.datasets.files import Files
from dhilgt.datasets.readers.raw import Raw
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
    """Gives a public dataset as a graph with features, classes and a split.

    Files that are not here are fetched from their publishers. Loops and repeated edges go, and
    edges get their reverse unless the name says "directed".

    Args:
        name: One of `names()`.
        root: Folder that holds datasets; else the variable DHILGT_DATA names it, else it is the
            user's cache.
        split: "paper" (random 60/20/20 of the labelled nodes; the official one for OGB graphs),
            "random" (60/20/20), other shares such as "50/25/25", "official", or None for no split.
        seed: Which random split; of the official ones, the number ``seed`` modulo how many there
            are. The graph itself does not depend on it.
        drop_isolated: Leave out nodes without an edge; those that stay keep their numbers as ids.
        features: Read the features; without them their file need not be there.
        download: Fetch what is not here; otherwise that is an error.
        verify: Compare files with the SHA-256 on record.
        progress: Show a bar while fetching.

    Raises:
        DatasetError: If there is no such dataset or split, or its files cannot be had or read.

    Example:
        >>> load("genius")  # doctest: +SKIP
        Graph(genius, nodes=421,961, edges=1,845,736, ..., train=253,176, val=84,392, test=84,393)
    """
    about = info(name)
    way = about.paper_split if split == "paper" else split
    way = "60/20/20" if way == "random" else way
    shares = None if way is None or way == "official" else splits.parse_shares(way)
    _check_split(about, way, shares)
    files = Files(about, root, download=download, verify=verify, progress=progress)
    raw = read(files, features=features, official=way == "official")
    masks = None
    if way == "official":
        masks = splits.official_split(raw.splits, raw.num_nodes, seed, about.name)
    with warnings.catch_warnings():
        # What is cleaned is known of each dataset and counted in Graph.cleaning.
        warnings.filterwarnings("ignore", "the input was cleaned", GraphWarning)
        try:
            graph = _graph(raw, masks, shares, seed, drop_isolated, about.directed)
        except GraphError as error:
            raise DatasetError(
                f"the files of {about.name} in {files.home} make no graph ({error}); fetch them "
                "again"
            ) from error
    return graph.named(about.title)


def resplit(graph: Graph, name: str, split: str, seed: int) -> Graph | None:
    """Gives a dataset's graph with another split, without reading it again.

    Args:
        graph: From `load`, with the same name and split.
        name: Of the dataset.
        split: As for `load`.
        seed: Which split.

    Returns:
        The graph, or None where the split stands in files that have to be read.

    Example:
        >>> graph = Graph.from_edges([0, 1, 2], [1, 2, 3], labels=[0, 0, 1, 1])
        >>> resplit(graph, "cora", "50/25/25", seed=1).masks["train"].sum().item()
        2
    """
    about = info(name)
    way = about.paper_split if split == "paper" else split
    shares = splits.parse_shares("60/20/20" if way == "random" else way)
    if shares is not None and graph.labels is not None:
        return graph.with_data(masks=splits.random_split(graph.labels, seed, shares))
    return graph if about.official_splits == 1 else None


def read(files: Files, *, features: bool = True, official: bool = False) -> Raw:
    """Gives what the files of a dataset hold, as they hold it."""
    module = "standins" if files.info.generated else f"readers.{files.info.reader}"
    reader: Callable[..., Raw] = import_module(f"dhilgt.datasets.{module}").read
    return reader(files, features=features, official=official)


def _check_split(about: DatasetInfo, way: str | None, shares: Any) -> None:
    if way is None or shares is not None:
        return
    if way != "official":
        raise DatasetError(
            f"{argument('split', way)}; pass 'paper', 'random', 'official', None, or shares such "
            "as '50/25/25'"
        )
    if about.official_splits == 0:
        raise DatasetError(
            f"{about.name} has no official split; pass {argument('split', 'random')} or shares "
            "such as '60/20/20'"
        )


def _graph(
    raw: Raw,
    masks: splits.Masks | None,
    shares: tuple[float, ...] | None,
    seed: int,
    drop_isolated: bool,
    directed: bool,
) -> Graph:
    labels, x, nodes = raw.labels, raw.features, None
    if drop_isolated:
        joined = np.zeros(raw.num_nodes, dtype=np.bool_)
        between = raw.sources != raw.targets
        for ends in (raw.sources, raw.targets):
            joined[ends[between]] = True
        nodes = np.flatnonzero(joined)
        labels = labels[nodes]
        x = None if x is None else x[nodes]
        masks = None if masks is None else {part: mask[nodes] for part, mask in masks.items()}
    sources, targets = raw.sources, raw.targets
    if nodes is not None:
        sources, targets = sources[between], targets[between]
    if shares is not None:
        masks = splits.random_split(labels, seed, shares)
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
