"""The table of scores, from the JSON lines under docs/results/scores.

`python -m docs.make.scores` writes docs/results/scores-table.md. The lines come from
`docs.make.search`: a folder per recipe, a file per dataset, a line per seed. `--cells FILE` writes
those of the best recipes as records of the paper's tables, for the seeds in the other files of its
folder.
"""

import argparse
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from docs.make import lines_of, markdown
from docs.make.search import published_scores

from dhilgt.benchmark import Record
from dhilgt.benchmark.experiments.paper_tables import slim
from dhilgt.benchmark.record import OK, Costs
from dhilgt.benchmark.running.data import about
from dhilgt.benchmark.running.grid import cells
from dhilgt.benchmark.running.recipe import BEST, OURS, PAPER, Recipe
from dhilgt.benchmark.show.tables import score_text

RECIPES = ("paper", "best")
HEAD = ("dataset", "metric", "published", "paper's recipe", "best recipe", "searched")


def score(runs: list[dict[str, Any]], part: str) -> str:
    """Return mean and standard deviation over the runs, per cent."""
    return score_text([run["scores"][part][run["metric"]] for run in runs])


def cell(runs: list[dict[str, Any]], published: str) -> str:
    """Return the test score, bold where it is at or above the published one, and the seeds."""
    if not runs:
        return "not run"
    shown = score(runs, "test")
    if float(shown.partition(" ")[0]) >= float(published.partition(" ")[0]):
        shown = f"**{shown}**"
    return f"{shown} ({len(runs)} seed{'s' if len(runs) > 1 else ''})"


def table(folder: Path) -> str:
    """Return the table as Markdown."""
    rows = [HEAD, tuple("---" for _ in HEAD)]
    for name, published in published_scores().items():
        paper, best = (lines_of(folder / recipe / f"{name}.jsonl") for recipe in RECIPES)
        if not paper and not best:
            continue
        search = best[0]["search"] if best else {}
        searched = f"{search['trials']} trials, {search['seconds']} s" if search else ""
        metric = (paper or best)[0]["metric"]
        row = (name, metric, published, cell(paper, published), cell(best, published), searched)
        rows.append(row)
    return markdown(rows)


def as_cell(run: dict[str, Any]) -> Record:
    """Return a run of a best recipe as the record of a cell, without its disturbed times."""
    name = run["data"]["dataset"]
    (cell,) = cells([(OURS, PAPER)], [name], [run["seed"]], Recipe(BEST))
    metric = run["metric"]
    costs = Costs(
        gpu_peak_bytes=run["memory"]["device_peak_bytes"],
        environment={"cpu": "a CPU that was not recorded", **run["environment"]},
        jobs=run["search"]["processes"],
        beside=run["search"]["processes"] - 1,
    )
    return replace(
        Record.of(cell, about(name), None),
        status=OK,
        scores={part: {metric: run["scores"][part][metric]} for part in ("val", "test")},
        val_score=run["scores"]["val"][metric],
        epochs=run["epochs"],
        best_epoch=run["best_epoch"],
        split_hash=run["split_hash"],
        costs=costs,
    )


def seeds_beside(file: Path) -> dict[str, set[int]]:
    """Return the seeds that each dataset has in the other files of results of a folder."""
    seeds: dict[str, set[int]] = {}
    for other in sorted(set(file.parent.glob("*.jsonl")) - {file}):
        for line in lines_of(other):
            seeds.setdefault(line["data"], set()).add(line["seed"])
    return seeds


def main() -> None:
    """Write the table beside the lines, or the lines as cells."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--results", type=Path, default=Path("docs/results"))
    parser.add_argument("--cells", type=Path, help="write lines of the best recipes as cells")
    options = parser.parse_args()
    folder = options.results / "scores"
    if options.cells is not None:
        seeds = seeds_beside(options.cells)
        files = (folder / "best" / f"{name}.jsonl" for name in published_scores())
        runs = [run for file in files for run in lines_of(file)]
        lines = [json.dumps(slim(as_cell(run)), sort_keys=True) for run in runs
                 if run["seed"] in seeds.get(run["data"]["dataset"], ())]  # fmt: skip
        options.cells.write_text("\n".join(lines) + "\n", encoding="utf-8")
        return
    (options.results / "scores-table.md").write_text(table(folder), encoding="utf-8")


if __name__ == "__main__":
    main()
