"""`dhilgt datasets`: list public graphs, fetch them, check their files."""

import shutil
import sys
from collections import Counter
from pathlib import Path
from typing import Annotated, Any

import typer

from dhilgt.cli import shell
from dhilgt.datasets import fetch as fetching
from dhilgt.datasets import loading
from dhilgt.datasets.files import Files
from dhilgt.datasets.graph_statistics import Statistics, statistics
from dhilgt.datasets.registry import DatasetInfo, info, names
from dhilgt.datasets.splits import split_hash
from dhilgt.errors import DatasetError, DhilgtError

app = typer.Typer(
    help="Public graphs by name: list them, fetch them, check their files.",
    no_args_is_help=True,
    rich_markup_mode=None,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

_Root = Annotated[
    Path | None,
    typer.Option(help="Folder with datasets; else $DHILGT_DATA, else the user's cache."),
]
_Json = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
_NUMBERS = ("nodes", "edges", "features", "classes", "homophily")
_WIDTH, _LEFT_OUT = 100, ("classes", "homophily")  # columns that a narrow terminal has no room for
_MEASURED = (*_NUMBERS, "components", "largest_component", "isolated", "unlabelled")


# ---- list --------------------------------------------------------------------------------------


def run_list(
    root: _Root = None,
    measure: Annotated[
        bool, typer.Option("--measure", help="Read the graphs that are here and count.")
    ] = False,
    markdown: Annotated[
        bool, typer.Option("--markdown", help="Print a table for a Markdown page.")
    ] = False,
    as_json: _Json = False,
) -> None:
    """List all datasets: their size as published (or as measured), metric, and what is here.

    \b
    Example:
      dhilgt datasets list
      dhilgt datasets list --measure --markdown
    """  # noqa: D301 - \b keeps the example's lines apart
    rows = [_row(info(name), root, measure) for name in names()]
    if measure:
        rows = [row for row in rows if row["components"] is not None]
    if as_json:
        shell.print_json({"datasets": rows})
        return
    columns: tuple[str, ...] = ("name", *(_MEASURED if measure else _NUMBERS), "metric", "here")
    if sys.stdout.isatty() and shutil.get_terminal_size().columns < _WIDTH:
        columns = tuple(name for name in columns if name not in _LEFT_OUT)
    _print_columns(columns, [[_shown(row[column]) for column in columns] for row in rows], markdown)


def _row(about: DatasetInfo, root: Path | None, measure: bool) -> dict[str, Any]:
    numbers: dict[str, Any] = dict.fromkeys(_MEASURED)
    numbers.update(_published(about))
    here = _here(about, root)
    if measure:
        measured = _measured(about, root)
        numbers.update(_edges_once(measured.to_dict()) if measured is not None else {})
    return {
        "name": about.name,
        **numbers,
        "metric": "+".join(about.metrics),
        "here": here,
        "in_paper": about.in_paper,
        "generated": about.generated,
    }


def _published(about: DatasetInfo) -> dict[str, Any]:
    return _edges_once({name: getattr(about.facts, name) for name in _NUMBERS})


def _edges_once(numbers: dict[str, Any]) -> dict[str, Any]:
    """Return numbers that count both directions of an edge with each edge counted once."""
    edges = numbers["edges"]
    return {**numbers, "edges": None if edges is None else edges // 2}


def _measured(about: DatasetInfo, root: Path | None) -> Statistics | None:
    if about.generated:
        return None  # generated with these numbers, not read
    files = Files(about, root)
    missing = {file.needed_for for file in about.files if files.find(file.path) is None}
    if "graph" in missing:
        return None
    return statistics(about.name, root, download=False, features="features" not in missing)


def _here(about: DatasetInfo, root: Path | None) -> str:
    if about.generated and not about.files:
        return "generated"
    files = Files(about, root)
    present = sum(files.find(file.path) is not None for file in about.files)
    if present == len(about.files):
        return "yes"
    return f"{present} of {len(about.files)} files" if present else "no"


def _shown(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:.3f}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def _print_columns(header: tuple[str, ...], rows: list[list[str]], markdown: bool) -> None:
    header = tuple(name.replace("_", " ") for name in header)
    if markdown:
        typer.echo(f"| {' | '.join(header)} |")
        typer.echo(f"|{'|'.join('---' if at == 0 else '---:' for at in range(len(header)))}|")
        for row in rows:
            typer.echo(f"| {' | '.join(row)} |")
        return
    widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
    for row in (list(header), *rows):
        cells = [
            cell.ljust(width) if at in (0, len(row) - 2, len(row) - 1) else cell.rjust(width)
            for at, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        typer.echo("  ".join(cells).rstrip())


# ---- show --------------------------------------------------------------------------------------


def run_show(
    name: Annotated[str, typer.Argument(help="Name of a dataset.")],
    root: _Root = None,
    measure: Annotated[
        bool, typer.Option("--measure", help="Read the graph, count, and make the split.")
    ] = False,
    split: Annotated[
        str,
        typer.Option(help="Split to make: paper, random, official, or percentages like 50/25/25."),
    ] = "paper",
    seed: Annotated[int, typer.Option(min=0, help="Seed of the split.")] = 0,
    as_json: _Json = False,
) -> None:
    """Show what is known about a dataset, its files, and with --measure what is in them.

    \b
    Example:
      dhilgt datasets show citeseer
      dhilgt datasets show citeseer --measure --seed 3
    """  # noqa: D301
    about = info(name)
    files = Files(about, root)
    facts: dict[str, Any] = {
        "name": about.name,
        "about": about.about,
        "generated_stand_in_for": about.standin_for,
        **_published(about),
        "directed": about.directed,
        "metrics": list(about.metrics),
        "loss": about.loss,
        "paper_split": about.paper_split,
        "official_splits": about.official_splits,
        "source": about.source,
        "licence": about.licence,
        "citation": about.citation,
        "note": about.note,
        "folder": str(files.home) if about.files else None,
        "files": [
            {
                "path": file.path,
                "url": file.url or (about.archive.url if about.archive else None),
                "sha256": file.sha256,
                "here": files.find(file.path) is not None,
            }
            for file in about.files
        ],
    }
    if measure:
        facts["measured"] = _split_facts(about, root, split, seed)
    if as_json:
        shell.print_json(facts)
    else:
        shell.print_table(_show_rows(about, facts))


def _split_facts(about: DatasetInfo, root: Path | None, split: str, seed: int) -> dict[str, Any]:
    files = Files(about, root)
    absent = {file.needed_for for file in about.files if files.find(file.path) is None}
    graph = loading.load(
        about.name, root, split, seed, features="features" not in absent, progress=shell.watched()
    )
    masks = graph.masks or {}
    return {
        **_edges_once(statistics(graph).to_dict()),
        "split": split,
        "seed": seed,
        **{part: int(mask.sum()) for part, mask in masks.items()},
        "split_hash": split_hash(masks),
        "graph_fingerprint": graph.fingerprint,
    }


def _show_rows(about: DatasetInfo, facts: dict[str, Any]) -> list[tuple[str, str]]:
    rows = [("name", about.title), ("about", about.about)]
    rows += [(number, _shown(facts[number])) for number in _NUMBERS]
    paper = about.paper_split if about.paper_split == "official" else f"random {about.paper_split}"
    rows += [
        ("metric", " and ".join(about.metrics)),
        ("paper split", paper),
        ("official splits", str(about.official_splits)),
        ("source", about.source),
        ("licence", about.licence),
        ("cite", about.citation),
    ]
    if about.note:
        rows.append(("note", about.note))
    if about.files:
        here = sum(file["here"] for file in facts["files"])
        rows.append(("files", f"{here} of {len(about.files)} in {facts['folder']}"))
        rows += [("", f"{'+' if f['here'] else '-'} {f['path']}") for f in facts["files"]]
    for name, value in facts.get("measured", {}).items():
        # Counts get commas, settings and hashes do not.
        rows.append((f"measured {name.replace('_', ' ')}", _shown(value)))
    return rows


# ---- fetch and verify --------------------------------------------------------------------------


def run_fetch(
    chosen: Annotated[list[str], typer.Argument(metavar="NAME...", help="Datasets to fetch.")],
    root: _Root = None,
    quiet: bool = False,
) -> None:
    """Fetch the files of datasets that are not here yet, and check them.

    An interrupted transfer continues where it stopped when the command is run again.

    \b
    Example:
      dhilgt datasets fetch cora genius --root data
    """  # noqa: D301
    for about in [info(name) for name in chosen]:  # a wrong name is refused before any work
        if not about.files:
            if not quiet:
                typer.echo(f"{about.title}: nothing to fetch, it is made when it is loaded")
            continue
        files = Files(about, root)
        new = [file for file in about.files if files.find(file.path) is None]
        fetching.fetch(files, progress=not quiet and shell.watched())
        if not quiet:
            typer.echo(
                f"{about.name}: {len(new)} fetched, {len(about.files) - len(new)} were here, in "
                f"{files.home}"
            )


def run_verify(
    chosen: Annotated[
        list[str] | None,
        typer.Argument(metavar="[NAME...]", help="Datasets to check; all that are here if none."),
    ] = None,
    root: _Root = None,
    as_json: _Json = False,
    quiet: bool = False,
) -> None:
    """Compare the files that are here with what was published.

    The exit code is 1 if a file is damaged, or missing from a dataset that was named.

    \b
    Example:
      dhilgt datasets verify
      dhilgt datasets verify cora
    """  # noqa: D301
    rows: list[dict[str, str]] = []
    for name in chosen or names():
        about = info(name)
        if about.generated:
            continue  # the files of a stand-in are those of another dataset
        files = Files(about, root)
        statuses = [(file, files.status(file)) for file in about.files]
        if not chosen and all(status == "missing" for _, status in statuses):
            continue
        rows += [
            {"dataset": about.name, "file": file.path, "status": status}
            for file, status in statuses
        ]
    counts = Counter(row["status"] for row in rows)
    if as_json:
        shell.print_json({"root": str(Files(info(names()[0]), root).root), "files": rows})
    else:
        wrong = ("damaged", "missing") if chosen else ("damaged",)
        for row in rows:
            if not quiet or row["status"] in wrong:
                typer.echo(f"{row['status']:<9}  {row['dataset']}/{row['file']}")
        summary = ", ".join(f"{count} {status}" for status, count in sorted(counts.items()))
        if not quiet:
            typer.echo(summary or "no files of datasets are here")
    if counts["damaged"]:
        raise DatasetError("files are damaged; remove them and run dhilgt datasets fetch")
    if chosen and counts["missing"]:
        raise DhilgtError("files are missing; run dhilgt datasets fetch")


for _name, _run, _summary in (
    ("list", run_list, "List all datasets, and what is here of them."),
    ("show", run_show, "Show what is known about one."),
    ("fetch", run_fetch, "Fetch the files of datasets, and check them."),
    ("verify", run_verify, "Compare the files that are here with what was published."),
):
    app.command(name=_name, short_help=_summary)(shell.guarded(_run))
