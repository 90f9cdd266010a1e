"""Token rows on disk: how they are cut into shards, written, resumed and read back."""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dhilgt.errors import ArtifactError
from dhilgt.store.artifact import Artifact
from dhilgt.store.files import SUFFIX
from dhilgt.store.manifest import MANIFEST
from dhilgt.store.shards import ShardWriter
from dhilgt.tokens.sampler import PackedRows, TokenSampler
from dhilgt.tokens.spec import FAR, NO_PATH, PADDING, TokenSpec
from dhilgt.utils.checks import whole_number

KIND = "tokens"
FORMAT = 1

_SHARD_ROWS = 32_768  # about 20 MB at size 32: what a kill can cost, and what a build holds at once
_SHARD_BYTES = 64 << 20  # fewer rows in a shard when they are large
_MOST_SHARDS = 4096  # more rows in a shard rather than more files, mappings and manifest lines
_MOST_COPIES = 1 << 20

_MOST_NODES = 1 << 32
_PLAN_PARAMS = (
    "copies",
    "bits",
    "directed",
    "num_nodes",
    "num_egos",
    "shard_rows",
    "labels_fingerprint",
    "nodes_fingerprint",
)

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
    nodes_fingerprint: str | None = None
    shard_rows: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "copies", whole_number("copies", self.copies, 1, _MOST_COPIES))
        if isinstance(self.bits, float) or self.bits not in (4, 8):
            raise ValueError(f"bits = {self.bits!r}; pass 8 or 4")
        object.__setattr__(self, "bits", int(self.bits))
        if self.shard_rows == 0:
            few = max(1, min(_SHARD_ROWS, _SHARD_BYTES // self.row_bytes))
            object.__setattr__(self, "shard_rows", max(few, -(-self.num_rows // _MOST_SHARDS)))

    @property
    def stored_pairs(self) -> int:
        """Bytes a row's distances take."""
        pairs = self.spec.num_pairs(self.directed)
        return pairs if self.bits == 8 else (pairs + 1) // 2

    @property
    def row_bytes(self) -> int:
        """Bytes of a row in all."""
        return 4 * self.spec.size + 2 * 2 + self.stored_pairs

    @property
    def num_rows(self) -> int:
        """Rows of all copies."""
        return self.num_egos * self.copies

    @property
    def num_shards(self) -> int:
        """Shards of all rows."""
        return -(-self.num_rows // self.shard_rows)

    def shards(self) -> "list[ShardPlace]":
        """Gives the shards of all copies: rows run through the egos of one copy after the other."""
        starts = range(0, self.num_rows, self.shard_rows)
        return [
            ShardPlace(number, start, min(self.num_rows, start + self.shard_rows))
            for number, start in enumerate(starts)
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
            "nodes_fingerprint": self.nodes_fingerprint,
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
        total = plan.num_rows
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
    folder: Path | None = None  # where it is mapped from

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
        need_bytes=plan.num_rows * plan.row_bytes,
    )
    if nodes is not None:
        try:
            writer.write_array("nodes", nodes)
        except BaseException:
            writer.close()
            raise
    return writer


def fingerprint_of(nodes: NDArray[np.int64]) -> str:
    """SHA-256 of a list of nodes: a build continues with the same nodes in the same order only."""
    return hashlib.sha256(nodes.astype("<i8", copy=False).tobytes()).hexdigest()


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
        ids = _array(artifact, place.names[0], np.int32, (rows, plan.spec.size))
        spd = _array(artifact, place.names[1], np.uint8, (rows, plan.stored_pairs))
        parts = _array(artifact, place.names[2], np.uint16, (rows, 2))
        shards.append(Shard(place, ids, spd, parts, Path(path)))
    nodes = None
    if plan.nodes_fingerprint is not None:
        nodes = _array(artifact, "nodes", np.int64, (plan.num_egos,), mmap=False)
        if (
            np.unique(nodes).size != nodes.size
            or (nodes < 0).any()
            or (nodes >= plan.num_nodes).any()
        ):
            raise ArtifactError(
                f"{_file(path, 'nodes')}: holds repeated nodes or some that are not among the "
                f"{plan.num_nodes} of the graph; build the tokens again"
            )
    return plan, shards, nodes


def _array(
    artifact: Artifact, name: str, dtype: type, shape: tuple[int, ...], *, mmap: bool = True
) -> NDArray[Any]:
    array = artifact.array(name, mmap=mmap)
    if array.shape != shape or array.dtype != dtype:
        raise ArtifactError(
            f"{_file(artifact.path, name)}: holds {array.dtype} {array.shape}, "
            f"expected {np.dtype(dtype)} {shape}; build the tokens again"
        )
    return array


def _file(path: "str | PathLike[str]", name: str) -> Path:
    return Path(path) / (name + SUFFIX)


def gather(plan: Plan, shards: list[Shard], at: NDArray[np.int64]) -> PackedRows:
    """Gives rows by position, from whichever shards they lie in."""
    ids = np.empty((len(at), plan.spec.size), np.int32)
    spd = np.empty((len(at), plan.stored_pairs), np.uint8)
    parts = np.empty((len(at), 2), np.uint16)
    where = at // plan.shard_rows
    order = np.argsort(where, kind="stable")
    numbers, firsts = np.unique(where[order], return_index=True)
    for number, picked in zip(numbers, np.split(order, firsts[1:]), strict=len(at) > 0):
        within = at[picked] - number * plan.shard_rows
        shard = shards[number]
        found = shard.ids[within]
        check_ids(found, plan, shard)
        ids[picked] = found
        spd[picked] = shard.spd[within]
        parts[picked] = shard.parts[within]
    if plan.bits == 4:
        spd = from_nibbles(spd, plan.spec.num_pairs(plan.directed))
    return PackedRows(ids, spd, parts)


def check_ids(ids: NDArray[np.int32], plan: Plan, shard: Shard) -> None:
    """Refuses ids that no node of the graph has, before anyone looks up features with them."""
    if ids.size and (ids.min() < PADDING or ids.max() >= plan.num_nodes):
        name = shard.place.names[0]
        where = name if shard.folder is None else _file(shard.folder, name)
        raise ArtifactError(
            f"{where} is damaged: expected ids from {PADDING} to {plan.num_nodes - 1}, found "
            f"{ids.min()} to {ids.max()}; restore it from a copy or build the tokens again"
        )


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
        for name in ("num_nodes", "num_egos"):
            whole_number(name, params[name], 0, _MOST_NODES)
        whole_number("shard_rows", params["shard_rows"], 1, _MOST_NODES * _MOST_COPIES)
        _check_type("directed", params["directed"], bool)
        _check_type("labels_fingerprint", params["labels_fingerprint"], str)
        if params["nodes_fingerprint"] is not None:
            _check_type("nodes_fingerprint", params["nodes_fingerprint"], str)
        elif params["num_egos"] != params["num_nodes"]:
            raise ValueError(f"{params['num_egos']} of {params['num_nodes']} nodes without a list")
        plan = Plan(
            spec=TokenSpec.from_dict(params),
            graph_fingerprint=artifact.fingerprint,
            **{name: params[name] for name in _PLAN_PARAMS},
        )
        found = sum(name.startswith("ids-") for name in artifact.names)
        if found != plan.num_shards:
            raise ValueError(f"{plan.num_shards} shards expected, {found} there")
    except (KeyError, TypeError, ValueError) as error:
        said = f"{error} is missing" if isinstance(error, KeyError) else str(error)
        raise ArtifactError(
            f"{artifact.path / MANIFEST}: settings are not those of tokens ({said}); build the "
            "tokens again"
        ) from error
    return plan


def _check_type(name: str, value: Any, wanted: type) -> None:
    if not isinstance(value, wanted):
        raise ValueError(f"{name} = {value!r} is not a {wanted.__name__}")
