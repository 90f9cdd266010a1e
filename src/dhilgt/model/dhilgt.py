"""The model: from features, token rows and distances to logits."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from os import PathLike
from typing import Any, cast

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from dhilgt.model.attention import choose_path, ego_codes, pair_codes, plain_path
from dhilgt.model.config import DHILGTConfig
from dhilgt.model.dropout import dropout
from dhilgt.model.ego_input import EgoInput
from dhilgt.model.kernels.packing import Room, packed_rows
from dhilgt.model.layers import (
    MLP,
    AttentionReadout,
    EncoderLayer,
    InputMLP,
    LabelInput,
    draw_virtual,
    reset_linear,
)
from dhilgt.model.messages import Messages
from dhilgt.model.steps import TokenStepRunner
from dhilgt.model.store import load_model, save_model
from dhilgt.tokens.spec import PADDING
from dhilgt.utils.fields import takes


class DHILGT(nn.Module):
    """DHIL-GT: a graph transformer over token rows; `forward` takes rows, not edges.

    Features go through an MLP, then through pre-norm transformer layers whose attention has a
    learned bias per distance, head and layer; virtual nodes follow the slots of every row. A
    readout adds a weighted sum of the row to its ego, an MLP maps the result to logits.

    Attributes:
        attention_used: The path of attention that the last batch took; None before any.
        recompute: Whether the fused path computes each layer a second time in the backward pass,
            with a seventh of the memory between the passes; False by default.
        packing: Whether the fused path leaves padding out of all products: "on", "off" or "auto"
            (the default): where at least an eighth of the slots is padding.

    Args:
        in_channels: Features per node.
        hidden_channels: Width of the representations; a multiple of `heads`.
        out_channels: Logits per node: the number of classes, also for two.
        num_layers: Transformer layers; 0 for none: only the ego's own features count then, there
            are no virtual nodes, and `readout` is "ego" in effect.
        heads: Attention heads.
        num_virtual: Virtual nodes; 0 for none.
        dropout: Dropout on the output of each attention and each feed-forward block, and between
            the layers of deeper input and output MLPs.
        input_dropout: Dropout on the features, before the first layer; of sparse features, on the
            stored ones. Drawn once per distinct node, not per slot.
        bias_dropout: Probability that a pair loses its bias, drawn once per row and forward pass:
            the same pairs for all heads and layers. The other biases are scaled up.
        ffn_channels: Inner width of the feed-forward blocks; `hidden_channels` when None.
        input_layers: Linear layers of the input MLP.
        output_layers: Linear layers of the output MLP.
        readout: "attention", or "ego" to use the ego's representation alone.
        spd_bias: Whether distances have a learned bias. Without it `spd` is checked, not used.
        attention: "reference" (plain operations), "sdpa" (PyTorch's fused attention), "fused"
            (this package's kernels for all layers; needs CUDA and Triton) or "auto": "reference"
            on the CPU, "fused" on CUDA where it can run, "sdpa" elsewhere.
        attention_dropout: Dropout on the attention weights.
        label_inputs: Whether `forward` takes the known classes of nodes as a fourth input. A row
            sees those of all its nodes but its ego.
        label_dropout: Probability that a known class is hidden in training, drawn once per
            distinct node and forward pass.
        bias_slope: The bias of distance d is initialized to -bias_slope * d, that of virtual nodes
            as for distance 1, so that a node first attends to itself and learns which other nodes
            to attend to.
        output_dropout: Dropout on the representation of the ego, before the output MLP.
        input_activation: Whether ReLU and `dropout` follow the sum of all inputs of a node. A model
            without layers then has a residual layer, h + ReLU(h W), in their place.
        message_layers: Rounds of message passing before the first layer; `forward` then takes the
            features of all nodes, and the adjacency matrix.
        ego_channels: Columns of the sparse rows that `forward` takes for each ego, in which it sees
            what it is connected to; 0 for models that take none.
        ego_groups: Rows of each ego, one per kind of entry.

    Example:
        >>> import torch
        >>> model = DHILGT(in_channels=5, hidden_channels=16, out_channels=3).eval()
        >>> x = torch.randn(4, 5)  # features of the four distinct nodes of the batch
        >>> index = torch.tensor([[0, 1, 2], [3, 1, -1]])  # two rows of three slots
        >>> spd = torch.tensor([[[0, 1, 2], [1, 0, 1], [2, 1, 0]]] * 2, dtype=torch.uint8)
        >>> model(x, index, spd).shape
        torch.Size([2, 3])
    """

    @takes(DHILGTConfig)
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()
        config = DHILGTConfig(*args, **kwargs)
        self._config = config
        self.attention_used: str | None = None
        self.recompute = False
        self.packing = "auto"
        width = config.hidden_channels
        self.input = InputMLP(
            [config.in_channels] + [width] * config.input_layers,
            config.dropout,
            config.input_dropout,
        )
        self.messages = (
            Messages(width, config.message_layers, config.dropout)
            if config.message_layers
            else None
        )
        # Without layers nothing reads the other slots: no parameter of theirs exists.
        has_virtual = config.num_virtual > 0 and config.num_layers > 0
        self.virtual = nn.Parameter(torch.empty(config.num_virtual, width)) if has_virtual else None
        self.layers = nn.ModuleList(EncoderLayer(config) for _ in range(config.num_layers))
        has_residual = config.input_activation and config.num_layers == 0
        self.residual = nn.Linear(width, width) if has_residual else None
        self.norm = nn.LayerNorm(width)
        reads_row = config.readout == "attention" and config.num_layers > 0
        self.readout = AttentionReadout(width) if reads_row else None
        self.output = MLP([width] * config.output_layers + [config.out_channels], config.dropout)
        if self.virtual is not None:
            draw_virtual(self.virtual)
        self.label_input = (
            LabelInput(config.out_channels, width, config.label_dropout)
            if config.label_inputs
            else None
        )
        self.ego_input = (
            EgoInput(config.ego_channels, width, config.ego_groups, config.input_dropout)
            if config.ego_channels
            else None
        )

    @property
    def config(self) -> DHILGTConfig:
        """The settings of the model."""
        return self._config

    def reset_parameters(self) -> None:
        """Initialize all parameters anew."""
        reset_linear(self)
        if self.virtual is not None:
            draw_virtual(self.virtual)
        if self.label_input is not None:
            draw_virtual(self.label_input.weight)
        if self.ego_input is not None:
            self.ego_input.reset_parameters()
        if self.messages is not None:
            self.messages.reset_parameters()

    def hold_statistics(self, x: Tensor, adjacency: Tensor) -> None:
        """Let the norms between rounds of messages use the statistics of a graph from now on.

        What a node gets then depends on the nodes around it alone, in other graphs, too. Training
        the model further ends it. A model without `message_layers` has no such norms.

        Args:
            x: Features of all nodes of the graph, as for `forward`.
            adjacency: As for `forward`.
        """
        self._check_adjacency(x, adjacency)
        if self.messages is not None:
            self.eval()
            with torch.no_grad():
                self.messages(self.input(x), adjacency, hold_statistics=True)

    def no_weight_decay(self) -> set[str]:
        """Return the names of parameters without weight decay: those that are looked up.

        These are the learned bias of each distance and of pairs with virtual nodes, the virtual
        nodes' features, and the vectors of known classes.
        """
        looked_up = ("virtual", "label_input.weight")
        names = {name for name, _ in self.named_parameters()}
        return {name for name in names if name in looked_up or name.endswith("_bias")}

    def forward(
        self,
        x: Tensor,
        index: Tensor,
        spd: Tensor,
        known: Tensor | None = None,
        ego: Tensor | None = None,
        adjacency: Tensor | None = None,
        *,
        room: Room | None = None,
    ) -> Tensor:
        """Return the logits of the egos, [B, out_channels].

        Args:
            x: Features of the distinct nodes of the batch, [n, in_channels]: dense, or sparse CSR,
                which is never made dense.
            index: The row of `x` for each slot, [B, s] int32 or int64: the ego first,
                -1 = padding.
            spd: Distances of all pairs of slots, [B, s, s] uint8: 0 to 253 exact, 254 far, 255 no
                path. Pairs with padding are ignored.
            known: With `label_inputs`, class + 1 of the distinct nodes, 0 = not known, [n] int32 or
                int64; None without.
            ego: With `ego_channels`, the sparse rows of the egos, [B * ego_groups, ego_channels]
                CSR: those of the first ego, one per group, then those of the second; None without.
            adjacency: With `message_layers`, the weights of all edges, a symmetric CSR matrix over
                the rows of `x`, which are then all nodes of the graph, [n, n]; None without.
            room: The rows that the fused kernels compute on, as `batch_room` returns them; None to
                count those of the batch, which waits for the device. It does not change the result.

        Raises:
            ValueError: If a shape or a type is wrong.
        """
        z = self.embed(x, index, spd, known, ego, adjacency, room=room)
        logits: Tensor = self.output(dropout(z, self._config.output_dropout, self.training))
        return logits

    def embed(
        self,
        x: Tensor,
        index: Tensor,
        spd: Tensor,
        known: Tensor | None = None,
        ego: Tensor | None = None,
        adjacency: Tensor | None = None,
        *,
        room: Room | None = None,
    ) -> Tensor:
        """Return the representations of the egos that the output MLP sees, [B, hidden_channels].

        Args:
            x: As for `forward`.
            index: As for `forward`.
            spd: As for `forward`.
            known: As for `forward`.
            ego: As for `forward`.
            adjacency: As for `forward`.
            room: As for `forward`.
        """
        path = self._take_path(x, index, spd, known, ego, adjacency)
        if path == "fused":
            from dhilgt.model.kernels import forward as fused

            return fused.embed(self, x, index, spd, known, ego, room)
        if not self.layers:
            z: Tensor = self.norm(self._own_rows(x, index, ego, adjacency))  # [B, F]
        elif self.readout is None:
            z = self.norm(self._encode_egos(x, index, spd, known, path, ego, adjacency))  # [B, F]
        else:
            h = self._encode(x, index, spd, known, path, ego, adjacency)  # [B, s, F]
            z = self.readout(self.norm(h), index != PADDING)  # [B, F]
        return z

    def readout_weights(
        self,
        x: Tensor,
        index: Tensor,
        spd: Tensor,
        known: Tensor | None = None,
        ego: Tensor | None = None,
        adjacency: Tensor | None = None,
    ) -> Tensor:
        """Return the weight of each slot in the readout, [B, s]; a row sums to 1, padding has 0.

        Args:
            x: As for `forward`.
            index: As for `forward`.
            spd: As for `forward`.
            known: As for `forward`.
            ego: As for `forward`.
            adjacency: As for `forward`.

        Raises:
            ValueError: If the model has readout = "ego" or no layers: there are no weights then.
        """
        if self.readout is None:
            raise ValueError(
                "the ego alone is read out, which has no weights; use a model with "
                'readout="attention" and at least one layer'
            )
        path = self._take_path(x, index, spd, known, ego, adjacency)
        if path == "fused":
            from dhilgt.model.kernels import forward as fused

            with fused.launching_on(index.device):
                normed = fused.encode(self, x, index, spd, known, ego)[:, : index.shape[1]]
        else:
            normed = self.norm(self._encode(x, index, spd, known, path, ego, adjacency))
        return self.readout.weights(normed, index != PADDING)

    def attention_path(self, slots: int) -> str:
        """Return the path of attention for rows of `slots` slots on the model's device.

        It is a name, never "auto". A path that cannot run is replaced, with one warning for each
        reason.

        Args:
            slots: Slots of a row, virtual nodes not counted.
        """
        weight = self.norm.weight
        if not self.layers:  # nothing is attended to
            return plain_path(weight.device)
        return choose_path(self._config, slots, weight.device, weight.dtype)

    def batch_room(self, index: Tensor, filled: int) -> Room:
        """Return the rows that the fused kernels compute on for a batch, without looking at it.

        Args:
            index: As for `forward`.
            filled: Number of slots that hold a node, all egos counted.
        """
        return Room(packed_rows(self, index, filled))

    def is_recordable(self) -> bool:
        """Return whether the steps of the last batch's path can be recorded as CUDA graphs."""
        # Without layers all shapes are known beforehand, as they are for the fused kernels.
        return self.attention_used == "fused" or not self.layers

    def step_runner(
        self, call: nn.Module, context: Callable[[], AbstractContextManager[Any]], record: bool
    ) -> TokenStepRunner:
        """Return how a trainer runs this model on batches.

        Args:
            call: What to call: the model, or a wrapper of it that exchanges gradients.
            context: Makes the context of each forward pass: autocast, or one that does nothing.
            record: Whether steps may be recorded as CUDA graphs and replayed.
        """
        return TokenStepRunner(self, call, context, record)

    def _take_path(
        self,
        x: Tensor,
        index: Tensor,
        spd: Tensor,
        known: Tensor | None,
        ego: Tensor | None,
        adjacency: Tensor | None,
    ) -> str:
        self._check(x, index, spd)
        self._check_known(x, known)
        self._check_ego(index, ego)
        self._check_adjacency(x, adjacency)
        path = self.attention_path(index.shape[1])
        if path == "fused" and len(index) == 0:  # no kernel can be launched on nothing
            path = plain_path(index.device)
        if not torch.compiler.is_compiling():
            self.attention_used = path
        return path

    def save_pretrained(self, folder: str | PathLike[str]) -> None:
        """Write config.json and model.safetensors, each of them atomically.

        Args:
            folder: Made if it does not exist; other files in it stay.

        Raises:
            ArtifactError: If the folder cannot be written.
        """
        save_model(self._config, self.state_dict(), folder)

    @classmethod
    def from_pretrained(cls, folder: str | PathLike[str]) -> DHILGT:
        """Return the model that `save_pretrained` wrote: on the CPU, in evaluation mode.

        Args:
            folder: Holds config.json and model.safetensors.

        Raises:
            ArtifactError: If a file is missing or damaged, or the two do not belong together.
        """
        config, tensors = load_model(
            folder, lambda config: _shell(cls, config).state_dict(), DHILGTConfig.from_dict
        )
        model = _shell(cls, config)
        model.load_state_dict(tensors, assign=True)
        return model.eval()

    def extra_repr(self) -> str:
        """Return the settings, for `repr`."""
        return ", ".join(f"{name}={value!r}" for name, value in self._config.to_dict().items())

    def place_nodes(
        self, h: Tensor, index: Tensor, known: Tensor | None, ego: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """Return a table of representations, and each slot's row in it, -1 = padding.

        These are `h` and `index` unless the model has `label_inputs` or `ego_channels`.

        Args:
            h: Output of the input MLP for the distinct nodes, [n, F].
            index: As for `forward`.
            known: As for `forward`.
            ego: As for `forward`.
        """
        rows, at = h, index
        if self.label_input is not None:
            rows, at = self.label_input(h, index, known)
        if self.ego_input is not None:
            # Only the first slot: elsewhere, a node of another row or the ego itself is plain.
            first = index[:, 0]
            egos = h.index_select(0, first.clamp(min=0)) + self.ego_input(ego).to(h.dtype)  # [B, F]
            own = torch.arange(index.shape[0], device=at.device, dtype=at.dtype) + rows.shape[0]
            is_own = torch.arange(index.shape[1], device=at.device) == 0
            at = torch.where(is_own & (first >= 0)[:, None], own[:, None], at)  # [B, s]
            rows = torch.cat([rows, egos])
        return self._activated(rows), at

    def _activated(self, rows: Tensor) -> Tensor:
        """Return the inputs of nodes as the first layer takes them, [..., F]."""
        if not self._config.input_activation:
            return rows
        return dropout(F.relu(rows), self._config.dropout, self.training)

    def _encode(
        self,
        x: Tensor,
        index: Tensor,
        spd: Tensor,
        known: Tensor | None,
        path: str,
        ego: Tensor | None = None,
        adjacency: Tensor | None = None,
    ) -> Tensor:
        config = self._config
        dtype = self.norm.weight.dtype
        # Computed once per distinct node, then gathered. A row of zeros in front stands for -1, so
        # that no node's features reach a padding slot. Under autocast the sums along the layers
        # stay in the parameters' precision.
        h = self._node_rows(x, adjacency).to(dtype)  # [n, F]
        h, at = self.place_nodes(h, index, known, ego)
        h = torch.cat([h.new_zeros(1, h.shape[1]), h])
        h = F.embedding(at + 1, h, padding_idx=0)  # [B, s, F]
        if self.virtual is not None:
            h = torch.cat([h, self.virtual.expand(h.shape[0], -1, -1)], 1)  # [B, t, F]
        dropped = config.bias_dropout if self.training else 0.0
        pairs = pair_codes(spd, index != PADDING, config.num_virtual, dropped)  # codes [B, t, t]
        for layer in self.layers:
            h = layer(h, pairs, path)
        return h[:, : index.shape[1]]

    def _encode_egos(
        self,
        x: Tensor,
        index: Tensor,
        spd: Tensor,
        known: Tensor | None,
        path: str,
        ego: Tensor | None,
        adjacency: Tensor | None,
    ) -> Tensor:
        """Return slot 0 of what `_encode` returns, [B, F], with the last layer for the ego alone.

        What a layer computes from one row of its input alone is computed once per distinct node in
        the first layer, not once per slot.
        """
        config, real = self._config, index != PADDING
        h = self._node_rows(x, adjacency).to(self.norm.weight.dtype)  # [n, F]
        h, at = self.place_nodes(h, index, known, ego)
        table, at = torch.cat([h.new_zeros(1, h.shape[1]), h]), at + 1
        if self.virtual is not None:
            virtual = table.shape[0] + torch.arange(config.num_virtual, device=index.device)
            at = torch.cat([at, virtual.expand(at.shape[0], -1)], 1)  # [B, t]
            table = torch.cat([table, self.virtual])  # [1 + n + m, F]
        dropped = config.bias_dropout if self.training else 0.0
        *earlier, last = cast("list[EncoderLayer]", list(self.layers))
        if not earlier:
            egos = F.embedding(at[:, 0], table, padding_idx=0)
            key, value = (F.embedding(at, rows) for rows in last.keys_and_values(table))
            codes = ego_codes(spd, real, config.num_virtual, dropped)
        else:
            h = F.embedding(at, table, padding_idx=0)  # [B, t, F]
            pairs = pair_codes(spd, real, config.num_virtual, dropped)
            first, *others = earlier
            h = first(h, pairs, path, F.embedding(at, first.queries_keys_values(table)))
            for layer in others:
                h = layer(h, pairs, path)
            egos, codes = h[:, 0], pairs.codes[:, 0]
            key, value = last.keys_and_values(h)
        return last.egos(egos, key, value, codes, real[:, 0])

    def _node_rows(self, x: Tensor, adjacency: Tensor | None) -> Tensor:
        """Return the representations of the rows of `x` before the first layer, [n, F]."""
        h: Tensor = self.input(x)
        return h if self.messages is None else self.messages(h, adjacency)

    def _own_rows(
        self, x: Tensor, index: Tensor, ego: Tensor | None, adjacency: Tensor | None
    ) -> Tensor:
        """Return slot 0 of what `_encode` returns without layers, [B, F]."""
        egos = index[:, 0]
        # The lengths are not known to a program that is exported.
        can_choose = x.layout == torch.strided and not torch.compiler.is_compiling()
        if can_choose and self.messages is None and len(x) > len(egos):
            # The other members of the rows are left out of all products.
            x = x.index_select(0, egos.clamp(min=0))
            each = torch.arange(len(egos), device=egos.device)
            egos = torch.where(egos == PADDING, egos, each)
        h = self._node_rows(x, adjacency).to(self.norm.weight.dtype)
        h = F.embedding(egos + 1, torch.cat([h.new_zeros(1, h.shape[1]), h]), padding_idx=0)
        if self.ego_input is not None:
            own: Tensor = self.ego_input(ego)
            h = h + own.masked_fill(index[:, :1] == PADDING, 0.0)
        h = self._activated(h)
        if self.residual is not None:
            inner: Tensor = F.relu(self.residual(h))
            h = h + dropout(inner, self._config.dropout, self.training)
        return h

    def _check(self, x: Tensor, index: Tensor, spd: Tensor) -> None:
        if x.dim() != 2 or x.shape[1] != self._config.in_channels:
            raise ValueError(
                f"x has shape {tuple(x.shape)}; pass [nodes, in_channels = "
                f"{self._config.in_channels}]"
            )
        if x.layout not in (torch.strided, torch.sparse_csr):
            raise ValueError(f"x has layout {x.layout}; pass x.to_dense() or x.to_sparse_csr()")
        if index.dim() != 2 or index.shape[1] == 0:
            raise ValueError(f"index has shape {tuple(index.shape)}; pass [batch, slots]")
        if index.dtype not in (torch.int32, torch.int64):
            raise ValueError(f"index holds {index.dtype}; pass int32 or int64")
        if spd.shape != (*index.shape, index.shape[1]):
            raise ValueError(
                f"spd has shape {tuple(spd.shape)}; index of shape {tuple(index.shape)} needs "
                f"{(*index.shape, index.shape[1])}"
            )
        if spd.dtype != torch.uint8:
            raise ValueError(f"spd holds {spd.dtype}; pass uint8")

    def _check_known(self, x: Tensor, known: Tensor | None) -> None:
        if self.label_input is None:
            if known is not None:
                raise ValueError(
                    "known is given, but the model has label_inputs=False; leave it out"
                )
            return
        if known is None:
            raise ValueError(
                "the model has label_inputs=True; pass known, class + 1 of each row of x and 0 "
                "where it is not known"
            )
        if known.shape != x.shape[:1]:
            raise ValueError(
                f"known has shape {tuple(known.shape)}; x of shape {tuple(x.shape)} needs "
                f"{tuple(x.shape[:1])}"
            )
        if known.dtype not in (torch.int32, torch.int64):
            raise ValueError(f"known holds {known.dtype}; pass int32 or int64")

    def _check_ego(self, index: Tensor, ego: Tensor | None) -> None:
        channels, groups = self._config.ego_channels, self._config.ego_groups
        if self.ego_input is None:
            if ego is not None:
                raise ValueError("ego is given, but the model has ego_channels=0; leave it out")
            return
        if ego is None:
            raise ValueError(
                f"the model has ego_channels={channels}; pass ego, a CSR tensor of {groups} rows "
                "for each row of index"
            )
        expected = (index.shape[0] * groups, channels)
        if tuple(ego.shape) != expected:
            raise ValueError(
                f"ego has shape {tuple(ego.shape)}; {len(index)} egos with ego_groups={groups} "
                f"need {expected}"
            )
        if ego.layout != torch.sparse_csr:
            raise ValueError(f"ego has layout {ego.layout}; pass ego.to_sparse_csr()")

    def _check_adjacency(self, x: Tensor, adjacency: Tensor | None) -> None:
        if self.messages is None:
            if adjacency is not None:
                raise ValueError(
                    "adjacency is given, but the model has message_layers=0; leave it out"
                )
            return
        if adjacency is None:
            raise ValueError(
                f"the model has message_layers={self._config.message_layers}; pass adjacency, a "
                "symmetric CSR tensor over the rows of x"
            )
        count = x.shape[0]  # len() would fix it in a program that is exported
        if tuple(adjacency.shape) != (count, count):
            raise ValueError(
                f"adjacency has shape {tuple(adjacency.shape)}; x of {count} rows needs "
                f"{(count, count)}"
            )
        if adjacency.layout != torch.sparse_csr:
            raise ValueError(
                f"adjacency has layout {adjacency.layout}; pass adjacency.to_sparse_csr()"
            )


def _shell(cls: type[DHILGT], config: DHILGTConfig) -> DHILGT:
    # Without storage: nothing is initialized, and even a huge config takes no memory.
    with torch.device("meta"):
        return cls(**config.to_dict())
