"""A progress bar on standard error that never makes the work fail."""

from __future__ import annotations

import contextlib
import io
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, BinaryIO, Literal, Protocol, cast

from dhilgt.utils.memory import format_bytes

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress as RichProgress
    from rich.progress import Task

_SECONDS_BETWEEN_UPDATES = 0.05
_LEAST_BAR = 10
_LARGEST_BAR = 40
_allowed = True


class Update(Protocol):
    """The function that reports progress: ``update(done, total, note="...")``."""

    def __call__(self, done: int, total: int | None = None, note: str = "") -> None:
        """Report that ``done`` of ``total`` units are finished (None: total not known)."""


@contextlib.contextmanager
def no_progress() -> Iterator[None]:
    """Show no bar and no note while the block runs, whatever its functions ask for.

    Example:
        >>> with no_progress():
        ...     progress_note("not shown")
    """
    global _allowed
    before, _allowed = _allowed, False
    try:
        yield
    finally:
        _allowed = before


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
        display.finish()
    finally:
        display.stop()


@contextlib.contextmanager
def progress_of_reading(stream: BinaryIO, title: str, num_bytes: int) -> Iterator[BinaryIO]:
    """Yield a stream that reads from another one and shows how far it is.

    Args:
        stream: What to read.
        title: Name of the work.
        num_bytes: Its length.

    Example:
        >>> import io
        >>> with progress_of_reading(io.BytesIO(b"a,b"), "reading edges.csv", 3) as stream:
        ...     stream.read()
        b'a,b'
    """
    with progress_bar(title, unit="bytes") as update:
        yield cast(BinaryIO, _CountedReader(stream, lambda place: update(place, num_bytes)))


class _CountedReader(io.RawIOBase):
    """A stream that reports its place after every read."""

    def __init__(self, stream: BinaryIO, report: Callable[[int], None]) -> None:
        self._stream, self._report = stream, report

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return self._stream.seekable()

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        return self._stream.seek(offset, whence)

    def tell(self) -> int:
        return self._stream.tell()

    def read(self, size: int | None = -1) -> bytes:
        data = self._stream.read(-1 if size is None else size)
        self._report(self._stream.tell())
        return data

    def readline(self, size: int | None = -1) -> bytes:
        line = self._stream.readline(-1 if size is None else size)
        self._report(self._stream.tell())
        return line

    def readinto(self, buffer: Any) -> int:
        data = self.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)


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
        self._last: tuple[int, int | None, str] | None = None

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
        if self._bar is None:
            return
        self._last = done, total, note
        now = time.monotonic()
        if now < self._next_update and done != total:
            return
        self._next_update = now + _SECONDS_BETWEEN_UPDATES
        self._draw(done, total, note)

    def finish(self) -> None:
        """Report that the work is complete, also where the last update came before its end."""
        if self._last is None:
            self._draw(1, 1, "", ended="done")
            return
        done, total, note = self._last
        whole = done if total is None else total
        self._last = whole, whole, note

    def stop(self) -> None:
        """Draw what was reported last, and release the terminal."""
        if self._last is not None:
            self._draw(*self._last)
        bar, self._bar = self._bar, None
        if bar is not None:
            with contextlib.suppress(Exception):
                bar.stop()

    def _draw(self, done: int, total: int | None, note: str, ended: str = "") -> None:
        if self._bar is None:
            return
        try:
            from rich.progress import TaskID

            task = TaskID(self._task)
            self._bar.update(task, completed=done, total=total, note=note, ended=ended)
        except Exception:
            bar, self._bar = self._bar, None
            with contextlib.suppress(Exception):
                bar.stop()


def _console(force: bool) -> Console | None:
    """Return a console on standard error, or None if nobody would see the bar."""
    if not _allowed:
        return None
    from rich.console import Console

    console = Console(stderr=True, force_terminal=True if force else None)
    # The stream decides: with variables such as FORCE_COLOR the library takes a log file for a
    # terminal.
    visible = force or console.is_jupyter or sys.stderr.isatty()
    return console if visible else None


# ---- the line of a bar -------------------------------------------------------------------------


def _bar(console: Console, unit: str) -> RichProgress:
    from rich.console import ConsoleOptions, RenderableType, RenderResult
    from rich.progress import Progress as RichProgress
    from rich.progress_bar import ProgressBar
    from rich.text import Text

    class Line:
        """A task in one line, whatever the width."""

        def __init__(self, task: Task) -> None:
            self._task = task

        def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
            task = self._task
            speed = task.finished_speed or task.speed
            rate = "" if speed is None else rate_text(speed, unit)
            line = fitted_line(
                options.max_width,
                title=task.description,
                count=task.fields.get("ended") or count_text(int(task.completed), task.total, unit),
                clock=_clock(task),
                extras=(*_pieces(task.fields["note"]), *_pieces(rate)),
            )
            bar = ProgressBar(
                total=None if task.total is None else max(0.0, task.total),
                completed=max(0.0, task.completed),
                width=line.bar,
                animation_time=task.get_time(),
            )
            yield Text(f"{line.title} ", end="", no_wrap=True)
            yield bar
            yield Text(f" {line.count} ", end="", no_wrap=True)
            yield Text(line.clock, end="", no_wrap=True, style="progress.remaining")
            yield Text("".join(f"  {one}" for one in line.extras), end="", no_wrap=True)

    class Lines(RichProgress):
        def get_renderables(self) -> Iterator[RenderableType]:
            for task in self.tasks:
                yield Line(task)

    return Lines(console=console)


def _clock(task: Task) -> str:
    """Return the time left; that of the whole work at its end or where its end is not known."""
    over = task.finished or task.total is None
    seconds = (task.finished_time or task.elapsed) if over else task.time_remaining
    if seconds is None:
        return "-:--:--"
    minutes, second = divmod(int(seconds), 60)
    hours, minute = divmod(minutes, 60)
    return f"{hours}:{minute:02}:{second:02}" + ("" if over else " left")


def _pieces(note: str) -> list[str]:
    """Return the parts of a note, which two blanks separate."""
    return [part for part in note.split("  ") if part]


@dataclass(frozen=True)
class BarLine:
    """The texts of a bar as they fit its line; see `fitted_line`."""

    title: str
    bar: int
    count: str
    clock: str
    extras: tuple[str, ...]


def fitted_line(
    width: int, *, title: str, count: str, clock: str, extras: Sequence[str]
) -> BarLine:
    """Return what a line has room for: bar, count and time always, the rest as far as it fits.

    Args:
        width: Columns of the terminal.
        title: Name of the work. In a narrow line its first word, shortened if need be.
        count: The numbers; in a narrow line without their unit.
        clock: Time left, or time taken.
        extras: Further texts, the most important first.

    Example:
        >>> line = fitted_line(60, title="training on cpu", count="1/6 steps",
        ...                    clock="0:01:00 left", extras=["epoch 1/3", "loss 1.9331"])
        >>> line.title, line.bar, line.extras
        ('training', 17, ('epoch 1/3',))
    """
    from rich.cells import cell_len, set_cell_size

    def room(*texts: str) -> int:
        """Return the columns left for the bar and the extras."""
        return width - sum(cell_len(text) + 1 for text in texts)

    name = title
    if room(title, count, clock) < _LEAST_BAR + sum(cell_len(text) + 2 for text in extras[:3]):
        name = title.split(" ")[0]
    if room(name, count, clock) < _LEAST_BAR:
        clock = clock.removesuffix(" left")
    if room(name, count, clock) < _LEAST_BAR:
        count = count.split(" ")[0]
    over = _LEAST_BAR - room(name, count, clock)
    if over > 0:
        name = set_cell_size(name, max(0, cell_len(name) - over))
    free = room(name, count, clock)
    shown: list[str] = []
    for text in extras:
        if free - cell_len(text) - 2 < _LEAST_BAR:
            break
        free -= cell_len(text) + 2
        shown.append(text)
    return BarLine(name, max(1, min(free, _LARGEST_BAR)), count, clock, tuple(shown))


def count_text(done: int, total: float | None, unit: str) -> str:
    """Return the numbers beside the bar; those of bytes in a larger unit.

    Example:
        >>> count_text(1200, 5000, "hubs"), count_text(1_200_000, 5_000_000, "bytes")
        ('1,200/5,000 hubs', '1.2MB/5MB')
    """
    if unit == "bytes":
        sizes = [done] if total is None else [done, int(total)]
        return "/".join(format_bytes(size).replace(" ", "") for size in sizes)
    counted = f"{done:,}" if total is None else f"{done:,}/{int(total):,}"
    return f"{counted} {unit}"


def rate_text(per_second: float, unit: str) -> str:
    """Return the speed.

    Example:
        >>> rate_text(340.2, "hubs"), rate_text(0.25, "shards"), rate_text(2e6, "bytes")
        ('340 hubs/s', '0.25 shards/s', '2 MB/s')
    """
    if unit == "bytes":
        return f"{format_bytes(int(per_second))}/s"
    rate = f"{per_second:,.0f}" if per_second >= 10 else f"{per_second:.2g}"
    return f"{rate} {unit}/s"
