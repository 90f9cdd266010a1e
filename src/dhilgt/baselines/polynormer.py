"""Polynormer: local, then global layers, each multiplied by a linear map of its input."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from dhilgt.baselines.base import CONSTANT_ADAM, About, GraphBaseline, Phase
from dhilgt.baselines.settings import Settings, choice, count, number, rate, switch
from dhilgt.baselines.shared.layers import GraphConv, SafeBatchNorm
from dhilgt.baselines.shared.message_graph import CleanGraph
from dhilgt.baselines.shared.sparse import SparseMatrix, segment_softmax
from dhilgt.errors import ConfigError
from dhilgt.model.dropout import dropout
from dhilgt.training.config import TrainConfig

LOCAL, GLOBAL = "local", "global"


@dataclass(frozen=True)
class PolynormerSettings(Settings):
    """Settings of `Polynormer`.

    Attributes:
        hidden_channels: Width of all layers, all heads included; a multiple of ``heads``.
        heads: Attention heads, local and global.
        local_layers: Layers over the edges.
        global_layers: Layers over all pairs of nodes.
        dropout: Dropout after the input layer and in local layers.
        input_dropout: Dropout of the features.
        global_dropout: Dropout after each global layer.
        local: Operation of local layers: "attention" or "convolution".
        relu: ReLU after the linear maps of a layer: "Polynormer-r".
        beta: Weight of a layer's ungated part. Negative: drawn at random and passed through a
            sigmoid.
        trained_beta: Whether these weights, one per layer and channel, are trained.
        shared_keys: Use keys as queries in global layers.
        input_layer: Start with a linear layer; if not, the first local layer takes the features.
        pre_norm: Layer normalisation before each local layer.
        batch_norm: Batch normalisation in each local layer.
        local_share: Fraction of epochs of the local phase; the others train the global head.
        batch_size: Largest number of nodes of a random block in training; None for the whole graph.
    """

    hidden_channels: int = count(256)
    heads: int = count(1)
    local_layers: int = count(7)
    global_layers: int = count(2)
    dropout: float = rate(0.5)
    input_dropout: float = rate(0.15)
    global_dropout: float = rate(0.5)
    local: str = choice("attention", "convolution")
    relu: bool = switch(False)
    beta: float = number(-1.0, -1, 1)
    trained_beta: bool = switch(True)
    shared_keys: bool = switch(True)
    input_layer: bool = switch(True)
    pre_norm: bool = switch(False)
    batch_norm: bool = switch(False)
    local_share: float = number(0.5, 0, 1)
    batch_size: int | None = count(None, optional=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check_heads()
        if self.beta < 0 and not self.trained_beta:
            raise ConfigError(
                f"beta = {self.beta:g} is drawn at random and never trained; pass a beta from 0 "
                "to 1, or trained_beta=True"
            )


class Polynormer(GraphBaseline):
    """A sum of local layers, with a head trained in a first phase; then attention and another head.

    `dhilgt.baselines.fit` runs both phases. A trainer runs the phase of the last call of
    `begin_phase`, by default the local one.
    """

    about: ClassVar = About("Polynormer", "Deng et al., ICLR 2024", "graph")
    settings_type: ClassVar[type[Settings]] = PolynormerSettings
    settings: PolynormerSettings
    recipe: ClassVar[Mapping[str, Any]] = {
        "epochs": 2000,
        "lr": 0.001,
        "weight_decay": 5e-4,
        **CONSTANT_ADAM,
        "patience": None,
    }

    is_global: Tensor

    @classmethod
    def variants(cls) -> dict[str, dict[str, Any]]:
        """Return "paper", "relu", "large" without a global phase, and "large-global" with it."""
        large = {
            "relu": True,
            "local": "convolution",
            "beta": 0.9,
            "trained_beta": False,
            "input_layer": False,
            "batch_norm": True,
        }
        return {
            "paper": {},
            "relu": {"relu": True},
            "large": {**large, "local_share": 1.0},
            "large-global": large,
        }

    @classmethod
    def variant_recipes(cls) -> dict[str, dict[str, Any]]:
        """Return the released learning rate for large graphs, and the epochs of a second phase."""
        return {"large": {"lr": 5e-4}, "large-global": {"lr": 5e-4, "epochs": 4000}}

    def build(self) -> None:
        """Create the layers."""
        s, width = self.settings, self.settings.hidden_channels
        features = self.shape.in_channels
        self.input = nn.Linear(features, width) if s.input_layer else None
        first = width if s.input_layer else features
        self.local_layers = nn.ModuleList(
            LocalLayer(width if layer else first, s) for layer in range(s.local_layers)
        )
        self.local_beta = Gate(s.local_layers, width, s.beta, s.trained_beta)
        self.local_head = nn.Linear(width, self.shape.out_channels)
        self.norm = nn.LayerNorm(width)
        self.global_layers = nn.ModuleList(
            GlobalLayer(width, s.heads, s.shared_keys) for _ in range(s.global_layers)
        )
        self.global_beta = Gate(s.global_layers, width, s.beta, s.trained_beta)
        self.mix = nn.Linear(width, width)  # one for all global layers
        self.global_head = nn.Linear(width, self.shape.out_channels)
        self.register_buffer("is_global", torch.tensor(False))
        # The same on the host: reading a buffer would wait for the device in every step.
        self._is_global: bool | None = None
        self.register_load_state_dict_post_hook(_forget_phase)  # type: ignore[no-untyped-call]

    def graph_inputs(self, part: CleanGraph) -> tuple[Any, ...]:
        """Return Â for convolutions, A + I for attention, which computes its own weights."""
        attends = self.settings.local == "attention"
        return (part.adjacency("ones" if attends else "symmetric"),)

    # ---- the two phases ------------------------------------------------------------------------

    def phases(self, config: TrainConfig) -> list[Phase]:
        """Return a local and a global phase, with epochs divided by ``local_share``."""
        fraction, epochs = self.settings.local_share, config.epochs
        local = round(fraction * epochs)
        if 0 < fraction < 1:
            local = max(1, min(local, epochs - 1))  # rounding must not remove a phase
        lengths = {LOCAL: local, GLOBAL: epochs - local}
        return [
            Phase(name, replace(config, epochs=length))
            for name, length in lengths.items()
            if length
        ]

    def begin_phase(self, name: str) -> None:
        """Choose the head to train and predict with: "local" or "global"."""
        if name not in (LOCAL, GLOBAL):
            raise ValueError(f"phase {name!r}; choose {LOCAL!r} or {GLOBAL!r}")
        self.is_global.fill_(name == GLOBAL)
        _forget_phase(self)

    def branch(self) -> str:
        """Return the phase: weights of an earlier one may be loaded after the last has ended."""
        if self._is_global is None:
            self._is_global = bool(self.is_global)
        return GLOBAL if self._is_global else LOCAL

    # ---- the model -----------------------------------------------------------------------------

    def logits(self, x: Tensor, adjacency: SparseMatrix, rows: Tensor) -> Tensor:
        """Return [B, C] from x [n, F0], the n x n matrix and rows [B]."""
        h = self.local_part(x, adjacency)
        logits: Tensor
        if self.branch() == GLOBAL:
            logits = self.global_head(self.global_part(h)[rows])
        else:
            logits = self.local_head(h[rows])
        return logits

    def local_part(self, x: Tensor, adjacency: SparseMatrix) -> Tensor:
        """Return the sum of the local layers' outputs, [n, F]."""
        s = self.settings
        x = dropout(x, s.input_dropout, self.training)
        if self.input is not None:
            x = dropout(self.input(x), s.dropout, self.training)
        total = torch.zeros((), device=x.device)
        for layer, beta in zip(self.local_layers, self.local_beta(), strict=True):
            x = layer(x, adjacency, beta)
            total = total + x
        return total

    def global_part(self, x: Tensor) -> Tensor:
        """Return [n, F] from the sum of the local layers, [n, F]."""
        x = self.norm(x)
        for layer, beta in zip(self.global_layers, self.global_beta(), strict=True):
            x = self.mix(layer(x, beta))
            x = functional.relu(x) if self.settings.relu else x
            x = dropout(x, self.settings.global_dropout, self.training)
        return x


def _forget_phase(model: Any, keys: Any = None) -> None:
    model._is_global = None


class Gate(nn.Module):
    """The weights beta of some layers, one per layer and channel."""

    def __init__(self, layers: int, width: int, start: float, trained: bool) -> None:
        super().__init__()
        self.drawn = start < 0
        values = torch.full((layers, width), start)
        if self.drawn:
            nn.init.xavier_normal_(values)
        self.values = nn.Parameter(values, requires_grad=trained)

    def forward(self) -> Tensor:
        """Return [layers, F]."""
        return self.values.sigmoid() if self.drawn else self.values


class LocalLayer(nn.Module):
    """x <- (1 - beta) LN(h * y) + beta y, with h = W_h x and y = W_s x + neighbours(x)."""

    def __init__(self, inputs: int, settings: PolynormerSettings) -> None:
        super().__init__()
        s, width = settings, settings.hidden_channels
        self.relu, self.dropout = s.relu, s.dropout
        self.pre_norm = nn.LayerNorm(inputs) if s.pre_norm else None
        self.factor = nn.Linear(inputs, width)
        attends = s.local == "attention"
        self.neighbours = (
            EdgeAttention(inputs, width, s.heads) if attends else GraphConv(inputs, width)
        )
        self.own = nn.Linear(inputs, width)
        self.batch_norm = SafeBatchNorm(width) if s.batch_norm else None
        self.norm = nn.LayerNorm(width)

    def forward(self, x: Tensor, adjacency: SparseMatrix, beta: Tensor) -> Tensor:
        """Return [n, F] from x [n, F_in] and beta [F]."""
        if self.pre_norm is not None:
            x = self.pre_norm(x)
        factor = self.factor(x)
        y = self.neighbours(x, adjacency) + self.own(x)
        if self.batch_norm is not None:
            y = self.batch_norm(y)
        if self.relu:
            factor, y = functional.relu(factor), functional.relu(y)
        y = dropout(y, self.dropout, self.training)
        out: Tensor = (1 - beta) * self.norm(factor * y) + beta * y
        return out


class EdgeAttention(nn.Module):
    """Attention along edges by sums of two scores, as in a graph attention network.

    e_ij = LeakyReLU(a_s . W x_j + a_t . W x_i), softmax over the neighbours j of i, per head.
    """

    def __init__(self, inputs: int, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.weight = nn.Parameter(torch.empty(width, inputs))
        self.source = nn.Parameter(torch.empty(heads, width // heads))
        self.target = nn.Parameter(torch.empty(heads, width // heads))
        for parameter in self.parameters():
            nn.init.xavier_uniform_(parameter)

    def forward(self, x: Tensor, adjacency: SparseMatrix) -> Tensor:
        """Return [n, F] from [n, F_in]; the values of the matrix are not used."""
        moved = functional.linear(x, self.weight).view(x.shape[0], self.heads, -1)
        source = (moved * self.source).sum(-1)  # [n, H]
        target = (moved * self.target).sum(-1)
        scores = source[adjacency.columns] + target[adjacency.rows()]
        weights = segment_softmax(functional.leaky_relu(scores, 0.2), adjacency)
        return adjacency.weighted(weights, moved).flatten(1)


class GlobalLayer(nn.Module):
    """LN(attention) * (W_h x + beta), with weights sigmoid(q_i) . sigmoid(k_j) over their sum.

    The sums over j are computed once, so time is linear in the number of nodes.
    """

    def __init__(self, width: int, heads: int, shared_keys: bool) -> None:
        super().__init__()
        self.heads = heads
        self.factor = nn.Linear(width, width)
        self.query = None if shared_keys else nn.Linear(width, width, bias=False)
        self.key = nn.Linear(width, width, bias=False)
        self.value = nn.Linear(width, width, bias=False)
        self.norm = nn.LayerNorm(width)

    def forward(self, x: Tensor, beta: Tensor) -> Tensor:
        """Return [n, F] from x [n, F] and beta [F]."""
        shape = (x.shape[0], self.heads, -1)
        key = self.key(x).sigmoid().view(shape)
        query = key if self.query is None else self.query(x).sigmoid().view(shape)
        summary = torch.einsum("nhm,nhd->hmd", key, self.value(x).view(shape))
        numerator = torch.einsum("nhm,hmd->nhd", query, summary)
        denominator = torch.einsum("nhm,hm->nh", query, key.sum(0))  # positive, as sigmoids are
        mixed = (numerator / denominator[..., None]).flatten(1)
        out: Tensor = self.norm(mixed) * (self.factor(x) + beta)
        return out
