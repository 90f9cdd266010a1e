"""All that a picture of a graph and its label graph shows, before it is drawn."""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dhilgt.graph.graph import Graph
from dhilgt.hierarchy.edges import LabelEdges, Pairs, label_edges, raw_pairs, sampled_edges
from dhilgt.hierarchy.layout import Places, positions
from dhilgt.hierarchy.numbers import HierarchyNumbers, numbers_of
from dhilgt.labels.hub_labels import HubLabels, LabelGraph
from dhilgt.report.svg import OTHER, PALETTE
from dhilgt.tokens.sampler import TokenSampler
from dhilgt.utils.checks import choice, whole_number

UNKNOWN = "#c3c9cf"
"""Colour of nodes whose class is not known."""

RANK_STOPS = ("#fde725", "#35b779", "#31688e", "#440154")
"""Colours from the most to the least important node."""

LAYOUTS = ("own", "shared")
COLORS = ("class", "rank")


# ---- colours of classes ------------------------------------------------------------------------


class Legend(NamedTuple):
    """Groups of nodes that share a colour.

    Attributes:
        group: The group of each node, [n].
        names: Name of each group.
        colors: Colour of each group, as #rrggbb.
        counts: Number of nodes of each group.
        known: Number of groups that are one class each; they come first.
    """

    group: NDArray[np.int64]
    names: tuple[str, ...]
    colors: tuple[str, ...]
    counts: tuple[int, ...]
    known: int


def class_legend(graph: Graph) -> Legend:
    """Return the groups of nodes: one per frequent class, then other classes and unknown ones.

    Args:
        graph: With or without classes.

    Example:
        >>> graph = Graph.from_edges([0, 1], [1, 2], labels=[7, 7, -1])
        >>> legend = class_legend(graph)
        >>> legend.names, legend.group.tolist(), legend.known
        (('class 7', 'class not known'), [0, 0, 1], 1)
    """
    classes = np.full(graph.num_nodes, -1) if graph.labels is None else graph.labels
    counts = np.bincount(classes[classes >= 0], minlength=graph.num_classes)
    ranking = [int(one) for one in np.lexsort((np.arange(len(counts)), -counts)) if counts[one]]
    shown = sorted(ranking[: len(PALETTE)])
    class_names = graph.class_names
    names = [f"class {one}" if class_names is None else class_names[one] for one in shown]
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


def edge_groups(pairs: Pairs, legend: Legend) -> NDArray[np.int64]:
    """Return the group of each edge within a class, -1 for all other edges.

    Args:
        pairs: The edges.
        legend: The groups of nodes.
    """
    ends = legend.group[pairs]  # [m, 2]
    one_class = (ends[:, 0] == ends[:, 1]) & (ends[:, 0] < legend.known)
    return np.where(one_class, ends[:, 0], -1)


# ---- the two graphs ----------------------------------------------------------------------------


@dataclass(frozen=True)
class DrawOptions:
    """How to draw.

    Attributes:
        layout: "own" lays each graph out by itself; "shared" draws both at the positions of the
            raw graph.
        color: What dots are coloured by: "class" or "rank".
        max_edges: Largest number of edges to draw of each graph; of more, a uniform sample.
        seed: Seed of the layout and of that sample.
        title: Heading; the graph's name when None.
    """

    layout: str = "own"
    color: str = "class"
    max_edges: int = 20_000
    seed: int = 0
    title: str | None = None

    def __post_init__(self) -> None:
        choice("layout", self.layout, LAYOUTS)
        choice("color", self.color, COLORS)
        whole_number("max_edges", self.max_edges, 0, 2**63 - 1)


class Panel:
    """One of the two graphs: its edges and the positions of its nodes.

    Attributes:
        kind: "raw graph" or "label graph".
        pairs: All edges.
        drawn: The edges to draw.
        places: A point per node.
        weight: Size of each node: its number of neighbours, or of nodes that have it as a hub.
    """

    def __init__(
        self,
        kind: str,
        pairs: Pairs,
        places: Places,
        weight: NDArray[np.int64],
        options: DrawOptions,
    ) -> None:
        self.kind, self.pairs, self.places, self.weight = kind, pairs, places, weight
        self.drawn = sampled_edges(pairs, options.max_edges, options.seed)

    @property
    def note(self) -> str:
        """A sentence on the number of edges that are drawn."""
        if len(self.drawn) == len(self.pairs):
            return f"all {len(self.pairs):,} edges drawn"
        return f"{len(self.drawn):,} of {len(self.pairs):,} edges drawn, a uniform sample"


class Scene:
    """A graph beside its label graph; costly parts are computed when they are first used.

    Args:
        graph: The graph.
        labels: Its hub labels.
        options: How to draw.
    """

    def __init__(self, graph: Graph, labels: HubLabels, options: DrawOptions) -> None:
        self.graph, self.labels, self.options = graph, labels, options

    @property
    def title(self) -> str:
        """The heading."""
        return self.options.title or self.graph.name or "graph"

    @cached_property
    def rows(self) -> LabelGraph:
        """Hubs and holders of every node."""
        return self.labels.label_graph()

    @cached_property
    def raw_pairs(self) -> Pairs:
        """The graph's edges."""
        return raw_pairs(self.graph)

    @cached_property
    def label_edges(self) -> LabelEdges:
        """The label graph's edges."""
        return label_edges(self.rows)

    @cached_property
    def numbers(self) -> HierarchyNumbers:
        """Statistics of both graphs."""
        return numbers_of(self.graph, self.raw_pairs, self.label_edges, self.title)

    @cached_property
    def sampler(self) -> TokenSampler:
        """Sampler of tokens with the default settings."""
        return TokenSampler(self.labels, progress=False)

    @cached_property
    def legend(self) -> Legend:
        """Classes and their colours."""
        return class_legend(self.graph)

    @cached_property
    def raw(self) -> Panel:
        """The graph."""
        count, pairs = self.graph.num_nodes, self.raw_pairs
        places = positions(pairs, count, seed=self.options.seed)
        degrees = np.bincount(pairs.ravel(), minlength=count)
        return Panel("raw graph", pairs, places, degrees, self.options)

    @cached_property
    def label(self) -> Panel:
        """The label graph; a hub at distance d attracts with weight 1 / d."""
        pairs, distances = self.label_edges
        count = self.graph.num_nodes
        if self.options.layout == "shared":
            places = self.raw.places
        else:
            weights = 1.0 / np.maximum(distances, 1)
            places = positions(pairs, count, weights=weights, seed=self.options.seed)
        holders = np.diff(self.rows.in_offsets)
        return Panel("label graph", pairs, places, holders, self.options)
