"""Shared by all commands: exit codes, error messages, tables, JSON, files."""

import contextlib
import functools
import inspect
import json
import os
import stat
import sys
import tempfile
import traceback
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn, TextIO

import typer

from dhilgt.cli import processes
from dhilgt.cli.messages import shell_message
from dhilgt.errors import DhilgtError, GraphError, GraphWarning, ProcessError
from dhilgt.graph.node_ids import NodeIds
from dhilgt.store.files import FULL_DISK, explained
from dhilgt.utils.memory import is_memory_error, memory_message

FAILED, INTERRUPTED = 1, 130

_MORE_MEMORY = "use a machine with more memory, or a smaller graph"
_CONTEXT = "command_context"
_debug = False


def set_debug(debug: bool) -> None:
    """Show errors with their traceback, or without."""
    global _debug
    _debug = debug


def guarded(run: Callable[..., None]) -> Callable[..., None]:
    """Return a command that ends with one clear message and its exit code, whatever happens."""

    @functools.wraps(run)
    def command(*args: Any, **kwargs: Any) -> None:
        context: typer.Context | None = kwargs.pop(_CONTEXT, None)
        try:
            with _notes(context):
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
    signature = inspect.signature(run)
    own = inspect.Parameter(_CONTEXT, inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context)
    parameters = [*signature.parameters.values(), own]
    command.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {**run.__annotations__, _CONTEXT: typer.Context}
    return command


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
            if isinstance(message, GraphWarning):
                note(shell_message(message, context))
            else:
                show_others(message, *where, **more)

        warnings.showwarning = show
        warnings.simplefilter("always", GraphWarning)
        yield


def note(message: str) -> None:
    """Print a message on standard error that is not an error."""
    typer.echo(f"note: {message}", err=True)


def watched() -> bool:
    """Return whether standard error is a terminal, so that bars are worth drawing."""
    return sys.stderr.isatty()


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
    """Print names and values in two columns."""
    lines = list(rows)
    width = max((len(name) for name, _ in lines), default=0)
    for name, value in lines:
        typer.echo(f"{name:<{width}}  {value}")


def print_columns(rows: Sequence[Sequence[str]]) -> None:
    """Print rows of equal length, each column as wide as it needs."""
    widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
    for row in rows:
        fields = (f"{text:<{width}}" for text, width in zip(row, widths, strict=True))
        typer.echo("  ".join(fields).rstrip())


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
