"""What can go wrong, by name.

Every message says what was found, where, and the way out.
"""

import sys
import warnings


class DhilgtError(Exception):
    """Base of all errors raised on purpose by this package."""


class GraphError(DhilgtError, ValueError):
    """The input does not describe a graph this package can work on."""


class ArtifactError(DhilgtError, ValueError):
    """A folder on disk is not the artifact it should be."""


class MemoryLimitError(DhilgtError, MemoryError):
    """The work does not fit the memory it was given."""


class GraphWarning(UserWarning):
    """The input was usable, but held something its owner may not expect."""


def warn(message: str) -> None:
    """Warns at the line of the user's code that called into this package."""
    level, frame = 1, sys._getframe(0)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("dhilgt"):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, GraphWarning, stacklevel=level)
