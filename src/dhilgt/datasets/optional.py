"""Packages that only the datasets need, imported when they are first used."""

from typing import Any

from dhilgt.errors import DatasetError


def _missing(package: str, error: ImportError) -> DatasetError:
    return DatasetError(
        f"this needs {package} ({error}); install it with pip install 'dhilgt[data]'"
    )


def scipy_sparse() -> Any:
    """Gives `scipy.sparse`."""
    try:
        import scipy.sparse
    except ImportError as error:
        raise _missing("scipy", error) from error
    return scipy.sparse


def scipy_csgraph() -> Any:
    """Gives `scipy.sparse.csgraph`."""
    try:
        import scipy.sparse.csgraph
    except ImportError as error:
        raise _missing("scipy", error) from error
    return scipy.sparse.csgraph


def scipy_io() -> Any:
    """Gives `scipy.io`."""
    try:
        import scipy.io
    except ImportError as error:
        raise _missing("scipy", error) from error
    return scipy.io


def pooch() -> Any:
    """Gives `pooch`."""
    try:
        import pooch
    except ImportError as error:
        raise _missing("pooch", error) from error
    return pooch
