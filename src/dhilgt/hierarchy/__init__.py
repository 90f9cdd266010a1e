"""A graph beside its label graph: numbers, pictures, and a page to explore."""

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
