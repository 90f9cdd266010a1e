"""The product of a sparse matrix and a learned table, fast in both directions on the CPU."""

from __future__ import annotations

import importlib.util
from functools import cache
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor
from torch.autograd.function import once_differentiable

_HOST_DTYPES = (torch.float32, torch.float64)


def sparse_product(x: Tensor, values: Tensor, table: Tensor) -> Tensor:
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
        product: Tensor = _HostProduct.apply(offsets, columns, values, table)
        return product
    # A bag of rows of the table per row: unlike sparse matrix products it works for every dtype, on
    # every device, under autocast and within a CUDA graph.
    return _bags(offsets, columns, values, table)


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


@cache
def _has_scipy() -> bool:
    return importlib.util.find_spec("scipy") is not None


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
    @once_differentiable  # type: ignore[untyped-decorator]
    def backward(ctx: Any, grad: Tensor) -> tuple[None, None, None, Tensor]:
        import scipy.sparse

        offsets, columns, values = (part.numpy() for part in ctx.saved_tensors)
        shape = (len(offsets) - 1, ctx.num_columns)
        turned = scipy.sparse.csr_matrix((values, columns, offsets), shape=shape).tocsc()
        ends, rows, entries = map(torch.from_numpy, (turned.indptr, turned.indices, turned.data))
        return None, None, None, _bags(ends, rows, entries, grad)
