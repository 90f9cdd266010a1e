"""Statistics of a token set, counted shard by shard."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dhilgt.tokens.spec import FAR, NO_PATH, PADDING, exact_codes
from dhilgt.tokens.store import Shard, check_ids, from_nibbles
from dhilgt.tokens.tokens import Tokens
from dhilgt.utils.memory import format_bytes

_BYTES_AT_ONCE = 4 << 20


@dataclass(frozen=True)
class PartStats:
    """Statistics of one part of the rows, hubs or holders.

    Attributes:
        mean: Mean per row.
        least: Smallest number in any row.
        most: Largest number in any row.
        covered: Distinct nodes that occur in this part of any row.
    """

    mean: float
    least: int
    most: int
    covered: int


@dataclass(frozen=True)
class TokenStats:
    """Statistics of a token set.

    Attributes:
        rows: Number of rows, those of all copies.
        size: Slots of a row.
        copies: Rows per node.
        num_nodes: Nodes of the graph.
        num_egos: Nodes that have rows.
        nbytes: Bytes of all rows.
        fill_rate: Fraction of slots that hold a node, egos included.
        padding: Fraction of slots that hold none.
        hubs: Of the hubs drawn.
        holders: Of the holders drawn.
        neighbors: Neighbours that fill="neighbors" added, per row; 0 without it.
        distances: Pairs of distinct members by distance, index = distance, up to the largest that
            occurs. A pair counts once, on directed graphs once per direction.
        far: Pairs farther apart than the store keeps, or beyond the radius of the labels.
        unreachable: Pairs without a path.
        radius: That of the labels; None for full ones.
        exact: Pairs whose distance is exact; the others of `distances` are upper bounds.
    """

    rows: int
    size: int
    copies: int
    num_nodes: int
    num_egos: int
    nbytes: int
    fill_rate: float
    padding: float
    hubs: PartStats
    holders: PartStats
    neighbors: float
    distances: tuple[int, ...]
    far: int
    unreachable: int
    radius: int | None
    exact: int

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        return {**asdict(self), "distances": list(self.distances)}

    def __str__(self) -> str:
        pairs = max(1, sum(self.distances) + self.far + self.unreachable)
        lines = [
            f"rows         {self.rows:,} ({self.num_egos:,} of {self.num_nodes:,} nodes, "
            f"{self.copies} each), {self.size} slots, {format_bytes(self.nbytes)}",
            f"filled       {self.fill_rate:.1%} of the slots, {self.padding:.1%} padding",
        ]
        for name, part in (("hubs", self.hubs), ("holders", self.holders)):
            lines.append(
                f"{name:<12} {part.mean:.1f} a row ({part.least} to {part.most}), "
                f"{part.covered:,} distinct nodes"
            )
        if self.neighbors:
            lines.append(f"neighbours   {self.neighbors:.1f} a row added as filler")
        counted = [(str(d), count) for d, count in enumerate(self.distances) if count]
        counted += [("far", self.far)] if self.far else []
        counted += [("no path", self.unreachable)] if self.unreachable else []
        fractions = ", ".join(f"{name}: {count / pairs:.1%}" for name, count in counted)
        lines.append(f"distances    {fractions or 'no pairs'}")
        if self.radius is not None:
            lines.append(f"exact        {self.exact / pairs:.1%}; labels of radius {self.radius}")
        return "\n".join(lines)


def token_stats(tokens: Tokens) -> TokenStats:
    """Return statistics of tokens, reading each row once and a few megabytes at a time.

    Args:
        tokens: In memory or on disk.

    Raises:
        ArtifactError: If a shard holds ids of no node.

    Example:
        >>> from dhilgt import Graph, HubLabels
        >>> labels = HubLabels.build(Graph.from_edges([0, 1, 2], [1, 2, 3]), progress=False)
        >>> stats = token_stats(Tokens.build(labels, size=4, progress=False))
        >>> stats.fill_rate, stats.distances
        (0.625, (0, 6, 2))
    """
    counter = _TokenCounter(tokens)
    for shard, rows in _blocks(tokens):
        ids = np.asarray(shard.ids[rows])
        check_ids(ids, tokens.plan, shard)
        counter.add(ids, np.asarray(shard.spd[rows]), np.asarray(shard.parts[rows]))
    return counter.stats()


def mean_slots(tokens: Tokens) -> dict[str, float]:
    """Return how many slots are filled on average, in far less time than `token_stats` takes.

    Args:
        tokens: In memory or on disk.

    Example:
        >>> from dhilgt import Graph, HubLabels
        >>> labels = HubLabels.build(Graph.from_edges([0, 1, 2], [1, 2, 3]), progress=False)
        >>> mean_slots(Tokens.build(labels, size=4, progress=False))
        {'slots': 4.0, 'filled': 2.5, 'hubs': 1.0, 'holders': 0.5}
    """
    filled, parts = 0, np.zeros(2, np.int64)
    for shard, rows in _blocks(tokens):
        filled += int(np.count_nonzero(np.asarray(shard.ids[rows]) != PADDING))
        parts += np.asarray(shard.parts[rows]).sum(axis=0, dtype=np.int64)
    count = max(1, len(tokens))
    return {
        "slots": float(tokens.spec.size),
        "filled": filled / count,
        "hubs": float(parts[0] / count),
        "holders": float(parts[1] / count),
    }


def _blocks(tokens: Tokens) -> Iterator[tuple[Shard, slice]]:
    """Yield rows to read at once: a shard and a slice of it."""
    step = max(1, _BYTES_AT_ONCE // tokens.plan.row_bytes)
    for shard in tokens.each_shard():
        for start in range(0, len(shard.ids), step):
            yield shard, slice(start, start + step)


class _TokenCounter:
    """Sums over rows; its memory depends on the number of nodes, not of rows."""

    def __init__(self, tokens: Tokens) -> None:
        self._tokens = tokens
        size = tokens.spec.size
        self._directions = 2 if tokens.directed else 1
        self._pairs = tokens.spec.num_pairs(tokens.directed)
        self._codes = np.zeros(256, np.int64)
        self._padded_pairs = 0
        self._filled = 0
        self._sums = np.zeros(2, np.int64)
        self._least = np.full(2, size, np.int64)
        self._most = np.zeros(2, np.int64)
        self._seen = np.zeros((2, tokens.num_nodes), np.bool_)

    def add(
        self, ids: NDArray[np.int32], stored: NDArray[np.uint8], parts: NDArray[np.uint16]
    ) -> None:
        real = ids != PADDING
        count = real.sum(axis=1)
        self._filled += int(count.sum())
        if self._tokens.bits == 4:
            stored = from_nibbles(stored, self._pairs)
        self._codes += np.bincount(stored.reshape(-1), minlength=256)
        real_pairs = count * (count - 1) // 2 * self._directions
        self._padded_pairs += int((self._pairs - real_pairs).sum())
        slot = np.arange(ids.shape[1])
        begin = np.ones(len(ids), np.int64)
        for part in range(2):
            num = parts[:, part].astype(np.int64)
            inside = (slot >= begin[:, None]) & (slot < (begin + num)[:, None]) & real
            self._seen[part, ids[inside]] = True
            self._sums[part] += num.sum()
            self._least[part] = min(self._least[part], num.min())
            self._most[part] = max(self._most[part], num.max())
            begin = begin + num

    def stats(self) -> TokenStats:
        tokens = self._tokens
        rows = len(tokens)
        slots = max(1, rows * tokens.spec.size)
        exact = self._codes[:FAR]
        longest = int(np.flatnonzero(exact)[-1]) if exact.any() else -1
        parts = [
            PartStats(
                mean=float(self._sums[part] / max(1, rows)),
                least=int(self._least[part]) if rows else 0,
                most=int(self._most[part]),
                covered=int(self._seen[part].sum()),
            )
            for part in range(2)
        ]
        fill_rate = self._filled / slots
        return TokenStats(
            rows=rows,
            size=tokens.spec.size,
            copies=tokens.copies,
            num_nodes=tokens.num_nodes,
            num_egos=len(tokens.nodes),
            nbytes=tokens.nbytes,
            fill_rate=fill_rate,
            padding=1 - fill_rate if rows else 0.0,
            hubs=parts[0],
            holders=parts[1],
            neighbors=(self._filled - rows - int(self._sums.sum())) / max(1, rows),
            distances=tuple(exact[: longest + 1].tolist()),
            far=int(self._codes[FAR]),
            unreachable=int(self._codes[NO_PATH]) - self._padded_pairs,
            radius=tokens.radius,
            exact=int(
                self._codes[exact_codes(np.arange(256, dtype=np.uint8), tokens.radius)].sum()
            ),
        )
