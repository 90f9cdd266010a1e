"""Node features computed before the model: hops, scale, known classes."""

from dhilgt.features.from_graph import degree_features, with_hops
from dhilgt.features.scale import FeatureScale

__all__ = ["FeatureScale", "degree_features", "with_hops"]
