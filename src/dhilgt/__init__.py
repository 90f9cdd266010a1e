"""Graph Transformers for graphs too large for one."""

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
