"""Files to graphs: edges, and tables about nodes."""

from dhilgt.readers.graph_files import read_graph

__all__ = ["read_graph"]
