"""HTML in which text can never become markup: elements, parts of a page, the whole page."""

import html
from collections.abc import Collection, Iterable, Sequence
from importlib.resources import files
from typing import Any

from dhilgt.report.text import shortened

_VOID = {"meta", "br", "hr", "col", "wbr", "img", "input"}  # elements without an end tag


class Markup(str):
    """Text that is HTML or SVG already; any other text is escaped where it is put into markup.

    Example:
        >>> tag("p", "a < b ", tag("b", "!"), class_="note")
        '<p class="note">a &lt; b <b>!</b></p>'
    """

    __slots__ = ()


# ---- elements ----------------------------------------------------------------------------------


def text(value: Any) -> Markup:
    """Return any value as HTML; `Markup` is returned unchanged.

    Characters that neither HTML nor XML can hold become the replacement character.
    """
    if isinstance(value, Markup):
        return value
    return Markup(html.escape("".join(map(_allowed, str(value)))))


def _allowed(letter: str) -> str:
    code = ord(letter)
    control = code < 32 or 127 <= code < 160 or 0xD800 <= code < 0xE000 or 0xFFFE <= code <= 0xFFFF
    return "\ufffd" if control and letter not in "\t\n" else letter


def tag(name: str, /, *children: Any, **attributes: Any) -> Markup:
    """Return an element.

    Args:
        name: Name of the element.
        *children: Escaped unless they are `Markup`; None is left out.
        **attributes: Escaped; None is left out. A trailing underscore is dropped and the others
            become hyphens, so that `class_` and `stroke_width` can be written. Numbers are rounded
            to two decimals.
    """
    opening = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{text(_rounded(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    if name in _VOID:
        return Markup(f"<{name}{opening}>")
    return Markup(f"<{name}{opening}>{joined(children)}</{name}>")


def joined(parts: Iterable[Any]) -> Markup:
    """Return parts one after the other; None is left out."""
    return Markup("".join(text(part) for part in parts if part is not None))


def _rounded(value: Any) -> Any:
    return f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else value


# ---- the page ----------------------------------------------------------------------------------


def document(title: str, *body: Any, style: str, head: Iterable[Markup] = ()) -> str:
    """Return a whole page that needs no other file.

    Args:
        title: Title of the page.
        *body: Content of the page.
        style: Its style sheet.
        head: Further elements of the head.
    """
    top = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", name_="viewport", content="width=device-width, initial-scale=1"),
        *head,
        tag("title", title),
        tag("style", Markup(style)),
    )
    return f"<!DOCTYPE html>\n{tag('html', top, tag('body', *body), lang='en')}\n"


def packaged(package: str, name: str) -> Markup:
    """Return a style sheet or script that is a file of a package."""
    return Markup(files(package).joinpath(name).read_text(encoding="utf-8"))


# ---- parts of a page ---------------------------------------------------------------------------


def section(name: str, heading: str, *parts: Any) -> Markup:
    """Return a section with its heading.

    Args:
        name: Its id on the page.
        heading: Its heading.
        *parts: Its content.
    """
    title = tag("h2", heading, id=f"{name}-heading")
    return tag("section", title, *parts, id=name, aria_labelledby=f"{name}-heading")


def figure(chart: Markup, caption: Any) -> Markup:
    """Return a chart with a caption that explains how to read it."""
    return tag("figure", chart, tag("figcaption", caption))


def columns(*parts: Any) -> Markup:
    """Return parts side by side where there is room."""
    return tag("div", *(tag("div", part, class_="together") for part in parts), class_="columns")


def named(name: str, most: int = 48) -> Markup:
    """Return a user's name, shortened if it is long; hovering shows the whole name."""
    if len(name) <= most:
        return text(name)
    return tag("span", shortened(name, most), title=name)


def table(
    caption: str,
    heads: Sequence[str],
    rows: Iterable[Sequence[Any]],
    *,
    text_columns: int = 1,
    hidden_when_narrow: Collection[int] = (),
) -> Markup:
    """Return a table that scrolls by itself where it is too wide.

    Args:
        caption: What it shows.
        heads: Names of the columns.
        rows: Cells, text or `Markup`; the first cell of a row names it.
        text_columns: Number of leading columns that hold text; the others hold numbers.
        hidden_when_narrow: Columns that are not shown on a narrow screen.
    """
    styles = []
    for at in range(len(heads)):
        names = ["num"] * (at >= text_columns) + ["wide"] * (at in hidden_when_narrow)
        styles.append(" ".join(names) or None)
    head = [
        tag("th", name, scope="col", class_=style)
        for name, style in zip(heads, styles, strict=True)
    ]
    body = [
        tag(
            "tr",
            tag("th", row[0], scope="row"),
            *(tag("td", cell, class_=one) for cell, one in zip(row[1:], styles[1:], strict=True)),
        )
        for row in rows
    ]
    parts = (tag("caption", caption), tag("thead", tag("tr", *head)), tag("tbody", *body))
    # What scrolls must be reachable with the keyboard.
    return tag(
        "div", tag("table", *parts), class_="scroll", tabindex=0, role="region", aria_label=caption
    )
