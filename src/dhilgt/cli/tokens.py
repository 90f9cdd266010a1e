"""`dhilgt tokens`: from hub labels to token rows on disk."""

import shlex
import sys
import time
from pathlib import Path
from typing import Annotated, Any

import typer

from dhilgt.cli import shell
from dhilgt.cluster.session import check_cluster
from dhilgt.labels.hub_labels import HubLabels
from dhilgt.readers import node_lists
from dhilgt.store.artifact import Artifact
from dhilgt.tokens.tokens import Tokens
from dhilgt.utils import checks
from dhilgt.utils.memory import format_bytes, parse_size


def run(
    labels: Annotated[Path, typer.Argument(help="Folder that `dhilgt label` wrote.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder to write the tokens to.")],
    size: Annotated[int, typer.Option(help="Slots of a row, the node's own included.")] = 32,
    num_out: Annotated[
        int | None, typer.Option(help="Hubs to draw; half of the slots by default.")
    ] = None,
    num_in: Annotated[
        int | None, typer.Option(help="Holders to draw; what is left by default.")
    ] = None,
    out_exponent: Annotated[
        float, typer.Option(help="A hub at distance d has weight d to this power.")
    ] = -1.0,
    in_exponent: Annotated[
        float, typer.Option(help="A holder at distance d has weight d to this power.")
    ] = -1.0,
    copies: Annotated[int, typer.Option(help="Rows to draw per node.")] = 1,
    seed: Annotated[int, typer.Option(help="Seed of all draws.")] = 0,
    spill: Annotated[
        bool, typer.Option("--spill", help="Give slots one side cannot use to the other.")
    ] = False,
    fill: Annotated[
        str | None, typer.Option(help="'neighbors' gives slots still free to neighbours not drawn.")
    ] = None,
    nodes: Annotated[
        Path | None, typer.Option(help="File of ids: rows for these nodes only.")
    ] = None,
    bits: Annotated[
        int, typer.Option(help="8, or 4 for half the bytes: distances from 14 on become 'far'.")
    ] = 8,
    threads: Annotated[
        int | None, typer.Option(min=1, help="Threads to use; all cores by default.")
    ] = None,
    max_memory: Annotated[
        str | None,
        typer.Option(help="Most memory beyond the labels, like 4GB; by default what is free."),
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with an interrupted build, or start one.")
    ] = False,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace tokens that are there.")
    ] = False,
    cluster: Annotated[
        str | None,
        typer.Option(
            metavar="auto|ADDRESS",
            help="Draw on a Ray cluster, from labels in parts; a stopped build goes on.",
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    quiet: bool = False,
) -> None:
    """Draw the token rows of labels and store them with all distances.

    \b
    Example:
      dhilgt tokens web.labels -o web.tokens
      dhilgt tokens web.labels -o far.tokens --out-exponent 1 --copies 4
      dhilgt tokens /shared/web.labels -o /shared/web.tokens --cluster auto
    """  # noqa: D301 - \b keeps the example's lines apart
    if cluster is not None:
        check_cluster(cluster)
    checks.num_threads(threads)
    limit = None if max_memory is None else parse_size(max_memory)
    started = time.perf_counter()
    opened = HubLabels.load(labels)
    chosen = None if nodes is None else opened.ids.index_of(node_lists.read_nodes(nodes))
    try:
        tokens = Tokens.build(
            opened,
            size=size,
            num_out=num_out,
            num_in=num_in,
            out_exponent=out_exponent,
            in_exponent=in_exponent,
            copies=copies,
            seed=seed,
            spill=spill,
            fill=fill,
            nodes=chosen,
            bits=bits,
            threads=threads,
            path=output,
            resume=resume,
            overwrite=overwrite,
            progress=not quiet,
            max_memory=limit,
            cluster=cluster,
        )
    except KeyboardInterrupt:
        if cluster is not None:
            raise  # its message says how to go on
        again = ["dhilgt", *sys.argv[1:], *([] if resume else ["--resume"])]
        raise KeyboardInterrupt(f"interrupted; go on with: {shlex.join(again)}") from None
    facts = summary(tokens, output, time.perf_counter() - started)
    if as_json:
        shell.print_json(facts)
    elif not quiet:
        shell.print_table(summary_rows(facts))


def summary(tokens: Tokens, path: Path, seconds: float) -> dict[str, Any]:
    """Return the facts about a build that are printed, as plain values."""
    return {
        "path": str(path),
        "nodes": tokens.num_nodes,
        "rows": len(tokens),
        "settings": tokens.spec.to_dict(),
        "copies": tokens.copies,
        "bits": tokens.bits,
        "directed": tokens.directed,
        "radius": tokens.radius,
        "bytes_on_disk": Artifact.open(path).nbytes,
        "graph_fingerprint": tokens.graph_fingerprint,
        "labels_fingerprint": tokens.labels_fingerprint,
        "seconds": round(seconds, 4),
        "traffic": None if tokens.traffic is None else tokens.traffic._asdict(),
    }


def summary_rows(facts: dict[str, Any]) -> list[tuple[str, str]]:
    """Return the lines of the printed table."""
    settings = facts["settings"]
    per_row = facts["bytes_on_disk"] / max(1, facts["rows"])
    lines = [
        ("rows", f"{facts['rows']:,} of {settings['size']} slots ({facts['copies']} a node)"),
        ("drawn", f"{settings['num_out']} hubs, {settings['num_in']} holders"),
        *([] if facts["radius"] is None else [("radius", f"{facts['radius']}, of the labels")]),
        ("on disk", f"{format_bytes(facts['bytes_on_disk'])} ({per_row:.0f} bytes per row)"),
        ("seconds", f"{facts['seconds']:.2f}"),
    ]
    if read := facts["traffic"]:
        each = read["num_bytes"] / max(1, read["num_rows"])
        line = f"{format_bytes(read['num_bytes'])} of the labels ({each:.0f} bytes per row)"
        lines.insert(2, ("moved", line))
    return lines
