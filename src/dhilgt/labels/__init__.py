"""Hub labels: order, build, query, grow, store."""

from dhilgt.labels.blocks import LabelBlock, label_block
from dhilgt.labels.build import LabelEstimate, estimate
from dhilgt.labels.grow import quick_labels
from dhilgt.labels.hub_labels import UNREACHABLE, HubLabels, LabelGraph, Witness
from dhilgt.labels.orders import ORDERS, node_order

__all__ = [
    "ORDERS",
    "UNREACHABLE",
    "HubLabels",
    "LabelBlock",
    "LabelEstimate",
    "LabelGraph",
    "Witness",
    "estimate",
    "label_block",
    "node_order",
    "quick_labels",
]
