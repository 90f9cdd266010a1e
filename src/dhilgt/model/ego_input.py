"""What an ego is connected to, as an input of the model: learned vectors, summed."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from dhilgt.model.dropout import dropout
from dhilgt.model.sparse_product import CsrParts, grouped_product

# The squares of a row of n equal entries 1/sqrt(n) sum to 1, so its sum of vectors has the size of
# one vector, however long the row is: about that of the input MLP on sparse features. With a
# deviation of 1/sqrt(width) the validation score (three seeds) is 0.6 points lower on cora, 1.9 on
# reed98, and the same on chameleon.
_TABLE_STD = 0.02


class EgoInput(nn.Module):
    """A learned vector per column of the egos' sparse rows, and a learned scale per group of rows.

    Each ego has one sparse row per group: one for its neighbours, one for its hubs at distance 1,
    and so on. Its vector is the sum over groups of scale * (row @ table).

    Args:
        channels: Columns of the rows.
        width: Channels of the vectors.
        groups: Rows per ego.
        input_dropout: Dropout on the entries of the rows.

    Example:
        >>> ego = torch.eye(6).to_sparse_csr()  # three egos with two rows each
        >>> EgoInput(channels=6, width=16, groups=2, input_dropout=0.0)(ego).shape
        torch.Size([3, 16])
    """

    def __init__(self, channels: int, width: int, groups: int, input_dropout: float) -> None:
        super().__init__()
        self.groups = groups
        self.input_dropout = input_dropout
        self.weight = nn.Parameter(torch.empty(channels, width))
        self.scale = nn.Parameter(torch.empty(groups))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the vectors anew and set all scales to 1."""
        nn.init.normal_(self.weight, std=_TABLE_STD)
        nn.init.ones_(self.scale)

    def forward(self, ego: Tensor | CsrParts) -> Tensor:
        """Return the vectors of the egos, [B, width].

        Args:
            ego: [B * groups, channels] CSR: the rows of each ego, one after the other.
        """
        values = ego.values().to(self.weight.dtype)
        values = dropout(values, self.input_dropout, self.training)
        return grouped_product(ego, values, self.weight, self.scale)
