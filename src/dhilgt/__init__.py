"""Graph Transformers for graphs too large for one."""

from dhilgt.errors import ArtifactError, DhilgtError, GraphError, GraphWarning, MemoryLimitError
from dhilgt.generate import generate
from dhilgt.graph import Graph
from dhilgt.graph_parts import Cleaning

__version__ = "0.1.0"

__all__ = [
    "ArtifactError",
    "Cleaning",
    "DhilgtError",
    "Graph",
    "GraphError",
    "GraphWarning",
    "MemoryLimitError",
    "generate",
]
