"""Who takes part in a search: the portfolio with the settings that the user gave."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from dhilgt.classifier.auto.portfolio import FEATURES_ALONE, WITHOUT_GRAPH, Candidate
from dhilgt.errors import ConfigError
from dhilgt.settings.settings import Settings


@dataclass(frozen=True)
class Entry:
    """A candidate that takes part.

    Attributes:
        name: Of the candidate.
        about: What it learns from.
        settings: All of its settings.
        changed: Those that differ from the defaults.
        contends: Whether it may be chosen; otherwise it is a reference only.
    """

    name: str
    about: str
    settings: Settings
    changed: dict[str, Any]
    contends: bool = True


def entries(candidates: Sequence[Candidate], given: Mapping[str, Any]) -> list[Entry]:
    """Return who takes part: settings that were given hold in all, and equal ones take part once.

    Where a given setting makes the features alone use the graph, that candidate becomes a
    reference, without this setting, and cannot be chosen.

    Args:
        candidates: The portfolio.
        given: Settings that the user gave.

    Raises:
        ConfigError: If the given settings fit no candidate; that of the first one.

    Example:
        >>> plain = Candidate(FEATURES_ALONE, "", {"size": 1, "num_layers": 1})
        >>> row = Candidate("row", "", {"size": 8})
        >>> [(one.name, one.contends) for one in entries([plain, row], {"hops": 2})]
        [('features alone', False), ('row', True)]
    """
    found: list[Entry] = []
    first_error: ConfigError | None = None
    for one in candidates:
        values, contends = {**one.settings, **given}, True
        if one.name == FEATURES_ALONE and len(candidates) > 1:
            plain = {**WITHOUT_GRAPH, **one.settings}
            own = {name: plain[name] for name in _USES_GRAPH if name in plain}
            contends = all(values.get(name, value) == value for name, value in own.items())
            values |= own
        try:
            settings = Settings.from_dict(values)
        except ConfigError as error:
            first_error = first_error or error
            continue
        if all(settings != other.settings for other in found if other.contends):
            found.append(Entry(one.name, one.about, settings, _changed(settings), contends))
    if not any(one.contends for one in found):
        raise first_error or ConfigError("no candidate takes part")
    return found


_USES_GRAPH = (*WITHOUT_GRAPH, "size", "num_layers")


def _changed(settings: Settings) -> dict[str, Any]:
    values = settings.to_dict()
    return {
        one.name: values[one.name] for one in fields(Settings) if values[one.name] != one.default
    }
