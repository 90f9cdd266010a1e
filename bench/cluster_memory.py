"""The memory of a worker that builds labels on a cluster, against that of a build on one machine.

`python -m bench.cluster_memory` writes `cluster_memory.jsonl` and its table.
"""

import tempfile
import time
from typing import Any

from bench.cluster import local_cluster, recorded_stages, worker_memory
from bench.measure import Bench
from dhilgt import Graph, HubLabels, generate

MILLION, DEGREE = 1_000_000, 20.0


def memory_plain(num_nodes: int) -> dict[str, Any]:
    """Measure the labels and the graph that one machine holds."""
    graph = _large(num_nodes)
    begin = time.perf_counter()
    labels = HubLabels.build(graph, progress=False)
    return {
        "what": "memory, one machine",
        "nodes": num_nodes,
        "edges": graph.num_edges,
        "seconds": time.perf_counter() - begin,
        "entries": labels.num_entries,
        "labels_bytes": labels.nbytes,
        "graph_bytes": graph.offsets.nbytes + graph.targets.nbytes,
    }


def memory_cluster(num_nodes: int, max_memory: int) -> dict[str, Any]:
    """Measure the largest memory of a worker, with a limit for each unit."""
    graph = _large(num_nodes)
    with tempfile.TemporaryDirectory() as folder, local_cluster(2, 1) as address:
        stages = recorded_stages()
        with worker_memory() as memory:
            begin = time.perf_counter()
            labels = HubLabels.build(
                graph,
                path=f"{folder}/labels",
                cluster=address,
                max_memory=max_memory,
                progress=False,
            )
            end = time.perf_counter()
        return {
            "what": "memory, cluster",
            "nodes": num_nodes,
            "edges": graph.num_edges,
            "max_memory": max_memory,
            "seconds": end - begin,
            "entries": labels.num_entries,
            "parts": labels.num_parts,
            "stages": stages,
            **memory,
        }


def _large(num_nodes: int) -> Graph:
    return generate(num_nodes, DEGREE, seed=1, num_features=0)


def main() -> None:
    """Measure, compare and write."""
    bench = Bench("cluster_memory", [memory_plain, memory_cluster], __doc__ or "")
    whole = bench.measured(memory_plain, MILLION)
    allowed = whole["labels_bytes"] // 4 + whole["graph_bytes"]
    part = bench.measured(memory_cluster, MILLION, allowed)
    own = part["anonymous_bytes"] - part["idle_bytes"]
    bench.row(
        f"{MILLION:,} nodes, {whole['edges']:,} edges: memory of a worker",
        f"{own / 1e6:.0f} MB beside {part['idle_bytes'] / 1e6:.0f} MB of an idle one; a quarter of "
        f"the labels and the graph are {allowed / 1e6:.0f} MB",
    )
    bench.row(
        "labels there",
        f"{whole['entries'] / whole['nodes']:.0f} entries a node, "
        f"{whole['labels_bytes'] / 1e6:.0f} MB, in {part['parts']} parts on the cluster",
    )
    bench.finish()


if __name__ == "__main__":
    main()
