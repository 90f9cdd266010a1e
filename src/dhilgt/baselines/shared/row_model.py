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
from dhilgt.baselines.loaders import DeviceCopy
from dhilgt.baselines.settings import Settings, choice, count, rate
from dhilgt.baselines.shared.ego_rows import SAMPLERS, all_distances, ego_rows, undirected_labels
from dhilgt.baselines.shared.message_graph import dense_features
from dhilgt.baselines.shared.recorded_steps import Recordable
from dhilgt.graph.graph import Graph
from dhilgt.model.dropout import dropout
from dhilgt.tokens.spec import NO_PATH
from dhilgt.utils.devices import free_bytes

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


class RowBaseline(Recordable, NodeBaseline):
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
        self._residents: dict[torch.device, RowTables | None] = {}
        if sampler == _FULL:
            distances = all_distances(undirected_labels(graph))[None]  # [1, n, n]
            codes = pair_codes(distances, np.ones((1, n), np.bool_), s.max_distance)
            places = torch.arange(n)[None]
            whole = (torch.from_numpy(codes), places, *parts)
            self._whole = tuple(map(DeviceCopy, whole))
            return
        rows = ego_rows(graph, sampler, s.size, self.seed)
        codes = pair_codes(rows.distances, rows.ids >= 0, s.max_distance)
        self._tables = RowTables(torch.from_numpy(rows.ids), torch.from_numpy(codes), parts)

    def _inputs(self, nodes: NDArray[np.int64], key: Any) -> tuple[Any, ...]:
        if self._whole is None:
            return (torch.from_numpy(nodes),)
        codes, places, *parts = self._whole
        return (codes, places, torch.from_numpy(nodes), *parts)

    def _batch_size(self) -> int | None:
        return None if self._whole is not None else self.settings.batch_size

    # ---- steps on a GPU ------------------------------------------------------------------------

    def fixed_tables(self) -> RowTables | None:
        """Return the rows of all nodes on the model's GPU; None if they are not there."""
        return self._residents.get(self.device)

    # ---- the model -----------------------------------------------------------------------------

    def logits(self, *inputs: Tensor) -> Tensor:
        """Return [outputs, C].

        Args:
            *inputs: Nodes, [B]; with one row of all nodes, what `gathered` returns.
        """
        codes, places, outputs, *parts = self.gathered(*inputs) if len(inputs) == 1 else inputs
        h = dropout(self.embed(*parts)[places], self.settings.dropout, self.training)
        h = self.encode(h, codes.long())  # [B, s, F]
        logits: Tensor = self.output(h.flatten(0, 1)[outputs])
        return logits

    def gathered(self, nodes: Tensor) -> tuple[Tensor, ...]:
        """Return the inputs of the rows of some nodes, [B]: codes, places, outputs and parts.

        Codes are [B, s, s], places the node in each slot as a row of the parts, [B, s], outputs the
        slots of the egos, counted through all rows, and parts the `node_inputs`.
        """
        device = nodes.device
        if device not in self._residents:
            self._residents[device] = self._tables.where_it_fits(device)
        resident = self._residents[device]
        if resident is not None:
            return resident.gathered(nodes)
        return tuple(part.to(device) for part in self._tables.distinct(nodes.cpu()))


class RowTables(NamedTuple):
    """The rows of all nodes.

    Attributes:
        ids: Nodes, [n, s] int32; -1 = none.
        codes: See `pair_codes`, [n, s, s] uint8.
        parts: `RowBaseline.node_inputs`, [n, ...] each.
    """

    ids: Tensor
    codes: Tensor
    parts: tuple[Tensor, ...]

    def where_it_fits(self, device: torch.device) -> RowTables | None:
        """Return a copy on a GPU that has twice its memory free, else None."""
        need = self.ids.nbytes + self.codes.nbytes + sum(part.nbytes for part in self.parts)
        if device.type != "cuda" or 2 * need > (free_bytes(device) or 0):
            return None
        with torch.inference_mode(False):  # training cannot use tensors made in inference mode
            parts = tuple(part.to(device) for part in self.parts)
            return RowTables(self.ids.to(device), self.codes.to(device), parts)

    def gathered(self, nodes: Tensor) -> tuple[Tensor, ...]:
        """Return the inputs of some nodes; their shapes depend only on the number of nodes."""
        slots = self._slots(nodes)
        outputs = torch.arange(len(slots), device=slots.device) * slots.shape[1]
        parts, places = self.parts, slots
        if slots.numel() < len(self.ids):  # fewer rows to embed than the graph has nodes
            parts = tuple(part[slots.flatten()] for part in parts)
            places = torch.arange(slots.numel(), device=slots.device).view(slots.shape)
        return self.codes[nodes], places, outputs, *parts

    def distinct(self, nodes: Tensor) -> tuple[Tensor, ...]:
        """Return the inputs of some nodes with the parts of each distinct node once."""
        slots = self._slots(nodes)
        used, places = torch.unique(slots, return_inverse=True)
        outputs = torch.arange(len(slots)) * slots.shape[1]
        return self.codes[nodes], places, outputs, *(part[used] for part in self.parts)

    def _slots(self, nodes: Tensor) -> Tensor:
        """Return the node in each slot, [B, s]; the ego in empty ones, which are left out."""
        ids = self.ids[nodes].long()
        return torch.where(ids < 0, nodes[:, None], ids)
