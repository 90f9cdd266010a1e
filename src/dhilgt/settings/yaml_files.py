"""YAML files: settings as people write them and as runs save them, recipes and search spaces."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from dhilgt.errors import ConfigError
from dhilgt.settings.settings import GROUPS, Settings
from dhilgt.store.files import explained, write_file
from dhilgt.utils.checks import name_hint

NAME = "config.yaml"
_LARGEST_BYTES = 1 << 20
_FIELDS = {field.name: field for field in fields(Settings)}


def read_settings(path: str | os.PathLike[str]) -> dict[str, Any]:
    r"""Gives what a file of settings says: values by name, and ``data`` as it stands.

    Settings may stand alone or in sections (``tokens:``, ``model:``, ...). Nothing but plain
    values is read, and an unknown or repeated key is refused with its line.

    Args:
        path: A YAML file, for example the config.yaml of a run.

    Raises:
        ConfigError: If the file cannot be read or says something unknown.

    Example:
        >>> import tempfile
        >>> file = Path(tempfile.mkdtemp()) / "fast.yaml"
        >>> _ = file.write_text("epochs: 20\nmodel:\n  heads: 4\n")
        >>> read_settings(file)
        {'epochs': 20, 'heads': 4}
    """
    file = Path(path)
    root = _parsed(file)
    found: dict[str, Any] = {}
    for key, value, line in _pairs(file, root):
        if key == "data" and isinstance(value, dict):
            found["data"] = value
        elif key in GROUPS and isinstance(value, dict):
            section = next(node for name, node in root.value if name.value == key)
            for inner, setting, place in _pairs(file, section):
                _put(found, inner, setting, f"{file}, line {place}")
        else:
            _put(found, key, value, f"{file}, line {line}")
    return found


def read_mapping(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Gives the plain values of any YAML file whose top is a mapping.

    Args:
        path: The file.

    Raises:
        ConfigError: If it cannot be read, is not YAML, or names something twice.
    """
    file = Path(path)
    return {key: value for key, value, _ in _pairs(file, _parsed(file))}


def checked_value(name: str, value: Any, place: str) -> Any:
    """Gives one setting as its type wants it.

    Args:
        name: The setting.
        value: As a file or a command line has it; numbers may be text.
        place: Where it stands, for the message.

    Raises:
        ConfigError: If there is no such setting (the nearest is named) or the value is wrong.

    Example:
        >>> checked_value("lr", "1e-3", "here")
        0.001
    """
    found: dict[str, Any] = {}
    _put(found, name, value, place)
    return found[name]


def settings_text(settings: Settings, data: Mapping[str, Any] | None = None) -> str:
    """Gives the text of a file that `read_settings` reads back.

    Args:
        settings: All settings; none is left out.
        data: Where the graph came from.

    Example:
        >>> print(settings_text(Settings(), {"edges": "e.csv"})[:21])
        data:
          edges: e.csv
        <BLANKLINE>
    """
    sections: dict[str, Any] = {} if data is None else {"data": dict(data)}
    for group in GROUPS:
        sections[group] = {one.name: getattr(settings, one.name) for one in Settings.group(group)}
    return sections_text(sections)


def sections_text(sections: Mapping[str, Mapping[str, Any]]) -> str:
    """Gives sections as YAML, a blank line between them.

    Args:
        sections: Values by name, by the name of the section.
    """
    yaml = _yaml()
    return "\n".join(
        yaml.safe_dump({name: dict(values)}, sort_keys=False, allow_unicode=True)
        for name, values in sections.items()
    )


def write_settings(
    path: str | os.PathLike[str], settings: Settings, data: Mapping[str, Any] | None = None
) -> None:
    """Writes a file of settings, whole or not at all.

    Args:
        path: The file.
        settings: See `settings_text`.
        data: See `settings_text`.
    """
    file = Path(path)
    with explained("write", file):
        write_file(file, iter((memoryview(settings_text(settings, data).encode()),)))


def _yaml() -> Any:
    try:
        import yaml
    except ImportError as error:
        raise ConfigError(
            "files of settings need PyYAML; install it with pip install 'dhilgt[train]'"
        ) from error
    return yaml


def _parsed(file: Path) -> Any:
    """Gives the tree of a file, its top a mapping."""
    yaml = _yaml()
    if file.is_dir():
        raise ConfigError(f"{file} is a folder; pass a file of settings, like {file / NAME}")
    try:
        if file.stat().st_size > _LARGEST_BYTES:
            raise ConfigError(f"{file} is over 1 MB; a file of settings is a few lines")
        text = file.read_text(encoding="utf-8-sig")
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except OSError as error:
        raise ConfigError(f"{file} cannot be read ({error.strerror}); check the path") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        where = getattr(error, "problem_mark", None)
        line = "" if where is None else f", line {where.line + 1}"
        why = getattr(error, "problem", None) or error
        raise ConfigError(f"{file}{line} is not YAML ({why}); write lines 'name: value'") from error
    if root is None or root.tag != "tag:yaml.org,2002:map":
        raise ConfigError(f"{file} holds no settings; write lines 'name: value'")
    return root


def _pairs(file: Path, mapping: Any) -> list[tuple[str, Any, int]]:
    """Gives key, value and line of each pair."""
    yaml = _yaml()
    loader = yaml.SafeLoader("")
    found: list[tuple[str, Any, int]] = []
    for key, node in mapping.value:
        line = key.start_mark.line + 1
        try:
            value = loader.construct_document(node)
        except yaml.YAMLError as error:
            why = getattr(error, "problem", error)
            raise ConfigError(f"{file}, line {line}: {why}; only plain values are read") from error
        name = str(key.value)
        if any(name == other for other, _, _ in found):
            raise ConfigError(f"{file}, line {line}: {name!r} stands here twice; keep one")
        found.append((name, value, line))
    return found


def _put(found: dict[str, Any], key: str, value: Any, place: str) -> None:
    if key not in _FIELDS:
        known = [*_FIELDS, *GROUPS, "data"]
        hint = name_hint(key, known)
        raise ConfigError(f"{place}: {key!r} is not a setting; {hint}")
    if key in found:
        raise ConfigError(f"{place}: {key!r} is set twice; keep one")
    value = _typed(key, value)
    try:
        # Alone: whether settings fit together is asked when all are known.
        if key not in ("num_out", "num_in", "heads", "hidden_channels", "size"):
            Settings(**{key: value})
    except ConfigError as error:
        raise ConfigError(f"{place}: {error}") from error
    found[key] = value


def _typed(key: str, value: Any) -> Any:
    """Reads what YAML takes for text: 1e-4 without a point, and none where it is allowed."""
    if not isinstance(value, str):
        return value
    kind = str(_FIELDS[key].type)
    if "None" in kind and value.lower() == "none":
        return None
    if "float" in kind or "int" in kind:
        for read in (int, float):
            try:
                return read(value)
            except ValueError:
                continue
    return value


_LARGEST_FILE_BYTES = 1 << 20


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
        if path.stat().st_size > _LARGEST_FILE_BYTES:
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
