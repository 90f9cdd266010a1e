"""Checks of user input: ids and edges, features, classes and masks.

They run before any heavy work. An error states the value, its position and the remedy.
"""

from collections.abc import Mapping
from typing import Any, NoReturn, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dhilgt import _native
from dhilgt.errors import GraphError, about, argument, element, warn, wording
from dhilgt.utils.checks import as_array, name_hint

IdArray: TypeAlias = NDArray[Any]  # int64, or object holding str
MASK_NAMES = ("train", "val", "test")
_LARGEST_CLASS = 1_000_000
_BLOCK_ROWS = 65_536


def num_nodes(count: Any, *, name: str = "num_nodes") -> int:
    """Return the number of nodes as an int from 1 to below the limit of the native core."""
    if isinstance(count, bool) or not isinstance(count, (int, np.integer)):
        raise GraphError(f"{argument(name, count)}; pass a whole number")
    if count == 0:
        raise GraphError(
            f"the graph has no nodes; pass {argument('num_nodes', ...)} or "
            f"{argument('nodes', ...)} if edges are missing"
        )
    if count < 0:
        raise GraphError(f"{argument(name, count)}; pass a number of at least 1")
    if count >= _native.NODE_LIMIT:
        raise GraphError(
            f"{argument(name, count)}, but a graph must have fewer than {_native.NODE_LIMIT} "
            f"nodes; if the numbers are ids, leave {argument('num_nodes')} out and they are mapped"
        )
    return int(count)


def ids(values: Any, name: str) -> IdArray:
    """Return ids as a 1-D array: int32, int64, or object holding non-empty str only."""
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
            f"{element(name, huge[0], array[huge[0]])}, but ids go up to 2**63 - 1; "
            "pass it as a string"
        )


def _integral_floats(array: NDArray[Any], name: str) -> IdArray:
    with np.errstate(invalid="ignore"):
        bad = np.flatnonzero(~(np.isfinite(array) & (array == np.floor(array))))
    if bad.size:
        raise GraphError(
            f"{element(name, bad[0], array[bad[0]])} is not a whole number; "
            "ids are integers or strings"
        )
    far = np.flatnonzero(np.abs(array) > 2.0**53)
    if far.size:
        raise GraphError(
            f"{element(name, far[0], array[far[0]])}: floats above 2**53 have lost digits; "
            "pass the ids as int64"
        )
    warn(f"{name} holds whole numbers as {array.dtype}; they are read as integers")
    return array.astype(np.int64)


def _strings(values: list[Any], name: str) -> IdArray:
    texts = np.empty(len(values), dtype=object)
    for at, value in enumerate(values):
        text = _decoded(value, name, at) if isinstance(value, bytes) else str(value)
        if not text:
            raise GraphError(f"{element(name, at)} is an empty string; every node needs an id")
        texts[at] = text
    return texts


def _decoded(value: bytes, name: str, at: int) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError as error:
        raise GraphError(f"{element(name, at, value)} is not UTF-8; decode it first") from error


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
        f"{element(name, at, values[at])}; ids are all integers or all strings, "
        "convert them with str() if they are mixed"
    )


def edges(sources: Any, targets: Any) -> tuple[IdArray, IdArray]:
    """Return both ends of the edges as arrays of one type and length."""
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
            f"{element('src', 0, source_ids[0])} and {element('dst', 0, target_ids[0])}; "
            "ids are all integers or all strings, convert one side"
        )
    return source_ids.astype(np.int64), target_ids.astype(np.int64)


def indices(values: IdArray, count: int, name: str) -> None:
    """Raise if a value is not an index from 0 to count - 1."""
    if values.size == 0:
        return
    if values.dtype == object:
        raise GraphError(
            f"{element(name, 0, values[0])} is not an index; with {argument('num_nodes', ...)} "
            f"the ends of edges are indices 0 to {count - 1}, leave it out to have ids mapped"
        )
    if values.min() >= 0 and values.max() < count:
        return
    at = int(np.flatnonzero((values < 0) | (values >= count))[0])
    raise GraphError(
        f"{element(name, at, values[at])} is outside 0 to {count - 1}"
        f"{wording(f' (num_nodes={count})', '')}; "
        f"correct it, or leave {argument('num_nodes')} out to have ids mapped"
    )


@about("nodes")
def node_list(nodes: Any) -> IdArray:
    """Return the list of all ids, which must be distinct."""
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
            f"{element('nodes', again, array[again])} repeats {element('nodes', first)}; "
            "list every id once"
        )
    return array


def edge_index(values: Any) -> NDArray[Any]:
    """Return edges as a (2, E) array; raise for a transposed one."""
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


def weights(values: Any, policy: Any, name: str) -> None:
    """Raise if an edge weight is not 1, unless weights are to be ignored."""
    if isinstance(policy, str):
        if policy != "ignore":
            raise GraphError(
                f"{argument('weights', policy)}; pass {argument('weights', 'ignore')} or leave it "
                "out"
            )
        return
    if values is None:
        return
    array = as_array(values)
    other = np.flatnonzero(array != 1)
    if other.size:
        at = int(other[0])
        refuse_weights(f"{name}[{at}] = {array.reshape(-1)[at]}")


def refuse_weights(finding: str) -> NoReturn:
    """Raise because of edge weights: distances count hops."""
    raise GraphError(
        f"{finding}: weighted distances are not supported; pass {argument('weights', 'ignore')} "
        "to count every edge as one hop"
    )


@about("features")
def features(values: Any, count: int) -> Any:
    """Return features as float32, (count, channels): a NumPy array or, if sparse, SciPy CSR.

    Booleans, integers and other floats are cast to float32. Float32 input is not copied.
    """
    sparse = hasattr(values, "tocsr")
    array = values.tocsr() if sparse else as_array(values)
    if array.ndim == 1:
        raise GraphError(
            f"features has shape {array.shape}; pass (num_nodes, channels), "
            "for one channel features.reshape(-1, 1)"
        )
    if array.ndim != 2:
        raise GraphError(f"features has shape {array.shape}; pass (num_nodes, channels)")
    if array.shape[0] != count:
        raise GraphError(
            f"features has {array.shape[0]} rows, but the graph has {count} nodes; "
            f"pass one row per node ({argument('nodes', ...)} keeps nodes without edges)"
        )
    if array.dtype.kind not in "biuf":
        raise GraphError(f"features holds {array.dtype}; pass numbers")
    with np.errstate(over="ignore"):
        array = array.astype(np.float32, copy=False)
    _check_finite(array, sparse)
    if not sparse:
        array = np.ascontiguousarray(array).view()
        array.flags.writeable = False
    return array


def _check_finite(array: Any, sparse: bool) -> None:
    bad_count, first = 0, ""
    if sparse:
        bad = np.flatnonzero(~np.isfinite(array.data))
        bad_count = len(bad)
        if bad_count:
            row = int(np.searchsorted(array.indptr, bad[0], side="right")) - 1
            first = f"features[{row}, {array.indices[bad[0]]}] = {array.data[bad[0]]}"
    else:
        for start in range(0, array.shape[0], _BLOCK_ROWS):  # in blocks, to save memory
            rows, columns = np.nonzero(~np.isfinite(array[start : start + _BLOCK_ROWS]))
            if rows.size and not bad_count:
                value = array[start + rows[0], columns[0]]
                first = f"features[{start + rows[0]}, {columns[0]}] = {value}"
            bad_count += rows.size
    if bad_count:
        raise GraphError(
            f"{first} is not finite as float32 ({bad_count} NaN or infinite values); fill them "
            "first, for example with numpy.nan_to_num(features)"
        )


@about("labels")
def labels(values: Any, count: int) -> tuple[NDArray[np.int64], tuple[str, ...] | None]:
    """Return one class per node (-1: unlabelled) and the class names, if they have any.

    Classes may be integers, whole floats with NaN for unlabelled, booleans, strings (numbered in
    sorted order; None, NaN and "" are unlabelled) or one-hot rows (all zeros: unlabelled).
    """
    array = as_array(values)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim not in (1, 2):
        raise GraphError(f"labels has shape {array.shape}; pass one class per node")
    if array.shape[0] != count:
        raise GraphError(
            f"labels has {array.shape[0]} entries, but the graph has {count} nodes; "
            "pass one per node, -1 for unlabelled ones"
        )
    if array.ndim == 2:
        return _one_hot(array), None
    if array.dtype.kind in "UST":
        return _named_classes(array.tolist())
    if array.dtype.kind == "O":
        present = [value for value in array.tolist() if not _missing(value)]
        if all(isinstance(value, (str, bytes)) for value in present):
            return _named_classes(array.tolist())
        try:
            array = np.array([np.nan if _missing(v) else v for v in array.tolist()], dtype=float)
        except (TypeError, ValueError) as error:
            raise GraphError(
                f"labels mixes types ({error}); pass all numbers or all strings"
            ) from error
    return _numbered_classes(array), None


def _missing(value: Any) -> bool:
    return value is None or value == "" or (isinstance(value, float) and value != value)


def _named_classes(values: list[Any]) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    texts = [v.decode() if isinstance(v, bytes) else v for v in values]
    names = tuple(sorted({str(text) for text in texts if not _missing(text)}))
    class_of = {name: i for i, name in enumerate(names)}
    classes = [-1 if _missing(text) else class_of[str(text)] for text in texts]
    return np.array(classes, dtype=np.int64), names


def _numbered_classes(array: NDArray[Any]) -> NDArray[np.int64]:
    if array.dtype.kind == "f":
        known = ~np.isnan(array)
        bad = np.flatnonzero(known & ~(np.isfinite(array) & (array == np.floor(array))))
        if bad.size:
            raise GraphError(
                f"labels[{bad[0]}] = {array[bad[0]]} is not a class number; pass whole numbers or "
                "strings (regression targets are not supported)"
            )
        array = np.where(known, array, -1)
    elif array.dtype.kind not in "biu":
        raise GraphError(f"labels holds {array.dtype}; pass class numbers or strings")
    for at in np.flatnonzero((array < -1) | (array > _LARGEST_CLASS))[:1]:
        raise GraphError(
            f"labels[{at}] = {array[at]:.0f}, outside -1 to {_LARGEST_CLASS}; use -1 for "
            "unlabelled nodes, or pass classes as strings to have them numbered"
        )
    return array.astype(np.int64)


def _one_hot(array: NDArray[Any]) -> NDArray[np.int64]:
    if array.dtype.kind not in "biuf":
        raise GraphError(f"labels has shape {array.shape} and holds {array.dtype}; pass 1-D labels")
    wrong = ~((array == 0) | (array == 1)).all(axis=1) | (array.sum(axis=1) > 1)
    bad = np.flatnonzero(wrong)
    if bad.size:
        raise GraphError(
            f"labels has shape {array.shape} and row {bad[0]} = {array[bad[0]].tolist()} is not "
            "one-hot; pass one class per node (several labels per node are not supported)"
        )
    return np.where(array.any(axis=1), array.argmax(axis=1), -1).astype(np.int64)


def masks(
    values: Mapping[str, Any], count: int, classes: NDArray[np.int64] | None
) -> dict[str, NDArray[np.bool_]]:
    """Return boolean masks by name, from booleans or, where they cannot be mistaken, indices.

    Raise for a node that is in two masks, or in a mask and without a class.
    """
    if not isinstance(values, Mapping):
        raise GraphError(f"masks is a {type(values).__name__}; pass a dict with {MASK_NAMES}")
    checked: dict[str, NDArray[np.bool_]] = {}
    for name, value in values.items():
        if name not in MASK_NAMES:
            hint = name_hint(name, MASK_NAMES, f"the names are {MASK_NAMES}")
            raise GraphError(f"masks has the unknown name {name!r}; {hint}")
        mask = node_mask(as_array(value), count, f"mask {name!r}")
        for other, other_mask in checked.items():
            both = np.flatnonzero(mask & other_mask)
            if both.size:
                raise GraphError(
                    f"masks {other!r} and {name!r} share {both.size} nodes, the first at {both[0]};"
                    " results on them would be worthless, make the masks disjoint"
                )
        if classes is not None:
            bare = np.flatnonzero(mask & (classes < 0))
            if bare.size:
                raise GraphError(
                    f"mask {name!r} selects node {bare[0]}, which has no label ({bare.size} such "
                    "nodes); use mask & (labels >= 0)"
                )
        mask.flags.writeable = False
        checked[name] = mask
    return checked


def node_mask(array: NDArray[Any], count: int, name: str) -> NDArray[np.bool_]:
    """Return a boolean mask from one, or from indices that cannot be mistaken for a mask.

    Args:
        array: Booleans, one per node, or indices, each once.
        count: Number of nodes.
        name: Name of the mask, for the message.
    """
    if array.ndim != 1:
        raise GraphError(f"{name} has shape {array.shape}; pass a 1-D mask, one split")
    if array.dtype == np.bool_:
        if len(array) != count:
            raise GraphError(f"{name} has {len(array)} entries, but the graph has {count} nodes")
        return array.copy()
    if array.size and array.dtype.kind not in "iu":
        raise GraphError(f"{name} holds {array.dtype}; pass booleans or indices")
    if array.size == count and np.isin(array, (0, 1)).all():
        raise GraphError(
            f"{name} has {count} entries that are all 0 or 1, a mask or indices; "
            "pass mask.astype(bool), or indices in an array of another length"
        )
    mask = np.zeros(count, dtype=np.bool_)
    bad = np.flatnonzero((array < 0) | (array >= count))
    if bad.size:
        raise GraphError(
            f"{name}[{bad[0]}] = {array[bad[0]]} is outside 0 to {count - 1}; "
            "pass booleans or indices of nodes"
        )
    mask[array.astype(np.int64)] = True
    if int(mask.sum()) != array.size:
        raise GraphError(f"{name} lists a node twice; pass every index once")
    return mask
