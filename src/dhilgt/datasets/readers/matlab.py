"""Reading MATLAB files (version 5), by variable."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from dhilgt.datasets import optional
from dhilgt.datasets.files import reading


@contextmanager
def opened(path: Path, variables: tuple[str, ...]) -> Iterator[Mapping[str, Any]]:
    """Reads variables of a .mat file; errors name it."""
    io = optional.scipy_io()
    with reading(path, "a MATLAB file"), path.open("rb") as stream:
        found: Mapping[str, Any] = io.loadmat(stream, variable_names=variables)
        for name in variables:
            if name not in found:
                raise KeyError(f"it has no variable {name}")
        yield found
