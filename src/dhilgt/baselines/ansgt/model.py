"""ANS-GT: sequences of sampled nodes and super-nodes; a bandit learns how to sample."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from dhilgt.baselines.ansgt.coarsen import CoarseGraph, coarsen
from dhilgt.baselines.ansgt.proximity import KINDS, page_ranks, powers, proximities
from dhilgt.baselines.ansgt.resident import Resident, Tables
from dhilgt.baselines.base import About, Baseline, Phase
from dhilgt.baselines.loaders import GraphBatch, Key, NodeLoader, RowStore
from dhilgt.baselines.settings import Settings, choice, count, number, rate, switch
from dhilgt.baselines.shared.encoder import TokenEncoder, draw_small
from dhilgt.baselines.shared.message_graph import CleanGraph, dense_features
from dhilgt.baselines.shared.recorded_steps import Recordable
from dhilgt.errors import ConfigError
from dhilgt.graph.graph import Graph
from dhilgt.model.dropout import dropout
from dhilgt.training.config import TrainConfig
from dhilgt.training.scoring import evaluating

_EPS = 1e-5
_SCORED = 256  # sequences whose attention is computed at once for the rewards
_INFERRED = 1024  # sequences that vote at once


@dataclass(frozen=True)
class ANSGTSettings(Settings):
    """Settings of `ANSGT`.

    Attributes:
        hidden_channels: Width, a multiple of `heads`.
        ffn_channels: Inner width of the feed-forward part.
        num_layers: Transformer layers.
        heads: Attention heads.
        sampled_nodes: Nodes drawn for a sequence.
        super_nodes: Super-nodes drawn for a sequence, besides the node's own.
        coarsening: Whether there are super-nodes.
        keep: Fraction of super-nodes to nodes.
        sequences: Sequences of each node: examples in training, votes in inference.
        hops: Number of powers of Â that bias attention.
        restart: Restart probability of PageRank.
        first: Initial probabilities of the proximities: "uniform" for all four, "ppr" for PageRank
            only.
        period: Epochs between two updates of the bandit: below 1 a fraction of the run, else their
            number; None for no updates.
        least_share: Least probability of a proximity.
        vote: "majority" of the classes of a node's sequences, or "mean" of their probabilities.
        dropout: Dropout of the output of each part of a layer.
        attention_dropout: Dropout of the attention weights.
        input_dropout: Dropout of the tokens.
        exact_nodes: Up to so many nodes, proximities and powers of Â of all pairs are stored.
        candidates: Pairs stored per row on larger graphs.
        batch_size: Nodes per batch; None for all at once.
    """

    hidden_channels: int = count(128)
    ffn_channels: int = count(128)
    num_layers: int = count(4)
    heads: int = count(8)
    sampled_nodes: int = count(14)
    super_nodes: int = count(3, low=0)
    coarsening: bool = switch(True)
    keep: float = number(0.1, 0, 1)
    sequences: int = count(8)
    hops: int = count(6)
    restart: float = number(0.15, 0.001, 1)
    first: str = choice("uniform", "ppr")
    period: float | None = number(0.1, 0, above=True, optional=True)
    least_share: float = number(0.05, 0, 0.25)
    vote: str = choice("majority", "mean")
    dropout: float = rate(0.1)
    attention_dropout: float = rate(0.5)
    input_dropout: float = rate(0.1)
    exact_nodes: int = count(4096, low=0)
    candidates: int = count(64)
    batch_size: int | None = count(32, optional=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check_heads()
        if self.super_nodes and not self.coarsening:
            raise ConfigError(
                f"super_nodes = {self.super_nodes} without coarsening; pass super_nodes=0, or "
                "coarsening=True"
            )


class ANSGT(Recordable, Baseline):
    """A transformer over a node, sampled nodes, super-nodes and a learned token."""

    about: ClassVar = About("ANS-GT", "Zhang et al., NeurIPS 2022", "samples")
    settings_type: ClassVar[type[Settings]] = ANSGTSettings
    settings: ANSGTSettings
    recipe: ClassVar[Mapping[str, Any]] = {
        "epochs": 1000,
        "lr": 2e-4,
        "weight_decay": 0.01,
        "warmup_epochs": 100,
        "end_lr": 1e-9,
        "patience": None,
    }

    mixture: Tensor
    weights: Tensor
    draws: Tensor

    @classmethod
    def variants(cls) -> dict[str, dict[str, Any]]:
        """Return "paper", and "released" and "released-large" with the defaults of the code."""
        released = {"first": "ppr", "period": None, "super_nodes": 0}
        return {
            "paper": {},
            "released": released,
            "released-large": released | {"coarsening": False, "sampled_nodes": 15},
        }

    # ---- layers --------------------------------------------------------------------------------

    def build(self) -> None:
        """Create the layers."""
        s, width = self.settings, self.settings.hidden_channels
        self.input = nn.Linear(self.shape.in_channels, width)
        self.token = nn.Embedding(1, width)
        self.token_bias = nn.Embedding(1, s.hops)
        self.biases = nn.ModuleList(nn.Linear(s.hops, s.heads) for _ in range(s.num_layers))
        self.encoder = TokenEncoder(
            width,
            num_layers=s.num_layers,
            heads=s.heads,
            ffn=s.ffn_channels,
            dropout=s.dropout,
            attention_dropout=s.attention_dropout,
        )
        self.output = nn.Linear(width, self.shape.out_channels)
        draw_small(self, s.num_layers)
        self._run_epochs = int(self.recipe["epochs"])  # until `phases` tells how many
        mixture = torch.zeros(len(KINDS))
        mixture[0] = 1
        if s.first == "uniform":
            mixture.fill_(1 / len(KINDS))
        # State of the bandit; sequences follow from it and are not saved.
        self.register_buffer("mixture", mixture)
        self.register_buffer("weights", torch.ones(len(KINDS)))
        self.register_buffer("draws", torch.tensor(0))

    # ---- before training -----------------------------------------------------------------------

    def _prepare(self, graph: Graph) -> None:
        s, x = self.settings, dense_features(graph)
        limits = {"exact_nodes": s.exact_nodes, "candidates": s.candidates}
        hat = CleanGraph.of(graph).adjacency("symmetric")
        self._near = proximities(hat, x, restart=s.restart, **limits)
        self._powers = powers(hat, s.hops, **limits)
        self._coarse: CoarseGraph | None = None
        if s.coarsening:
            self._coarse = coarsen(CleanGraph.of(graph, self_loops=False), s.keep, self.seed)
            self._coarse_powers = powers(self._coarse.adjacency, s.hops, **limits)
            self._coarse_near = page_ranks(self._coarse.adjacency, restart=s.restart, **limits)
            x = torch.cat([x, self._coarse.means(x)])  # super-node c is row n + c
        self._features = RowStore(x)
        self._tables = Tables(
            x,
            self._powers,
            None if self._coarse is None else self._coarse_powers,
            self._super_of(),
            1 + s.sampled_nodes,
        )
        self._residents: dict[torch.device, Resident | None] = {}
        self._drawn: tuple[Any, NDArray[np.int64]] | None = None
        self._train_nodes: NDArray[np.int64] | None = None
        self.sequences()

    def _super_of(self) -> NDArray[np.int64]:
        """Return the super-node of each token; all zeros if there are none."""
        if self._coarse is None:
            return np.zeros(self._near.num_nodes, np.int64)
        return np.concatenate([self._coarse.member_of, np.arange(len(self._coarse.sizes))])

    def sequences(self) -> NDArray[np.int64]:
        """Return the tokens of all sequences, [n, sequences, tokens]; -1 where there is none.

        In this order: the node, the sampled nodes, its super-node, sampled super-nodes; super-node
        c is token n + c. Sequences are drawn again after each update of the bandit.
        """
        mixture = self.mixture.cpu().numpy()
        state = int(self.draws), tuple(mixture.tolist())
        if self._drawn is None or self._drawn[0] != state:
            self._drawn = state, self._draw(mixture, int(self.draws))
        return self._drawn[1]

    def _draw(self, mixture: NDArray[np.float32], number: int) -> NDArray[np.int64]:
        s, n = self.settings, self._near.num_nodes
        rows = np.repeat(np.arange(n), s.sequences)
        seed = [self.seed, number]
        parts: list[NDArray[Any]] = [rows[:, None]]
        parts.append(self._near.draw(rows, mixture, s.sampled_nodes, [*seed, 0]))
        if self._coarse is not None:
            own = self._coarse.member_of[rows]
            others = self._coarse_near.draw(own, np.ones(1), s.super_nodes, [*seed, 1])
            parts += [n + own[:, None], np.where(others < 0, -1, n + others.astype(np.int64))]
        return np.concatenate(parts, 1).reshape(n, s.sequences, -1)

    # ---- batches -------------------------------------------------------------------------------

    def _train_loader(self, nodes: NDArray[np.int64], labels: NDArray[np.int64], seed: int) -> Any:
        self._train_nodes = np.unique(nodes)
        size = self.settings.batch_size
        return _SequenceLoader(
            self,
            nodes,
            labels,
            batch_size=size,
            shuffle=size is not None,
            seed=seed,
            on_epoch=self.begin_epoch,
            one_each=True,
        )

    def _inference_loader(self, nodes: NDArray[np.int64], labels: NDArray[np.int64] | None) -> Any:
        size = self.settings.batch_size
        at_once = None if size is None else max(size, _INFERRED // self.settings.sequences)
        return _SequenceLoader(self, nodes, labels, batch_size=at_once, may_stay=True)

    def ready_for_batches(self) -> None:
        """Draw the sequences if the bandit has moved, and put them where batches are made."""
        sequences, device = self.sequences(), self.device
        if device not in self._residents:
            shape = (sequences.shape[0] * sequences.shape[1], sequences.shape[2])
            self._residents[device] = Resident.where_it_fits(self._tables, shape, device)
        resident = self._residents[device]
        if resident is not None:
            resident.put(sequences)

    def fixed_tables(self) -> Resident | None:
        """Return the tables on the model's device; None if they are on the host."""
        return self._residents.get(self.device)

    def batch_inputs(self, which: NDArray[np.int64]) -> tuple[Any, ...]:
        """Return the inputs of `logits` for sequences by their number, [B, sequences].

        Number v * sequences + k is sequence k of node v. On a GPU the numbers are all that is
        needed; on the host the inputs are made ahead of the model.
        """
        if self.fixed_tables() is not None:
            return (torch.from_numpy(which),)
        return self._inputs(self._numbered(which))

    def _numbered(self, which: NDArray[np.int64]) -> NDArray[np.int64]:
        assert self._drawn is not None, "drawn by _prepare"
        tokens: NDArray[np.int64] = self._drawn[1].reshape(-1, self._drawn[1].shape[-1])[which]
        return tokens

    def _gathered(self, which: Tensor) -> tuple[Tensor, ...]:
        resident = self._residents.get(which.device)
        if resident is not None:
            return resident.inputs(which)
        inputs = self._inputs(self._numbered(which.cpu().numpy()))
        return tuple(part.to(which.device) for part in inputs)

    def _inputs(self, tokens: NDArray[np.int64]) -> tuple[Any, ...]:
        missing = tokens < 0
        tokens = np.where(missing, tokens[..., :1], tokens)  # [B, sequences, tokens]
        used, places = np.unique(tokens, return_inverse=True)
        return (
            self._features.rows(used),
            torch.from_numpy(places.reshape(tokens.shape)),
            torch.from_numpy(missing),
            torch.from_numpy(self.pair_biases(tokens)),
        )

    def pair_biases(self, tokens: NDArray[np.int64]) -> NDArray[np.float32]:
        """Return Â^1 ... Â^K between the tokens of each sequence, [..., tokens, tokens, K].

        A pair with a super-node has the powers of the coarse graph's Â between the super-nodes of
        both.
        """
        real = tokens[..., : 1 + self.settings.sampled_nodes]
        fine = self._powers.lookup(*_pairs(real))
        if self._coarse is None:
            return fine
        inside = self._tables.super_of[tokens]
        out = self._coarse_powers.lookup(*_pairs(inside))
        out[..., : real.shape[-1], : real.shape[-1], :] = fine
        return out

    # ---- the bandit ----------------------------------------------------------------------------

    def phases(self, config: TrainConfig) -> list[Phase]:
        """Return one phase, whose epochs determine when the bandit is updated."""
        self._run_epochs = config.epochs
        return super().phases(config)

    def epoch_begins(self, epoch: int) -> None:
        """Update the bandit if a period has passed; sequences are then drawn again."""
        if self._train_nodes is None or not update_is_due(
            epoch, self.settings.period, self._run_epochs
        ):
            return
        reward = self.rewards(self._train_nodes)
        weights, mixture = bandit_move(
            self.weights.cpu().numpy(), self.mixture.cpu().numpy(), reward,
            self.settings.least_share,
        )  # fmt: skip
        self.weights.copy_(torch.from_numpy(weights))
        self.mixture.copy_(torch.from_numpy(mixture))
        self.draws.add_(1)

    def rewards(self, nodes: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the reward of each proximity: the attention to the nodes that it proposed.

        score_j = mean over heads of attention(node -> j) |v_j| in the last layer, over the sampled
        nodes j of a node's first sequence; r_k = mean of score_j s_k(j) / sum_k' p_k' s_k'(j).
        """
        self.ready_for_batches()
        mixture, total, count = self.mixture.cpu().numpy(), np.zeros(len(KINDS)), 0
        with evaluating(self):
            for at in range(0, len(nodes), _SCORED):
                which = nodes[at : at + _SCORED, None] * self.settings.sequences
                tokens = self._numbered(which)
                inputs = self._gathered(torch.from_numpy(which).to(self.device))
                last = self.encoder.last_attention(*self._embedded(*inputs))
                sampled = slice(1, 1 + self.settings.sampled_nodes)
                norms = last.values[:, :, sampled].norm(dim=-1)
                scores = (last.weights[:, :, 0, sampled] * norms).mean(1)
                scores = scores.double().cpu().numpy()  # [B, sampled]
                drawn = tokens[:, 0, sampled]
                present = drawn >= 0
                rows = np.broadcast_to(tokens[:, 0, :1], drawn.shape)
                near = self._near.lookup(rows, np.where(present, drawn, 0)).astype(np.float64)
                ratios = near / (near @ mixture + _EPS)[..., None]
                total += (ratios * (scores * present)[..., None]).sum((0, 1))
                count += int(present.sum())
        return total / max(1, count)

    # ---- the model -----------------------------------------------------------------------------

    def logits(self, *inputs: Tensor) -> Tensor:
        """Return [B, C]; for several sequences per node, the logarithm of their votes.

        Args:
            inputs: The numbers of sequences, [B, sequences], or these four:
            x: Features of all nodes and super-nodes in the batch, [used, F0].
            places: Tokens as rows of `x`, [B, sequences, tokens].
            missing: Which tokens are padding, [B, sequences, tokens].
            bias: Powers of Â between tokens, [B, sequences, tokens, tokens, K].
        """
        gathered = self._gathered(inputs[0]) if len(inputs) == 1 else inputs
        h = self.encoder(*self._embedded(*gathered))
        shape = gathered[1].shape[:2]
        logits: Tensor = self.output(h[:, 0]).view(*shape, -1)  # [B, sequences, C]
        return logits[:, 0] if shape[1] == 1 else votes(logits, self.settings.vote)

    def _embedded(
        self, x: Tensor, places: Tensor, missing: Tensor, bias: Tensor
    ) -> tuple[Tensor, list[Tensor]]:
        places, missing, bias = places.flatten(0, 1), missing.flatten(0, 1), bias.flatten(0, 1)
        # On a GPU `x` has the rows of the whole graph, on the host those of the batch.
        h = self.input(x[places]) if x.is_cuda else self.input(x)[places]
        last = self.token.weight.expand(len(h), 1, -1).to(h.dtype)
        h = dropout(torch.cat([h, last], 1), self.settings.input_dropout, self.training)
        size = h.shape[1]
        edge = self.token_bias.weight.expand(len(h), size, -1)
        bias = torch.cat([bias, edge[:, :-1, None]], 2)
        bias = torch.cat([bias, edge[:, None]], 1)  # [B, t, t, K], the learned token last
        absent = torch.cat([missing, missing.new_zeros(len(h), 1)], 1)[:, None, :, None]
        # The layers have weights of their own, and are computed in one product.
        layers = [layer for layer in self.biases if isinstance(layer, nn.Linear)]
        weight = torch.cat([layer.weight for layer in layers])
        shift = torch.cat([layer.bias for layer in layers])
        scores = nn.functional.linear(bias, weight, shift).masked_fill(absent, -torch.inf)
        scores = scores.view(*scores.shape[:3], len(layers), -1)
        scores = scores.permute(3, 0, 4, 1, 2).contiguous()
        return h, list(scores)  # [B, heads, t, t] each


class _SequenceLoader(NodeLoader):
    """Batches of sequences: all of a node together, or each as an example of its own.

    Args:
        model: Makes the inputs.
        nodes: As for `NodeLoader`.
        labels: As for `NodeLoader`.
        one_each: Whether a node is repeated once per sequence: the loss is the mean over sequences.
        options: As for `NodeLoader`.
    """

    def __init__(
        self,
        model: ANSGT,
        nodes: NDArray[np.int64],
        labels: NDArray[np.int64] | None,
        *,
        one_each: bool = False,
        **options: Any,
    ) -> None:
        super().__init__(self._inputs_of, nodes, labels, **options)
        self._model, self._one_each = model, one_each

    def iterate(self, start_batch: int = 0) -> Iterator[GraphBatch]:
        """Return the batches of the epoch, from `start_batch` on."""
        self._model.ready_for_batches()  # once for all of them: it waits for the device
        return super().iterate(start_batch)

    def _batch(self, nodes: NDArray[np.int64], number: int) -> GraphBatch:
        copies = self._model.settings.sequences if self._one_each else 1
        return super()._batch(np.repeat(nodes, copies), number)

    def _inputs_of(self, nodes: NDArray[np.int64], key: Key) -> tuple[Any, ...]:
        copies = self._model.settings.sequences
        if self._one_each:
            which = (nodes * copies + np.arange(len(nodes)) % copies)[:, None]
        else:
            which = nodes[:, None] * copies + np.arange(copies)
        return self._model.batch_inputs(which)


def votes(logits: Tensor, kind: str = "majority") -> Tensor:
    """Return the logarithm of each class's fraction of the votes of a node's sequences.

    Among classes with equal votes the mean probability decides.

    Args:
        logits: [B, sequences, C].
        kind: "majority", or "mean" for the mean probability only.

    Example:
        >>> three = torch.tensor([[[9.0, 0.0], [0.0, 0.1], [0.0, 0.1]]])
        >>> votes(three).argmax(1).tolist(), votes(three, "mean").argmax(1).tolist()
        ([1], [0])
    """
    mean = torch.softmax(logits.float(), -1).mean(1)
    fraction = mean
    if kind == "majority":
        counts = nn.functional.one_hot(logits.argmax(-1), logits.shape[-1]).float().mean(1)
        # The mean has the weight of half a vote, and keeps the logarithm finite.
        half = 0.5 / logits.shape[1]
        fraction = (counts + half * mean) / (1 + half)
    return fraction.clamp_min(1e-12).log()


def update_is_due(epoch: int, period: float | None, epochs: int) -> bool:
    """Return whether a period ends with the beginning of an epoch (from 0), one at most.

    Args:
        epoch: The epoch that begins.
        period: Epochs of a period; below 1, as a fraction of the run; None for no end.
        epochs: Epochs of the run.

    Example:
        >>> [epoch for epoch in range(25) if update_is_due(epoch, 0.2, 25)]
        [5, 10, 15, 20]
    """
    if period is None or epoch == 0:
        return False
    length = period * epochs if period < 1 else period
    # Just more than the quotient: 0.1 * 30 is not quite 3.
    ended, before = (math.floor(at / length + 1e-9) for at in (epoch, epoch - 1))
    return ended > before


def bandit_move(
    weights: NDArray[Any], mixture: NDArray[Any], reward: NDArray[Any], least: float
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Return new weights w and probabilities p of the arms, from the reward of each.

    w <- w exp(2 (r + 0.01 / p)), p = (1 - K least) w / sum w + least.

    Example:
        >>> _, mixture = bandit_move(np.ones(2), np.full(2, 0.5), np.array([1.0, 0.0]), 0.1)
        >>> mixture.round(3).tolist()
        [0.8050000071525574, 0.19499999284744263]
    """
    with np.errstate(divide="ignore"):
        exploration = np.where(mixture > 0, 0.01 / mixture, 0)
    logs = np.log(weights) + 2 * (reward + exploration)
    new = np.exp(logs - logs.max())  # only ratios matter, and these cannot overflow
    new_mixture = (1 - len(new) * least) * new / new.sum() + least
    new = np.maximum(new, np.finfo(np.float32).tiny)
    return new.astype(np.float32), new_mixture.astype(np.float32)


def _pairs(tokens: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    size = tokens.shape[-1]
    shape = (*tokens.shape, size)
    return np.broadcast_to(tokens[..., None], shape), np.broadcast_to(tokens[..., None, :], shape)
