"""Token rows on disk: their layout in shards, writing, resuming and reading."""

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
from dhilgt.tokens.ranges import RangeSampler
from dhilgt.tokens.sampler import PackedRows, TokenSampler
from dhilgt.tokens.spec import FAR, NO_PATH, PADDING, TokenSpec
from dhilgt.utils.checks import whole_number

KIND = "tokens"
FORMAT = 1
_FORMAT_WITH_RADIUS = 2  # so that a reader that takes all distances as exact refuses them

_SHARD_ROWS = 32_768  # about 20 MB at size 32: lost by a kill at most, and held at once by a build
_SHARD_BYTES = 64 << 20  # fewer rows in a shard when they are large
_MOST_SHARDS = 4096  # more rows in a shard rather than more files, mappings and manifest lines
_MOST_COPIES = 1 << 20

_MOST_NODES = 1 << 32
_LAYOUT_PARAMS = (
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
class TokenLayout:
    """Everything that determines the bytes of a token set, and how its rows lie in shards."""

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
    radius: int | None = None  # of the labels; None for full ones

    def __post_init__(self) -> None:
        object.__setattr__(self, "copies", whole_number("copies", self.copies, 1, _MOST_COPIES))
        if isinstance(self.bits, float) or self.bits not in (4, 8):
            raise ValueError(f"bits = {self.bits!r}; pass 8 or 4")
        object.__setattr__(self, "bits", int(self.bits))
        if self.shard_rows == 0:
            usual = max(1, min(_SHARD_ROWS, _SHARD_BYTES // self.row_bytes))
            object.__setattr__(self, "shard_rows", max(usual, -(-self.num_rows // _MOST_SHARDS)))

    @property
    def stored_pairs(self) -> int:
        """Bytes of a row's distances."""
        pairs = self.spec.num_pairs(self.directed)
        return pairs if self.bits == 8 else (pairs + 1) // 2

    @property
    def row_bytes(self) -> int:
        """Bytes of a row in total."""
        return 4 * self.spec.size + 2 * 2 + self.stored_pairs

    @property
    def num_rows(self) -> int:
        """Rows of all copies."""
        return self.num_egos * self.copies

    @property
    def num_shards(self) -> int:
        """Shards of all rows."""
        return -(-self.num_rows // self.shard_rows)

    @property
    def format_version(self) -> int:
        """Version of the files on disk."""
        return FORMAT if self.radius is None else _FORMAT_WITH_RADIUS

    def shards(self) -> "list[ShardPlace]":
        """Return the shards: rows are those of all egos for copy 0, then for copy 1, and so on."""
        starts = range(0, self.num_rows, self.shard_rows)
        return [
            ShardPlace(number, start, min(self.num_rows, start + self.shard_rows))
            for number, start in enumerate(starts)
        ]

    def params(self) -> dict[str, Any]:
        """Return plain values, for a manifest."""
        values = {name: getattr(self, name) for name in _LAYOUT_PARAMS}
        if self.radius is not None:
            values["radius"] = self.radius
        return {**self.spec.to_dict(), **values}


@dataclass(frozen=True)
class ShardPlace:
    """The rows that a shard holds: its number, the first row and the one after the last."""

    number: int
    start: int
    stop: int

    @property
    def names(self) -> tuple[str, str, str]:
        """Names of its arrays: ids, distances, parts."""
        return f"ids-{self.number:05}", f"spd-{self.number:05}", f"parts-{self.number:05}"

    def is_done(self, writer: ShardWriter) -> bool:
        """Return whether an earlier run finished it."""
        return all(name in writer.done for name in self.names)

    def draw(
        self,
        sampler: TokenSampler | RangeSampler,
        egos: NDArray[np.int64] | None,
        layout: TokenLayout,
        update: Callable[..., None],
    ) -> "Shard":
        """Draw the shard's rows, copy after copy.

        Args:
            sampler: Of the rows.
            egos: The nodes that have rows; None for every node.
            layout: Of the token set.
            update: Called with (rows done, total).
        """
        blocks = []
        total, num_egos = layout.num_rows, layout.num_egos
        for copy in range(self.start // num_egos, (self.stop - 1) // num_egos + 1):
            base = copy * num_egos
            first, last = max(self.start, base), min(self.stop, base + num_egos)

            def report(done: int, _: int, first: int = first) -> None:
                update(first + done, total)

            here = slice(first - base, last - base)
            nodes = np.arange(here.start, here.stop) if egos is None else egos[here]
            blocks.append(sampler.packed_rows(nodes, copy, update=report))
        ids, spd, parts = (np.concatenate(arrays) for arrays in zip(*blocks, strict=True))
        update(self.stop, total)
        return Shard(self, ids, spd if layout.bits == 8 else to_nibbles(spd), parts)


@dataclass(frozen=True)
class Shard:
    """Rows of one shard, in memory or mapped; distances as they are stored.

    The shards of a large token set are compared with their checksums when they are first used:
    callers take them from `checked`.
    """

    place: ShardPlace
    ids: NDArray[np.int32]
    spd: NDArray[np.uint8]
    parts: NDArray[np.uint16]
    folder: Path | None = None  # that it is mapped from
    check: Callable[[], None] | None = None  # of its files, before the first use

    @property
    def nbytes(self) -> int:
        """Bytes of its arrays."""
        return self.ids.nbytes + self.spd.nbytes + self.parts.nbytes

    def checked(self) -> "Shard":
        """Return the shard itself.

        Raises:
            ArtifactError: If a file of it is damaged; the message names it.
        """
        if self.check is not None:
            self.check()
        return self

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return its arrays by name."""
        return dict(zip(self.place.names, (self.ids, self.spd, self.parts), strict=True))

    def write(self, writer: ShardWriter) -> None:
        """Write those of its arrays that an earlier run did not write."""
        for name, array in self.arrays().items():
            if name not in writer.done:
                writer.write_shard(name, array)


def open_writer(
    path: "str | PathLike[str]",
    layout: TokenLayout,
    nodes: NDArray[np.int64] | None,
    *,
    resume: bool,
    overwrite: bool,
) -> ShardWriter:
    """Check the target and open the journal."""
    writer = ShardWriter(
        path,
        kind=KIND,
        format_version=layout.format_version,
        params=layout.params(),
        fingerprint=layout.graph_fingerprint,
        shard_names=[name for place in layout.shards() for name in place.names],
        resume=resume,
        overwrite=overwrite,
        need_bytes=layout.num_rows * layout.row_bytes,
    )
    if nodes is not None:
        try:
            writer.write_array("nodes", nodes)
        except BaseException:
            writer.close()
            raise
    return writer


def fingerprint_of(nodes: NDArray[np.int64]) -> str:
    """Return the SHA-256 of a list of nodes: a build resumes only with the same list."""
    return hashlib.sha256(nodes.astype("<i8", copy=False).tobytes()).hexdigest()


def load(
    path: "str | PathLike[str]", *, verify: bool
) -> tuple[TokenLayout, list[Shard], NDArray[np.int64] | None]:
    """Open a token set; rows stay mapped, and are checked now or, if they are many, when used."""
    artifact = Artifact.open(path, kind=KIND, max_format=_FORMAT_WITH_RADIUS)
    if verify:
        artifact.verify()
    layout = _layout_of(artifact)
    shards = []
    for place in layout.shards():
        rows = place.stop - place.start
        ids = _array(artifact, place.names[0], np.int32, (rows, layout.spec.size), check=False)
        spd = _array(artifact, place.names[1], np.uint8, (rows, layout.stored_pairs), check=False)
        parts = _array(artifact, place.names[2], np.uint16, (rows, 2), check=False)
        check = None if verify else _OneCheck(artifact, place.names, (ids, spd, parts))
        if check is not None and not artifact.is_large:
            check()
        shards.append(Shard(place, ids, spd, parts, Path(path), check))
    nodes = None
    if layout.nodes_fingerprint is not None:
        nodes = _array(artifact, "nodes", np.int64, (layout.num_egos,), mmap=False)
        outside = (nodes < 0) | (nodes >= layout.num_nodes)
        if np.unique(nodes).size != nodes.size or outside.any():
            raise ArtifactError(
                f"{_file(path, 'nodes')}: holds repeated nodes or some that are not among the "
                f"{layout.num_nodes} of the graph; build the tokens again"
            )
    return layout, shards, nodes


class _OneCheck:
    """Compare the files of a shard with their checksums when it is first called."""

    def __init__(
        self, artifact: Artifact, names: tuple[str, ...], arrays: tuple[NDArray[Any], ...]
    ) -> None:
        self._artifact = artifact
        self._waiting = list(zip(names, arrays, strict=True))

    def __call__(self) -> None:
        for name, array in self._waiting:
            self._artifact.check_array(name, array, whole=True)
        self._waiting = []


def _array(
    artifact: Artifact, name: str, dtype: type, shape: tuple[int, ...], **options: bool
) -> NDArray[Any]:
    array = artifact.array(name, **options)
    if array.shape != shape or array.dtype != dtype:
        raise ArtifactError(
            f"{_file(artifact.path, name)}: holds {array.dtype} {array.shape}, "
            f"expected {np.dtype(dtype)} {shape}; build the tokens again"
        )
    return array


def _file(path: "str | PathLike[str]", name: str) -> Path:
    return Path(path) / (name + SUFFIX)


def gather(layout: TokenLayout, shards: list[Shard], at: NDArray[np.int64]) -> PackedRows:
    """Return the rows at some positions, which may lie in any shards."""
    ids = np.empty((len(at), layout.spec.size), np.int32)
    spd = np.empty((len(at), layout.stored_pairs), np.uint8)
    parts = np.empty((len(at), 2), np.uint16)
    shard_of = at // layout.shard_rows
    order = np.argsort(shard_of, kind="stable")
    numbers, firsts = np.unique(shard_of[order], return_index=True)
    for number, selected in zip(numbers, np.split(order, firsts[1:]), strict=len(at) > 0):
        within = at[selected] - number * layout.shard_rows
        shard = shards[number].checked()
        shard_ids = shard.ids[within]
        check_ids(shard_ids, layout, shard)
        ids[selected] = shard_ids
        spd[selected] = shard.spd[within]
        parts[selected] = shard.parts[within]
    if layout.bits == 4:
        spd = from_nibbles(spd, layout.spec.num_pairs(layout.directed))
    return PackedRows(ids, spd, parts)


def check_ids(ids: NDArray[np.int32], layout: TokenLayout, shard: Shard) -> None:
    """Raise an error for ids of no node: used as indices they would read out of bounds."""
    if ids.size and (ids.min() < PADDING or ids.max() >= layout.num_nodes):
        name = shard.place.names[0]
        where = name if shard.folder is None else _file(shard.folder, name)
        raise ArtifactError(
            f"{where} is damaged: expected ids from {PADDING} to {layout.num_nodes - 1}, found "
            f"{ids.min()} to {ids.max()}; restore it from a copy or build the tokens again"
        )


def to_nibbles(distances: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return two distances per byte, the first in the low half; 14 and more become "far"."""
    short = np.minimum(distances, _NIBBLE_FAR)
    short[distances == NO_PATH] = _NIBBLE_NO_PATH
    if short.shape[1] % 2:
        short = np.pad(short, ((0, 0), (0, 1)), constant_values=_NIBBLE_NO_PATH)
    pairs: NDArray[np.uint8] = short[:, 0::2] | (short[:, 1::2] << 4)
    return pairs


def from_nibbles(stored: NDArray[np.uint8], num_pairs: int) -> NDArray[np.uint8]:
    """Return the distances that `to_nibbles` kept, in the codes of eight bits."""
    out = np.empty((len(stored), 2 * stored.shape[1]), np.uint8)
    out[:, 0::2] = stored & 15
    out[:, 1::2] = stored >> 4
    codes = np.arange(16, dtype=np.uint8)
    codes[_NIBBLE_FAR], codes[_NIBBLE_NO_PATH] = FAR, NO_PATH
    distances: NDArray[np.uint8] = codes[out[:, :num_pairs]]
    return distances


def _layout_of(artifact: Artifact) -> TokenLayout:
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
        layout = TokenLayout(
            spec=TokenSpec.from_dict(params),
            graph_fingerprint=artifact.fingerprint,
            radius=whole_number("radius", params.get("radius"), 1, _MOST_NODES, optional=True),
            **{name: params[name] for name in _LAYOUT_PARAMS},
        )
        num_shards = sum(name.startswith("ids-") for name in artifact.names)
        if num_shards != layout.num_shards:
            raise ValueError(f"{layout.num_shards} shards expected, {num_shards} there")
    except (KeyError, TypeError, ValueError) as error:
        reason = f"{error} is missing" if isinstance(error, KeyError) else str(error)
        raise ArtifactError(
            f"{artifact.path / MANIFEST}: settings are not those of tokens ({reason}); build the "
            "tokens again"
        ) from error
    return layout


def _check_type(name: str, value: Any, expected: type) -> None:
    if not isinstance(value, expected):
        raise ValueError(f"{name} = {value!r} is not a {expected.__name__}")
