"""GOAT: attention over a sampled neighbourhood and over a codebook of all nodes."""

from __future__ import annotations

import math
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from dhilgt.baselines.base import CONSTANT_ADAM, About, NodeBaseline
from dhilgt.baselines.goat.codebook import Codebook
from dhilgt.baselines.goat.node2vec import node2vec
from dhilgt.baselines.goat.rings import sample_rings
from dhilgt.baselines.loaders import Key, RowStore
from dhilgt.baselines.settings import Settings, choice, count, counts, number, rate
from dhilgt.baselines.shared.layers import MLPBlock, SafeBatchNorm
from dhilgt.baselines.shared.message_graph import CleanGraph, dense_features
from dhilgt.baselines.shared.pairs import pair_scores
from dhilgt.baselines.shared.sparse import SparseMatrix, segment_softmax
from dhilgt.baselines.shared.spectral import laplacian_vectors
from dhilgt.graph.graph import Graph
from dhilgt.model.dropout import dropout
from dhilgt.training.scoring import evaluating

_NODES = 1 << 14  # nodes that are assigned to centroids at once


@dataclass(frozen=True)
class GOATSettings(Settings):
    """Settings of `GOAT`; the defaults of numbers are the released ones.

    Attributes:
        hidden_channels: Width of each head.
        heads: Attention heads, concatenated.
        sizes: Neighbours drawn per node, for each hop.
        num_centroids: Largest number of centroids.
        nodes_per_centroid: Fewest nodes per centroid; 0 for no such limit.
        global_channels: Width of a node's representation in the codebook, without its position.
        decay: Decay of the moving averages.
        counts: Nodes that are assigned to centroids: those of each "batch" only, or also "all"
            once per epoch.
        start: Centroids start at nodes drawn from the "data", or "random" with size 0.
        positions: Kind of position: "node2vec" or "spectral" (eigenvectors of the Laplacian).
        position_channels: Width of the positions; 0 for none.
        walk_length: Nodes of a walk, for node2vec.
        walk_context: Nodes of a window of a walk.
        walks: Walks from each node in an epoch of node2vec.
        walk_epochs: Epochs of node2vec.
        dropout: Dropout in the input layers and the output layers.
        attention_dropout: Dropout of the weights of both attentions.
        batch_size: Nodes per batch; None for all at once.
    """

    hidden_channels: int = count(256)
    heads: int = count(1)
    sizes: tuple[int, ...] = counts((20, 10, 5))
    num_centroids: int = count(4096)
    nodes_per_centroid: int = count(8, low=0)
    global_channels: int = count(64)
    decay: float = number(0.99, 0, 1)
    counts: str = choice("all", "batch")
    start: str = choice("data", "random")
    positions: str = choice("node2vec", "spectral")
    position_channels: int = count(64, low=0)
    walk_length: int = count(80, low=2)
    walk_context: int = count(20, low=2)
    walks: int = count(10)
    walk_epochs: int = count(5, low=0)
    dropout: float = rate(0.5)
    attention_dropout: float = rate(0.0)
    batch_size: int | None = count(1024, optional=True)


class GOAT(NodeBaseline):
    """One layer of local attention, with rings of equal weight, and attention over centroids."""

    about: ClassVar = About("GOAT", "Kong et al., ICML 2023", "samples")
    settings_type: ClassVar[type[Settings]] = GOATSettings
    settings: GOATSettings
    needs_same_nodes: ClassVar[bool] = True
    draws: ClassVar[bool] = True
    threads: ClassVar[int] = 2
    recipe: ClassVar[Mapping[str, Any]] = {
        "epochs": 500,
        "lr": 1e-3,
        "weight_decay": 0.0,
        **CONSTANT_ADAM,
        "patience": None,
    }

    places: Tensor
    placed_for: Tensor

    @classmethod
    def variants(cls) -> dict[str, dict[str, Any]]:
        """Return "paper", and "released" and "arxiv" with the codebook of the released code."""
        released = {"counts": "batch", "start": "random", "nodes_per_centroid": 0}
        return {
            "paper": {},
            "released": released,
            "arxiv": released | {"hidden_channels": 128, "heads": 4},
        }

    # ---- layers --------------------------------------------------------------------------------

    def build(self) -> None:
        """Create the layers."""
        s, width, n = self.settings, self.settings.hidden_channels, self.shape.num_nodes
        wide, book = s.heads * width, s.global_channels + s.position_channels
        self.input = MLPBlock([self.shape.in_channels, width, width], s.dropout, norm="batch")
        self.local = nn.ModuleDict({part: nn.Linear(width, wide) for part in ("q", "k", "v")})
        self.ring_bias = nn.Parameter(torch.zeros(len(s.sizes) + 1, s.heads))
        self.to_global = nn.Linear(width, s.global_channels)
        self.far = nn.ModuleDict(
            {
                "q": nn.Linear(book, wide),
                "k": nn.Linear(book, wide),
                "v": nn.Linear(s.global_channels, wide),
            }
        )
        size = s.num_centroids
        if s.nodes_per_centroid:
            size = min(size, max(1, n // s.nodes_per_centroid))
        self.codebook = Codebook(size, book, n, s.decay)
        self.mix = nn.Linear(2 * wide, wide)
        self.mix_norm = SafeBatchNorm(wide)
        self.narrow = nn.Linear(wide, width)
        self.narrow_norm = SafeBatchNorm(width)
        self.output = nn.Linear(width, self.shape.out_channels)
        # Saved with the weights: walks on another machine would give other positions.
        self.register_buffer("places", torch.zeros(n, s.position_channels))
        self.register_buffer("placed_for", torch.tensor(-1))

    # ---- before training -----------------------------------------------------------------------

    def _prepare(self, graph: Graph) -> None:
        self._clean = CleanGraph.of(graph, self_loops=False)
        self._features = RowStore(dense_features(graph))
        mark = zlib.crc32(self._clean.targets.tobytes(), zlib.crc32(self._clean.offsets.tobytes()))
        if self.settings.position_channels and int(self.placed_for) != mark:
            self.places.copy_(self._positions())
            self.placed_for.fill_(mark)

    def _positions(self) -> Tensor:
        s = self.settings
        if s.positions == "spectral":
            # Scaled to entries of about 1, as those of node2vec.
            vectors = laplacian_vectors(self._clean, s.position_channels)
            return torch.from_numpy(vectors) * math.sqrt(self._clean.num_nodes)
        return node2vec(
            self._clean,
            s.position_channels,
            walk_length=s.walk_length,
            context=s.walk_context,
            walks=s.walks,
            epochs=s.walk_epochs,
            seed=self.seed,
        )

    # ---- batches -------------------------------------------------------------------------------

    def _inputs(self, nodes: NDArray[np.int64], key: Key) -> tuple[Any, ...]:
        rings = sample_rings(self._clean, nodes, self.settings.sizes, np.random.default_rng(key))
        is_sampled = np.zeros(self._clean.num_nodes, np.bool_)
        is_sampled[rings.nodes] = True
        sampled, place = np.flatnonzero(is_sampled), np.cumsum(is_sampled) - 1
        edges = SparseMatrix.from_numpy(
            rings.offsets, place[rings.nodes], -np.log(rings.ring_size), num_columns=len(sampled)
        )
        return (
            self._features.rows(sampled),
            edges,
            torch.from_numpy(rings.distance),
            torch.from_numpy(place[nodes]),
            torch.from_numpy(nodes),
        )

    def epoch_begins(self, epoch: int) -> None:
        """Initialise the centroids, and assign all nodes, as the settings require."""
        s = self.settings
        first = s.start == "data" and not bool(self.codebook.sizes.any())
        if not first and s.counts == "batch":
            return
        nodes = self._all_nodes()
        if first:
            rng = np.random.default_rng([self.seed, 1])
            # With more centroids than nodes, some start at the same node.
            size = len(self.codebook.sizes)
            drawn = rng.choice(len(nodes), size, replace=size > len(nodes))
            self.codebook.begin_at(nodes, torch.from_numpy(drawn).to(nodes.device))
        if s.counts == "all":
            self.codebook.assign(nodes, torch.arange(len(nodes), device=nodes.device))

    def _all_nodes(self) -> Tensor:
        n, parts = self.shape.num_nodes, []
        with evaluating(self):
            for ids in np.array_split(np.arange(n), -(-n // _NODES)):
                x = self._features.rows(ids).to(self.device)
                places = torch.from_numpy(ids).to(self.device)
                parts.append(self._in_codebook(self.input(x), places))
        return torch.cat(parts).float()

    # ---- the model -----------------------------------------------------------------------------

    def logits(
        self, x: Tensor, edges: SparseMatrix, distance: Tensor, roots: Tensor, nodes: Tensor
    ) -> Tensor:
        """Return [B, C].

        Args:
            x: Features of all sampled nodes, [sampled, F0].
            edges: The nodes sampled for each root, B x sampled; values -log of the ring's size.
            distance: Ring of each entry of `edges`.
            roots: Places of the roots among the sampled nodes, [B].
            nodes: Indices of the roots in the graph, [B].
        """
        h = self.input(x)  # [sampled, F]
        own = h[roots]
        point = self._in_codebook(own, nodes)
        near, far = self._near(own, h, edges, distance), self._over_centroids(point)
        if self.training:
            self.codebook.update(point.detach(), nodes)
        p = self.settings.dropout
        z = self.mix(torch.cat([near, far], 1))
        z = dropout(functional.relu(self.mix_norm(z)), p, self.training)
        z = dropout(functional.relu(self.narrow_norm(self.narrow(z))), p, self.training)
        logits: Tensor = self.output(z)
        return logits

    def _in_codebook(self, h: Tensor, nodes: Tensor) -> Tensor:
        return torch.cat([self.to_global(h), self.places[nodes]], 1)

    def _near(self, own: Tensor, h: Tensor, edges: SparseMatrix, distance: Tensor) -> Tensor:
        heads = self.settings.heads
        query = self.local["q"](own).view(len(own), heads, -1)
        key = self.local["k"](h).view(len(h), heads, -1)
        value = self.local["v"](h).view(len(h), heads, -1)
        # In float32 also under autocast.
        scores = pair_scores(query.float(), key.float(), edges)  # [entries, H]
        scores = scores / math.sqrt(self.settings.hidden_channels)
        scores = scores + self.ring_bias[distance] + edges.values[:, None]
        weights = segment_softmax(scores, edges)
        weights = dropout(weights, self.settings.attention_dropout, self.training)
        return edges.weighted(weights, value).flatten(1)

    def _over_centroids(self, point: Tensor) -> Tensor:
        s, points = self.settings, self.codebook.points().to(point.dtype)
        size = len(points)
        query = self.far["q"](point).view(len(point), s.heads, -1).transpose(0, 1)
        key = self.far["k"](points).view(size, s.heads, -1).transpose(0, 1)
        value = self.far["v"](points[:, : s.global_channels])
        value = value.view(size, s.heads, -1).transpose(0, 1)
        scores = query @ key.transpose(1, 2) / math.sqrt(s.hidden_channels)  # [H, B, centroids]
        # A centroid has the weight of the nodes assigned to it; one without nodes has none.
        scores = scores + self.codebook.members().to(scores.dtype).log()
        weights = dropout(torch.softmax(scores, -1), s.attention_dropout, self.training)
        mixed: Tensor = (weights @ value).transpose(0, 1).flatten(1)
        return mixed
