"""Compile the kernels for a Hopper GPU, which needs none, and report registers and spills.

`python -m tests.model.compile_kernels` compiles what a default model uses in bfloat16, with `--all`
also float32 and other sizes.
"""

import re
import subprocess
import sys
import tempfile
from pathlib import Path

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from dhilgt.model.kernels import attention as launch
from dhilgt.model.kernels import attention_backward_kernels as attention_back
from dhilgt.model.kernels import attention_kernels as attention
from dhilgt.model.kernels import block_kernels as blocks_
from dhilgt.model.kernels import gather_kernels as gathering
from dhilgt.model.kernels import pair_kernels as pairs
from dhilgt.model.kernels import row_kernels as rows
from dhilgt.model.kernels import row_ops
from dhilgt.model.kernels.attention import Blocks, choose_blocks, key_blocks, short_keys

POINTERS = {
    "spd": "*u8",
    "real": "*u8",
    "codes": "*i16",
    "farthest": "*i32",
    "seed": "*i64",
    "nodes": "*i32",
    "order": "*i64",
    **dict.fromkeys(("offsets", "places", "filled"), "*i32"),
    **dict.fromkeys(("table", "lse", "sums", "parts", "weight", "bias", "virtual"), "*fp32"),
}
NUMBERS = {
    **dict.fromkeys(
        ("level", "stream", "rows", "count", "first_row", "slots", "batch", "tokens"), "i32"
    ),
    **dict.fromkeys(("keep_scale", "scale", "plain_scale", "eps"), "fp32"),
}
NORMS = dict.fromkeys(("ffn_norm", "ffn_shift", "next_norm", "next_shift"), "*fp32")
NORMS |= {"first_stream": "i32", "second_stream": "i32"}
TOOLS = Path(triton.__file__).parent / "backends/nvidia/bin"


def compiled(kernel, kind, blocks, fixed, others=()):
    """Compile a kernel for tensors of a kind and return its line of the report."""
    known = POINTERS | NUMBERS | dict(others)
    names = kernel.arg_names
    types = {name: "constexpr" if name in fixed else known.get(name, f"*{kind}") for name in names}
    values = {(names.index(name),): value for name, value in fixed.items()}
    # PyTorch's tensors begin at multiples of 16 bytes, which the compiler makes use of.
    aligned = {
        (at,): [["tt.divisibility", 16]] for at, name in enumerate(names) if types[name][0] == "*"
    }
    source = ASTSource(kernel, types, values, aligned)
    options = {"num_warps": blocks.warps, "num_stages": 1, "maxnreg": blocks.registers}
    made = triton.compile(source, GPUTarget("cuda", 90, 32), options)
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        Path(file.name).write_bytes(made.asm["cubin"])
        usage = subprocess.run(
            [TOOLS / "cuobjdump", "-res-usage", file.name],
            capture_output=True,
            text=True,
            check=True,
        ).stdout
    registers, stack = re.search(r"REG:(\d+) STACK:(\d+)", usage).groups()
    return f"{kernel.__name__} {kind} {blocks.warps} warps: {registers} registers, spilled {stack}"


def attention_reports(kind, slots, head_width, packed):
    t, size = slots + 4, 2 if kind == "bf16" else 4
    keys, rest = key_blocks(t)
    shape = {
        "T": t,
        "H": 8,
        "D": head_width,
        "CODES": 282,
        "KEYS": keys,
        "REST": rest,
        "SHORT": short_keys(t),
        "PACKED": packed,
        "BLOCK_D": head_width,
        "DROP": False,
        "PRECISION": "ieee",
    }
    there, back = (choose_blocks(name, t, head_width, size) for name in ("forward", "backward"))
    fixed = shape | {"BLOCK_I": there.queries, "HEADS": min(8, there.heads)}
    yield compiled(attention.attend_forward_kernel, kind, there, fixed)
    fixed = shape | {"BLOCK_I": back.queries, "LEARNED": True}
    yield compiled(attention_back.attend_backward_kernel, kind, back, fixed)
    for virtual in (4, 2, 0):  # the codes of few virtual nodes are a smaller block
        kinds = launch.num_pairs(virtual)
        fixed = {"S": slots, "M": virtual, "H": 8, "WIDTH": 256 + kinds, "BLOCK_H": 16}
        fixed |= {"BLOCK_K": launch.SUMMED, "BLOCK_P": launch.NEAR, "PACKED": packed}
        fixed |= {"BLOCK_V": launch.power_of_two(kinds), "PRECISION": "ieee"}
        yield compiled(pairs.bias_gradients_kernel, kind, Blocks(0, launch.SUMMING_WARPS), fixed)


def reports(everything):
    yield compiled(pairs.offsets_kernel, "bf16", Blocks(0, 4), {"T": 36, "LEAST": 5, "BLOCK": 256})
    for kind in ("bf16", "fp32") if everything else ("bf16",):
        for slots, width in [(32, 16), (12, 16), (64, 16), (32, 32)] if everything else [(32, 16)]:
            for packed in (False, True):
                yield from attention_reports(kind, slots, width, packed)
        yield from row_reports(kind)
        for packed in (False, True):
            yield from token_reports(kind, packed)


def row_reports(kind):
    four = Blocks(0, 4)
    blocks = {"F": 128, "BLOCK_R": 8, "BLOCK_F": 128}
    on = {"ADD": True, "DROP": True}
    yield compiled(rows.add_norm_forward_kernel, kind, four, blocks | on)
    on |= {"CARRY": True, "RECOMPUTE": True}
    yield compiled(rows.add_norm_backward_kernel, kind, four, blocks | on)
    yield compiled(rows.gelu_forward_kernel, kind, four, {"BLOCK": 1024})
    yield compiled(rows.gelu_backward_kernel, kind, four, blocks)
    if kind == "bf16":
        on = {"DROP": True, "KEEP": True, "PRECISION": "ieee"}
        wide = {"F": 128, "INNER": 128, "BLOCK_F": 128, "BLOCK_INNER": 128}
        shape = on | wide | {"BLOCK_R": row_ops.ROWS}
        yield compiled(blocks_.block_kernel, kind, Blocks(0, row_ops.WARPS), shape, NORMS)


def token_reports(kind, packed):
    four = Blocks(0, 4)
    layout = {"PACKED": packed}
    codes = {"S": 32, "M": 4, "BLOCK_I": 16, "BLOCK": 64, "DROP": True}
    yield compiled(pairs.pair_codes_kernel, kind, Blocks(0, 2), codes | layout)
    token = {"S": 32, "T": 36, "F": 128, "BLOCK": 64, "BLOCK_F": 128} | layout
    yield compiled(rows.readout_forward_kernel, kind, four, token, {"out": "*fp32"})
    yield compiled(rows.readout_backward_kernel, kind, four, token, {"out_grad": "*fp32"})
    at = {"S": 32, "M": 4, "F": 128, "BLOCK_T": 64, "BLOCK_F": 128} | layout
    yield compiled(gathering.gather_kernel, kind, four, at, {"index": "*i64"})
    at = {"F": 128, "BLOCK": 32, "BLOCK_F": 128}
    fixed = at | layout | {"S": 32, "T": 36, "PRECISION": "ieee"}
    yield compiled(gathering.sum_blocks_kernel, kind, four, fixed)
    if not packed:
        yield compiled(gathering.join_blocks_kernel, kind, four, at | {"STEP": 16})


if __name__ == "__main__":
    for line in reports("--all" in sys.argv):
        print(line, flush=True)
