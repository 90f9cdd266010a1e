"""The space of a search: stages of parameters, read from YAML."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from importlib.resources import files
from pathlib import Path
from typing import Any

from dhilgt.errors import ConfigError
from dhilgt.settings import yaml_files
from dhilgt.settings.settings import Settings
from dhilgt.tokens.spec import TokenSpec
from dhilgt.utils.checks import name_hint

KINDS = ("categorical", "int", "float", "log")
BUILT_IN = ("paper", "extended", "large")
_BOUND = re.compile(r"([a-z_]+)\s*(?:-\s*(\d+))?")
# Settings of how and where a result is measured are not searched.
_NOT_SEARCHED = {one.name for one in Settings.group("run")} | {"metric", "eval_every"}


@dataclass(frozen=True)
class Parameter:
    """A setting and the values it may take.

    Attributes:
        name: The setting.
        kind: "categorical", "int", "float", or "log" for a float drawn on a logarithmic scale.
        choices: Of a categorical one.
        low: Smallest value of the others.
        high: Largest value; a text like "size - 1" depends on another setting.
        step: Distance of the values from ``low`` on; None for any.

    Example:
        >>> Parameter("num_out", "int", low=0, high="size - 1").top({"size": 32})
        31
    """

    name: str
    kind: str
    choices: tuple[Any, ...] = ()
    low: float | None = None
    high: float | str | None = None
    step: float | None = None

    def top(self, values: Mapping[str, Any]) -> float:
        """Return the largest value, given other settings."""
        if isinstance(self.high, str):
            bound = _BOUND.fullmatch(self.high)
            assert bound is not None, "checked when it was read"
            return int(values[bound[1]]) - int(bound[2] or 0)
        assert self.high is not None, "checked when it was read"
        return self.high

    def suggest(self, trial: Any, values: Mapping[str, Any]) -> Any:
        """Ask an Optuna trial for a value.

        Args:
            trial: The trial.
            values: All settings chosen so far.
        """
        if self.kind == "categorical":
            return trial.suggest_categorical(self.name, list(self.choices))
        top = self.top(values)
        if self.kind == "int":
            return trial.suggest_int(self.name, self.low, max(self.low or 0, top))
        options = {"log": True} if self.kind == "log" else {"step": self.step}
        value = trial.suggest_float(self.name, self.low, top, **options)
        return float(f"{value:.6g}")  # no 0.30000000000000004 in files of settings

    def holds(self, value: Any, values: Mapping[str, Any]) -> bool:
        """Return whether a value is one of those a search could choose."""
        if self.kind == "categorical":
            return any(value == one and type(value) is type(one) for one in self.choices)
        if value is None or isinstance(value, (bool, str)) or self.low is None:
            return False
        if self.kind == "int" and value != int(value):
            return False
        if self.step is not None:
            steps = (value - self.low) / self.step
            if abs(steps - round(steps)) > 1e-9:
                return False
        return bool(self.low <= value <= self.top(values))

    def to_dict(self) -> dict[str, Any]:
        """Return its entry in a file."""
        values = {one.name: getattr(self, one.name) for one in fields(self) if one.name != "name"}
        values["choices"] = list(self.choices) or None
        return {name: value for name, value in values.items() if value is not None}


@dataclass(frozen=True)
class Stage:
    """Parameters searched together; the best of a stage is kept in those after it.

    Attributes:
        name: Its name.
        parameters: In the order of choice.
        share: Fraction of all trials and of the time, relative to the other stages.
    """

    name: str
    parameters: tuple[Parameter, ...]
    share: float = 1.0

    def suggest(self, trial: Any, base: Mapping[str, Any]) -> dict[str, Any]:
        """Return the values that a trial chooses for the parameters.

        Args:
            trial: Asked for each parameter.
            base: All other settings.
        """
        chosen: dict[str, Any] = {}
        for one in self.parameters:
            chosen[one.name] = one.suggest(trial, {**base, **chosen})
        return chosen

    def choose(self, trial: Any, base: Mapping[str, Any]) -> dict[str, Any]:
        """Return all settings of a trial.

        Args:
            trial: Asked for each parameter.
            base: All other settings.
        """
        chosen = self.suggest(trial, base)
        return followed({**base, **chosen}, chosen)

    def first(self, base: Mapping[str, Any]) -> dict[str, Any] | None:
        """Return the values of the parameters in ``base``; None if the space lacks one of them."""
        values = dict(base)
        values["num_out"] = TokenSpec(**Settings.from_dict(values).token_options()).num_out
        if not all(one.holds(values[one.name], values) for one in self.parameters):
            return None
        return {
            one.name: int(values[one.name]) if one.kind == "int" else values[one.name]
            for one in self.parameters
        }


@dataclass(frozen=True)
class Space:
    """The stages of a search.

    Example:
        >>> space = read_space("paper")
        >>> [(stage.name, [one.name for one in stage.parameters]) for stage in space.stages]
        ... # doctest: +NORMALIZE_WHITESPACE
        [('tokens', ['num_out', 'out_exponent', 'in_exponent']),
         ('training', ['lr', 'num_layers', 'weight_decay'])]
    """

    name: str
    stages: tuple[Stage, ...] = field(default=())

    def without(self, names: Collection[str]) -> Space:
        """Return the space without some parameters, and without stages that this leaves empty."""
        stages = [
            replace(one, parameters=tuple(p for p in one.parameters if p.name not in names))
            for one in self.stages
        ]
        kept = tuple(one for one in stages if one.parameters)
        if not kept:
            raise ConfigError(f"nothing is left to search in {self.name!r}; fix fewer settings")
        return Space(self.name, kept)

    def to_dict(self) -> dict[str, Any]:
        """Return the content of its file."""
        return {
            "stages": [
                {
                    "name": stage.name,
                    "share": stage.share,
                    "parameters": {one.name: one.to_dict() for one in stage.parameters},
                }
                for stage in self.stages
            ]
        }


def followed(values: dict[str, Any], chosen: Iterable[str]) -> dict[str, Any]:
    """Return settings with those that follow from a chosen one: num_in takes the slots left."""
    names = set(chosen)
    if "num_out" in names and "num_in" not in names:
        values["num_in"] = None
    return values


# ---- reading -----------------------------------------------------------------------------------


def read_space(text: str) -> Space:
    """Return a built-in space by name, or the one a file describes.

    Args:
        text: "paper", "extended", "large", or a YAML file.

    Raises:
        ConfigError: If there is none, or the file holds something unknown.
    """
    if text in BUILT_IN:
        place = files("dhilgt.tune") / "spaces" / f"{text}.yaml"
        return space_of(yaml_files.read_mapping(Path(str(place))), text, text)
    path = Path(text)
    if not path.suffix and not path.exists():
        raise ConfigError(
            f"there is no space named {text!r}; {name_hint(text, BUILT_IN)}, or a file"
        )
    return space_of(yaml_files.read_mapping(path), path.stem, str(path))


def space_of(values: Mapping[str, Any], name: str, place: str) -> Space:
    """Return the space that plain values describe.

    Args:
        values: As a file has them.
        name: What to call it.
        place: Where they stand, for messages.
    """
    _check_keys(values, ("stages",), place)
    stages = values.get("stages")
    if not isinstance(stages, list) or not stages:
        raise ConfigError(f"{place}: 'stages' has to be a list of stages, each with parameters")
    read = tuple(_stage(one, at + 1, place) for at, one in enumerate(stages))
    names = [stage.name for stage in read]
    for one in names:
        if names.count(one) > 1:
            raise ConfigError(f"{place}: two stages are named {one!r}; give each its own name")
    return Space(name, read)


def space_of_choices(
    values: Mapping[str, Any], name: str, place: str, sections: Sequence[str]
) -> Space:
    """Return the space of lists of values by section and setting; each section is a stage.

    Args:
        values: As a file has them.
        name: What to call it.
        place: Where they stand, for messages.
        sections: The names of sections, in the order of choice.

    Raises:
        ConfigError: If a section is unknown, or a setting has no list.

    Example:
        >>> space = space_of_choices({"model": {"heads": [1, 2]}}, "gcn", "gcn.yaml", ["model"])
        >>> space.stages[0].parameters[0].choices
        (1, 2)
    """
    stages = {section: Stage(section, ()) for section in sections}
    for section, lists in values.items():
        if section not in stages:
            raise ConfigError(f"{place}: {section!r}; write {' or '.join(map(repr, sections))}")
        parameters = []
        for setting, choices in yaml_files.section(lists, f"{place}, {section}").items():
            if not isinstance(choices, list) or not choices:
                raise ConfigError(
                    f"{place}: {setting} is {choices!r}; write a list of values to try"
                )
            numbers = tuple(yaml_files.number(one) for one in choices)
            parameters.append(Parameter(setting, "categorical", numbers))
        stages[section] = Stage(section, tuple(parameters))
    return Space(name, tuple(stages.values()))


def _stage(values: Any, number: int, place: str) -> Stage:
    where = f"{place}, stage {number}"
    if not isinstance(values, Mapping):
        raise ConfigError(f"{where} is {values!r}; write name and parameters")
    _check_keys(values, ("name", "share", "parameters"), where)
    parameters = values.get("parameters")
    if not isinstance(parameters, Mapping) or not parameters:
        raise ConfigError(f"{where} has no parameters; write 'lr: {{kind: log, low: ..., ...}}'")
    share = values.get("share", 1)
    if isinstance(share, bool) or not isinstance(share, (int, float)) or not 0 < share < 1e6:
        raise ConfigError(f"{where}: share = {share!r}; write a number above 0")
    name = str(values.get("name", f"stage {number}"))
    read = tuple(_parameter(str(one), facts, where) for one, facts in parameters.items())
    return Stage(name, read, float(share))


def _parameter(name: str, values: Any, place: str) -> Parameter:
    where = f"{place}, {name}"
    known = [one.name for one in fields(Settings) if one.name not in _NOT_SEARCHED]
    if name not in known:
        why = "is not searched" if name in _NOT_SEARCHED else "is not a setting"
        raise ConfigError(f"{place}: {name!r} {why}; {name_hint(name, known)}")
    if not isinstance(values, Mapping):
        raise ConfigError(f"{where} is {values!r}; write kind, and choices or low and high")
    _check_keys(values, ("kind", "choices", "low", "high", "step"), where)
    kind = values.get("kind")
    if kind not in KINDS:
        raise ConfigError(f"{where}: kind = {kind!r}; {name_hint(str(kind), KINDS)}")
    if kind == "categorical":
        choices = values.get("choices")
        if not isinstance(choices, list) or not choices:
            raise ConfigError(f"{where}: choices = {choices!r}; write a list of values")
        checked = tuple(yaml_files.checked_value(name, one, where) for one in choices)
        return Parameter(name, kind, checked)
    low = _number(name, values.get("low"), f"{where}, low")
    high: Any = values.get("high")
    bound = _BOUND.fullmatch(high) if isinstance(high, str) else None
    if bound is not None and kind == "int":
        if bound[1] not in known:
            raise ConfigError(f"{where}: high = {high!r}; {name_hint(bound[1], known)}")
    else:
        high = _number(name, high, f"{where}, high")
        if high < low:
            raise ConfigError(f"{where}: high = {high:g} is below low = {low:g}; exchange them")
    if kind == "log" and low <= 0:
        raise ConfigError(f"{where}: low = {low:g}; a logarithmic range begins above 0")
    if kind == "int" and (low != int(low) or (not isinstance(high, str) and high != int(high))):
        raise ConfigError(f"{where}: low and high of an int are whole numbers")
    step = values.get("step")
    if step is not None and (kind != "float" or not isinstance(step, (int, float)) or step <= 0):
        raise ConfigError(f"{where}: step = {step!r}; a step above 0 goes with kind float")
    if kind == "int":
        low, high = int(low), high if isinstance(high, str) else int(high)
    return Parameter(name, str(kind), (), low, high, step)


def _number(name: str, value: Any, place: str) -> float:
    checked = None if value is None else yaml_files.checked_value(name, value, place)
    if isinstance(checked, bool) or not isinstance(checked, (int, float)):
        raise ConfigError(f"{place} = {value!r}; write a number")
    return checked


def _check_keys(values: Mapping[str, Any], known: Collection[str], place: str) -> None:
    for key in values:
        if key not in known:
            raise ConfigError(f"{place}: unknown key {str(key)!r}; {name_hint(str(key), known)}")
