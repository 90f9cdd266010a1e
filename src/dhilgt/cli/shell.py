"""Shared by all commands: exit codes, error messages, tables, JSON, files."""

import contextlib
import functools
import inspect
import json
import os
import shutil
import stat
import sys
import tempfile
import textwrap
import traceback
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, NoReturn, TextIO

import typer

from dhilgt.cli import processes, standard_input
from dhilgt.cli.messages import shell_message
from dhilgt.errors import DhilgtError, GraphError, GraphWarning, ProcessError
from dhilgt.graph.node_ids import NodeIds
from dhilgt.readers import pipes
from dhilgt.store.files import FULL_DISK, explained
from dhilgt.utils.memory import is_memory_error, memory_message
from dhilgt.utils.progress import no_progress

FAILED, INTERRUPTED = 1, 130
_NARROWEST = 20  # columns beside the names of a table; in fewer the terminal breaks lines

_MORE_MEMORY = "use a machine with more memory, or a smaller graph"
_CONTEXT = "command_context"
_QUIET = "quiet"
_KEYWORD = inspect.Parameter.KEYWORD_ONLY
_debug = False
_quiet = False

Quiet = Annotated[
    bool,
    typer.Option("--quiet", "-q", help="Print errors only, and results that were asked for."),
]


def set_debug(debug: bool) -> None:
    """Show errors with their traceback, or without."""
    global _debug
    _debug = debug


def guarded(run: Callable[..., None]) -> Callable[..., None]:
    """Return a command that ends with one clear message and its exit code, whatever happens.

    It has the option --quiet: no bars, no notes. A command that prints more than its result takes
    ``quiet`` as a parameter.
    """
    signature = inspect.signature(run)
    takes_quiet = _QUIET in signature.parameters

    @functools.wraps(run)
    def command(*args: Any, **kwargs: Any) -> None:
        context: typer.Context | None = kwargs.pop(_CONTEXT, None)
        quiet = bool(kwargs.get(_QUIET) if takes_quiet else kwargs.pop(_QUIET, False))
        try:
            standard_input.check(context)
            with _quieted(quiet), _notes(context), pipes.kept():
                run(*args, **kwargs)
            sys.stdout.flush()
        except KeyboardInterrupt as stop:
            if not processes.is_main():  # the main process was stopped, too, and prints it
                raise typer.Exit(INTERRUPTED) from None
            _fail(
                shell_message(stop, context) or "interrupted; nothing was left half written",
                INTERRUPTED,
            )
        except ProcessError:
            raise typer.Exit(FAILED) from None  # printed by the process that failed
        except BrokenPipeError:
            # The reader of our output has closed it. The interpreter flushes once more at exit.
            with contextlib.suppress(OSError, ValueError):
                os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        except (DhilgtError, ValueError) as error:
            _fail(shell_message(error, context), FAILED)
        except MemoryError as error:
            _fail(f"{memory_message(error)}; {_MORE_MEMORY}", FAILED)
        except OSError as error:
            _fail(_system_message(error), FAILED)
        except (typer.Exit, typer.BadParameter):
            raise
        except Exception as error:
            if type(error).__module__.startswith(("typer", "click")):
                raise  # a usage error, worded where arguments are parsed
            if is_memory_error(error):
                _fail(f"{memory_message(error)}; {_MORE_MEMORY}", FAILED)
            kind = type(error).__name__
            _fail(f"unexpected {kind}: {error}; add --debug to see where", FAILED)

    # Messages show the options of the command, which are known to its context.
    own = {_CONTEXT: typer.Context, _QUIET: Quiet}
    parameters = [
        *(one for one in signature.parameters.values() if one.name not in own),
        inspect.Parameter(_QUIET, _KEYWORD, annotation=Quiet, default=False),
        inspect.Parameter(_CONTEXT, _KEYWORD, annotation=typer.Context),
    ]
    command.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {**run.__annotations__, **own}
    return command


@contextlib.contextmanager
def _quieted(quiet: bool) -> Iterator[None]:
    global _quiet
    _quiet = quiet
    try:
        with no_progress() if quiet else contextlib.nullcontext():
            yield
    finally:
        _quiet = False


def _system_message(error: OSError) -> str:
    """Return the message of a system error that no writer has explained."""
    place = error.filename
    if place is None and error.errno in FULL_DISK:
        place = "standard output" if _is_file(sys.stdout) else f"a file in {tempfile.gettempdir()}"
        return f"{place} cannot be written: {error.strerror}; free some space"
    return f"{place}: {error.strerror or error}" if place else str(error.strerror or error)


def _is_file(stream: TextIO) -> bool:
    try:
        return stat.S_ISREG(os.fstat(stream.fileno()).st_mode)
    except (OSError, ValueError):
        return False


def _fail(message: str, code: int) -> NoReturn:
    if processes.main_process_ends_first():
        raise typer.Exit(code) from None
    stream = processes.error_stream()
    if _debug:
        traceback.print_exc(file=stream)
    typer.echo(f"{processes.error_prefix()}: {message}", file=stream)
    raise typer.Exit(code) from None


@contextlib.contextmanager
def _notes(context: typer.Context | None) -> Iterator[None]:
    """Show the library's warnings as notes, without the line of code they came from."""
    with warnings.catch_warnings():
        show_others = warnings.showwarning

        def show(message: Warning | str, *where: Any, **more: Any) -> None:
            if _quiet:
                return
            if isinstance(message, GraphWarning):
                note(shell_message(message, context))
            else:
                show_others(message, *where, **more)

        warnings.showwarning = show
        warnings.simplefilter("always", GraphWarning)
        yield


def note(message: str) -> None:
    """Print a message on standard error that is not an error; nothing with --quiet."""
    if not _quiet:
        typer.echo(f"note: {message}", err=True)


def watched() -> bool:
    """Return whether standard error is a terminal, so that bars are worth drawing."""
    return sys.stderr.isatty() and not _quiet


def usage_error(message: str, option: str) -> typer.BadParameter:
    """Return the error (exit code 2) for options that do not go together."""
    return typer.BadParameter(message, param_hint=option)


def typed_id(ids: NodeIds, text: str, owner: str) -> Any:
    """Return the id a person typed: a number where the ids are numbers.

    Args:
        ids: The ids there are.
        text: What was typed.
        owner: What the ids belong to, for the message.
    """
    if ids.are_text:
        return text
    with contextlib.suppress(ValueError):
        number = int(text)
        if -(2**63) <= number < 2**63:
            return number
    near = ", ".join(str(ids.ids_of(at)) for at in sorted({0, ids.count - 1}))
    raise GraphError(
        f"{text!r} is not a node: the ids of {owner} are 64-bit integers, such as {near}"
    )


# ---- printing ----------------------------------------------------------------------------------


def print_json(values: Mapping[str, Any]) -> None:
    """Print one JSON object."""
    typer.echo(json.dumps(values, ensure_ascii=False, indent=2))


def print_table(rows: Iterable[tuple[str, str]]) -> None:
    """Print names and values in two columns; a terminal gets long values in several lines."""
    lines = list(rows)
    width = max((len(name) for name, _ in lines), default=0)
    for name, value in lines:
        for at, part in enumerate(_folded(value, width + 2)):
            typer.echo(f"{name if at == 0 else '':<{width}}  {part}")


def _folded(value: str, indent: int) -> list[str]:
    """Return a text in lines that fit beside an indent; whole where nobody watches."""
    room = shutil.get_terminal_size().columns - indent
    if not sys.stdout.isatty() or room < _NARROWEST or len(value) <= room:
        return [value]
    return textwrap.wrap(value, room, break_long_words=False, break_on_hyphens=False) or [value]


def print_columns(rows: Sequence[Sequence[str]]) -> None:
    """Print rows of equal length; a terminal gets a long last column in several lines."""
    indent = sum(max(len(row[at]) for row in rows) + 2 for at in range(len(rows[0]) - 1))
    lines: list[Sequence[str]] = []
    for row in rows:
        first, *more = _folded(row[-1], indent)
        lines.append([*row[:-1], first])
        lines += [[*("" for _ in row[:-1]), part] for part in more]
    for line in columns(lines):
        typer.echo(line)


def columns(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return rows of equal length as lines, each column as wide as it needs.

    Example:
        >>> columns([("part", "nodes"), ("train", "1,600")])
        ['part   nodes', 'train  1,600']
    """
    widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
    return [
        "  ".join(f"{text:<{width}}" for text, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]


def bars(counts: Sequence[int], width: int = 40) -> list[str]:
    """Return a text histogram, a line per index up to the last that is not empty.

    Example:
        >>> bars([1, 4], width=8)
        ['0  ##        1   20.0 %', '1  ########  4   80.0 %']
    """
    largest, total = max(counts, default=0), sum(counts)
    label_width = len(str(max(len(counts) - 1, 0)))
    count_width = len(f"{largest:,}")
    lines = []
    for at, count in enumerate(counts):
        mark = "#" * (max(1, round(width * count / largest)) if count else 0)
        percent = 100 * count / max(total, 1)
        lines.append(
            f"{at:>{label_width}}  {mark:<{width}}  {count:>{count_width},}  {percent:5.1f} %"
        )
    return lines


# ---- files -------------------------------------------------------------------------------------


@contextlib.contextmanager
def written_whole(path: Path) -> Iterator[Path]:
    """Yield a path to write to that replaces `path` if the block ends without an error.

    The file is made at once, so that a place that cannot be written is refused before the work.
    """
    if path.is_dir():
        raise DhilgtError(f"{path} is a folder; name a file in it")
    draft = path.with_name(f".{path.name}.tmp")
    try:
        draft.touch()
    except OSError as error:
        raise DhilgtError(
            f"{path} cannot be written ({error.strerror}); choose another path"
        ) from error
    try:
        try:
            yield draft
            draft.replace(path)
        except OSError as error:
            if error.errno not in FULL_DISK:
                raise  # it may be about a file that is read
            with explained("write", path):
                raise
    finally:
        draft.unlink(missing_ok=True)
