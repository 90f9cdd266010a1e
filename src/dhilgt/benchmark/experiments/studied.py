"""The recipes that ablation and parameter study vary: the paper's, a short one, the default."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from importlib.resources import files
from pathlib import Path

from dhilgt.benchmark.running.grid import Cell, cells
from dhilgt.benchmark.running.recipe import AUTO, OURS, PAPER, Recipe, read
from dhilgt.errors import ConfigError

SHORT = "short"
STUDIED = (PAPER, SHORT, AUTO)
"""As the paper writes it; in a quarter of its epochs; as `NodeClassifier()` chooses it."""


def studied_recipes(text: str) -> list[Recipe]:
    """Return the recipes of a list like "paper,short".

    Args:
        text: Names of `STUDIED`, "best", or paths of YAML files.

    Raises:
        ConfigError: If a recipe is not known.

    Example:
        >>> [recipe.name for recipe in studied_recipes("paper,short,auto")]
        ['paper', 'short', 'auto']
        >>> studied_recipes("short")[0].changes("dhilgt", "cora").training["epochs"]
        120
    """
    names = [name for part in text.split(",") if (name := part.strip())]
    if not names:
        raise ConfigError(f"there is no recipe in {text!r}; choose some of {', '.join(STUDIED)}")
    return [_recipe(name) for name in dict.fromkeys(names)]


def _recipe(name: str) -> Recipe:
    if name == AUTO:
        return Recipe(AUTO)
    if name == SHORT:
        name = str(Path(str(files("dhilgt.benchmark.experiments"))) / "short.yaml")
    elif Path(name).stem == SHORT:
        raise ConfigError(f"{name} has the name of a recipe of the package; choose another name")
    from dhilgt import baselines  # needs torch, tables do not

    return read(name, (OURS, *baselines.names()))


def whole_cells(
    recipes: Iterable[Recipe], data: Sequence[str], seeds: Sequence[int], epochs: int | None = None
) -> list[Cell]:
    """Return cells of DHIL-GT as it is, seed by seed and recipe by recipe.

    Args:
        recipes: From `studied_recipes`.
        data: Datasets.
        seeds: Of splits and trainings.
        epochs: The most epochs, for trials; None for those of the recipe.

    Example:
        >>> grid = whole_cells(studied_recipes("paper,short"), ["cora"], [0, 1])
        >>> [(cell.seed, cell.recipe) for cell in grid]
        [(0, 'paper'), (0, 'short'), (1, 'paper'), (1, 'short')]
    """
    known = list(recipes)
    return [
        cell
        for seed in seeds
        for recipe in known
        for cell in cells([(OURS, PAPER)], data, [seed], recipe, epochs=epochs)
    ]
