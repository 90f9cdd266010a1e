"""The user's ids and our indices: the index of a node is the rank of its id."""

import bisect
import difflib
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dhilgt import _native, validate
from dhilgt.errors import GraphError
from dhilgt.validate import IdArray

_SMALL_FOR_SPELLING = 20_000


def is_plain(ids: IdArray) -> bool:
    """Says whether ascending, distinct ids are just 0 to n - 1."""
    return ids.dtype != object and len(ids) > 0 and ids[0] == 0 and ids[-1] == len(ids) - 1


def rank_all(sources: IdArray, targets: IdArray, threads: int) -> tuple[IdArray, IdArray, IdArray]:
    """Gives the ids that occur in ascending order, and the edges by rank."""
    if sources.dtype != object:
        try:
            return _native.compact_ids(
                sources.astype(np.int64, copy=False), targets.astype(np.int64, copy=False), threads
            )
        except ValueError as error:
            raise GraphError(f"too many distinct ids: {error}") from error
    left, right = sources.tolist(), targets.tolist()
    ids = as_objects(sorted(set(left).union(right)))
    rank = {name: at for at, name in enumerate(ids.tolist())}
    count = len(left)
    return (
        ids,
        np.fromiter(map(rank.__getitem__, left), dtype=np.int32, count=count),
        np.fromiter(map(rank.__getitem__, right), dtype=np.int32, count=count),
    )


def as_objects(names: list[str]) -> IdArray:
    """Gives an object array; NumPy's fixed-width strings waste memory on one long name."""
    out = np.empty(len(names), dtype=object)
    out[:] = names
    return out


def find(ids: IdArray | None, count: int, wanted: IdArray) -> NDArray[np.int64]:
    """Gives the rank of each wanted id, -1 where there is none; `ids` None stands for 0..n-1."""
    if ids is None:
        return np.where((wanted >= 0) & (wanted < count), wanted, -1).astype(np.int64)
    if ids.dtype == object:
        rank = {name: at for at, name in enumerate(ids.tolist())}
        return np.fromiter((rank.get(name, -1) for name in wanted), np.int64, count=len(wanted))
    at = np.minimum(np.searchsorted(ids, wanted), count - 1)
    return np.where(ids[at] == wanted, at, -1).astype(np.int64)


def ranks(ids: IdArray | None, count: int, wanted: IdArray, name: str) -> NDArray[np.int64]:
    """Gives the rank of each wanted id, and refuses an unknown one."""
    text = ids is not None and ids.dtype == object
    if wanted.size and (wanted.dtype == object) != text:
        raise GraphError(
            f"{name}[0] = {plain_value(wanted[0])!r}, but the ids of the graph are "
            f"{'strings' if text else 'integers'}; convert one side"
        )
    found = find(ids, count, wanted)
    for at in np.flatnonzero(found < 0)[:1]:
        value = plain_value(wanted[at])
        raise validate.unknown_id(value, int(at), nearest(ids, count, value), name)
    return found


def plain_value(value: Any) -> Any:
    """Gives a Python value, which prints without the name of its NumPy type."""
    return value.item() if isinstance(value, np.generic) else value


def nearest(ids: IdArray | None, count: int, wanted: Any) -> list[Any]:
    """Gives up to three ids to suggest in place of an unknown one."""
    if ids is None:
        return sorted({0, count - 1})
    if ids.dtype == object and len(ids) <= _SMALL_FOR_SPELLING:
        close = difflib.get_close_matches(wanted, ids.tolist(), n=3)
        if close:
            return close
    at = bisect.bisect_left(ids, wanted)
    return [plain_value(value) for value in ids[max(0, at - 1) : at + 2]] or [plain_value(ids[-1])]


def labels_by_id(labels: Mapping[Any, Any], ids: IdArray | None, count: int) -> NDArray[Any]:
    """Gives one label per node from a dict, None for nodes it does not name."""
    at = ranks(ids, count, validate.ids(list(labels), "labels"), "labels")
    out = np.full(count, None, dtype=object)
    for where, label in zip(at.tolist(), labels.values(), strict=True):
        out[where] = None if isinstance(label, (int, np.integer)) and label == -1 else label
    return out
