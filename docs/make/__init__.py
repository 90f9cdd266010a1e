"""Programs that make pages of docs/results and tables of settings, and the searches behind them."""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any


def lines_of(file: Path) -> list[dict[str, Any]]:
    """Return the JSON lines of a file, none where there is no file."""
    if not file.exists():
        return []
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


def markdown(rows: Iterable[Sequence[str]]) -> str:
    """Return the rows of a table as Markdown; the second one sets the alignment."""
    return "".join("| " + " | ".join(row) + " |\n" for row in rows)
