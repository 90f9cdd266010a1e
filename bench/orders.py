"""Label sizes by order of the nodes, on public datasets and on grids.

`python -m bench.orders cora chameleon grid:100` prints a table with a row per graph: for every
order the entries per node and the seconds of order and labels. `grid:100` is a grid of 100 x 100
nodes with diagonals, its ids in reading order. `--orders degree,degree-id` takes some orders alone.
"""

import argparse
import time

import numpy as np

from dhilgt import Graph, HubLabels, datasets
from dhilgt.labels.orders import ORDERS


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("graphs", nargs="+")
    parser.add_argument("--orders", default=",".join(ORDERS))
    options = parser.parse_args()
    orders = options.orders.split(",")
    print("| " + " | ".join(["graph", *(f"{order} | s" for order in orders)]) + " |")
    print("|" + "|".join(["---", *["---:"] * 2 * len(orders)]) + "|")
    for name in options.graphs:
        graph = _graph(name)
        row = [name]
        for order in orders:
            start = time.perf_counter()
            labels = HubLabels.build(graph, order=order, progress=False)
            seconds = time.perf_counter() - start
            row += [f"{labels.num_entries / graph.num_nodes:,.1f}", f"{seconds:.2f}"]
        print("| " + " | ".join(row) + " |", flush=True)


def _graph(name: str) -> Graph:
    kind, _, side = name.partition(":")
    return _grid(int(side)) if kind == "grid" else datasets.load(name)


def _grid(side: int) -> Graph:
    at = np.arange(side * side).reshape(side, side)
    ends = [
        (at[:, :-1], at[:, 1:]),
        (at[:-1], at[1:]),
        (at[:-1, :-1], at[1:, 1:]),
        (at[:-1, 1:], at[1:, :-1]),
    ]
    sources, targets = (np.concatenate([pair[end].ravel() for pair in ends]) for end in (0, 1))
    return Graph.from_edges(sources, targets)


if __name__ == "__main__":
    main()
