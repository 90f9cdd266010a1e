"""A transformer over rows of nodes with their distances: one row per node, or one for the graph."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from dhilgt.baselines.base import NodeBaseline
from dhilgt.baselines.loaders import DeviceCopy, RowStore
from dhilgt.baselines.settings import Settings, choice, count, rate
from dhilgt.baselines.shared.ego_rows import SAMPLERS, all_distances, ego_rows, undirected_labels
from dhilgt.baselines.shared.message_graph import dense_features
from dhilgt.graph.graph import Graph
from dhilgt.model.dropout import dropout
from dhilgt.tokens.spec import NO_PATH

_AUTO, _FULL, _SAMPLED = "auto", "full", "khop"

ROW_RECIPE: Mapping[str, Any] = {
    "epochs": 200,
    "lr": 5e-4,
    "weight_decay": 1e-5,
    "warmup_epochs": 10,
    "decay": "cosine",
    "clip_norm": 5.0,
    "patience": None,
}
"""Training of a transformer over rows for node classification."""


def row_variants() -> dict[str, dict[str, Any]]:
    """Return "paper", a variant per sampler, and "slim", the size used on molecules.

    Example:
        >>> sorted(row_variants())
        ['full', 'hubs', 'khop', 'paper', 'ppr', 'slim']
    """
    samplers: dict[str, dict[str, Any]] = {name: {"sampler": name} for name in (_FULL, *SAMPLERS)}
    slim = {"hidden_channels": 80, "num_layers": 12, "heads": 8}
    return {"paper": {}, **samplers, "slim": slim | {"dropout": 0.1, "attention_dropout": 0.1}}


@dataclass(frozen=True)
class RowSettings(Settings):
    """Settings of `RowBaseline`.

    Attributes:
        hidden_channels: Width, also that of the feed-forward part; a multiple of `heads`.
        num_layers: Transformer layers.
        heads: Attention heads.
        max_distance: Distances from this one on are not told apart.
        sampler: "full" for one row of all nodes; for one row per node, "hubs" (the token rows of
            DHIL-GT), "khop" (the nearest nodes) or "ppr" (those of largest PageRank). "auto" is
            "full" up to `full_nodes` nodes, "khop" above.
        size: Slots of the row of a node, its own included.
        full_nodes: The most nodes that "auto" has in one row.
        dropout: Dropout of the inputs and of the output of each part of a layer.
        attention_dropout: Dropout of the attention weights.
        batch_size: Rows per batch, where each node has one; None for all at once.
    """

    hidden_channels: int = count(64)
    num_layers: int = count(2)
    heads: int = count(4)
    max_distance: int = count(20, 2, 250)
    sampler: str = choice(_AUTO, _FULL, *SAMPLERS)
    size: int = count(32, 1, 1024)
    full_nodes: int = count(5000, low=0)
    dropout: float = rate(0.2)
    attention_dropout: float = rate(0.0)
    batch_size: int | None = count(512, optional=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check_heads()

    @property
    def num_codes(self) -> int:
        """Codes of pairs of nodes: each distance below `max_distance`, far, no path."""
        return self.max_distance + 2

    def sampler_for(self, num_nodes: int) -> str:
        """Return the sampler for a graph, which "auto" chooses by the number of nodes."""
        if self.sampler != _AUTO:
            return self.sampler
        return _FULL if num_nodes <= self.full_nodes else _SAMPLED


class Rows(NamedTuple):
    """Rows of nodes as a model takes them.

    Attributes:
        codes: Code of each pair of slots, [B, s, s] uint8; see `pair_codes`.
        places: Node in each slot, as a row of the features of the batch, [B, s].
        outputs: Slots to classify, counted through all rows, [outputs].
    """

    codes: Any
    places: Any
    outputs: Any


def pair_codes(
    distances: NDArray[np.uint8], present: NDArray[np.bool_], max_distance: int
) -> NDArray[np.uint8]:
    """Return the code of each pair of slots, [..., s, s].

    Codes are the distances below `max_distance`, `max_distance` for all from there on, one more for
    pairs without a path, and two more for pairs that attention leaves out: all pairs with an empty
    slot, except that slot with itself, since the softmax of a query without keys is undefined.

    Args:
        distances: [..., s, s]; 255 without a path.
        present: Which slots hold a node, [..., s].
        max_distance: At most 250.

    Example:
        >>> distances = np.array([[0, 9, 255], [9, 0, 255], [255, 255, 0]], np.uint8)
        >>> pair_codes(distances, np.array([True, True, True]), 5).tolist()
        [[0, 5, 6], [5, 0, 6], [6, 6, 0]]
        >>> pair_codes(distances, np.array([True, True, False]), 5).tolist()
        [[0, 5, 7], [5, 0, 7], [7, 7, 0]]
    """
    table = np.minimum(np.arange(NO_PATH + 1), max_distance).astype(np.uint8)
    table[NO_PATH] = max_distance + 1
    codes: NDArray[np.uint8] = table[distances]
    codes[~(present[..., :, None] & present[..., None, :])] = max_distance + 2
    size = codes.shape[-1]
    codes[..., np.arange(size), np.arange(size)] = 0
    return codes


class RowBaseline(NodeBaseline):
    """A transformer over rows; subclasses define `build`, `embed` and `encode`.

    With one row per node, the ego's slot is classified; with one row of all nodes, every slot. The
    rows are made once, so an epoch needs neither the graph nor its labels.
    """

    settings: RowSettings
    output: nn.Module

    def node_inputs(self, graph: Graph) -> tuple[Tensor, ...]:
        """Return what `embed` takes of all nodes, [n, ...] each; by default the features."""
        return (dense_features(graph),)

    @abstractmethod
    def embed(self, *parts: Tensor) -> Tensor:
        """Return the first representation of some nodes, [nodes, F], from `node_inputs`."""

    @abstractmethod
    def encode(self, h: Tensor, codes: Tensor) -> Tensor:
        """Return the last representation of all slots, [B, s, F], from the first and the codes."""

    def _prepare(self, graph: Graph) -> None:
        s, n = self.settings, graph.num_nodes
        parts = self.node_inputs(graph)
        sampler = s.sampler_for(n)
        self._whole: tuple[DeviceCopy, ...] | None = None
        if sampler == _FULL:
            distances = all_distances(undirected_labels(graph))[None]  # [1, n, n]
            codes = pair_codes(distances, np.ones((1, n), np.bool_), s.max_distance)
            places = torch.arange(n)[None]
            whole = (torch.from_numpy(codes), places, *parts)
            self._whole = tuple(map(DeviceCopy, whole))
            return
        rows = ego_rows(graph, sampler, s.size, self.seed)
        self._ids = rows.ids
        codes = pair_codes(rows.distances, rows.ids >= 0, s.max_distance)
        self._codes = RowStore(torch.from_numpy(codes))
        self._parts = tuple(map(RowStore, parts))

    def _inputs(self, nodes: NDArray[np.int64], key: Any) -> tuple[Any, ...]:
        if self._whole is not None:
            codes, places, *parts = self._whole
            return (*Rows(codes, places, torch.from_numpy(nodes)), *parts)
        ids = self._ids[nodes]
        used, slots = np.unique(np.where(ids < 0, ids[:, :1], ids), return_inverse=True)
        rows = Rows(
            self._codes.rows(nodes),
            torch.from_numpy(slots.reshape(ids.shape)),
            torch.arange(len(ids)) * ids.shape[1],
        )
        return (*rows, *(part.rows(used.astype(np.int64)) for part in self._parts))

    def _batch_size(self) -> int | None:
        return None if self._whole is not None else self.settings.batch_size

    def logits(self, codes: Tensor, places: Tensor, outputs: Tensor, *parts: Tensor) -> Tensor:
        """Return [outputs, C].

        Args:
            codes: As in `Rows`.
            places: As in `Rows`.
            outputs: As in `Rows`.
            *parts: `node_inputs` of the nodes in the batch.
        """
        h = dropout(self.embed(*parts), self.settings.dropout, self.training)  # [nodes, F]
        h = self.encode(h[places], codes.long())  # [B, s, F]
        logits: Tensor = self.output(h.flatten(0, 1)[outputs])
        return logits
