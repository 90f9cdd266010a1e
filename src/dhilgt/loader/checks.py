"""Checks of a loader's arguments."""

from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray

from dhilgt.errors import GraphError, MemoryLimitError
from dhilgt.graph import checks
from dhilgt.tokens.sampler import TokenSampler
from dhilgt.tokens.single import TokenSource
from dhilgt.tokens.tokens import Tokens
from dhilgt.utils.checks import as_array, whole_number
from dhilgt.utils.devices import checked_process, free_bytes, this_process
from dhilgt.utils.memory import format_bytes


def checked_resident(
    resident: bool | Literal["auto", "features"],
    device: torch.device,
    all_bytes: int,
    feature_bytes: int,
) -> bool | Literal["features"]:
    """Return what stays on the device: True for features and rows, "features", or False.

    Args:
        resident: The setting.
        device: Where it would stay.
        all_bytes: Bytes of features and rows.
        feature_bytes: Bytes of features alone.

    Raises:
        MemoryLimitError: If it does not fit.
    """
    free = free_bytes(device)
    if resident == "auto":
        half = (free or 0) // 2 if device.type == "cuda" else 0
        if all_bytes < half:
            return True
        return "features" if feature_bytes < half else False
    if not isinstance(resident, (bool, np.bool_)) and resident != "features":
        raise ValueError(f'resident = {resident!r}; pass True, False, "features" or "auto"')
    alone = resident == "features"
    needed = feature_bytes if alone else all_bytes
    if resident and free is not None and needed > free:
        raise MemoryLimitError(
            f"features{'' if alone else ' and rows'} take {format_bytes(needed)}, "
            f"{format_bytes(free)} are free on {device}; pass resident=False"
        )
    return "features" if alone else bool(resident)


def checked_copies(tokens: TokenSource, copies: int, fresh: bool) -> int:
    """Return the number of copies, if the tokens have that many."""
    copies = whole_number("copies", copies, 1, 2**31)
    if isinstance(tokens, TokenSampler):
        return copies
    if fresh:
        raise ValueError(
            "fresh=True with stored tokens: these are drawn already; pass a TokenSampler, or store "
            "several copies (Tokens.build(..., copies=k)) and pass copies=k to take one each epoch"
        )
    if copies > tokens.copies:
        raise ValueError(
            f"copies = {copies}, but {tokens.copies} are stored; build the tokens with "
            f"copies={copies}, or pass a TokenSampler"
        )
    return copies


def checked_egos(tokens: TokenSource, nodes: Any) -> NDArray[np.int64]:
    """Return the indices of the egos, from a mask or indices; from None, of all with rows."""
    count = tokens.num_nodes
    stored = tokens.nodes if isinstance(tokens, Tokens) else None
    if nodes is None:
        chosen = np.arange(count) if stored is None else stored
    else:
        array = as_array(nodes)
        mask = checks.node_mask(array, count, "nodes")
        chosen = np.flatnonzero(mask) if array.dtype == np.bool_ else array.astype(np.int64)
    if chosen.size == 0:
        raise GraphError("nodes selects no node; check the mask, or pass None for all")
    if stored is not None and stored.size < count:
        missing = np.flatnonzero(~np.isin(chosen, stored))
        if missing.size:
            raise GraphError(
                f"node {chosen[missing[0]]} has no row: these tokens cover {stored.size} of "
                f"{count} nodes; build them for this node too, or use a TokenSampler"
            )
    return chosen


def checked_known(known: Any, count: int) -> NDArray[np.int32]:
    """Return class + 1 of each node, 0 for those whose class the model may not see.

    Args:
        known: Class of each node, -1 for those whose class the model may not see.
        count: Number of nodes.

    Example:
        >>> checked_known([2, -1, 0], 3)
        array([3, 0, 1], dtype=int32)
    """
    codes, names = checks.labels(as_array(known), count)
    if names is not None:
        raise GraphError("known holds names; pass the number of each class, -1 for none")
    return (codes + 1).astype(np.int32)


def refuse_unlabelled(nodes: NDArray[np.int64], labels: NDArray[np.int64]) -> None:
    """Refuse egos without a label."""
    missing = np.flatnonzero(labels[nodes] < 0)
    if missing.size:
        raise GraphError(
            f"nodes selects node {nodes[missing[0]]}, which has no label ({missing.size} such "
            "nodes); use mask & (labels >= 0), or labels=None to predict"
        )


def checked_rank(rank: int | None, world_size: int | None) -> tuple[int, int]:
    """Return rank and world size: the two arguments, or those of this process if both are None."""
    if (rank is None) != (world_size is None):
        raise ValueError(f"rank = {rank}, world_size = {world_size}; pass both or neither")
    if rank is None or world_size is None:
        return this_process()[:2]
    return checked_process(rank, world_size)[:2]
