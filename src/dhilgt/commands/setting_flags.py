"""The flags of all settings, made from the list of settings."""

import functools
import inspect
import re
from collections.abc import Callable
from dataclasses import Field, fields
from typing import Annotated, Any

import typer

from dhilgt.settings import GROUPS, Settings

_NONE = object()  # "none" on the command line; None is "not given"
_FIELDS: tuple[Field[Any], ...] = tuple(one for group in GROUPS for one in Settings.group(group))


def with_settings(run: Callable[..., None]) -> Callable[..., None]:
    """Gives a command with a flag for every setting.

    Args:
        run: Takes ``settings``, a dict of those that were given.
    """
    signature = inspect.signature(run)
    own = [one for one in signature.parameters.values() if one.name != "settings"]
    flags = [
        inspect.Parameter(
            one.name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=_annotation(one)
        )
        for one in _FIELDS
    ]

    @functools.wraps(run)
    def command(**values: Any) -> None:
        given = {one.name: values.pop(one.name, None) for one in _FIELDS}
        chosen = {
            name: None if value is _NONE else value
            for name, value in given.items()
            if value is not None
        }
        run(**values, settings=chosen)

    parameters = [one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in own] + flags
    command.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {one.name: one.annotation for one in parameters}
    return command


def flag_of(name: str) -> str:
    """Gives the flag of a setting.

    Example:
        >>> flag_of("hidden_channels")
        '--hidden-channels'
    """
    return "--" + name.replace("_", "-")


def in_flag_words(message: str) -> str:
    """Gives a message about settings with their flags in it.

    Example:
        >>> in_flag_words("hidden_channels = 100 is not a multiple of heads = 8")
        '--hidden-channels 100 is not a multiple of --heads 8'
    """
    names = "|".join(sorted((one.name for one in fields(Settings)), key=len, reverse=True))
    message = re.sub(rf"(?<![-\w'])({names}) = ", lambda m: f"{flag_of(m[1])} ", message)
    snake = "|".join(one.name for one in fields(Settings) if "_" in one.name)
    return re.sub(rf"(?<![-\w'])({snake})\b", lambda m: flag_of(m[1]), message)


def _annotation(one: Field[Any]) -> Any:
    shown = "none" if one.default is None else str(one.default).lower()
    if isinstance(one.default, float):
        shown = f"{one.default:g}"
    text = in_flag_words(f"{one.metadata['help']} [default: {shown}]")
    flag = flag_of(one.name)
    kind = str(one.type)
    if kind == "bool":
        option = typer.Option(f"{flag}/--no-{flag[2:]}", help=text, show_default=False)
        return Annotated[bool | None, option]
    number = float if "float" in kind else int
    if kind in ("int", "float"):
        return Annotated[number | None, typer.Option(flag, help=text, show_default=False)]
    if "int" not in kind and "float" not in kind:
        if "None" not in kind:
            return Annotated[str | None, typer.Option(flag, help=text, show_default=False)]
        parser, metavar = _word(str, "none"), "TEXT"
    else:
        word = "none" if "None" in kind else "auto"
        parser, metavar = _word(number, word), f"{number.__name__.upper()}|{word}"
    option = typer.Option(flag, help=text, show_default=False, parser=parser, metavar=metavar)
    return Annotated[Any, option]


def _word(kind: type, word: str) -> Callable[[str], Any]:
    """Gives the reader of a value that may also be one word."""

    def read(text: str) -> Any:
        if text.lower() == word:
            return _NONE if word == "none" else word
        try:
            return kind(text)
        except ValueError:
            raise typer.BadParameter(
                f"{text!r} is not a {'whole ' * (kind is int)}number or {word!r}"
            ) from None

    return read
