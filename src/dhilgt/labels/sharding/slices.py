"""Shards of hubs, opened for reading: the slices of them that belong to a range of nodes."""

from collections.abc import Sequence
from os import PathLike
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dhilgt.errors import ArtifactError
from dhilgt.labels.sharding.sections import Sections
from dhilgt.labels.sharding.units import HubShard

Slice = tuple[int, int, NDArray[np.uint8]]  # first hub, the one after the last, entries by node


class OpenShard:
    """The file of a shard, mapped.

    Args:
        folder: Where it is.
        shard: The shard.

    Raises:
        ArtifactError: If the file is missing or damaged, or is not that of the shard.
    """

    def __init__(self, folder: Path, shard: HubShard) -> None:
        self.sections = Sections(folder / shard.name, shard.sha256)
        self.first, self.last = shard.first, shard.last
        params = self.sections.params
        if [params[key] for key in ("first", "last", "side")] != [*shard[:3]]:
            raise ArtifactError(
                f"{self.sections.path} holds hubs [{params['first']}, {params['last']}) of side "
                f"{params['side']!r}, not [{shard.first}, {shard.last}) of {shard.side!r}"
            )
        self.label_bounds: list[int] = params["label_bounds"]
        self.common = (params["fingerprint"], params["radius"], params["label_bounds"])


def opened_shards(
    folder: "str | PathLike[str]", shards: Sequence[HubShard], side: str, first: int, last: int
) -> list[OpenShard]:
    """Return the shards of one side that make up the hubs [first, last), by rank.

    Args:
        folder: Where they are.
        shards: Shards of any side and rank.
        side: The side.
        first: Rank of the first hub.
        last: Rank after the last one.

    Raises:
        ArtifactError: If hubs are missing or are in two shards, a file is missing or damaged, or
            shards were made with different parameters.
    """
    chosen = sorted(one for one in shards if one.side == side and first <= one.first < last)
    at = first
    for one in chosen:
        if one.first != at:
            what = "is in two shards" if one.first < at else "is in no shard"
            raise ArtifactError(f"hub {min(at, one.first)} of side {side!r} {what}; run it again")
        at = one.last
    if at != last:
        raise ArtifactError(f"hub {at} of side {side!r} is in no shard; run it again")
    opened = [OpenShard(Path(folder), one) for one in chosen]
    for other in opened:
        if other.common != opened[0].common:
            raise ArtifactError(
                f"{other.sections.path} was made with another graph, order, radius or parts than "
                f"{opened[0].sections.path}; make all shards with the same"
            )
    return opened


def slices_of(opened: Sequence[OpenShard], part: int) -> list[Slice]:
    """Return the slices of one range of nodes, checked against their hashes."""
    return [(one.first, one.last, one.sections.array(f"part_{part:05d}")) for one in opened]
