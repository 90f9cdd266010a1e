"""The page of a folder of results: one HTML file that needs nothing else."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib.resources import files
from os import PathLike
from pathlib import Path
from typing import Any

from dhilgt._version import __version__
from dhilgt.errors import ArtifactError
from dhilgt.report.html import Markup, joined, section, table, tag
from dhilgt.report.site.sections import OTHERS, SECTIONS, Section
from dhilgt.report.site.source import Folder, Line, Picture, Source, read_folder
from dhilgt.store.files import explained, write_file

_HARDWARE = ("gpus", "gpu", "cpu", "cpus", "cores", "simd", "memory_bytes")
_VERSIONS = ("dhilgt", "python", "torch", "cuda", "numpy")


def write_site(
    folder: str | PathLike[str], output: str | PathLike[str], *, title: str = "Results"
) -> Path:
    """Writes a page with all results below a folder; gives its path, `index.html` in ``output``.

    Args:
        folder: Holds files of JSON lines and pictures.
        output: Folder to write to; made where there is none.
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
    """Gives the page of what a folder holds; the same files give the same text.

    Args:
        folder: As `source.read_folder` gives it.
        title: Heading of the page.
    """
    left_out = list(folder.left_out)
    chapters = list(_chapters(folder, left_out))
    parts = [chapter.markup for chapter in chapters]
    links = [(chapter.name, chapter.title) for chapter in chapters]
    if machines := _machines(folder.sources):
        parts.append(machines)
        links.append(("machines", "Hardware and versions"))
    if left_out:
        parts.append(_left_out(left_out))
        links.append(("left-out", "Files left out"))
    contents = tag(
        "nav",
        tag("h2", "Contents", id="contents"),
        tag("ol", *(tag("li", tag("a", words, href=f"#{name}")) for name, words in links)),
        aria_labelledby="contents",
    )
    counted = f"{len(folder.sources)} files of results, {len(folder.pictures)} pictures"
    header = tag("header", tag("p", f"dhilgt · {counted}", class_="eyebrow"), tag("h1", title))
    footer = tag("footer", tag("p", "Choose the head of a column to sort a table by it."))
    body = tag("body", header, contents, tag("main", *parts), footer, tag("script", _text("js")))
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", name_="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name_="generator", content=f"dhilgt {__version__}"),
        tag("title", f"{title} · dhilgt"),
        tag("style", _text("css")),
    )
    return joined([Markup("<!doctype html>\n"), tag("html", head, body, lang="en"), Markup("\n")])


def _text(kind: str) -> Markup:
    return Markup(files("dhilgt.report.site").joinpath(f"site.{kind}").read_text(encoding="utf-8"))


# ---- sections ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Chapter:
    name: str
    title: str
    markup: Markup


def _chapters(folder: Folder, left_out: list[tuple[str, str]]) -> Iterator[_Chapter]:
    """Gives the sections that have something to show; what cannot be shown is added as left out."""
    taken: set[str] = set()
    for at, kind in enumerate((*SECTIONS, OTHERS)):
        sources = [
            s for s in folder.sources if kind.takes(s) and not (kind.rest and s.name in taken)
        ]
        pictures = [p for p in folder.pictures if kind.draws(p.name) and p.name not in taken]
        try:
            body = kind.show(sources) if sources else None
        # A line that is not as it should be: whatever it does to the section, the others stand.
        except Exception as error:
            why = f"{type(error).__name__}: {error}"
            left_out += [(s.name, f"not shown as {kind.title!r} ({why})") for s in sources]
            body = None
        sources = sources if body else []  # what was not shown is left to the sections after it
        taken |= {one.name for one in sources} | {one.name for one in pictures}
        if not sources and not pictures:
            continue
        name = f"part-{at + 1}"
        yield _Chapter(name, kind.title, _section(name, kind, body, sources, pictures))


def _section(
    name: str,
    kind: Section,
    body: Markup | None,
    sources: list[Source],
    pictures: list[Picture],
) -> Markup:
    made = tag("p", "Made again by ", tag("code", kind.command)) if kind.command else None
    listed = ", ".join(source.name for source in sources)
    return section(
        name,
        kind.title,
        tag("p", kind.about, class_="how") if kind.about else None,
        body,
        *(picture.markup() for picture in pictures),
        tag("div", made, tag("p", f"From {listed}") if listed else None, class_="origin"),
    )


def _left_out(found: list[tuple[str, str]]) -> Markup:
    rows = [[name, why] for name, why in found]
    return section(
        "left-out", "Files left out", table("Files", ["file", "why"], rows, text_columns=2)
    )


# ---- hardware and versions ---------------------------------------------------------------------


def _machines(sources: Iterable[Source]) -> Markup | None:
    """Gives where and with what the results were measured, each machine once."""
    found: dict[tuple[str, str], dict[str, None]] = {}
    for source in sources:
        for line in source.lines:
            about = _about_the_machine(line)
            if about:
                key = _words(about, _HARDWARE), _words(about, _VERSIONS)
                found.setdefault(key, {})[source.name] = None
    if not found:
        return None
    rows = [[hardware, versions, ", ".join(names)] for (hardware, versions), names in found.items()]
    shown = table(
        "Where results were measured", ["hardware", "versions", "files"], rows, text_columns=3
    )
    return section("machines", "Hardware and versions", shown)


def _about_the_machine(line: Line) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name in ("machine", "environment"):
        value = line.get(name)
        if isinstance(value, dict):
            found |= value
    return found


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
    return ", ".join(parts) or "not said"
