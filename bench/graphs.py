"""The graphs of the benchmarks: real ones where their files are available, else generated ones."""

import os
from pathlib import Path

from dhilgt import Graph, datasets, generate
from dhilgt.errors import DatasetError

# Nodes and average degree of the real ones, for a stand-in of the same size.
_SIZES = {
    "ogbn-arxiv": (169_343, 13.67),
    "physics": (34_493, 14.38),
    "cornell5": (18_660, 84.76),
    "tolokers": (11_758, 88.28),
    "cora": (2_708, 3.90),
    "pubmed": (19_717, 4.50),
    "chameleon": (890, 19.90),
}
# Features and classes of a stand-in.
_WITH_CLASSES = {"cora": (256, 7), "pubmed": (256, 3), "chameleon": (2325, 5)}


def data_folder() -> Path | None:
    """The folder with the datasets' raw files, if the environment names one."""
    named = os.environ.get("DHILGT_DATA")
    return Path(named) if named else None


def load(name: str) -> tuple[str, Graph]:
    """Return a graph and the name to print: `<name>-like` for a generated stand-in."""
    folder = data_folder()
    nodes, degree = _SIZES[name]
    if folder is not None:
        edges = folder / "ogbn_arxiv/raw/edge.csv.gz"
        if name == "ogbn-arxiv" and edges.exists():  # the edges alone, to time their reading
            return name, Graph.read(edges, num_nodes=nodes)
        try:
            with_features = name in _WITH_CLASSES
            graph = datasets.load(name, folder, None, features=with_features, download=False)
            return name, graph
        except DatasetError:
            pass
    features, classes = _WITH_CLASSES.get(name, (1, 5))
    return f"{name}-like", generate(nodes, degree, num_features=features, num_classes=classes)
