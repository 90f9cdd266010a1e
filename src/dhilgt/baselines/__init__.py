"""Other systems for the same task, under one interface and trained by the same trainer."""

from dhilgt.baselines.base import About, Baseline, GraphBaseline, Shape
from dhilgt.baselines.registry import create, describe, load, names
from dhilgt.baselines.settings import Settings

__all__ = [
    "About",
    "Baseline",
    "GraphBaseline",
    "Settings",
    "Shape",
    "create",
    "describe",
    "load",
    "names",
]
