"""`dhilgt bench speed`: reference, SDPA and fused kernels side by side."""

import sys
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

from dhilgt.cli import shell
from dhilgt.errors import DhilgtError

Number = TypeVar("Number", int, float)


def run_speed(
    device: Annotated[str, typer.Option(help="auto, cpu, cuda, cuda:1, ...")] = "auto",
    ways: Annotated[
        str | None,
        typer.Option(
            help="List like reference:fp32,sdpa:bf16,fused:bf16; all that the device has."
        ),
    ] = None,
    rows: Annotated[
        str | None,
        typer.Option("--batch", help="Egos of a batch; a list varies it. 8192, or 64 on the CPU."),
    ] = None,
    slots: Annotated[str, typer.Option(help="Slots of a row; a list varies it.")] = "32",
    width: Annotated[
        str | None, typer.Option(help="Channels; a list varies them. 128, or 32 on the CPU.")
    ] = None,
    fill: Annotated[
        str, typer.Option(help="Mean fraction of slots that hold a node; a list varies it.")
    ] = "0.8,0.6",
    also: Annotated[
        str | None, typer.Option(help="List of further measures: small, sparse, streamed (GPU).")
    ] = None,
    repeats: Annotated[int, typer.Option(help="Steps that are timed.", min=1)] = 10,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="File of figures, a JSON line each.")
    ] = Path("speed.jsonl"),
    table: Annotated[
        Path | None, typer.Option(help="Write the table to a file, not to the screen.")
    ] = None,
    plot: Annotated[Path | None, typer.Option(help="Write a picture of the main size.")] = None,
    quiet: bool = False,
) -> None:
    """Time training and inference of every implementation of attention, on drawn batches.

    The first value of each list is the main size; each other value is measured alone.

    \b
    Example:
      dhilgt bench speed
      dhilgt bench speed --batch 8192,1024,32768 --also small --plot speed.png
    """  # noqa: D301 - \b keeps the example's lines apart
    # Report wrong usage before torch is loaded.
    counts = {"--slots": _numbers("--slots", slots, int, 1, 1024)}
    fills = _numbers("--fill", fill, float, 0.0, 1.0)
    for name, text in (("--batch", rows), ("--width", width)):
        if text is not None:
            counts[name] = _numbers(name, text, int, 1, 1 << 24)
    try:
        from dhilgt.benchmark import speed
        from dhilgt.benchmark.speed.cases import machine
        from dhilgt.utils.devices import choose_device
    except ImportError as error:
        raise DhilgtError(f"{error}; install dhilgt[train]") from error
    place = choose_device(device)
    on_gpu = place.type == "cuda"
    sizes = speed.BatchSizes(
        counts.get("--batch", (8192 if on_gpu else 64,)),
        counts["--slots"],
        counts.get("--width", (128 if on_gpu else 32,)),
        fills,
    )
    chosen = (
        speed.default_implementations(place)
        if ways is None
        else speed.parse_implementations(ways, place)
    )
    others = [] if also is None else [name.strip() for name in also.split(",")]
    for name in others:
        if name not in speed.OTHERS:
            raise shell.usage_error(f"{name!r} is none of {', '.join(speed.OTHERS)}", "--also")
        if not on_gpu:
            raise DhilgtError(f"{name} is measured on a GPU, not on {place.type}; leave it out")
    from dhilgt.benchmark.lines import recorded_command, signed_line

    lines: list[dict[str, Any]] = []
    command = recorded_command(sys.argv[1:])
    with ExitStack() as files:
        picture = None if plot is None else files.enter_context(shell.written_whole(plot))
        page = None if table is None else files.enter_context(shell.written_whole(table))
        # Line by line, so that an interrupt keeps what was measured.
        try:
            written = files.enter_context(output.open("w", encoding="utf-8"))
        except OSError as error:
            raise DhilgtError(
                f"{output} cannot be written ({error.strerror}); choose another path"
            ) from error

        def keep(line: dict[str, Any]) -> None:
            lines.append(line)
            written.write(signed_line({**line, "command": command}).decode() + "\n")
            written.flush()
            if not quiet:
                typer.echo(f"{len(lines)}: {_summary(line)}", err=True)

        for line in speed.measure(sizes, chosen, place, repeats):
            keep(line)
        for name in others:
            for line in speed.OTHERS[name](place):
                keep({"measure": name, **line, "machine": machine(place)})
        if plot is not None and picture is not None:
            speed.draw(lines, picture, plot.suffix)
        text = speed.table(lines)
        if page is not None:
            page.write_text(text, encoding="utf-8")
    if table is None:
        typer.echo(text, nl=False)


def _summary(line: dict[str, Any]) -> str:
    if line["measure"] != "size":
        return str(line["measure"])
    shape = f"{line['rows']:,} x {line['slots']} x {line['width']}, {line['fill']:.0%} filled"
    return f"{line['way']}, {shape}: training {line['ms_train']:,.1f} ms per 100 K egos"


def _numbers(
    name: str, text: str, kind: Callable[[str], Number], low: Number, high: Number
) -> tuple[Number, ...]:
    try:
        numbers = tuple(kind(part) for part in text.split(","))
    except ValueError:
        numbers = ()
    if not numbers or not all(low <= value <= high and value > 0 for value in numbers):
        raise shell.usage_error(
            f"{text!r} is no list of numbers up to {high} above 0, like 32,64", name
        )
    return numbers
