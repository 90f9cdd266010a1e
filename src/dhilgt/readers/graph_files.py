"""Files of edges: text, Parquet, NPZ, MatrixMarket; plain or compressed with gzip."""

import contextlib
import warnings
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from dhilgt.errors import GraphError, GraphWarning, argument, warn
from dhilgt.graph import build, checks
from dhilgt.graph.graph import Graph
from dhilgt.graph.node_ids import find
from dhilgt.readers import files, node_lists, node_match, node_tables, pipes
from dhilgt.readers.edge_layout import EdgeTextOptions, column_positions
from dhilgt.readers.edge_text import EdgeTable, read_edge_lines
from dhilgt.readers.end_names import end_columns
from dhilgt.readers.matrix_market import read_matrix_market
from dhilgt.readers.node_match import NodeTable
from dhilgt.readers.separators import SEPARATOR_OF_FORMAT
from dhilgt.utils.checks import num_threads

FORMATS = ("text", "csv", "tsv", "parquet", "npz", "mtx")
_HEAD_BYTES = 1 << 16


@pipes.kept()
def read_graph(
    path: "str | PathLike[str]",
    *,
    format: str | None,
    separator: str | None,
    header: bool | None,
    comment: str | None,
    columns: Sequence[str | int] | None,
    weights: str | None,
    nodes: Any,
    num_nodes: int | None,
    directed: bool,
    features: Any,
    labels: Any,
    masks: "Mapping[str, Any] | str | PathLike[str] | None",
    threads: int | None,
    progress: bool,
) -> Graph:
    """See `Graph.read`."""
    if num_nodes is not None:
        checks.num_nodes(num_nodes)
    checks.weights(None, weights, "weights")
    columns = _two_columns(columns)
    workers = num_threads(threads)
    arguments = {"nodes": nodes, "features": features, "labels": labels}
    # The small files first: their errors should not wait for the large file.
    notes: tuple[str, ...] = ()
    if _is_path(nodes):
        nodes, notes = node_lists.nodes_and_notes(nodes, comment)
    features = node_lists.read_features(features) if _is_path(features) else features
    labels = node_lists.read_labels(labels) if _is_path(labels) else labels
    split = node_tables.read_split(masks) if isinstance(masks, (str, PathLike)) else masks

    file = files.check_file(path)
    kind = _format_of(file, format)
    if kind == "parquet":
        table = _read_parquet(file, columns, weights)
    elif kind == "npz":
        table = _read_npz(file, weights)
    else:
        with files.opened(file, progress) as stream:
            text_options = EdgeTextOptions(
                path=file,
                separator=SEPARATOR_OF_FORMAT.get(kind) if separator is None else separator,
                header=header,
                columns=columns,
                ignore_weights=weights == "ignore",
                integers_only=num_nodes is not None,
                threads=workers,
                comment=comment,
            )
            if kind == "mtx":
                table = read_matrix_market(stream, text_options, directed)
            else:
                table = read_edge_lines(stream, text_options)
    options = {"nodes": nodes, "num_nodes": num_nodes, "directed": directed, "threads": workers}
    with _file_in_errors(arguments):
        graph = _with_tables(table, features, labels, split, **options)
    return graph.with_notes(*table.notes, *notes)


@contextlib.contextmanager
def _file_in_errors(arguments: Mapping[str, Any]) -> Iterator[None]:
    """Add the name of the file to errors about an array that was read from one."""
    try:
        yield
    except GraphError as error:
        source = arguments.get(error.argument or "")
        if not _is_path(source):
            raise
        raise GraphError(f"{source}: {error.quotable}", argument=error.argument) from error


def _with_tables(table: EdgeTable, features: Any, labels: Any, split: Any, **options: Any) -> Graph:
    """Return the graph with the features, classes and masks of tables, matched by id."""
    arrays = {
        name: None if isinstance(value, NodeTable) else value
        for name, value in (("features", features), ("labels", labels), ("masks", split))
    }
    graph = _to_graph(table, **options, **arrays)
    if isinstance(features, NodeTable):
        if options["nodes"] is None and options["num_nodes"] is None and table.num_nodes is None:
            isolated = _ids_without_edge(features, graph)
            if isolated.size:
                options["nodes"] = np.sort(np.concatenate([graph.nodes, isolated]))
                with warnings.catch_warnings():  # the first graph has warned about cleaning
                    warnings.simplefilter("ignore", GraphWarning)
                    graph = _to_graph(table, **options, **arrays)
                warn(
                    f"{features.file}: nodes with features and no edge: {isolated.size:,} (kept, "
                    "without neighbours)"
                )
        graph = graph.with_data(features=node_match.features_of(features, graph.ids))
    if isinstance(labels, NodeTable):
        graph = graph.with_data(labels=node_match.classes_of(labels, graph.ids))
    if isinstance(split, NodeTable):
        graph = graph.with_data(masks=node_match.masks_of(split, graph.ids, graph.labels))
    return graph


def _ids_without_edge(features: NodeTable, graph: Graph) -> checks.IdArray:
    ids = features.ids_like(graph.ids.are_text)
    features.refuse_repeats(ids)
    return ids[find(graph.node_ids, graph.num_nodes, ids) < 0]


def _to_graph(table: EdgeTable, *, nodes: Any, num_nodes: int | None, **options: Any) -> Graph:
    if num_nodes is None and nodes is None:
        num_nodes = table.num_nodes
    if table.node_ids is None:
        return Graph.from_edges(
            table.sources, table.targets, nodes=nodes, num_nodes=num_nodes, **options
        )
    if nodes is not None:
        sources, targets = table.node_ids[table.sources], table.node_ids[table.targets]
        return Graph.from_edges(sources, targets, nodes=nodes, num_nodes=num_nodes, **options)
    count = checks.num_nodes(len(table.node_ids))
    parts = build.assemble(
        table.sources, table.targets, count, node_ids=table.node_ids, rows=None, **options
    )
    return Graph(parts)


# ---- arguments and format ----------------------------------------------------------------------


def _is_path(value: Any) -> bool:
    return isinstance(value, (str, PathLike))


def _two_columns(columns: Sequence[str | int] | None) -> tuple[str | int, str | int] | None:
    if columns is None:
        return None
    pair = tuple(columns) if not isinstance(columns, str) else ()
    if len(pair) != 2 or pair[0] == pair[1]:
        raise GraphError(f"{argument('columns', columns)}; pass two different names or positions")
    for column in pair:
        if not isinstance(column, str) and (not isinstance(column, int) or column < 0):
            raise GraphError(
                f"{argument('columns')} holds {column!r}; pass names or positions from 0"
            )
    return pair[0], pair[1]


def _format_of(file: Path, requested: str | None) -> str:
    if requested is not None and requested not in FORMATS:
        raise GraphError(f"{argument('format', requested)}; pass one of {', '.join(FORMATS)}")
    with files.opened(file, False) as stream:
        head = stream.read(_HEAD_BYTES)
    detected = "text"
    if head.startswith(b"PAR1"):
        detected = "parquet"
    elif head.startswith(b"PK"):
        detected = "npz"
    elif head.lower().startswith(b"%%matrixmarket"):
        detected = "mtx"
    if requested is None:
        return detected
    if requested in ("parquet", "npz", "mtx") and requested != detected:
        raise GraphError(
            f"{file} is not {requested}: it begins with {head[:16]!r}; leave format out"
        )
    return requested


# ---- Parquet and NPZ ---------------------------------------------------------------------------


def _read_parquet(
    file: Path, columns: tuple[str | int, str | int] | None, weights: str | None
) -> EdgeTable:
    try:
        import pyarrow.parquet
    except ImportError as error:
        raise GraphError(f"{file} is Parquet, which needs pyarrow; install dhilgt[io]") from error
    try:
        content = pipes.on_disk(file)
        names = pyarrow.parquet.read_schema(content).names
        positions = column_positions(columns, names, file)
        if columns is None and len(names) != 2:
            positions = end_columns(names) or positions
            if len(names) < 2:
                raise GraphError(f"{file} has 1 column ({names[0]!r}); edges need two")
            if weights != "ignore":
                checks.refuse_weights(f"{file} has {len(names)} columns ({', '.join(names)})")
        table = pyarrow.parquet.read_table(content, columns=[names[at] for at in positions])
    except (pyarrow.ArrowException, OSError) as error:
        raise GraphError(f"{file} is damaged Parquet ({error}); make it again") from error
    ends = []
    for position in positions:
        column = table.column(names[position])
        if column.null_count:
            row = column.is_null().to_numpy().argmax()
            raise GraphError(
                f"{file}: row {row} of column {names[position]!r} is empty; an edge needs two ids"
            )
        ends.append(column.to_numpy())
    others = [name for at, name in enumerate(names) if at not in positions]
    notes = [] if not others else [
        f"{file}: edges go from column {names[positions[0]]} to column {names[positions[1]]}; "
        f"ignored: {', '.join(others)}"
    ]  # fmt: skip
    return EdgeTable(ends[0], ends[1], notes=tuple(notes))


def _read_npz(file: Path, weights: str | None) -> EdgeTable:
    try:
        with np.load(pipes.on_disk(file), allow_pickle=False) as archive:
            arrays = {
                name: archive[name]
                for name in ("src", "dst", "edge_index", "edges", "num_nodes", "weights", "data",
                             "row", "col", "indptr", "indices", "shape", "format")
                if name in archive.files
            }  # fmt: skip
            content = ", ".join(archive.files)
    except (ValueError, OSError, zipfile.BadZipFile, KeyError, EOFError, zlib.error) as error:
        raise GraphError(
            f"{file} cannot be read as NPZ ({error}); save plain arrays with numpy.savez "
            "(objects are not read, they could run code)"
        ) from error
    count = int(arrays["num_nodes"]) if "num_nodes" in arrays else None
    if "src" in arrays and "dst" in arrays:
        checks.weights(arrays.get("weights"), weights, "weights")
        return EdgeTable(arrays["src"], arrays["dst"], num_nodes=count)
    if "edge_index" in arrays:
        pairs = checks.edge_index(arrays["edge_index"])
        if count is None:
            count = int(pairs.max(initial=-1)) + 1
        return EdgeTable(pairs[0], pairs[1], num_nodes=count)
    if "edges" in arrays:
        pairs = arrays["edges"]
        if pairs.ndim != 2 or pairs.shape[1] != 2:
            raise GraphError(f"{file}: edges has shape {pairs.shape}; save an (E, 2) array")
        return EdgeTable(pairs[:, 0], pairs[:, 1], num_nodes=count)
    if {"indptr", "indices", "shape", "format"} <= arrays.keys() or {
        "row",
        "col",
        "shape",
    } <= arrays.keys():
        return _from_saved_scipy(file, arrays, weights)
    raise GraphError(
        f"{file} holds {content or 'nothing'}; save src and dst, edge_index (2, E), edges (E, 2), "
        "or scipy.sparse.save_npz"
    )


def _from_saved_scipy(file: Path, arrays: dict[str, Any], weights: str | None) -> EdgeTable:
    shape = tuple(int(side) for side in arrays["shape"])
    if len(shape) != 2 or shape[0] != shape[1]:
        raise GraphError(f"{file} holds a matrix of shape {shape}; an adjacency matrix is square")
    if "indptr" in arrays:
        indptr, columns = arrays["indptr"], arrays["indices"]
        lengths = np.diff(indptr)
        if len(indptr) != shape[0] + 1 or (lengths < 0).any() or indptr[-1] != len(columns):
            raise GraphError(
                f"{file}: indptr does not fit indices and shape {shape}; save it again"
            )
        rows = np.repeat(np.arange(shape[0]), lengths)
        if arrays["format"].item() in (b"csc", "csc"):
            rows, columns = columns, rows
    else:
        rows, columns = arrays["row"], arrays["col"]
    data = arrays.get("data")
    if data is not None and len(data) == len(rows):
        rows, columns, data = rows[data != 0], columns[data != 0], data[data != 0]
        checks.weights(data, weights, f"{file}: data")
    return EdgeTable(rows, columns, num_nodes=shape[0])
