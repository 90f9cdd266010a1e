"""Checks on what a user says about nodes: features, labels and masks."""

import difflib
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dhilgt.errors import GraphError
from dhilgt.validate import as_array

MASK_NAMES = ("train", "val", "test")
_LARGEST_CLASS = 1_000_000
_BLOCK_ROWS = 65_536


def features(values: Any, count: int) -> Any:
    """Gives features as float32, (count, channels): a NumPy array or, if sparse, SciPy CSR.

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
            "pass one row per node (nodes= keeps nodes without edges)"
        )
    if array.dtype.kind not in "biuf":
        raise GraphError(f"features holds {array.dtype}; pass numbers")
    with np.errstate(over="ignore"):
        out = array.astype(np.float32, copy=False)
    _check_finite(out, sparse)
    if not sparse:
        out = np.ascontiguousarray(out).view()
        out.flags.writeable = False
    return out


def _check_finite(array: Any, sparse: bool) -> None:
    bad_count, first = 0, ""
    if sparse:
        bad = np.flatnonzero(~np.isfinite(array.data))
        bad_count = len(bad)
        if bad_count:
            row = int(np.searchsorted(array.indptr, bad[0], side="right")) - 1
            first = f"features[{row}, {array.indices[bad[0]]}] = {array.data[bad[0]]}"
    else:
        for start in range(0, array.shape[0], _BLOCK_ROWS):  # in blocks, to stay small in memory
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


def labels(values: Any, count: int) -> tuple[NDArray[np.int64], tuple[str, ...] | None]:
    """Gives one class per node (-1: unlabelled) and the names of the classes, if they have any.

    Accepts integers, whole floats with NaN for unlabelled, booleans, strings (classes are numbered
    in sorted order; None, NaN and "" are unlabelled) and one-hot rows (all zeros: unlabelled).
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
            ) from (error)
    return _numbered_classes(array), None


def _missing(value: Any) -> bool:
    return value is None or value == "" or (isinstance(value, float) and value != value)


def _named_classes(values: list[Any]) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    texts = [v.decode() if isinstance(v, bytes) else v for v in values]
    names = tuple(sorted({str(text) for text in texts if not _missing(text)}))
    number = {name: i for i, name in enumerate(names)}
    classes = [-1 if _missing(text) else number[str(text)] for text in texts]
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
    """Gives boolean masks by name; takes booleans or, where it is plain, indices.

    A node in two masks, or one in a mask but without a label, is refused.
    """
    if not isinstance(values, Mapping):
        raise GraphError(f"masks is a {type(values).__name__}; pass a dict with {MASK_NAMES}")
    out: dict[str, NDArray[np.bool_]] = {}
    for name, given in values.items():
        if name not in MASK_NAMES:
            near = difflib.get_close_matches(str(name), MASK_NAMES, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"the names are {MASK_NAMES}"
            raise GraphError(f"masks has the unknown name {name!r}; {hint}")
        mask = node_mask(as_array(given), count, f"mask {name!r}")
        for other, taken in out.items():
            both = np.flatnonzero(mask & taken)
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
        out[name] = mask
    return out


def node_mask(array: NDArray[Any], count: int, name: str) -> NDArray[np.bool_]:
    """Gives a boolean mask from one, or from indices where these cannot be taken for a mask.

    Args:
        array: Booleans, one per node, or indices, each once.
        count: Number of nodes.
        name: What the user calls it.
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
    out = np.zeros(count, dtype=np.bool_)
    bad = np.flatnonzero((array < 0) | (array >= count))
    if bad.size:
        raise GraphError(
            f"{name}[{bad[0]}] = {array[bad[0]]} is outside 0 to {count - 1}; "
            "pass booleans or indices of nodes"
        )
    out[array.astype(np.int64)] = True
    if int(out.sum()) != array.size:
        raise GraphError(f"{name} lists a node twice; pass every index once")
    return out
