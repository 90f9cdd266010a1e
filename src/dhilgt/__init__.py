"""Graph Transformers for graphs too large for one."""

from typing import TYPE_CHECKING

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
from dhilgt.graph.build import Cleaning
from dhilgt.graph.graph import Graph
from dhilgt.graph.random_graphs import generate
from dhilgt.labels.blocks import LabelBlock, label_block
from dhilgt.labels.grow import quick_labels
from dhilgt.labels.hub_labels import BEYOND, UNREACHABLE, HubLabels, LabelGraph, Witness
from dhilgt.labels.sizes import LabelEstimate, estimate
from dhilgt.settings.settings import Settings
from dhilgt.tokens.sampler import PackedRows, TokenRows, TokenSampler
from dhilgt.tokens.spec import TokenSpec
from dhilgt.tokens.tokens import Tokens
from dhilgt.utils.lazy import lazy_names

if TYPE_CHECKING:
    from dhilgt import baselines as baselines
    from dhilgt.classifier.classifier import NodeClassifier as NodeClassifier
    from dhilgt.classifier.explanation import Explanation as Explanation
    from dhilgt.hierarchy import hierarchy_numbers as hierarchy_numbers
    from dhilgt.hierarchy import plot_hierarchy as plot_hierarchy
    from dhilgt.loader.batch import TokenBatch as TokenBatch
    from dhilgt.loader.copies import averaged_logits as averaged_logits
    from dhilgt.loader.loader import TokenLoader as TokenLoader
    from dhilgt.model.config import DHILGTConfig as DHILGTConfig
    from dhilgt.model.dhilgt import DHILGT as DHILGT
    from dhilgt.model.export import export_onnx as export_onnx
    from dhilgt.model.export import export_program as export_program
    from dhilgt.training.batch_size import find_batch_size as find_batch_size
    from dhilgt.training.config import TrainConfig as TrainConfig
    from dhilgt.training.state import TrainResult as TrainResult
    from dhilgt.training.trainer import Trainer as Trainer

__all__ = [
    "BEYOND",
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


# Imported when first used: labels and tokens need no torch, and only pictures need Matplotlib.
__getattr__ = lazy_names(
    __name__,
    {
        "DHILGT": "dhilgt.model.dhilgt",
        "DHILGTConfig": "dhilgt.model.config",
        "Explanation": "dhilgt.classifier.explanation",
        "NodeClassifier": "dhilgt.classifier.classifier",
        "TokenBatch": "dhilgt.loader.batch",
        "TokenLoader": "dhilgt.loader.loader",
        "TrainConfig": "dhilgt.training.config",
        "TrainResult": "dhilgt.training.state",
        "Trainer": "dhilgt.training.trainer",
        "averaged_logits": "dhilgt.loader.copies",
        "baselines": "dhilgt.baselines",
        "export_onnx": "dhilgt.model.export",
        "export_program": "dhilgt.model.export",
        "find_batch_size": "dhilgt.training.batch_size",
        "hierarchy_numbers": "dhilgt.hierarchy",
        "plot_hierarchy": "dhilgt.hierarchy",
    },
)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
