"""The files of a folder of results: JSON lines and pictures."""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dhilgt.errors import ArtifactError
from dhilgt.report.html import Markup, tag

Line = dict[str, Any]
MACHINE = ("machine", "environment")  # keys of a line that describe where it was measured
KINDS = {".png": "image/png", ".svg": "image/svg+xml", ".jpg": "image/jpeg", ".webp": "image/webp"}
_MOST_LINE_BYTES = 64 << 20
_MOST_PICTURE_BYTES = 4 << 20


@dataclass(frozen=True)
class Source:
    """A file of JSON lines.

    Attributes:
        name: Its path in the folder, with slashes.
        lines: Its lines.
    """

    name: str
    lines: list[Line]


@dataclass(frozen=True)
class Picture:
    """A picture.

    Attributes:
        name: Its path in the folder, with slashes.
        path: The file.
    """

    name: str
    path: Path

    def markup(self) -> Markup:
        """Return the picture with its content inside the page, where a script in it is not run."""
        kind = KINDS[self.path.suffix.lower()]
        data = base64.b64encode(self.path.read_bytes()).decode("ascii")
        words = self.path.stem.replace("-", " ").replace("_", " ")
        image = tag("img", src=f"data:{kind};base64,{data}", alt=words, loading="lazy")
        return tag("figure", image, tag("figcaption", self.name))


@dataclass(frozen=True)
class Folder:
    """The content of a folder.

    Attributes:
        sources: Files of JSON lines.
        pictures: Pictures.
        left_out: Files that are not shown, each with the reason.
    """

    sources: list[Source] = field(default_factory=list)
    pictures: list[Picture] = field(default_factory=list)
    left_out: list[tuple[str, str]] = field(default_factory=list)


def read_folder(folder: Path) -> Folder:
    """Read all results below a folder, in the order of their names.

    A file that cannot be shown is left out with the reason, so that the others are still shown.

    Args:
        folder: Hidden files and folders in it are skipped.

    Raises:
        ArtifactError: If it is not a folder, or holds nothing to show.
    """
    if not folder.is_dir():
        raise ArtifactError(f"{folder} is not a folder; name one that holds results")
    content = Folder()
    for path in sorted(folder.rglob("*")):
        relative = path.relative_to(folder)
        if any(part.startswith((".", "_build")) for part in relative.parts) or not path.is_file():
            continue
        name = relative.as_posix()
        try:
            if path.suffix == ".jsonl":
                content.sources.append(Source(name, read_lines(path)))
            elif path.suffix.lower() in KINDS and not _has_drawing(path):
                _check_size(path, _MOST_PICTURE_BYTES)
                content.pictures.append(Picture(name, path))
        except (OSError, ArtifactError) as error:
            content.left_out.append((name, str(error)))
    if not content.sources and not content.pictures:
        raise ArtifactError(
            f"{folder} holds no results (files .jsonl, .png, .svg); name a folder such as "
            "docs/results"
        )
    return content


def read_lines(path: Path) -> list[Line]:
    """Return the JSON objects of a file, one per line; a last line without an end is skipped.

    Raises:
        ArtifactError: If a line is not an object.
    """
    _check_size(path, _MOST_LINE_BYTES)
    *whole, _ = path.read_bytes().split(b"\n")  # a killed run can leave an incomplete line
    lines = []
    for number, text in enumerate(whole, 1):
        if not text.strip():
            continue
        try:
            line = json.loads(text)
        except (ValueError, RecursionError):
            line = None
        if not isinstance(line, dict):
            raise ArtifactError(f"line {number} is not a JSON object")
        lines.append(line)
    return lines


def _has_drawing(path: Path) -> bool:
    """Return whether the same picture is there as a drawing, which is shown instead."""
    return path.suffix != ".svg" and path.with_suffix(".svg").is_file()


def _check_size(path: Path, most: int) -> None:
    size = path.stat().st_size
    if size > most:
        raise ArtifactError(f"it has {size:,} bytes, more than {most:,}")
