"""What the units of a sharded build return: small tuples of plain values, to be sent as JSON."""

from collections.abc import Sequence
from typing import Any, NamedTuple, Self


class HubShard(NamedTuple):
    """All label entries of a range of hubs in one direction, in one file.

    Attributes:
        first: Rank of the first hub.
        last: Rank after the last one.
        side: "in" for entries of the in-labels, "out" for those of the out-labels.
        name: Name of the file; it holds the hash of its content.
        sha256: Hash of the content, see `sections`.
        num_entries: Entries in it; those of hubs for themselves are left out.
        num_bytes: Size of the file.
        max_distance: The longest distance of an entry.
        seconds: Time of the search.
        arcs: Arcs that the searches read.
        tests: Labels of the pruning table that they read.
        peak_bytes: Largest memory of the search, beyond the mapped files.
    """

    first: int
    last: int
    side: str
    name: str
    sha256: str
    num_entries: int
    num_bytes: int
    max_distance: int
    seconds: float = 0.0
    arcs: int = 0
    tests: int = 0
    peak_bytes: int = 0


class LevelPart(NamedTuple):
    """Entries of one distance, of the hubs that are searched from level by level, in one file.

    Attributes:
        distance: Of all entries.
        part: Number of the part of the nodes that has them.
        name: Name of the file.
        sha256: Hash of the content.
        num_bytes: Size of the file.
        num_entries: Entries in it, of all sides.
        num_candidates: The next level tests at most so many for them.
        peak_bytes: Largest memory of the search so far, beyond the mapped files.
    """

    distance: int
    part: int
    name: str
    sha256: str
    num_bytes: int
    num_entries: int
    num_candidates: int
    peak_bytes: int


class SettledPart(NamedTuple):
    """All such entries of a range of nodes up to a distance, in one file.

    Attributes:
        distance: The longest one.
        part: Number of the range.
        name: Name of the file.
        sha256: Hash of the content.
        num_bytes: Size of the file.
        peak_bytes: Largest memory of its making.
    """

    distance: int
    part: int
    name: str
    sha256: str
    num_bytes: int
    peak_bytes: int


class RestFound(NamedTuple):
    """What is found so far of the hubs that are searched from level by level.

    Attributes:
        levels: Files of the levels that are not settled, and of the last one that is.
        settled: Files of the settled entries, one per range of nodes; none at first.
        entries: Number of entries of each level, from distance 1 on.
        candidates: As many are tested at most for the level after each level.
    """

    levels: tuple[LevelPart, ...] = ()
    settled: tuple[SettledPart, ...] = ()
    entries: tuple[int, ...] = ()
    candidates: tuple[int, ...] = ()

    @property
    def distance(self) -> int:
        """The last level."""
        return len(self.entries)

    @property
    def settled_distance(self) -> int:
        """The last level that is settled."""
        return self.settled[0].distance if self.settled else 0

    def with_level(self, parts: Sequence[LevelPart]) -> Self:
        """Return it with one more level.

        Args:
            parts: All parts of the level.
        """
        return self._replace(
            levels=(*self.levels, *parts),
            entries=(*self.entries, sum(one.num_entries for one in parts)),
            candidates=(*self.candidates, sum(one.num_candidates for one in parts)),
        )

    def with_settled(self, parts: Sequence[SettledPart]) -> Self:
        """Return it with the entries of all levels settled.

        Args:
            parts: Of all ranges of nodes.
        """
        last = tuple(one for one in self.levels if one.distance == self.distance)
        return self._replace(levels=last, settled=tuple(parts))

    @property
    def file_names(self) -> tuple[str, ...]:
        """Names of the files that the search goes on from."""
        return tuple(one.name for one in self.settled) + tuple(one.name for one in self.levels)

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values."""
        values = self._asdict()
        return {
            **values,
            "levels": [one._asdict() for one in self.levels],
            "settled": [one._asdict() for one in self.settled],
        }

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> Self:
        """Return what plain JSON values say."""
        return cls(
            tuple(LevelPart(**one) for one in values["levels"]),
            tuple(SettledPart(**one) for one in values["settled"]),
            tuple(values["entries"]),
            tuple(values["candidates"]),
        )


class TablePart(NamedTuple):
    """The labels of a range of nodes restricted to the best hubs, in one file.

    Attributes:
        num_hubs: The hubs are those of the ranks below this.
        part: Number of the range.
        max_distance: The longest distance in the whole table.
        name: Name of the file.
        sha256: Hash of the content.
        num_bytes: Size of the file.
        peak_bytes: Largest memory of its making.
    """

    num_hubs: int
    part: int
    max_distance: int
    name: str
    sha256: str
    num_bytes: int
    peak_bytes: int


class TopTable(NamedTuple):
    """The labels of all nodes restricted to the best hubs.

    Attributes:
        parts: By ascending nodes; none for a table without hubs.
    """

    parts: tuple[TablePart, ...] = ()

    @property
    def num_hubs(self) -> int:
        """The hubs are those of the ranks below this."""
        return self.parts[0].num_hubs if self.parts else 0

    @property
    def num_bytes(self) -> int:
        """Size of its files."""
        return sum(one.num_bytes for one in self.parts)

    def to_json(self) -> list[dict[str, Any]]:
        """Return plain JSON values."""
        return [one._asdict() for one in self.parts]

    @classmethod
    def from_json(cls, values: list[dict[str, Any]]) -> Self:
        """Return the table of plain JSON values."""
        return cls(tuple(TablePart(**one) for one in values))


class PartFile(NamedTuple):
    """One array of the artifact, written before the artifact is.

    Attributes:
        name: Name of the array in the artifact.
        file: Name of the `.npy` file; it holds the hash of its content.
        dtype: Type of the array.
        length: Number of elements.
        sha256: SHA-256 of the file.
        blocks: SHA-256 of its blocks, if it is large.
    """

    name: str
    file: str
    dtype: str
    length: int
    sha256: str
    blocks: tuple[str, ...]


class LabelPart(NamedTuple):
    """Packed rows of a range of ranks, of labels or of inverted labels.

    Attributes:
        kind: "labels", or "holders" for inverted labels.
        side: "in" or "out".
        part: Number of the part.
        first: Rank of the first row.
        last: Rank after the last row.
        num_entries: Entries in it; self entries are left out.
        max_distance: The longest distance of an entry.
        files: Offsets and records.
        peak_bytes: Largest memory of the merge, beyond the mapped files.
    """

    kind: str
    side: str
    part: int
    first: int
    last: int
    num_entries: int
    max_distance: int
    files: tuple[PartFile, ...]
    peak_bytes: int

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return self._asdict() | {"files": [file._asdict() for file in self.files]}

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> Self:
        """Return the part of plain JSON values."""
        files = (PartFile(**one | {"blocks": tuple(one["blocks"])}) for one in values["files"])
        return cls(**values | {"files": tuple(files)})
