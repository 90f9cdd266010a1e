"""Numbers and names formatted for readers."""

import math
import unicodedata
from typing import Any

_BLANK = "\N{NO-BREAK SPACE}"  # keeps a number and its sign on one line
PARTS = {"train": "training", "val": "validation", "test": "test"}
METRICS = {
    "accuracy": "accuracy",
    "roc_auc": "ROC AUC",
    "macro_f1": "macro F1",
    "log_loss": "log loss",
    "loss": "loss",
}
STAGES = {
    "labels": "Building hub labels",
    "tokens": "Drawing token rows",
    "epoch": "Training",
    "evaluation": "Scoring",
    "inference": "Predicting",
}
UNDEFINED = "undefined"


def number(value: Any, digits: int = 3) -> str:
    """Return a number as text; "undefined" for None, NaN and infinity.

    Example:
        >>> number(1234567), number(0.12345), number(None), number(float("nan"))
        ('1,234,567', '0.123', 'undefined', 'undefined')
    """
    if not is_number(value):
        return UNDEFINED
    return f"{value:,}" if isinstance(value, int) else f"{value:,.{digits}f}"


def percent(value: Any, digits: int = 1) -> str:
    r"""Return a fraction as per cent, with a no-break space before the sign.

    Example:
        >>> percent(0.8431), percent(0.0001), percent(None)
        ('84.3\xa0%', '<\xa00.1\xa0%', 'undefined')
    """
    if not is_number(value):
        return UNDEFINED
    smallest = 10.0**-digits
    if 0 < 100 * value < smallest / 2:
        return f"<{_BLANK}{smallest:.{digits}f}{_BLANK}%"
    return f"{100 * value:.{digits}f}{_BLANK}%"


def score(value: Any, metric: str) -> str:
    r"""Return a score as text, accuracy as per cent.

    Example:
        >>> score(0.8431, "accuracy"), score(0.8431, "roc_auc")
        ('84.3\xa0%', '0.843')
    """
    return percent(value) if metric == "accuracy" else number(value)


def duration(seconds: Any) -> str:
    """Return a duration as text.

    Example:
        >>> duration(0.0123), duration(12.34), duration(75), duration(7300)
        ('12 ms', '12.3 s', '1 min 15 s', '2 h 1 min')
    """
    if not is_number(seconds):
        return UNDEFINED
    if seconds < 0.9995:
        return f"{1000 * seconds:.0f} ms"
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600:,} h {whole % 3600 // 60} min"


def plural(count: int, one: str, many: str | None = None) -> str:
    """Return a count with its noun.

    Example:
        >>> plural(1, "node"), plural(2000, "node"), plural(3, "class", "classes")
        ('1 node', '2,000 nodes', '3 classes')
    """
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def shortened(name: str, most: int) -> str:
    """Return a name of at most `most` letters; its end is kept, as names often differ there.

    Example:
        >>> shortened("a rather long name 17", 12)
        'a rathe…e 17'
    """
    if len(name) <= most:
        return name
    tail = (most - 1) * 2 // 5
    return f"{name[: most - 1 - tail]}…{name[len(name) - tail :]}"


def breadth(name: str) -> float:
    """Return the approximate width of a name, an ordinary letter being 1.

    Example:
        >>> breadth("nodes"), breadth("WWW"), breadth("節点")
        (5.0, 4.8, 4.0)
    """
    return round(sum(map(_breadth, name)), 1)


def _breadth(letter: str) -> float:
    if unicodedata.east_asian_width(letter) in "WF":
        return 2.0
    return 1.6 if letter in "MWmw@%…" else 1.2 if letter.isupper() else 1.0


def fitted(name: str, most: float) -> str:
    """Return a name shortened until it is no wider than `most` ordinary letters.

    Example:
        >>> fitted("a rather long name 17", 12), fitted("wwwwwwwwwwww", 12)
        ('a rath…e 17', 'wwww…ww')
    """
    letters = len(name)
    while letters > 1 and breadth(shortened(name, letters)) > most:
        letters -= 1
    return shortened(name, letters)


def capital(name: str) -> str:
    """Return a name with its first letter in upper case.

    Example:
        >>> capital("macro F1")
        'Macro F1'
    """
    return name[:1].upper() + name[1:]


def is_number(value: Any) -> bool:
    """Return whether a value is a finite number."""
    return isinstance(value, (int, float)) and math.isfinite(value)
