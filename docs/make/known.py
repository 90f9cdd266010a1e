"""Baselines against figures their own papers report, each under the protocol of its paper.

`python -m docs.make.known --jobs 8` trains (on a GPU if there is one), adds a JSON line per run to
known.jsonl in the folder of results, and writes known-table.md from all lines there; what has a
line is not run again. `--render` writes the table alone. Trainings end by their own rule; runs of
earlier lines that a clock ended are not scored.
"""

import argparse
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from docs.make import lines_of, markdown

from dhilgt.benchmark.lines import script_command, signed_line
from dhilgt.benchmark.show.tables import score_text
from dhilgt.utils.workers import Workers


@dataclass(frozen=True)
class Check:
    """A published figure, and its protocol.

    Attributes:
        system: Name of the baseline.
        variant: Its named settings.
        data: Dataset.
        split: As for `dhilgt.datasets.load`.
        seeds: Of split (where there are several) and training.
        low: The known figure's range, per cent.
        high: Its upper end.
        model: Changed settings of the model.
        training: Changed settings of the training.
        rows_sum_to_one: Whether rows of features are divided by their sum before.
    """

    system: str
    variant: str
    data: str
    split: str
    seeds: tuple[int, ...]
    low: float
    high: float
    model: Mapping[str, Any] = field(default_factory=dict)
    training: Mapping[str, Any] = field(default_factory=dict)
    rows_sum_to_one: bool = False

    @property
    def name(self) -> str:
        """Of the check, without seeds."""
        return f"{self.system}:{self.variant} {self.data} {self.split}"


CHECKS = (
    Check("gcn", "tuned", "squirrel", "official", tuple(range(10)), 43.0, 46.0,
          {"num_layers": 4, "dropout": 0.7}, {"epochs": 500}),
    Check("gcn", "tuned", "chameleon", "official", tuple(range(10)), 42.9, 49.7,
          {"hidden_channels": 512, "num_layers": 5, "dropout": 0.2, "norm": "none",
           "residual": False}, {"lr": 0.005, "weight_decay": 1e-3}),
    Check("sage", "tuned", "squirrel", "official", tuple(range(10)), 39.3, 42.3,
          {"dropout": 0.7, "feature_dropout": False}, {"patience": None}),
    Check("sage", "tuned", "chameleon", "official", tuple(range(10)), 40.0, 49.6,
          {"num_layers": 4, "dropout": 0.7, "feature_dropout": False},
          {"epochs": 200, "weight_decay": 1e-3, "patience": None}),
    Check("goat", "paper", "chameleon", "official", tuple(range(10)), 35.0, 43.4),
    Check("linkx", "paper", "chameleon", "official", tuple(range(10)), 40.0, 43.9),
    Check("linkx", "paper", "squirrel", "official", tuple(range(10)), 39.8, 42.0),
    Check("mlp", "paper", "tolokers", "official", tuple(range(10)), 71.8, 74.1),
    Check("sgformer", "paper", "chameleon", "official", tuple(range(10)), 41.0, 48.8),
    Check("sgformer", "paper", "squirrel", "official", tuple(range(10)), 39.6, 44.0),
    Check("polyformer", "tolokers", "tolokers", "official", tuple(range(10)), 83.5, 84.5),
    Check("graphgps", "tuned", "cora", "official", (0, 1, 2, 3, 4), 81.8, 83.9),
    Check("nagphormer", "paper", "physics", "paper", (0, 1, 2), 97.0, 97.4),
    Check("difformer", "released", "cora", "official", (0, 1, 2, 3, 4), 84.0, 86.0,
          rows_sum_to_one=True),
    Check("nodeformer", "paper", "cora", "50/25/25", (0, 1, 2, 3, 4), 88.5, 89.0,
          rows_sum_to_one=True),
    Check("polynormer", "relu", "physics", "paper", (0,), 97.0, 97.4),
    Check("polynormer", "relu", "tolokers", "official", (0,), 84.0, 86.0),
    Check("hsgt", "paper", "cora", "official", (0, 1, 2), 82.0, 84.0),
    Check("graphormer", "full", "chameleon", "official", tuple(range(10)), 39.1, 44.7,
          {"num_layers": 3}),
    Check("graphormer", "full", "squirrel", "official", tuple(range(10)), 38.4, 43.4,
          {"num_layers": 3}),
    Check("graphormer", "full", "cora", "paper", (0, 1, 2), 72.1, 73.6),
    Check("ansgt", "released", "cora", "paper", (0,), 87.5, 89.0, {}, {"eval_every": 5}),
)  # fmt: skip


def run_check(check: Check, seed: int, root: str | None) -> dict[str, Any]:
    """Train once, in a process of its own, and return the line of the run."""
    import numpy as np
    import torch

    from dhilgt import baselines, datasets
    from dhilgt.metrics import metric
    from dhilgt.training.run_folder import environment

    graph = datasets.load(check.data, root, split=check.split, seed=seed)
    if check.rows_sum_to_one:
        x = np.asarray(graph.features.todense() if hasattr(graph.features, "todense")
                       else graph.features, np.float32)  # fmt: skip
        graph = graph.with_data(features=x / np.maximum(x.sum(1, keepdims=True), 1e-12))
    name = datasets.info(check.data).metrics[0]
    start = time.perf_counter()
    model = baselines.create(check.system, graph, variant=check.variant, seed=seed, **check.model)
    config = model.train_config(check.variant, metric=name, seed=seed, **check.training)
    masks = graph.masks
    assert masks is not None, "a dataset has a split"
    result = baselines.fit(
        model, masks["train"], masks["val"], config, metric=metric(name), progress=False
    )
    test = result.trainer.evaluate(model.inference_batches(masks["test"]))
    machine = environment(result.trainer.device, 1)
    machine.pop("release", None)
    out_of_time = any(phase.out_of_time for phase in result.phases.values())
    return {
        "check": check.name, "seed": seed, "score": float(test[name]), "metric": name,
        "val_score": result.best_score, "epochs": result.epochs, "out_of_time": out_of_time,
        "seconds": time.perf_counter() - start, "environment": machine,
        "training": config.to_dict(), "cuda": torch.cuda.is_available(),
    }  # fmt: skip


def table(lines: list[dict[str, Any]]) -> str:
    """Return the table as Markdown."""
    head = ("system", "graph", "split", "known", "measured", "seeds", "epochs", "reading")
    rows = [head, tuple("---" for _ in head)]
    for check in CHECKS:
        runs = [line for line in lines if line["check"] == check.name]
        if not runs:
            continue
        epochs = max(run["epochs"] for run in runs)
        if any(run["out_of_time"] for run in runs):
            shown, reading = "–", "not trained to the end: a limit of time"
        else:
            shown = score_text([run["score"] for run in runs])
            reading = _reading(check, shown)
        rows.append((
            f"{check.system}:{check.variant}", check.data, check.split,
            f"{check.low:g} to {check.high:g}", shown, str(len(runs)), str(epochs), reading,
        ))  # fmt: skip
    return markdown(rows)


def _reading(check: Check, shown: str) -> str:
    """Return how a score, as it is shown, compares with the known range."""
    mean, _, spread = shown.partition(" ± ")
    below = check.low - float(mean)
    if below > 0:
        within = bool(spread) and below <= 2 * float(spread)
        return f"{below:.1f} below" + (", within two deviations" * within)
    return "met" if float(mean) <= check.high else "above"


def main() -> None:
    """Run what has no line, then write the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--results", type=Path, default=Path("docs/results"))
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--budget", type=float, default=3600, help="no run begins after it")
    parser.add_argument("--systems", nargs="+", help="some of them only")
    parser.add_argument("--root", help="folder of the datasets")
    parser.add_argument("--render", action="store_true", help="write the table alone")
    options = parser.parse_args()
    options.results.mkdir(parents=True, exist_ok=True)
    path = options.results / "known.jsonl"
    lines = lines_of(path)
    done = {(line["check"], line["seed"]) for line in lines}
    waiting = [] if options.render else [
        (check, seed) for at in range(10) for check in CHECKS for seed in check.seeds[at : at + 1]
        if (check.name, seed) not in done
        and (options.systems is None or check.system in options.systems)
    ]  # fmt: skip
    end = time.time() + options.budget
    with Workers(options.jobs) as workers:

        def start() -> None:
            while waiting and workers.running < options.jobs and time.time() < end:
                check, seed = waiting.pop(0)
                name = f"{check.name} seed {seed}"
                workers.start(name, run_check, check, seed, options.root)

        start()
        for name, line in workers.results(start):
            print(f"{name}: {line['score']:.4f}, {line['epochs']} epochs, {line['seconds']:.0f} s")
            line["command"] = script_command()
            lines.append(line)
            with path.open("a", encoding="utf-8") as file:
                file.write(signed_line(line).decode() + "\n")
    (options.results / "known-table.md").write_text(table(lines), encoding="utf-8")


if __name__ == "__main__":
    main()
