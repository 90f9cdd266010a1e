"""`dhilgt cache`: labels, tokens and generated graphs kept between runs."""

import re
import time
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from dhilgt.classifier.cache import Cache, CacheEntry
from dhilgt.cli import shell
from dhilgt.utils.memory import format_bytes

_AGE = re.compile(r"(\d+(?:\.\d+)?)([smhdw])")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}


class Action(StrEnum):
    """What to do with the cache."""

    LIST = "list"
    CLEAR = "clear"


def run(
    action: Annotated[
        Action, typer.Argument(help="list shows what is kept, clear removes it.")
    ] = Action.LIST,
    folder: Annotated[
        Path | None,
        typer.Option(help="The cache; $DHILGT_CACHE or the user's cache folder by default."),
    ] = None,
    older_than: Annotated[
        str | None,
        typer.Option(help="Only what was not used for this long: 12h, 30d, 4w."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    quiet: bool = False,
) -> None:
    """Show or remove labels, tokens and generated graphs kept for the next run.

    Nothing in the cache is needed: what is removed is made again when it is used.

    \b
    Example:
      dhilgt cache clear --older-than 30d
    """  # noqa: D301 - \b keeps the example's lines apart
    cache = Cache(folder)
    age = None if older_than is None else _seconds(older_than)
    now = time.time()
    entries = [one for one in cache.entries() if age is None or now - one.last_used > age]
    removed = action is Action.CLEAR
    if removed:
        entries = cache.clear(older_than=age)
    size = sum(entry.num_bytes for entry in entries)
    if as_json:
        facts = [_facts(entry) for entry in entries]
        key = "removed" if removed else "entries"
        shell.print_json({"folder": str(cache.root), "bytes": size, key: facts})
        return
    if removed and quiet:
        return
    if not removed:
        for entry in entries:
            typer.echo(_line(entry, now))
    what = f"{len(entries):,} {'entry' if len(entries) == 1 else 'entries'}, {format_bytes(size)}"
    typer.echo(f"{cache.root}: {what}{' removed' if removed else ''}")


def _facts(entry: CacheEntry) -> dict[str, Any]:
    return {
        "kind": entry.kind,
        "key": entry.key,
        "bytes": entry.num_bytes,
        "made": _date(entry.made),
        "last_used": _date(entry.last_used),
        "whole": entry.whole,
    }


def _line(entry: CacheEntry, now: float) -> str:
    state = f"used {_ago(now - entry.last_used)}" if entry.whole else "unfinished"
    size = format_bytes(entry.num_bytes)
    return f"{entry.kind:<6}  {entry.key[:16]}  {size:>10}  made {_date(entry.made)}  {state}"


def _date(seconds: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(seconds))


def _ago(seconds: float) -> str:
    for unit in ("w", "d", "h", "m"):
        if seconds >= _SECONDS[unit]:
            return f"{int(seconds / _SECONDS[unit])}{unit} ago"
    return "just now"


def _seconds(text: str) -> float:
    match = _AGE.fullmatch(text.strip().lower())
    if match is None:
        raise shell.usage_error(
            f"{text!r} is not a time; write a number with s, m, h, d or w, like 30d",
            "--older-than",
        )
    return float(match[1]) * _SECONDS[match[2]]
