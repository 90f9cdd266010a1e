"""Whole labels cut into parts in memory: what rows of labels in parts are drawn from."""

import itertools

from dhilgt.labels.mapped_rows import MappedRows
from dhilgt.labels.packed import PackedLabelRows
from dhilgt.labels.sharded_store import PackedParts


def rows_of(labels, label_bounds=None, holder_bounds=None):
    """The rows of labels, cut at some ranks: labels and holders each in one part by default."""
    sides = range(2 if labels.directed else 1)
    return MappedRows(
        num_nodes=labels.num_nodes,
        num_entries=labels.num_entries,
        directed=labels.directed,
        bounded=labels.radius is not None,
        node_at=labels.order.astype("u4"),
        labels=_cut([labels.native.pack(side, 1) for side in sides], label_bounds),
        holders=_cut([labels._transposed().pack(side, 1) for side in sides], holder_bounds),
    )


def _cut(sides, bounds):
    bounds = [0, len(sides[0][0]) - 1] if bounds is None else bounds
    cut = []
    for offsets, records in sides:
        parts = []
        for first, last in itertools.pairwise(bounds):
            begin, end = int(offsets[first]), int(offsets[last])
            parts.append(
                PackedLabelRows(offsets[first : last + 1] - offsets[first], records[begin:end])
            )
        cut.append(parts)
    return PackedParts(list(bounds), cut)
