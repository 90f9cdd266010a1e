"""Speed of all implementations at the main size, of some at others, and special cases."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch

from dhilgt.benchmark.speed.cases import (
    CHANNELS,
    CLASSES,
    NODES,
    Step,
    draw_batch,
    machine,
    milliseconds,
    timed,
)
from dhilgt.errors import DhilgtError
from dhilgt.loader.loader import TokenLoader
from dhilgt.tokens.sampler import PackedRows, TokenSampler
from dhilgt.tokens.spec import PADDING, TokenSpec

PATHS, PRECISIONS = ("reference", "sdpa", "fused"), ("fp32", "bf16")


class Implementation(NamedTuple):
    """A path of attention and a precision."""

    path: str
    precision: str

    def __str__(self) -> str:
        return f"{self.path} {self.precision}"


@dataclass(frozen=True)
class BatchSizes:
    """The sizes to measure. The first value of each is the main size; others are varied alone.

    Attributes:
        rows: Rows of a batch.
        slots: Slots of a row, virtual nodes not counted.
        width: Channels.
        fill: Mean fraction of slots that hold a node.

    Example:
        >>> sizes = BatchSizes((8, 16), (4,), (16,), (0.8, 0.6))
        >>> [tuple(shape.values()) for shape in sizes.shapes()]
        [(8, 4, 16, 0.8), (16, 4, 16, 0.8), (8, 4, 16, 0.6)]
    """

    rows: Sequence[int]
    slots: Sequence[int]
    width: Sequence[int]
    fill: Sequence[float]

    def shapes(self) -> list[dict[str, Any]]:
        """Return the main size, then each of the others."""
        lists = {name: getattr(self, name) for name in ("rows", "slots", "width", "fill")}
        main = {name: values[0] for name, values in lists.items()}
        others = [main | {name: value} for name, values in lists.items() for value in values[1:]]
        return [main, *others]


def default_implementations(device: torch.device) -> list[Implementation]:
    """Return the implementations that a device has.

    Args:
        device: Where they run.
    """
    if device.type == "cuda":
        return parse_implementations("reference:fp32,sdpa:bf16,fused:fp32,fused:bf16", device)
    return parse_implementations("reference:fp32,sdpa:fp32", device)


def parse_implementations(text: str, device: torch.device) -> list[Implementation]:
    """Return the implementations that a list like ``reference:fp32,fused:bf16`` names.

    Args:
        text: The list.
        device: Where they run.

    Raises:
        DhilgtError: If a name is unknown, or an implementation cannot run there.

    Example:
        >>> list(map(str, parse_implementations("sdpa:bf16", torch.device("cpu"))))
        ['sdpa bf16']
    """
    implementations = []
    for name in text.split(","):
        path, _, precision = name.strip().partition(":")
        one = Implementation(path, precision or "fp32")
        if path not in PATHS or one.precision not in PRECISIONS:
            raise DhilgtError(
                f"{name.strip()!r} is no implementation of attention; name {', '.join(PATHS)}, "
                "each with :fp32 or :bf16"
            )
        if path == "fused" and device.type != "cuda":
            raise DhilgtError(f"fused runs on CUDA, not on {device.type}; leave it out")
        implementations.append(one)
    return implementations


def measure(
    sizes: BatchSizes,
    implementations: Sequence[Implementation],
    device: torch.device,
    repeats: int = 10,
) -> Iterator[dict[str, Any]]:
    """Yield a line of figures for each size and implementation: ms per 100,000 egos, and GiB.

    All implementations are measured at the main size and its other fills, the first and the last at
    further sizes. The last one, if it is fused, is also measured at the main size with padding left
    in and with layers computed twice.

    Args:
        sizes: What is varied.
        implementations: Of attention.
        device: Where.
        repeats: Steps that are timed.
    """
    main, about = sizes.shapes()[0], machine(device)
    first, last = implementations[0], implementations[-1]
    for shape in sizes.shapes():
        near = all(shape[name] == main[name] for name in ("rows", "slots", "width"))
        chosen = list(implementations) if near else list(dict.fromkeys((first, last)))
        extra: list[dict[str, Any]] = [{}]
        if near and last.path == "fused":
            extra = [{}, {"packing": "off"}]
            if shape == main:
                extra.append({"recompute": True})
        for one in chosen:
            for settings in extra if one == last else [{}]:
                line = figures(one, shape, settings, device, repeats)
                yield {"measure": "size", "main": shape == main, **line, "machine": about}


def figures(
    implementation: Implementation,
    shape: dict[str, Any],
    settings: dict[str, Any],
    device: torch.device,
    repeats: int,
) -> dict[str, Any]:
    """Time training and inference of one implementation at one size.

    The fused one is timed as the trainer runs it, as a CUDA graph, and kernel by kernel.
    """
    path, precision = implementation
    rows = shape["rows"]
    nodes = NODES if device.type == "cuda" else min(NODES, 4 * rows)
    batch = draw_batch(device, rows, shape["slots"], shape["fill"], nodes)
    step = Step(path, precision, batch, shape["width"], **settings)
    step.train()  # makes the optimizer's state, which is not to be counted
    step.optimizer.zero_grad(set_to_none=True)
    count = min(repeats, 5) if path == "reference" else repeats
    line: dict[str, Any] = {"way": str(implementation), **shape}
    line |= {"packing": "auto", "recompute": False} | settings
    for name in ("train", "infer"):
        ms, gib = timed(getattr(step, name), device, count)
        if step.records:
            line[f"ms_{name}_kernels"] = ms * 1e5 / rows
            ms, graph_gib = timed(getattr(step, f"{name}_graph"), device, count)
            gib = None if gib is None or graph_gib is None else max(gib, graph_gib)
        line[f"ms_{name}"], line[f"gib_{name}"] = ms * 1e5 / rows, gib
    line["path"] = step.model.attention_used
    return line


_ROWS, _SLOTS, _WIDTH = 8192, 32, 128


def small(device: torch.device, rows: int = 534, nodes: int = 890) -> list[dict[str, Any]]:
    """Time a step and an evaluation of a small graph: kernel by kernel, and as a CUDA graph."""
    lines = []
    for fill in (0.8, 0.6):
        batch = draw_batch(device, rows, _SLOTS, fill, nodes)
        line: dict[str, Any] = {"rows": rows, "fill": fill}
        for path, precision in (("reference", "fp32"), ("fused", "fp32"), ("fused", "bf16")):
            step = Step(path, precision, batch, _WIDTH)
            for name in ("train", "infer"):
                key = f"ms_{name} {path} {precision}"
                line[key] = milliseconds(getattr(step, name), device, 20)
                if step.records:
                    graph = getattr(step, f"{name}_graph")
                    line[f"{key} graph"] = milliseconds(graph, device, 100)
        lines.append(line)
    return lines


def sparse(device: torch.device, channels: int = 4814, stored: int = 6) -> list[dict[str, Any]]:
    """Time the input stage of wide sparse features, and the whole step around it."""
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
        """Return the rows of nodes; all copies are the same."""
        return PackedRows(self._ids[nodes], self._spd[nodes], np.zeros((len(nodes), 2), np.uint16))


def streamed(device: torch.device, nodes: int = 200_000) -> list[dict[str, Any]]:
    """Time an epoch with rows and features on the device, and with one or both on the host."""
    rows = _DrawnRows(nodes)
    features = np.random.default_rng(1).normal(size=(nodes, CHANNELS)).astype(np.float32)
    classes = np.random.default_rng(2).integers(0, CLASSES, nodes)
    line: dict[str, Any] = {"nodes": nodes}
    modes: dict[str, Any] = {"resident": True, "streamed": "features", "all_streamed": False}
    for name, resident in modes.items():
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

        line[f"ms_{name}"] = milliseconds(epoch, device, 3) * 1e5 / nodes
    line["share"] = line["ms_resident"] / line["ms_streamed"]
    return [line]


OTHERS: dict[str, Callable[[torch.device], list[dict[str, Any]]]] = {
    "small": small,
    "sparse": sparse,
    "streamed": streamed,
}
"""Further measures by name; each returns lines."""
