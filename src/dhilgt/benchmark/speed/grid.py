"""Every way at the main size, and the first and last of them at others."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch

from dhilgt.benchmark.speed.cases import NODES, Step, draw_batch
from dhilgt.benchmark.speed.timing import machine, timed
from dhilgt.errors import DhilgtError

PATHS, PRECISIONS = ("reference", "sdpa", "fused"), ("fp32", "bf16")


class Way(NamedTuple):
    """A path of attention and a precision."""

    path: str
    precision: str

    def __str__(self) -> str:
        return f"{self.path} {self.precision}"


@dataclass(frozen=True)
class Sizes:
    """What is varied. The first value of each is the main size; others come in alone.

    Attributes:
        rows: Rows of a batch.
        slots: Slots of a row, virtual nodes not counted.
        width: Channels.
        fill: Mean share of slots that hold a node.

    Example:
        >>> [tuple(shape.values()) for shape in Sizes((8, 16), (4,), (16,), (0.8, 0.6)).shapes()]
        [(8, 4, 16, 0.8), (16, 4, 16, 0.8), (8, 4, 16, 0.6)]
    """

    rows: Sequence[int]
    slots: Sequence[int]
    width: Sequence[int]
    fill: Sequence[float]

    def shapes(self) -> list[dict[str, Any]]:
        """Gives the main size, then each of the others."""
        lists = {name: getattr(self, name) for name in ("rows", "slots", "width", "fill")}
        main = {name: values[0] for name, values in lists.items()}
        others = [main | {name: value} for name, values in lists.items() for value in values[1:]]
        return [main, *others]


def default_ways(device: torch.device) -> list[Way]:
    """Gives the ways that a device has.

    Args:
        device: Where they run.
    """
    if device.type == "cuda":
        return parse_ways("reference:fp32,sdpa:bf16,fused:fp32,fused:bf16", device)
    return parse_ways("reference:fp32,sdpa:fp32", device)


def parse_ways(text: str, device: torch.device) -> list[Way]:
    """Gives the ways that a list like ``reference:fp32,fused:bf16`` names.

    Args:
        text: The list.
        device: Where they run.

    Raises:
        DhilgtError: If a name is unknown, or a way cannot run there.

    Example:
        >>> [str(way) for way in parse_ways("sdpa:bf16", torch.device("cpu"))]
        ['sdpa bf16']
    """
    ways = []
    for name in text.split(","):
        path, _, precision = name.strip().partition(":")
        way = Way(path, precision or "fp32")
        if path not in PATHS or way.precision not in PRECISIONS:
            raise DhilgtError(
                f"{name.strip()!r} is no way to compute; name {', '.join(PATHS)}, each with "
                ":fp32 or :bf16"
            )
        if path == "fused" and device.type != "cuda":
            raise DhilgtError(f"fused runs on CUDA, not on {device.type}; leave it out")
        ways.append(way)
    return ways


def measure(
    sizes: Sizes, ways: Sequence[Way], device: torch.device, repeats: int = 10
) -> Iterator[dict[str, Any]]:
    """Gives a line of figures for each size and way: ms per 100,000 egos, and GiB.

    All ways take the main size and its other fills; of further sizes the first and the last. The
    last way, where it is the fused one, is also measured at the main size with padding left in and
    with layers computed twice.

    Args:
        sizes: What is varied.
        ways: Of computing.
        device: Where.
        repeats: Steps that are timed.
    """
    main, told = sizes.shapes()[0], machine(device)
    for shape in sizes.shapes():
        near = all(shape[name] == main[name] for name in ("rows", "slots", "width"))
        chosen = list(ways) if near else list(dict.fromkeys((ways[0], ways[-1])))
        extra: list[dict[str, Any]] = [{}]
        if near and ways[-1].path == "fused":
            extra = [{}, {"packing": "off"}]
            if shape == main:
                extra.append({"recompute": True})
        for way in chosen:
            for settings in extra if way == ways[-1] else [{}]:
                found = figures(way, shape, settings, device, repeats)
                yield {"measure": "size", "main": shape == main, **found, "machine": told}


def figures(
    way: Way, shape: dict[str, Any], settings: dict[str, Any], device: torch.device, repeats: int
) -> dict[str, Any]:
    """Times training and inference of one way at one size.

    The fused way is timed as the trainer runs it, as a CUDA graph, and kernel by kernel.

    Args:
        way: Of computing.
        shape: See `Sizes`.
        settings: For `Step`.
        device: Where.
        repeats: Steps that are timed.
    """
    rows = shape["rows"]
    nodes = NODES if device.type == "cuda" else min(NODES, 4 * rows)
    batch = draw_batch(device, rows, shape["slots"], shape["fill"], nodes)
    step = Step(way.path, way.precision, batch, shape["width"], **settings)
    step.train()  # the optimizer's state is not the step's
    step.optimizer.zero_grad(set_to_none=True)
    count = min(repeats, 5) if way.path == "reference" else repeats
    found: dict[str, Any] = {"way": str(way), **shape, "packing": "auto", "recompute": False}
    found |= settings
    for name in ("train", "infer"):
        taken, held = timed(getattr(step, name), device, count)
        if step.records:
            found[f"ms_{name}_kernels"] = taken * 1e5 / rows
            taken, more = timed(getattr(step, f"{name}_graph"), device, count)
            held = None if held is None or more is None else max(held, more)
        found[f"ms_{name}"], found[f"gib_{name}"] = taken * 1e5 / rows, held
    found["path"] = step.model.attention_used
    return found
