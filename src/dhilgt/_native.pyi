"""Types of the native core; behaviour is described at the Python functions that call it."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

NODE_LIMIT: int

class OutOfBudget(MemoryError): ...  # noqa: N818
class EdgeTextError(ValueError): ...

def build_csr(
    sources: NDArray[Any], targets: NDArray[Any], num_nodes: int, directed: bool, threads: int
) -> tuple[NDArray[np.int64], NDArray[np.int32], int, int, int]: ...
def transpose(
    offsets: NDArray[np.int64], targets: NDArray[np.int32]
) -> tuple[NDArray[np.int64], NDArray[np.int32]]: ...
def compact_ids(
    sources: NDArray[np.int64], targets: NDArray[np.int64], threads: int
) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.int32]]: ...

class EdgeText:
    def __init__(
        self,
        *,
        separator: str,
        source_column: int,
        target_column: int,
        extra_columns: bool,
        ones_column: int,
        strings: bool,
        first_line: int,
    ) -> None: ...
    def feed(self, text: bytes, threads: int) -> None: ...
    def take_integers(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]: ...
    def take_strings(self) -> tuple[list[str], NDArray[np.int32], NDArray[np.int32]]: ...
    @property
    def num_edges(self) -> int: ...
