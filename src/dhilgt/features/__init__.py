"""Inputs computed before the model: neighbour averages, degrees, scales, known classes."""

from dhilgt.features.from_graph import degree_features, with_hops
from dhilgt.features.scale import FeatureScale

__all__ = ["FeatureScale", "degree_features", "with_hops"]
