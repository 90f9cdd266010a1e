"""Lines of results: each has the command that made it, and a hash that shows later changes."""

from __future__ import annotations

import hashlib
import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from dhilgt.errors import ArtifactError
from dhilgt.store.files import canonical_json

LINE_HASH = "line_hash"


def digest(kind: str, values: Mapping[str, Any]) -> str:
    """Return 16 hexadecimal digits that are equal for equal values of a kind."""
    return hashlib.sha256(kind.encode() + canonical_json(values)).hexdigest()[:16]


def line_hash(values: Mapping[str, Any]) -> str:
    """Return the hash of a line, of all its values but the hash itself.

    Args:
        values: The parsed line, with or without its hash.
    """
    hashed = {name: value for name, value in values.items() if name != LINE_HASH}
    return digest("dhilgt line 1", hashed)


def signed_line(values: Mapping[str, Any]) -> bytes:
    """Return the line of a file of results: its values as JSON, with their hash.

    Example:
        >>> import json
        >>> line = json.loads(signed_line({"seconds": 1.5}))
        >>> sorted(line), check_line(line)
        (['line_hash', 'seconds'], None)
        >>> line_hash({**line, "seconds": 0.5}) == line["line_hash"]
        False
    """
    return canonical_json({**values, LINE_HASH: line_hash(values)})


def check_line(values: Mapping[str, Any]) -> None:
    """Refuse a line that was changed since it was written.

    Args:
        values: The parsed line.

    Raises:
        ArtifactError: If its hash is missing, or is not that of its values.
    """
    if values.get(LINE_HASH) != line_hash(values):
        raise ArtifactError(
            "was changed after it was written: its hash is not that of its values; remove the line "
            "and measure it again"
        )


def recorded_command(arguments: Sequence[str], program: str = "dhilgt") -> str:
    """Return a command as results keep it: files by name, since folders are those of one machine.

    Args:
        arguments: Those of the program.
        program: Its name.

    Example:
        >>> recorded_command(["bench", "default", "--root=/data/graphs", "-o", "/home/me/d.jsonl"])
        'dhilgt bench default --root=graphs -o d.jsonl'
    """
    parts = []
    for one in arguments:
        option, equals, value = one.partition("=") if one.startswith("-") else ("", "", one)
        path = Path(value)
        named = path.name if path.is_absolute() or value.startswith(("~", "..")) else value
        parts.append(f"{option}{equals}{named}")
    return shlex.join([program, *parts])


def script_command() -> str:
    """Return the command that runs this program with ``python -m``, as results keep it."""
    return recorded_command(sys.orig_argv[1:], "python")
