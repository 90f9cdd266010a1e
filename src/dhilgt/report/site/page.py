"""The page of a folder of results: one HTML file that needs no other."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

from dhilgt._version import __version__
from dhilgt.errors import ArtifactError
from dhilgt.report.html import Markup, document, packaged, section, table, tag
from dhilgt.report.site.sections import OTHERS, SECTIONS, Section
from dhilgt.report.site.source import MACHINE, Folder, Line, Picture, Source, read_folder
from dhilgt.store.files import explained, write_file

_HARDWARE = ("gpus", "gpu", "cpu", "cpus", "cores", "simd", "memory_bytes")
_VERSIONS = ("dhilgt", "python", "torch", "cuda", "numpy")


def write_site(
    folder: str | PathLike[str], output: str | PathLike[str], *, title: str = "Results"
) -> Path:
    """Write a page with all results below a folder, and return its path.

    Args:
        folder: Holds files of JSON lines and pictures.
        output: Folder to write `index.html` to; created if it does not exist.
        title: Heading of the page.

    Raises:
        ArtifactError: If there is nothing to show, or the page cannot be written.
    """
    target = Path(output)
    if target.exists() and not target.is_dir():
        raise ArtifactError(f"{target} is a file; name a folder to write the page to")
    content = render_site(read_folder(Path(folder)), title=title).encode("utf-8")
    page = target / "index.html"
    with explained("write", page):
        target.mkdir(parents=True, exist_ok=True)
        write_file(page, iter((memoryview(content),)))
    return page


def render_site(folder: Folder, *, title: str = "Results") -> str:
    """Return the page of the content of a folder; the same files give the same text.

    Args:
        folder: From `source.read_folder`.
        title: Heading of the page.
    """
    left_out = list(folder.left_out)
    chapters = list(_chapters(folder, left_out))
    if machines := _machines(folder.sources):
        chapters.append(_chapter("machines", "Hardware and versions", machines))
    if left_out:
        files = table("Files", ["file", "why"], left_out, text_columns=2)
        chapters.append(_chapter("left-out", "Files left out", files))
    counts = f"{len(folder.sources)} files of results, {len(folder.pictures)} pictures"
    links = (tag("li", tag("a", one.title, href=f"#{one.name}")) for one in chapters)
    return document(
        f"{title} · dhilgt",
        tag("header", tag("p", f"dhilgt · {counts}", class_="eyebrow"), tag("h1", title)),
        tag(
            "nav",
            tag("h2", "Contents", id="contents"),
            tag("ol", *links),
            aria_labelledby="contents",
        ),
        tag("main", *(one.markup for one in chapters)),
        tag("footer", tag("p", "Choose the head of a column to sort a table by it.")),
        tag("script", packaged("dhilgt.report.site", "site.js")),
        style=packaged("dhilgt.report", "base.css") + packaged("dhilgt.report.site", "site.css"),
        head=[tag("meta", name_="generator", content=f"dhilgt {__version__}")],
    )


# ---- sections ----------------------------------------------------------------------------------


class _Chapter(NamedTuple):
    name: str
    title: str
    markup: Markup


def _chapter(name: str, title: str, *parts: Any) -> _Chapter:
    return _Chapter(name, title, section(name, title, *parts))


def _chapters(folder: Folder, left_out: list[tuple[str, str]]) -> Iterator[_Chapter]:
    """Yield the sections that have content; files that cannot be shown are added to `left_out`."""
    taken: set[str] = set()
    for at, kind in enumerate((*SECTIONS, OTHERS), 1):
        sources = [
            s for s in folder.sources if kind.takes(s) and not (kind.rest and s.name in taken)
        ]
        pictures = [p for p in folder.pictures if kind.draws(p.name) and p.name not in taken]
        try:
            body = kind.show(sources) if sources else None
        # A malformed line may raise anything; the other sections are still shown.
        except Exception as error:
            why = f"{type(error).__name__}: {error}"
            left_out += [(s.name, f"not shown as {kind.title!r} ({why})") for s in sources]
            body = None
        sources = sources if body else []  # what was not shown is left to later sections
        taken |= {one.name for one in sources} | {one.name for one in pictures}
        if sources or pictures:
            yield _chapter(f"part-{at}", kind.title, *_parts(kind, body, sources, pictures))


def _parts(
    kind: Section, body: Markup | None, sources: list[Source], pictures: list[Picture]
) -> Iterator[Markup | None]:
    yield tag("p", kind.about, class_="how") if kind.about else None
    yield body
    yield from (picture.markup() for picture in pictures)
    command = tag("p", "Made again by ", tag("code", kind.command)) if kind.command else None
    files = tag("p", f"From {', '.join(one.name for one in sources)}") if sources else None
    yield tag("div", command, files, class_="origin")


# ---- hardware and versions ---------------------------------------------------------------------


def _machines(sources: Iterable[Source]) -> Markup | None:
    """Return a table of where the results were measured, each machine once."""
    files: dict[tuple[str, str], dict[str, None]] = {}
    for source in sources:
        for line in source.lines:
            if about := _about_the_machine(line):
                key = _words(about, _HARDWARE), _words(about, _VERSIONS)
                files.setdefault(key, {})[source.name] = None
    if not files:
        return None
    rows = [[hardware, versions, ", ".join(names)] for (hardware, versions), names in files.items()]
    heads = ["hardware", "versions", "files"]
    return table("Where results were measured", heads, rows, text_columns=3)


def _about_the_machine(line: Line) -> dict[str, Any]:
    about: dict[str, Any] = {}
    for name in MACHINE:
        value = line.get(name)
        if isinstance(value, dict):
            about |= value
    return about


def _words(about: dict[str, Any], names: tuple[str, ...]) -> str:
    parts = []
    for name in names:
        value = about.get(name)
        if isinstance(value, list):
            value = ", ".join(map(str, value))
        if name == "memory_bytes" and isinstance(value, int):
            parts.append(f"{value / 2**30:.0f} GiB")
        elif value in (None, ""):
            continue
        elif name in ("cpus", "cores"):
            parts.append(f"{value} cores")
        elif name in _VERSIONS:
            parts.append(f"{name} {value}")
        else:
            parts.append(str(value))
    return ", ".join(parts) or "not known"
