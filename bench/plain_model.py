"""A plain implementation: stock modules, a feature row per slot, a bias tensor per layer.

The peer of the training benchmarks. It computes what `dhilgt.DHILGT` does, and takes the features
of every slot, [B, s, channels], in place of those of the distinct nodes.
"""

import torch
from torch import Tensor, nn


class PlainLayer(nn.Module):
    """A pre-norm layer with an embedding of distances as attention bias."""

    def __init__(self, width: int, heads: int, codes: int, dropout: float) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.ffn = nn.Sequential(nn.Linear(width, width), nn.GELU(), nn.Linear(width, width))
        self.bias = nn.Embedding(codes, heads)
        self.dropout = nn.Dropout(dropout)

    def forward(self, h: Tensor, codes: Tensor, hidden: Tensor) -> Tensor:
        """Return [B, t, F] from [B, t, F]; `hidden` marks pairs that are not attended to."""
        batch, slots, width = h.shape
        q, k, v = (
            part.view(batch, slots, self.heads, -1).transpose(1, 2)
            for part in self.qkv(self.norm1(h)).chunk(3, -1)
        )
        scores = q @ k.transpose(-2, -1) / (width // self.heads) ** 0.5
        scores = scores + self.bias(codes).permute(0, 3, 1, 2)
        weights = scores.masked_fill(hidden[:, None, None, :], -1e9).softmax(-1)
        mixed = (weights @ v).transpose(1, 2).reshape(batch, slots, width)
        h = h + self.dropout(self.out(mixed))
        return h + self.dropout(self.ffn(self.norm2(h)))


class PlainModel(nn.Module):
    """Input layer, layers with virtual nodes, readout, output layer."""

    def __init__(
        self,
        in_channels: int,
        width: int,
        classes: int,
        num_layers: int = 4,
        heads: int = 8,
        num_virtual: int = 4,
        dropout: float = 0.5,
        input_dropout: float = 0.1,
    ) -> None:
        super().__init__()
        self.num_virtual = num_virtual
        self.input = nn.Linear(in_channels, width)
        self.input_dropout = nn.Dropout(input_dropout)
        self.virtual = nn.Parameter(0.02 * torch.randn(num_virtual, width))
        self.layers = nn.ModuleList(
            PlainLayer(width, heads, 257, dropout) for _ in range(num_layers)
        )
        self.norm = nn.LayerNorm(width)
        self.score = nn.Linear(2 * width, 1)
        self.output = nn.Linear(width, classes)

    def forward(self, x: Tensor, real: Tensor, spd: Tensor) -> Tensor:
        """Return logits [B, classes].

        Args:
            x: Features of all slots, [B, s, channels]; zeros where there is no node.
            real: Which slots hold a node, [B, s].
            spd: Distances, [B, s, s] uint8.
        """
        batch, slots, _ = x.shape
        h = self.input(self.input_dropout(x))
        h = torch.cat([h, self.virtual.expand(batch, -1, -1)], 1)  # [B, t, F]
        total = slots + self.num_virtual
        codes = spd.new_full((batch, total, total), 0, dtype=torch.long) + 256
        codes[:, :slots, :slots] = spd
        hidden = torch.cat([~real, real.new_zeros(batch, self.num_virtual)], 1)
        for layer in self.layers:
            h = layer(h, codes, hidden)
        h = self.norm(h[:, :slots])
        pairs = torch.cat([h[:, :1].expand_as(h), h], -1)  # [B, s, 2 F]
        weights = self.score(pairs).squeeze(-1).masked_fill(~real, -1e9).softmax(-1)
        return self.output(h[:, 0] + (weights[:, :, None] * h).sum(1))
