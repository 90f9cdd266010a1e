"""`dhilgt label`: from a file of edges to hub labels on disk."""

import contextlib
import dataclasses
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from dhilgt.cli import shell
from dhilgt.cluster.session import check_cluster
from dhilgt.errors import GraphError, GraphWarning
from dhilgt.graph.graph import Graph
from dhilgt.labels.build import ALGORITHMS
from dhilgt.labels.hub_labels import HubLabels
from dhilgt.labels.orders import ORDERS, ranking
from dhilgt.labels.radius import checked_radius
from dhilgt.labels.sizes import LabelEstimate, estimate
from dhilgt.readers import node_lists, pipes
from dhilgt.store.artifact import Artifact
from dhilgt.store.target import Target
from dhilgt.utils import checks
from dhilgt.utils.checks import name_hint
from dhilgt.utils.memory import format_bytes, parse_size

_TAB_NAMES = ("\\t", "tab")
_MOST_RADII = 16  # shown


def run(
    edges: Annotated[
        Path,
        typer.Argument(help="File of edges: text, Parquet, NPZ or MatrixMarket; plain, .gz or -."),
    ],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Folder to write the labels to.")
    ] = None,
    directed: Annotated[bool, typer.Option("--directed", help="Keep the direction.")] = False,
    nodes: Annotated[
        Path | None, typer.Option(help="File of all ids, so that nodes without edges are kept.")
    ] = None,
    num_nodes: Annotated[
        int | None, typer.Option(help="The ids are indices from 0 to this number - 1.")
    ] = None,
    separator: Annotated[
        str | None,
        typer.Option(help="',' ';' '|' 'tab' or ' ' (any run of blanks); detected by default."),
    ] = None,
    header: Annotated[
        bool | None,
        typer.Option("--header/--no-header", help="First line is a header; detected by default."),
    ] = None,
    columns: Annotated[
        str | None,
        typer.Option(help="The two columns to use, by name or position: 'from,to', '0,2'."),
    ] = None,
    source_column: Annotated[
        str | None, typer.Option(help="Column of the first ends, by name or position from 0.")
    ] = None,
    target_column: Annotated[
        str | None, typer.Option(help="Column of the other ends, by name or position from 0.")
    ] = None,
    comment: Annotated[
        str | None,
        typer.Option(
            help="Skip lines that begin with this sign; '' for none. Default: # and % above rows."
        ),
    ] = None,
    file_format: Annotated[
        str | None,
        typer.Option(
            "--format", help="text, csv, tsv, parquet, npz or mtx; by default the content decides."
        ),
    ] = None,
    ignore_weights: Annotated[
        bool,
        typer.Option("--ignore-weights", help="Ignore further columns; an edge is one hop."),
    ] = False,
    threads: Annotated[
        int | None, typer.Option(min=1, help="Threads to use; all cores by default.")
    ] = None,
    algorithm: Annotated[
        str, typer.Option(help="auto, pll, planes or psl; all give the same labels.")
    ] = "auto",
    max_memory: Annotated[
        str | None,
        typer.Option(help="Most memory for the build, like 4GB; by default what is free."),
    ] = None,
    radius: Annotated[
        str | None,
        typer.Option(
            help="Leave out hubs farther away than this many steps: smaller labels, exact within "
            "it. 'auto' takes the largest that fits the memory.",
        ),
    ] = None,
    max_entries: Annotated[
        int | None,
        typer.Option(min=1, help="With --radius auto: the most label entries, as predicted."),
    ] = None,
    order: Annotated[
        str,
        typer.Option(
            help="What makes a node a hub: degree, neighbor-degree, core, closeness, random, or a "
            "file of all ids, most important first; degree-id breaks ties by id.",
        ),
    ] = "degree",
    seed: Annotated[int, typer.Option(min=0, help="Of the orders closeness and random.")] = 0,
    preflight: Annotated[
        bool, typer.Option(help="Refuse at once a build that clearly will not fit.")
    ] = True,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace labels that are there.")
    ] = False,
    cluster: Annotated[
        str | None,
        typer.Option(
            metavar="auto|ADDRESS",
            help="Build on a Ray cluster; the labels come in parts, and a build goes on.",
        ),
    ] = None,
    only_estimate: Annotated[
        bool, typer.Option("--estimate", help="Print the predicted size and stop.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    quiet: bool = False,
) -> None:
    """Build the hub labels of a graph and save them.

    \b
    Example:
      dhilgt label edges.csv -o web.labels
      dhilgt label links.txt.gz --directed --estimate
      dhilgt label huge.parquet -o huge.labels --radius 3
      dhilgt label edges.csv -o /shared/web.labels --cluster auto
    """  # noqa: D301 - \b keeps the example's lines apart
    if output is None and not only_estimate:
        raise shell.usage_error("needed, unless --estimate is given", "--output / -o")
    if algorithm not in ALGORITHMS:
        raise shell.usage_error(
            f"{algorithm!r} is not one of {', '.join(ALGORITHMS)}", "--algorithm"
        )
    if cluster is not None and algorithm != "auto":
        raise shell.usage_error("a cluster has one algorithm, auto", "--algorithm")
    # Everything is checked before the file of edges, which may be large, is read.
    if cluster is not None:
        check_cluster(cluster)
    checks.num_threads(threads)
    limit = None if max_memory is None else parse_size(max_memory)
    wanted = _radius(radius)
    checked_radius(wanted, max_entries)
    ends = edge_columns(columns, source_column, target_column)
    if order not in ORDERS and order != "-" and not Path(order).exists():
        raise GraphError(f"{order} does not exist, and no order has this name; {_hint(order)}")
    # A file with the name of an order is written ./degree.
    chosen = order if order in ORDERS else node_lists.read_nodes(Path(order), comment)
    if output is not None and not only_estimate:
        Target(output, overwrite=overwrite, keep=False).abandon()

    seconds = {}
    started = time.perf_counter()
    with warnings.catch_warnings(), naming_files(edges, nodes=nodes):
        # The cleaning is part of the report below; an empty pattern hides all warnings.
        hidden = "" if quiet else "the input was cleaned"
        warnings.filterwarnings("ignore", hidden, GraphWarning)
        graph = Graph.read(
            edges,
            format=file_format,
            separator="\t" if separator in _TAB_NAMES else separator,
            header=header,
            comment=comment,
            columns=ends,
            weights="ignore" if ignore_weights else None,
            nodes=nodes,
            num_nodes=num_nodes,
            directed=directed,
            threads=threads,
            progress=shell.watched() and not quiet,
        )
    seconds["read"] = time.perf_counter() - started
    if not (quiet or as_json):
        typer.echo(f"read {shown_name(edges)}: {_size_of(graph)}; {graph.cleaning}", err=True)
        for note in graph.notes:
            typer.echo(note, err=True)
    if only_estimate:
        end = wanted if isinstance(wanted, int) else None
        predicted = estimate(graph, order=ranking(graph, chosen, seed), radius=end)
        _print_estimate(graph, predicted, as_json)
        return
    assert output is not None

    started = time.perf_counter()
    labels = HubLabels.build(
        graph,
        threads=threads,
        order=chosen,
        seed=seed,
        progress=not quiet,
        algorithm=algorithm,
        max_memory=limit,
        preflight=preflight,
        radius=wanted,
        max_entries=max_entries,
        cluster=cluster,
        path=None if cluster is None else output,
        overwrite=overwrite,
    )
    seconds["build"] = time.perf_counter() - started
    if cluster is None:
        started = time.perf_counter()
        labels.save(output, overwrite=overwrite, threads=threads)
        seconds["save"] = time.perf_counter() - started

    facts = summary(graph, labels, Artifact.open(output).nbytes, seconds)
    facts["path"] = str(output)
    if as_json:
        shell.print_json(facts)
    elif not quiet:
        shell.print_table(summary_rows(facts))


@contextlib.contextmanager
def naming_files(edges: str | Path, **others: str | Path | None) -> Iterator[None]:
    """Add the file to messages about arrays: whoever typed a path has never seen an array.

    Args:
        edges: The file of edges, which most messages are about.
        **others: Further files by argument. A message that names a file stays as it is.
    """
    try:
        yield
    except GraphError as error:
        files = [str(shown_name(file)) for file in (edges, *others.values()) if file is not None]
        if any(file in str(error) for file in files):
            raise
        place = shown_name(others.get(error.argument or "") or edges)
        raise GraphError(f"{place}: {error.quotable}", argument=error.argument) from error


def shown_name(file: str | Path) -> str | Path:
    """Return the name of an input in messages."""
    return pipes.STANDARD_INPUT if str(file) == "-" else file


def summary(
    graph: Graph, labels: HubLabels, bytes_on_disk: int, seconds: dict[str, float]
) -> dict[str, Any]:
    """Return the facts about a build that are printed, as plain values."""
    return {
        "nodes": graph.num_nodes,
        "edges": _num_edges(graph),
        "directed": graph.directed,
        "order": labels.order_name,
        "radius": labels.radius,
        "entries": labels.num_entries,
        "entries_per_node": labels.num_entries / labels.num_nodes,
        "longest_distance": labels.max_distance,
        "bytes_in_memory": labels.nbytes,
        "bytes_on_disk": bytes_on_disk,
        "graph_fingerprint": labels.graph_fingerprint,
        "fingerprint": labels.fingerprint,
        "cleaning": dataclasses.asdict(graph.cleaning),
        "notes": list(graph.notes),
        "seconds": {stage: round(value, 4) for stage, value in seconds.items()},
    }


def summary_rows(facts: dict[str, Any]) -> list[tuple[str, str]]:
    """Return the lines of the printed table."""
    per_entry = facts["bytes_on_disk"] / facts["entries"]
    stages = ", ".join(f"{stage} {value:.2f}" for stage, value in facts["seconds"].items())
    radius = facts["radius"]
    return [
        ("nodes", f"{facts['nodes']:,}"),
        ("edges", f"{facts['edges']:,}{' (directed)' if facts['directed'] else ''}"),
        *([] if radius is None else [("radius", f"{radius}: distances up to it are exact")]),
        ("entries", f"{facts['entries']:,} ({facts['entries_per_node']:.1f} per node)"),
        ("longest distance", f"{facts['longest_distance']:,} in a label"),
        ("on disk", f"{format_bytes(facts['bytes_on_disk'])} ({per_entry:.2f} bytes per entry)"),
        ("seconds", stages),
    ]


def _num_edges(graph: Graph) -> int:
    return graph.num_distinct_edges


def _size_of(graph: Graph) -> str:
    kind = "directed" if graph.directed else "undirected"
    return f"{kind}, {graph.num_nodes:,} nodes, {_num_edges(graph):,} edges"


def edge_columns(
    columns: str | None, source: str | None, target: str | None
) -> list[str | int] | None:
    """Return the names or positions of the two columns of edges.

    Args:
        columns: Both, written like 'from,to' or '0,2'.
        source: That of the first ends.
        target: That of the other ends.
    """
    if source is None and target is None:
        if columns is None:
            return None
        parts = [part.strip() for part in columns.split(",")]
        if len(parts) != 2:
            raise shell.usage_error(
                f"{columns!r} is not two columns, like 'from,to' or '0,2'; for names with commas "
                "there are --source-column and --target-column",
                "--columns",
            )
        return [_name_or_position(part) for part in parts]
    if columns is not None:
        raise shell.usage_error(
            "--source-column and --target-column name the two columns already", "--columns"
        )
    if source is None or target is None:
        given, other = "--source-column", "--target-column"
        if source is None:
            given, other = other, given
        raise shell.usage_error(f"goes with {given}; give both", other)
    return [_name_or_position(source), _name_or_position(target)]


def _name_or_position(text: str) -> str | int:
    return int(text) if text.isascii() and text.isdigit() else text


def _hint(order: str) -> str:
    return name_hint(order, ORDERS, f"give a file or one of {', '.join(ORDERS)}")


def _print_estimate(graph: Graph, predicted: LabelEstimate, as_json: bool) -> None:
    if as_json:
        shell.print_json(
            {
                "nodes": graph.num_nodes,
                "edges": _num_edges(graph),
                "directed": graph.directed,
                "entries": predicted.num_entries,
                "bytes": predicted.num_bytes,
                "peak_bytes": predicted.peak_bytes,
                "probes": predicted.num_probes,
                "relative_error": predicted.relative_error,
                "radius": predicted.radius,
                "by_radius": [
                    {
                        "radius": near.radius,
                        "entries": near.num_entries,
                        "bytes": near.num_bytes,
                        "peak_bytes": near.peak_bytes,
                        "relative_error": near.relative_error,
                    }
                    for near in predicted.by_radius
                ],
            }
        )
        return
    typer.echo(f"{predicted} (from {predicted.num_probes:,} nodes)")
    for near in predicted.by_radius[:_MOST_RADII]:
        typer.echo(
            f"  radius {near.radius}: {near.num_entries / predicted.num_entries:.0%}, {near}"
        )


def _radius(text: str | None) -> int | str | None:
    return int(text) if text is not None and text.isascii() and text.isdigit() else text
