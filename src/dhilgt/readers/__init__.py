"""Readers of files: edges, and tables with one row per node."""

from dhilgt.readers.graph_files import read_graph

__all__ = ["read_graph"]
