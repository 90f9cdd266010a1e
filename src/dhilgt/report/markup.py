"""HTML and SVG written so that text can never become markup."""

import html
from collections.abc import Iterable
from typing import Any

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
