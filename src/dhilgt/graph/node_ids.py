"""The user's ids and our indices: the index of a node is the rank of its id."""

import bisect
import difflib
import itertools
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dhilgt import _native
from dhilgt.errors import ArtifactError, GraphError
from dhilgt.graph import checks
from dhilgt.graph.checks import IdArray
from dhilgt.utils.checks import as_array

_SMALL_FOR_SPELLING = 20_000


class NodeIds:
    """The ids of a graph's nodes, both ways.

    Args:
        names: Ids in ascending order (int64, or object holding str); None for 0 to count - 1.
        count: Number of nodes.

    Example:
        >>> ids = NodeIds(as_objects(["ann", "bob"]), 2)
        >>> ids.index_of("bob"), ids.ids_of([1, 0]).tolist()
        (1, ['bob', 'ann'])
    """

    __slots__ = ("_lookup", "count", "names")

    def __init__(self, names: IdArray | None, count: int) -> None:
        self.names = names
        self.count = count
        self._lookup: dict[str, int] | None = None

    @property
    def all(self) -> IdArray:
        """Ids of all nodes by index."""
        return np.arange(self.count) if self.names is None else self.names

    @property
    def are_text(self) -> bool:
        """Whether ids are strings."""
        return self.names is not None and self.names.dtype == object

    def ids_of(self, indices: Any) -> Any:
        """Gives the ids of nodes by index, an array for an array and one id for one index."""
        array = as_array(indices)
        if array.size == 0:
            array = array.astype(np.int64)
        if array.dtype.kind not in "iu":
            raise GraphError(
                f"indices holds {array.dtype}; pass integers from 0 to {self.count - 1}"
            )
        checks.indices(array.reshape(-1), self.count, "indices")
        if array.ndim == 0:
            return int(array) if self.names is None else plain_value(self.names[int(array)])
        return array.astype(np.int64) if self.names is None else self.names[array]

    def index_of(self, ids: Any) -> Any:
        """Gives the indices of nodes by id, an array for many ids and an int for one."""
        if isinstance(ids, (str, bytes)) or np.ndim(ids) == 0:
            return self._index_of_one(ids)
        return ranks(self.names, self.count, checks.ids(ids, "ids"), "ids")

    def _index_of_one(self, given: Any) -> int:
        if self.names is None and type(given) is int and 0 <= given < self.count:
            return given
        wanted = checks.ids([given], "id")
        if self.are_text and given in wanted:
            if self._lookup is None:  # single questions come by the thousand
                self._lookup = {name: at for at, name in enumerate(self.all.tolist())}
            if given in self._lookup:
                return self._lookup[given]
        return int(ranks(self.names, self.count, wanted, "id")[0])

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Gives plain arrays that hold the ids on disk: none for 0 to n - 1, text as UTF-8."""
        if self.names is None:
            return {}
        if not self.are_text:
            return {"ids": self.names}
        encoded = [name.encode() for name in self.names.tolist()]
        ends = np.cumsum([len(name) for name in encoded], dtype=np.uint64)
        return {"ids_text": np.frombuffer(b"".join(encoded), np.uint8), "ids_ends": ends}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]], count: int) -> "NodeIds":
        """Gives the ids that `to_arrays` wrote, checked."""
        names: IdArray | None = None
        if "ids" in arrays:
            names = arrays["ids"]
            in_order = names.dtype == np.int64 and bool((names[1:] > names[:-1]).all())
        elif "ids_text" in arrays:
            names = as_objects(_decoded(arrays["ids_text"], arrays.get("ids_ends")))
            in_order = all(a < b for a, b in itertools.pairwise(names.tolist()))
        if names is not None and (not in_order or len(names) != count):
            raise ArtifactError(f"the stored ids are not {count} ids in order; build again")
        return cls(names, count)


def _decoded(text: NDArray[Any], ends: NDArray[Any] | None) -> list[str]:
    if ends is None or text.dtype != np.uint8 or ends.dtype != np.uint64:
        raise ArtifactError("the stored ids are not text; build again")
    stops = [0, *ends.tolist()]
    if stops[-1] != len(text) or any(a > b for a, b in itertools.pairwise(stops)):
        raise ArtifactError("the stored ids are cut short; build again")
    data = text.tobytes()
    try:
        return [data[a:b].decode() for a, b in itertools.pairwise(stops)]
    except UnicodeDecodeError as error:
        raise ArtifactError(f"the stored ids are not text ({error}); build again") from error


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
        raise checks.unknown_id(value, int(at), nearest(ids, count, value), name)
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
    at = ranks(ids, count, checks.ids(list(labels), "labels"), "labels")
    out = np.full(count, None, dtype=object)
    for where, label in zip(at.tolist(), labels.values(), strict=True):
        out[where] = None if isinstance(label, (int, np.integer)) and label == -1 else label
    return out
