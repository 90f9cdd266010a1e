"""Inputs computed before the model: neighbour averages, projections, scales, known classes."""

from dhilgt.features.from_graph import degree_features, with_hops
from dhilgt.features.projection import Projection
from dhilgt.features.scale import FeatureScale

__all__ = ["FeatureScale", "Projection", "degree_features", "with_hops"]
