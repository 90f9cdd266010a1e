"""The parameters of a classifier, by scikit-learn's conventions and without needing it."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal, Self

from dhilgt.errors import ConfigError, DhilgtError, argument, setting
from dhilgt.settings.settings import Settings
from dhilgt.utils.checks import choice, name_hint, number
from dhilgt.utils.fields import takes

AUTO, PAPER = RECIPES = ("auto", "paper")
PAPER_SETTINGS = {"order": "degree-id"}
"""Settings of the recipe "paper" that are not the defaults of `Settings`."""


class NotFittedError(DhilgtError, ValueError, AttributeError):
    """The classifier has to be trained or loaded first."""


class _Shown(type):
    """The type of `UNSET`, for its representation."""

    def __repr__(cls) -> str:
        return cls.__name__


class UNSET(metaclass=_Shown):
    """The value of a setting that was not given: the recipe decides it.

    A class, because copies of it in other objects and processes are the same object.
    """


@dataclass(frozen=True)
class _Arguments(Settings):
    """The arguments of a classifier: all settings, the recipe, and how the work is done."""

    recipe: str = AUTO
    budget: float | None = None
    cache: bool = True
    progress: bool | Literal["auto"] = "auto"


def _unset_settings(method: Callable[..., None]) -> None:
    """Make `UNSET` the default of every setting in the signature of a method."""
    signature = inspect.signature(method)
    names = {one.name for one in fields(Settings)}
    parameters = [
        one.replace(default=UNSET) if one.name in names else one
        for one in signature.parameters.values()
    ]
    method.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]


class Parameters:
    """Keeps constructor arguments as they are; they are checked when training begins.

    The arguments are the fields of `Settings`, `recipe`, `budget`, `cache` and `progress`, all by
    name. A setting that is not given is `UNSET`: the recipe decides it.
    """

    _estimator_type = "classifier"
    recipe: str
    budget: float | None
    cache: bool
    progress: bool | Literal["auto"]

    @takes(_Arguments, by_name=True)
    def __init__(self, **arguments: Any) -> None:
        known = self._names()
        for name in arguments:
            if name not in known:  # a TypeError, as for any call in Python
                raise TypeError(
                    f"{type(self).__name__} got an unexpected keyword argument {name!r}; "
                    f"{name_hint(name, known, 'help(dhilgt.NodeClassifier) lists them')}"
                )
        for name, parameter in inspect.signature(type(self).__init__).parameters.items():
            if name != "self":
                self.__dict__[name] = arguments.get(name, parameter.default)

    _unset_settings(__init__)

    @classmethod
    def _names(cls) -> list[str]:
        return [name for name in inspect.signature(cls.__init__).parameters if name != "self"]

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return all parameters by name.

        Args:
            deep: Ignored: no parameter has parameters of its own.
        """
        return {name: getattr(self, name) for name in self._names()}

    def set_params(self, **params: Any) -> Self:
        """Change parameters; the next `fit` uses them.

        Args:
            **params: New values by name.

        Raises:
            ConfigError: If a name is not a parameter; the message names the nearest one.
        """
        known = self._names()
        for name, value in params.items():
            if name not in known:
                hint = name_hint(name, known)
                raise ConfigError(f"{name!r} is not a parameter; {hint}")
            setattr(self, name, value)
        return self

    def _given(self) -> dict[str, Any]:
        """Return the settings that were given, by name."""
        values = {one.name: getattr(self, one.name) for one in fields(Settings)}
        return {name: value for name, value in values.items() if value is not UNSET}

    def _settings(self, names: Sequence[str] | None = None) -> Settings:
        """Return the settings, those that were not given with their defaults.

        Args:
            names: Settings to take; None for all that were given.
        """
        given = self._given()
        taken = {name: given[name] for name in given if names is None or name in names}
        return Settings(**(PAPER_SETTINGS if self.recipe == PAPER else {}) | taken)

    def _checked_recipe(self) -> str:
        """Return the recipe; raise if it or the budget is none."""
        recipe = choice("recipe", self.recipe, RECIPES)
        number("budget", self.budget, 0, 1e9, above=True, optional=True)
        if recipe == PAPER and self.budget is not None:
            raise ConfigError(
                f"{setting('budget', self.budget)} limits the search of "
                f"{argument('recipe', AUTO)}; with {argument('recipe', PAPER)}, pass "
                f"{argument('max_seconds')}"
            )
        return recipe

    def __repr__(self) -> str:
        """Return the call with the parameters that differ from their defaults."""
        defaults = inspect.signature(type(self).__init__).parameters
        changed = [
            f"{name}={value!r}"
            for name, value in self.get_params().items()
            if repr(value) != repr(defaults[name].default)
        ]
        return f"{type(self).__name__}({', '.join(changed)})"

    def __sklearn_tags__(self) -> Any:
        """Return the tags by which scikit-learn knows a classifier."""
        # Only scikit-learn calls this, so it is installed.
        from sklearn.utils import ClassifierTags, InputTags, Tags, TargetTags

        return Tags(
            estimator_type="classifier",
            target_tags=TargetTags(required=True),
            classifier_tags=ClassifierTags(),
            input_tags=InputTags(sparse=True),
        )

    def __sklearn_is_fitted__(self) -> bool:
        """Return whether `fit` has been called."""
        return "model_" in self.__dict__

    def _check_fitted(self, what: str) -> None:
        if "model_" not in self.__dict__:
            name = type(self).__name__
            raise _not_fitted(
                f"this {name} is not fitted yet, so it has no {what}; call fit, or load one that "
                f"was saved with {name}.load"
            )


def _not_fitted(message: str) -> NotFittedError:
    """Return an error that scikit-learn, where it is in use, accepts as its own."""
    theirs = getattr(sys.modules.get("sklearn.exceptions"), "NotFittedError", None)
    if theirs is None:
        return NotFittedError(message)
    both = type("NotFittedError", (NotFittedError, theirs), {})
    error: NotFittedError = both(message)
    return error
