"""Batches as plain values."""

import torch


def plain(batch):
    """Everything in a batch as lists, to compare."""
    x, index, spd = batch.inputs
    labels = None if batch.labels is None else batch.labels.tolist()
    assert (index.dtype, spd.dtype) == (torch.int64, torch.uint8)
    dense = x.to_dense() if x.layout == torch.sparse_csr else x
    return dense.tolist(), index.tolist(), spd.tolist(), labels, batch.nodes.tolist()
