"""Graph Transformers for graphs too large for one."""

__version__ = "0.1.0"
