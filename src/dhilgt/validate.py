"""Every check on what a user hands in, one function per kind of object.

This page is about ids and edges; `validate_nodes` is about features, labels and masks.
All of them run before heavy work, and a refusal says what was found, where, and the way out.
"""

import os
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dhilgt import _native
from dhilgt.errors import GraphError, warn

IdArray: TypeAlias = NDArray[Any]  # int64, or object holding str


def as_array(values: Any) -> NDArray[Any]:
    """Gives a NumPy array of anything array-like, torch tensors included."""
    if hasattr(values, "detach") and hasattr(values, "cpu"):
        values = values.detach().cpu().numpy()
    elif hasattr(values, "to_numpy"):
        values = values.to_numpy()
    elif isinstance(values, (list, tuple)) and any(isinstance(v, (str, bytes)) for v in values):
        # Left alone, NumPy turns numbers beside a string into strings and cuts trailing NULs.
        array = np.empty(len(values), dtype=object)
        array[:] = values
        return array
    try:
        return np.asarray(values)
    except ValueError as error:
        raise GraphError(f"rows of unequal length are not an array ({error})") from error


def num_threads(threads: int | None) -> int:
    """Gives the number of threads to use; None means all this process may run on."""
    if threads is None:
        if hasattr(os, "sched_getaffinity"):
            return len(os.sched_getaffinity(0))
        return os.cpu_count() or 1
    if isinstance(threads, bool) or not isinstance(threads, (int, np.integer)) or threads < 1:
        raise GraphError(f"threads={threads!r}; pass a number of at least 1, or None for all")
    return int(threads)


def num_nodes(count: Any, *, found_in: str = "num_nodes") -> int:
    """Gives the number of nodes as an int between 1 and the limit."""
    if isinstance(count, bool) or not isinstance(count, (int, np.integer)):
        raise GraphError(f"{found_in}={count!r}; pass a whole number")
    if count == 0:
        raise GraphError("the graph has no nodes; pass num_nodes= or nodes= if edges are missing")
    if count < 0:
        raise GraphError(f"{found_in}={count}; pass a number of at least 1")
    if count >= _native.NODE_LIMIT:
        raise GraphError(
            f"{found_in}={count}, but a graph must have fewer than {_native.NODE_LIMIT} nodes; "
            "if the numbers are ids, leave num_nodes out and they are mapped"
        )
    return int(count)


def ids(values: Any, name: str) -> IdArray:
    """Gives ids as a 1-D array: int32, int64, or object holding only non-empty str."""
    array = as_array(values)
    if array.ndim != 1:
        raise GraphError(
            f"{name} has shape {array.shape}; pass a 1-D array"
            + (", or a (2, E) array to Graph.from_edge_index" if array.ndim == 2 else "")
        )
    if array.size == 0:
        return array.astype(np.int64) if array.dtype.kind != "O" else np.empty(0, np.int64)
    kind = array.dtype.kind
    if kind == "i":
        width = np.int32 if array.dtype.itemsize == 4 else np.int64
        return np.ascontiguousarray(array, dtype=width)
    if kind == "u":
        _refuse_huge(array, name)
        return np.ascontiguousarray(array, dtype=np.int64)
    if kind == "f":
        return _integral_floats(array, name)
    if kind in "US" or kind == "T":
        return _strings(array.tolist(), name)
    if kind == "O":
        return _objects(array.tolist(), name)
    raise GraphError(f"{name} holds {array.dtype}; ids are integers or strings")


def _refuse_huge(array: NDArray[Any], name: str) -> None:
    huge = np.flatnonzero(array > np.iinfo(np.int64).max)
    if huge.size:
        raise GraphError(
            f"{name}[{huge[0]}] = {array[huge[0]]}, but ids go up to 2**63 - 1; pass it as a string"
        )


def _integral_floats(array: NDArray[Any], name: str) -> IdArray:
    with np.errstate(invalid="ignore"):
        bad = np.flatnonzero(~(np.isfinite(array) & (array == np.floor(array))))
    if bad.size:
        raise GraphError(
            f"{name}[{bad[0]}] = {array[bad[0]]} is not a whole number; ids are integers or strings"
        )
    far = np.flatnonzero(np.abs(array) > 2.0**53)
    if far.size:
        raise GraphError(
            f"{name}[{far[0]}] = {array[far[0]]}: floats above 2**53 have lost digits; "
            "pass the ids as int64"
        )
    warn(f"{name} holds whole numbers as {array.dtype}; they are read as integers")
    return array.astype(np.int64)


def _strings(values: list[Any], name: str) -> IdArray:
    out = np.empty(len(values), dtype=object)
    for at, value in enumerate(values):
        text = _decoded(value, f"{name}[{at}]") if isinstance(value, bytes) else str(value)
        if not text:
            raise GraphError(f"{name}[{at}] is an empty string; every node needs an id")
        out[at] = text
    return out


def _decoded(value: bytes, where: str) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError as error:
        raise GraphError(f"{where} = {value!r} is not UTF-8; decode it first") from error


def _objects(values: list[Any], name: str) -> IdArray:
    if all(isinstance(value, (str, bytes)) for value in values):
        return _strings(values, name)
    whole = (int, np.integer)
    if all(isinstance(value, whole) and not isinstance(value, bool) for value in values):
        try:
            return np.array(values, dtype=np.int64)
        except OverflowError as error:
            raise GraphError(
                f"{name} holds an id beyond 64 bits; pass the ids as strings"
            ) from error
    first = type(values[0])
    at = next(
        (i for i, value in enumerate(values) if value is None or value != value),
        next((i for i, value in enumerate(values) if type(value) is not first), 0),
    )
    raise GraphError(
        f"{name}[{at}] = {values[at]!r}; ids are all integers or all strings, "
        "convert them with str() if they are mixed"
    )


def edges(sources: Any, targets: Any) -> tuple[IdArray, IdArray]:
    """Gives both ends of the edges as arrays of one type and length."""
    source_ids, target_ids = ids(sources, "src"), ids(targets, "dst")
    if len(source_ids) != len(target_ids):
        raise GraphError(
            f"src has {len(source_ids)} entries and dst has {len(target_ids)}; "
            "an edge needs one of each"
        )
    if source_ids.dtype == target_ids.dtype:
        return source_ids, target_ids
    if object in (source_ids.dtype, target_ids.dtype):
        raise GraphError(
            f"src[0] = {source_ids[0]!r} and dst[0] = {target_ids[0]!r}; ids are all integers or "
            "all strings, convert one side"
        )
    return source_ids.astype(np.int64), target_ids.astype(np.int64)


def indices(values: IdArray, count: int, name: str) -> None:
    """Refuses a value outside 0..count-1."""
    if values.size == 0:
        return
    if values.dtype == object:
        raise GraphError(
            f"{name}[0] = {values[0]!r}, but with num_nodes= the ends of edges are indices "
            f"0 to {count - 1}; leave num_nodes out to have ids mapped"
        )
    if values.min() >= 0 and values.max() < count:
        return
    at = int(np.flatnonzero((values < 0) | (values >= count))[0])
    raise GraphError(
        f"{name}[{at}] = {values[at]} is outside 0 to {count - 1} (num_nodes={count}); "
        "correct it, or leave num_nodes out to have ids mapped"
    )


def node_list(nodes: Any) -> IdArray:
    """Gives the full list of ids, each once."""
    array = ids(nodes, "nodes")
    if array.dtype == np.int32:
        array = array.astype(np.int64)
    if array.size == 0:
        num_nodes(0)
    order = np.argsort(array, kind="stable")
    same = np.flatnonzero(array[order[1:]] == array[order[:-1]])
    if same.size:
        first, again = order[same[0]], order[same[0] + 1]
        raise GraphError(
            f"nodes[{again}] = {array[again]!r} repeats nodes[{first}]; list every id once"
        )
    return array


def edge_index(values: Any) -> NDArray[Any]:
    """Gives a (2, E) integer array, refusing its transpose."""
    array = as_array(values)
    if array.ndim != 2 or array.shape[0] != 2:
        hint = "pass a (2, E) array, sources above targets"
        if array.ndim == 2 and array.shape[1] == 2:
            hint = "it looks transposed: pass edge_index.t() (or .T), sources above targets"
        raise GraphError(f"edge_index has shape {array.shape}; {hint}")
    if array.shape == (2, 2):
        by_rows = {frozenset(pair) for pair in array.T.tolist()}
        if by_rows != {frozenset(pair) for pair in array.tolist()}:
            warn(
                "edge_index has shape (2, 2), which reads the same transposed; row 0 is taken as "
                "sources and row 1 as targets"
            )
    return array


def weights(values: Any, policy: Any, found_in: str) -> None:
    """Refuses edge weights other than 1 unless they are to be ignored."""
    if isinstance(policy, str):
        if policy != "ignore":
            raise GraphError(f"weights={policy!r}; pass weights='ignore' or leave it out")
        return
    if values is None:
        return
    array = as_array(values)
    other = np.flatnonzero(array != 1)
    if other.size:
        at = int(other[0])
        refuse_weights(f"{found_in}[{at}] = {array.reshape(-1)[at]}")


def refuse_weights(found: str) -> None:
    """Raises: distances count hops."""
    raise GraphError(
        f"{found}: weighted distances are not supported; pass weights='ignore' to count every "
        "edge as one hop"
    )


def unknown_id(wanted: Any, at: int | None, nearest: Sequence[Any], name: str) -> GraphError:
    """Gives the error for an id that no node has."""
    where = name if at is None else f"{name}[{at}]"
    near = ", ".join(repr(value) for value in nearest)
    return GraphError(
        f"{where} = {wanted!r} is not a node of the graph; the nearest ids are {near}"
    )
