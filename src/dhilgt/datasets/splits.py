"""Splits of the nodes into training, validation and test sets.

A random split depends only on the seed and on which nodes are labelled: every node gets a 64-bit
key from (seed, node) by the finaliser of SplitMix64, the labelled nodes are sorted by key, and the
first 60 % train, the next 20 % validate, the rest test. It uses integers only, so that it is the
same on every machine and with every version of NumPy.
"""

import hashlib
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from dhilgt.datasets.readers.raw_graph import Split
from dhilgt.errors import DatasetError, argument
from dhilgt.graph import checks
from dhilgt.utils.hashes import GOLDEN, finalized, hashed

Masks = dict[str, NDArray[np.bool_]]

_LARGEST_SEED = 2**64 - 1


def random_split(
    labels: NDArray[np.int64], seed: int = 0, shares: Sequence[float] = (60, 20, 20)
) -> Masks:
    """Return a random split of the labelled nodes.

    Args:
        labels: Class of each node, -1 where unknown; unlabelled nodes are in no part.
        seed: Number of the split, 0 to 2**64 - 1.
        shares: Percentages for training, validation and test. The first two sizes are rounded
            down, the rest is for the test.

    Raises:
        DatasetError: For a seed out of range, or shares that do not add up to 100.

    Example:
        >>> masks = random_split(np.zeros(10, dtype=np.int64), seed=1)
        >>> [np.flatnonzero(masks[part]).tolist() for part in ("train", "val", "test")]
        [[0, 2, 4, 7, 8, 9], [5, 6], [1, 3]]
    """
    if not 0 <= seed <= _LARGEST_SEED:
        raise DatasetError(f"{argument('seed', seed)}; pass 0 to 2**64 - 1")
    tenths = [round(share * 10) for share in shares]
    if len(tenths) != 3 or min(tenths) < 0 or sum(tenths) != 1000:
        raise DatasetError(
            f"shares {tuple(shares)} do not add up to 100; pass three, such as 60/20/20"
        )
    nodes = np.flatnonzero(labels >= 0)
    order = nodes[np.argsort(node_keys(nodes, seed), kind="stable")]
    first = len(order) * tenths[0] // 1000
    second = first + len(order) * tenths[1] // 1000
    bounds = {"train": (0, first), "val": (first, second), "test": (second, len(order))}
    masks = {}
    for part, (low, high) in bounds.items():
        masks[part] = np.zeros(len(labels), dtype=np.bool_)
        masks[part][order[low:high]] = True
    return masks


def node_keys(nodes: NDArray[np.int64], seed: int) -> NDArray[np.uint64]:
    """Return a random number per node: splitmix64, exact in 64-bit integers on every platform."""
    start = hashed(np.array([seed], dtype=np.uint64))
    return finalized(start + (nodes.astype(np.uint64) + np.uint64(1)) * GOLDEN)


def official_split(splits: Sequence[Split], num_nodes: int, seed: int, name: str) -> Masks:
    """Return official split number ``seed`` modulo their number, as masks.

    Raises:
        DatasetError: If there is none.
    """
    if not splits:
        raise DatasetError(
            f"{name} has no official split; pass {argument('split', 'random')} or "
            f"{argument('split', '60/20/20')}"
        )
    chosen = splits[seed % len(splits)]
    return {
        part: checks.node_mask(np.asarray(chosen[part]), num_nodes, f"split {part!r}")
        for part in checks.MASK_NAMES
    }


def parse_percentages(text: str | None) -> tuple[float, ...] | None:
    """Return the numbers of a text like "60/20/20"; None for anything else.

    Example:
        >>> parse_percentages("50/25/25"), parse_percentages("official")
        ((50.0, 25.0, 25.0), None)
    """
    try:
        percentages = tuple(float(part) for part in (text or "").split("/"))
    except ValueError:
        return None
    return percentages if len(percentages) == 3 else None


def split_hash(masks: Mapping[str, NDArray[np.bool_]] | None) -> str:
    """Return 16 hexadecimal digits that identify a split, to print beside a score.

    Args:
        masks: Masks by the names train, val and test, such as `Graph.masks`.

    Example:
        >>> split_hash(random_split(np.zeros(10, dtype=np.int64), seed=1))
        '817079b041ed788c'
    """
    digest = hashlib.sha256(b"dhilgt split 1")
    for part in checks.MASK_NAMES:
        mask = np.empty(0, np.bool_) if masks is None or part not in masks else masks[part]
        nodes = np.flatnonzero(mask).astype("<i8")
        digest.update(part.encode() + len(nodes).to_bytes(8, "little") + nodes.tobytes())
    return digest.hexdigest()[:16]
