"""Types of the catalogue of datasets, and access by name; the entries are in catalogue.toml."""

from dataclasses import dataclass

from dhilgt.errors import DatasetError
from dhilgt.utils.checks import name_hint


@dataclass(frozen=True, slots=True)
class RawFile:
    """One file as its authors published it.

    Attributes:
        path: Where it belongs, relative to the dataset's folder.
        url: Where it comes from; None if it comes in the dataset's archive.
        sha256: Of the published content, where known.
        repacked: SHA-256 of other files with the same values that are accepted too.
        num_bytes: Size of the published content, where known.
        git_blob: Git's name of the published content, a check where no SHA-256 is known.
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
        url: Where it comes from.
        strip: How many leading folders of its names to leave out.
        under: Folder of the dataset to unpack to; "" for the dataset's folder itself.
        max_bytes: Refuse to unpack more than this.
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
        edges: Entries of the adjacency matrix once loops and repeats are gone and every edge has
            its reverse.
        features: Numbers per node.
        classes: Number of classes.
        homophily: Share of edges between labelled nodes whose ends have the same class.
    """

    nodes: int | None = None
    edges: int | None = None
    features: int | None = None
    classes: int | None = None
    homophily: float | None = None


@dataclass(frozen=True, slots=True)
class DatasetInfo:
    """What is known about a dataset.

    Attributes:
        name: What `load` calls it.
        about: One line.
        reader: The format of its files; "standin" for a generated graph.
        facts: Its size as published.
        files: Its raw files.
        folders: Names its folder may have; the first is used for new files.
        metrics: Scores to log, the one that counts first.
        paper_split: What `split="paper"` means here.
        official_splits: How many official splits there are.
        directed: Whether edges keep their direction.
        in_paper: Whether it is one of the twelve graphs of the paper.
        source: Who publishes it.
        licence: Under which terms.
        citation: What to cite.
        archive: What its files come in, if they do.
        standin_for: The dataset this generated graph stands in for; None if it is a real one.
        note: What one should know.
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
        """The score that counts; see `dhilgt.metrics`."""
        return self.metrics[0]

    @property
    def loss(self) -> str:
        """What is minimised in training: all of these are single-label classification."""
        return "cross_entropy"

    @property
    def generated(self) -> bool:
        """Whether this is a generated stand-in; its scores say nothing about the real graph."""
        return self.standin_for is not None

    @property
    def title(self) -> str:
        """The name, and that it is generated where it is."""
        if not self.generated:
            return self.name
        return f"{self.name} (generated stand-in, not {self.standin_for})"


def names() -> tuple[str, ...]:
    """Gives the names of all datasets, the paper's twelve first, the stand-ins last.

    Example:
        >>> names()[:3], names()[-1]
        (('chameleon', 'squirrel', 'tolokers'), 'arxiv-like')
    """
    from dhilgt.datasets.catalogue import catalogue

    return tuple(catalogue())


def info(name: str) -> DatasetInfo:
    """Gives what is known about a dataset.

    Args:
        name: One of `names()`; case and "_" for "-" do not matter.

    Raises:
        DatasetError: If there is none of that name, with the nearest one.

    Example:
        >>> info("tolokers").metric, info("cora").facts.nodes
        ('roc_auc', 2708)
    """
    from dhilgt.datasets.catalogue import catalogue

    key = str(name).lower().replace("_", "-")
    if key not in catalogue():
        hint = name_hint(key, catalogue(), "see dhilgt.datasets.names()")
        raise DatasetError(f"there is no dataset named {name!r}; {hint}")
    return catalogue()[key]
