"""Token rows on disk: how they are cut into shards, written, resumed and read back."""

from collections.abc import Callable
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dhilgt.errors import ArtifactError
from dhilgt.store import Artifact
from dhilgt.store_shards import ShardWriter
from dhilgt.token_sampler import PackedRows, TokenSampler
from dhilgt.token_spec import FAR, NO_PATH, TokenSpec

KIND = "tokens"
FORMAT = 1

_SHARD_ROWS = 32_768  # about 20 MB at size 32: what a kill can cost, and what a build holds at once
_MOST_COPIES = 1 << 20

# Four bits: 0 to 13 exact, then "far" and "no path".
_NIBBLE_FAR, _NIBBLE_NO_PATH = 14, 15


@dataclass(frozen=True)
class Plan:
    """Everything that determines the bytes of a token set."""

    spec: TokenSpec
    copies: int
    bits: int
    directed: bool
    num_nodes: int
    num_egos: int
    graph_fingerprint: str
    labels_fingerprint: str
    shard_rows: int = _SHARD_ROWS

    def __post_init__(self) -> None:
        if (
            isinstance(self.copies, bool)
            or not isinstance(self.copies, int)
            or not 1 <= self.copies <= _MOST_COPIES
        ):
            raise ValueError(
                f"copies = {self.copies!r}; pass a whole number from 1 to {_MOST_COPIES}"
            )
        if self.bits not in (4, 8):
            raise ValueError(f"bits = {self.bits!r}; pass 8 or 4")

    @property
    def stored_pairs(self) -> int:
        """Bytes a row's distances take."""
        pairs = self.spec.num_pairs(self.directed)
        return pairs if self.bits == 8 else (pairs + 1) // 2

    @property
    def row_bytes(self) -> int:
        """Bytes of a row in all."""
        return 4 * self.spec.size + 2 * 2 + self.stored_pairs

    def shards(self) -> "list[ShardPlace]":
        """Gives the shards of all copies: rows run through the egos of one copy after the other."""
        rows = self.num_egos * self.copies
        return [
            ShardPlace(number, start, min(rows, start + self.shard_rows))
            for number, start in enumerate(range(0, rows, self.shard_rows))
        ]

    def params(self) -> dict[str, Any]:
        """Gives plain values, for a manifest."""
        return {
            **self.spec.to_dict(),
            "copies": self.copies,
            "bits": self.bits,
            "directed": self.directed,
            "num_nodes": self.num_nodes,
            "num_egos": self.num_egos,
            "shard_rows": self.shard_rows,
            "labels_fingerprint": self.labels_fingerprint,
        }


@dataclass(frozen=True)
class ShardPlace:
    """Which rows a shard holds."""

    number: int
    start: int
    stop: int

    @property
    def names(self) -> tuple[str, str, str]:
        """Names of its arrays: ids, distances, parts."""
        return f"ids-{self.number:05}", f"spd-{self.number:05}", f"parts-{self.number:05}"

    def is_done(self, writer: ShardWriter) -> bool:
        """Says whether an earlier run finished it."""
        return all(name in writer.done for name in self.names)

    def make(
        self,
        sampler: TokenSampler,
        egos: NDArray[np.int64],
        plan: Plan,
        update: Callable[..., None],
    ) -> "Shard":
        """Gives the shard's rows, copy after copy."""
        parts = []
        total = plan.num_egos * plan.copies
        for copy in range(self.start // plan.num_egos, (self.stop - 1) // plan.num_egos + 1):
            base = copy * plan.num_egos
            first, last = max(self.start, base), min(self.stop, base + plan.num_egos)

            def report(done: int, _: int, first: int = first) -> None:
                update(first + done, total)

            parts.append(sampler.packed_rows(egos[first - base : last - base], copy, update=report))
        ids, spd, counts = (np.concatenate([part[i] for part in parts]) for i in range(3))
        update(self.stop, total)
        return Shard(self, ids, spd if plan.bits == 8 else to_nibbles(spd), counts)


@dataclass(frozen=True)
class Shard:
    """Rows of one shard, in memory or mapped; distances as they are stored."""

    place: ShardPlace
    ids: NDArray[np.int32]
    spd: NDArray[np.uint8]
    parts: NDArray[np.uint16]

    @property
    def nbytes(self) -> int:
        """Bytes of its arrays."""
        return self.ids.nbytes + self.spd.nbytes + self.parts.nbytes

    def write(self, writer: ShardWriter) -> None:
        """Writes its arrays, those an earlier run left out."""
        arrays: tuple[NDArray[Any], ...] = (self.ids, self.spd, self.parts)
        for name, array in zip(self.place.names, arrays, strict=True):
            if name not in writer.done:
                writer.write_shard(name, array)


def open_writer(
    path: "str | PathLike[str]",
    plan: Plan,
    nodes: NDArray[np.int64] | None,
    *,
    resume: bool,
    overwrite: bool,
) -> ShardWriter:
    """Checks the target and opens the journal; nothing heavy happens before this succeeds."""
    writer = ShardWriter(
        path,
        kind=KIND,
        format_version=FORMAT,
        params=plan.params(),
        fingerprint=plan.graph_fingerprint,
        shard_names=[name for shard in plan.shards() for name in shard.names],
        resume=resume,
        overwrite=overwrite,
        need_bytes=plan.num_egos * plan.copies * plan.row_bytes,
    )
    if nodes is not None:
        writer.write_array("nodes", nodes)
    return writer


def load(
    path: "str | PathLike[str]", *, verify: bool
) -> tuple[Plan, list[Shard], NDArray[np.int64] | None]:
    """Opens a token set; rows stay mapped."""
    artifact = Artifact.open(path, kind=KIND, max_format=FORMAT)
    if verify:
        artifact.verify()
    plan = _plan_of(artifact)
    shards = []
    for place in plan.shards():
        rows = place.stop - place.start
        shapes = ((rows, plan.spec.size), (rows, plan.stored_pairs), (rows, 2))
        arrays = []
        for name, shape, dtype in zip(
            place.names, shapes, (np.int32, np.uint8, np.uint16), strict=True
        ):
            array = artifact.array(name)
            if array.shape != shape or array.dtype != dtype:
                raise ArtifactError(
                    f"{Path(path) / name}: holds {array.dtype} {array.shape}, "
                    f"expected {np.dtype(dtype)} {shape}; build the tokens again"
                )
            arrays.append(np.asarray(array))
        shards.append(Shard(place, *arrays))
    nodes = artifact.array("nodes", mmap=False) if "nodes" in artifact.names else None
    if nodes is not None and (nodes.dtype != np.int64 or nodes.shape != (plan.num_egos,)):
        raise ArtifactError(f"{Path(path)}: nodes does not list {plan.num_egos} nodes; build again")
    return plan, shards, nodes


def gather(plan: Plan, shards: list[Shard], at: NDArray[np.int64]) -> PackedRows:
    """Gives rows by position, from whichever shards they lie in."""
    ids = np.empty((len(at), plan.spec.size), np.int32)
    spd = np.empty((len(at), plan.stored_pairs), np.uint8)
    parts = np.empty((len(at), 2), np.uint16)
    where = at // plan.shard_rows
    for number in np.unique(where):
        picked = np.flatnonzero(where == number)
        within = at[picked] - number * plan.shard_rows
        shard = shards[number]
        ids[picked] = shard.ids[within]
        spd[picked] = shard.spd[within]
        parts[picked] = shard.parts[within]
    if plan.bits == 4:
        spd = from_nibbles(spd, plan.spec.num_pairs(plan.directed))
    return PackedRows(ids, spd, parts)


def to_nibbles(distances: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Gives two distances a byte, the first in the low half; 14 and more become "far"."""
    short = np.minimum(distances, _NIBBLE_FAR)
    short[distances == NO_PATH] = _NIBBLE_NO_PATH
    if short.shape[1] % 2:
        short = np.pad(short, ((0, 0), (0, 1)), constant_values=_NIBBLE_NO_PATH)
    pairs: NDArray[np.uint8] = short[:, 0::2] | (short[:, 1::2] << 4)
    return pairs


def from_nibbles(stored: NDArray[np.uint8], num_pairs: int) -> NDArray[np.uint8]:
    """Gives the distances that `to_nibbles` kept, in the usual codes."""
    out = np.empty((len(stored), 2 * stored.shape[1]), np.uint8)
    out[:, 0::2] = stored & 15
    out[:, 1::2] = stored >> 4
    codes = np.arange(16, dtype=np.uint8)
    codes[_NIBBLE_FAR], codes[_NIBBLE_NO_PATH] = FAR, NO_PATH
    distances: NDArray[np.uint8] = codes[out[:, :num_pairs]]
    return distances


def _plan_of(artifact: Artifact) -> Plan:
    params = artifact.params
    try:
        plan = Plan(
            spec=TokenSpec.from_dict(params),
            graph_fingerprint=artifact.fingerprint,
            **{
                name: params[name]
                for name in (
                    "copies",
                    "bits",
                    "directed",
                    "num_nodes",
                    "num_egos",
                    "shard_rows",
                    "labels_fingerprint",
                )
            },
        )
    except (KeyError, TypeError, ValueError) as error:
        raise ArtifactError(
            f"{artifact.path}: settings are not those of tokens ({error})"
        ) from error
    counts = (plan.num_nodes, plan.num_egos, plan.shard_rows)
    if any(isinstance(count, bool) or not isinstance(count, int) or count < 0 for count in counts):
        raise ArtifactError(f"{artifact.path}: sizes {counts} are not numbers; build again")
    if plan.shard_rows == 0 or plan.num_egos > plan.num_nodes:
        raise ArtifactError(f"{artifact.path}: sizes {counts} do not fit together; build again")
    return plan
