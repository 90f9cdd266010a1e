"""A recipe as text: what differs from the paper's settings, under a header of measurements."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dhilgt import recipes, settings_file
from dhilgt.datasets.registry import info
from dhilgt.file_header import header, measured_rows
from dhilgt.settings import GROUPS, Settings


def render(
    dataset: str,
    settings: Settings,
    runs: Sequence[Mapping[str, Any]] = (),
    *,
    about: str,
    command: str = "",
    searched: Sequence[tuple[str, str]] = (),
) -> str:
    """Gives the text of a recipe's file.

    Args:
        dataset: Name of the dataset.
        settings: All settings; those of the paper's recipe, and where and with which seed it ran,
            are left out.
        runs: What was measured with them, lines of a runs.jsonl.
        about: First sentence of the header.
        command: What made the runs.
        searched: Names and values about the search.

    Example:
        >>> from dhilgt.recipes import recipe
        >>> settings = Settings.from_dict(recipe("paper", "cora") | {"hops": 2})
        >>> print(render("cora", settings, about="Tried once, not measured."), end="")
        # Tried once, not measured.
        data:
          dataset: cora
        <BLANKLINE>
        features:
          hops: 2
    """
    paper = Settings.from_dict(recipes.recipe("paper", dataset))
    rows = [*searched, *measured_rows(runs, command)]
    sections: dict[str, dict[str, Any]] = {"data": {"dataset": info(dataset).name}}
    for group in GROUPS:
        if group == "run":
            continue
        for one in Settings.group(group):
            value = getattr(settings, one.name)
            if value != getattr(paper, one.name):
                sections.setdefault(group, {})[one.name] = value
    return header(about, rows) + settings_file.sections_text(sections)
