"""The datasets by name: the types of their entries, which are in catalogue.toml."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from importlib import resources
from typing import Any

from dhilgt.errors import DatasetError, wording
from dhilgt.utils.checks import name_hint


@dataclass(frozen=True, slots=True)
class RawFile:
    """One file as its authors published it.

    Attributes:
        path: Where it belongs, relative to the dataset's folder.
        url: Its address; None if it comes in the dataset's archive.
        sha256: SHA-256 of the published content, where known.
        repacked: SHA-256 of other files with the same values that are accepted too.
        num_bytes: Size of the published content, where known.
        git_blob: Git's hash of the published content, checked where no SHA-256 is known.
        needed_for: "graph", "features" or "official" (only for the official split).

    Example:
        >>> RawFile("raw/tolokers.npz").name
        'tolokers.npz'
    """

    path: str
    url: str | None = None
    sha256: str | None = None
    num_bytes: int | None = None
    git_blob: str | None = None
    repacked: tuple[str, ...] = ()
    needed_for: str = "graph"

    @property
    def name(self) -> str:
        """The last part of the path."""
        return self.path.rpartition("/")[2]


@dataclass(frozen=True, slots=True)
class Archive:
    """An archive that holds the raw files.

    Attributes:
        url: Its address.
        strip: Number of leading folders of its names to leave out.
        under: Folder of the dataset to unpack to; "" for the dataset's folder itself.
        max_bytes: Limit on the unpacked size.
    """

    url: str
    strip: int
    under: str
    max_bytes: int


@dataclass(frozen=True, slots=True)
class Facts:
    """The size of a graph, as published; None where it is not on record.

    Attributes:
        nodes: Number of nodes.
        edges: Entries of the adjacency matrix without self-loops and repeats, every edge in both
            directions.
        features: Numbers per node.
        classes: Number of classes.
        homophily: Fraction of edges between labelled nodes whose ends have the same class.
    """

    nodes: int | None = None
    edges: int | None = None
    features: int | None = None
    classes: int | None = None
    homophily: float | None = None


@dataclass(frozen=True, slots=True)
class DatasetInfo:
    """The entry of a dataset in the catalogue.

    Attributes:
        name: Its name for `load`.
        about: Description of one line.
        reader: The format of its files; "standin" for a generated graph.
        facts: Its size as published.
        files: Its raw files.
        folders: Names its folder may have; the first is used for new files.
        metrics: Scores to log, the main one first.
        paper_split: The meaning of `split="paper"` for this dataset.
        official_splits: Number of official splits.
        directed: Whether edges keep their direction.
        in_paper: Whether it is one of the twelve graphs of the paper.
        source: Its publisher.
        licence: Its licence.
        citation: The publications to cite.
        archive: The archive that holds its files, if there is one.
        standin_for: The dataset that this generated graph replaces; None if it is a real one.
        note: Remarks for users.
    """

    name: str
    about: str
    reader: str
    facts: Facts
    files: tuple[RawFile, ...] = ()
    folders: tuple[str, ...] = ()
    metrics: tuple[str, ...] = ("accuracy",)
    paper_split: str = "60/20/20"
    official_splits: int = 0
    directed: bool = False
    in_paper: bool = False
    source: str = ""
    licence: str = ""
    citation: str = ""
    archive: Archive | None = None
    standin_for: str | None = None
    note: str = ""

    @property
    def metric(self) -> str:
        """The main score; see `dhilgt.metrics`."""
        return self.metrics[0]

    @property
    def loss(self) -> str:
        """The training loss: every dataset is a single-label classification."""
        return "cross_entropy"

    @property
    def generated(self) -> bool:
        """Whether this is a generated stand-in; its scores say nothing about the real graph."""
        return self.standin_for is not None

    @property
    def title(self) -> str:
        """The name, with a remark if it is generated."""
        if not self.generated:
            return self.name
        return f"{self.name} (generated stand-in, not {self.standin_for})"


def names() -> tuple[str, ...]:
    """Return the names of all datasets, the paper's twelve first, the stand-ins last.

    Example:
        >>> names()[:3], names()[-1]
        (('chameleon', 'squirrel', 'tolokers'), 'arxiv-like')
    """
    return tuple(_catalogue())


def info(name: str) -> DatasetInfo:
    """Return the entry of a dataset in the catalogue.

    Args:
        name: One of `names()`. Case and punctuation do not matter, nor does the publisher's
            name in front: ``Amazon_Photo``, ``Planetoid/Cora``, ``arxiv``.

    Raises:
        DatasetError: If the name is unknown, with the nearest one.

    Example:
        >>> info("tolokers").metric, info("cora").facts.nodes, info("AmazonPhoto").name
        ('roc_auc', 2708, 'photo')
    """
    entries = _catalogue()
    key = _letters(str(name))
    known = _aliases()
    found = known.get(key) or known.get(_without_publisher(key))
    if found is None:
        bare = str(name).lower().replace("_", "-").rpartition("/")[2]
        hint = name_hint(
            bare, entries, f"see {wording('dhilgt.datasets.names()', 'dhilgt datasets list')}"
        )
        raise DatasetError(f"there is no dataset named {name!r}; {hint}")
    return entries[found]


# In front of a dataset's name, as classes of PyG and OGB have it. Not WikipediaNetwork, whose
# chameleon and squirrel are other graphs than the filtered ones.
_PUBLISHERS = (
    "planetoid", "amazon", "coauthor", "ogbn", "ogb", "heterophilousgraphdataset",
    "linkxdataset", "linkx", "facebook100", "fb100",
)  # fmt: skip


def _letters(name: str) -> str:
    return "".join(letter for letter in name.lower() if letter.isalnum())


def _without_publisher(letters: str) -> str:
    for word in _PUBLISHERS:
        if letters.startswith(word):
            return letters.removeprefix(word)
    return letters


@cache
def _aliases() -> dict[str, str]:
    """Return names of datasets by their letters, as users may write them."""
    aliases: dict[str, str] = {}
    entries = _catalogue()
    for name in entries:
        aliases[_letters(name)] = name
    for name, entry in entries.items():
        if not entry.generated:
            for other in (*entry.folders, _without_publisher(_letters(name))):
                aliases.setdefault(_letters(other), name)
    return aliases


# ---- catalogue.toml ----------------------------------------------------------------------------


@cache
def _catalogue() -> dict[str, DatasetInfo]:
    file = resources.files("dhilgt.datasets") / "catalogue.toml"
    tables = tomllib.loads(file.read_text(encoding="utf-8"))
    entries = {
        name: _dataset(name, {**tables["family"][values["family"]], **values})
        for name, values in tables["dataset"].items()
    }
    for name, values in tables["standin"].items():
        entries[name] = _standin(name, entries[values["stands_in_for"]], values)
    return entries


def _dataset(name: str, values: dict[str, Any]) -> DatasetInfo:
    del values["family"]
    base_url = values.pop("base_url", None)
    archive = values.pop("archive", None)
    return DatasetInfo(
        name=name,
        facts=Facts(**values.pop("facts", {})),
        files=tuple(_raw_file(file, base_url) for file in values.pop("files")),
        folders=tuple(values.pop("folders", [name])),
        metrics=tuple(values.pop("metrics", ["accuracy"])),
        archive=None if archive is None else Archive(**archive),
        **values,
    )


def _raw_file(values: Mapping[str, Any], base_url: str | None) -> RawFile:
    file = RawFile(**{**values, "repacked": tuple(values.get("repacked", ()))})
    if file.url is None and base_url is not None:
        file = replace(file, url=f"{base_url}/{file.name}")
    return file


def _standin(name: str, real: DatasetInfo, values: Mapping[str, Any]) -> DatasetInfo:
    """Return a generated graph in place of a real one, of the same size.

    With ``real_graph = true`` only its features are generated, so its files are still needed.
    """
    own = {key: values[key] for key in ("about", "note")}
    facts = replace(real.facts, homophily=values["homophily"])
    if values.get("real_graph", False):
        kept = tuple(file for file in real.files if file.needed_for != "features")
        return replace(
            real, name=name, reader="standin", facts=facts, files=kept, in_paper=False,
            standin_for=real.name, **own,
        )  # fmt: skip
    return DatasetInfo(
        name=name, reader="standin", facts=facts, metrics=real.metrics,
        paper_split=values.get("paper_split", "60/20/20"), source="made here, from a seed",
        licence="none needed", citation="none", standin_for=real.name, **own,
    )  # fmt: skip
