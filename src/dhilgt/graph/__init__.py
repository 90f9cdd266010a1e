"""The Graph object: ids, checks, conversions, storage, random graphs."""

from dhilgt.graph.build import Cleaning
from dhilgt.graph.graph import Graph
from dhilgt.graph.node_ids import NodeIds
from dhilgt.graph.random_graphs import generate
from dhilgt.graph.store import load_graph, save_graph

__all__ = ["Cleaning", "Graph", "NodeIds", "generate", "load_graph", "save_graph"]
