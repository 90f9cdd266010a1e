"""The memory of a worker that builds labels on a cluster, against that of a build on one machine.

`python -m bench.cluster_memory` writes `cluster_memory.jsonl` and its table; `--render FILE` makes
the table from recorded lines.
"""

import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from bench.cluster import local_cluster, predicted_seconds, recorded_stages, worker_memory
from bench.measure import Bench
from dhilgt import Graph, HubLabels, generate

MILLION, DEGREE = 1_000_000, 20.0
WORKERS = 2


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
    with tempfile.TemporaryDirectory() as folder, local_cluster(WORKERS, 1) as address:
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


def table_rows(whole: dict[str, Any], part: dict[str, Any]) -> list[tuple[str, str]]:
    """Return the rows of the table from the lines of one machine and of the cluster."""
    own = part["anonymous_bytes"] - part["idle_bytes"]
    seconds = {
        workers: predicted_seconds(part, workers, 1, of=WORKERS) for workers in (WORKERS, 4, 16)
    }
    return [
        (
            f"{MILLION:,} nodes, {whole['edges']:,} edges: memory of a worker",
            f"{own / 1e6:.0f} MB beside {part['idle_bytes'] / 1e6:.0f} MB of an idle one; a "
            f"quarter of the labels and the graph are {part['max_memory'] / 1e6:.0f} MB",
        ),
        (
            "labels there",
            f"{whole['entries'] / whole['nodes']:.0f} entries a node, "
            f"{whole['labels_bytes'] / 1e6:.0f} MB, in {part['parts']} parts on the cluster",
        ),
        (
            "time there",
            f"one machine with all of its cores: {whole['seconds']:.0f} s; two workers: "
            f"{part['seconds']:.0f} s; by the simulator 4 workers {seconds[4]:.0f} s and 16 "
            f"workers {seconds[16]:.0f} s, {seconds[4] / seconds[16]:.1f} x of 4",
        ),
    ]


def main() -> None:
    """Measure, compare and write, or make the table from recorded lines."""
    if sys.argv[1:2] == ["--render"]:
        text = Path(sys.argv[2]).read_text(encoding="utf-8")
        whole, part = (json.loads(line) for line in text.splitlines())
        print("| what | measured |\n|---|---|")
        for what, measured in table_rows(whole, part):
            print(f"| {what} | {measured} |")
        return
    bench = Bench("cluster_memory", [memory_plain, memory_cluster], __doc__ or "")
    whole = bench.measured(memory_plain, MILLION)
    allowed = whole["labels_bytes"] // 4 + whole["graph_bytes"]
    part = bench.measured(memory_cluster, MILLION, allowed)
    for what, measured in table_rows(whole, part):
        bench.row(what, measured)
    bench.finish()


if __name__ == "__main__":
    main()
