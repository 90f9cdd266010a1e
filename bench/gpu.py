"""Training and inference on a GPU: reference, SDPA and fused kernels in one run.

`make bench-gpu` prints the table and writes `gpu.jsonl`, `gpu-table.md` and `gpu-speed.png`.
`python -m bench.gpu --only headline --profile` shows where the time of a step goes, `--tune` tries
block sizes of the attention kernels.
"""

import argparse
import contextlib
import json
import statistics
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.nn.functional import cross_entropy

from dhilgt.fused.graphs import ForwardGraphs, StepGraphs
from dhilgt.loader import TokenLoader
from dhilgt.model import DHILGT
from dhilgt.schedule import build_optimizer
from dhilgt.token_sampler import PackedRows, TokenSampler
from dhilgt.token_spec import TokenSpec
from dhilgt.train_config import TrainConfig

CHANNELS, CLASSES, BATCH, SLOTS, WIDTH = 128, 10, 8192, 32, 128
NODES = 50_000
CUDA = torch.device("cuda")
WAYS = {
    "reference fp32": ("reference", "fp32"),
    "sdpa bf16": ("sdpa", "bf16"),
    "fused fp32": ("fused", "fp32"),
    "fused bf16": ("fused", "bf16"),
}
Batch = tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]


def milliseconds(work: Callable[[], Any], repeats: int = 10) -> float:
    """Gives the median time of a call on the device, after three to warm up."""
    for _ in range(3):
        work()
    found = []
    for _ in range(repeats):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        work()
        end.record()
        end.synchronize()
        found.append(start.elapsed_time(end))
    return statistics.median(found)


def batch_of(rows: int, slots: int, nodes: int, channels: int = CHANNELS) -> Batch:
    """Draws a batch: a fifth of the slots is padding, distances go from 1 to 7."""
    draw = torch.Generator(CUDA).manual_seed(0)
    index = torch.randint(0, nodes, (rows, slots), device=CUDA, generator=draw)
    index[torch.rand(index.shape, device=CUDA, generator=draw) < 0.2] = -1
    index[:, 0] = torch.arange(rows, device=CUDA) % nodes
    spd = torch.randint(1, 8, (rows, slots, slots), device=CUDA, generator=draw)
    upper = spd.triu(1)
    spd = (upper + upper.transpose(1, 2)).to(torch.uint8)
    x = torch.randn(nodes, channels, device=CUDA, generator=draw)
    return x, index, spd, torch.randint(0, CLASSES, (rows,), device=CUDA, generator=draw)


class Step:
    """A model with its optimizer and what it does with a batch."""

    def __init__(self, way: str, batch: Batch, width: int = WIDTH, recompute: bool = False) -> None:
        path, self.precision = WAYS[way]
        torch.manual_seed(0)
        self.model = DHILGT(batch[0].shape[1], width, CLASSES, attention=path).to(CUDA).train()
        self.model.recompute = recompute
        self.optimizer = build_optimizer(self.model, TrainConfig())
        self.batch = batch
        self.graphs = StepGraphs(self.model, self.optimizer, None, self.context)
        self.forward = ForwardGraphs(self.model, self.context)

    def context(self) -> Any:
        """Gives the context of a forward pass."""
        if self.precision == "fp32":
            return contextlib.nullcontext()
        return torch.autocast("cuda", dtype=torch.bfloat16)

    def train(self) -> None:
        """Takes a training step."""
        self.model.train()
        self.optimizer.zero_grad(set_to_none=True)
        with self.context():
            logits = self.model(*self.batch[:3])
        cross_entropy(logits.float(), self.batch[3]).backward()
        self.optimizer.step()

    def infer(self) -> None:
        """Gives logits."""
        self.model.eval()
        with torch.inference_mode(), self.context():
            self.model(*self.batch[:3])

    def train_graph(self) -> None:
        """Takes a training step as a CUDA graph."""
        self.model.train()
        if self.graphs.step(self.batch[:3], self.batch[3]) is None:
            raise RuntimeError("the step was not recorded")

    def infer_graph(self) -> None:
        """Gives logits as a CUDA graph."""
        self.model.eval()
        self.forward(*self.batch[:3])


def speed(way: str, rows: int, slots: int, width: int, recompute: bool = False) -> dict[str, Any]:
    """Times training and inference; memory is what they take beside model and batch.

    The fused way is timed as the trainer runs it, as a CUDA graph, and kernel by kernel.
    """
    step = Step(way, batch_of(rows, slots, NODES), width, recompute)
    step.train()  # the optimizer's state is not the step's
    step.optimizer.zero_grad(set_to_none=True)
    torch.cuda.empty_cache()
    held = torch.cuda.memory_allocated()
    found = {"way": way, "rows": rows, "slots": slots, "width": width, "recompute": recompute}
    fused = way.startswith("fused")
    names = ("train", "infer", "train_graph", "infer_graph") if fused else ("train", "infer")
    for name in names:
        torch.cuda.reset_peak_memory_stats()
        taken = milliseconds(getattr(step, name), 5 if way.startswith("reference") else 10)
        found[f"ms_{name}"] = taken * 1e5 / rows
        found[f"gib_{name}"] = (torch.cuda.max_memory_allocated() - held) / 2**30
    for name in ("train", "infer") if fused else ():
        found[f"ms_{name}_kernels"] = found[f"ms_{name}"]
        found[f"ms_{name}"] = found.pop(f"ms_{name}_graph")
        found[f"gib_{name}"] = max(found[f"gib_{name}"], found.pop(f"gib_{name}_graph"))
    found["path"] = step.model.attention_used
    return found


def small(rows: int = 534, nodes: int = 890) -> dict[str, Any]:
    """Times a step and an evaluation of a small graph: kernel by kernel, and as a graph."""
    batch = batch_of(rows, SLOTS, nodes)
    found: dict[str, Any] = {"rows": rows}
    for way in ("reference fp32", "fused fp32", "fused bf16"):
        step = Step(way, batch)
        for name in ("train", "infer"):
            found[f"{name} {way}"] = milliseconds(getattr(step, name), 30)
            if way.startswith("fused"):
                found[f"{name} {way} graph"] = milliseconds(getattr(step, f"{name}_graph"), 100)
    return found


def sparse(nodes: int = 41_554, channels: int = 4814, stored: int = 6) -> dict[str, Any]:
    """Times the input stage of wide sparse features and the whole step around it."""
    rows = BATCH
    _, index, spd, classes = batch_of(rows, SLOTS, nodes, 1)
    columns = torch.randint(0, channels, (nodes, stored), device=CUDA).sort(1).values.reshape(-1)
    offsets = torch.arange(0, nodes * stored + 1, stored, device=CUDA)
    values = torch.ones(nodes * stored, device=CUDA)
    x = torch.sparse_csr_tensor(offsets, columns, values, (nodes, channels), check_invariants=False)
    step = Step("fused bf16", (x, index, spd, classes))

    def stage() -> None:
        step.model.zero_grad(set_to_none=True)
        with step.context():
            step.model.input(x).float().sum().backward()

    kernels, part = milliseconds(step.train), milliseconds(stage)
    whole = milliseconds(step.train_graph)
    return {"ms_step": whole, "ms_step_kernels": kernels, "ms_input": part, "share": part / whole}


class DrawnRows(TokenSampler):
    """Rows that were drawn at random and are held in memory, as stored tokens are."""

    def __init__(self, nodes: int) -> None:
        self.spec, self.directed, self.num_nodes = TokenSpec(size=SLOTS), False, nodes
        draw = np.random.default_rng(0)
        self._ids = draw.integers(0, nodes, (nodes, SLOTS), dtype=np.int32)
        pairs = self.spec.num_pairs(False)
        self._spd = draw.integers(1, 8, (nodes, pairs), dtype=np.uint8)

    def packed_rows(self, nodes: Any, copy: int = 0) -> PackedRows:
        """Gives the rows of nodes."""
        return PackedRows(self._ids[nodes], self._spd[nodes], np.zeros((len(nodes), 2), np.uint16))


def streamed(nodes: int = 200_000) -> dict[str, Any]:
    """Times an epoch with rows and features on the device, and with one or both on the host."""
    rows = DrawnRows(nodes)
    features = np.random.default_rng(1).normal(size=(nodes, CHANNELS)).astype(np.float32)
    classes = np.random.default_rng(2).integers(0, CLASSES, nodes)
    found: dict[str, Any] = {"nodes": nodes}
    ways: dict[str, Any] = {"resident": True, "streamed": "features", "all streamed": False}
    for name, resident in ways.items():
        loader = TokenLoader(
            rows,
            features,
            classes,
            batch_size=BATCH,
            shuffle=True,
            device="cuda",
            resident=resident,
        )
        step = Step("fused bf16", batch_of(BATCH, SLOTS, NODES))

        def epoch(loader: TokenLoader = loader, step: Step = step) -> None:
            for batch in loader:
                assert batch.labels is not None
                step.batch = (*batch.inputs, batch.labels)
                step.train_graph()

        step.train()
        found[f"ms_{name}"] = milliseconds(epoch, 3) * 1e5 / nodes
    found["ratio"] = found["ms_resident"] / found["ms_streamed"]
    return found


def profile(way: str, name: str) -> None:
    """Prints the kernels that take the most time of a step."""
    step = Step(way, batch_of(BATCH, SLOTS, NODES))
    work = getattr(step, name)
    for _ in range(3):
        work()
    with torch.profiler.profile() as seen:
        for _ in range(3):
            work()
        torch.cuda.synchronize()
    print(f"\n{way}, {name}, kernels of three steps")
    print(seen.key_averages().table(sort_by="self_cuda_time_total", row_limit=15))


def tune() -> None:
    """Prints the time of attention at the main size for several block sizes."""
    from dhilgt.fused import launch
    from dhilgt.fused.launch import Blocks

    seed = torch.zeros(1, dtype=torch.int64, device=CUDA)
    none = launch.Draw(seed, 1, 0.0)
    _, index, spd, _ = batch_of(BATCH, SLOTS, NODES)
    codes = launch.make_codes(spd, index >= 0, 4, launch.Draw(seed, 0, 0.1))
    table = launch.flat_tables([torch.randn(282, 8, device=CUDA)])[0]
    for dtype in (torch.bfloat16, torch.float32):
        qkv = torch.randn(BATCH, SLOTS + 4, 3 * WIDTH, device=CUDA, dtype=dtype)
        size = qkv.element_size()
        out, lse = launch.attend_forward(qkv, codes, table, 8, none)
        ways = {
            "forward": partial(launch.attend_forward, qkv, codes, table, 8, none),
            "backward": partial(launch.attend_backward, out, qkv, codes, table, lse, none),
        }
        for way, work in ways.items():
            for queries, warps in ((16, 1), (32, 1), (32, 2), (64, 2), (64, 4)):
                for heads in (8, 2) if way == "forward" else (1,):
                    for registers in (None, 128):
                        blocks = Blocks(queries, warps, heads, registers)
                        launch.TUNED[way, size] = blocks
                        print(f"{dtype} {way} {blocks}: {milliseconds(work, 5):.3f} ms")
                        launch.TUNED.clear()
            print(f"{dtype} {way} as used: {milliseconds(work):.3f} ms", flush=True)


def headline() -> Iterator[tuple[str, dict[str, Any]]]:
    """Every way at the main size."""
    for way in WAYS:
        yield "headline", speed(way, BATCH, SLOTS, WIDTH)
    yield "headline", speed("fused bf16", BATCH, SLOTS, WIDTH, recompute=True)


def sizes() -> Iterator[tuple[str, dict[str, Any]]]:
    """The fused way and the reference by batch, slots and width."""
    shapes = [(1024, SLOTS, WIDTH), (32768, SLOTS, WIDTH), (BATCH, 12, WIDTH), (BATCH, 60, WIDTH)]
    shapes += [(BATCH, SLOTS, 64), (BATCH, SLOTS, 256)]
    for shape in shapes:
        for way in ("reference fp32", "fused bf16"):
            yield "sizes", speed(way, *shape)


def others() -> Iterator[tuple[str, dict[str, Any]]]:
    """Small graphs, sparse features, streamed rows."""
    yield "small", small()
    yield "sparse", sparse()
    yield "streamed", streamed()


PARTS = {"headline": headline, "sizes": sizes, "others": others}


def table(found: list[dict[str, Any]]) -> list[str]:
    """Gives the lines of the table: what, aim, measured."""
    head = {f["way"]: f for f in found if f["measure"] == "headline" and not f["recompute"]}
    lines = ["| what | aim | measured |", "|---|---|---|"]
    if "fused bf16" in head and "reference fp32" in head:
        ours, plain = head["fused bf16"], head["reference fp32"]
        for name, text in (("train", "training"), ("infer", "inference")):
            ratio = plain[f"ms_{name}"] / ours[f"ms_{name}"]
            lines.append(
                f"| {text}, batch {BATCH:,}, s = {SLOTS} + 4, against the eager fp32 reference | "
                f"10 x | {ratio:.1f} x ({plain[f'ms_{name}']:.0f} ms / {ours[f'ms_{name}']:.1f} ms "
                "per 100 K egos) |"
            )
        lines.append(f"| peak memory, training | 2.5 GiB | {ours['gib_train']:.2f} GiB |")
    for f in found:
        if f["measure"] == "headline" and f["recompute"]:
            lines.append(
                f"| the same, computing layers twice | | {f['gib_train']:.2f} GiB, "
                f"{f['ms_train']:.1f} ms |"
            )
        elif f["measure"] == "small":
            for name, text, aim in (("train", "a step", "1.5 ms"), ("infer", "evaluation", "")):
                best = f[f"{name} fused bf16 graph"]
                slow, plain = f[f"{name} fused bf16"], f[f"{name} reference fp32"]
                lines.append(
                    f"| {text} of {f['rows']} nodes | {aim} | {best:.2f} ms "
                    f"(kernel by kernel {slow:.1f}, reference {plain:.1f}) |"
                )
        elif f["measure"] == "sparse":
            lines.append(
                f"| input stage of 4,814 sparse features | 25 % | {100 * f['share']:.0f} % |"
            )
        elif f["measure"] == "streamed":
            lines.append(f"| streamed against resident rows | 80 % | {100 * f['ratio']:.0f} % |")
    return lines


def draw(found: list[dict[str, Any]], path: Path) -> None:
    """Plots the time of every way at the main size."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    from matplotlib.ticker import NullFormatter

    chosen = [f for f in found if f["measure"] == "headline" and not f["recompute"]]
    if not chosen:
        return
    figure, axes = plt.subplots(1, 2, figsize=(9, 3))
    for axis, name in zip(axes, ("train", "infer"), strict=True):
        bars = axis.barh([f["way"] for f in chosen], [f[f"ms_{name}"] for f in chosen])
        axis.bar_label(bars, fmt="%.0f")
        axis.set_title(f"{name}: ms per 100 K egos")
        axis.set_xscale("log")
        axis.set_xlim(min(f[f"ms_{name}"] for f in chosen) / 2, 3000)
        axis.xaxis.set_minor_formatter(NullFormatter())
        axis.invert_yaxis()
    figure.tight_layout()
    figure.savefig(path, dpi=150)


def main() -> None:
    """Measures, writes and prints."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--results", type=Path, default=Path("bench-results"))
    parser.add_argument("--only", choices=PARTS, action="append")
    parser.add_argument("--profile", action="store_true")
    parser.add_argument("--tune", action="store_true")
    options = parser.parse_args()
    if not torch.cuda.is_available():
        raise SystemExit("no GPU is there; this benchmark needs one")
    options.results.mkdir(parents=True, exist_ok=True)
    if options.tune:
        tune()
    machine = {"gpu": torch.cuda.get_device_name(), "torch": torch.__version__}
    found: list[dict[str, Any]] = []
    with (options.results / "gpu.jsonl").open("w", encoding="utf-8") as file:
        for part in options.only or PARTS:
            for measure, figures in PARTS[part]():
                found.append({"measure": measure, **figures})
                line = json.dumps({**found[-1], "machine": machine})
                print(line, flush=True)
                file.write(line + "\n")
                file.flush()
                torch.cuda.empty_cache()
    lines = table(found)
    (options.results / "gpu-table.md").write_text("\n".join(lines) + "\n", encoding="utf-8")
    with contextlib.suppress(ImportError):
        draw(found, options.results / "gpu-speed.png")
    if options.profile:
        for name in ("train", "infer"):
            for way in ("sdpa bf16", "fused bf16"):
                profile(way, name)
    print("\n".join(lines))


if __name__ == "__main__":
    main()
