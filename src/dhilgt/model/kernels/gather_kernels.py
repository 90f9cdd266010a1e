"""Gather node rows into slots, and sum the gradients of all slots of a node.

The backward pass goes through the slots sorted by node, in blocks of equal length, because a hub is
in most rows of a batch and most nodes are in few. The sum of a node whose slots lie in one block is
final; other sums are added up from the partial sums of blocks, in a fixed order.
"""

import triton
import triton.language as tl

from dhilgt.model.kernels.attention_kernels import product, token_rows


@triton.jit
def gather_kernel(
    h,  # [n, F]
    index,  # [B, S]: row of h, or -1
    virtual,  # [M, F]
    offsets,  # see `packing`
    out,  # [R, F]
    places,  # [B, S] int32, out: the row of each slot, where rows are packed
    batch,
    S: tl.constexpr,
    M: tl.constexpr,
    F: tl.constexpr,
    BLOCK_T: tl.constexpr,
    BLOCK_F: tl.constexpr,
    PACKED: tl.constexpr,
):
    T: tl.constexpr = S + M
    row = tl.program_id(0).to(tl.int64)
    channel = tl.program_id(1) * BLOCK_F + tl.arange(0, BLOCK_F)
    slot = tl.arange(0, BLOCK_T)
    # A filler has no slots and no virtual nodes, but its rows are set to zero.
    slots = tl.where(row < batch, S, 0)
    last_place = tl.where(row < batch, T, 0)
    node = tl.load(index + row * S + slot, mask=slot < slots, other=-1).to(tl.int64)
    real = (node >= 0)[:, None] & (channel < F)[None, :]
    value = tl.load(h + node[:, None] * F + channel[None, :], mask=real, other=0.0)
    if M > 0:
        is_virtual = ((slot >= S) & (slot < last_place))[:, None] & (channel < F)[None, :]
        at = virtual + (slot - S)[:, None] * F + channel[None, :]
        value = tl.where(is_virtual, tl.load(at, mask=is_virtual, other=0.0).to(value.dtype), value)
    first, length = token_rows(offsets, row, T, PACKED)
    used = slot < T
    place = slot
    if PACKED:
        used = used & ((node >= 0) | (slot == 0) | (slot >= slots))
        place = tl.cumsum(used.to(tl.int32), 0) - 1
        used = used & (place < length)
        if tl.program_id(1) == 0:
            own = places + row * S + slot
            tl.store(own, (first + place).to(tl.int32), mask=used & (slot < slots))
    inside = used[:, None] & (channel < F)[None, :]
    tl.store(out + (first + place)[:, None] * F + channel[None, :], value, mask=inside)


@triton.jit
def sum_blocks_kernel(
    grad,  # [B, T, F]
    nodes,  # [slots]: in ascending order
    order,  # [slots] int64: the slot of each
    places,  # [slots] int32: the row of each slot, where rows are packed
    out,  # [n, F]: sums of nodes that lie in one block
    parts,  # [blocks, 2, F] float32: sums of the first node, and of a last one that continues
    slots,
    S: tl.constexpr,
    T: tl.constexpr,
    F: tl.constexpr,
    BLOCK: tl.constexpr,
    BLOCK_F: tl.constexpr,
    PACKED: tl.constexpr,
    PRECISION: tl.constexpr,
):
    block = tl.program_id(0)
    channel = tl.program_id(1) * BLOCK_F + tl.arange(0, BLOCK_F)
    number = tl.arange(0, BLOCK)
    at = block * BLOCK + number
    node = tl.load(nodes + at, mask=at < slots, other=-1).to(tl.int32)
    before = tl.load(nodes + at - 1, mask=(at > 0) & (at < slots), other=-2).to(tl.int32)
    after = tl.load(nodes + at + 1, mask=at + 1 < slots, other=-2).to(tl.int32)
    run = tl.cumsum(((node != before) & (number > 0)).to(tl.int32), 0)
    slot = tl.load(order + at, mask=at < slots, other=0)
    real = (node >= 0)[:, None] & (channel < F)[None, :]
    if PACKED:
        row = tl.load(places + slot, mask=node >= 0, other=0).to(tl.int64)
    else:
        row = slot // S * T + slot % S
    value = tl.load(grad + row[:, None] * F + channel[None, :], mask=real, other=0.0)
    member = number[:, None] == run[None, :]  # [runs, slots]
    one = tl.full([], 1.0, grad.dtype.element_ty)
    zero = tl.full([], 0.0, grad.dtype.element_ty)
    total = product(tl.where(member, one, zero), value, PRECISION)  # [runs, F]
    of_run = tl.max(tl.where(member, node[None, :], -1), 1)
    begun_before = (
        tl.max(tl.where(member & ((number == 0) & (node == before))[None, :], 1, 0), 1) > 0
    )
    last = number == BLOCK - 1
    goes_on = tl.max(tl.where(member & (last & (node == after))[None, :], 1, 0), 1) > 0
    whole = (of_run >= 0) & (begun_before == 0) & (goes_on == 0)
    place = of_run.to(tl.int64)[:, None] * F + channel[None, :]
    inside = (channel < F)[None, :]
    tl.store(out + place, total.to(out.dtype.element_ty), mask=whole[:, None] & inside)
    part = parts + block.to(tl.int64) * (2 * F) + channel[None, :] + tl.zeros([BLOCK, 1], tl.int32)
    tl.store(part, total, mask=begun_before[:, None] & inside)
    tl.store(part + F, total, mask=(goes_on & (begun_before == 0))[:, None] & inside)


@triton.jit
def join_blocks_kernel(
    nodes,
    parts,
    out,
    slots,
    F: tl.constexpr,
    BLOCK: tl.constexpr,
    STEP: tl.constexpr,
    BLOCK_F: tl.constexpr,
):
    """Add up the sum of a node that begins in one block and continues in the next."""
    block = tl.program_id(0)
    channel = tl.program_id(1) * BLOCK_F + tl.arange(0, BLOCK_F)
    end = block * BLOCK + BLOCK  # the first slot of the next block
    if end < slots:
        node = tl.load(nodes + end - 1).to(tl.int32)
        follows = tl.load(nodes + end).to(tl.int32)
        first = block * BLOCK
        earlier = tl.load(nodes + first - 1, mask=first > 0, other=-2).to(tl.int32)
        if (node >= 0) & (node == follows) & (earlier != node):
            at = parts + block.to(tl.int64) * (2 * F) + F + channel
            total = tl.load(at, mask=channel < F, other=0.0)
            each = tl.zeros([STEP, BLOCK_F], tl.float32)
            next_block = block + 1
            more = node == follows
            while more:
                some = next_block + tl.arange(0, STEP)
                start = some.to(tl.int64) * BLOCK
                first_node = tl.load(nodes + start, mask=start < slots, other=-2).to(tl.int32)
                same = first_node == node
                place = some.to(tl.int64)[:, None] * (2 * F) + channel[None, :]
                each += tl.load(
                    parts + place, mask=same[:, None] & (channel < F)[None, :], other=0.0
                )
                more = tl.min(same.to(tl.int32), 0) > 0
                next_block += STEP
            total += tl.sum(each, 0)
            place = node.to(tl.int64) * F + channel
            tl.store(out + place, total.to(out.dtype.element_ty), mask=channel < F)
