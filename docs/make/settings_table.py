"""The tables of settings in docs/concepts/classifier.md and docs/commands/train.md.

`python -m docs.make.settings_table` writes them anew from `dhilgt.Settings`, between two comments
on each page.
"""

import re
from collections.abc import Callable
from dataclasses import Field, fields
from pathlib import Path
from typing import Any

from dhilgt.cli.flags import default_text, flag_of, value_text, with_flags
from dhilgt.settings.settings import GROUPS, Settings

DOCS = Path(__file__).parents[1]
BEGIN = "<!-- settings: begin -->"
END = "<!-- settings: end -->"
_NAMES = "|".join(one.name for one in fields(Settings) if "_" in one.name)


def tables(head: str, row: Callable[[Field[Any]], tuple[str, ...] | None]) -> str:
    """Return a heading and a table for each group of settings.

    Args:
        head: First line of the tables.
        row: Returns the cells of a setting; None leaves it out.
    """
    parts = []
    for group in GROUPS:
        rows = [cells for one in Settings.group(group) if (cells := row(one)) is not None]
        rule = "|---" * (head.count("|") - 1) + "|"
        lines = ["| " + " | ".join(cells) + " |" for cells in rows]
        parts.append("\n".join([f"### {group.capitalize()}", "", head, rule, *lines, ""]))
    return "\n".join(parts)


def parameters() -> str:
    """Return the tables with the names and values of Python."""

    def row(one: Field[Any]) -> tuple[str, ...]:
        default = f'`"{one.default}"`' if isinstance(one.default, str) else f"{one.default}"
        text = re.sub(r'("[\w:]+")', r"`\1`", one.metadata["help"])
        text = re.sub(rf"\b({_NAMES})\b", r"`\1`", text)
        return f"`{one.name}`", default, one.metadata["values"], text

    return tables("| setting | default | values | what it does |", row)


def options() -> str:
    """Return the tables with the options of ``dhilgt train``."""

    def row(one: Field[Any]) -> tuple[str, ...] | None:
        flag = flag_of(one.name)
        if not one.metadata["flag"]:
            return None
        if one.type == "bool":
            names, default = f"`{flag}`, `--no-{flag[2:]}`", "on" if one.default else "off"
        else:
            names = f"`{flag} {value_text(one)}`".replace("|", "\\|")
            default = default_text(one)
        text = re.sub(r'"([\w:]+)"', r"`\1`", one.metadata["help"])
        text = re.sub(r"(--[\w-]+)", r"`\1`", with_flags(text))
        return names, default, text

    return tables("| option | default | what it does |", row)


PAGES = {
    DOCS / "concepts" / "classifier.md": parameters,
    DOCS / "commands" / "train.md": options,
}


def page_text(page: Path) -> str:
    """Return a page with its tables as they should be."""
    before, _, rest = page.read_text(encoding="utf-8").partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n\n{PAGES[page]()}\n{END}{after}"


if __name__ == "__main__":
    for page in PAGES:
        page.write_text(page_text(page), encoding="utf-8")
