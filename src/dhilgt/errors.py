"""What can go wrong, by name.

Every message says what was found, where, and the way out.
"""


class DhilgtError(Exception):
    """Base of all errors raised on purpose by this package."""


class GraphError(DhilgtError, ValueError):
    """The input does not describe a graph this package can work on."""


class ArtifactError(DhilgtError, ValueError):
    """A folder on disk is not the artifact it should be."""


class MemoryLimitError(DhilgtError, MemoryError):
    """The work does not fit the memory it was given."""
