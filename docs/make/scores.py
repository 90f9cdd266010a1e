"""The table of scores, from the JSON lines under docs/results/scores.

`python -m docs.make.scores` writes docs/results/scores-table.md. The lines come from
`docs.make.search`: a folder per recipe, a file per dataset, a line per seed.
"""

import argparse
from pathlib import Path
from typing import Any

from docs.make import lines_of, markdown
from docs.make.search import published_scores

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


def main() -> None:
    """Write the table beside the lines."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--results", type=Path, default=Path("docs/results"))
    folder = parser.parse_args().results
    (folder / "scores-table.md").write_text(table(folder / "scores"), encoding="utf-8")


if __name__ == "__main__":
    main()
