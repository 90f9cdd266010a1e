"""Figures that are published for the systems, with the splits and the runs behind them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

import yaml

from dhilgt.benchmark.running.grid import OFFICIAL, OWN
from dhilgt.benchmark.running.recipe import PAPER

_OWN_SPLITS = "60/20/20"  # in proportion; single stored ones are of the same kind


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
        variant: Named settings of the baseline that are meant.
        recipe: Recipe of the comparison that is meant.
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
    variant: str = PAPER
    recipe: str = PAPER

    @property
    def text(self) -> str:
        """Mean and standard deviation."""
        return f"{self.mean:.2f} ± {self.sd:.2f}"

    @property
    def kind_of_split(self) -> str | None:
        """The kind of split of the comparison that is nearest to its splits; None for none."""
        if self.split == OFFICIAL:
            return OFFICIAL
        return OWN if self.splits.endswith(_OWN_SPLITS) or self.split == _OWN_SPLITS else None


@cache
def known_figures() -> tuple[Figure, ...]:
    """Return all published figures, by system.

    Example:
        >>> known_figures()[0].text
        '88.60 ± 0.45'
    """
    return tuple(Figure(**values) for values in _content()["figures"])


def without_figure() -> dict[str, str]:
    """Return the systems without a figure, with the reason."""
    return dict(_content()["none"])


@cache
def _content() -> dict[str, Any]:
    text = (files("dhilgt.benchmark.experiments") / "known.yaml").read_text(encoding="utf-8")
    content: dict[str, Any] = yaml.safe_load(text)
    return content
