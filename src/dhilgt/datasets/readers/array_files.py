"""Arrays in NumPy archives, never as a pickle, and in MATLAB files (version 5)."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dhilgt.datasets.files import reading
from dhilgt.datasets.optional import import_optional


@contextmanager
def open_npz(path: Path) -> Iterator[Mapping[str, NDArray[Any]]]:
    """Open an .npz file; errors name it."""
    with reading(path, "a NumPy archive"), np.load(path, allow_pickle=False) as arrays:
        if not isinstance(arrays, np.lib.npyio.NpzFile):
            raise ValueError("it holds one array")
        yield arrays


@contextmanager
def open_matlab(path: Path, *variables: str) -> Iterator[Mapping[str, Any]]:
    """Read variables of a .mat file; errors name it."""
    scipy_io = import_optional("scipy.io")
    with reading(path, "a MATLAB file"), path.open("rb") as stream:
        values: Mapping[str, Any] = scipy_io.loadmat(stream, variable_names=variables)
        for name in variables:
            if name not in values:
                raise KeyError(f"it has no variable {name}")
        yield values
