"""`dhilgt query`: distances from saved labels."""

import csv
import sys
from pathlib import Path
from typing import Annotated, Any, TextIO

import numpy as np
import typer
from numpy.typing import NDArray

from dhilgt.cli import shell
from dhilgt.errors import GraphError
from dhilgt.graph import checks, node_ids
from dhilgt.graph.checks import IdArray
from dhilgt.labels.hub_labels import BEYOND, UNREACHABLE, HubLabels
from dhilgt.readers import edge_text, files
from dhilgt.readers.edge_layout import EdgeTextOptions
from dhilgt.utils.checks import num_threads

_ROWS_AT_A_TIME = 100_000


def run(
    labels: Annotated[Path, typer.Argument(help="Folder that `dhilgt label` wrote.")],
    source: Annotated[str | None, typer.Argument(help="Id of the node to start from.")] = None,
    target: Annotated[str | None, typer.Argument(help="Id of the node to reach.")] = None,
    pairs: Annotated[
        str | None,
        typer.Option(
            help="File of pairs, one per line like a file of edges; - for standard input."
        ),
    ] = None,
    witness: Annotated[
        bool, typer.Option("--witness", help="Also the best ranked node on a shortest path.")
    ] = False,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="CSV file to write instead of printing.")
    ] = None,
    header: Annotated[
        bool | None,
        typer.Option(
            "--header/--no-header", help="First line of pairs is a header; detected by default."
        ),
    ] = None,
    comment: Annotated[
        str | None,
        typer.Option(
            help="Skip lines that begin with this sign; '' for none. Default: # and % above rows."
        ),
    ] = None,
    threads: Annotated[
        int | None, typer.Option(min=1, help="Threads to use; all cores by default.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Print exact distances: of one pair, or of many from a file or standard input.

    Many pairs give CSV with the columns source, target, distance (and hub with --witness), -1
    where there is no path. Labels with a radius add the column exact (1 or 0): beyond the radius a
    distance is an upper bound, or -2 for none. Put -- before ids that begin with a minus sign.

    \b
    Example:
      dhilgt query web.labels alice bob
      dhilgt query web.labels --pairs pairs.csv --witness -o distances.csv
    """  # noqa: D301 - \b keeps the example's lines apart
    one = source is not None
    if one and target is None:
        raise shell.usage_error("give two ids, or --pairs", "TARGET")
    if one == (pairs is not None):
        raise shell.usage_error("give either two ids or --pairs, a file or -", "--pairs")
    if output is not None and (one or as_json):
        raise shell.usage_error("is for --pairs as CSV; drop --json or the two ids", "--output")
    index = HubLabels.load(labels)
    if one:
        first, second = (
            shell.typed_id(index.ids, str(end), "these labels") for end in (source, target)
        )
        _answer_one(index, first, second, witness, as_json)
        return
    ends = _read_pairs(index, str(pairs), header, comment, num_threads(threads))
    if output is None:
        _answer_many(index, ends, witness, threads, as_json, sys.stdout)
        return
    with (
        shell.written_whole(output) as draft,
        draft.open("w", encoding="utf-8", newline="") as stream,
    ):
        _answer_many(index, ends, witness, threads, False, stream)


def _answer_one(index: HubLabels, source: Any, target: Any, witness: bool, as_json: bool) -> None:
    for node in (source, target):
        _check_known(index, checks.ids([node], "id"), "")
    distance, hub = index.witness(source, target)
    if as_json:
        answer = {"source": source, "target": target, "distance": distance}
        if index.radius is not None:
            answer["exact"] = bool(index.is_exact(distance))
        shell.print_json(answer | ({"hub": hub} if witness else {}))
    elif distance == UNREACHABLE:
        typer.echo("no path")
    elif distance == BEYOND:
        typer.echo(f"farther than {index.radius}, or no path")
    else:
        at_most = index.radius is not None and not index.is_exact(distance)
        text = f"at most {distance}" if at_most else f"{distance}"
        typer.echo(f"{text} through {hub}" if witness else text)


def _answer_many(
    index: HubLabels,
    ends: tuple[IdArray, IdArray],
    witness: bool,
    threads: int | None,
    as_json: bool,
    stream: TextIO,
) -> None:
    sources, targets = ends
    hubs: NDArray[Any] | None = None
    if witness:
        distances, hubs = index.witnesses(sources, targets, threads=threads, progress=True)
    else:
        distances = index.distances(sources, targets, threads=threads, progress=True)
    columns: list[NDArray[Any]] = [sources, targets, distances]
    names = ["source", "target", "distance"]
    if hubs is not None:
        columns, names = [*columns, hubs], [*names, "hub"]
    if index.radius is not None:
        exact = index.is_exact(distances)
        columns, names = [*columns, exact if as_json else exact.astype(int)], [*names, "exact"]
    if as_json:
        rows = zip(*(column.tolist() for column in columns), strict=True)
        shell.print_json({"pairs": [dict(zip(names, row, strict=True)) for row in rows]})
        return
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(names)
    for start in range(0, len(sources), _ROWS_AT_A_TIME):
        part = slice(start, start + _ROWS_AT_A_TIME)
        writer.writerows(zip(*(column[part].tolist() for column in columns), strict=True))


# ---- reading pairs -----------------------------------------------------------------------------


def _read_pairs(
    index: HubLabels, pairs: str, header: bool | None, comment: str | None, threads: int
) -> tuple[IdArray, IdArray]:
    file = files.check_file(pairs, empty=True)  # no pairs is allowed
    options = EdgeTextOptions(
        path=file,
        separator=None,
        header=header,
        columns=None,
        ignore_weights=True,  # so that the output of one query can be the input of another
        integers_only=not index.ids.are_text,
        threads=threads,
        pairs=True,
        comment=comment,
    )

    def is_known(ids: IdArray) -> NDArray[np.bool_]:
        return np.asarray(node_ids.find(index.ids.node_ids, index.num_nodes, ids) >= 0)

    with files.opened(file, False) as stream:
        table = edge_text.read_pairs(stream, options, is_known)
    for note in table.notes:
        shell.note(note)
    for side, ids in (("source", table.sources), ("target", table.targets)):
        _check_known(index, ids, f"{file}, pair {{}}: the {side} ")
    return table.sources, table.targets


def _check_known(index: HubLabels, ids: IdArray, place: str) -> None:
    """Raise for an id that no node has; `place` names its place, with {} for its number."""
    names, count = index.ids.node_ids, index.num_nodes
    for at in np.flatnonzero(node_ids.find(names, count, ids) < 0)[:1]:
        value = node_ids.plain_value(ids[at])
        near = ", ".join(repr(other) for other in node_ids.nearest(names, count, value))
        raise GraphError(
            f"{place.replace('{}', str(at + 1))}{value!r} is not a node of these labels; "
            f"the nearest ids are {near}"
        )
