"""What a loader checks before it works, and what it asks its surroundings."""

import os
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray

from dhilgt.errors import GraphError, MemoryLimitError
from dhilgt.graph import checks
from dhilgt.tokens.sampler import TokenSampler
from dhilgt.tokens.tokens import Tokens
from dhilgt.utils.checks import as_array, whole_number
from dhilgt.utils.memory import available_bytes, format_bytes


def resolve_device(device: "str | torch.device") -> torch.device:
    """Gives a device that is there.

    Args:
        device: As torch names it, or "auto": a GPU if there is one.

    Raises:
        ValueError: If it is not there, with those that are.
    """
    there = ["cpu", *(f"cuda:{number}" for number in range(torch.cuda.device_count()))]
    if device == "auto":
        device = "cuda" if len(there) > 1 else "cpu"
    try:
        found = torch.device(device)
    except RuntimeError as error:
        raise ValueError(f"device = {device!r} ({error}); there are {', '.join(there)}") from None
    if found.type == "cuda" and (found.index or 0) >= len(there) - 1:
        raise ValueError(f'device = {str(found)!r} is not there; use {", ".join(there)} or "auto"')
    if found.type == "cuda" and found.index is None:
        # "The current one" would be another one in another thread.
        return torch.device("cuda", torch.cuda.current_device())
    return found


def checked_resident(
    resident: bool | Literal["auto", "features"],
    device: torch.device,
    all_bytes: int,
    feature_bytes: int,
) -> bool | Literal["features"]:
    """Gives what stays on the device: True for all of it, "features", or False.

    Args:
        resident: What was asked for.
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


def checked_copies(tokens: Tokens | TokenSampler, copies: int, fresh: bool) -> int:
    """Gives the number of copies, if the tokens have as many."""
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


def checked_egos(tokens: Tokens | TokenSampler, nodes: Any) -> NDArray[np.int64]:
    """Gives the indices of the egos, from a mask, from indices, or all that have rows."""
    count = tokens.num_nodes
    stored = tokens.nodes if isinstance(tokens, Tokens) else None
    if nodes is None:
        chosen = np.arange(count) if stored is None else stored
    else:
        given = as_array(nodes)
        mask = checks.node_mask(given, count, "nodes")
        chosen = np.flatnonzero(mask) if given.dtype == np.bool_ else given.astype(np.int64)
    if chosen.size == 0:
        raise GraphError("nodes selects no node; check the mask, or pass None for all")
    if stored is not None and stored.size < count:
        bare = np.flatnonzero(~np.isin(chosen, stored))
        if bare.size:
            raise GraphError(
                f"node {chosen[bare[0]]} has no row: these tokens cover {stored.size} of {count} "
                "nodes; build them for this node too, or use a TokenSampler"
            )
    return chosen


def checked_known(known: Any, count: int) -> NDArray[np.int32]:
    """Gives class + 1 of each node, 0 where the class is not to be seen, from classes and -1.

    Example:
        >>> checked_known([2, -1, 0], 3)
        array([3, 0, 1], dtype=int32)
    """
    codes, names = checks.labels(as_array(known), count)
    if names is not None:
        raise GraphError("known holds names; pass the number of each class, -1 for none")
    return (codes + 1).astype(np.int32)


def refuse_unlabelled(nodes: NDArray[np.int64], labels: NDArray[np.int64]) -> None:
    """Refuses egos without a label."""
    bare = np.flatnonzero(labels[nodes] < 0)
    if bare.size:
        raise GraphError(
            f"nodes selects node {nodes[bare[0]]}, which has no label ({bare.size} such nodes); "
            "use mask & (labels >= 0), or labels=None to predict"
        )


def this_process(rank: int | None, world_size: int | None) -> tuple[int, int]:
    """Gives rank and world size: as given, of torch.distributed, or of the environment."""
    if (rank is None) != (world_size is None):
        raise ValueError(f"rank = {rank}, world_size = {world_size}; pass both or neither")
    if rank is None or world_size is None:
        distributed = torch.distributed
        if distributed.is_available() and distributed.is_initialized():
            rank, world_size = distributed.get_rank(), distributed.get_world_size()
        else:
            try:
                rank = int(os.environ.get("RANK", "0"))
                world_size = int(os.environ.get("WORLD_SIZE", "1"))
            except ValueError as error:
                raise ValueError(f"RANK and WORLD_SIZE must be whole numbers ({error})") from None
    world_size = whole_number("world_size", world_size, 1, 2**31)
    return whole_number("rank", rank, 0, world_size - 1), world_size


def free_bytes(device: torch.device) -> int | None:
    """Gives the free memory of a device; None where it does not tell."""
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    return available_bytes() if device.type == "cpu" else None
