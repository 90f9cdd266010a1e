"""Everything a picture of a graph and its label graph shows, before it is drawn."""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dhilgt.graph.graph import Graph
from dhilgt.hierarchy.layout import (
    LabelEdges,
    Pairs,
    Places,
    label_edges,
    positions,
    raw_pairs,
    thinned,
)
from dhilgt.hierarchy.numbers import HierarchyNumbers, numbers_of
from dhilgt.labels.hub_labels import HubLabels, LabelGraph
from dhilgt.report.svg import OTHER, PALETTE
from dhilgt.tokens.sampler import TokenSampler

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


LAYOUTS = ("own", "shared")
COLORS = ("class", "rank")


@dataclass(frozen=True)
class Options:
    """How to draw.

    Attributes:
        layout: "own" lays each graph out by itself; "shared" draws both where the graph's nodes
            are.
        color: What dots are coloured by: "class" or "rank".
        max_edges: Edges to draw of each graph; of more, a uniform sample.
        seed: Key of the layout and of that sample.
        title: Heading; the graph's name when None.
    """

    layout: str = "own"
    color: str = "class"
    max_edges: int = 20_000
    seed: int = 0
    title: str | None = None

    def __post_init__(self) -> None:
        for name, known in (("layout", LAYOUTS), ("color", COLORS)):
            if getattr(self, name) not in known:
                value = getattr(self, name)
                raise ValueError(f"{name} = {value!r}; choose one of {', '.join(known)}")
        if self.max_edges < 0:
            raise ValueError(f"max_edges = {self.max_edges}; pass 0 or more")


class Panel:
    """One of the two graphs: its edges and where its nodes are.

    Attributes:
        kind: "raw graph" or "label graph".
        pairs: All edges.
        drawn: Those to draw.
        places: A point per node.
        weight: How much stands out of each node: neighbours, or nodes that have it as a hub.
    """

    def __init__(
        self, kind: str, pairs: Pairs, places: Places, weight: NDArray[np.int64], options: Options
    ) -> None:
        self.kind, self.pairs, self.places, self.weight = kind, pairs, places, weight
        self.drawn: Pairs = pairs[thinned(pairs, options.max_edges, options.seed)]

    @property
    def note(self) -> str:
        """How many edges are drawn."""
        if len(self.drawn) == len(self.pairs):
            return f"all {len(self.pairs):,} edges drawn"
        return f"{len(self.drawn):,} of {len(self.pairs):,} edges drawn, a uniform sample"


class Scene:
    """A graph beside its label graph; what is costly is made when it is first asked for.

    Args:
        graph: The graph.
        labels: Its hub labels.
        options: How to draw.
    """

    def __init__(self, graph: Graph, labels: HubLabels, options: Options) -> None:
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
        """Both graphs in numbers."""
        return numbers_of(self.graph, self.raw_pairs, self.label_edges, self.title)

    @cached_property
    def sampler(self) -> TokenSampler:
        """Draws tokens, with the default settings."""
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
        return Panel("raw graph", pairs, places, _ends(pairs, count), self.options)

    @cached_property
    def label(self) -> Panel:
        """The label graph; a hub pulls by one over its distance."""
        pairs, distances = self.label_edges
        count = self.graph.num_nodes
        if self.options.layout == "shared":
            places = self.raw.places
        else:
            pulls = 1.0 / np.maximum(distances, 1)
            places = positions(pairs, count, weights=pulls, seed=self.options.seed)
        holders = np.diff(self.rows.in_offsets)
        return Panel("label graph", pairs, places, holders, self.options)


def _ends(pairs: Pairs, count: int) -> NDArray[np.int64]:
    return np.bincount(pairs.ravel(), minlength=count)
