"""Errors of workers, carried to the driver with their mentions of arguments."""

from __future__ import annotations

import socket

from dhilgt import errors
from dhilgt.errors import DhilgtError


def packed(error: DhilgtError) -> tuple[str, str]:
    """Return the name of an error's class and its message, as plain text.

    An error about disk or memory names the machine.

    Args:
        error: It may be of a class that is not in `dhilgt.errors`: its base is named.

    Example:
        >>> packed(errors.GraphError("no edges"))
        ('GraphError', 'no edges')
    """
    kind = next(one for one in type(error).__mro__ if hasattr(errors, one.__name__))
    of_machine = isinstance(error, errors.ArtifactError | errors.MemoryLimitError)
    place = f"on node {socket.gethostname()}: " if of_machine else ""
    return kind.__name__, place + error.quotable


def unpacked(name: str, message: str) -> DhilgtError:
    """Return an error that was packed.

    Args:
        name: Of its class.
        message: Its message.

    Example:
        >>> unpacked("GraphError", "no edges")
        GraphError('no edges')
    """
    kind: type[DhilgtError] = getattr(errors, name)
    return kind(message)


def last_line(error: BaseException) -> str:
    r"""Return the last line of an error of Ray, which carries a traceback.

    Example:
        >>> last_line(ValueError("Traceback: ...\nno space left"))
        'no space left'
    """
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1] if lines else type(error).__name__
