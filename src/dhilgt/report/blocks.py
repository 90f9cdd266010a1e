"""Building blocks of the page: sections, figures, tables."""

from collections.abc import Collection, Iterable, Sequence
from typing import Any

from dhilgt.report.markup import Markup, tag, text
from dhilgt.report.words import shortened


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
