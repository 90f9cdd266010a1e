"""Generated graphs in place of real ones that are large and cannot always be had.

A stand-in has the number of nodes, edges, features and classes of the real graph, its share of
edges within classes where that is published, and degrees with a power-law tail, so that it has
hubs as social and citation networks do. It is good for measuring time and memory. A score on it
means nothing for the real graph, and its name says so wherever it is shown.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dhilgt.datasets import optional
from dhilgt.datasets.files import Files
from dhilgt.datasets.readers.raw import Raw
from dhilgt.datasets.registry import info
from dhilgt.errors import DatasetError
from dhilgt.graph.random_graphs import class_features, draw


@dataclass(frozen=True, slots=True)
class _Shape:
    """What the published numbers leave open.

    Attributes:
        power: Exponent of the tail of degrees.
        nodes_per_community: Dense graphs need larger ones, or there is no room for their edges.
        class_weights: Relative sizes of the classes.
        noise: Of the features, so that they tell the class only in part.
        unlabelled: Nodes without a class.
        groups: Widths of groups of columns, one of which is 1 in each; for sparse features.
    """

    power: float
    nodes_per_community: int
    class_weights: tuple[int, ...]
    noise: float = 1.0
    unlabelled: int = 0
    groups: tuple[int, ...] = ()


_SHAPES = {
    # Published as 0.470 with "not given" counted as a class of its own; 0.534 among the others.
    "penn94-like": _Shape(3.2, 1000, (1, 1), unlabelled=2_739, groups=(7, 112, 103, 54, 22, 4_516)),
    "genius-like": _Shape(2.8, 100, (4, 1), noise=2.0),
    "twitch-like": _Shape(2.5, 2000, (53, 47), noise=4.0),
    "mag-like": _Shape(3.0, 100, tuple(10_000 // (rank + 10) for rank in range(349)), noise=4.0),
}
_ARXIV_NOISE = 4.0


def read(files: Files, *, features: bool, official: bool, seed: int = 0, scale: float = 1.0) -> Raw:
    """Gives a stand-in; of arxiv-like the features only are generated.

    Args:
        files: Which one, and where the files of the real graph are if it needs any.
        features: Make features.
        official: Read the official split (arxiv-like).
        seed: Which graph.
        scale: Share of the real number of nodes and edges.
    """
    if files.info.name == "arxiv-like":
        return _on_arxiv(files, features, official, seed)
    return make(files.info.name, seed=seed, scale=scale, features=features)


def make(name: str, *, seed: int = 0, scale: float = 1.0, features: bool = True) -> Raw:
    """Gives a stand-in that needs no files.

    Args:
        name: penn94-like, genius-like, twitch-like or mag-like.
        seed: Which graph.
        scale: Share of the real number of nodes and edges, above 0 and up to 1.
        features: Make features too.

    Example:
        >>> raw = make("genius-like", scale=0.01)
        >>> raw.num_nodes, 2 * len(raw.sources), raw.features.shape
        (4220, 18460, (4220, 12))
    """
    if not 0 < scale <= 1:
        raise DatasetError(f"scale={scale}; pass a number above 0 and up to 1")
    shape, size = _SHAPES[name], info(name).facts
    assert size.nodes is not None
    assert size.edges is not None
    assert size.features is not None
    assert size.classes is not None
    assert size.homophily is not None
    nodes = round(size.nodes * scale)
    communities = max(size.classes, nodes // shape.nodes_per_community)
    drawn = draw(
        nodes,
        size.edges / size.nodes,
        num_classes=size.classes,
        homophily=size.homophily,
        power=shape.power,
        num_communities=communities,
        seed=seed,
        class_weights=shape.class_weights,
    )
    x: Any = None
    if features and shape.groups:
        x = _one_hot_groups(drawn.rng, drawn.labels, shape.groups)
    elif features:
        x = class_features(drawn.rng, drawn.labels, size.classes, size.features, shape.noise)
    labels = drawn.labels
    labels[drawn.rng.permutation(nodes)[: round(shape.unlabelled * scale)]] = -1
    return Raw(nodes, drawn.sources, drawn.targets, labels, x)


def _one_hot_groups(
    rng: np.random.Generator, labels: NDArray[np.int64], groups: tuple[int, ...]
) -> Any:
    """Gives sparse features with one 1 per group; half of the second group leans to the class."""
    columns = np.empty((len(labels), len(groups)), dtype=np.int64)
    start = 0
    for at, width in enumerate(groups):
        # The cube of a uniform number: a few values are common, most are rare.
        chosen = (rng.random(len(labels)) ** 3 * width).astype(np.int64)
        if at == 1:
            leans = rng.random(len(labels)) < 0.5
            chosen = np.where(leans, chosen // 2 * 2 + labels % 2, chosen)
        columns[:, at] = start + np.minimum(chosen, width - 1)
        start += width
    ones = np.ones(columns.size, dtype=np.float32)
    offsets = np.arange(0, columns.size + 1, len(groups))
    return optional.scipy_sparse().csr_matrix(
        (ones, columns.reshape(-1), offsets), shape=(len(labels), start)
    )


def _on_arxiv(files: Files, features: bool, official: bool, seed: int) -> Raw:
    from dhilgt.datasets.readers import ogb

    real = ogb.read(files, features=False, official=official)
    x = None
    if features:
        size = files.info.facts
        assert size.classes is not None
        assert size.features is not None
        rng = np.random.Generator(np.random.PCG64(seed))
        x = class_features(rng, real.labels, size.classes, size.features, _ARXIV_NOISE)
    return Raw(real.num_nodes, real.sources, real.targets, real.labels, x, real.splits)
