"""YAML files of nested plain values: recipes and search spaces."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from dhilgt.errors import ConfigError

_LARGEST_BYTES = 1 << 20


def read(path: Path, what: str) -> dict[str, Any]:
    """Gives the mapping that a file holds.

    Args:
        path: The file.
        what: What it should be, for messages.

    Raises:
        ConfigError: If it cannot be read, or is no mapping of plain values.
    """
    try:
        import yaml
    except ImportError as error:
        raise ConfigError(
            f"a {what} needs PyYAML; install it with pip install 'dhilgt[train]'"
        ) from error
    try:
        if path.stat().st_size > _LARGEST_BYTES:
            raise ConfigError(f"{path} is over 1 MB; a {what} is a few lines")
        found = yaml.safe_load(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise ConfigError(f"{path} cannot be read ({error.strerror}); check the path") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        mark = getattr(error, "problem_mark", None)
        line = "" if mark is None else f", line {mark.line + 1}"
        why = getattr(error, "problem", None) or error
        raise ConfigError(f"{path}{line} is not YAML ({why}); see the page on bench") from error
    if not isinstance(found, dict):
        raise ConfigError(f"{path} is no {what}; write lines 'name: values'")
    return found


def number(value: Any) -> Any:
    """Gives the number that YAML takes for text, like 1e-3; any other value as it is.

    Example:
        >>> number("1e-3"), number("batch"), number(4)
        (0.001, 'batch', 4)
    """
    if isinstance(value, str):
        try:
            return float(value)
        except ValueError:
            return value
    return value


def section(values: Any, place: str) -> dict[str, Any]:
    """Gives a part of a file that must be a mapping, with its numbers read."""
    if not isinstance(values, dict):
        raise ConfigError(f"{place} is {values!r}; write lines 'name: value' under it")
    return {str(key): number(value) for key, value in values.items()}
