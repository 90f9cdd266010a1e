"""Packages that only the datasets need, imported when they are first used."""

from importlib import import_module
from typing import Any

from dhilgt.errors import DatasetError


def import_optional(name: str) -> Any:
    """Return a module of an optional package.

    Args:
        name: Name of the module, such as "scipy.sparse".

    Raises:
        DatasetError: If the package is not installed, with the command that installs it.
    """
    try:
        return import_module(name)
    except ImportError as error:
        raise DatasetError(
            f"this needs {name.partition('.')[0]} ({error}); install it with "
            "pip install 'dhilgt[data]'"
        ) from error
