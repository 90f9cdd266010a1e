"""`dhilgt generate`: a random graph, as files."""

import contextlib
import csv
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from dhilgt.cli import shell
from dhilgt.errors import DhilgtError
from dhilgt.graph.graph import Graph
from dhilgt.graph.random_graphs import generate

_FILES = ("edges.csv", "features.npy", "labels.csv")


def run(
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder to write the files to.")],
    num_nodes: Annotated[int, typer.Option("--nodes", min=1, help="Number of nodes.")] = 20_000,
    average_degree: Annotated[
        float, typer.Option("--degree", help="Average number of edges per node.")
    ] = 10.0,
    num_classes: Annotated[int, typer.Option("--classes", help="Number of classes.")] = 5,
    homophily: Annotated[
        float, typer.Option(help="Fraction of edges within a class, 0 to 1.")
    ] = 0.7,
    num_features: Annotated[int, typer.Option("--features", min=1, help="Numbers per node.")] = 32,
    seed: Annotated[int, typer.Option(help="The same seed makes the same graph.")] = 0,
    directed: Annotated[bool, typer.Option("--directed", help="Make a directed graph.")] = False,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace the three files if they are there.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    quiet: bool = False,
) -> None:
    """Write a random graph that looks like a real one: hubs, communities, classes, features.

    Writes edges.csv (source, target), features.npy (a row per node) and labels.csv (id, class).

    \b
    Example:
      dhilgt generate -o trial --nodes 5000
      dhilgt label trial/edges.csv --nodes trial/labels.csv -o trial/graph.labels
    """  # noqa: D301 - \b keeps the example's lines apart
    with _new_files(output, overwrite) as drafts:
        graph = generate(
            num_nodes,
            average_degree,
            num_classes=num_classes,
            homophily=homophily,
            num_features=num_features,
            seed=seed,
            directed=directed,
        )
        _write(graph, drafts)
    facts = {
        "path": str(output),
        "nodes": graph.num_nodes,
        "edges": graph.num_distinct_edges,
        "directed": directed,
        "classes": graph.num_classes,
        "features": num_features,
        "seed": seed,
        "files": [str(output / name) for name in _FILES],
    }
    if as_json:
        shell.print_json(facts)
        return
    if quiet:
        return
    shell.print_table(
        [
            ("nodes", f"{facts['nodes']:,}"),
            ("edges", f"{facts['edges']:,}"),
            ("classes", f"{facts['classes']:,}"),
            ("written", ", ".join(str(output / name) for name in _FILES)),
        ]
    )


@contextlib.contextmanager
def _new_files(folder: Path, overwrite: bool) -> Iterator[dict[str, Path]]:
    """Yield paths to write to; all files appear if the block ends without an error, else none."""
    for name in _FILES:
        if (folder / name).exists() and not overwrite:
            raise DhilgtError(
                f"{folder / name} exists; choose another folder, or replace it with --overwrite"
            )
    made = [place for place in (folder, *folder.parents) if not place.exists()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with contextlib.ExitStack() as stack:
            yield {name: stack.enter_context(shell.written_whole(folder / name)) for name in _FILES}
    except BaseException as error:
        with contextlib.suppress(OSError):
            for place in made:
                place.rmdir()
        if isinstance(error, (FileExistsError, NotADirectoryError)):
            raise DhilgtError(f"{folder} is not a folder; choose another path") from error
        raise


def _write(graph: Graph, drafts: dict[str, Path]) -> None:
    sources, targets = graph.to_edge_index()
    if not graph.directed:
        sources, targets = sources[sources < targets], targets[sources < targets]
    _write_csv(drafts["edges.csv"], ("source", "target"), sources.tolist(), targets.tolist())
    with drafts["features.npy"].open("wb") as stream:  # a stream: numpy.save renames what it opens
        np.save(stream, graph.features)
    assert graph.labels is not None
    _write_csv(drafts["labels.csv"], ("id", "class"), graph.nodes.tolist(), graph.labels.tolist())


def _write_csv(path: Path, names: tuple[str, str], left: list[int], right: list[int]) -> None:
    with path.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(names)
        writer.writerows(zip(left, right, strict=True))
