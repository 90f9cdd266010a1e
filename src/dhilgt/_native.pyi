"""Types of the native core; behaviour is described at the Python functions that call it."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

NODE_LIMIT: int
PLAN_HUBS: int
PLANE_HUBS: int

Progress = Callable[[int, int, int, int], object] | None  # done, total, entries, bytes

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
        whole: bool = False,
        comment: str = "",
        guard: bool = False,
    ) -> None: ...
    def feed(self, text: bytes, threads: int) -> None: ...
    def take_integers(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]: ...
    def take_strings(self) -> tuple[list[str], NDArray[np.int32], NDArray[np.int32]]: ...
    @property
    def num_edges(self) -> int: ...
    @property
    def num_comments(self) -> int: ...
    @property
    def num_marked(self) -> int: ...

def simd_level() -> str: ...
def simd_supported() -> str: ...
def set_simd_level(name: str) -> None: ...

class Labels:
    @property
    def num_nodes(self) -> int: ...
    @property
    def directed(self) -> bool: ...
    @property
    def packed(self) -> bool: ...
    @property
    def num_bytes(self) -> int: ...
    @property
    def num_entries(self) -> int: ...
    @property
    def max_distance(self) -> int: ...
    def label(self, rank: int, side: int) -> tuple[NDArray[np.uint32], NDArray[np.uint32]]: ...
    def ask(self, source: int, target: int) -> tuple[int, int]: ...
    def pairs(
        self,
        sources: NDArray[np.uint32],
        targets: NDArray[np.uint32],
        want_hubs: bool,
        threads: int,
        progress: Progress,
    ) -> tuple[NDArray[np.uint32], NDArray[np.uint32]]: ...
    def matrix(
        self, nodes: NDArray[np.uint32], threads: int, progress: Progress
    ) -> NDArray[np.uint32]: ...
    def flat_arrays(
        self, side: int
    ) -> tuple[NDArray[np.int64], NDArray[np.uint32], NDArray[np.uint32]]: ...
    def histogram(self) -> NDArray[np.uint64]: ...
    def packed_records(
        self, ranks: NDArray[np.uint32], side: int
    ) -> tuple[NDArray[np.uint64], NDArray[np.uint8]]: ...
    def pack(self, side: int, threads: int) -> tuple[NDArray[np.uint64], NDArray[np.uint8]]: ...
    def unpack(self, threads: int, max_bytes: int) -> Labels: ...
    def holders(self, threads: int, max_bytes: int, progress: Progress) -> Labels: ...

def build_labels(
    out_offsets: NDArray[np.int64],
    out_targets: NDArray[np.int32],
    in_offsets: NDArray[np.int64] | None,
    in_targets: NDArray[np.int32] | None,
    order: NDArray[np.uint32] | None,
    algorithm: str,
    plane_hubs: int,
    threads: int,
    max_bytes: int,
    progress: Progress,
    max_distance: int = ...,
) -> tuple[Labels, NDArray[np.uint32], int]: ...
def probe_label_sizes(
    out_offsets: NDArray[np.int64],
    out_targets: NDArray[np.int32],
    in_offsets: NDArray[np.int64] | None,
    in_targets: NDArray[np.int32] | None,
    order: NDArray[np.uint32] | None,
    nodes: NDArray[np.uint32],
    progress: Progress,
    max_distance: int = ...,
) -> NDArray[np.uint64]: ...
def plane_block(
    out_offsets: NDArray[np.int64],
    out_targets: NDArray[np.int32],
    in_offsets: NDArray[np.int64] | None,
    in_targets: NDArray[np.int32] | None,
    order: NDArray[np.uint32],
    side: int,
    first: int,
    last: int,
    max_bytes: int,
    progress: Progress,
    max_distance: int = ...,
) -> tuple[NDArray[np.uint32], NDArray[np.uint32], NDArray[np.uint32]]: ...
def labels_from_packed(
    directed: bool, num_nodes: int, arrays: tuple[NDArray[Any], ...]
) -> Labels: ...
def labels_from_parts(
    directed: bool, bounds: list[int], arrays: tuple[NDArray[Any], ...]
) -> Labels: ...

MOST_PLANE_LEVELS: int
MOST_SHORT_HUBS: int
MOST_SHORT_DISTANCE: int

def plane_bytes(num_nodes: int, words: int) -> int: ...

_Rows = tuple[NDArray[np.uint64], NDArray[np.uint8], int, int]  # packed; entries, longest distance

_LevelArrays = tuple[NDArray[np.uint32], NDArray[np.uint32], NDArray[np.uint32]]

class RestOfHubs:
    def find(
        self, part: int, num_parts: int
    ) -> list[tuple[NDArray[np.uint32], NDArray[np.uint32], NDArray[np.uint32], int]]: ...
    def add(self, level: list[list[_LevelArrays]]) -> None: ...
    def settle(
        self,
        distance: int,
        settled: list[list[tuple[NDArray[np.uint64], NDArray[np.uint32]]]],
        level: list[list[_LevelArrays]],
    ) -> None: ...
    def finish(self) -> None: ...
    def holders(self, first: int, last: int) -> list[_Rows]: ...
    def labels(self, side: int, begin: int, end: int) -> _Rows: ...
    @property
    def peak_bytes(self) -> int: ...

def search_hubs(
    push_offsets: NDArray[np.uint64],
    push_targets: NDArray[np.uint32],
    pull_offsets: NDArray[np.uint64],
    pull_targets: NDArray[np.uint32],
    first: int,
    last: int,
    radius: int,
    plane_words: int,
    table: tuple[Any, ...] | None,
    bounds: list[int],
    threads: int,
    max_bytes: int,
    progress: Progress,
) -> tuple[_Rows, NDArray[np.uint64], NDArray[np.uint8], int, int, int]: ...
def rest_of_hubs(
    forward_offsets: NDArray[np.uint64],
    forward_targets: NDArray[np.uint32],
    backward_offsets: NDArray[np.uint64],
    backward_targets: NDArray[np.uint32],
    directed: bool,
    first: int,
    radius: int,
    table: tuple[Any, ...] | None,
    bounds: list[int],
    threads: int,
    own_entries: int,
    max_bytes: int,
) -> RestOfHubs: ...
def settled_rows(
    before: tuple[NDArray[np.uint64], NDArray[np.uint32]] | None,
    levels: list[tuple[int, list[_LevelArrays]]],
    first: int,
    begin: int,
    end: int,
    num_nodes: int,
    max_bytes: int,
) -> tuple[NDArray[np.uint64], NDArray[np.uint32], int]: ...
def merge_slices(
    slices: list[tuple[int, int, NDArray[np.uint8]]],
    begin: int,
    end: int,
    num_nodes: int,
    max_bytes: int,
    progress: Progress,
) -> tuple[_Rows, int]: ...
def top_rows(
    slices: list[tuple[int, int, NDArray[np.uint8]]],
    begin: int,
    end: int,
    num_nodes: int,
    wide: bool,
    max_bytes: int,
    progress: Progress,
) -> tuple[NDArray[np.uint64], NDArray[np.uint16] | NDArray[np.uint32], int]: ...

class Tokens:
    def __init__(
        self,
        labels: Labels,
        order: NDArray[np.uint32],
        threads: int,
        max_bytes: int,
        progress: Progress,
        bounded: bool = ...,
    ) -> None: ...
    @property
    def num_bytes(self) -> int: ...
    def rows(
        self,
        ranks: NDArray[np.uint32],
        size: int,
        num_out: int,
        num_in: int,
        out_exponent: float,
        in_exponent: float,
        seed: int,
        copy: int,
        spill: bool,
        fill_neighbors: bool,
        with_distances: bool,
        threads: int,
        progress: Progress,
    ) -> tuple[NDArray[np.int32], NDArray[np.uint16], NDArray[np.uint8]]: ...

PackedArrays = tuple[NDArray[Any], ...]  # offsets and records of each side

def draw_members(
    num_nodes: int,
    directed: bool,
    ranks: NDArray[np.uint32],
    nodes: NDArray[np.uint32],
    labels: PackedArrays,
    holders: PackedArrays,
    size: int,
    num_out: int,
    num_in: int,
    out_exponent: float,
    in_exponent: float,
    seed: int,
    copy: int,
    spill: bool,
    fill_neighbors: bool,
    threads: int,
) -> tuple[NDArray[np.uint32], NDArray[np.uint16]]: ...
def distinct_members(
    num_nodes: int, members: NDArray[np.uint32]
) -> tuple[NDArray[np.uint32], NDArray[np.uint32]]: ...
def unpack_distances(
    ids: NDArray[np.int32], packed: NDArray[np.uint8], size: int, directed: bool, threads: int
) -> NDArray[np.uint8]: ...

class DecodedRows:
    def __init__(
        self,
        num_nodes: int,
        directed: bool,
        bounded: bool,
        ranks: NDArray[np.uint32],
        labels: PackedArrays,
        threads: int,
        max_bytes: int,
    ) -> None: ...
    def distances(
        self, size: int, slots: NDArray[np.uint32], threads: int
    ) -> NDArray[np.uint8]: ...

class MergeIndex:
    def __init__(self, labels: Labels) -> None: ...
    def pairs(
        self, left: NDArray[np.uint32], right: NDArray[np.uint32], threads: int
    ) -> NDArray[np.uint32]: ...
