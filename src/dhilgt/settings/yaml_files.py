"""YAML files: settings as people write them and as runs save them, recipes and search spaces."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from dhilgt.errors import ConfigError
from dhilgt.settings.earlier import renamed
from dhilgt.settings.settings import GROUPS, Settings
from dhilgt.store.files import explained, write_file
from dhilgt.utils.checks import name_hint

NAME = "config.yaml"
AUTO, PAPER, BEST = RECIPES = ("auto", "paper", "best")
_LARGEST_BYTES = 1 << 20
_FIELDS = {one.name: one for one in fields(Settings)}
_SETTINGS = "file of settings"


# ---- reading -----------------------------------------------------------------------------------


def read_settings(path: str | os.PathLike[str]) -> dict[str, Any]:
    r"""Return the settings in a file by name, and its ``data`` section unchanged.

    Beside settings a file may have lines ``recipe:`` and ``budget:``, which are returned likewise.
    Settings may stand alone or in sections (``tokens:``, ``model:``, ...). Only plain values are
    read, and an unknown or repeated key is refused with its line.

    Args:
        path: A YAML file, for example the config.yaml of a run.

    Raises:
        ConfigError: If the file cannot be read, or has an unknown key or a wrong value.

    Example:
        >>> import tempfile
        >>> file = Path(tempfile.mkdtemp()) / "fast.yaml"
        >>> _ = file.write_text("epochs: 20\nmodel:\n  heads: 4\n")
        >>> read_settings(file)
        {'epochs': 20, 'heads': 4}
    """
    file = Path(path)
    root = _parsed(file, _SETTINGS)
    settings: dict[str, Any] = {}
    for key, value, line, node in _pairs(file, root):
        if key == "data" and isinstance(value, dict):
            settings["data"] = value
        elif key in _BESIDE:
            settings[key] = _BESIDE[key](value, f"{file}, line {line}")
        elif key in GROUPS and isinstance(value, dict):
            for name, inner, inner_line, _ in _pairs(file, node):
                _put(settings, name, inner, f"{file}, line {inner_line}")
        else:
            _put(settings, key, value, f"{file}, line {line}")
    return renamed(settings)


def read_mapping(path: str | os.PathLike[str], kind: str = _SETTINGS) -> dict[str, Any]:
    """Return the plain values of a YAML file whose top level is a mapping.

    Args:
        path: The file.
        kind: What it should be, for messages.

    Raises:
        ConfigError: If it cannot be read, is not YAML, or has a key twice.
    """
    file = Path(path)
    return {key: value for key, value, _, _ in _pairs(file, _parsed(file, kind))}


def section(values: Any, place: str) -> dict[str, Any]:
    """Return a part of a file that must be a mapping, with its numbers read.

    Args:
        values: The part.
        place: Where it stands, for the message.

    Raises:
        ConfigError: If it is no mapping.
    """
    if not isinstance(values, dict):
        raise ConfigError(f"{place} is {values!r}; write lines 'name: value' under it")
    return {str(key): number(value) for key, value in values.items()}


def number(value: Any) -> Any:
    """Return the number in a text, since YAML reads 1e-3 as text; other values as they are.

    Example:
        >>> number("1e-3"), number("batch"), number(4)
        (0.001, 'batch', 4)
    """
    if isinstance(value, str):
        for read in (int, float):
            try:
                return read(value)
            except ValueError:
                continue
    return value


def read_text(name: str, text: str) -> Any:
    """Return the value of a setting that is written as text: a number, None for "none", or a word.

    Args:
        name: The setting.
        text: As a file or a command line has it.

    Example:
        >>> read_text("lr", "1e-3"), read_text("patience", "none"), read_text("decay", "none")
        (0.001, None, 'none')
    """
    kind = str(_FIELDS[name].type)
    if "None" in kind and text.lower() == "none":
        return None
    return number(text) if "float" in kind or "int" in kind else text


def checked_value(name: str, value: Any, place: str) -> Any:
    """Return the value of one setting in its own type.

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
    settings: dict[str, Any] = {}
    _put(settings, name, value, place)
    return settings[name]


def _recipe(value: Any, place: str) -> str:
    if value not in RECIPES:
        listed = " or ".join(map(repr, RECIPES))
        raise ConfigError(f"{place}: there is no recipe {value!r}; choose {listed}")
    return str(value)


def _budget(value: Any, place: str) -> float | None:
    seconds = number(value)
    if seconds is None or seconds == "none":
        return None
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or not seconds > 0:
        raise ConfigError(f"{place}: budget is {value!r}; write seconds above 0, or none")
    return float(seconds)


_BESIDE = {"recipe": _recipe, "budget": _budget}


def _put(settings: dict[str, Any], name: str, value: Any, place: str) -> None:
    """Add one setting, checked alone: whether all fit together is asked when all are known."""
    if name not in _FIELDS:
        hint = name_hint(name, [*_FIELDS, *GROUPS, *_BESIDE, "data"])
        raise ConfigError(f"{place}: {name!r} is not a setting; {hint}")
    if name in settings:
        raise ConfigError(f"{place}: {name!r} is set twice; keep one")
    value = read_text(name, value) if isinstance(value, str) else value
    try:
        _FIELDS[name].metadata["check"](name, value)
    except ConfigError as error:
        raise ConfigError(f"{place}: {error}") from error
    settings[name] = value


def _parsed(file: Path, kind: str) -> Any:
    """Return the tree of a file whose top level is a mapping."""
    yaml = _yaml()
    if file.is_dir():
        raise ConfigError(f"{file} is a folder; pass a {kind}, like {file / NAME}")
    try:
        if file.stat().st_size > _LARGEST_BYTES:
            raise ConfigError(f"{file} is over 1 MB; a {kind} is a few lines")
        text = file.read_text(encoding="utf-8-sig")
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except OSError as error:
        raise ConfigError(f"{file} cannot be read ({error.strerror}); check the path") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        mark = getattr(error, "problem_mark", None)
        line = "" if mark is None else f", line {mark.line + 1}"
        problem = getattr(error, "problem", None) or error
        raise ConfigError(
            f"{file}{line} is not YAML ({problem}); write lines 'name: value'"
        ) from error
    if root is None or root.tag != "tag:yaml.org,2002:map":
        raise ConfigError(f"{file} is no {kind}; write lines 'name: value'")
    return root


def _pairs(file: Path, mapping: Any) -> list[tuple[str, Any, int, Any]]:
    """Return key, value, line and node of each pair of a mapping."""
    yaml = _yaml()
    loader = yaml.SafeLoader("")
    pairs: dict[str, tuple[str, Any, int, Any]] = {}
    for key, node in mapping.value:
        name, line = str(key.value), key.start_mark.line + 1
        try:
            value = loader.construct_document(node)
        except yaml.YAMLError as error:
            problem = getattr(error, "problem", error)
            raise ConfigError(
                f"{file}, line {line}: {problem}; only plain values are read"
            ) from error
        if name in pairs:
            raise ConfigError(f"{file}, line {line}: {name!r} stands here twice; keep one")
        pairs[name] = (name, value, line, node)
    return list(pairs.values())


def _yaml() -> Any:
    try:
        import yaml
    except ImportError as error:
        raise ConfigError(
            "files of settings need PyYAML; install it with pip install 'dhilgt[train]'"
        ) from error
    return yaml


# ---- writing -----------------------------------------------------------------------------------


def settings_text(
    settings: Settings | Mapping[str, Any],
    data: Mapping[str, Any] | None = None,
    *,
    recipe: str | None = None,
    budget: float | None = None,
) -> str:
    """Return the text of a file that `read_settings` reads back.

    Args:
        settings: All settings, none is left out; or some of them by name.
        data: Where the graph came from.
        recipe: The recipe that the settings are given to.
        budget: Seconds that its search may take.

    Example:
        >>> print(settings_text(Settings(), {"edges": "e.csv"})[:21])
        data:
          edges: e.csv
        <BLANKLINE>
    """
    values = settings.to_dict() if isinstance(settings, Settings) else settings
    sections: dict[str, Any] = {} if data is None else {"data": dict(data)}
    for group in GROUPS:
        given = {one.name: values[one.name] for one in Settings.group(group) if one.name in values}
        sections |= {group: given} if given else {}
    lines = [] if recipe is None else [f"recipe: {recipe}\n"]
    lines += [] if budget is None else [f"budget: {budget:g}\n"]
    return "".join([*lines, "\n" if lines else "", sections_text(sections)])


def sections_text(sections: Mapping[str, Mapping[str, Any]]) -> str:
    """Return sections as YAML, with a blank line between them.

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
    """Write a file of settings, whole or not at all.

    Args:
        path: The file.
        settings: See `settings_text`.
        data: See `settings_text`.
    """
    file = Path(path)
    with explained("write", file):
        write_file(file, iter((memoryview(settings_text(settings, data).encode()),)))
