"""The graphs of a comparison: public datasets by name, or random graphs by their size."""

from __future__ import annotations

import re
from dataclasses import dataclass, fields
from os import PathLike

from dhilgt import generate
from dhilgt.classifier.cache import Cache
from dhilgt.datasets import load as load_public
from dhilgt.datasets import random_split
from dhilgt.datasets.fetch import fetch
from dhilgt.datasets.files import Files
from dhilgt.datasets.registry import info, names
from dhilgt.errors import ArtifactError, DatasetError, warn
from dhilgt.graph.graph import Graph

PREFIX = "generated:"
_LEAST_NODES = 20
_KEPT_EDGES = 1_000_000  # from here on generating a graph takes longer than reading it
_NODES = re.compile(r"[1-9]\d{0,8}")
_VALUE = re.compile(r"\d{1,9}")


@dataclass(frozen=True)
class Generated:
    """A graph of `dhilgt.generate`, defined by a few whole numbers.

    Attributes:
        nodes: Number of nodes.
        degree: Neighbours of a node on average: there are nodes * degree directed edges.
        features: Numbers per node.
        classes: Number of classes.
        seed: Of the graph.

    Example:
        >>> Generated(1000, degree=20).name
        'generated:1000:degree=20'
        >>> Generated.from_name("generated:1000:features=16:degree=20")
        Generated(nodes=1000, degree=20, features=16, classes=3, seed=0)
    """

    nodes: int
    degree: int = 4
    features: int = 8
    classes: int = 3
    seed: int = 0

    @property
    def name(self) -> str:
        """The shortest name that `from_name` reads as this graph."""
        options = [field for field in fields(self) if field.name != "nodes"]
        more = (
            f":{option.name}={getattr(self, option.name)}"
            for option in options
            if getattr(self, option.name) != option.default
        )
        return f"{PREFIX}{self.nodes}{''.join(more)}"

    @property
    def edges(self) -> int:
        """Edges, counted in both directions."""
        return self.nodes * self.degree

    @classmethod
    def from_name(cls, name: str) -> Generated:
        """Read a name like "generated:1000" or "generated:1000:degree=20:features=64".

        Raises:
            DatasetError: If it is none.
        """
        nodes, *options = name.removeprefix(PREFIX).split(":")
        known = {field.name for field in fields(cls)} - {"nodes"}
        values: dict[str, int] = {}
        valid = name.startswith(PREFIX) and bool(_NODES.fullmatch(nodes))
        for option in options:
            key, _, value = option.partition("=")
            valid = valid and key in known and key not in values and bool(_VALUE.fullmatch(value))
            if valid:
                values[key] = int(value)
        if not valid or int(nodes) < _LEAST_NODES:
            raise DatasetError(
                f"{name!r} is not a generated graph; write generated:NODES with at least "
                f"{_LEAST_NODES} nodes, and after it any of "
                f"{', '.join(f':{key}=NUMBER' for key in sorted(known))}"
            )
        return cls(int(nodes), **values)

    def graph(self) -> Graph:
        """Return the graph, without a split; a large one is made once and kept in the cache.

        Raises:
            DatasetError: If there is no graph like that.
        """
        if self.edges < _KEPT_EDGES:
            return self._generated()
        try:
            return Cache().graph(self.name, self._generated, progress=False)
        except (ArtifactError, OSError) as error:
            warn(f"{self.name} cannot be kept for the next time ({error})")
            return self._generated()

    def make_ready(self) -> None:
        """Make a large graph and keep it, so that `graph` need not."""
        if self.edges >= _KEPT_EDGES:
            self.graph()

    def _generated(self) -> Graph:
        try:
            return generate(
                self.nodes,
                self.degree,
                num_classes=self.classes,
                num_features=self.features,
                seed=self.seed,
            )
        except ValueError as error:  # more edges than there is room for, no features, ...
            raise DatasetError(f"{self.name}: {error}") from error


SMALL = ("chameleon", "squirrel", "tolokers", "cora", "citeseer", "pubmed")


@dataclass(frozen=True)
class DataInfo:
    """What a comparison needs to know of a dataset.

    Attributes:
        name: Its name.
        metrics: Scores to log; the first one chooses epochs and ranks systems.
        standin_for: The graph that this one stands in for, without meaningful scores. None for
            real graphs.
    """

    name: str
    metrics: tuple[str, ...]
    standin_for: str | None = None


def about(name: str) -> DataInfo:
    """Return what is known of a dataset.

    Raises:
        DatasetError: If there is none of that name.

    Example:
        >>> about("tolokers").metrics, about("generated:50").name
        (('roc_auc',), 'generated:50')
    """
    if str(name).startswith(PREFIX):
        return DataInfo(Generated.from_name(name).name, ("accuracy", "macro_f1"))
    known = info(name)
    return DataInfo(known.name, known.metrics, known.standin_for)


def chosen(text: str) -> list[str]:
    """Return the datasets meant by "small", "paper" or a list like "cora,chameleon".

    Example:
        >>> chosen("cora, chameleon"), len(chosen("paper"))
        (['cora', 'chameleon'], 12)
    """
    chosen_names: list[str] = []
    for part in (part.strip() for part in text.split(",")):
        if part == "small":
            chosen_names += SMALL
        elif part == "paper":
            chosen_names += [name for name in names() if info(name).in_paper]
        else:
            chosen_names.append(about(part).name)
    return list(dict.fromkeys(chosen_names))


def has_official_splits(name: str) -> bool:
    """Return whether a dataset comes with several splits, so that scores have a spread.

    Example:
        >>> [has_official_splits(name) for name in ("squirrel", "cora", "generated:50")]
        [True, False, False]
    """
    return not about(name).name.startswith(PREFIX) and info(name).official_splits > 1


def is_here(name: str, root: str | PathLike[str] | None = None) -> bool:
    """Return whether all files of a dataset are on this machine; nothing is fetched.

    Example:
        >>> is_here("generated:50"), is_here("genius-like")
        (True, True)
    """
    if about(name).name.startswith(PREFIX):
        return True
    files = Files(info(name), root)
    return all(files.find(file.path) is not None for file in files.info.files)


def make_ready(name: str, root: str | PathLike[str] | None = None) -> None:
    """Fetch the missing files of a dataset, before anything is run.

    A large generated graph is made once and kept, not made in each process that needs it.

    Raises:
        DatasetError: If they are not available; the message names them and where to put them.
    """
    if name.startswith(PREFIX):
        Generated.from_name(name).make_ready()
    elif not is_here(name, root):
        fetch(Files(info(name), root))


def load(
    name: str, seed: int, root: str | PathLike[str] | None = None, split: str = "own"
) -> Graph:
    """Return a graph with features, classes and the split of a seed.

    Args:
        name: A dataset, or "generated:NODES" for a random graph of that many nodes; for further
            options see `Generated`.
        seed: Of the split; the graph does not depend on it.
        root: Folder that holds datasets, as for `dhilgt.datasets.load`.
        split: "own" for the paper's (random 60/20/20; the official one of OGB graphs), "official"
            for those that come with the data: number ``seed`` modulo their number.

    Raises:
        DatasetError: If there is no such graph, or it has no official split.

    Example:
        >>> load("generated:50", seed=3).masks["train"].sum().item()
        30
    """
    if not name.startswith(PREFIX):
        return load_public(name, root, split="paper" if split == "own" else split, seed=seed)
    if split != "own":
        raise DatasetError(f"{name} has no official split; choose the package's own splits")
    graph = Generated.from_name(name).graph()
    assert graph.labels is not None, "generated graphs have classes"
    return graph.with_data(masks=random_split(graph.labels, seed))
