"""Graphs with long distances."""

import numpy as np

from dhilgt import Graph


def grid(side, diagonals=False):
    at = np.arange(side * side).reshape(side, side)
    ends = [(at[:, :-1], at[:, 1:]), (at[:-1], at[1:])]
    if diagonals:
        ends += [(at[:-1, :-1], at[1:, 1:]), (at[:-1, 1:], at[1:, :-1])]
    sources, targets = (np.concatenate([pair[end].ravel() for pair in ends]) for end in (0, 1))
    return Graph.from_edges(sources, targets, num_nodes=side * side)


def cycle(count):
    nodes = np.arange(count)
    return Graph.from_edges(nodes, (nodes + 1) % count, num_nodes=count)
