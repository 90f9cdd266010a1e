"""The table of scores, from the JSON lines under docs/results/scores.

`python -m bench.scores` writes docs/results/scores-table.md. The lines come from `bench.search`:
a folder per recipe, a file per dataset, a line per seed.
"""

import argparse
import json
from pathlib import Path
from typing import Any

from bench.search import PAPER
from dhilgt.file_header import mean_sd

RECIPES = ("paper", "best")
HEAD = ("dataset", "metric", "published", "paper's recipe", "best recipe", "searched")


def lines_of(file: Path) -> list[dict[str, Any]]:
    """Gives the runs in a file, none where there is no file."""
    if not file.exists():
        return []
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


def score(runs: list[dict[str, Any]], part: str) -> str:
    """Gives mean and standard deviation over the runs, per cent."""
    return mean_sd([100 * run["scores"][part][run["metric"]] for run in runs])


def cell(runs: list[dict[str, Any]], published: str) -> str:
    """Gives the test score, bold where it is at or above the published one, and the seeds."""
    if not runs:
        return "not run"
    mean, _, spread = score(runs, "test").partition(" ± ")
    shown = f"{float(mean):.2f}" + (f" ± {float(spread):.2f}" if spread else "")
    if float(mean) >= float(published.partition(" ")[0]):
        shown = f"**{shown}**"
    return f"{shown} ({len(runs)} seed{'s' if len(runs) > 1 else ''})"


def table(folder: Path) -> str:
    """Gives the table as Markdown."""
    names = [
        name for name in PAPER if any((folder / r / f"{name}.jsonl").exists() for r in RECIPES)
    ]
    rows = [HEAD, tuple("---" for _ in HEAD)]
    for name in names:
        paper, best = (lines_of(folder / recipe / f"{name}.jsonl") for recipe in RECIPES)
        search = best[0]["search"] if best else {}
        searched = f"{search['trials']} trials, {search['seconds']} s" if search else ""
        metric = (paper or best)[0]["metric"]
        published = PAPER[name]
        row = (name, metric, published, cell(paper, published), cell(best, published), searched)
        rows.append(row)
    return "".join("| " + " | ".join(row) + " |\n" for row in rows)


def main() -> None:
    """Writes the table beside the lines."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--results", type=Path, default=Path("docs/results"))
    results = parser.parse_args().results
    (results / "scores-table.md").write_text(table(results / "scores"), encoding="utf-8")


if __name__ == "__main__":
    main()
