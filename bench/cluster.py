"""Labels and tokens on a cluster of one machine: time, and what the simulator predicts.

Every ratio is of one run: the plain call, one worker, two, and, with 16 cores, one and four nodes
of four cores. `python -m bench.cluster` writes `cluster.jsonl` and its table.
"""

import hashlib
import json
import os
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench import graphs
from bench.measure import Bench
from bench.simulation import Stage, Workers, simulate
from dhilgt import HubLabels, Tokens

GRAPH = "ogbn-arxiv"
_STORE_BYTES = 200 << 20  # object store of a node; units pass names of files
_SECONDS_BETWEEN_LOOKS = 0.1


def plain(threads: int) -> dict[str, Any]:
    """Measure `HubLabels.build`, `save` and `Tokens.build`, with files as a cluster writes them."""
    name, graph = graphs.load(GRAPH)
    with tempfile.TemporaryDirectory() as folder:
        begin = time.perf_counter()
        labels = HubLabels.build(graph, threads=threads, progress=False)
        built = time.perf_counter()
        labels.save(f"{folder}/labels", threads=threads)
        saved = time.perf_counter()
        Tokens.build(labels, path=f"{folder}/tokens", threads=threads, progress=False)
        end = time.perf_counter()
        return {
            "what": "plain",
            "graph": name,
            "threads": threads,
            "labels_seconds": built - begin,
            "save_seconds": saved - built,
            "tokens_seconds": end - saved,
            "seconds": end - begin,
            "tokens_digest": _digest(Path(folder, "tokens")),
        }


def on_cluster(nodes: int, cores: int) -> dict[str, Any]:
    """Measure the same on nodes of some cores each; Ray is started before the clock."""
    name, graph = graphs.load(GRAPH)
    with tempfile.TemporaryDirectory() as folder, local_cluster(nodes, cores) as address:
        stages = recorded_stages()
        with worker_memory() as memory:
            begin = time.perf_counter()
            labels = HubLabels.build(
                graph, path=f"{folder}/labels", cluster=address, progress=False
            )
            built = time.perf_counter()
            Tokens.build(labels, path=f"{folder}/tokens", cluster=address, progress=False)
            end = time.perf_counter()
        return {
            "what": "cluster",
            "graph": name,
            "nodes": nodes,
            "cores": cores,
            "labels_seconds": built - begin,
            "tokens_seconds": end - built,
            "seconds": end - begin,
            "stages": stages,
            "tokens_digest": _digest(Path(folder, "tokens")),
            **memory,
        }


@contextmanager
def local_cluster(nodes: int, cores: int) -> Iterator[str]:
    """Start nodes of some cores each, beside a head that does no work, and yield the address."""
    import ray
    from ray.cluster_utils import Cluster

    options = {"object_store_memory": _STORE_BYTES, "include_dashboard": False}
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, **options})
    try:
        for _ in range(nodes):
            cluster.add_node(num_cpus=cores, object_store_memory=_STORE_BYTES)
        ray.init(address=cluster.address, log_to_driver=False, logging_level="warning")
        yield cluster.address
    finally:
        ray.shutdown()
        cluster.shutdown()


def recorded_stages() -> list[dict[str, Any]]:
    """Return a list that gets an entry for each stage of the jobs that follow."""
    from dhilgt.cluster import labels, tokens
    from dhilgt.cluster.jobs import Job

    stages: list[dict[str, Any]] = []

    class RecordingJob(Job):
        """Notes the seconds of every stage and of its units."""

        def run(self, units: Any, *, title: str, unit: str = "units", ahead: Any = ()) -> Any:
            begin = time.perf_counter()
            outcomes = super().run(units, title=title, unit=unit, ahead=ahead)
            stages.append(
                {
                    "stage": title,
                    "seconds": time.perf_counter() - begin,
                    "units": len(outcomes),
                    "unit_seconds": [self.seconds.get(one.name, 0.0) for one in units],
                    "peak_bytes": max(one.facts.get("peak_bytes", 0) for one in outcomes),
                }
            )
            return outcomes

    for module in (labels, tokens):
        module.Job = RecordingJob  # type: ignore[misc]
    return stages


@contextmanager
def worker_memory() -> Iterator[dict[str, int]]:
    """Yield a dictionary that holds, afterwards, the largest memory of one worker process.

    "anonymous" is what a process has for itself; mapped files are in the page cache, which the
    processes of a machine share, and can be dropped at any time.
    """
    found = {"anonymous_bytes": 0, "idle_bytes": 0}
    first: dict[str, int] = {}
    ended = threading.Event()

    def look() -> None:
        while not ended.wait(_SECONDS_BETWEEN_LOOKS):
            for status in Path("/proc").glob("[0-9]*/status"):
                try:
                    lines = dict(
                        line.split(":", 1)
                        for line in status.read_text().splitlines()
                        if ":" in line
                    )
                except OSError:  # it ended
                    continue
                if lines["Name"].strip().startswith("ray::") and "RssAnon" in lines:
                    used = int(lines["RssAnon"].split()[0]) * 1024
                    idle = first.setdefault(status.parent.name, used)
                    if used > found["anonymous_bytes"]:
                        found.update(anonymous_bytes=used, idle_bytes=idle)

    watcher = threading.Thread(target=look, daemon=True)
    watcher.start()
    try:
        yield found
    finally:
        ended.set()
        watcher.join()


def _digest(folder: Path) -> str:
    """Return a hash of all files of an artifact."""
    digest = hashlib.sha256()
    for path in sorted(folder.iterdir()):
        digest.update(path.name.encode() + hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()


def predicted_seconds(measured: dict[str, Any], nodes: int, cores: int) -> float:
    """Return what the simulator makes of the units of a run with one worker, for more of them.

    Args:
        measured: The line of the run with one worker.
        nodes: Nodes to predict for.
        cores: Cores of each.
    """
    # One worker cannot be faster than its units: such a stage was done before, as a table is that
    # serves several stages.
    done = [one for one in measured["stages"] if one["seconds"] >= 0.5 * sum(one["unit_seconds"])]
    stages = [Stage(one["stage"], tuple(one["unit_seconds"])) for one in done]
    units = sum(one["units"] for one in done[1:])
    beside = sum(one["seconds"] - sum(one["unit_seconds"]) for one in done[1:])
    # What is not done by units, and the start of the workers, which the first stage waits for.
    alone = measured["seconds"] - sum(one["seconds"] for one in done)
    alone += done[0]["seconds"] - sum(done[0]["unit_seconds"])
    overhead = max(0.0, beside / units)
    run = simulate(stages, Workers(nodes * cores, unit_overhead_seconds=overhead))
    return alone + run.seconds


def table_rows(lines: list[dict[str, Any]]) -> list[tuple[str, str]]:
    """Return the rows of the table from the lines of a run."""
    (alone,) = (one for one in lines if one["what"] == "plain")
    runs = {(one["nodes"], one["cores"]): one for one in lines if one["what"] == "cluster"}
    assert {one["tokens_digest"] for one in runs.values()} == {alone["tokens_digest"]}
    one, two = runs[1, 1], runs[2, 1]
    rows = [
        (
            f"{one['graph']}, labels and tokens, one core",
            f"plain {alone['seconds']:.1f} s, one worker {one['seconds']:.1f} s, "
            f"{one['seconds'] / alone['seconds']:.2f} x",
        ),
        (
            "two workers of one core",
            f"{two['seconds']:.1f} s, {one['seconds'] / two['seconds']:.2f} x of one; the "
            f"simulator predicts {predicted_seconds(one, 2, 1):.1f} s",
        ),
    ]
    if (4, 4) in runs:
        node, four = runs[1, 4], runs[4, 4]
        rows += [
            (
                "a node of four cores",
                f"{node['seconds']:.1f} s; the simulator predicts "
                f"{predicted_seconds(one, 1, 4):.1f} s",
            ),
            (
                "four nodes of four cores",
                f"{four['seconds']:.1f} s, {node['seconds'] / four['seconds']:.2f} x of one node; "
                f"the simulator predicts {predicted_seconds(one, 4, 4):.1f} s",
            ),
        ]
    return rows


def main() -> None:
    """Measure, compare and write, or make the table from recorded lines."""
    if sys.argv[1:2] == ["--render"]:
        text = Path(sys.argv[2]).read_text(encoding="utf-8")
        print("| what | measured |\n|---|---|")
        for what, measured in table_rows([json.loads(line) for line in text.splitlines()]):
            print(f"| {what} | {measured} |")
        return
    bench = Bench("cluster", [plain, on_cluster], __doc__ or "")
    sizes = [(1, 1), (2, 1)]
    if len(os.sched_getaffinity(0)) >= 16:
        sizes += [(1, 4), (4, 4)]
    lines = [bench.measured(plain, 1)]
    lines += [bench.measured(on_cluster, nodes, cores) for nodes, cores in sizes]
    for what, measured in table_rows(lines):
        bench.row(what, measured)
    bench.finish()


if __name__ == "__main__":
    main()
