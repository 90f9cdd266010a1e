"""Raw files of public graphs, for those who have them.

The environment variable DHILGT_DATA names a folder with one folder per graph, each with the files
as their authors published them under ``raw``.
"""

import os
import pickle
from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest

from dhilgt import Graph


def raw_file(graph, name):
    """The path of a raw file; skips the test where it is not at hand."""
    folder = os.environ.get("DHILGT_DATA")
    if not folder:
        pytest.skip("DHILGT_DATA names no folder of raw data")
    path = Path(folder) / graph / "raw" / name
    if not path.exists():
        pytest.skip(f"DHILGT_DATA has no {graph}/raw/{name}")
    return path


class PlainUnpickler(pickle.Unpickler):
    """Reads a dict of lists of numbers, and nothing that could run code."""

    def find_class(self, module, name):
        allowed = {
            ("collections", "defaultdict"): defaultdict,
            ("__builtin__", "list"): list,
            ("builtins", "list"): list,
            ("__builtin__", "int"): int,
            ("builtins", "int"): int,
        }
        if (module, name) not in allowed:
            raise pickle.UnpicklingError(f"{module}.{name} has no place in a list of neighbours")
        return allowed[module, name]


def citeseer():
    with raw_file("citeseer", "ind.citeseer.graph").open("rb") as file:
        rows = PlainUnpickler(file, encoding="latin1").load()
    edges = [(u, v) for u, neighbors in rows.items() for v in neighbors]
    return Graph.from_edges(*zip(*edges, strict=True), num_nodes=len(rows))


def chameleon():
    with np.load(raw_file("chameleon", "chameleon_filtered.npz"), allow_pickle=False) as raw:
        edges, num_nodes = raw["edges"], len(raw["node_labels"])
    return Graph.from_edges(edges[:, 0], edges[:, 1], num_nodes=num_nodes)
