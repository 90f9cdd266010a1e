"""The result tables of the paper: the cells they need, and the published figures."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from os import PathLike
from typing import Any

from dhilgt.benchmark.running.data import about, is_here
from dhilgt.benchmark.running.grid import PAPER_SPACE, Cell, cells
from dhilgt.benchmark.running.recipe import BEST, OURS, PAPER, Recipe
from dhilgt.datasets.registry import info, names
from dhilgt.errors import ConfigError, DatasetError
from dhilgt.settings import recipes

TABLES = {
    "main": ("chameleon", "squirrel", "tolokers", "penn94", "genius", "twitch-gamer"),
    "homophilous": ("cora", "citeseer", "pubmed", "physics", "ogbn-arxiv", "ogbn-mag"),
}
"""The datasets of each table, heterophilous ones in the paper's first."""
SYSTEMS = (
    "difformer", "polynormer", "nagphormer", "ansgt", "goat", "hsgt",
    "sgformer", "gcn", "sage", "linkx", "mlp",
)  # fmt: skip
"""The six systems that the paper compares with, and five common references."""
PARTS = ("scores", "times", "stand-ins", "all")
TIMES = "times"
"""Name of the recipe of cells that are run for time and memory: no score of theirs is shown."""
_FEW = 3  # seeds of all cells, before further seeds of any


@dataclass(frozen=True)
class Round:
    """Cells to run together.

    Attributes:
        cells: In their order.
        timed: Whether they are run for their times: one at a time, whatever is allowed.
    """

    cells: list[Cell]
    timed: bool = False


def standin_of(name: str) -> str | None:
    """Return the generated graph that stands in for a dataset, None where there is none.

    Example:
        >>> standin_of("ogbn-arxiv"), standin_of("cora")
        ('arxiv-like', None)
    """
    return next((one for one in names() if info(one).standin_for == name), None)


def rounds(
    data: Sequence[str],
    seeds: Sequence[int],
    *,
    part: str = "all",
    trials: int = 0,
    epochs: int = 10,
    score_epochs: int | None = None,
    seconds: float | None = None,
    systems: Sequence[str] = (OURS, *SYSTEMS),
    root: str | PathLike[str] | None = None,
) -> list[Round]:
    """Return the work for a table, in an order that makes an incomplete run useful.

    Small graphs come before large ones, and a few seeds of all cells before further seeds. Times
    are measured after the few seeds, in rounds of their own.

    Args:
        data: Real datasets; those that are not available are skipped, or their stand-in is timed.
        seeds: Of splits and training; the smallest one is that of searches and times.
        part: "scores" (real graphs), "times" (the same, in short trainings), "stand-ins" (time
            and memory where the real graph is not available) or "all".
        trials: Settings tried for every system on every dataset.
        epochs: Of cells that are run for their times.
        score_epochs: The most epochs of cells that are scored; None for those of each system.
        seconds: Of training of cells that are scored, after which the best epoch so far counts.
        systems: Which ones.
        root: Folder that holds datasets.

    Raises:
        ConfigError: If the part is none of these.
        DatasetError: If none of the data that the part needs is available.

    Example:
        >>> work = rounds(["generated:40"], [0, 1, 2, 3], part="scores", systems=["gcn"])
        >>> [[cell.seed for cell in one.cells] for one in work]
        [[0, 1, 2], [0, 1, 2, 3]]
    """
    if part not in PARTS:
        raise ConfigError(f"part {part!r}; choose {', '.join(PARTS)}")
    seeds = sorted(set(seeds))
    local = _by_size([name for name in data if is_here(name, root)])
    scored = part in ("scores", "all")
    limits = {"epochs": score_epochs, "seconds": seconds}
    few = _scored(local, seeds[:_FEW], trials, limits, systems, apart=True) if scored else []
    rest = _scored(local, seeds, trials, limits, systems, apart=False) if scored else []
    timed = local if part in ("times", "all") else []
    if part in ("stand-ins", "all"):
        standins = (standin_of(name) for name in data if name not in local)
        timed = [*timed, *_by_size([one for one in standins if one and is_here(one, root)])]
    recipe = Recipe(TIMES, {"all": {"training": {"epochs": epochs}}})
    short = cells([(name, PAPER) for name in systems], timed, seeds[:1], recipe)
    rest = rest if len(seeds) > _FEW else []
    work = [*few, *([Round(short, timed=True)] if short else []), *rest]
    if not work:
        raise DatasetError(
            f"nothing to run for the part {part!r}: of {', '.join(data)} the files of "
            f"{', '.join(local) or 'none'} are here; see dhilgt datasets list, or choose another "
            "part"
        )
    return work


def _scored(
    data: Sequence[str],
    seeds: Sequence[int],
    trials: int,
    limits: dict[str, Any],
    systems: Sequence[str],
    *,
    apart: bool,
) -> list[Round]:
    """Return the cells of scores; with a search one dataset at a time if ``apart``.

    Cells with and without a search are in rounds of their own: a search is for all of its round.
    """
    paper, best = Recipe(), Recipe(BEST)
    plain: list[Cell] = []
    if OURS in systems:
        known = [name for name in data if recipes.recipe_file(BEST, name) is not None]
        plain += cells([(OURS, PAPER)], known, seeds, best, **limits)
        if not trials:  # else it is the first trial
            plain += cells([(OURS, PAPER)], data, seeds, paper, **limits)
    variants = [(name, PAPER_SPACE if name == OURS else PAPER) for name in systems]
    if not trials:
        others = [one for one in variants if one[0] != OURS]
        plain += cells(others, data, seeds, paper, **limits)
        return [Round(plain)] if plain else []
    groups = [[name] for name in data] if apart else [list(data)]
    tuned = [cells(variants, each, seeds, paper, trials=trials, **limits) for each in groups]
    return [Round(each) for each in (*tuned, plain) if each]


def _by_size(data: Sequence[str]) -> list[str]:
    def edges(name: str) -> int:
        return 0 if name.startswith("generated:") else info(about(name).name).facts.edges or 0

    return sorted(data, key=edges)


@cache
def published_figures() -> dict[str, Any]:
    """Return the figures of the paper, by dataset and system.

    Example:
        >>> published_figures()["figures"]["cora"]["dhilgt"]["score"]
        85.58
    """
    text = (files("dhilgt.benchmark.experiments") / "published.json").read_text(encoding="utf-8")
    figures: dict[str, Any] = json.loads(text)
    return figures
