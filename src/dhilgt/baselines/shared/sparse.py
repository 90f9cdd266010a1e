"""Sparse matrices and their products with dense ones, with gradients, on any device."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812
from numpy.typing import NDArray
from torch import Tensor

# PyTorch warns that this layout is in beta, which is of no use to users of a baseline.
warnings.filterwarnings("ignore", message="Sparse CSR tensor support")

_GATHERED = {"cpu": 1 << 20, "cuda": 1 << 27}  # numbers gathered at once by `pair_products`
_STACKED = 1 << 27  # entries of all heads together that are multiplied at once


class SparseMatrix:
    """A matrix in compressed rows, to be multiplied with dense ones.

    Args:
        offsets: Where each row begins, [rows + 1] int64.
        columns: Column of each entry, [entries] int64.
        values: Value of each entry, [entries].
        num_columns: Number of columns; None for as many as rows.
        symmetric: Whether it equals its transpose, which then is not computed.

    Example:
        >>> import torch
        >>> matrix = SparseMatrix(torch.tensor([0, 1, 3]), torch.tensor([1, 0, 1]), torch.ones(3))
        >>> (matrix @ torch.tensor([[1.0], [2.0]])).tolist()
        [[2.0], [3.0]]
    """

    def __init__(
        self,
        offsets: Tensor,
        columns: Tensor,
        values: Tensor,
        num_columns: int | None = None,
        *,
        symmetric: bool = False,
    ) -> None:
        self.offsets, self.columns, self.values = offsets, columns, values
        rows = len(offsets) - 1
        self.shape = (rows, rows if num_columns is None else num_columns)
        self._transposed: SparseMatrix | None = self if symmetric else None
        self._order: Tensor | None = None
        self._rows: Tensor | None = None
        self._counting: tuple[Tensor, Tensor] | None = None
        self._stacked: dict[int, tuple[Tensor, Tensor]] = {}

    @classmethod
    def from_numpy(
        cls,
        offsets: NDArray[Any],
        columns: NDArray[Any],
        values: NDArray[Any],
        num_columns: int | None = None,
        *,
        symmetric: bool = False,
    ) -> SparseMatrix:
        """Return the matrix of three arrays, with float32 values."""
        return cls(
            torch.from_numpy(np.array(offsets, np.int64)),
            torch.from_numpy(np.array(columns, np.int64)),
            torch.from_numpy(np.array(values, np.float32)),
            num_columns,
            symmetric=symmetric,
        )

    @property
    def device(self) -> torch.device:
        """Device of the arrays."""
        return self.values.device

    @property
    def is_cuda(self) -> bool:
        """Whether the arrays are on a GPU."""
        return self.values.is_cuda

    def rows(self) -> Tensor:
        """Return the row of each entry, [entries]; computed once."""
        if self._rows is None:
            # Training cannot use a tensor created in inference mode.
            with torch.inference_mode(False):
                numbers = torch.arange(self.shape[0], device=self.device)
                # With a known size, a GPU does not wait for the sum of the counts.
                self._rows = torch.repeat_interleave(
                    numbers, self.offsets.diff(), output_size=len(self.columns)
                )
        return self._rows

    def row_sums(self, entries: Tensor) -> Tensor:
        """Return the sums over rows, [entries, H] to [rows, H], without gradients."""
        if self._counting is None:
            with torch.inference_mode(False):
                places = torch.arange(len(self.columns), device=self.device)
                self._counting = places, torch.ones(len(places), device=self.device)
        # Unlike a scatter, a product sums in a fixed order.
        return multiply(self.offsets, *self._counting, entries)

    def transposed(self) -> SparseMatrix:
        """Return the transpose; computed once."""
        if self._transposed is None:
            with torch.inference_mode(False):
                order = self.transposing_order()
                begins = torch.arange(self.shape[1] + 1, device=self.device)
                offsets = torch.searchsorted(self.columns[order], begins)
                other = SparseMatrix(offsets, self.rows()[order], self.values[order], self.shape[0])
            other._transposed = self
            self._transposed = other
        return self._transposed

    def transposing_order(self) -> Tensor:
        """Return the index of each entry of the transpose among these entries, [entries]."""
        if self._order is None:
            with torch.inference_mode(False):
                self._order = torch.argsort(self.columns, stable=True)
        return self._order

    def to_dense(self) -> Tensor:
        """Return a dense tensor, [rows, columns]."""
        out = torch.zeros(self.shape, dtype=self.values.dtype, device=self.device)
        return out.index_put((self.rows(), self.columns), self.values, accumulate=True)

    def to(self, device: Any, non_blocking: bool = False) -> SparseMatrix:
        """Return the matrix on a device, with its transpose if that was computed."""
        if torch.device(device) == self.device:
            return self
        moved = self._moved(device, non_blocking)
        if self._transposed is self:
            moved._transposed = moved
        elif self._transposed is not None:
            moved._transposed = self._transposed._moved(device, non_blocking)
            moved._transposed._transposed = moved
        return moved

    def _moved(self, device: Any, non_blocking: bool) -> SparseMatrix:
        offsets, columns, values = (
            part.to(device, non_blocking=non_blocking)
            for part in (self.offsets, self.columns, self.values)
        )
        moved = SparseMatrix(offsets, columns, values, self.shape[1])
        if self._order is not None:
            moved._order = self._order.to(device, non_blocking=non_blocking)
        return moved

    def __matmul__(self, dense: Tensor) -> Tensor:
        """Return the product with [columns, F], or with [columns, H, F] head by head."""
        if dense.shape[0] != self.shape[1]:
            raise ValueError(
                f"a matrix of {self.shape[1]} columns times one of {dense.shape[0]} rows; "
                "pass one row per column"
            )
        flat = dense.reshape(dense.shape[0], -1)
        product: Tensor = _Product.apply(flat, self)  # type: ignore[no-untyped-call]
        return product.reshape(self.shape[0], *dense.shape[1:])

    def weighted(self, weights: Tensor, dense: Tensor) -> Tensor:
        """Return the product with other values in place of those of this matrix, per head.

        Args:
            weights: The values, [entries, H]; they get gradients.
            dense: [columns, H, F].

        Returns:
            [rows, H, F].
        """
        product: Tensor = _WeightedProduct.apply(weights, dense, self)  # type: ignore[no-untyped-call]
        return product

    def multiply_heads(self, weights: Tensor, dense: Tensor) -> Tensor:
        """Return what `weighted` does, without gradients."""
        (rows, columns), (heads, width) = self.shape, dense.shape[1:]
        if heads * len(self.columns) > _STACKED:
            parts = [
                multiply(self.offsets, self.columns, weights[:, head].contiguous(), dense[:, head])
                for head in range(heads)
            ]
            return torch.stack(parts, 1)
        # All heads in one product, as blocks of a diagonal matrix: a GPU takes as long for one.
        offsets, places = self._blocks(heads)
        flat = dense.transpose(0, 1).reshape(heads * columns, width)
        product = multiply(offsets, places, weights.T.reshape(-1), flat)
        return product.view(heads, rows, width).transpose(0, 1)

    def _blocks(self, heads: int) -> tuple[Tensor, Tensor]:
        """Return offsets and columns of this matrix repeated along a diagonal; computed once."""
        if heads == 1:
            return self.offsets, self.columns
        if heads not in self._stacked:
            with torch.inference_mode(False):
                steps = torch.arange(heads, device=self.device)[:, None]
                offsets = self.offsets[:-1] + steps * len(self.columns)  # [H, rows]
                ends = torch.full_like(self.offsets[:1], heads * len(self.columns))
                places = self.columns + steps * self.shape[1]  # [H, entries]
                self._stacked[heads] = torch.cat([offsets.reshape(-1), ends]), places.reshape(-1)
        return self._stacked[heads]


def pair_products(left: Tensor, right: Tensor, matrix: SparseMatrix) -> Tensor:
    """Return left_i . right_j for each entry (i, j) of a matrix, per head, without gradients.

    The factors are gathered for a part of the entries at a time: on the CPU as many as its cache
    holds, elsewhere as many as use the device well.

    Args:
        left: [rows, H, d].
        right: [columns, H, d].
        matrix: Its entries are the pairs; its values are not used.

    Returns:
        [entries, H] float32.
    """
    heads, width = left.shape[1:]
    left, right = (part.float().reshape(len(part), heads * width) for part in (left, right))
    rows, columns = matrix.rows(), matrix.columns
    out = torch.empty(len(rows), heads, device=left.device)
    step = max(1, _GATHERED.get(left.device.type, _GATHERED["cpu"]) // (heads * width))
    for start in range(0, len(rows), step):
        part = slice(start, start + step)
        products = left.index_select(0, rows[part]).mul_(right.index_select(0, columns[part]))
        torch.sum(products.view(-1, heads, width), -1, out=out[part])
    return out


def multiply(offsets: Tensor, columns: Tensor, values: Tensor, dense: Tensor) -> Tensor:
    """Return the product of compressed rows with [columns, F], without gradients.

    On the CPU each row is summed by one thread in the order of its entries, so that the result does
    not depend on the number of threads.
    """
    dense = dense.contiguous()
    if dense.device.type == "cpu":
        # Three times as fast as PyTorch's product of sparse and dense matrices.
        return F.embedding_bag(
            columns, dense, offsets, mode="sum", per_sample_weights=values, include_last_offset=True
        )
    size = (len(offsets) - 1, dense.shape[0])
    matrix = torch.sparse_csr_tensor(offsets, columns, values, size=size, check_invariants=False)
    with torch.autocast(dense.device.type, enabled=False):
        return matrix @ dense


class _Product(torch.autograd.Function):
    """The product A x, with the gradient A^T g; that of PyTorch sorts the entries every time."""

    @staticmethod
    def forward(ctx: Any, dense: Tensor, matrix: SparseMatrix) -> Tensor:
        ctx.matrix, ctx.dtype = matrix, dense.dtype
        # Half precision is too coarse for sums over many neighbours.
        return multiply(
            matrix.offsets, matrix.columns, matrix.values, dense.to(matrix.values.dtype)
        )

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        transpose = ctx.matrix.transposed()
        gradient = gradient.to(transpose.values.dtype)
        out = multiply(transpose.offsets, transpose.columns, transpose.values, gradient)
        return out.to(ctx.dtype), None


class _WeightedProduct(torch.autograd.Function):
    """A product whose values have gradients too, such as attention weights of edges."""

    @staticmethod
    def forward(ctx: Any, weights: Tensor, dense: Tensor, matrix: SparseMatrix) -> Tensor:
        ctx.matrix = matrix
        ctx.save_for_backward(weights, dense)
        return matrix.multiply_heads(weights.float(), dense.float())

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, None]:
        weights, dense = ctx.saved_tensors
        matrix: SparseMatrix = ctx.matrix
        gradient = gradient.float()
        weight_grad = pair_products(gradient, dense, matrix)
        values = weights.float()[matrix.transposing_order()]
        dense_grad = matrix.transposed().multiply_heads(values, gradient)
        return weight_grad.to(weights.dtype), dense_grad.to(dense.dtype), None


class _SegmentSoftmax(torch.autograd.Function):
    """The softmax over the entries of each row.

    PyTorch's own gradient of the sums over rows would sort the entries, or add them up in no fixed
    order. The factors are multiplied in the order in which it does that.
    """

    @staticmethod
    def forward(ctx: Any, scores: Tensor, matrix: SparseMatrix) -> Tensor:
        rows = matrix.rows()
        most = scores.new_full((matrix.shape[0], scores.shape[1]), -torch.inf)
        most.scatter_reduce_(0, rows[:, None].expand_as(scores), scores, "amax")
        powers = (scores - most[rows]).exp_()
        total = matrix.row_sums(powers)
        ctx.matrix = matrix
        ctx.save_for_backward(powers, total)
        return powers / total[rows]

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        powers, total = ctx.saved_tensors
        matrix: SparseMatrix = ctx.matrix
        rows = matrix.rows()
        each = total[rows]
        of_total = matrix.row_sums(-gradient * (powers / each / each))
        return (gradient / each + of_total[rows]) * powers, None


def segment_softmax(scores: Tensor, matrix: SparseMatrix) -> Tensor:
    """Return the softmax over the entries of each row, [entries, H] to [entries, H].

    Example:
        >>> import torch
        >>> matrix = SparseMatrix(torch.tensor([0, 2, 3]), torch.tensor([0, 1, 1]), torch.ones(3))
        >>> segment_softmax(torch.zeros(3, 1), matrix).flatten().tolist()
        [0.5, 0.5, 1.0]
    """
    weights: Tensor = _SegmentSoftmax.apply(scores.float(), matrix)  # type: ignore[no-untyped-call]
    return weights
