"""The manifest of a finished artifact, and the folder it is in."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dhilgt.errors import ArtifactError, wording
from dhilgt.store.files import (
    FileEntry,
    canonical_json,
    explained,
    open_regular,
    shown,
    strict_json,
)
from dhilgt.utils.memory import format_bytes

MANIFEST = "manifest.json"
JOURNAL = "journal.jsonl"
TOKEN = "token"
"""File of an unfinished build on a cluster, by which a worker knows that it sees the folder."""
LAYOUT = "dhilgt-artifact-1"
MAX_MANIFEST_BYTES = 16 << 20
_RESUME = wording("resume=True", "--resume")  # of the command that builds it, whichever reads it
_KEYS = {"layout", "kind", "format", "library", "params", "fingerprint", "files", "sha256"}


# ---- folders -----------------------------------------------------------------------------------


def partial_path(target: Path) -> Path:
    """Return the folder in which a long build of ``target`` is written."""
    return target.parent / (target.name + ".partial")


def aside_path(target: Path) -> Path:
    """Return the folder that holds the older artifact while a new one takes its name."""
    return target.parent / f".{target.name}.old"


def find_artifact(path: Path) -> Path:
    """Return the folder that holds the artifact named ``path``.

    Raises:
        ArtifactError: If there is none; the message describes what is there instead.
    """
    with explained("open", path):
        for _ in range(10):
            try:
                return _find_artifact(path)
            except ArtifactError as error:
                missing = error
            # A builder may have put it in place meanwhile.
            if not any((folder / MANIFEST).exists() for folder in (path, aside_path(path))):
                break
        raise missing


def _find_artifact(path: Path) -> Path:
    if (path / MANIFEST).exists():
        return path
    if path.is_dir():
        if (path / JOURNAL).exists() or path.name.endswith(".partial"):
            raise ArtifactError(f"{path} is an unfinished build; {_way_to_finish(path)}")
        raise ArtifactError(f"{path} is a folder without {MANIFEST}: not an artifact")
    if path.exists():
        raise ArtifactError(f"{path} is a file; an artifact is a folder with {MANIFEST} in it")
    # A crash between the two renames of a replacement leaves the older artifact aside, complete.
    if (aside_path(path) / MANIFEST).exists():
        return aside_path(path)
    if partial_path(path).is_dir():
        raise ArtifactError(
            f"{path} is not finished: its build stopped in {partial_path(path)}; "
            f"{_way_to_finish(partial_path(path))}"
        )
    raise ArtifactError(f"there is no artifact at {path}; check the path, or build it first")


def _way_to_finish(folder: Path) -> str:
    resume = "" if (folder / TOKEN).exists() else f" with {_RESUME}"
    return f"run the command that builds it again{resume} to finish it"


# ---- the manifest ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Manifest:
    """The content of ``manifest.json``.

    Example:
        >>> manifest = Manifest("labels", 1, "0.1.0", {"order": "degree"}, "ab12", {})
        >>> Manifest.decode(manifest.encode()) == manifest
        True
    """

    kind: str
    format_version: int
    library_version: str
    params: Mapping[str, Any]
    fingerprint: str
    files: Mapping[str, FileEntry]

    def encode(self) -> bytes:
        """Return the text of the manifest; equal contents give equal bytes."""
        body = {
            "layout": LAYOUT,
            "kind": self.kind,
            "format": self.format_version,
            "library": self.library_version,
            "params": dict(self.params),
            "fingerprint": self.fingerprint,
            "files": {entry.file: entry.to_json() for entry in self.files.values()},
        }
        body["sha256"] = hashlib.sha256(canonical_json(body)).hexdigest()
        return canonical_json(body, indent=1) + b"\n"

    @classmethod
    def decode(cls, data: bytes) -> Manifest:
        """Return the manifest of a text, which may come from anybody.

        Raises:
            ArtifactError: If it is not exactly what `encode` writes.
        """
        body = _checked_body(data)
        if set(body) != _KEYS:
            odd = sorted(_KEYS.symmetric_difference(body))
            raise ArtifactError(f"its keys are not those of an artifact: {shown(odd)}")
        for key, kinds in _TYPES.items():
            # The exact type: a bool is an int to Python.
            if type(body[key]) is not kinds:
                raise ArtifactError(f"its {key!r} is {shown(body[key])}, not {kinds.__name__}")
        entries = [FileEntry.from_json(file, value) for file, value in body["files"].items()]
        manifest = cls(
            body["kind"],
            body["format"],
            body["library"],
            body["params"],
            body["fingerprint"],
            {entry.name: entry for entry in entries},
        )
        # Every byte must be as written, which covers the checksum and every key.
        if manifest.encode() != data:
            raise ArtifactError("it was changed after it was written (its checksum differs)")
        return manifest


_TYPES: dict[str, type] = {
    "kind": str,
    "format": int,
    "library": str,
    "params": dict,
    "fingerprint": str,
    "files": dict,
    "sha256": str,
}


def _checked_body(data: bytes) -> dict[str, Any]:
    value = strict_json(data)
    body: dict[str, Any] = value if isinstance(value, dict) else {}
    layout = body.get("layout")
    if not isinstance(layout, str) or not layout.startswith("dhilgt-artifact-"):
        raise ArtifactError("it does not describe an artifact of this package")
    if layout != LAYOUT:
        raise ArtifactError(
            f"its layout is {shown(layout)}, this version reads {LAYOUT!r}; it was written by "
            f"dhilgt {shown(body.get('library'))}: upgrade dhilgt to that version or build again"
        )
    return body


def read_manifest(folder: Path) -> Manifest:
    """Return the manifest in ``folder``.

    Raises:
        ArtifactError: If it is missing, damaged, too large or not a manifest.
    """
    path = folder / MANIFEST
    try:
        return Manifest.decode(_manifest_bytes(path))
    except (ArtifactError, RecursionError) as error:
        reason = "it is nested too deep" if isinstance(error, RecursionError) else error
        raise ArtifactError(f"{path} cannot be used: {reason}") from None


def _manifest_bytes(path: Path) -> bytes:
    with explained("read", path), open_regular(path) as file:
        data = file.read(MAX_MANIFEST_BYTES + 1)
    if len(data) > MAX_MANIFEST_BYTES:
        raise ArtifactError(f"it is larger than {format_bytes(MAX_MANIFEST_BYTES)}")
    return data
