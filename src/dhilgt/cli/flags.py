"""Flags of several commands: settings, sources of a graph, options of `dhilgt bench`."""

import functools
import inspect
import re
from collections.abc import Callable
from dataclasses import Field, fields
from pathlib import Path
from typing import Annotated, Any

import typer

from dhilgt.settings.settings import GROUPS, Settings

_NONE = object()  # "none" on the command line; None is "not given"
_FIELDS: tuple[Field[Any], ...] = tuple(one for group in GROUPS for one in Settings.group(group))


def with_settings(run: Callable[..., None]) -> Callable[..., None]:
    """Gives a command with a flag for every setting.

    Args:
        run: Takes ``settings``, a dict of those that were given.
    """
    signature = inspect.signature(run)
    own = [one for one in signature.parameters.values() if one.name != "settings"]
    flags = [
        inspect.Parameter(
            one.name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=_annotation(one)
        )
        for one in _FIELDS
    ]

    @functools.wraps(run)
    def command(**values: Any) -> None:
        given = {one.name: values.pop(one.name, None) for one in _FIELDS}
        chosen = {
            name: None if value is _NONE else value
            for name, value in given.items()
            if value is not None
        }
        run(**values, settings=chosen)

    parameters = [one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in own] + flags
    command.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {one.name: one.annotation for one in parameters}
    return command


def flag_of(name: str) -> str:
    """Gives the flag of a setting.

    Example:
        >>> flag_of("hidden_channels")
        '--hidden-channels'
    """
    return "--" + name.replace("_", "-")


def in_flag_words(message: str) -> str:
    """Gives a message about settings with their flags in it.

    Example:
        >>> in_flag_words("hidden_channels = 100 is not a multiple of heads = 8")
        '--hidden-channels 100 is not a multiple of --heads 8'
    """
    names = "|".join(sorted((one.name for one in fields(Settings)), key=len, reverse=True))
    message = re.sub(rf"(?<![-\w'])({names}) = ", lambda m: f"{flag_of(m[1])} ", message)
    snake = "|".join(one.name for one in fields(Settings) if "_" in one.name)
    return re.sub(rf"(?<![-\w'])({snake})\b", lambda m: flag_of(m[1]), message)


def _annotation(one: Field[Any]) -> Any:
    shown = "none" if one.default is None else str(one.default).lower()
    if isinstance(one.default, float):
        shown = f"{one.default:g}"
    text = in_flag_words(f"{one.metadata['help']} [default: {shown}]")
    flag = flag_of(one.name)
    kind = str(one.type)
    if kind == "bool":
        option = typer.Option(f"{flag}/--no-{flag[2:]}", help=text, show_default=False)
        return Annotated[bool | None, option]
    number = float if "float" in kind else int
    if kind in ("int", "float"):
        return Annotated[number | None, typer.Option(flag, help=text, show_default=False)]
    if "int" not in kind and "float" not in kind:
        if "None" not in kind:
            return Annotated[str | None, typer.Option(flag, help=text, show_default=False)]
        parser, metavar = _word(str, "none"), "TEXT"
    else:
        word = "none" if "None" in kind else "auto"
        parser, metavar = _word(number, word), f"{number.__name__.upper()}|{word}"
    option = typer.Option(flag, help=text, show_default=False, parser=parser, metavar=metavar)
    return Annotated[Any, option]


def _word(kind: type, word: str) -> Callable[[str], Any]:
    """Gives the reader of a value that may also be one word."""

    def read(text: str) -> Any:
        if text.lower() == word:
            return _NONE if word == "none" else word
        try:
            return kind(text)
        except ValueError:
            raise typer.BadParameter(
                f"{text!r} is not a {'whole ' * (kind is int)}number or {word!r}"
            ) from None

    return read


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


Results = Annotated[
    list[Path] | None, typer.Argument(help="With --render-only: files of results to show.")
]
Data = Annotated[str, typer.Option(help="Datasets, like cora,chameleon.")]
Seeds = Annotated[str, typer.Option(help="Seeds, like 0-9 or 1,5,7.")]
Output = Annotated[
    Path, typer.Option("--output", "-o", help="File of results, a JSON line per cell.")
]
RecipeName = Annotated[
    str, typer.Option("--recipe", help="Settings of the whole model: paper, best, or a file.")
]
Epochs = Annotated[int | None, typer.Option(help="The most epochs of every cell.", min=1)]
Budget = Annotated[
    float | None, typer.Option(help="Seconds that each cell may take once its graph is loaded.")
]
Total = Annotated[
    float | None, typer.Option(help="Seconds that the whole run may take; see --resume.")
]
Jobs = Annotated[int, typer.Option(help="Cells at once; more than one blurs all times.", min=1)]
Device = Annotated[str, typer.Option(help="auto, cpu, cuda, cuda:1, ...")]
Root = Annotated[
    Path | None,
    typer.Option(help="Folder with datasets; else $DHILGT_DATA, else the user's cache."),
]
Resume = Annotated[
    bool, typer.Option("--resume", help="Go on with the file of results: skip what is done.")
]
InProcess = Annotated[
    bool, typer.Option("--in-process", help="Run cells in this process; memory is then shared.")
]
RenderOnly = Annotated[
    bool, typer.Option("--render-only", help="Run nothing: show the files of results named.")
]
Into = Annotated[
    Path | None, typer.Option(help="Folder to write the table and the figures to, too.")
]
Form = Annotated[str, typer.Option("--format", help="md, latex or html.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print the table only.")]
Models = Annotated[
    str, typer.Option(help="all, or a list like dhilgt,gcn:tuned (system, or system:variant).")
]
Seconds = Annotated[
    float | None,
    typer.Option(help="Seconds of training, after which the best epoch so far counts."),
]
Tune = Annotated[
    int,
    typer.Option(metavar="TRIALS", help="Search before: so many settings of each system.", min=0),
]
Reuse = Annotated[
    bool,
    typer.Option(
        "--reuse", help="Let each process do many cells: faster, but host memory adds up."
    ),
]
Across = Annotated[int, typer.Option(help="Datasets side by side in a table.", min=1, max=12)]
Published = Annotated[
    bool, typer.Option(help="Show the paper's figures under each system, or not.")
]
