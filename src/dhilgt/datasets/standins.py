"""Generated graphs in place of real ones that are large and not always available.

A stand-in has the number of nodes, edges, features and classes of the real graph, its homophily
where that is published, and degrees with a power-law tail, so that it has hubs like social and
citation networks. It serves to measure time and memory. A score on it says nothing about the real
graph, and its title states that wherever it is shown.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dhilgt.datasets.files import Files
from dhilgt.datasets.readers.raw_graph import RawGraph, one_hot_rows
from dhilgt.datasets.registry import info
from dhilgt.errors import DatasetError
from dhilgt.graph.random_graphs import class_features, draw


@dataclass(frozen=True, slots=True)
class _StandinShape:
    """Properties that the published numbers do not determine.

    Attributes:
        power: Exponent of the tail of degrees.
        nodes_per_community: Size of communities; dense graphs need larger ones for their edges.
        class_weights: Relative sizes of the classes.
        noise: Noise of the features, so that they predict the class only in part.
        unlabelled: Nodes without a class.
        groups: Widths of groups of columns with one 1 each; for sparse features.
    """

    power: float
    nodes_per_community: int
    class_weights: tuple[int, ...]
    noise: float = 1.0
    unlabelled: int = 0
    groups: tuple[int, ...] = ()


_SHAPES = {
    # Its homophily is published as 0.470 with "unknown" as a class; it is 0.534 among the others.
    "penn94-like": _StandinShape(
        3.2, 1000, (1, 1), unlabelled=2_739, groups=(7, 112, 103, 54, 22, 4_516)
    ),
    "genius-like": _StandinShape(2.8, 100, (4, 1), noise=2.0),
    "twitch-like": _StandinShape(2.5, 2000, (53, 47), noise=4.0),
    "mag-like": _StandinShape(
        3.0, 100, tuple(10_000 // (rank + 10) for rank in range(349)), noise=4.0
    ),
}
_ARXIV_NOISE = 4.0


def read(files: Files, *, features: bool, official: bool) -> RawGraph:
    """Return a stand-in; of arxiv-like only the features are generated.

    Args:
        files: The dataset, with the files of the real graph if it needs any.
        features: Generate features.
        official: Read the official split (arxiv-like).
    """
    if files.info.name == "arxiv-like":
        return _on_arxiv(files, features, official)
    return make(files.info.name, features=features)


def make(name: str, *, seed: int = 0, scale: float = 1.0, features: bool = True) -> RawGraph:
    """Return a stand-in that needs no files.

    Args:
        name: penn94-like, genius-like, twitch-like or mag-like.
        seed: Seed of the generator.
        scale: Fraction of the real number of nodes and edges, above 0 and up to 1.
        features: Generate features too.

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
    return RawGraph(nodes, drawn.sources, drawn.targets, labels, x)


def _one_hot_groups(
    rng: np.random.Generator, labels: NDArray[np.int64], groups: tuple[int, ...]
) -> Any:
    """Return sparse features with one 1 per group; half of the second group follows the class."""
    columns = np.empty((len(labels), len(groups)), dtype=np.int64)
    start = 0
    for at, width in enumerate(groups):
        # The cube of a uniform number: a few values are common, most are rare.
        values = (rng.random(len(labels)) ** 3 * width).astype(np.int64)
        if at == 1:
            follows_class = rng.random(len(labels)) < 0.5
            values = np.where(follows_class, values // 2 * 2 + labels % 2, values)
        columns[:, at] = start + np.minimum(values, width - 1)
        start += width
    return one_hot_rows(columns, start)


def _on_arxiv(files: Files, features: bool, official: bool) -> RawGraph:
    from dhilgt.datasets.readers import ogb

    real = ogb.read(files, features=False, official=official)
    x = None
    if features:
        size = files.info.facts
        assert size.classes is not None
        assert size.features is not None
        rng = np.random.Generator(np.random.PCG64(0))
        x = class_features(rng, real.labels, size.classes, size.features, _ARXIV_NOISE)
    return replace(real, features=x)
