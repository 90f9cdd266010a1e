"""Slow, obvious versions that the fast ones are compared to."""

import itertools


def clean(edges, num_nodes, directed):
    """Rows of neighbours, and (self-loops, duplicates, reverse edges added)."""
    self_loops = sum(u == v for u, v in edges)
    kept, duplicates = set(), 0
    for u, v in edges:
        if u == v:
            continue
        duplicates += (u, v) in kept
        kept.add((u, v))
    full = kept if directed else kept | {(v, u) for u, v in kept}
    rows = [sorted(v for u, v in full if u == node) for node in range(num_nodes)]
    return rows, (self_loops, duplicates, len(full) - len(kept))


def rows_of(offsets, targets):
    return [targets[start:end].tolist() for start, end in itertools.pairwise(offsets)]
