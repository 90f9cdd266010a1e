"""HTML and SVG built so that text can never become markup: sections, figures, tables."""

import html
from collections.abc import Collection, Iterable, Sequence
from typing import Any

from dhilgt.report.text import shortened

_VOID = {"meta", "br", "hr", "col", "wbr", "img"}


class Markup(str):
    """Text that is HTML already; every other text is escaped on its way into one.

    Example:
        >>> tag("p", "a < b ", tag("b", "!"), class_="note")
        '<p class="note">a &lt; b <b>!</b></p>'
    """

    __slots__ = ()


def text(value: Any) -> Markup:
    """Gives any value as HTML; what is `Markup` stays as it is.

    Control characters, which HTML cannot hold, become the replacement mark.
    """
    if isinstance(value, Markup):
        return value
    return Markup(html.escape("".join(map(_visible, str(value)))))


def _visible(letter: str) -> str:
    code = ord(letter)
    control = code < 32 or 127 <= code < 160 or 0xD800 <= code < 0xE000
    return "�" if control and letter not in "\t\n" else letter


def tag(name: str, /, *children: Any, **attributes: Any) -> Markup:
    """Gives an element.

    Args:
        name: Of the element.
        *children: Escaped unless they are `Markup`; None is left out.
        **attributes: Escaped; None is left out. A trailing underscore is dropped and others become
            hyphens, so that `class_` and `stroke_width` can be written. Numbers are rounded to two
            digits after the point.
    """
    opening = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{text(_short(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    if name in _VOID:
        return Markup(f"<{name}{opening}>")
    return Markup(f"<{name}{opening}>{joined(children)}</{name}>")


def joined(parts: Iterable[Any]) -> Markup:
    """Gives parts one after the other; None is left out."""
    return Markup("".join(text(part) for part in parts if part is not None))


def _short(value: Any) -> Any:
    return f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else value


def section(name: str, heading: str, *parts: Any) -> Markup:
    """Gives a section with its heading.

    Args:
        name: Its id on the page.
        heading: In plain words.
        *parts: What follows.
    """
    title = tag("h2", heading, id=f"{name}-heading")
    return tag("section", title, *parts, id=name, aria_labelledby=f"{name}-heading")


def figure(chart: Markup, how: Any) -> Markup:
    """Gives a chart with the sentence that says how to read it."""
    return tag("figure", chart, tag("figcaption", how))


def columns(*parts: Any) -> Markup:
    """Gives parts side by side where there is room."""
    return tag("div", *(tag("div", part, class_="together") for part in parts), class_="columns")


def named(name: str, most: int = 48) -> Markup:
    """Gives a user's name, shortened where it would fill the page; hovering shows the whole."""
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
    """Gives a table that scrolls by itself where it is too wide.

    Args:
        caption: What it shows.
        heads: Names of the columns.
        rows: Cells; the first names the row. A cell is text or `Markup`.
        text_columns: How many columns hold words; those after them hold numbers.
        hidden_when_narrow: Columns that a phone can do without.
    """
    kinds = [
        " ".join(
            name
            for name, wanted in (("num", at >= text_columns), ("wide", at in hidden_when_narrow))
            if wanted
        )
        or None
        for at in range(len(heads))
    ]
    head = tag(
        "tr",
        *(
            tag("th", name, scope="col", class_=kind)
            for name, kind in zip(heads, kinds, strict=True)
        ),
    )
    body = [
        tag(
            "tr",
            tag("th", row[0], scope="row"),
            *(tag("td", cell, class_=kind) for cell, kind in zip(row[1:], kinds[1:], strict=True)),
        )
        for row in rows
    ]
    inside = tag("table", tag("caption", caption), tag("thead", head), tag("tbody", *body))
    # What scrolls must be within reach of the keyboard.
    return tag("div", inside, class_="scroll", tabindex=0, role="region", aria_label=caption)
