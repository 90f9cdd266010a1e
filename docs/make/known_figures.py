"""What is published for each system, with the splits and the number of runs behind it.

`python -m docs.make.known_figures` writes known-figures-table.md from the file of the package.
"""

import argparse
from pathlib import Path

from docs.make import markdown

from dhilgt import datasets
from dhilgt.benchmark.experiments.known import known_figures, without_figure

_SCORES = {"accuracy": "accuracy", "roc_auc": "ROC AUC"}


def table() -> str:
    """Return the table as Markdown."""
    head = ("system", "graph", "splits", "runs", "score", "published", "of its authors", "source")
    rows = [head, tuple("---" for _ in head)]
    for one in known_figures():
        metric = one.metric or datasets.info(one.data).metrics[0]
        rows.append((
            one.system, one.data, one.splits, "–" if one.runs is None else str(one.runs),
            _SCORES[metric], one.text, "yes" if one.own else "no",
            one.source,
        ))  # fmt: skip
    rows += [
        (name, "–", "–", "–", "–", "none", "–", reason) for name, reason in without_figure().items()
    ]
    return markdown(rows)


def main() -> None:
    """Write the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--results", type=Path, default=Path("docs/results"))
    folder: Path = parser.parse_args().results
    (folder / "known-figures-table.md").write_text(table(), encoding="utf-8")


if __name__ == "__main__":
    main()
