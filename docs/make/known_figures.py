"""What is published for each system, with the splits and the number of runs behind it.

`python -m docs.make.known_figures` writes known-figures-table.md from known_figures.yaml.
"""

import argparse
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from docs.make import markdown

from dhilgt import datasets

_FILE = Path(__file__).with_suffix(".yaml")
_SCORES = {"accuracy": "accuracy", "roc_auc": "ROC AUC"}


@dataclass(frozen=True)
class Figure:
    """A published figure.

    Attributes:
        system: Name of the baseline.
        data: Dataset.
        split: As for `dhilgt.datasets.load`; None for splits that cannot be made here.
        splits: The splits of the source, in words.
        runs: Trainings behind it; None where the source at hand does not say.
        mean: Per cent.
        sd: Standard deviation, per cent.
        own: Whether it is from the authors of the system.
        source: Where it stands.
        metric: Name of the score; None for the first one of the dataset.
    """

    system: str
    data: str
    split: str | None
    splits: str
    runs: int | None
    mean: float
    sd: float
    own: bool
    source: str
    metric: str | None = None


def figures() -> list[Figure]:
    """Return all published figures, by system."""
    return [Figure(**values) for values in _content()["figures"]]


def without_figure() -> dict[str, str]:
    """Return the systems without a figure, with the reason."""
    return dict(_content()["none"])


def _content() -> dict[str, Any]:
    content: dict[str, Any] = yaml.safe_load(_FILE.read_text(encoding="utf-8"))
    return content


def table() -> str:
    """Return the table as Markdown."""
    head = ("system", "graph", "splits", "runs", "score", "published", "of its authors", "source")
    rows = [head, tuple("---" for _ in head)]
    for one in figures():
        metric = one.metric or datasets.info(one.data).metrics[0]
        rows.append((
            one.system, one.data, one.splits, "–" if one.runs is None else str(one.runs),
            _SCORES[metric], f"{one.mean:.2f} ± {one.sd:.2f}", "yes" if one.own else "no",
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
