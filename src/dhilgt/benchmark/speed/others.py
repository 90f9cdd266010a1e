"""What a size does not show, on a GPU: small batches, wide sparse features, rows from the host."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from dhilgt.benchmark.speed.cases import CHANNELS, CLASSES, Step, draw_batch
from dhilgt.benchmark.speed.timing import milliseconds
from dhilgt.loader import TokenLoader
from dhilgt.token_sampler import PackedRows, TokenSampler
from dhilgt.token_spec import PADDING, TokenSpec

_ROWS, _SLOTS, _WIDTH = 8192, 32, 128


def small(device: torch.device, rows: int = 534, nodes: int = 890) -> list[dict[str, Any]]:
    """Times a step and an evaluation of a small graph: kernel by kernel, and as a CUDA graph.

    Args:
        device: A GPU.
        rows: Rows of the batch.
        nodes: Distinct nodes.
    """
    lines = []
    for fill in (0.8, 0.6):
        batch = draw_batch(device, rows, _SLOTS, fill, nodes)
        found: dict[str, Any] = {"rows": rows, "fill": fill}
        for path, precision in (("reference", "fp32"), ("fused", "fp32"), ("fused", "bf16")):
            step = Step(path, precision, batch, _WIDTH)
            for name in ("train", "infer"):
                key = f"ms_{name} {path} {precision}"
                found[key] = milliseconds(getattr(step, name), device, 20)
                if step.records:
                    found[f"{key} graph"] = milliseconds(
                        getattr(step, f"{name}_graph"), device, 100
                    )
        lines.append(found)
    return lines


def sparse(device: torch.device, channels: int = 4814, stored: int = 6) -> list[dict[str, Any]]:
    """Times the input stage of wide sparse features, and the whole step around it.

    Args:
        device: A GPU.
        channels: Width of the features.
        stored: Features of a node that are not zero.
    """
    nodes = 41_554
    _, index, spd, classes = draw_batch(device, _ROWS, _SLOTS, 0.8, nodes, 1)
    drawn = torch.randint(0, channels, (nodes, stored), device=device)
    columns = drawn.sort(1).values.reshape(-1)
    offsets = torch.arange(0, nodes * stored + 1, stored, device=device)
    values = torch.ones(nodes * stored, device=device)
    x = torch.sparse_csr_tensor(offsets, columns, values, (nodes, channels), check_invariants=False)
    step = Step("fused", "bf16", (x, index, spd, classes), _WIDTH)

    def stage() -> None:
        step.model.zero_grad(set_to_none=True)
        with step.context():
            step.model.input(x).float().sum().backward()

    kernels, part = (milliseconds(work, device, 10) for work in (step.train, stage))
    whole = milliseconds(step.train_graph, device, 10)
    best = min(whole, kernels)
    return [{"ms_graph": whole, "ms_kernels": kernels, "ms_input": part, "share": part / best}]


class _DrawnRows(TokenSampler):
    """Rows that were drawn at random and are held in memory, as stored tokens are."""

    def __init__(self, nodes: int) -> None:
        self.spec, self.directed, self.num_nodes = TokenSpec(size=_SLOTS), False, nodes
        draw = np.random.default_rng(0)
        self._ids = draw.integers(0, nodes, (nodes, _SLOTS), dtype=np.int32)
        lengths = draw.integers(round(0.6 * _SLOTS), _SLOTS + 1, nodes)  # a fifth is padding
        self._ids[np.arange(_SLOTS) >= lengths[:, None]] = PADDING
        self._spd = draw.integers(1, 8, (nodes, self.spec.num_pairs(False)), dtype=np.uint8)

    def packed_rows(self, nodes: Any, copy: int = 0, *, update: Any = None) -> PackedRows:
        """Gives the rows of nodes, whichever copy is wanted."""
        return PackedRows(self._ids[nodes], self._spd[nodes], np.zeros((len(nodes), 2), np.uint16))


def streamed(device: torch.device, nodes: int = 200_000) -> list[dict[str, Any]]:
    """Times an epoch with rows and features on the device, and with one or both on the host.

    Args:
        device: A GPU.
        nodes: Egos of an epoch.
    """
    rows = _DrawnRows(nodes)
    features = np.random.default_rng(1).normal(size=(nodes, CHANNELS)).astype(np.float32)
    classes = np.random.default_rng(2).integers(0, CLASSES, nodes)
    found: dict[str, Any] = {"nodes": nodes}
    ways: dict[str, Any] = {"resident": True, "streamed": "features", "all_streamed": False}
    for name, resident in ways.items():
        loader = TokenLoader(
            rows,
            features,
            classes,
            batch_size=_ROWS,
            shuffle=True,
            device=device,
            resident=resident,
        )
        step = Step("fused", "bf16", draw_batch(device, _ROWS, _SLOTS), _WIDTH)
        step.train()

        def epoch(loader: TokenLoader = loader, step: Step = step) -> None:
            for batch in loader:
                assert batch.labels is not None
                assert batch.filled is not None
                x, index, spd = batch.inputs
                step.batch, step.filled = (x, index, spd, batch.labels), batch.filled
                step.train_graph()

        found[f"ms_{name}"] = milliseconds(epoch, device, 3) * 1e5 / nodes
    found["share"] = found["ms_resident"] / found["ms_streamed"]
    return [found]


OTHERS: dict[str, Callable[[torch.device], list[dict[str, Any]]]] = {
    "small": small,
    "sparse": sparse,
    "streamed": streamed,
}
"""Further measures by name; each gives lines."""
