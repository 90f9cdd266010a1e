"""The product of a sparse matrix and a learned table, fast in both directions on the CPU."""

from __future__ import annotations

import importlib.util
from functools import cache
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor
from torch.autograd.function import once_differentiable

_HOST_DTYPES = (torch.float32, torch.float64)


class CsrParts(NamedTuple):
    """The arrays of a CSR matrix, for programs that cannot take a tensor of that layout."""

    offsets: Tensor
    columns: Tensor
    stored: Tensor
    num_columns: int

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return self.offsets.shape[0] - 1, self.num_columns

    @property
    def layout(self) -> torch.layout:
        """That of the tensor it stands for."""
        return torch.sparse_csr

    def crow_indices(self) -> Tensor:
        """Return where each row begins, and the end."""
        return self.offsets

    def col_indices(self) -> Tensor:
        """Return the column of each entry."""
        return self.columns

    def values(self) -> Tensor:
        """Return the value of each entry."""
        return self.stored


def sparse_product(x: Tensor | CsrParts, values: Tensor, table: Tensor) -> Tensor:
    """Return the product of a CSR matrix and a table, [n, F].

    Args:
        x: [n, T] CSR; its values are ignored.
        values: The values to use, [stored], of the type of `table`.
        table: [T, F].

    Example:
        >>> x = torch.eye(3).to_sparse_csr()
        >>> sparse_product(x, 2 * x.values(), torch.ones(3, 1)).tolist()
        [[2.0], [2.0], [2.0]]
    """
    offsets, columns = x.crow_indices(), x.col_indices()
    if _on_host(values, table):
        product: Tensor = _HostProduct.apply(offsets, columns, values, table)  # type: ignore[no-untyped-call]
        return product
    if torch.compiler.is_compiling():
        return _scattered(offsets, columns, values, table)
    # A bag of rows of the table per row: unlike sparse matrix products it works for every dtype, on
    # every device, under autocast and within a CUDA graph.
    return _bags(offsets, columns, values, table)


def symmetric_product(x: Tensor | CsrParts, table: Tensor) -> Tensor:
    """Return the product of a symmetric CSR matrix and a table, in the precision of its values.

    The gradient is the same product: no transpose is made. Half precision would be too coarse for
    sums over many neighbours. Each row is summed in the order of its entries, on every device, so
    that a seed gives the same bits again; cuSPARSE does not promise that.

    Args:
        x: [n, n] CSR.
        table: [n, F].

    Example:
        >>> x = torch.tensor([[0.0, 2.0], [2.0, 0.0]]).to_sparse_csr()
        >>> symmetric_product(x, torch.tensor([[1.0], [3.0]])).tolist()
        [[6.0], [2.0]]
    """
    offsets, columns, values = x.crow_indices(), x.col_indices(), x.values()
    if torch.compiler.is_compiling():
        return _scattered(offsets, columns, values, table)
    product: Tensor = _SymmetricProduct.apply(offsets, columns, values, table)  # type: ignore[no-untyped-call]
    return product


def grouped_product(x: Tensor | CsrParts, values: Tensor, table: Tensor, scale: Tensor) -> Tensor:
    """Return the product, scaled row by row and summed over each K rows in turn, [n / K, F].

    Args:
        x: As for `sparse_product`.
        values: As for `sparse_product`.
        table: As for `sparse_product`.
        scale: That of the first of K rows, of the second, and so on, [K].

    Example:
        >>> x = torch.eye(4).to_sparse_csr()
        >>> scale = torch.tensor([1.0, 10.0])
        >>> grouped_product(x, x.values(), torch.ones(4, 1), scale).tolist()
        [[11.0], [11.0]]
    """
    if _on_host(values, table):
        parts = x.crow_indices(), x.col_indices(), values
        product: Tensor = _HostGroups.apply(*parts, table, scale)  # type: ignore[no-untyped-call]
        return product
    return _group_sums(sparse_product(x, values, table), scale)


def _group_sums(rows: Tensor, scale: Tensor) -> Tensor:
    # Not a product of matrices: under autocast it would not have the table's precision.
    return (scale[:, None] * _grouped(rows, scale)).sum(1)


def _grouped(rows: Tensor, scale: Tensor) -> Tensor:
    groups = scale.shape[0]
    return rows.view(rows.shape[0] // groups, groups, rows.shape[1])  # [B, K, F]


def _bags(offsets: Tensor, columns: Tensor, values: Tensor, table: Tensor) -> Tensor:
    return F.embedding_bag(
        columns,
        table.contiguous(),
        offsets,
        mode="sum",
        per_sample_weights=values,
        include_last_offset=True,
    )


def _on_host(values: Tensor, table: Tensor) -> bool:
    return (
        table.device.type == "cpu"
        and table.dtype in _HOST_DTYPES
        and not values.requires_grad
        and not torch.compiler.is_compiling()
        and _has_scipy()
    )


def _scattered(offsets: Tensor, columns: Tensor, values: Tensor, table: Tensor) -> Tensor:
    """Return the product by operations that every format of programs has; bags become a loop."""
    # The row of an entry is the number of rows that end before it or at it.
    ends = torch.zeros(columns.shape[0] + 1, dtype=torch.int64, device=columns.device)
    ends = ends.scatter_add(0, offsets[1:], torch.ones_like(offsets[1:]))
    at = ends.cumsum(0)[:-1]
    rows = table.new_zeros(offsets.shape[0] - 1, table.shape[1])
    return rows.index_add(0, at, values[:, None] * table[columns])


@cache
def _has_scipy() -> bool:
    return importlib.util.find_spec("scipy") is not None


class _SymmetricProduct(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, offsets: Tensor, columns: Tensor, values: Tensor, table: Tensor
    ) -> Tensor:
        ctx.save_for_backward(offsets, columns, values)
        ctx.dtype = table.dtype
        return _bags(offsets, columns, values, table.to(values.dtype))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[None, None, None, Tensor]:
        offsets, columns, values = ctx.saved_tensors
        product = _bags(offsets, columns, values, grad.to(values.dtype))
        return None, None, None, product.to(ctx.dtype)


class _HostProduct(torch.autograd.Function):
    """The product by bags of rows, in the backward pass by those of the transposed matrix.

    PyTorch's own backward pass of bags sorts the entries and takes ten times as long. Both sum the
    rows in the same order: the gradients are equal to the last bit.
    """

    @staticmethod
    def forward(
        ctx: Any, offsets: Tensor, columns: Tensor, values: Tensor, table: Tensor
    ) -> Tensor:
        ctx.save_for_backward(offsets, columns, values)
        ctx.num_columns = len(table)
        return _bags(offsets, columns, values, table)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[None, None, None, Tensor]:
        offsets, columns, values = ctx.saved_tensors
        return None, None, None, _turned_product(offsets, columns, values, grad, ctx.num_columns)


class _HostGroups(torch.autograd.Function):
    """The sums over groups; in the backward pass, no gradient of each single row is made."""

    @staticmethod
    def forward(
        ctx: Any, offsets: Tensor, columns: Tensor, values: Tensor, table: Tensor, scale: Tensor
    ) -> Tensor:
        rows = _bags(offsets, columns, values, table)
        ctx.save_for_backward(offsets, columns, values, scale, rows)
        ctx.num_columns = len(table)
        return _group_sums(rows, scale)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[None, None, None, Tensor, Tensor]:
        offsets, columns, values, scale, rows = ctx.saved_tensors
        groups = len(scale)
        scale_grad = torch.einsum("bkf,bf->k", _grouped(rows, scale), grad)
        # A row for each group of rows, with the scales in its values.
        scales = torch.repeat_interleave(scale.repeat(len(grad)), offsets.diff())
        starts, values = offsets[::groups], values * scales
        table_grad = _turned_product(starts, columns, values, grad, ctx.num_columns)
        return None, None, None, table_grad, scale_grad


def _turned_product(
    offsets: Tensor, columns: Tensor, values: Tensor, rows: Tensor, num_columns: int
) -> Tensor:
    """Return the product of the transposed matrix and `rows`, [num_columns, F]."""
    import scipy.sparse

    parts = (values.numpy(), columns.numpy(), offsets.numpy())
    turned = scipy.sparse.csr_matrix(parts, shape=(len(offsets) - 1, num_columns)).tocsc()
    offsets, columns = torch.from_numpy(turned.indptr), torch.from_numpy(turned.indices)
    return _bags(offsets, columns, torch.from_numpy(turned.data), rows)
