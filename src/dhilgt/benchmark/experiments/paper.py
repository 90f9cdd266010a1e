"""The tables of the paper: their graphs and systems, the cells for times, the published figures."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from os import PathLike
from typing import Any

from dhilgt.benchmark.running.data import about, is_here
from dhilgt.benchmark.running.grid import Cell, cells
from dhilgt.benchmark.running.recipe import OURS, PAPER, Recipe
from dhilgt.datasets.registry import info, names
from dhilgt.errors import DatasetError

TABLES = {
    "main": ("chameleon", "squirrel", "tolokers", "penn94", "genius", "twitch-gamer"),
    "homophilous": ("cora", "citeseer", "pubmed", "physics", "ogbn-arxiv", "ogbn-mag"),
}
"""The datasets of each table, heterophilous ones in the paper's first."""
GRAPHS = tuple(name for table in TABLES.values() for name in table)
COMPARED = ("difformer", "polynormer", "nagphormer", "ansgt", "goat", "hsgt")
"""The systems that the paper compares with."""
SYSTEMS = (
    *COMPARED,
    "graphormer", "grpe", "graphgps", "nodeformer", "polyformer",
    "sgformer", "gcn", "sage", "linkx", "mlp",
)  # fmt: skip
"""Those, the others of its table of complexities, and five common references."""
TIMES = "times"
"""Name of the recipe of cells that are run for time and memory: no score of theirs is shown."""


def known_systems() -> list[str]:
    """Return DHIL-GT and all baselines, in the order of the tables.

    Example:
        >>> known_systems()[:2]
        ['dhilgt', 'difformer']
    """
    from dhilgt import baselines

    there = baselines.names()
    listed = [name for name in SYSTEMS if name in there]
    return [OURS, *listed, *(name for name in there if name not in SYSTEMS)]


def standin_of(name: str) -> str | None:
    """Return the generated graph that stands in for a dataset, None where there is none.

    Example:
        >>> standin_of("ogbn-arxiv"), standin_of("cora")
        ('arxiv-like', None)
    """
    return next((one for one in names() if info(one).standin_for == name), None)


def time_cells(
    data: Sequence[str] = GRAPHS,
    systems: Sequence[str] | None = None,
    *,
    seed: int = 0,
    epochs: int = 10,
    root: str | PathLike[str] | None = None,
) -> list[Cell]:
    """Return the cells of short trainings that are run for time and memory, small graphs first.

    Args:
        data: Datasets; where the files of one are not here, its stand-in is taken.
        systems: Which ones; None for all.
        seed: Of split and training.
        epochs: Of each training; the first ones compile and record kernels.
        root: Folder that holds datasets.

    Raises:
        DatasetError: If neither the data nor their stand-ins are available.

    Example:
        >>> [cell.system for cell in time_cells(["generated:40"], ["gcn", "mlp"])]
        ['gcn', 'mlp']
    """
    found = (name if is_here(name, root) else standin_of(name) for name in data)
    timed = by_size([name for name in found if name is not None and is_here(name, root)])
    if not timed:
        raise DatasetError(
            f"nothing to time: the files of {', '.join(data)} are not here; see dhilgt datasets "
            "list"
        )
    recipe = Recipe(TIMES, {"all": {"training": {"epochs": epochs}}})
    chosen = known_systems() if systems is None else systems
    return [
        cell
        for name in timed
        for cell in cells([(system, PAPER) for system in chosen], [name], [seed], recipe)
    ]


def by_size(data: Sequence[str]) -> list[str]:
    """Return datasets by their number of edges, the smallest first.

    Example:
        >>> by_size(["pubmed", "chameleon", "cora"])
        ['cora', 'chameleon', 'pubmed']
    """

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
