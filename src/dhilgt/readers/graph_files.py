"""Files of edges: text, Parquet, NPZ, MatrixMarket; plain or compressed with gzip."""

import contextlib
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from dhilgt.errors import GraphError, argument
from dhilgt.graph import build, checks
from dhilgt.graph.graph import Graph
from dhilgt.graph.table import is_frame
from dhilgt.readers import files, frames, node_data, pipes
from dhilgt.readers.edge_layout import EdgeTextOptions, column_positions
from dhilgt.readers.edge_text import EdgeTable, read_edge_lines
from dhilgt.readers.end_names import end_columns
from dhilgt.readers.matrix_market import read_matrix_market
from dhilgt.readers.node_data import NodeData
from dhilgt.readers.node_tables import ColumnOptions
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
    columns: Sequence[str | int] | None,
    weights: str | None,
    nodes: Any,
    num_nodes: int | None,
    directed: bool,
    features: Any,
    labels: Any,
    masks: Any,
    options: ColumnOptions,
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
    nodes, notes = node_data.node_ids_of(nodes, options.comment)
    data = NodeData.read(features, labels, None if isinstance(masks, Mapping) else masks, options)

    file = None if is_frame(path) else files.check_file(path)
    kind = "frame" if file is None else _format_of(file, format)
    if file is None:
        table = _read_frame(path, columns, weights)
    elif kind == "parquet":
        table = _read_parquet(file, columns, weights)
    elif kind == "npz":
        table = _read_npz(file, weights)
    else:
        with files.opened(file, progress) as stream:
            text_options = EdgeTextOptions(
                path=file,
                separator=SEPARATOR_OF_FORMAT.get(kind) if separator is None else separator,
                header=options.header,
                columns=columns,
                ignore_weights=weights == "ignore",
                integers_only=num_nodes is not None,
                threads=workers,
                comment=options.comment,
            )
            if kind == "mtx":
                table = read_matrix_market(stream, text_options, directed)
            else:
                table = read_edge_lines(stream, text_options)
    graph = _with_tables(table, data, masks, nodes, num_nodes, directed, workers, arguments)
    return graph.with_nodes(notes=(*table.notes, *notes, *graph.notes))


@contextlib.contextmanager
def _file_in_errors(arguments: Mapping[str, Any]) -> Iterator[None]:
    """Add the name of the file to errors about an array that was read from one."""
    try:
        yield
    except GraphError as error:
        source = arguments.get(error.argument or "")
        if not node_data.is_path(source):
            raise
        raise GraphError(f"{source}: {error.quotable}", argument=error.argument) from error


def _with_tables(
    table: EdgeTable,
    data: NodeData,
    masks: Any,
    nodes: Any,
    num_nodes: int | None,
    directed: bool,
    threads: int,
    arguments: Mapping[str, Any],
) -> Graph:
    """Return the graph with the features, classes and masks of tables, matched by id."""

    def build(ids: Any) -> Graph:
        return _to_graph(
            table,
            nodes=nodes if ids is None else ids,
            num_nodes=num_nodes,
            directed=directed,
            threads=threads,
            **data.arrays,
        )

    may_add = nodes is None and num_nodes is None and table.num_nodes is None
    with _file_in_errors(arguments):
        graph = data.joined(build, nodes=nodes, may_add=may_add)
        if isinstance(masks, Mapping):
            graph = graph.with_data(masks=node_data.aligned_masks(masks, graph))
        return graph


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
        positions, notes = _ends(file, names, columns, weights)
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
    return EdgeTable(ends[0], ends[1], notes=notes)


def _ends(
    source: Path,
    names: Sequence[str],
    columns: tuple[str | int, str | int] | None,
    weights: str | None,
) -> tuple[tuple[int, int], tuple[str, ...]]:
    """Return the positions of the two columns of edges in a table with names, and notes."""
    positions = column_positions(columns, names, source)
    if columns is None and len(names) != 2:
        positions = end_columns(names) or positions
        if len(names) < 2:
            raise GraphError(f"{source} has 1 column ({names[0]!r}); edges need two")
        if weights != "ignore":
            checks.refuse_weights(f"{source} has {len(names)} columns ({', '.join(names)})")
    others = [name for at, name in enumerate(names) if at not in positions]
    if not others:
        return positions, ()
    first, second = (names[at] for at in positions)
    ignored = ", ".join(others)
    note = f"{source}: edges go from column {first} to column {second}; ignored: {ignored}"
    return positions, (note,)


def _read_frame(
    frame: Any, columns: tuple[str | int, str | int] | None, weights: str | None
) -> EdgeTable:
    source = Path("the frame of edges")
    names, arrays = frames.edge_columns(frame)
    positions, notes = _ends(source, names, columns, weights)
    for at in positions:
        for row in [row for row, value in enumerate(arrays[at].tolist()) if value is None][:1]:
            raise GraphError(
                f"{source}: row {row} of column {names[at]!r} is empty; an edge needs two ids"
            )
    return EdgeTable(arrays[positions[0]], arrays[positions[1]], notes=notes)


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
