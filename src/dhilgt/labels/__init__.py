"""Hub labels: order, build, query, grow, store."""

from dhilgt.labels.blocks import LabelBlock, label_block
from dhilgt.labels.grow import quick_labels
from dhilgt.labels.hub_labels import BEYOND, UNREACHABLE, HubLabels, LabelGraph, Witness
from dhilgt.labels.orders import ORDERS, node_order
from dhilgt.labels.sizes import LabelEstimate, RadiusEstimate, estimate

__all__ = [
    "BEYOND",
    "ORDERS",
    "UNREACHABLE",
    "HubLabels",
    "LabelBlock",
    "LabelEstimate",
    "LabelGraph",
    "RadiusEstimate",
    "Witness",
    "estimate",
    "label_block",
    "node_order",
    "quick_labels",
]
