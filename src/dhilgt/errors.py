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


class DatasetError(DhilgtError, RuntimeError):
    """A public dataset cannot be had, found or read."""


class MemoryLimitError(DhilgtError, MemoryError):
    """The work does not fit the memory it was given."""


class ConfigError(DhilgtError, ValueError):
    """A setting is unknown, of the wrong type, out of range, or does not fit the machine."""


class TrainingError(DhilgtError, RuntimeError):
    """Training cannot go on."""


class ProcessError(DhilgtError, RuntimeError):
    """Another of the processes that work together failed; it has the message."""


class TrainingInterrupted(KeyboardInterrupt):
    """Training stopped on a signal, after its state was saved; the message says how to go on.

    Attributes:
        signum: The signal that asked for it.
    """

    def __init__(self, message: str, signum: int) -> None:
        super().__init__(message)
        self.signum = signum


class GraphWarning(UserWarning):
    """The input was usable, but held something its owner may not expect."""


class TrainingWarning(GraphWarning):
    """Training goes on, but not in the way its settings suggest."""


def warn(message: str, category: type[GraphWarning] = GraphWarning) -> None:
    """Warns at the line of the user's code that called into this package."""
    level, frame = 1, sys._getframe(0)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("dhilgt"):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)
