"""The default on graphs that averages of features say little about, beside a GCN tuned later.

`python -m bench.made_graphs` draws two graphs by their published recipes or in their manner: a
minesweeper board, where the class is whether a cell has a mine, and a chain with short-cuts, as the
words of a text and their grammar make one, where the class is a function of the kinds of a node and
of two neighbours. It trains the default, the default without messages and the GCN, on a split of
60/20/20 per cent, and prints their test scores; `--render FILE` prints those of a file.
"""

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import dhilgt
from bench.measure import machine
from dhilgt import baselines
from dhilgt.benchmark.lines import check_line, script_command, signed_line

METRICS = {"grid": "roc_auc", "chain": "accuracy"}
_KINDS, _COARSE, _CLASSES = 12, 3, 10  # of the nodes of a chain


def grid(seed: int, side: int = 100) -> dhilgt.Graph:
    """Return a board: cells touch eight others, a fifth have mines, half show their neighbours'."""
    rng = np.random.default_rng(seed)
    cells = np.arange(side**2).reshape(side, side)
    pairs = [
        (cells[:, :-1], cells[:, 1:]),
        (cells[:-1], cells[1:]),
        (cells[:-1, :-1], cells[1:, 1:]),
        (cells[:-1, 1:], cells[1:, :-1]),
    ]
    src, dst = (np.concatenate([pair[end].ravel() for pair in pairs]) for end in (0, 1))
    mines = rng.random(side**2) < 0.2
    near = np.bincount(src, mines[dst], side**2) + np.bincount(dst, mines[src], side**2)
    shown = np.where(rng.random(side**2) < 0.5, np.minimum(near, 6), 7).astype(np.int64)
    return _with_split(src, dst, np.eye(8, dtype=np.float32)[shown], mines.astype(np.int64), rng)


def chain(seed: int, length: int = 10_000) -> dhilgt.Graph:
    """Return a chain of nodes, each joined to the next one and to one a few steps away."""
    rng = np.random.default_rng(seed)
    follows = rng.dirichlet(np.full(_KINDS, 0.3), size=_KINDS)
    kinds = np.zeros(length, np.int64)
    for at in range(1, length):
        kinds[at] = rng.choice(_KINDS, p=follows[kinds[at - 1]])
    places = np.arange(length)
    other = np.clip(places + rng.choice([-4, -3, -2, 2, 3, 4], size=length), 0, length - 1)
    src = np.concatenate([places[:-1], places[places != other]])
    dst = np.concatenate([places[1:], other[places != other]])
    table = rng.integers(0, _CLASSES, size=(_KINDS, _COARSE, _COARSE))
    coarse = kinds % _COARSE
    classes = table[kinds, np.append(coarse[1:], 0), coarse[other]]
    features = rng.normal(size=(_KINDS, 64))[kinds] + 0.7 * rng.normal(size=(length, 64))
    return _with_split(src, dst, features.astype(np.float32), classes, rng)


def _with_split(
    src: Any, dst: Any, features: Any, classes: Any, rng: np.random.Generator
) -> dhilgt.Graph:
    part = rng.permutation(len(features)) % 5
    masks = {"train": part < 3, "val": part == 3, "test": part == 4}
    return dhilgt.Graph.from_edges(
        src, dst, num_nodes=len(features), features=features, labels=classes, masks=masks
    )


def default(graph: dhilgt.Graph, metric: str, seed: int, **given: Any) -> float:
    """Return the test score of the default."""
    clf = dhilgt.NodeClassifier(seed=seed, metric=metric, cache=False, progress=False, **given)
    return clf.fit(graph).scores_["test"][metric]


def tuned_gcn(graph: dhilgt.Graph, metric: str, seed: int) -> float:
    """Return the test score of a GCN with the settings of Luo, Shi and Wu."""
    model = baselines.create("gcn", graph, variant="tuned", seed=seed)
    train, val, test = (np.flatnonzero(graph.masks[name]) for name in ("train", "val", "test"))
    config = model.train_config(seed=seed, metric=metric)
    result = baselines.fit(model, train, val, config)
    return float(result.trainer.evaluate(model.inference_batches(test))[metric])


SYSTEMS: dict[str, Callable[[dhilgt.Graph, str, int], float]] = {
    "default": default,
    "default without messages": lambda *what: default(*what, message_layers=0),
    "GCN (tuned)": tuned_gcn,
}
GRAPHS = {"grid": grid, "chain": chain}


def table(lines: list[dict[str, Any]]) -> str:
    """Return the mean test scores by graph and system, as Markdown."""
    text = ["| graph | system | seeds | test score |", "|---|---|---:|---:|"]
    for name in GRAPHS:
        for system in SYSTEMS:
            found = [one for one in lines if (one["graph"], one["system"]) == (name, system)]
            if found:
                score = 100 * np.mean([one["score"] for one in found])
                title = f"{name}, {METRICS[name]}"
                text.append(f"| {title} | {system} | {len(found)} | {score:.2f} |")
    return "\n".join(text)


def read(path: Path) -> list[dict[str, Any]]:
    """Return the lines of a file of results, each compared with its hash."""
    lines = [json.loads(text) for text in path.read_text(encoding="utf-8").splitlines()]
    for line in lines:
        check_line(line)
    return lines


def main() -> None:
    """Train what was asked for, append a line each, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--graphs", default=",".join(GRAPHS))
    parser.add_argument("--seeds", type=int, default=1, help="of graph, split and weights")
    parser.add_argument("-o", "--output", type=Path, default=Path("made-graphs.jsonl"))
    parser.add_argument("--render", type=Path, help="a file of results to show")
    options = parser.parse_args()
    if options.render is not None:
        print(table(read(options.render)))
        return
    for seed in range(options.seeds):
        for name in options.graphs.split(","):
            graph = GRAPHS[name](seed)
            for system, train in SYSTEMS.items():
                line = {
                    "graph": name, "seed": seed, "system": system, "metric": METRICS[name],
                    "score": train(graph, METRICS[name], seed),
                    "machine": machine(), "command": script_command(),
                }  # fmt: skip
                with options.output.open("ab") as file:
                    file.write(signed_line(line) + b"\n")
    print(table(read(options.output)))


if __name__ == "__main__":
    main()
