"""The common kinds of baselines: over a graph, over nodes one by one, and over rows of tokens."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dhilgt.baselines.base import Baseline
from dhilgt.baselines.batches import Kept, NodeLoader, PartitionLoader, RowStore
from dhilgt.baselines.shared.clean import CleanGraph
from dhilgt.baselines.shared.features import dense_features
from dhilgt.graph import Graph


class GraphBaseline(Baseline):
    """A model over a graph: the whole one, or random blocks of it in training.

    `logits(x, ..., rows)` gets the features of all nodes in sight, what `graph_inputs` gives, and
    the places of the nodes that are asked for. Scores are made on the whole graph.

    The settings need a field ``batch_size``: the most nodes of a block, None for the whole graph.
    """

    def _prepare(self, graph: Graph) -> None:
        self._clean = self.clean(graph)
        self._x = self.features(graph)
        self._whole: tuple[Kept, ...] = tuple(
            Kept(part) for part in (self._x, *self.graph_inputs(self._clean))
        )

    def clean(self, graph: Graph) -> CleanGraph:
        """Gives the edges to work on: both directions, one loop per node."""
        return CleanGraph.of(graph)

    def features(self, graph: Graph) -> Tensor:
        """Gives the features, [n, F0]."""
        return dense_features(graph)

    def graph_inputs(self, part: CleanGraph) -> tuple[Any, ...]:
        """Gives what `logits` gets besides features: by default Â = D^-1/2 (A + I) D^-1/2."""
        return (part.adjacency("symmetric"),)

    def _train_loader(self, nodes: NDArray[np.int64], labels: NDArray[np.int64], seed: int) -> Any:
        size: int | None = getattr(self.settings, "batch_size", None)
        if size is None:
            return NodeLoader(
                self._with_rows, nodes, labels, seed=seed, fixed=True, on_epoch=self.begin_epoch
            )
        return PartitionLoader(
            self._block,
            self._clean,
            nodes,
            labels,
            block_size=size,
            seed=seed,
            on_epoch=self.begin_epoch,
        )

    def _inference_loader(self, nodes: NDArray[np.int64], labels: NDArray[np.int64] | None) -> Any:
        return NodeLoader(self._with_rows, nodes, labels, fixed=True, may_stay=True)

    def _with_rows(self, nodes: NDArray[np.int64], key: Any) -> tuple[Any, ...]:
        return (*self._whole, torch.from_numpy(nodes))

    def _block(
        self, part: CleanGraph, nodes: NDArray[np.int64], rows: NDArray[np.int64]
    ) -> tuple[Any, ...]:
        x = self._x.index_select(0, torch.from_numpy(nodes))
        return (x, *self.graph_inputs(part), torch.from_numpy(rows))


class NodeBaseline(Baseline):
    """A model whose batches follow from their nodes alone: `_inputs(nodes, key)` makes one.

    The settings need a field ``batch_size``: nodes per batch, None for all at once.

    Attributes:
        draws: Whether `_inputs` draws by its key; otherwise a batch of the same nodes is the same.
        may_stay: Whether inputs that do not fit the device may stay on the host in evaluation.
    """

    draws: ClassVar[bool] = False
    may_stay: ClassVar[bool] = True

    @abstractmethod
    def _inputs(self, nodes: NDArray[np.int64], key: Any) -> tuple[Any, ...]:
        """Gives what `logits` gets for some nodes; all draws come from the key."""

    def _train_loader(self, nodes: NDArray[np.int64], labels: NDArray[np.int64], seed: int) -> Any:
        size = self._batch_size()
        return NodeLoader(
            self._inputs,
            nodes,
            labels,
            batch_size=size,
            shuffle=size is not None,
            seed=seed,
            fixed=not self.draws,
            on_epoch=self.begin_epoch,
        )

    def _inference_loader(self, nodes: NDArray[np.int64], labels: NDArray[np.int64] | None) -> Any:
        # The same draws each time: scores of two epochs differ by the weights alone.
        return NodeLoader(
            self._inputs,
            nodes,
            labels,
            batch_size=self._batch_size(),
            fixed=True,
            may_stay=self.may_stay,
        )

    def _batch_size(self) -> int | None:
        size: int | None = getattr(self.settings, "batch_size", None)
        return size


class TokenBaseline(NodeBaseline):
    """A model over fixed rows per node, made once; no graph is needed after that.

    `logits` gets the rows of a batch's nodes, one input for each tensor that `tokens` gives.
    """

    may_stay: ClassVar[bool] = False

    @abstractmethod
    def tokens(self, graph: Graph) -> tuple[Tensor, ...]:
        """Gives one or more tensors on the host, [n, ...] each."""

    def _prepare(self, graph: Graph) -> None:
        self._stores = tuple(RowStore(rows) for rows in self.tokens(graph))

    def _inputs(self, nodes: NDArray[np.int64], key: Any) -> tuple[Any, ...]:
        return tuple(store.rows(nodes) for store in self._stores)
