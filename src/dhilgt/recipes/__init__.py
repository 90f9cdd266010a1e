"""Settings that come with the package: the paper's for every dataset, the best found for some.

A recipe is a YAML file of settings; its first lines say where it comes from and, once that is
measured, the command, the score, the time and the memory.
"""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from typing import Any

from dhilgt import settings_file
from dhilgt.datasets.registry import info
from dhilgt.errors import ConfigError

NAMES = ("paper", "best")


def recipe(name: str, dataset: str | None = None) -> dict[str, Any]:
    """Gives the settings of a recipe: the paper's, and those of a dataset over them.

    Args:
        name: "paper", or "best" for the best that a search has found on the dataset.
        dataset: Name of a public dataset; None for the paper's settings alone.

    Raises:
        ConfigError: If there is no such recipe.

    Example:
        >>> recipe("paper", "tolokers")["metric"], recipe("paper", "cora")["lr"]
        ('roc_auc', 0.0001)
    """
    if name not in NAMES:
        raise ConfigError(f"there is no recipe {name!r}; choose {' or '.join(NAMES)}")
    values = settings_file.read_settings(_folder() / "paper.yaml")
    if dataset is None:
        if name == "best":
            raise ConfigError("the recipe 'best' is a dataset's own; name the dataset with --data")
        return values
    about = info(dataset)
    values["metric"] = about.metric
    own = recipe_file(name, about.standin_for or about.name)
    if own is None and name == "best":
        known = sorted(path.stem for path in (_folder() / name).glob("*.yaml"))
        there = f" (there are those of {', '.join(known)})" if known else ""
        raise ConfigError(
            f"no best settings of {about.name!r} come with this version{there}; take the recipe "
            "'paper', or search with dhilgt tune"
        )
    if own is not None:
        values |= settings_file.read_settings(own)
        values.pop("data", None)  # where the graph comes from is the user's word
    return values


def recipe_file(name: str, dataset: str) -> Path | None:
    """Gives the file of a dataset's own settings, None where there is none.

    Args:
        name: Of the recipe.
        dataset: Of the dataset.
    """
    path = _folder() / name / f"{dataset}.yaml"
    return path if path.is_file() else None


def _folder() -> Path:
    return Path(str(files("dhilgt.recipes")))
