"""The user's ids of nodes and their indices: the index of a node is the rank of its id."""

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
    """The map between the ids and the indices of a graph's nodes.

    Args:
        node_ids: Ids in ascending order (int64, or object holding str); None for 0 to count - 1.
        count: Number of nodes.

    Example:
        >>> ids = NodeIds(as_objects(["ann", "bob"]), 2)
        >>> ids.index_of("bob"), ids.ids_of([1, 0]).tolist()
        (1, ['bob', 'ann'])
    """

    __slots__ = ("_lookup", "count", "node_ids")

    def __init__(self, node_ids: IdArray | None, count: int) -> None:
        self.node_ids = node_ids
        self.count = count
        self._lookup: dict[str, int] | None = None

    @property
    def all(self) -> IdArray:
        """Ids of all nodes by index."""
        return np.arange(self.count) if self.node_ids is None else self.node_ids

    @property
    def are_text(self) -> bool:
        """Whether ids are strings."""
        return self.node_ids is not None and self.node_ids.dtype == object

    def ids_of(self, indices: Any) -> Any:
        """Return the ids of nodes by index: an array for an array, one id for one index."""
        array = as_array(indices)
        if array.size == 0:
            array = array.astype(np.int64)
        if array.dtype.kind not in "iu":
            raise GraphError(
                f"indices holds {array.dtype}; pass integers from 0 to {self.count - 1}"
            )
        checks.indices(array.reshape(-1), self.count, "indices")
        if array.ndim == 0:
            return int(array) if self.node_ids is None else plain_value(self.node_ids[int(array)])
        return array.astype(np.int64) if self.node_ids is None else self.node_ids[array]

    def index_of(self, ids: Any) -> Any:
        """Return the indices of nodes by id: an array for many ids, an int for one."""
        if isinstance(ids, (str, bytes)) or np.ndim(ids) == 0:
            return self._index_of_one(ids)
        return ranks(self.node_ids, self.count, checks.ids(ids, "ids"), "ids")

    def _index_of_one(self, node_id: Any) -> int:
        if self.node_ids is None and type(node_id) is int and 0 <= node_id < self.count:
            return node_id
        checked = checks.ids([node_id], "id")
        if self.are_text and node_id in checked:
            if self._lookup is None:  # single ids are looked up by the thousand
                self._lookup = {text: index for index, text in enumerate(self.all.tolist())}
            if node_id in self._lookup:
                return self._lookup[node_id]
        return int(ranks(self.node_ids, self.count, checked, "id")[0])

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Return the arrays that hold the ids on disk: none for 0 to n - 1, text as UTF-8."""
        if self.node_ids is None:
            return {}
        if not self.are_text:
            return {"ids": self.node_ids}
        encoded = [text.encode() for text in self.node_ids.tolist()]
        ends = np.cumsum([len(text) for text in encoded], dtype=np.uint64)
        return {"ids_text": np.frombuffer(b"".join(encoded), np.uint8), "ids_ends": ends}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]], count: int) -> "NodeIds":
        """Return the ids that `to_arrays` wrote, checked."""
        node_ids: IdArray | None = None
        if "ids" in arrays:
            node_ids = arrays["ids"]
            in_order = node_ids.dtype == np.int64 and bool((node_ids[1:] > node_ids[:-1]).all())
        elif "ids_text" in arrays:
            node_ids = as_objects(_decoded(arrays["ids_text"], arrays.get("ids_ends")))
            in_order = all(a < b for a, b in itertools.pairwise(node_ids.tolist()))
        if node_ids is not None and (not in_order or len(node_ids) != count):
            raise ArtifactError(f"the stored ids are not {count} ids in order; build again")
        return cls(node_ids, count)


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


def is_plain(node_ids: IdArray) -> bool:
    """Return whether ascending, distinct ids are the numbers 0 to n - 1."""
    last = len(node_ids) - 1
    return node_ids.dtype != object and last >= 0 and node_ids[0] == 0 and node_ids[-1] == last


def rank_all(sources: IdArray, targets: IdArray, threads: int) -> tuple[IdArray, IdArray, IdArray]:
    """Return the distinct ids in ascending order, and both ends of the edges by rank."""
    if sources.dtype != object:
        try:
            return _native.compact_ids(
                sources.astype(np.int64, copy=False), targets.astype(np.int64, copy=False), threads
            )
        except ValueError as error:
            raise GraphError(f"too many distinct ids: {error}") from error
    source_list, target_list = sources.tolist(), targets.tolist()
    node_ids = as_objects(sorted(set(source_list).union(target_list)))
    rank = {text: at for at, text in enumerate(node_ids.tolist())}
    count = len(source_list)
    return (
        node_ids,
        np.fromiter(map(rank.__getitem__, source_list), dtype=np.int32, count=count),
        np.fromiter(map(rank.__getitem__, target_list), dtype=np.int32, count=count),
    )


def as_objects(texts: list[str]) -> IdArray:
    """Return an object array; NumPy's fixed-width strings waste memory on one long string."""
    array = np.empty(len(texts), dtype=object)
    array[:] = texts
    return array


def find(node_ids: IdArray | None, count: int, queries: IdArray) -> NDArray[np.int64]:
    """Return the index of each queried id, -1 for an unknown one; see `NodeIds`."""
    if node_ids is None:
        return np.where((queries >= 0) & (queries < count), queries, -1).astype(np.int64)
    if node_ids.dtype == object:
        rank = {text: at for at, text in enumerate(node_ids.tolist())}
        return np.fromiter((rank.get(text, -1) for text in queries), np.int64, count=len(queries))
    at = np.minimum(np.searchsorted(node_ids, queries), count - 1)
    return np.where(node_ids[at] == queries, at, -1).astype(np.int64)


def ranks(node_ids: IdArray | None, count: int, queries: IdArray, name: str) -> NDArray[np.int64]:
    """Return the index of each queried id; raise for an unknown one. See `find`."""
    text = node_ids is not None and node_ids.dtype == object
    if queries.size and (queries.dtype == object) != text:
        raise GraphError(
            f"{name}[0] = {plain_value(queries[0])!r}, but the ids of the graph are "
            f"{'strings' if text else 'integers'}; convert one side"
        )
    indices = find(node_ids, count, queries)
    for at in np.flatnonzero(indices < 0)[:1]:
        value = plain_value(queries[at])
        near = ", ".join(map(repr, nearest(node_ids, count, value)))
        raise GraphError(
            f"{name}[{at}] = {value!r} is not a node of the graph; the nearest ids are {near}"
        )
    return indices


def plain_value(value: Any) -> Any:
    """Return a Python value, which prints without the name of its NumPy type."""
    return value.item() if isinstance(value, np.generic) else value


def nearest(node_ids: IdArray | None, count: int, query: Any) -> list[Any]:
    """Return up to three ids to suggest in place of an unknown one."""
    if node_ids is None:
        return sorted({0, count - 1})
    if node_ids.dtype == object and len(node_ids) <= _SMALL_FOR_SPELLING:
        close = difflib.get_close_matches(query, node_ids.tolist(), n=3)
        if close:
            return close
    at = bisect.bisect_left(node_ids, query)
    return [plain_value(value) for value in node_ids[max(0, at - 1) : at + 2]]


def labels_by_id(labels: Mapping[Any, Any], node_ids: IdArray | None, count: int) -> NDArray[Any]:
    """Return one class per node from a dict by id, None for nodes it does not name."""
    indices = ranks(node_ids, count, checks.ids(list(labels), "labels"), "labels")
    classes = np.full(count, None, dtype=object)
    for index, value in zip(indices.tolist(), labels.values(), strict=True):
        classes[index] = None if isinstance(value, (int, np.integer)) and value == -1 else value
    return classes
