"""The flags that say where a graph comes from, shared by the commands that train."""

import functools
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

_FLAGS: dict[str, Any] = {
    "dataset": Annotated[
        str | None,
        typer.Option("--data", help="Name of a public dataset, see dhilgt datasets list."),
    ],
    "edges": Annotated[
        Path | None, typer.Option(help="File of edges: text, Parquet, NPZ or MatrixMarket.")
    ],
    "features": Annotated[
        str | None,
        typer.Option(help="CSV or Parquet with a column of ids, .npy, .npz, or 'degree'."),
    ],
    "labels": Annotated[
        Path | None, typer.Option(help="CSV or Parquet of id and class; .npy, one per node.")
    ],
    "nodes": Annotated[
        Path | None,
        typer.Option(help="File of all ids, one per line: the order of the rows of .npy files."),
    ],
    "split": Annotated[
        str | None,
        typer.Option(
            help="CSV or Parquet of id and part: train, val or test. With --data: paper, "
            "official, or shares like 60/20/20."
        ),
    ],
    "directed": Annotated[
        bool | None,
        typer.Option("--directed/--undirected", help="Keep the direction of edges, or not."),
    ],
    "columns": Annotated[
        str | None,
        typer.Option(help="The two columns of edges, by name or position: 'from,to', '0,2'."),
    ],
    "separator": Annotated[
        str | None, typer.Option(help="Between the columns of edges; found out by default.")
    ],
    "header": Annotated[
        bool | None,
        typer.Option("--header/--no-header", help="First line of edges is a header, or not."),
    ],
    "ignore_weights": Annotated[
        bool | None,
        typer.Option("--ignore-weights", help="Pass over further columns of edges."),
    ],
    "root": Annotated[
        Path | None,
        typer.Option(help="Folder with datasets; else $DHILGT_DATA, else the user's cache."),
    ],
    "drop_isolated": Annotated[
        bool | None,
        typer.Option("--drop-isolated", help="Leave out nodes of the dataset without an edge."),
    ],
    "config": Annotated[
        Path | None, typer.Option(help="YAML file of settings; flags count more than it.")
    ],
    "recipe": Annotated[
        str | None,
        typer.Option(help="Settings to begin with: paper, or best (found on the dataset)."),
    ],
}


def with_inputs(run: Callable[..., None], *, without: tuple[str, ...] = ()) -> Callable[..., None]:
    """Gives a command with the flags of the graph and of files of settings.

    Args:
        run: Takes ``given``, a dict of the flags by the names of `Inputs`, ``config`` and
            ``recipe``; its first parameter stays the first.
        without: Flags that mean nothing to this command, by the names of `Inputs`; a command
            without ``config`` or ``recipe`` does not take them.
    """
    signature = inspect.signature(run)
    ours = ("given", "config", "recipe")
    own = [one for one in signature.parameters.values() if one.name not in ours]
    flags = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=kind)
        for name, kind in _FLAGS.items()
        if name not in without
    ]

    @functools.wraps(run)
    def command(**values: Any) -> None:
        found = {name: values.pop(name, None) for name in _FLAGS if name not in without}
        files = {name: found.pop(name) for name in ("config", "recipe") if name not in without}
        given = {name: str(v) if isinstance(v, Path) else v for name, v in found.items()}
        run(**values, given=given, **files)

    own = [one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in own]
    parameters = own[:1] + flags + own[1:]
    command.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {one.name: one.annotation for one in parameters}
    return command
