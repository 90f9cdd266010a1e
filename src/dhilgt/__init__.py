"""Graph Transformers for graphs too large for one."""

import importlib
from typing import TYPE_CHECKING, Any

from dhilgt._version import __version__
from dhilgt.errors import (
    ArtifactError,
    ConfigError,
    DhilgtError,
    GraphError,
    GraphWarning,
    MemoryLimitError,
    TrainingError,
    TrainingInterrupted,
    TrainingWarning,
)
from dhilgt.estimate import LabelEstimate, estimate
from dhilgt.generate import generate
from dhilgt.graph import Graph
from dhilgt.graph_parts import Cleaning
from dhilgt.labels import UNREACHABLE, HubLabels, LabelGraph, Witness
from dhilgt.token_sampler import PackedRows, TokenRows, TokenSampler
from dhilgt.token_spec import TokenSpec
from dhilgt.tokens import Tokens

if TYPE_CHECKING:
    from dhilgt.batch_size import find_batch_size
    from dhilgt.train import Trainer
    from dhilgt.train_config import TrainConfig
    from dhilgt.train_state import TrainResult

# Found on first use: these need torch, and what works on graphs alone must start without it.
_LAZY = {
    "TrainConfig": "dhilgt.train_config",
    "TrainResult": "dhilgt.train_state",
    "Trainer": "dhilgt.train",
    "find_batch_size": "dhilgt.batch_size",
}

__all__ = [
    "UNREACHABLE",
    "ArtifactError",
    "Cleaning",
    "ConfigError",
    "DhilgtError",
    "Graph",
    "GraphError",
    "GraphWarning",
    "HubLabels",
    "LabelEstimate",
    "LabelGraph",
    "MemoryLimitError",
    "PackedRows",
    "TokenRows",
    "TokenSampler",
    "TokenSpec",
    "Tokens",
    "TrainConfig",
    "TrainResult",
    "Trainer",
    "TrainingError",
    "TrainingInterrupted",
    "TrainingWarning",
    "Witness",
    "__version__",
    "estimate",
    "find_batch_size",
    "generate",
]


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_LAZY[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
