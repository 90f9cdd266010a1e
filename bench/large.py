"""The largest graph on one machine: from a text file of edges to tokens on disk, bounded labels.

`python -m bench.large` writes a file of 200 million edges among 20 million nodes, reads it, builds
labels with the largest radius that fits, draws tokens, and adds a line to `large.jsonl`; `--render
FILE` prints the table of the last line.
"""

import argparse
import json
import shutil
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from bench.measure import machine, status_bytes
from dhilgt import Graph, HubLabels, Tokens
from dhilgt.benchmark.lines import script_command, signed_line

_CHUNK = 10_000_000  # edges written at a time
_SKEW = 3  # the target of an edge is node n u ** 3 of a uniform u, before ids are scattered
_SCATTER = 2_654_435_761


def write_edges(path: Path, num_nodes: int, num_edges: int) -> None:
    """Write edges whose sources are uniform and whose targets follow a power law."""
    import pyarrow as pa
    from pyarrow import csv

    random = np.random.default_rng(0)
    options = csv.WriteOptions(include_header=False)
    with path.open("wb") as file:
        file.write(b"source,target\n")
        for begin in range(0, num_edges, _CHUNK):
            count = min(_CHUNK, num_edges - begin)
            sources = random.integers(0, num_nodes, count)
            targets = (num_nodes * random.random(count) ** _SKEW).astype(np.int64)
            targets = targets * _SCATTER % num_nodes
            csv.write_csv(pa.table({"source": sources, "target": targets}), file, options)


def measure(num_nodes: int, num_edges: int, size: int, folder: Path) -> dict[str, Any]:
    """Return the seconds of each stage, and the largest memory."""
    edges = folder / "edges.csv"
    write_edges(edges, num_nodes, num_edges)
    marks = [time.perf_counter()]
    graph = Graph.read(edges)
    marks.append(time.perf_counter())
    after_reading = status_bytes("VmHWM")
    labels = HubLabels.build(graph, radius="auto")
    marks.append(time.perf_counter())
    tokens = Tokens.build(labels, size=size, path=folder / "tokens")
    marks.append(time.perf_counter())
    stages = dict(zip(("read", "labels", "tokens"), np.diff(marks).tolist(), strict=True))
    on_disk = sum(file.stat().st_size for file in (folder / "tokens").iterdir())
    return {
        "nodes": graph.num_nodes,
        "edges": graph.num_edges,
        "file_bytes": edges.stat().st_size,
        "radius": labels.radius,
        "entries": labels.num_entries,
        "labels_bytes": labels.nbytes,
        "size": size,
        "tokens": len(tokens),
        "tokens_bytes": on_disk,
        "stages": stages,
        "seconds": marks[-1] - marks[0],
        "peak_bytes_after_reading": after_reading,
        "peak_bytes": status_bytes("VmHWM"),
        "swapped_bytes": status_bytes("VmSwap"),
    }


def table(one: dict[str, Any]) -> str:
    """Return the figures of a line as Markdown."""
    stages = ", ".join(f"{name} {seconds:.0f} s" for name, seconds in one["stages"].items())
    edges = one["edges"] // 2  # counted in both directions
    rows = [
        (
            "graph",
            f"{one['nodes']:,} nodes, {edges:,} edges, {_gb(one['file_bytes'])} of text",
        ),
        ("cores and memory used", f"{one['machine']['cores']} cores, {_gb(one['peak_bytes'])}"),
        ("of it swapped", _gb(one["swapped_bytes"])),
        ("radius that was chosen", f"{one['radius']}"),
        ("labels", f"{one['entries']:,} entries, {_gb(one['labels_bytes'])}"),
        ("tokens", f"{one['tokens']:,} of {one['size']} slots, {_gb(one['tokens_bytes'])} on disk"),
        ("time", f"{one['seconds']:.0f} s: {stages}"),
    ]
    lines = ["| what | measured |", "|---|---|", *(f"| {a} | {b} |" for a, b in rows)]
    return "\n".join(lines)


def _gb(num_bytes: int) -> str:
    return f"{num_bytes / 1e9:.1f} GB"


def main() -> None:
    """Measure and write a line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=20_000_000)
    parser.add_argument("--edges", type=int, default=200_000_000)
    parser.add_argument("--size", type=int, default=16, help="slots of a token")
    parser.add_argument("--results", type=Path, default=Path("bench-results"))
    parser.add_argument("--render", type=Path, help="file of results to show")
    options = parser.parse_args()
    if options.render is not None:
        print(table(json.loads(options.render.read_text().splitlines()[-1])))
        return
    folder = Path(tempfile.mkdtemp())
    try:
        figures = measure(options.nodes, options.edges, options.size, folder)
    finally:
        shutil.rmtree(folder)
    print(json.dumps(figures))
    options.results.mkdir(parents=True, exist_ok=True)
    line = {**figures, "machine": machine(), "command": script_command()}
    with (options.results / "large.jsonl").open("ab") as file:
        file.write(signed_line(line) + b"\n")


if __name__ == "__main__":
    main()
