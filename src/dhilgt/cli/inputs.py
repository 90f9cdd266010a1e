"""The source of a graph: from options or a file of settings to a `Graph`."""

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from dhilgt import datasets
from dhilgt.cli.label import edge_columns, naming_files, shown_name
from dhilgt.datasets.registry import info
from dhilgt.errors import ConfigError, GraphError
from dhilgt.features.from_graph import degree_features
from dhilgt.graph.feature_columns import FeatureColumns
from dhilgt.graph.graph import Graph
from dhilgt.readers import node_lists, pipes
from dhilgt.readers.files import check_file
from dhilgt.readers.node_tables import ColumnOptions
from dhilgt.utils.checks import name_hint

DEGREE = "degree"
PIPE = "a pipe"  # in a file of settings: an input that is gone; no path, paths are absolute there
_TAB_NAMES = ("\\t", "tab")
_PATHS = ("edges", "features", "labels", "nodes", "split", "root")
_OF_FILES = ("edges", "features", "labels", "nodes", "directed", "columns", "source_column",
             "target_column", "separator", "header", "comment", "ignore_weights", "id_column",
             "label_column", "split_column", "feature_columns")  # fmt: skip


@dataclass(frozen=True)
class Inputs:
    """Where a graph comes from.

    Attributes:
        dataset: Name of a public dataset; there are no other files then.
        root: Folder that holds datasets.
        drop_isolated: Leave out nodes of the dataset without an edge.
        edges: File of edges.
        features: File of features, or "degree" to make them.
        labels: File of classes.
        nodes: File of all ids.
        split: File of ids and parts; of a dataset "paper", "official", or percentages like
            "60/20/20".
        directed: Whether to keep the direction.
        columns: The two columns of edges, like "from,to".
        source_column: Column of the first ends of edges, in place of `columns`.
        target_column: That of the other ends.
        separator: What separates them.
        header: Whether the first line is a header.
        comment: Sign of lines to skip; "" for none.
        ignore_weights: Ignore further columns.
        id_column: Column of ids in tables.
        label_column: Column of classes.
        split_column: Column of parts.
        feature_columns: Columns of features, like "age,gene_*,!gene_7,zip:category"; in a file of
            settings a list too.
    """

    dataset: str | None = None
    root: str | None = None
    drop_isolated: bool = False
    edges: str | None = None
    features: str | None = None
    labels: str | None = None
    nodes: str | None = None
    split: str | None = None
    directed: bool = False
    columns: str | None = None
    source_column: str | None = None
    target_column: str | None = None
    separator: str | None = None
    header: bool | None = None
    comment: str | None = None
    ignore_weights: bool = False
    id_column: str | None = None
    label_column: str | None = None
    split_column: str | None = None
    feature_columns: Any = None

    @classmethod
    def from_file(cls, values: Mapping[str, Any], file: Path) -> "Inputs":
        """Return the inputs that the ``data`` section of a file describes.

        Args:
            values: The section.
            file: The file; paths in it are relative to its folder.
        """
        known = {one.name: one for one in fields(cls)}
        checked: dict[str, Any] = {}
        for key, value in values.items():
            if key not in known:
                hint = name_hint(key, known)
                raise ConfigError(f"{file}: data has the unknown key {key!r}; {hint}")
            is_switch = "bool" in str(known[key].type)
            if value is not None and isinstance(value, bool) is not is_switch:
                kind = "true or false" if is_switch else "text"
                raise ConfigError(f"{file}: data, {key} = {value!r}; write {kind}")
            checked[key] = value
        return cls(**checked).resolved(file.parent)

    def resolved(self, folder: Path) -> "Inputs":
        """Return the same inputs with absolute paths, for a file; a pipe has none."""
        changed: dict[str, Any] = {}
        for name in _PATHS:
            value = getattr(self, name)
            word = (name == "features" and value == DEGREE) or (name == "split" and self.dataset)
            if value is not None and not word:
                path = folder / Path(value).expanduser()
                gone = value == PIPE or pipes.is_pipe(value) or pipes.is_pipe(path)
                changed[name] = PIPE if gone else str(path.resolve())
        return replace(self, **changed)

    def on_disk(self) -> "Inputs":
        """Return the same inputs for another process, which cannot read this one's pipes."""
        copies: dict[str, Any] = {}
        for name in _PATHS:
            value = getattr(self, name)
            copies[name] = None if value is None else str(pipes.on_disk(Path(value)))
        return replace(self, **copies)

    def updated(self, options: Mapping[str, Any]) -> "Inputs":
        """Return the inputs with those of `options` that are not None."""
        named = {name: value for name, value in options.items() if value is not None}
        # A dataset replaces files, and files replace a dataset.
        if "dataset" in named and self.dataset is None:
            return Inputs(**named)
        if "edges" in named and self.dataset is not None:
            return Inputs(**named)
        # Two ways to name the same columns.
        if "columns" in named:
            return replace(self, **{"source_column": None, "target_column": None, **named})
        if {"source_column", "target_column"} <= named.keys():
            return replace(self, **{"columns": None, **named})
        return replace(self, **named)

    def check(self) -> None:
        """Raise for inputs that cannot be trained on, before any file is read.

        Raises:
            GraphError: If something is missing, or does not go together.
        """
        if self.dataset is not None:
            info(self.dataset)  # raises for an unknown name, with the nearest one
            for name in _OF_FILES:
                if getattr(self, name) not in (None, False):
                    flag = "--" + name.replace("_", "-")
                    raise GraphError(f"{flag} is for files of your own; leave it or --data out")
            return
        for name in _PATHS:
            if getattr(self, name) == PIPE:
                raise GraphError(
                    f"the {name} of this run came from a pipe, which is gone; pass --{name} FILE "
                    "with the same content"
                )
        if self.edges is None:
            raise GraphError("no edges are given; pass --edges FILE, or --data NAME")
        if self.labels is None:
            raise GraphError("no labels are given, and training needs some; pass --labels FILE")
        if self.features is None:
            raise GraphError(
                "no features are given; pass --features FILE, or --features degree to learn from "
                "the number of neighbours"
            )
        for name in ("edges", "features", "labels", "nodes", "split"):
            path = getattr(self, name)
            if path not in (None, DEGREE, "-") and not Path(path).exists():
                check_file(path)  # raises, with the nearest name

    @property
    def title(self) -> str | None:
        """Name of the graph in messages."""
        if self.dataset is not None or self.edges is None:
            return self.dataset
        return str(shown_name(self.edges))

    def to_dict(self) -> dict[str, Any]:
        """Return the values that differ from the defaults, for a file."""
        return {
            one.name: getattr(self, one.name)
            for one in fields(self)
            if getattr(self, one.name) != one.default
        }

    def load(
        self,
        *,
        threads: int | None,
        progress: bool,
        seed: int = 0,
        feature_columns: FeatureColumns | None = None,
    ) -> Graph:
        """Read the graph; features without ids belong to nodes 0, 1, 2, ... or those listed.

        Args:
            threads: Threads for the native part.
            progress: Show a progress bar.
            seed: Of the split of a dataset.
            feature_columns: Columns to encode a table of features with; None fits them on it.

        Raises:
            GraphError: If a file is missing or wrong; the message names it.
        """
        if self.dataset is not None:
            return datasets.load(
                self.dataset,
                self.root,
                self.split or "paper",
                seed,
                drop_isolated=self.drop_isolated,
                progress=progress,
            )
        if self.edges is None:
            raise GraphError("no edges are given; pass --edges FILE, or --data NAME")
        file = None if self.features == DEGREE else self.features
        features: Any = file
        rows: int | None = None
        if features is not None and self.nodes is None:
            features = node_lists.read_features(features, ColumnOptions(comment=self.comment))
            if hasattr(features, "shape"):
                rows = int(features.shape[0]) if len(features.shape) else 0
        others = {"nodes": self.nodes, "features": file, "labels": self.labels, "masks": self.split}
        with self._naming_rows(rows), naming_files(self.edges, **others):
            graph = Graph.read(
                self.edges,
                separator="\t" if self.separator in _TAB_NAMES else self.separator,
                header=self.header,
                comment=self.comment,
                columns=edge_columns(self.columns, self.source_column, self.target_column),
                weights="ignore" if self.ignore_weights else None,
                nodes=self.nodes,
                num_nodes=rows,
                directed=self.directed,
                features=features,
                labels=self.labels,
                masks=self.split,
                id_column=self.id_column,
                label_column=self.label_column,
                split_column=self.split_column,
                feature_columns=feature_columns or self.feature_columns,
                threads=threads,
                progress=progress,
            )
        if self.features == DEGREE:
            graph = graph.with_data(features=degree_features(graph))
        gone = [f"--{name}" for name in _PATHS if getattr(self.resolved(Path()), name) == PIPE]
        if gone:
            graph = graph.with_notes(
                f"{' and '.join(gone)} came from a pipe: to repeat or resume a run, pass the same "
                "content again"
            )
        return graph

    @contextlib.contextmanager
    def _naming_rows(self, rows: int | None) -> Iterator[None]:
        """Explain errors about the number of nodes, which nobody typed: it is that of the rows."""
        try:
            yield
        except GraphError as error:
            if rows is None or not error.mentions("num_nodes"):
                raise
            raise GraphError(
                f"{error.problem}: {self.features} has {rows:,} rows and no ids, so the nodes are "
                f"0 to {rows - 1:,}; list the ids in the order of its rows with --nodes FILE, or "
                "give the features as a table with a column of ids"
            ) from error


class InputSource:
    """The graph of some inputs, read once, with the split of any seed.

    Args:
        inputs: Where it comes from.
        threads: Threads to read with.

    Example:
        >>> InputSource(Inputs(dataset="cora")).inputs.title
        'cora'
    """

    def __init__(self, inputs: Inputs, threads: int | None = None) -> None:
        self.inputs, self.threads = inputs, threads
        self._graph: Graph | None = None

    def __call__(self, seed: int, *, progress: bool = False) -> Graph:
        """Return the graph with the split of a seed.

        Args:
            seed: Of the split of a dataset; files have one split at most.
            progress: Show a bar while reading.
        """
        inputs = self.inputs
        if self._graph is not None and inputs.dataset is None:
            return self._graph
        if self._graph is not None and inputs.dataset is not None:
            other = datasets.resplit(self._graph, inputs.dataset, inputs.split or "paper", seed)
            if other is not None:
                return other
        self._graph = inputs.load(threads=self.threads, progress=progress, seed=seed)
        return self._graph

    def __reduce__(self) -> tuple[type["InputSource"], tuple[Inputs, int | None]]:
        """Another process reads the graph itself."""
        return InputSource, (self.inputs.on_disk(), self.threads)
