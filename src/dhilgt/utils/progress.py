"""A progress bar on standard error that never makes the work fail."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal, Protocol

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress as RichProgress
    from rich.progress import ProgressColumn

_SECONDS_BETWEEN_UPDATES = 0.05


class Update(Protocol):
    """The function that reports progress: ``update(done, total, note="...")``."""

    def __call__(self, done: int, total: int | None = None, note: str = "") -> None:
        """Report that ``done`` of ``total`` units are finished (None: total not known)."""


@contextlib.contextmanager
def progress_bar(
    title: str,
    *,
    unit: str = "items",
    enabled: bool | Literal["auto"] = "auto",
    force: bool = False,
) -> Iterator[Update]:
    """Show a bar with rate and time left on standard error while the block runs.

    The bar is shown in a terminal and in a notebook; anywhere else (a log file, a pipe) nothing is
    written. If it cannot be drawn, the work goes on without it.

    Args:
        title: Name of the work, at the left of the bar.
        unit: Unit of the counts.
        enabled: False for no bar; True and ``"auto"`` show it in a terminal or notebook.
        force: Draw even where standard error is not a terminal.

    Yields:
        The function that reports progress.

    Example:
        >>> with progress_bar("labels", unit="hubs", enabled=False) as update:
        ...     for done in range(3):
        ...         update(done + 1, 3)
    """
    display = Progress(title, unit=unit, enabled=enabled, force=force)
    display.start()
    try:
        yield display.update
    finally:
        display.stop()


def progress_note(text: str, *, enabled: bool | Literal["auto"] = "auto") -> None:
    """Print one line on standard error where a bar would be shown; nothing anywhere else.

    Args:
        text: The line.
        enabled: False to print nothing.

    Example:
        >>> progress_note("labels: reused from the cache", enabled=False)
    """
    if not enabled:
        return
    with contextlib.suppress(Exception):
        console = _console(force=False)
        if console is not None:
            console.print(text, markup=False, highlight=False, soft_wrap=True)


class Progress:
    """The display behind `progress_bar`, for work that is not a single block.

    Example:
        >>> display = Progress("tokens", unit="nodes", enabled=False)
        >>> display.start()
        >>> display.update(5, 10, note="shard 1")
        >>> display.stop()
    """

    def __init__(
        self,
        title: str,
        *,
        unit: str = "items",
        enabled: bool | Literal["auto"] = "auto",
        force: bool = False,
    ) -> None:
        self._title = title
        self._unit = unit
        self._enabled = bool(enabled)
        self._force = force
        self._bar: RichProgress | None = None
        self._task: int = 0
        self._next_update = 0.0

    def start(self) -> None:
        """Draw the empty bar if there is a terminal or notebook to draw it in."""
        if not self._enabled:
            return
        # A second bar inside a first, a closed stream or an old version of the library must not
        # make the work fail: there is no bar then.
        with contextlib.suppress(Exception):
            console = _console(self._force)
            if console is None:
                return
            bar = _bar(console, self._unit)
            self._task = bar.add_task(self._title, total=None, note="")
            bar.start()
            self._bar = bar

    @property
    def shown(self) -> bool:
        """Whether there is a bar, so that a note for it is worth computing."""
        return self._bar is not None

    def update(self, done: int, total: int | None = None, note: str = "") -> None:
        """Report that ``done`` of ``total`` units are finished; cheap enough for inner loops."""
        now = time.monotonic()
        if self._bar is None or (now < self._next_update and done != total):
            return
        self._next_update = now + _SECONDS_BETWEEN_UPDATES
        try:
            from rich.progress import TaskID

            self._bar.update(TaskID(self._task), completed=done, total=total, note=note)
        except Exception:
            self.stop()

    def stop(self) -> None:
        """Leave the bar as it is and release the terminal."""
        bar, self._bar = self._bar, None
        if bar is not None:
            with contextlib.suppress(Exception):
                bar.stop()


def _console(force: bool) -> Console | None:
    """Return a console on standard error, or None if nobody would see the bar."""
    from rich.console import Console

    console = Console(stderr=True, force_terminal=True if force else None)
    # The stream decides: with variables such as FORCE_COLOR the library takes a log file for a
    # terminal.
    visible = force or console.is_jupyter or sys.stderr.isatty()
    return console if visible else None


def _bar(console: Console, unit: str) -> RichProgress:
    from rich.progress import BarColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as RichProgress

    return RichProgress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        _count_column(unit),
        TimeRemainingColumn(elapsed_when_finished=True),
        TextColumn("{task.fields[note]}", markup=False),
        console=console,
    )


def _count_column(unit: str) -> ProgressColumn:
    from rich.progress import ProgressColumn, Task
    from rich.text import Text

    class CountColumn(ProgressColumn):
        def render(self, task: Task) -> Text:
            speed = task.finished_speed or task.speed
            return Text(count_text(int(task.completed), task.total, speed, unit))

    return CountColumn()


def count_text(done: int, total: float | None, per_second: float | None, unit: str) -> str:
    """Return the numbers beside the bar.

    Example:
        >>> count_text(1200, 5000, 340.2, "hubs")
        '1,200/5,000 hubs  340 hubs/s'
    """
    counted = f"{done:,}" if total is None else f"{done:,}/{int(total):,}"
    if per_second is None:
        return f"{counted} {unit}"
    rate = f"{per_second:,.0f}" if per_second >= 10 else f"{per_second:.2g}"
    return f"{counted} {unit}  {rate} {unit}/s"
