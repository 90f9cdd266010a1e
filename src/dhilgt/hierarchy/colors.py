"""Colours of nodes and edges, the same in pictures and on pages."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dhilgt.explain_picture import OTHER, PALETTE
from dhilgt.graph import Graph
from dhilgt.hierarchy.edges import Pairs

UNKNOWN = "#c3c9cf"
"""A node whose class is not known."""

RANK_STOPS = ("#fde725", "#35b779", "#31688e", "#440154")
"""From the most to the least important node."""


class Legend(NamedTuple):
    """Groups of nodes that share a colour.

    Attributes:
        group: The group of each node, [n].
        names: What each group is called.
        colors: The colour of each, as #rrggbb.
        counts: How many nodes each holds.
        known: How many groups are one class each; they come first.
    """

    group: NDArray[np.int64]
    names: tuple[str, ...]
    colors: tuple[str, ...]
    counts: tuple[int, ...]
    known: int


def class_legend(graph: Graph) -> Legend:
    """Gives a colour per class, the most frequent ones first; the rest share a grey.

    Args:
        graph: With or without classes.

    Example:
        >>> graph = Graph.from_edges([0, 1], [1, 2], labels=[7, 7, -1])
        >>> found = class_legend(graph)
        >>> found.names, found.group.tolist(), found.known
        (('class 7', 'class not known'), [0, 0, 1], 1)
    """
    classes = np.full(graph.num_nodes, -1) if graph.labels is None else graph.labels
    counts = np.bincount(classes[classes >= 0], minlength=graph.num_classes)
    ranking = [int(one) for one in np.lexsort((np.arange(len(counts)), -counts)) if counts[one]]
    shown = sorted(ranking[: len(PALETTE)])
    names = [_name(graph, one) for one in shown]
    colors = list(PALETTE[: len(shown)])
    group = np.full(graph.num_nodes, -1, np.int64)
    for at, one in enumerate(shown):
        group[classes == one] = at
    rest = len(ranking) - len(shown)
    for mask, name, color in (
        ((group < 0) & (classes >= 0), f"{rest} more classes", OTHER),
        (classes < 0, "class not known", UNKNOWN),
    ):
        if mask.any():
            group[mask] = len(names)
            names.append(name)
            colors.append(color)
    sizes = np.bincount(group, minlength=len(names)).tolist()
    return Legend(group, tuple(names), tuple(colors), tuple(sizes), len(shown))


def _name(graph: Graph, one: int) -> str:
    return f"class {one}" if graph.class_names is None else graph.class_names[one]


def edge_groups(pairs: Pairs, legend: Legend) -> NDArray[np.int64]:
    """Gives the group of edges whose ends have one class, -1 for all others.

    Args:
        pairs: The edges.
        legend: The groups of nodes.
    """
    ends = legend.group[pairs]  # [m, 2]
    one_class = (ends[:, 0] == ends[:, 1]) & (ends[:, 0] < legend.known)
    return np.where(one_class, ends[:, 0], -1)
