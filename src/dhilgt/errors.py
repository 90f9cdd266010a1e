"""Errors and warnings, by name.

Every message names what was found, where, and the way out. A message that mentions an argument of
the library does so with `argument`, `setting` or `element`: `str(error)` reads as Python, and the
command line shows its own option in the same place.
"""

import contextlib
import json
import re
import shlex
import sys
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

# Characters for private use mark a mention inside a message. What stands between them is ASCII;
# anything else between two such characters came from a user's text and is left as it is.
_OPEN, _CLOSE = "\ue000", "\ue001"
_MARK = re.compile(f"{_OPEN}([^{_OPEN}{_CLOSE}]*){_CLOSE}")
_NO_VALUE = object()


@dataclass(frozen=True)
class Mention:
    """A place in a message that reads differently in Python and on a command line.

    Attributes:
        python: Its text in Python.
        name: The argument that is mentioned; None for another difference in wording.
        value: The value as a command line shows it, True or False for a switch; None where none
            is mentioned. Without a name, the text on a command line.
        index: Place in an array, where the argument is one.
        advice: What to do with the argument, with ``{}`` in its place: a command without such an
            option leaves it out.
    """

    python: str
    name: str | None = None
    value: str | bool | None = None
    index: int | None = None
    advice: str | None = None

    def __post_init__(self) -> None:
        text = str, type(None)
        kinds = (str,), text, (*text, bool), (int, type(None)), text
        values = self.python, self.name, self.value, self.index, self.advice
        if not all(isinstance(one, kind) for one, kind in zip(values, kinds, strict=True)):
            raise TypeError("not a mention")

    def marked(self) -> str:
        """Return the text that stands for the mention in a message about to be raised."""
        values = [self.python, self.name, self.value, self.index, self.advice]
        return f"{_OPEN}{json.dumps(values)}{_CLOSE}"


def argument(name: str, value: Any = _NO_VALUE) -> str:
    """Return the mention of an argument, for the message of an error or a warning.

    Args:
        name: Of the argument.
        value: What to pass, or what was passed; ``...`` for any value. Left out, the name stands
            alone.

    Example:
        >>> str(DhilgtError(f"it exists; pass {argument('overwrite', True)}"))
        'it exists; pass overwrite=True'
    """
    if value is _NO_VALUE:
        return Mention(name, name).marked()
    if value is ...:
        return Mention(f"{name}=...", name).marked()
    return Mention(f"{name}={_python_value(value)}", name, _shell_value(value)).marked()


def advice(text: str, name: str, value: Any = _NO_VALUE) -> str:
    """Return advice about an argument, which a command without such an option does not give.

    Args:
        text: The advice, with ``{}`` for the argument and all that separates it from the next.
        name: Of the argument.
        value: As for `argument`.

    Example:
        >>> str(DhilgtError(f"it is too large; {advice('raise {}, or ', 'max_memory')}wait"))
        'it is too large; raise max_memory, or wait'
    """
    shown = name if value is _NO_VALUE else f"{name}={_python_value(value)}"
    plain = None if value is _NO_VALUE else _shell_value(value)
    return Mention(text.format(shown), name, plain, None, text).marked()


def setting(name: str, value: Any) -> str:
    """Return the mention of a setting and the value it has.

    Example:
        >>> str(ConfigError(f"{setting('size', 300)}; pass at most 255"))
        'size = 300; pass at most 255'
    """
    return Mention(f"{name} = {value!r}", name, _shell_value(value)).marked()


def element(name: str, index: int, value: Any = _NO_VALUE) -> str:
    """Return the mention of one element of an array.

    Args:
        name: Argument that is the array.
        index: Place of the element.
        value: The element; it may be left out.

    Example:
        >>> str(GraphError(f"{element('src', 3, -1)} is negative"))
        'src[3] = -1 is negative'
    """
    text = f"{name}[{index}]"
    if value is _NO_VALUE:
        return Mention(text, name, None, int(index)).marked()
    shown = _python_value(value)
    return Mention(f"{text} = {shown}", name, shown, int(index)).marked()


def wording(python: str, shell: str) -> str:
    """Return a piece of a message that the command line words in another way.

    Args:
        python: The text in Python.
        shell: The text on the command line.
    """
    return Mention(python, None, shell).marked()


def _python_value(value: Any) -> str:
    if isinstance(value, str):
        return repr(str(value))
    # The repr of a NumPy number names its type, which nobody asked about.
    return str(value) if hasattr(value, "dtype") else repr(value)


def _shell_value(value: Any) -> str | bool:
    if isinstance(value, bool):
        return value
    if isinstance(value, str):
        return shlex.quote(value) if value.isprintable() else repr(str(value))
    if isinstance(value, (tuple, list)):
        return ",".join(map(str, value))
    return "none" if value is None else _python_value(value)


def _parts(message: str) -> Iterable[str | Mention]:
    for at, text in enumerate(_MARK.split(message)):
        if at % 2 == 0:
            yield text
            continue
        try:
            python, name, value, index, way_out = json.loads(text)
            yield Mention(python, name, value, index, way_out)
        except (ValueError, TypeError, RecursionError):
            yield f"{_OPEN}{text}{_CLOSE}"


class ArgumentMessage(BaseException):
    """Base of errors and warnings whose message may mention arguments.

    Args:
        message: The message, with mentions from `argument` and its like.
        argument: Name of the argument it is about; by default the one it begins with.

    Attributes:
        argument: Name of the argument it is about, or None.
        parts: The message as plain text and mentions.

    Example:
        >>> error = ConfigError(f"{setting('size', 300)}; pass at most 255")
        >>> error.argument, str(error)
        ('size', 'size = 300; pass at most 255')
    """

    def __init__(self, message: str = "", *, argument: str | None = None) -> None:
        self.parts = tuple(part for part in _parts(message) if part)
        first = self.parts[0] if self.parts else None
        if argument is None and isinstance(first, Mention):
            argument = first.name
        self.argument = argument
        super().__init__(
            "".join(part.python if isinstance(part, Mention) else part for part in self.parts)
        )

    @property
    def quotable(self) -> str:
        """The message for use in another one: its mentions stay mentions."""
        return "".join(part.marked() if isinstance(part, Mention) else part for part in self.parts)

    @property
    def problem(self) -> str:
        """The message up to the way out, which a semicolon begins; for use in another one."""
        kept = []
        for part in self.parts:
            text = part.marked() if isinstance(part, Mention) else part.partition("; ")[0]
            kept.append(text)
            if isinstance(part, str) and text != part:
                break
        return "".join(kept)

    def mentions(self, name: str) -> bool:
        """Return whether the message mentions an argument."""
        return any(isinstance(part, Mention) and part.name == name for part in self.parts)


class DhilgtError(ArgumentMessage, Exception):
    """Base of all errors raised on purpose by this package."""


class GraphError(DhilgtError, ValueError):
    """The input does not describe a graph this package can work on."""


class ArtifactError(DhilgtError, ValueError):
    """A folder on disk is not the artifact it should be."""


class DatasetError(DhilgtError, RuntimeError):
    """A public dataset cannot be fetched, located or read."""


class MemoryLimitError(DhilgtError, MemoryError):
    """The work does not fit into the memory allowed for it."""


class ConfigError(DhilgtError, ValueError):
    """A setting is unknown, of the wrong type, out of range, or does not fit the machine."""


class TrainingError(DhilgtError, RuntimeError):
    """Training cannot go on."""


class ProcessError(DhilgtError, RuntimeError):
    """Another of the processes that work together failed; it has the message."""


class TrainingInterrupted(ArgumentMessage, KeyboardInterrupt):
    """Training stopped on a signal; the message says what is saved and how to go on.

    Attributes:
        signum: The signal that asked for it.
    """

    def __init__(self, message: str, signum: int) -> None:
        super().__init__(message)
        self.signum = signum


class GraphWarning(ArgumentMessage, UserWarning):
    """The input was usable, but holds something its owner may not expect."""


class TrainingWarning(GraphWarning):
    """Training goes on, but not as its settings suggest."""


@contextlib.contextmanager
def about(name: str) -> Iterator[None]:
    """Raise errors of the block as errors about an argument, where they name no other.

    Args:
        name: Of the argument. The errors carry it; their message stays as it is.
    """
    try:
        yield
    except DhilgtError as error:
        error.argument = error.argument or name
        raise


def warn(message: str, category: type[GraphWarning] = GraphWarning) -> None:
    """Warn at the line of the user's code that called into this package."""
    level, frame = 1, sys._getframe(0)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("dhilgt"):
        level, frame = level + 1, frame.f_back
    warnings.warn(category(message), stacklevel=level)
