"""NodeFormer: attention over all pairs of nodes with Gumbel noise, and terms along the edges."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from dhilgt.baselines.base import CONSTANT_ADAM, About, GraphBaseline
from dhilgt.baselines.loaders import NodeLoader
from dhilgt.baselines.nodeformer.kernel import (
    edge_loss,
    gumbel_factors,
    key_features,
    mix,
    query_features,
    random_directions,
)
from dhilgt.baselines.nodeformer.reach import graphs_in_reach
from dhilgt.baselines.settings import Settings, choice, count, number, rate, switch
from dhilgt.baselines.shared.message_graph import CleanGraph
from dhilgt.baselines.shared.sparse import SparseMatrix
from dhilgt.errors import warn
from dhilgt.graph.graph import Graph
from dhilgt.model.dropout import dropout


@dataclass(frozen=True)
class NodeFormerSettings(Settings):
    """Settings of `NodeFormer`; the defaults are the authors' on cora, half of it for training.

    Attributes:
        hidden_channels: Width.
        num_layers: Layers of attention.
        heads: Attention heads, each of full width.
        dropout: Dropout after the input layer and after each layer.
        directions: Random features of the softmax.
        gumbel_samples: Draws of noise in training, whose results are averaged; 0 for no noise.
        temperature: Of the softmax.
        orders: Terms along edges: between nodes within 1, 2, 4, ... steps; 0 for none.
        bias: How their weights follow from the learned numbers b: "sigmoid" or "identity".
        most_entries: A term along more edges than these is left out.
        edge_weight: Weight of the loss of edges.
        residual: Add a layer's input to its output.
        layer_norm: Layer normalisation after the input layer and after each layer.
        activation: ELU after each layer too.
        jumping: Classify by the outputs of all layers side by side.
        batch_size: Training nodes of a random block; None for the whole graph.
    """

    hidden_channels: int = count(32)
    num_layers: int = count(2)
    heads: int = count(4)
    dropout: float = rate(0.0)
    directions: int = count(30)
    gumbel_samples: int = count(10, 0)
    temperature: float = number(0.25, above=True)
    orders: int = count(2, 0)
    bias: str = choice("sigmoid", "identity")
    most_entries: int = count(1 << 24)
    edge_weight: float = number(1.0)
    residual: bool = switch(True)
    layer_norm: bool = switch(True)
    activation: bool = switch(False)
    jumping: bool = switch(False)
    batch_size: int | None = count(None, optional=True)


class NodeFormer(GraphBaseline):
    """Layers h <- LN(h + W (softmax attention over all nodes + learned multiples of Â_r v))."""

    about: ClassVar = About("NodeFormer", "Wu et al., NeurIPS 2022", "graph")
    settings_type: ClassVar[type[Settings]] = NodeFormerSettings
    settings: NodeFormerSettings
    recipe: ClassVar[Mapping[str, Any]] = {
        "epochs": 1000,
        "lr": 0.001,
        "weight_decay": 5e-3,
        **CONSTANT_ADAM,
        "patience": None,
    }

    directions: Tensor

    @classmethod
    def variants(cls) -> dict[str, dict[str, Any]]:
        """Return the released settings for cora, for few labels, for actor and for large graphs."""
        return {
            "paper": {},
            "few-labels": {"orders": 3},
            "heterophily": {"heads": 1, "edge_weight": 0.01},
            "large": {
                "hidden_channels": 64,
                "num_layers": 3,
                "heads": 1,
                "directions": 50,
                "gumbel_samples": 5,
                "orders": 1,
                "bias": "identity",
                "edge_weight": 0.1,
                "activation": True,
                "jumping": True,
                "batch_size": 10_000,
            },
        }

    @classmethod
    def variant_recipes(cls) -> dict[str, dict[str, Any]]:
        """Return the released learning rates and weight decays of the variants."""
        return {
            "few-labels": {"lr": 0.01, "weight_decay": 5e-4},
            "heterophily": {"lr": 1e-4, "weight_decay": 0.05},
            "large": {"lr": 0.01, "weight_decay": 0.0},
        }

    def build(self) -> None:
        """Create the layers, and draw the directions of their features."""
        s, width = self.settings, self.settings.hidden_channels
        self.input = nn.Linear(self.shape.in_channels, width)
        self.layers = nn.ModuleList(KernelAttention(s) for _ in range(s.num_layers))
        self.norms = nn.ModuleList(
            nn.LayerNorm(width) if s.layer_norm else nn.Identity() for _ in range(s.num_layers + 1)
        )
        joined = width * (s.num_layers + 1) if s.jumping else width
        self.output = nn.Linear(joined, self.shape.out_channels)
        self.register_buffer("directions", random_directions(s.num_layers, s.directions, width))
        self._edge_loss: Tensor | None = None

    def _prepare(self, graph: Graph) -> None:
        self._orders = self.settings.orders
        super()._prepare(graph)
        found = len(self._whole) - 1
        if found < self._orders:
            warn(
                f"NodeFormer has no term for nodes within {2**found} steps: they would be more "
                f"than most_entries = {self.settings.most_entries} pairs; raise it to have them"
            )
            self._orders = found

    def graph_inputs(self, part: CleanGraph) -> tuple[Any, ...]:
        """Return Â of the nodes within 1, 2, 4, ... steps of each other."""
        graphs = graphs_in_reach(part, max(1, self._orders), self.settings.most_entries)
        return tuple(one.adjacency("symmetric") for one in graphs)

    def _train_loader(self, nodes: NDArray[np.int64], labels: NDArray[np.int64], seed: int) -> Any:
        size = self.settings.batch_size
        if size is None:
            return super()._train_loader(nodes, labels, seed)
        return NodeLoader(
            self._block_of,
            nodes,
            labels,
            batch_size=size,
            shuffle=True,
            seed=seed,
            on_epoch=self.begin_epoch,
        )

    def _block_of(self, nodes: NDArray[np.int64], key: Any) -> tuple[Any, ...]:
        """Return the inputs for a block of training nodes: the edges among them alone."""
        ascending, places = np.unique(nodes, return_inverse=True)
        return self._block(self._clean.induced(ascending), ascending, places)

    def logits(self, x: Tensor, *rest: Any) -> Tensor:
        """Return [B, C] from x [n, F0], the n x n matrices and rows [B]."""
        s = self.settings
        *matrices, rows = rest
        penalises = self.training and s.edge_weight > 0
        h = functional.elu(self.norms[0](self.input(x)))
        h = dropout(h, s.dropout, self.training)
        outputs, losses = [h], []
        for layer, norm, drawn in zip(self.layers, self.norms[1:], self.directions, strict=True):
            moved, loss = layer(h, drawn, matrices, penalises)
            moved = norm(moved + h if s.residual else moved)
            if s.activation:
                moved = functional.elu(moved)
            h = dropout(moved, s.dropout, self.training)
            outputs.append(h)
            losses.append(loss)
        self._edge_loss = s.edge_weight * torch.stack(losses).mean() if penalises else None
        seen = torch.cat([one[rows] for one in outputs], 1) if s.jumping else h[rows]
        logits: Tensor = self.output(seen)
        return logits

    def added_loss(self) -> Tensor | None:
        """Return the weighted loss of edges of the last training batch, once."""
        loss, self._edge_loss = self._edge_loss, None
        return loss


class KernelAttention(nn.Module):
    """Softmax attention over all nodes by random features, plus terms along edges.

    Args:
        settings: Of the model.

    Example:
        >>> layer = KernelAttention(NodeFormerSettings(hidden_channels=4, orders=0))
        >>> layer.eval()(torch.ones(3, 4), torch.eye(4), [], False)[0].shape
        torch.Size([3, 4])
    """

    def __init__(self, settings: NodeFormerSettings) -> None:
        super().__init__()
        self.settings = settings
        width, heads = settings.hidden_channels, settings.heads
        self.query = nn.Linear(width, heads * width)
        self.key = nn.Linear(width, heads * width)
        self.value = nn.Linear(width, heads * width)
        self.output = nn.Linear(heads * width, width)
        start = 0.1 if settings.bias == "sigmoid" else 1.0
        self.bias = nn.Parameter(torch.full((settings.orders, heads), start))

    def forward(
        self, h: Tensor, directions: Tensor, matrices: Sequence[SparseMatrix], penalises: bool
    ) -> tuple[Tensor, Tensor | None]:
        """Return the outputs [n, F], and the loss of edges if asked for.

        Args:
            h: [n, F].
            directions: Of the random features, [M, F].
            matrices: Â of the terms along edges, that of the edges themselves first.
            penalises: Whether to compute the loss of edges.
        """
        query, key, value = (
            part(h).unflatten(1, (self.settings.heads, -1))  # [n, H, F]
            for part in (self.query, self.key, self.value)
        )
        edges = matrices[0] if penalises else None
        # Half precision is too coarse for sums over all nodes.
        with torch.autocast(h.device.type, enabled=False):
            far, loss = self._attention(
                query.float(), key.float(), value.float(), directions, edges
            )
        out: Tensor = self.output(far.flatten(1))
        for matrix, weights in zip(matrices, self._edge_weights(), strict=False):
            # The map of the output goes first: the sparse product has F columns then, not H F.
            weighted = (value * weights[:, None]).flatten(1)
            out = out + matrix @ functional.linear(weighted, self.output.weight)
        return out, loss

    def _attention(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        directions: Tensor,
        edges: SparseMatrix | None,
    ) -> tuple[Tensor, Tensor | None]:
        s, root = self.settings, self.settings.temperature**-0.5
        queries = query_features(root * query.transpose(0, 1), directions)  # [H, n, M]
        keys = key_features(root * key.transpose(0, 1), directions)
        factors = None
        if self.training and s.gumbel_samples:
            factors = gumbel_factors(
                s.heads, len(query), s.gumbel_samples, s.temperature, query.device
            )
        mixed = mix(queries, keys, value.transpose(0, 1), factors).transpose(0, 1)
        return mixed, None if edges is None else edge_loss(queries, keys, edges)

    def _edge_weights(self) -> Tensor:
        return self.bias.sigmoid() if self.settings.bias == "sigmoid" else self.bias
