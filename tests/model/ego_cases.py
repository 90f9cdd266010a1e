"""Sparse rows of egos that the model's tests share."""

import warnings

import torch

CHANNELS, GROUPS = 11, 3
SETTINGS = {"ego_channels": CHANNELS, "ego_groups": GROUPS}


def ego_rows(egos, seed=0, dtype=torch.float32, kept=0.3):
    """Random sparse rows, CSR [egos * GROUPS, CHANNELS]; those of the first ego are empty."""
    draw = torch.Generator().manual_seed(seed)
    rows = torch.randn(egos * GROUPS, CHANNELS, generator=draw, dtype=torch.float64)
    rows[torch.rand(rows.shape, generator=draw) > kept] = 0
    rows[:GROUPS] = 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyTorch: this layout is in beta
        return rows.to(dtype).to_sparse_csr()
