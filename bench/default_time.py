"""From files to predictions and report with nothing set: `python -m bench.default_time`.

Wall-clock seconds of `dhilgt train` and `dhilgt predict` in fresh processes, nothing in the cache,
and beside cora those of a GCN searched with the same number of trainings and epochs. Lines are
appended to `default-time.jsonl`, from which `--render` makes a table. Needs the datasets
(`DHILGT_DATA`).
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy import sparse

from bench.gcn_search import trainings
from bench.measure import machine
from dhilgt import Graph, datasets
from dhilgt.benchmark.lines import script_command, signed_line

PEERS = ("cora",)
_MOST_TEXT_COLUMNS = 2000  # wider features are written as a sparse NPZ, as nobody has such a CSV


def write_files(graph: Graph, folder: Path) -> None:
    """Write edges, features, classes and split as a user would have them."""
    nodes = np.arange(graph.num_nodes)
    sources = np.repeat(nodes, np.diff(graph.offsets))
    once = sources < graph.targets  # each edge has both directions
    _write(folder / "edges.csv", "source,target", sources[once], graph.targets[once])
    _write(folder / "nodes.csv", "id", nodes)
    assert graph.labels is not None, "a dataset has classes"
    assert graph.masks is not None, "and a split"
    known = np.flatnonzero(graph.labels >= 0)
    _write(folder / "labels.csv", "id,label", known, graph.labels[known])
    parts = np.full(graph.num_nodes, "", dtype="U5")
    for part, mask in graph.masks.items():
        parts[mask] = part
    split = np.flatnonzero(parts != "")
    _write(folder / "split.csv", "id,part", split, parts[split])
    features = graph.features
    assert features is not None, "and features"
    if features.shape[1] > _MOST_TEXT_COLUMNS:
        sparse.save_npz(folder / "features.npz", sparse.csr_matrix(features))
        return
    dense = features.toarray() if sparse.issparse(features) else np.asarray(features)
    heads = ["id", *(f"w{at}" for at in range(dense.shape[1]))]
    with (folder / "features.csv").open("w", encoding="utf-8") as file:
        file.write(",".join(heads) + "\n")
        for node, row in enumerate(dense):
            file.write(f"{node}," + ",".join(f"{value:g}" for value in row) + "\n")


def _write(path: Path, head: str, *columns: Any) -> None:
    rows = (",".join(map(str, row)) for row in zip(*columns, strict=True))
    path.write_text("\n".join([head, *rows]) + "\n", encoding="utf-8")


def timed(command: list[str], cache: Path) -> tuple[float, str]:
    """Return the seconds of a command in a fresh process with an empty cache, and its output."""
    variables = {**os.environ, "DHILGT_CACHE": str(cache / "cache")}
    start = time.perf_counter()
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=variables)
    return time.perf_counter() - start, done.stdout


def ours(folder: Path, run: Path, metric: str, epochs: int | None) -> dict[str, Any]:
    """Return the seconds of training with report and of predictions, and what was tried."""
    shell = [sys.executable, "-m", "dhilgt"]
    features = next(folder.glob("features.*"))
    train = [*shell, "train", "--edges", str(folder / "edges.csv"), "--nodes"]
    train += [str(folder / "nodes.csv"), "--features", str(features), "--json"]
    train += ["--labels", str(folder / "labels.csv"), "--split", str(folder / "split.csv")]
    train += ["--metric", metric] if metric != "accuracy" else []
    train += ["--epochs", str(epochs)] if epochs is not None else []
    train += ["-o", str(run)]
    trained, printed = timed(train, run.parent)
    predict = [*shell, "predict", str(run), "-o", str(run.parent / "predictions.csv"), "--quiet"]
    predicted, _ = timed(predict, run.parent)
    found: dict[str, Any] = {
        "system": "default",
        "seconds": trained + predicted,
        "train_seconds": trained,
        "predict_seconds": predicted,
        "features": features.suffix[1:],
        "test": json.loads(printed)["scores"]["test"][metric],
        "report": (run / "report.html").is_file(),
        "command": " ".join(train[2:]).replace(f"{run.parent}/", ""),
    }
    search = run / "search.json"
    if search.is_file():
        plan = trainings(json.loads(search.read_text(encoding="utf-8")))
        found |= {"candidates": len(plan), "trainings": sum(map(len, plan))}
        found |= {"epochs": sum(map(sum, plan))}
    return found


def peer(folder: Path, run: Path) -> dict[str, Any]:
    """Return the seconds of a GCN searched with the same budget, and its scores."""
    command = [sys.executable, "-m", "bench.gcn_search", str(folder), str(run / "search.json")]
    seconds, printed = timed([*command, str(run.parent / "gcn.csv")], run.parent)
    return {"system": "gcn, searched", "seconds": seconds, **json.loads(printed.splitlines()[-1])}


def measure(data: str, epochs: int | None) -> list[dict[str, Any]]:
    """Return the lines of a dataset."""
    metric = datasets.info(data).metric
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) / "files"
        folder.mkdir()
        write_files(datasets.load(data, seed=10), folder)
        run = Path(temporary) / "run"
        lines = [ours(folder, run, metric, epochs)]
        if data in PEERS and "trainings" not in lines[0]:
            print(f"{data}: the run has no search.json, so that its peer has no budget", flush=True)
        elif data in PEERS:
            lines.append(peer(folder, run))
            lines[0]["ratio"] = lines[0]["seconds"] / lines[1]["seconds"]
    gpu = torch.cuda.get_device_name() if torch.cuda.is_available() else None
    about = {"data": data, "machine": {**machine(), "torch": torch.__version__, "gpu": gpu}}
    return [{**line, **about} for line in lines]


def table(lines: list[dict[str, Any]]) -> str:
    """Return the last line of each dataset, system and machine as a Markdown table."""
    names = ("seconds", "train_seconds", "candidates", "trainings", "epochs", "test", "ratio")
    rows = ["| graph | system | machine | " + " | ".join(names) + " |"]
    rows.append("|---|---|---|" + "---:|" * len(names))
    last = {(line["data"], line["system"], _machine(line)): line for line in lines}
    for (data, system, where), line in last.items():
        values = [f"{line[name]:,.4g}" if line.get(name) is not None else "–" for name in names]
        rows.append(f"| {data} | {system} | {where} | " + " | ".join(values) + " |")
    return "\n".join(rows) + "\n"


def _machine(line: dict[str, Any]) -> str:
    about = line["machine"]
    gpu = f"{about['gpu']}, " if about.get("gpu") else ""
    return f"{gpu}{about['cores']} cores of {about['cpu']}"


def main() -> None:
    """Measure the datasets, print the figures and append the lines."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", default="cora,pubmed,physics")
    parser.add_argument("--results", type=Path, default=Path("bench-results"))
    parser.add_argument("--epochs", type=int, help="the last rung, for trials of this script")
    parser.add_argument("--render", type=Path, help="print the table of a file of lines")
    options = parser.parse_args()
    if options.render is not None:
        lines = options.render.read_text(encoding="utf-8").splitlines()
        print(table([json.loads(line) for line in lines]), end="")
        return
    options.results.mkdir(parents=True, exist_ok=True)
    for data in options.data.split(","):
        for line in measure(data, options.epochs):
            with (options.results / "default-time.jsonl").open("a", encoding="utf-8") as file:
                signed = signed_line({**line, "command": script_command()})
                file.write(signed.decode() + "\n")
            shown = ("candidates", "trainings", "epochs", "test", "ratio")
            more = ", ".join(f"{name} {line[name]:.4g}" for name in shown if name in line)
            print(f"{data}, {line['system']}: {line['seconds']:.1f} s; {more}", flush=True)


if __name__ == "__main__":
    main()
