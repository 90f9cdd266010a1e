"""The commands: each parses its arguments, calls the library and prints."""

from typing import TYPE_CHECKING

from dhilgt.utils.lazy import lazy_names

if TYPE_CHECKING:
    from dhilgt.cli.app import main as main

__all__ = ["main"]

__getattr__ = lazy_names(__name__, {"main": "dhilgt.cli.app"})
