"""Other systems for the same task, under one interface and trained by the same trainer."""

from dhilgt.baselines.base import (
    About,
    Baseline,
    GraphBaseline,
    NodeBaseline,
    Phase,
    Shape,
    TokenBaseline,
)
from dhilgt.baselines.registry import create, describe, load, names
from dhilgt.baselines.settings import Settings
from dhilgt.baselines.training import FitResult, fit

__all__ = [
    "About",
    "Baseline",
    "FitResult",
    "GraphBaseline",
    "NodeBaseline",
    "Phase",
    "Settings",
    "Shape",
    "TokenBaseline",
    "create",
    "describe",
    "fit",
    "load",
    "names",
]
