"""Where a search keeps its trials, and how Optuna is reached."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from dhilgt.errors import ConfigError, DhilgtError

JOURNAL = "search.journal"
_PREFIX = "journal:"


def optuna() -> Any:
    """Return the Optuna package, with its log silenced.

    Raises:
        DhilgtError: If it is not installed.
    """
    try:
        import optuna as package
    except ImportError as error:
        missing = error.name or "optuna"
        raise DhilgtError(
            f"a search needs {missing}; install it with pip install 'dhilgt[tune]'"
        ) from error
    package.logging.set_verbosity(package.logging.ERROR)
    return package


def default_address(folder: Path) -> str:
    """Return the address of the one file a search keeps in its folder."""
    return f"{_PREFIX}{folder.resolve() / JOURNAL}"


def is_journal(address: str) -> bool:
    """Return whether an address is a local file, used by one search at a time."""
    return address.startswith(_PREFIX)


def open_storage(address: str) -> Any:
    """Return the Optuna storage at an address.

    Args:
        address: "journal:PATH" for a file, "redis://..." for a journal there, or the address of a
            database ("sqlite:///search.db", "postgresql://..."), which needs SQLAlchemy.

    Raises:
        ConfigError: If nothing can be opened there.
    """
    package = optuna()
    journal = package.storages.journal
    try:
        if address.startswith(_PREFIX):
            path = address.removeprefix(_PREFIX)
            return package.storages.JournalStorage(journal.JournalFileBackend(path))
        if address.startswith("redis"):
            return package.storages.JournalStorage(journal.JournalRedisBackend(address))
        return package.storages.get_storage(address)
    except Exception as error:  # each kind of storage has errors of its own
        raise ConfigError(
            f"the storage {address} cannot be opened ({error}); leave it out to keep the search "
            f"in {JOURNAL}, or check address and packages"
        ) from error
