"""Sparse matrices and their products with dense ones, with gradients, on any device."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812
from numpy.typing import NDArray
from torch import Tensor

# torch says once per process that this layout is in beta; it would only puzzle users.
warnings.filterwarnings("ignore", message="Sparse CSR tensor support")


class SparseMatrix:
    """A matrix in compressed rows that is multiplied with dense ones.

    Args:
        offsets: Where each row begins, [rows + 1] int64.
        columns: Column of each entry, [entries] int64.
        values: Value of each entry, [entries].
        num_columns: Width of the matrix.
        symmetric: Whether it equals its own transpose, which then need not be made.

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
        """Gives the matrix of three arrays, with values as float32."""
        return cls(
            torch.from_numpy(np.array(offsets, np.int64)),
            torch.from_numpy(np.array(columns, np.int64)),
            torch.from_numpy(np.array(values, np.float32)),
            num_columns,
            symmetric=symmetric,
        )

    # ---- what there is -------------------------------------------------------------------------

    @property
    def device(self) -> torch.device:
        """Where it lies."""
        return self.values.device

    def rows(self) -> Tensor:
        """Gives the row of each entry, [entries]; made once."""
        if self._rows is None:
            # What is kept while scoring must be of use to training.
            with torch.inference_mode(False):
                numbers = torch.arange(self.shape[0], device=self.device)
                self._rows = torch.repeat_interleave(numbers, self.offsets.diff())
        return self._rows

    def transposed(self) -> SparseMatrix:
        """Gives the transpose; made once."""
        if self._transposed is None:
            with torch.inference_mode(False):
                order = self.transposing_order()
                counts = torch.bincount(self.columns, minlength=self.shape[1])
                offsets = torch.zeros(self.shape[1] + 1, dtype=torch.int64, device=self.device)
                torch.cumsum(counts, 0, out=offsets[1:])
                other = SparseMatrix(offsets, self.rows()[order], self.values[order], self.shape[0])
            other._transposed = self
            self._transposed = other
        return self._transposed

    def transposing_order(self) -> Tensor:
        """Gives the place here of each entry of the transpose, [entries]."""
        if self._order is None:
            with torch.inference_mode(False):
                self._order = torch.argsort(self.columns, stable=True)
        return self._order

    def to_dense(self) -> Tensor:
        """Gives all entries, [rows, columns]."""
        out = torch.zeros(self.shape, dtype=self.values.dtype, device=self.device)
        return out.index_put((self.rows(), self.columns), self.values, accumulate=True)

    # ---- moving and multiplying ----------------------------------------------------------------

    def to(self, device: Any, non_blocking: bool = False) -> SparseMatrix:
        """Gives the matrix on a device, with its transpose where that was made."""
        if torch.device(device) == self.device:
            return self
        moved = self._alone_to(device, non_blocking)
        if self._transposed is self:
            moved._transposed = moved
        elif self._transposed is not None:
            moved._transposed = self._transposed._alone_to(device, non_blocking)
            moved._transposed._transposed = moved
        return moved

    def _alone_to(self, device: Any, non_blocking: bool) -> SparseMatrix:
        offsets, columns, values = (
            part.to(device, non_blocking=non_blocking)
            for part in (self.offsets, self.columns, self.values)
        )
        moved = SparseMatrix(offsets, columns, values, self.shape[1])
        if self._order is not None:
            moved._order = self._order.to(device, non_blocking=non_blocking)
        return moved

    def __matmul__(self, dense: Tensor) -> Tensor:
        """Gives the product with [columns, F], or with [columns, H, F] head by head."""
        if dense.shape[0] != self.shape[1]:
            raise ValueError(
                f"a matrix of {self.shape[1]} columns times one of {dense.shape[0]} rows; "
                "pass one row per column"
            )
        flat = dense.reshape(dense.shape[0], -1)
        product: Tensor = _Product.apply(flat, self)  # type: ignore[no-untyped-call]
        return product.reshape(self.shape[0], *dense.shape[1:])

    def weighted(self, weights: Tensor, dense: Tensor) -> Tensor:
        """Gives the product with other values in the places of this matrix, per head.

        Args:
            weights: The values, [entries, H]; gradients reach them.
            dense: [columns, H, F].

        Returns:
            [rows, H, F].
        """
        heads = [
            _WeightedProduct.apply(weights[:, head], dense[:, head], self)  # type: ignore[no-untyped-call]
            for head in range(weights.shape[1])
        ]
        return torch.stack(heads, 1)


def multiply(offsets: Tensor, columns: Tensor, values: Tensor, dense: Tensor) -> Tensor:
    """Gives the product of compressed rows with [columns, F], without gradients.

    Each row is summed by one thread in the order of its entries on the CPU, so the result does not
    depend on the number of threads.
    """
    dense = dense.contiguous()
    if dense.device.type == "cpu":
        # A bag of rows per row: three times as fast as torch's own product of sparse matrices.
        return F.embedding_bag(
            columns, dense, offsets, mode="sum", per_sample_weights=values, include_last_offset=True
        )
    size = (len(offsets) - 1, dense.shape[0])
    matrix = torch.sparse_csr_tensor(offsets, columns, values, size=size, check_invariants=False)
    with torch.autocast(dense.device.type, enabled=False):
        return matrix @ dense


class _Product(torch.autograd.Function):
    """The gradient of A x is A^T g: another product, where autograd's own would sort every time."""

    @staticmethod
    def forward(ctx: Any, dense: Tensor, matrix: SparseMatrix) -> Tensor:
        ctx.matrix, ctx.dtype = matrix, dense.dtype
        # Sums over many neighbours are not left to half precision.
        return multiply(
            matrix.offsets, matrix.columns, matrix.values, dense.to(matrix.values.dtype)
        )

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        turned = ctx.matrix.transposed()
        gradient = gradient.to(turned.values.dtype)
        found = multiply(turned.offsets, turned.columns, turned.values, gradient)
        return found.to(ctx.dtype), None


class _WeightedProduct(torch.autograd.Function):
    """A product whose values have gradients too: those of an attention over edges."""

    @staticmethod
    def forward(ctx: Any, weights: Tensor, dense: Tensor, matrix: SparseMatrix) -> Tensor:
        ctx.matrix = matrix
        ctx.save_for_backward(weights, dense)
        weights, dense = weights.float().contiguous(), dense.float()
        return multiply(matrix.offsets, matrix.columns, weights, dense)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, None]:
        weights, dense = ctx.saved_tensors
        matrix: SparseMatrix = ctx.matrix
        gradient = gradient.float()
        of_weights = (gradient[matrix.rows()] * dense.float()[matrix.columns]).sum(-1)
        order, turned = matrix.transposing_order(), matrix.transposed()
        weights_there = weights.float()[order]
        of_dense = multiply(turned.offsets, turned.columns, weights_there, gradient)
        return of_weights.to(weights.dtype), of_dense.to(dense.dtype), None


def segment_softmax(scores: Tensor, matrix: SparseMatrix) -> Tensor:
    """Gives softmax over the entries of each row, [entries, H] to [entries, H].

    Example:
        >>> import torch
        >>> matrix = SparseMatrix(torch.tensor([0, 2, 3]), torch.tensor([0, 1, 1]), torch.ones(3))
        >>> segment_softmax(torch.zeros(3, 1), matrix).flatten().tolist()
        [0.5, 0.5, 1.0]
    """
    rows = matrix.rows()
    scores = scores.float()
    most = torch.full((matrix.shape[0], scores.shape[1]), -torch.inf, device=scores.device)
    most.scatter_reduce_(0, rows[:, None].expand_as(scores), scores.detach(), "amax")
    powers = (scores - most[rows]).exp()
    ones = SparseMatrix(matrix.offsets, torch.arange(len(rows), device=rows.device),
                        torch.ones_like(matrix.values), len(rows))  # fmt: skip
    total = ones @ powers  # in the order of the entries, where a scatter has none
    return powers / total[rows]
