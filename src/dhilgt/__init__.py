"""Graph Transformers for graphs too large for one."""

from typing import TYPE_CHECKING, Any

from dhilgt._version import __version__
from dhilgt.errors import ArtifactError, DhilgtError, GraphError, GraphWarning, MemoryLimitError
from dhilgt.estimate import LabelEstimate, estimate
from dhilgt.generate import generate
from dhilgt.graph import Graph
from dhilgt.graph_parts import Cleaning
from dhilgt.labels import UNREACHABLE, HubLabels, LabelGraph, Witness
from dhilgt.token_sampler import PackedRows, TokenRows, TokenSampler
from dhilgt.token_spec import TokenSpec
from dhilgt.tokens import Tokens

if TYPE_CHECKING:
    from dhilgt.batch import TokenBatch as TokenBatch
    from dhilgt.loader import TokenLoader as TokenLoader
    from dhilgt.loader import averaged_logits as averaged_logits

__all__ = [
    "UNREACHABLE",
    "ArtifactError",
    "Cleaning",
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
    "Witness",
    "__version__",
    "estimate",
    "generate",
]

# What needs torch is imported when first used: labels and tokens work without it.
_LAZY = {
    "TokenBatch": "dhilgt.batch",
    "TokenLoader": "dhilgt.loader",
    "averaged_logits": "dhilgt.loader",
}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'dhilgt' has no attribute {name!r}")
    from importlib import import_module

    value = globals()[name] = getattr(import_module(_LAZY[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY})
