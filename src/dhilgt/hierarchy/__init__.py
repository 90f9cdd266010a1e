"""A graph beside its label graph: statistics, pictures, and an interactive page."""

from dhilgt.hierarchy.numbers import (
    DistanceNumbers,
    GraphNumbers,
    HierarchyNumbers,
    average_clustering,
    hierarchy_numbers,
    homophily,
    modularity,
)
from dhilgt.hierarchy.plot import ENDINGS, plot_hierarchy

__all__ = [
    "ENDINGS",
    "DistanceNumbers",
    "GraphNumbers",
    "HierarchyNumbers",
    "average_clustering",
    "hierarchy_numbers",
    "homophily",
    "modularity",
    "plot_hierarchy",
]
