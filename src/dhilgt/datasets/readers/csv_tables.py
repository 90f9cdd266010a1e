"""Tables of numbers in CSV files, plain or compressed."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dhilgt.datasets.files import reading
from dhilgt.readers import edge_layout, edge_text
from dhilgt.readers import files as dhilgt_files
from dhilgt.utils import checks


def read_edges(path: Path) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the two columns of a CSV of edges between numbered nodes, with or without a header."""
    with reading(path, "a list of edges"), dhilgt_files.opened(path, progress=False) as stream:
        options = edge_layout.EdgeTextOptions(
            path=path,
            separator=",",
            header=None,
            columns=None,
            ignore_weights=False,
            integers_only=True,
            threads=checks.num_threads(None),
        )
        table = edge_text.read_edge_lines(stream, options)
        return table.sources, table.targets


def read_numbers(path: Path, dtype: type, what: str) -> NDArray[Any]:
    """Return the numbers of a CSV without header, [lines, columns]; `what` is for errors."""
    with reading(path, what), dhilgt_files.opened(path, progress=False) as stream:
        return np.loadtxt(stream, dtype=dtype, delimiter=",", ndmin=2)
