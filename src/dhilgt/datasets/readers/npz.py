"""Reading NumPy archives by key, never a pickle."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dhilgt.datasets.files import reading


@contextmanager
def opened(path: Path) -> Iterator[Mapping[str, NDArray[Any]]]:
    """Opens an .npz file; errors name it."""
    with reading(path, "a NumPy archive"), np.load(path, allow_pickle=False) as arrays:
        if not isinstance(arrays, np.lib.npyio.NpzFile):
            raise ValueError("it holds one array")
        yield arrays
