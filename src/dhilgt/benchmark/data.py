"""The graphs of a comparison: public ones by name, or generated ones by their size."""

from __future__ import annotations

from dataclasses import dataclass
from os import PathLike

from dhilgt.benchmark.generated import PREFIX, Generated
from dhilgt.datasets import load as load_public
from dhilgt.datasets import random_split
from dhilgt.datasets.fetch import fetch
from dhilgt.datasets.files import Files
from dhilgt.datasets.registry import info, names
from dhilgt.graph import Graph

SMALL = ("chameleon", "squirrel", "tolokers", "cora", "citeseer", "pubmed")


@dataclass(frozen=True)
class DataInfo:
    """What a comparison needs to know of a dataset.

    Attributes:
        name: As it is asked for.
        metrics: Scores to log; the first one chooses epochs and ranks systems.
        standin_for: The graph that this one stands in for: its scores say nothing. None for real
            graphs.
    """

    name: str
    metrics: tuple[str, ...]
    standin_for: str | None = None


def about(name: str) -> DataInfo:
    """Gives what is known of a dataset.

    Raises:
        DatasetError: If there is none of that name.

    Example:
        >>> about("tolokers").metrics, about("generated:50").name
        (('roc_auc',), 'generated:50')
    """
    if str(name).startswith(PREFIX):
        return DataInfo(Generated.from_name(name).name, ("accuracy", "macro_f1"))
    found = info(name)
    return DataInfo(found.name, found.metrics, found.standin_for)


def chosen(text: str) -> list[str]:
    """Gives the datasets meant by "small", "paper" or a list like "cora,chameleon".

    Example:
        >>> chosen("cora, chameleon"), len(chosen("paper"))
        (['cora', 'chameleon'], 12)
    """
    found: list[str] = []
    for part in (part.strip() for part in text.split(",")):
        if part == "small":
            found += SMALL
        elif part == "paper":
            found += [name for name in names() if info(name).in_paper]
        else:
            found.append(about(part).name)
    return list(dict.fromkeys(found))


def is_here(name: str, root: str | PathLike[str] | None = None) -> bool:
    """Says whether all files of a dataset are on this machine; nothing is fetched.

    Example:
        >>> is_here("generated:50"), is_here("genius-like")
        (True, True)
    """
    if about(name).name.startswith(PREFIX):
        return True
    files = Files(info(name), root)
    return all(files.find(file.path) is not None for file in files.info.files)


def make_ready(name: str, root: str | PathLike[str] | None = None) -> None:
    """Fetches the files of a dataset that are not here, before anything is run.

    A large generated graph is made here, once, and not in each process that wants it.

    Raises:
        DatasetError: If they cannot be had; the message says which, and where to put them.
    """
    if name.startswith(PREFIX):
        Generated.from_name(name).make_ready()
    elif not is_here(name, root):
        fetch(Files(info(name), root))


def load(name: str, seed: int, root: str | PathLike[str] | None = None) -> Graph:
    """Gives a graph with features, classes and the paper's split of a seed.

    Args:
        name: A dataset, or "generated:NODES" for a random graph of that many nodes; more can be
            asked for, see `Generated`.
        seed: Of the split; the graph does not depend on it.
        root: Folder that holds datasets, as for `dhilgt.datasets.load`.

    Example:
        >>> load("generated:50", seed=3).masks["train"].sum().item()
        30
    """
    if not name.startswith(PREFIX):
        return load_public(name, root, split="paper", seed=seed)
    graph = Generated.from_name(name).graph()
    assert graph.labels is not None, "generated graphs have classes"
    return graph.with_data(masks=random_split(graph.labels, seed))
