"""The protocol of the comparison: which trainings its two tables need, and in which order.

*As they come*: every system with the settings of its own paper, DHIL-GT with its default and with
the paper's recipe; the cells of `experiments.default`. *Equal search*: the same number of settings
for every system, chosen on the splits of seeds 0 to 2. Both are evaluated on the splits of seeds 10
to 19. No training is ended by the clock.
"""

from __future__ import annotations

from collections.abc import Sequence

from dhilgt.benchmark.experiments.default import GRAPHS, default_cells, default_systems
from dhilgt.benchmark.experiments.paper import by_size, known_systems
from dhilgt.benchmark.running import search
from dhilgt.benchmark.running.data import has_official_splits
from dhilgt.benchmark.running.grid import OFFICIAL, OWN, SPLITS, Cell, cells
from dhilgt.benchmark.running.recipe import OURS, PAPER, Recipe
from dhilgt.errors import ConfigError

DEFAULTS, SEARCH = TABLES = ("defaults", "search")
SEEDS = range(10, 20)
TRIALS = 6
OFFICIAL_GRAPHS = ("chameleon", "squirrel", "tolokers")
"""Graphs whose published figures are of the splits that come with them."""
_FEW = 3  # seeds of all graphs, before further seeds of any


def protocol_cells(
    data: Sequence[str] = GRAPHS,
    seeds: Sequence[int] = SEEDS,
    *,
    tables: Sequence[str] = TABLES,
    splits: Sequence[str] = SPLITS,
    trials: int = TRIALS,
    systems: Sequence[str] | None = None,
    epochs: int | None = None,
) -> list[Cell]:
    """Return the cells of both tables, in an order that makes an incomplete run useful.

    Three seeds of all graphs come before further seeds of any, small graphs before large ones.

    Args:
        data: Datasets; those of `OFFICIAL_GRAPHS` among them, and others that are named and come
            with several splits, are also run on the official splits.
        seeds: Of the splits that are evaluated.
        tables: "defaults" (as they come), "search" (equal search) or both.
        splits: "own", "official" or both.
        trials: Settings of each system in a search, the same number for all.
        systems: Which ones; None for all.
        epochs: The most epochs of every training, to try the command; None for those of the system.

    Raises:
        ConfigError: If there is nothing to run, or a seed is one that settings are chosen on.

    Example:
        >>> cells = protocol_cells(["squirrel"], [10], systems=["gcn"], tables=["search"])
        >>> [(cell.name, cell.trials) for cell in cells]
        [('gcn squirrel seed 10', 6), ('gcn squirrel official seed 10', 6)]
    """
    chosen = known_systems() if systems is None else list(systems)
    seeds = sorted(set(seeds))
    if taken := sorted(set(seeds) & set(search.SEEDS)):
        raise ConfigError(
            f"seed {taken[0]} is one of those that settings are chosen on "
            f"({', '.join(map(str, search.SEEDS))}); evaluate on others, such as 10-19"
        )
    columns = _columns(data, splits)
    if not columns:
        raise ConfigError(
            f"none of {', '.join(data)} has several official splits; choose the package's own ones"
        )
    grid: list[Cell] = []
    for part in (seeds[:_FEW], seeds[_FEW:]):
        for name, split in columns:
            if DEFAULTS in tables:
                grid += _as_they_come(chosen, name, part, split, epochs)
            if SEARCH in tables:
                grid += cells(
                    [(system, PAPER) for system in chosen], [name], part,
                    epochs=epochs, trials=trials, split=split,
                )  # fmt: skip
    return grid


def _columns(data: Sequence[str], splits: Sequence[str]) -> list[tuple[str, str]]:
    """Return datasets with a kind of split, by size; official ones behind the own ones of all."""
    names = by_size(list(dict.fromkeys(data)))
    official = OFFICIAL_GRAPHS if tuple(data) == GRAPHS else data
    return [
        *((name, OWN) for name in names if OWN in splits),
        *(
            (name, OFFICIAL)
            for name in names
            if OFFICIAL in splits and name in official and has_official_splits(name)
        ),
    ]


def _as_they_come(
    systems: Sequence[str], data: str, seeds: Sequence[int], split: str, epochs: int | None
) -> list[Cell]:
    named = [one for one in default_systems() if one[0] in systems]
    grid = default_cells(named, [data], seeds, epochs=epochs, split=split)
    if OURS in systems:
        grid += cells([(OURS, PAPER)], [data], seeds, Recipe(), epochs=epochs, split=split)
    return grid
