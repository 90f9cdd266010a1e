"""MatrixMarket files: a sparse adjacency matrix as lines of text."""

from typing import BinaryIO

import numpy as np

from dhilgt import _native
from dhilgt.errors import GraphError
from dhilgt.graph import checks
from dhilgt.readers.edge_layout import (
    SNIFF_BYTES,
    EdgeTextOptions,
    Layout,
    is_integer,
    nonblank_lines,
)
from dhilgt.readers.edge_text import EdgeTable, parse, refuse


def read_matrix_market(stream: BinaryIO, options: EdgeTextOptions, directed: bool) -> EdgeTable:
    """Return the entries of a square matrix as edges between the indices 0 to rows - 1."""
    path = options.path
    stream.seek(0)
    head = stream.read(SNIFF_BYTES)
    words = head.split(b"\n", 1)[0].decode("ascii", errors="replace").lower().split()
    if len(words) != 5 or words[1:3] != ["matrix", "coordinate"]:
        raise GraphError(
            f"{path}: the first line is {' '.join(words)!r}; only 'matrix coordinate' files hold a "
            "graph, save a sparse matrix"
        )
    field, symmetry = words[3], words[4]
    line = next((line for line in nonblank_lines(head, 0) if line.sign != "%"), None)
    sizes = line.text.split() if line else []
    if line is None or len(sizes) != 3 or not all(is_integer(size) for size in sizes):
        raise GraphError(
            f"{path}: the line of sizes should be 'rows columns entries'; make it again"
        )
    rows, columns, entries = (int(size) for size in sizes)
    if rows != columns:
        raise GraphError(f"{path} is {rows} x {columns}; an adjacency matrix is square")
    count = checks.num_nodes(rows, name=f"{path}: rows")
    layout = Layout(" ", (0, 1), skip_bytes=line.end, skip_lines=line.number)
    if field == "complex" and not options.ignore_weights:
        checks.refuse_weights(f"{path} holds complex numbers")
    has_weights = field != "pattern" and not options.ignore_weights
    try:
        parser = parse(stream, options, layout, strings=False, ones_column=2 if has_weights else -1)
    except _native.EdgeTextError as error:
        refuse(error, options, layout)
    sources, targets = parser.take_integers()
    if len(sources) != entries:
        raise GraphError(
            f"{path} announces {entries} entries and holds {len(sources)}; it is cut short, fetch "
            "or make it again"
        )
    for name, ends in (("row", sources), ("column", targets)):
        bad = np.flatnonzero((ends < 1) | (ends > count))
        if bad.size:
            raise GraphError(
                f"{path}: {name} {ends[bad[0]]} of entry {bad[0] + 1} is outside 1 to {count}; "
                "MatrixMarket counts from 1"
            )
    sources -= 1
    targets -= 1
    if directed and symmetry != "general":  # only one triangle is stored
        mirrored = sources != targets
        sources, targets = (
            np.concatenate([sources, targets[mirrored]]),
            np.concatenate([targets, sources[mirrored]]),
        )
    return EdgeTable(sources, targets, num_nodes=count)
