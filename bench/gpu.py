"""Where the time of a step on a GPU goes, and block sizes of the attention kernels.

`dhilgt bench speed` measures; `python -m bench.gpu profile` shows the kernels of a step, `... tune`
tries block sizes, `... programs` numbers of programs for the sums of a small step.
"""

import argparse
import statistics
from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from dhilgt.benchmark.speed.cases import Step, draw_batch, milliseconds

BATCH, SLOTS, WIDTH = 8192, 32, 128
CUDA = torch.device("cuda")


def profile(rows: int, nodes: int, fill: float, name: str, shown: int = 40) -> None:
    """Print the kernels of a recorded step: how many, and which take the most time."""
    step = Step("fused", "bf16", draw_batch(CUDA, rows, SLOTS, fill, nodes), WIDTH)
    work = getattr(step, name)
    for _ in range(4):
        work()
    torch.cuda.synchronize()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as seen:
        work()
        torch.cuda.synchronize()
    taken: dict[str, tuple[float, int]] = {}
    for event in seen.events():
        total, count = taken.get(event.name, (0.0, 0))
        taken[event.name] = (total + event.device_time_total, count + 1)
    whole, kernels = (sum(values[at] for values in taken.values()) for at in (0, 1))
    print(f"\n{name}, {rows} rows, {fill:.0%} filled: {kernels} kernels, {whole / 1000:.3f} ms")
    for kernel, (total, count) in sorted(taken.items(), key=lambda one: -one[1][0])[:shown]:
        print(f"{total:9.1f} us {count:4d} x  {kernel[:110]}")


def tune() -> None:
    """Print the time of attention at the main size for several block sizes, packed and not."""
    from dhilgt.model.kernels import attention
    from dhilgt.model.kernels.attention import Blocks
    from dhilgt.model.kernels.packing import pack

    seed = torch.zeros(1, dtype=torch.int64, device=CUDA)
    none = attention.Draw(seed, 1, 0.0)
    batch = draw_batch(CUDA, BATCH, SLOTS, 0.6)
    model = Step("fused", "bf16", batch, WIDTH).model
    _, index, spd, _ = batch
    packing = pack(model, index, index >= 0)
    assert packing is not None
    table = attention.flat_tables([torch.randn(282, 8, device=CUDA)])[0]
    for offsets, rows in ((None, BATCH * (SLOTS + 4)), (packing.offsets, packing.rows)):
        codes = attention.make_codes(spd, index >= 0, 4, attention.Draw(seed, 0, 0.1), offsets)
        qkv = torch.randn(rows, 3 * WIDTH, device=CUDA, dtype=torch.bfloat16)
        out, lse = attention.attend_forward(qkv, codes, table, 8, none)
        passes: dict[str, Callable[[], Any]] = {
            "forward": partial(attention.attend_forward, qkv, codes, table, 8, none),
            "backward": partial(attention.attend_backward, out, qkv, codes, table, lse, none),
        }
        for direction, work in passes.items():
            what = f"{'padded' if offsets is None else 'packed'} {direction}"
            print(f"{what}, as used: {milliseconds(work, CUDA, 10):.3f} ms", flush=True)
            for queries, warps in ((16, 1), (32, 1), (32, 2)):
                for heads in (8, 2) if direction == "forward" else (1,):
                    for registers in (None, 128):
                        blocks = Blocks(queries, warps, heads, registers)
                        attention.TUNED[direction, qkv.element_size()] = blocks
                        print(f"{what}, {blocks}: {milliseconds(work, CUDA, 5):.3f} ms", flush=True)
                        attention.TUNED.clear()


def programs(rows: int = 534, nodes: int = 890, rounds: int = 3) -> None:
    """Print the time of a small step by the number of programs with sums, measured in turns."""
    from dhilgt.model.kernels import attention, row_ops

    usual, fewest = attention._chunks, row_ops._FEWEST

    def fewer(divisor: int, *arguments: Any) -> attention._Chunks:
        chunks = usual(*arguments)
        return chunks._replace(summing=max(1, chunks.summing // divisor))

    for fill in (0.8, 0.6):
        batch = draw_batch(CUDA, rows, SLOTS, fill, nodes)
        steps = {}
        for divisor in (1, 2, 4):
            for few in (fewest, fewest // 2, fewest // 4):
                attention._chunks, row_ops._FEWEST = partial(fewer, divisor), few
                steps[divisor, few] = Step("fused", "bf16", batch, WIDTH)
                milliseconds(steps[divisor, few].train, CUDA, 3)
                steps[divisor, few].train_graph()  # records with these numbers
        attention._chunks, row_ops._FEWEST = usual, fewest
        times: dict[tuple[int, int], list[float]] = {setting: [] for setting in steps}
        for _ in range(rounds):
            for setting, step in steps.items():
                times[setting].append(milliseconds(step.train_graph, CUDA, 100))
        for (divisor, few), runs in times.items():
            ms = statistics.median(runs)
            print(f"{fill:.0%} filled, a program per {divisor} rows, {few} at least: {ms:.3f} ms")


def main() -> None:
    """Run the part named on the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("profile", "tune", "programs"))
    options = parser.parse_args()
    if not torch.cuda.is_available():
        raise SystemExit("this needs a GPU, and there is none")
    if options.what != "profile":
        tune() if options.what == "tune" else programs()
        return
    for name in ("train_graph", "infer_graph"):
        profile(BATCH, 50_000, 0.6, name)
        profile(534, 890, 0.6, name)


if __name__ == "__main__":
    main()
