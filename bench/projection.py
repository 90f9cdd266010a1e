"""What labels and tokens of graphs past these machines take: measured units, carried on.

`python -m bench.projection` builds bounded labels of generated graphs in units, draws some tokens,
and adds a line for each graph to `projection.jsonl`; `--render FILE` fits the growth of every
figure to a power of the number of nodes, schedules the units on clusters by `bench.simulation`, and
prints the tables of the page.
"""

import argparse
import json
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from bench.measure import exponent, machine
from bench.simulation import Stage, Workers, simulate
from dhilgt import HubLabels, Tokens, generate
from dhilgt.benchmark.lines import script_command, signed_line
from dhilgt.labels import sharding

DEGREE = 10.0
SIZES = (100_000, 300_000, 1_000_000, 3_000_000, 10_000_000)
TARGETS = (100_000_000, 1_000_000_000)
MACHINES, CORES = (16, 64, 256), 32
_ROWS = 32_768  # token rows drawn, a shard
_UNIT_SECONDS = 60.0  # of the units of a large build, about
# One worker of fifty is slow, and each dies once in a thousand hours.
_TROUBLE = {"slow_fraction": 0.02, "slow_factor": 3.0, "deaths_per_hour": 0.001}


def measure(num_nodes: int, radius: int) -> dict[str, Any]:
    """Build the labels of a graph unit by unit, with one thread, and draw a shard of tokens."""
    graph = generate(num_nodes, DEGREE, seed=1, num_features=0)
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder, "work")
        work.mkdir()
        files = sharding.write_ranked_graph(graph, None, work / "graph")
        plan = sharding.plan_shards(files, num_ranges=8)
        stages = list(sharding.search_stages(files, plan, work, radius=radius))
        shards = [one for stage in stages for one in stage.shards]
        table_bytes = stages[-1].table.num_bytes if stages[-1].table else 0
        unit_seconds = [[one.seconds for one in stage.shards] for stage in stages]
        begin = time.perf_counter()
        parts = sharding.merge_stages(files, plan, work, stages, radius=radius)
        merge_seconds = time.perf_counter() - begin
        path = Path(folder, "labels")
        sharding.finish(path, files, parts, folder=work, radius=radius)
        labels = HubLabels.load(path)
        nodes = np.random.default_rng(0).choice(num_nodes, min(_ROWS, num_nodes), replace=False)
        tokens = Tokens.build(labels, nodes=np.sort(nodes), threads=1, progress=False)
        assert tokens.traffic is not None, "labels in parts count what is read"
        return {
            "nodes": num_nodes,
            "arcs": int(graph.targets.size),
            "radius": radius,
            "entries": labels.num_entries,
            "labels_bytes": sum(file.stat().st_size for file in path.iterdir()),
            "work_bytes": sum(one.num_bytes for one in shards) + table_bytes,
            "table_bytes": table_bytes,
            "unit_peak_bytes": max(one.peak_bytes for one in shards),
            "stage_unit_seconds": unit_seconds,
            "search_seconds": sum(map(sum, unit_seconds)),
            "table_seconds": sum(one.table_seconds for one in stages),
            "merge_seconds": merge_seconds,
            "token_seconds": tokens.traffic.seconds / tokens.traffic.num_rows,
            "token_moved_bytes": tokens.traffic.num_bytes / tokens.traffic.num_rows,
        }


def carried(lines: list[dict[str, Any]], key: str, num_nodes: int) -> float:
    """Return a figure for a larger graph, by the power of the nodes that fits the measured ones."""
    sizes = [float(one["nodes"]) for one in lines]
    values = [float(one[key]) for one in lines]
    power = exponent(sizes, values)
    scale = float(np.mean(np.log(values) - power * np.log(sizes)))
    return float(np.exp(scale + power * np.log(num_nodes)))


def predicted(lines: list[dict[str, Any]], num_nodes: int, machines: int) -> dict[str, float]:
    """Return what a large graph takes on a number of machines."""
    work = {
        key: carried(lines, f"{key}_seconds", num_nodes) for key in ("search", "table", "merge")
    }
    work["token"] = carried(lines, "token_seconds", num_nodes) * num_nodes
    stages = [
        Stage("search", _units(0.5 * work["search"])),
        Stage("table", _units(work["table"])),
        Stage("search", _units(0.5 * work["search"])),
        Stage("merge", _units(work["merge"])),
        Stage("tokens", _units(work["token"])),
    ]
    workers = machines * CORES
    calm = simulate(stages, Workers(workers, unit_overhead_seconds=0.01))
    rough = simulate(stages, Workers(workers, unit_overhead_seconds=0.01, **_TROUBLE))
    moved = carried(lines, "token_moved_bytes", num_nodes) * num_nodes
    return {
        "core_hours": sum(work.values()) / 3600,
        "hours": calm.seconds / 3600,
        "hours_with_trouble": rough.seconds / 3600,
        "deaths": rough.deaths,
        "moved_per_machine_bytes": moved / machines,
    }


def _units(seconds: float) -> tuple[float, ...]:
    count = max(1, round(seconds / _UNIT_SECONDS))
    return (seconds / count,) * count


def tables(lines: list[dict[str, Any]]) -> str:
    """Return the tables of the page."""
    text = [
        "| nodes | radius | entries a node | search, s a million nodes | merge, s a million nodes |"
        " labels on disk, bytes a node | table, bytes a node | a token, µs | moved, bytes a token|",
        "|---:|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for one in sorted(lines, key=lambda line: (line["radius"], line["nodes"])):
        n = one["nodes"]
        text.append(
            f"| {n:,} | {one['radius']} | {one['entries'] / n:.1f} "
            f"| {1e6 * one['search_seconds'] / n:.1f} | {1e6 * one['merge_seconds'] / n:.1f} "
            f"| {one['labels_bytes'] / n:.0f} | {one['table_bytes'] / n:.0f} "
            f"| {1e6 * one['token_seconds']:.0f} | {one['token_moved_bytes']:.0f} |"
        )
    text += [
        "",
        "| nodes | radius | entries a node | labels on disk | graph, mapped by each machine "
        "| machines of 32 cores | core hours | hours | with slow and dying machines "
        "| moved to each machine for tokens |",
        "|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for radius in sorted({line["radius"] for line in lines}):
        known = [line for line in lines if line["radius"] == radius]
        for n in TARGETS:
            entries = carried(known, "entries", n) / n
            disk = carried(known, "labels_bytes", n) / 1e12
            graph = (8 * n + 4 * n * known[-1]["arcs"] / known[-1]["nodes"]) / 1e9
            for machines in MACHINES:
                one = predicted(known, n, machines)
                text.append(
                    f"| {n:,} | {radius} | {entries:.0f} | {disk:.2f} TB | {graph:.0f} GB "
                    f"| {machines} | {one['core_hours']:,.0f} | {one['hours']:.1f} "
                    f"| {one['hours_with_trouble']:.1f} ({one['deaths']:.0f} deaths) "
                    f"| {one['moved_per_machine_bytes'] / 1e9:,.0f} GB |"
                )
    return "\n".join(text)


def main() -> None:
    """Measure and write lines, or print the tables of recorded ones."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", default=",".join(map(str, SIZES)))
    parser.add_argument("--radii", default="2,3")
    parser.add_argument("--results", type=Path, default=Path("bench-results"))
    parser.add_argument("--render", type=Path, help="file of results to show")
    options = parser.parse_args()
    if options.render is not None:
        lines = [json.loads(line) for line in options.render.read_text().splitlines()]
        print(tables(lines))
        return
    options.results.mkdir(parents=True, exist_ok=True)
    for radius in map(int, options.radii.split(",")):
        for num_nodes in map(int, options.sizes.split(",")):
            figures = measure(num_nodes, radius)
            line = {**figures, "machine": machine(), "command": script_command()}
            with (options.results / "projection.jsonl").open("ab") as file:
                file.write(signed_line(line) + b"\n")
            print(num_nodes, radius, round(figures["search_seconds"], 1), flush=True)


if __name__ == "__main__":
    main()
