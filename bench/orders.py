"""Label sizes by order of the nodes, on public datasets.

`python -m bench.orders cora chameleon physics` prints a table: entries per node, the seconds that
the order took, the seconds that the labels took.
"""

import sys
import time

from dhilgt import HubLabels, datasets
from dhilgt.labels.orders import ORDERS, node_order


def main(names: list[str]) -> None:
    """Print the table of some datasets."""
    rows = [["order"], *([order] for order in ORDERS)]
    for name in names:
        graph = datasets.load(name)
        rows[0] += [name, "order, s", "labels, s"]
        for row, order in zip(rows[1:], ORDERS, strict=True):
            start = time.perf_counter()
            ranked = node_order(graph, order)
            middle = time.perf_counter()
            ids = None if ranked is None else graph.ids_of(ranked)
            labels = HubLabels.build(graph, order=ids, progress=False)
            end = time.perf_counter()
            size = labels.num_entries / graph.num_nodes
            row += [f"{size:.1f}", f"{middle - start:.2f}", f"{end - middle:.2f}"]
    rows.insert(1, ["---"] + ["---:"] * (len(rows[0]) - 1))
    for row in rows:
        print("| " + " | ".join(row) + " |")


if __name__ == "__main__":
    main(sys.argv[1:])
