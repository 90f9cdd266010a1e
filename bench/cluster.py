"""Labels and tokens on a cluster of one machine: time, and what the simulator predicts.

Every ratio is of one run of this program: the plain call, one worker and two, each three times in
turn, and, with 16 cores, a larger graph on one node of four cores and on four of them. What four
times the cores of that machine are worth is measured, too: as many plain builds at once that have
nothing to do with each other. `python -m bench.cluster` writes `cluster.jsonl` and its table;
`--only large` measures the second half alone.
"""

import hashlib
import json
import multiprocessing
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
from dhilgt import Graph, HubLabels, Tokens, generate

GRAPH = "ogbn-arxiv"
LARGE_NODES, LARGE_DEGREE = 1_000_000, 20.0
REPEATS = 3
_STORE_BYTES = 200 << 20  # object store of a node; units pass names of files
_SECONDS_BETWEEN_LOOKS = 0.1


def loaded(name: str) -> tuple[str, Graph]:
    """Return the graph of this name, or the large generated one, and what to call it."""
    if name == GRAPH:
        return graphs.load(name)
    return name, generate(LARGE_NODES, LARGE_DEGREE, seed=1, num_features=0)


def plain(threads: int) -> dict[str, Any]:
    """Measure `HubLabels.build`, `save` and `Tokens.build`, with files as a cluster writes them."""
    name, graph = loaded(GRAPH)
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


def side_by_side(count: int) -> dict[str, Any]:
    """Measure plain builds in as many processes at once, which share nothing but the machine."""
    processes = multiprocessing.get_context("spawn")
    with processes.Pool(count) as pool:
        seconds = pool.map(_seconds_of_a_build, range(count), chunksize=1)
    return {
        "what": "side by side",
        "graph": GRAPH,
        "count": count,
        "seconds_each": seconds,
        "seconds": sum(seconds) / count,
    }


def _seconds_of_a_build(_: int) -> float:
    _, graph = loaded(GRAPH)
    begin = time.perf_counter()
    HubLabels.build(graph, threads=1, progress=False)
    return time.perf_counter() - begin


def on_cluster(nodes: int, cores: int, what: str = GRAPH) -> dict[str, Any]:
    """Measure the same on nodes of some cores each; Ray is started before the clock."""
    name, graph = loaded(what)
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


def predicted_seconds(measured: dict[str, Any], nodes: int, cores: int, of: int = 1) -> float:
    """Return what the simulator makes of the units of a run with few workers, for more of them.

    Args:
        measured: The line of the run with one worker.
        nodes: Nodes to predict for.
        cores: Cores of each.
        of: Workers of the run, each with one core.
    """
    # A stage that took less than its units was done before, as a table that serves several is.
    done = [
        one for one in measured["stages"] if one["seconds"] >= 0.5 * sum(one["unit_seconds"]) / of
    ]
    stages = [Stage(one["stage"], tuple(one["unit_seconds"])) for one in done]
    units = sum(one["units"] for one in done[1:])
    ideal = {id(stage): simulate([stage], Workers(of)).seconds for stage in stages}
    beside = sum(
        one["seconds"] - ideal[id(stage)] for one, stage in zip(done[1:], stages[1:], strict=True)
    )
    # What is not done by units, and the start of the workers, which the first stage waits for.
    alone = measured["seconds"] - sum(one["seconds"] for one in done)
    alone += done[0]["seconds"] - ideal[id(stages[0])]
    overhead = max(0.0, beside * of / units)
    run = simulate(stages, Workers(nodes * cores, unit_overhead_seconds=overhead))
    return alone + run.seconds


def table_rows(lines: list[dict[str, Any]]) -> list[tuple[str, str]]:
    """Return the rows of the table from the lines of a run."""
    digests: dict[str, set[str]] = {}
    runs: dict[tuple[str, str, int, int], list[dict[str, Any]]] = {}
    for line in lines:
        if "tokens_digest" in line:
            digests.setdefault(line["graph"], set()).add(line["tokens_digest"])
        key = (line["what"], line["graph"], line.get("nodes", 0), line.get("cores", 0))
        runs.setdefault(key, []).append(line)
    assert all(len(found) == 1 for found in digests.values()), "tokens differ"
    middle = {key: sorted(found, key=_seconds)[len(found) // 2] for key, found in runs.items()}
    rows: list[tuple[str, str]] = []
    for name in sorted({key[1] for key in middle if key[0] == "plain"}):
        alone = middle["plain", name, 0, 0]
        one, two = (middle["cluster", name, nodes, 1] for nodes in (1, 2))
        rows += [
            (
                f"{name}, labels and tokens, one core",
                f"plain {alone['seconds']:.1f} s, one worker {one['seconds']:.1f} s, "
                f"{one['seconds'] / alone['seconds']:.2f} x",
            ),
            (
                "two workers of one core",
                f"{two['seconds']:.1f} s, {one['seconds'] / two['seconds']:.2f} x of one; the "
                f"simulator predicts {predicted_seconds(one, 2, 1):.1f} s",
            ),
        ]
    for (what, graph, nodes, cores), four in middle.items():
        if (what, nodes, cores) != ("cluster", 4, 4):
            continue
        node = middle["cluster", graph, 1, 4]
        rows += [
            (f"{graph}, a node of four cores", f"{node['seconds']:.1f} s"),
            (
                f"{graph}, four nodes of four cores",
                f"{four['seconds']:.1f} s, {node['seconds'] / four['seconds']:.2f} x of one node; "
                f"the simulator predicts {predicted_seconds(node, 4, 4, of=4):.1f} s; all units "
                f"together took {_of_units(four) / _of_units(node):.2f} times as long",
            ),
        ]
    apart = {line["count"]: line["seconds"] for line in lines if line["what"] == "side by side"}
    if {4, 16} <= set(apart):
        rows.append(
            (
                "plain builds at once that share nothing",
                f"4: {apart[4]:.1f} s each, 16: {apart[16]:.1f} s each; 16 cores of this machine "
                f"do {4 * apart[4] / apart[16]:.2f} times the work of four",
            )
        )
    return rows


def _of_units(line: dict[str, Any]) -> float:
    return sum(sum(stage["unit_seconds"]) for stage in line["stages"])


def _seconds(line: dict[str, Any]) -> float:
    return float(line["seconds"])


def main() -> None:
    """Measure, compare and write, or make the table from recorded lines."""
    if sys.argv[1:2] == ["--render"]:
        text = Path(sys.argv[2]).read_text(encoding="utf-8")
        print("| what | measured |\n|---|---|")
        for what, measured in table_rows([json.loads(line) for line in text.splitlines()]):
            print(f"| {what} | {measured} |")
        return
    parts = [plain, on_cluster, side_by_side]
    bench = Bench("cluster", parts, __doc__ or "", shares=("large",))
    lines = []
    for _ in range(0 if bench.only == "large" else REPEATS):
        lines.append(bench.measured(plain, 1))
        lines += [bench.measured(on_cluster, nodes, 1) for nodes in (1, 2)]
    if len(os.sched_getaffinity(0)) >= 16:
        name = f"generated, {LARGE_NODES:,} nodes"
        lines += [bench.measured(on_cluster, nodes, 4, name) for nodes in (1, 4)]
        lines += [bench.measured(side_by_side, count) for count in (4, 16)]
    for what, measured in table_rows(lines):
        bench.row(what, measured)
    bench.finish()


if __name__ == "__main__":
    main()
