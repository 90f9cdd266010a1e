"""The figures of the paper, as published."""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files
from typing import Any


@cache
def published_figures() -> dict[str, Any]:
    """Gives the figures of the paper, by dataset and system.

    Example:
        >>> published_figures()["figures"]["cora"]["dhilgt"]["score"]
        85.58
    """
    text = (files("dhilgt.benchmark") / "published.json").read_text(encoding="utf-8")
    found: dict[str, Any] = json.loads(text)
    return found
