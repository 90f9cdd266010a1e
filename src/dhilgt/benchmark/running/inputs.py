"""Inputs that are offered to every baseline: scaled and averaged features, neighbours, classes.

DHIL-GT has settings of this kind of its own. A comparison in which only one system may use them
would compare inputs, not models, so that a search has them for all.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dhilgt.features.from_graph import STACK, with_hops
from dhilgt.features.known_classes import training_classes
from dhilgt.features.projection import Projection
from dhilgt.features.scale import NONE, RANK, STANDARD, FeatureScale
from dhilgt.graph.graph import Graph
from dhilgt.utils.fields import CheckedSettings, choice, count, switch


@dataclass(frozen=True)
class Inputs(CheckedSettings):
    """What a baseline is given beside the features of the graph.

    Attributes:
        feature_scale: "none", "standard" or "rank", as the setting of DHIL-GT; sparse features are
            never ranked, but standardised.
        feature_hops: Rounds of averaging over neighbours whose results are appended.
        neighbor_directions: Columns with the main directions of the neighbours of a node: the
            normalised adjacency matrix, projected.
        class_inputs: Append the classes of training nodes one and two steps away, as fractions. For
            systems in which the output of a node depends on its own inputs alone: in others a
            training node would see its own class in the inputs of its neighbours.

    Example:
        >>> graph = Graph.from_edges([0, 1], [1, 2], features=[[2.0], [0.0], [4.0]])
        >>> Inputs(feature_hops=1).of(graph).features.astype(float).round(2).tolist()
        [[2.0, 1.0], [0.0, 2.45], [4.0, 2.0]]
        >>> Inputs().of(graph) is graph
        True
    """

    _noun = "an input"

    feature_scale: str = choice(NONE, STANDARD, RANK)
    feature_hops: int = count(0, 0, 32)
    neighbor_directions: int = count(0, 0, 2**16)
    class_inputs: bool = switch(False)

    @classmethod
    def parted(cls, settings: Mapping[str, Any]) -> tuple[Inputs, dict[str, Any]]:
        """Return the inputs among some settings, and all other settings.

        Example:
            >>> Inputs.parted({"heads": 2, "feature_hops": 1})[1]
            {'heads': 2}
        """
        names = {one.name for one in fields(cls)}
        own = {name: value for name, value in settings.items() if name in names}
        rest = {name: value for name, value in settings.items() if name not in names}
        return cls.from_dict(own), rest

    def changed(self) -> dict[str, Any]:
        """Return those that differ from the plain features of the graph."""
        plain = Inputs().to_dict()
        return {name: value for name, value in self.to_dict().items() if value != plain[name]}

    def of(self, graph: Graph) -> Graph:
        """Return the graph with these inputs as features.

        Args:
            graph: With features, and for `class_inputs` with classes and training nodes.
        """
        if not self.changed():
            return graph
        features = with_hops(graph, graph.features, self.feature_hops, STACK)
        kind = usable_scale(self.feature_scale, features)
        if kind != NONE:
            features = FeatureScale.fit(features, kind).apply(features)
        further = []
        if self.neighbor_directions:
            further.append(neighbor_directions(graph, self.neighbor_directions))
        if self.class_inputs:
            further.append(class_fractions(graph))
        return graph.with_data(features=_beside(features, further))


def usable_scale(kind: str, features: Any) -> str:
    """Return the scale itself, or "standard" for ranks of sparse features, which there are not."""
    return STANDARD if kind == RANK and hasattr(features, "tocsr") else kind


def neighbor_directions(graph: Graph, num_channels: int) -> NDArray[np.float32]:
    """Return the main directions of the normalised adjacency matrix, [n, num_channels].

    A graph with no more nodes than that has the matrix itself, filled up with zeros.

    Args:
        graph: The graph; its edges are used in the direction that they have.
        num_channels: Number of columns.
    """
    adjacency = _adjacency(graph)
    scale = 1 / np.sqrt(np.maximum(np.diff(adjacency.indptr), 1))
    normalised = adjacency.multiply(scale[:, None]).multiply(scale[None, :]).tocsr()
    normalised = normalised.astype(np.float32)
    if num_channels < graph.num_nodes:
        return Projection.fit(normalised, num_channels).apply(normalised)
    whole = np.zeros((graph.num_nodes, num_channels), np.float32)
    whole[:, : graph.num_nodes] = normalised.toarray()
    return whole


def class_fractions(graph: Graph) -> NDArray[np.float32]:
    """Return the classes of training nodes one and two steps away, as fractions, [n, 2 classes].

    A node's own class is never counted, also not where a path of two steps leads back to it. A node
    without training nodes near it has zeros.

    Args:
        graph: With classes and a mask of training nodes.

    Example:
        >>> graph = Graph.from_edges([0, 1], [1, 2], labels=[1, 0, 1])
        >>> graph = graph.with_data(masks={"train": np.array([True, True, False])})
        >>> class_fractions(graph).tolist()
        [[1.0, 0.0, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0], [1.0, 0.0, 0.0, 1.0]]
    """
    known = training_classes(graph)
    own = np.zeros((graph.num_nodes, graph.num_classes), np.float32)
    is_known = known >= 0
    own[is_known, known[is_known]] = 1
    adjacency = _adjacency(graph)
    near = adjacency @ own
    paths_back = np.asarray(adjacency.multiply(adjacency.T).sum(axis=1)).reshape(-1, 1)
    far = adjacency @ near - paths_back * own
    rows = [one / np.maximum(one.sum(axis=1, keepdims=True), 1) for one in (near, far)]
    return np.concatenate(rows, axis=1).astype(np.float32)


def _adjacency(graph: Graph) -> Any:
    from scipy import sparse

    offsets, targets = np.asarray(graph.offsets), np.asarray(graph.targets)
    ones = np.ones(len(targets), np.float32)
    return sparse.csr_matrix((ones, targets, offsets), shape=(graph.num_nodes,) * 2)


def _beside(features: Any, further: list[NDArray[np.float32]]) -> Any:
    if not further:
        return features
    if hasattr(features, "tocsr"):
        from scipy import sparse

        return sparse.hstack([features, *map(sparse.csr_matrix, further)], format="csr")
    return np.concatenate([features, *further], axis=1).astype(np.float32)
