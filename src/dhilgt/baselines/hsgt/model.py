"""HSGT: attention within, between and over the levels of a hierarchy of clusters.

No code of this system is public. This is a re-implementation from its description;
docs/baselines/hsgt.md lists what is known and what we chose.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from dhilgt.baselines.base import About, Baseline
from dhilgt.baselines.hsgt.hierarchy import (
    LevelBatch,
    ancestors,
    hierarchy,
    level_sizes,
    sampled_levels,
    whole_levels,
)
from dhilgt.baselines.loaders import DeviceCopy, Key, NodeLoader
from dhilgt.baselines.settings import Settings, count, counts, rate
from dhilgt.baselines.shared.message_graph import CleanGraph, dense_features
from dhilgt.baselines.shared.pairs import PairAttention
from dhilgt.baselines.shared.sparse import SparseMatrix
from dhilgt.graph.graph import Graph
from dhilgt.model.dropout import dropout


@dataclass(frozen=True)
class HSGTSettings(Settings):
    """Settings of `HSGT`; the defaults are ours, those of the paper are not known.

    Attributes:
        hidden_channels: Width, a multiple of `heads`.
        num_layers: Transformer layers of the horizontal block of each level.
        heads: Attention heads.
        cluster_sizes: Mean number of nodes per cluster of each level above the graph.
        max_distance: Largest distance of nodes of a level that attend to each other.
        max_degree: Larger degrees have the embedding of this one.
        dropout: Dropout of the output of each part of a layer, and before the classifier.
        input_dropout: Dropout of the features.
        attention_dropout: Dropout of the attention weights.
        fanouts: Neighbours sampled per node and hop in the graph.
        upper_fanout: Neighbours sampled per node on the levels above.
        batch_size: Target nodes per batch; None for the whole graph at once, without samples.
    """

    hidden_channels: int = count(128)
    num_layers: int = count(2)
    heads: int = count(8)
    cluster_sizes: tuple[int, ...] = counts((10, 10), low=2)
    max_distance: int = count(1, low=0, high=254)
    max_degree: int = count(63)
    dropout: float = rate(0.3)
    input_dropout: float = rate(0.3)
    attention_dropout: float = rate(0.1)
    fanouts: tuple[int, ...] = counts((5, 3))
    upper_fanout: int = count(5)
    batch_size: int | None = count(1024, optional=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check_heads()


class HSGT(Baseline):
    """Horizontal blocks within levels, vertical blocks upwards, a readout over a node's ancestors.

    The last outputs of each level in training are kept in tables: they replace, without gradients,
    children that are not in a batch. Inference uses the whole graph, where no child is missing, and
    neither reads nor changes the tables.
    """

    about: ClassVar = About("HSGT (re-implementation)", "Zhu et al., IJCAI 2023", "samples")
    settings_type: ClassVar[type[Settings]] = HSGTSettings
    settings: HSGTSettings
    recipe: ClassVar[Mapping[str, Any]] = {
        "epochs": 500,
        "lr": 1e-3,
        "weight_decay": 0.01,
        "warmup_epochs": 10,
        "patience": 50,
    }
    needs_same_nodes: ClassVar[bool] = True  # for its tables

    @classmethod
    def variants(cls) -> dict[str, dict[str, Any]]:
        """Return "paper", and "whole": all nodes at once, without samples and tables."""
        return {"paper": {}, "whole": {"batch_size": None}}

    def build(self) -> None:
        """Create the layers and the tables."""
        s = self.settings
        sizes = level_sizes(self.shape.num_nodes, s.cluster_sizes)
        self.input = nn.Linear(self.shape.in_channels, s.hidden_channels)
        self.degree = nn.Embedding(s.max_degree + 1, s.hidden_channels)
        nn.init.normal_(self.degree.weight, std=0.02)
        self.horizontal = nn.ModuleList(HorizontalBlock(s) for _ in sizes)
        self.vertical = nn.ModuleList(VerticalBlock(s) for _ in sizes[1:])
        self.readout = Readout(s, self.shape.out_channels)
        # Nodes of the highest level are no children, and need no table.
        for level, size in enumerate(sizes[:-1]):
            self.register_buffer(f"history_{level}", torch.zeros(size, s.hidden_channels))
            self.register_buffer(f"known_{level}", torch.zeros(size, dtype=torch.bool))

    def _prepare(self, graph: Graph) -> None:
        s = self.settings
        bare = CleanGraph.of(graph, self_loops=False)
        self.levels = hierarchy(bare, dense_features(graph), s.cluster_sizes)
        self._whole = tuple(DeviceCopy(part) for part in whole_levels(self.levels, s.max_distance))
        self._ancestors = ancestors(self.levels)

    def _train_loader(self, nodes: NDArray[np.int64], labels: NDArray[np.int64], seed: int) -> Any:
        size = self.settings.batch_size
        return NodeLoader(
            self._all if size is None else self._sample,
            nodes,
            labels,
            batch_size=size,
            shuffle=size is not None,
            seed=seed,
            fixed=size is None,
            on_epoch=self.begin_epoch,
            threads=2,
        )

    def _inference_loader(self, nodes: NDArray[np.int64], labels: NDArray[np.int64] | None) -> Any:
        return NodeLoader(self._all, nodes, labels, fixed=True, may_stay=True)

    def _all(self, nodes: NDArray[np.int64], key: Key) -> tuple[Any, ...]:
        return (*self._whole, torch.from_numpy(self._ancestors[nodes]))

    def _sample(self, nodes: NDArray[np.int64], key: Key) -> tuple[Any, ...]:
        s, rng = self.settings, np.random.default_rng(key)
        parts, places = sampled_levels(
            self.levels, nodes, s.fanouts, s.upper_fanout, s.max_distance, rng
        )
        return (*parts, torch.from_numpy(places))

    def logits(self, *inputs: Any) -> Tensor:
        """Return [B, C] from the levels, lowest first, and the places of nodes on them [B, l]."""
        levels: tuple[LevelBatch, ...] = inputs[:-1]
        places: Tensor = inputs[-1]
        embeddings: list[Tensor] = []
        for number, level in enumerate(levels):
            x = dropout(level.x, self.settings.input_dropout, self.training)
            degrees = level.degrees.clamp(max=self.settings.max_degree)
            h = self.input(x) + self.degree(degrees)  # [s, F]
            if number:
                below = levels[number - 1]
                children, family = self._children(number, level, embeddings[-1], below.whole)
                h = self.vertical[number - 1](h, children, family)
            embeddings.append(self.horizontal[number](h, level.pairs, level.distances))
        if self.training:
            self._update_tables(levels, embeddings)
        rows = [h[places[:, number]] for number, h in enumerate(embeddings)]
        logits: Tensor = self.readout(torch.stack(rows, 1))
        return logits

    def _children(
        self, number: int, level: LevelBatch, below: Tensor, complete: bool
    ) -> tuple[Tensor, SparseMatrix]:
        """Return the rows that parents attend to, and which rows are the children of each."""
        offsets, places, children = level.child_offsets, level.places, level.children
        assert offsets is not None
        assert places is not None
        assert children is not None
        if complete:
            ones = torch.ones(len(places), device=places.device)
            return below, SparseMatrix(offsets, places, ones, len(below))
        history = getattr(self, f"history_{number - 1}")
        inside = places >= 0
        usable = inside | getattr(self, f"known_{number - 1}")[children]
        old = usable & ~inside
        rows = torch.cat([below, history[children[old]].to(below.dtype)])
        columns = torch.where(inside, places, len(below) - 1 + old.cumsum(0))[usable]
        # A child that no batch has had yet is left out.
        before = torch.zeros(len(usable) + 1, dtype=torch.int64, device=usable.device)
        torch.cumsum(usable, 0, out=before[1:])
        ones = torch.ones(len(columns), device=usable.device)
        return rows, SparseMatrix(before[offsets], columns, ones, len(rows))

    @torch.no_grad()
    def _update_tables(self, levels: tuple[LevelBatch, ...], embeddings: list[Tensor]) -> None:
        if all(level.whole for level in levels):
            return
        for number, (level, h) in enumerate(zip(levels[:-1], embeddings, strict=False)):
            getattr(self, f"history_{number}")[level.nodes] = h.detach().float()
            getattr(self, f"known_{number}")[level.nodes] = True


class HorizontalBlock(nn.Module):
    """Transformer layers over the near pairs of one level, with a bias per distance."""

    def __init__(self, settings: HSGTSettings) -> None:
        super().__init__()
        self.layers = nn.ModuleList(_layer(settings) for _ in range(settings.num_layers))
        self.bias = nn.Embedding(settings.max_distance + 1, settings.num_layers * settings.heads)
        nn.init.zeros_(self.bias.weight)
        self.norm = nn.LayerNorm(settings.hidden_channels)

    def forward(self, h: Tensor, pairs: SparseMatrix, distances: Tensor) -> Tensor:
        """Return [s, F] from [s, F]."""
        biases = self.bias(distances).chunk(len(self.layers), 1)  # each [pairs, H]
        for layer, bias in zip(self.layers, biases, strict=True):
            h = layer(h, h, pairs, bias)
        out: Tensor = self.norm(h)
        return out


class VerticalBlock(nn.Module):
    """One transformer layer in which each node of a level attends to its children."""

    def __init__(self, settings: HSGTSettings) -> None:
        super().__init__()
        self.layer = _layer(settings)

    def forward(self, h: Tensor, children: Tensor, family: SparseMatrix) -> Tensor:
        """Return [s, F] from [s, F] and the children's embeddings [c, F]."""
        out: Tensor = self.layer(h, children, family)
        return out


class Readout(nn.Module):
    """A node attends to itself and its ancestors; the result is added to it and classified."""

    def __init__(self, settings: HSGTSettings, classes: int) -> None:
        super().__init__()
        width = settings.hidden_channels
        self.heads, self.dropout = settings.heads, settings.dropout
        self.query = nn.Linear(width, width)
        self.key_value = nn.Linear(width, 2 * width)
        self.projection = nn.Linear(width, width)
        self.norm = nn.LayerNorm(width)
        self.output = nn.Linear(width, classes)

    def forward(self, rows: Tensor) -> Tensor:
        """Return [B, C] from [B, levels, F], the node itself first."""
        query = self.query(rows[:, :1]).unflatten(2, (self.heads, -1))  # [B, 1, H, d]
        key, value = self.key_value(rows).unflatten(2, (2, self.heads, -1)).unbind(2)
        scores = (query * key).sum(-1) * query.shape[-1] ** -0.5  # [B, levels, H]
        mixed = (torch.softmax(scores, 1).unsqueeze(-1) * value).sum(1).flatten(1)  # [B, F]
        z = rows[:, 0] + dropout(self.projection(mixed), self.dropout, self.training)
        logits: Tensor = self.output(dropout(self.norm(z), self.dropout, self.training))
        return logits


def _layer(settings: HSGTSettings) -> PairAttention:
    width = settings.hidden_channels
    return PairAttention(
        width, settings.heads, 2 * width, settings.dropout, settings.attention_dropout
    )
