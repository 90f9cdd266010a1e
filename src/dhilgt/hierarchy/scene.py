"""Everything a picture of a graph beside its label graph shows, before it is drawn."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from dhilgt.graph import Graph
from dhilgt.hierarchy.colors import Legend, class_legend
from dhilgt.hierarchy.edges import LabelEdges, Pairs, label_edges, raw_pairs, thinned
from dhilgt.hierarchy.layout import Places, positions
from dhilgt.hierarchy.numbers import HierarchyNumbers, numbers_of
from dhilgt.labels import HubLabels, LabelGraph
from dhilgt.token_sampler import TokenSampler

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
