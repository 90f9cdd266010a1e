"""Tables of numbers as text, plain or compressed."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dhilgt.datasets.files import reading
from dhilgt.readers import edge_text
from dhilgt.readers import files as dhilgt_files
from dhilgt.utils import checks


def edges(path: Path) -> tuple[NDArray[Any], NDArray[Any]]:
    """Gives the two columns of a CSV of edges between numbered nodes, with or without a header."""
    with reading(path, "a list of edges"), dhilgt_files.opened(path, progress=False) as stream:
        options = edge_text.EdgeTextOptions(
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


def numbers(path: Path, dtype: type, what: str) -> NDArray[Any]:
    """Gives the numbers of a CSV without header, [lines, columns]."""
    with reading(path, what), dhilgt_files.opened(path, progress=False) as stream:
        return np.loadtxt(stream, dtype=dtype, delimiter=",", ndmin=2)
