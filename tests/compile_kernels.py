"""Compiles the kernels for a Hopper GPU, which needs none, and tells registers and spills.

`python -m tests.compile_kernels` compiles what a default model uses in bfloat16, `... --all` also
float32 and other sizes.
"""

import re
import subprocess
import sys
import tempfile
from pathlib import Path

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from dhilgt.fused import attention_kernels as attention
from dhilgt.fused import row_kernels as rows
from dhilgt.fused.launch import QUERY_BLOCKS

POINTERS = {
    "spd": "*u8",
    "real": "*u8",
    "codes": "*i16",
    "farthest": "*i32",
    "seed": "*i64",
    "beyond": "*i64",
    **dict.fromkeys(("table", "lse", "sums", "near", "weight", "bias"), "*fp32"),
}
NUMBERS = {
    **dict.fromkeys(("level", "stream", "rows", "count"), "i32"),
    **dict.fromkeys(("kept", "scale", "plain_scale", "eps"), "fp32"),
}
TOOLS = Path(triton.__file__).parent / "backends/nvidia/bin"


def compiled(kernel, kind, warps, fixed, others=()):
    """Compiles a kernel for tensors of a kind and gives its line of the report."""
    known = POINTERS | NUMBERS | dict(others)
    names = kernel.arg_names
    types = {name: "constexpr" if name in fixed else known.get(name, f"*{kind}") for name in names}
    values = {(names.index(name),): value for name, value in fixed.items()}
    source = ASTSource(kernel, types, values)
    made = triton.compile(source, GPUTarget("cuda", 90, 32), {"num_warps": warps})
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        Path(file.name).write_bytes(made.asm["cubin"])
        told = subprocess.run(
            [TOOLS / "cuobjdump", "-res-usage", file.name],
            capture_output=True,
            text=True,
            check=True,
        ).stdout
    registers, stack = re.search(r"REG:(\d+) STACK:(\d+)", told).groups()
    return f"{kernel.__name__} {kind} {warps} warps: {registers} registers, spilled {stack}"


def attention_reports(kind, slots, head_width):
    bytes_each = 2 if kind == "bf16" else 4
    block = max(16, 1 << (slots + 3).bit_length())
    queries, warps = QUERY_BLOCKS[bytes_each, block]
    shape = {
        "H": 8,
        "D": head_width,
        "CODES": 282,
        "BLOCK_I": queries,
        "BLOCK": block,
        "BLOCK_D": head_width,
        "DROP": False,
        "PRECISION": "ieee",
    }
    yield compiled(attention.attend_forward_kernel, kind, warps, shape | {"T": slots + 4})
    yield compiled(
        attention.attend_backward_kernel,
        kind,
        warps,
        shape | {"S": slots, "M": 4, "DISTANCES": True},
    )


def reports(everything):
    codes = {"S": 32, "M": 4, "BLOCK_I": 16, "BLOCK": 64, "DROP": True}
    yield compiled(attention.pair_codes_kernel, "bf16", 2, codes)
    for kind in ("bf16", "fp32") if everything else ("bf16",):
        for slots, width in [(32, 16), (12, 16), (64, 16), (32, 32)] if everything else [(32, 16)]:
            yield from attention_reports(kind, slots, width)
        blocks = {"F": 128, "BLOCK_R": 16, "BLOCK_F": 128}
        on = {"ADD": True, "DROP": True}
        yield compiled(rows.add_norm_forward_kernel, kind, 4, blocks | on)
        on |= {"CARRY": True, "AGAIN": True}
        yield compiled(rows.add_norm_backward_kernel, kind, 4, blocks | on)
        yield compiled(rows.gelu_forward_kernel, kind, 4, {"BLOCK": 1024})
        yield compiled(rows.gelu_backward_kernel, kind, 4, blocks)
        token = {"S": 32, "T": 36, "F": 128, "BLOCK": 64, "BLOCK_F": 128}
        yield compiled(rows.readout_forward_kernel, kind, 4, token, {"out": "*fp32"})
        yield compiled(rows.readout_backward_kernel, kind, 4, token, {"above": "*fp32"})


if __name__ == "__main__":
    for line in reports("--all" in sys.argv):
        print(line, flush=True)
