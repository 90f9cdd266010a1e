"""Graph Transformers for graphs too large for one."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from dhilgt import datasets
from dhilgt._version import __version__
from dhilgt.errors import (
    ArtifactError,
    ConfigError,
    DatasetError,
    DhilgtError,
    GraphError,
    GraphWarning,
    MemoryLimitError,
    ProcessError,
    TrainingError,
    TrainingInterrupted,
    TrainingWarning,
)
from dhilgt.estimate import LabelEstimate, estimate
from dhilgt.generate import generate
from dhilgt.graph import Graph
from dhilgt.graph_parts import Cleaning
from dhilgt.grow import quick_labels
from dhilgt.label_block import LabelBlock, label_block
from dhilgt.labels import UNREACHABLE, HubLabels, LabelGraph, Witness
from dhilgt.settings import Settings
from dhilgt.token_sampler import PackedRows, TokenRows, TokenSampler
from dhilgt.token_spec import TokenSpec
from dhilgt.tokens import Tokens

if TYPE_CHECKING:
    from dhilgt import baselines as baselines
    from dhilgt.batch import TokenBatch as TokenBatch
    from dhilgt.batch_size import find_batch_size as find_batch_size
    from dhilgt.estimator import NodeClassifier as NodeClassifier
    from dhilgt.explanation import Explanation as Explanation
    from dhilgt.export import export_onnx as export_onnx
    from dhilgt.export import export_program as export_program
    from dhilgt.hierarchy import hierarchy_numbers as hierarchy_numbers
    from dhilgt.hierarchy import plot_hierarchy as plot_hierarchy
    from dhilgt.loader import TokenLoader as TokenLoader
    from dhilgt.loader import averaged_logits as averaged_logits
    from dhilgt.model import DHILGT as DHILGT
    from dhilgt.model_config import DHILGTConfig as DHILGTConfig
    from dhilgt.train import Trainer as Trainer
    from dhilgt.train_config import TrainConfig as TrainConfig
    from dhilgt.train_state import TrainResult as TrainResult

# What needs torch is imported when it is first used: labels and tokens do without. Pictures, too.
_LAZY = {
    "DHILGT": "dhilgt.model",
    "DHILGTConfig": "dhilgt.model_config",
    "Explanation": "dhilgt.explanation",
    "NodeClassifier": "dhilgt.estimator",
    "TokenBatch": "dhilgt.batch",
    "TokenLoader": "dhilgt.loader",
    "TrainConfig": "dhilgt.train_config",
    "TrainResult": "dhilgt.train_state",
    "Trainer": "dhilgt.train",
    "averaged_logits": "dhilgt.loader",
    "baselines": "dhilgt.baselines",
    "export_onnx": "dhilgt.export",
    "export_program": "dhilgt.export",
    "find_batch_size": "dhilgt.batch_size",
    "hierarchy_numbers": "dhilgt.hierarchy",
    "plot_hierarchy": "dhilgt.hierarchy",
}

__all__ = [
    "DHILGT",
    "UNREACHABLE",
    "ArtifactError",
    "Cleaning",
    "ConfigError",
    "DHILGTConfig",
    "DatasetError",
    "DhilgtError",
    "Explanation",
    "Graph",
    "GraphError",
    "GraphWarning",
    "HubLabels",
    "LabelBlock",
    "LabelEstimate",
    "LabelGraph",
    "MemoryLimitError",
    "NodeClassifier",
    "PackedRows",
    "ProcessError",
    "Settings",
    "TokenBatch",
    "TokenLoader",
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
    "averaged_logits",
    "baselines",
    "datasets",
    "estimate",
    "export_onnx",
    "export_program",
    "find_batch_size",
    "generate",
    "hierarchy_numbers",
    "label_block",
    "plot_hierarchy",
    "quick_labels",
]


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        module = import_module(_LAZY[name])
        value = module if name == "baselines" else getattr(module, name)
    except ModuleNotFoundError as error:
        if error.name not in ("torch", "safetensors"):
            raise
        raise ImportError(
            f"dhilgt.{name} needs {error.name}; install it with pip install 'dhilgt[train]'"
        ) from error
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
