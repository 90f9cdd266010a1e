"""The default recipe on a large graph: time and memory of `NodeClassifier().fit`, stage by stage.

`python -m bench.million` prints one line of JSON for a million nodes.
"""

import argparse
import json
import time
from typing import Any

from dhilgt import NodeClassifier, generate
from dhilgt.training.clock import host_peak_bytes

DEGREE, FEATURES, CLASSES = 8, 32, 8


def run(nodes: int, budget: float | None) -> dict[str, Any]:
    """Train by the default recipe, and return what it took.

    Args:
        nodes: Nodes of the graph.
        budget: Seconds; None for any.
    """
    graph = generate(
        nodes, DEGREE, seed=1, num_features=FEATURES, num_classes=CLASSES, homophily=0.8
    )
    before, start = host_peak_bytes(), time.perf_counter()
    clf = NodeClassifier(budget=budget, cache=False, progress=True).fit(graph)
    record = clf.search_
    assert record is not None, "the default searches"
    return {
        "nodes": nodes,
        "edges": graph.num_edges,
        "seconds": round(time.perf_counter() - start, 1),
        "graph_bytes": before,
        "peak_bytes": host_peak_bytes(),
        "stages": {name: round(one["seconds"], 1) for name, one in clf.stages_.items()},
        "epochs": record.num_epochs,
        "out_of_time": record.out_of_time,
        "scores": clf.scores_,
        "chosen": record.sentence,
    }


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=1_000_000)
    parser.add_argument("--budget", type=float, default=None, help="seconds")
    options = parser.parse_args()
    print(json.dumps(run(options.nodes, options.budget)))


if __name__ == "__main__":
    main()
