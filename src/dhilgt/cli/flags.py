"""Options of several commands: settings, sources of a graph, options of `dhilgt bench`."""

import functools
import inspect
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import Field, fields
from pathlib import Path
from typing import Annotated, Any

import typer

from dhilgt.cli import command_help
from dhilgt.settings import yaml_files
from dhilgt.settings.settings import Settings

_NONE = object()  # the word "none" on the command line; None is an option left out


def _with_options(
    run: Callable[..., None],
    options: Mapping[str, Any],
    gather: Callable[[dict[str, Any]], dict[str, Any]],
    *,
    replaced: tuple[str, ...] = (),
    common: Iterable[str] = (),
    place: int | None = None,
) -> Callable[..., None]:
    """Return a command with more options.

    Args:
        run: The command.
        options: Annotations of the options by name; an option left out is None.
        gather: Returns arguments of ``run`` from the values of the options.
        replaced: Parameters of ``run`` that ``gather`` returns.
        common: Options that ``--help`` shows where there is a ``--help-all``.
        place: Number of own parameters before the options; None for all of them.
    """
    signature = inspect.signature(run)
    own = [
        one.replace(kind=inspect.Parameter.KEYWORD_ONLY)
        for one in signature.parameters.values()
        if one.name not in replaced
    ]
    place = len(own) if place is None else place
    own[place:place] = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)
        for name, annotation in options.items()
    ]

    @functools.wraps(run)
    def command(**values: Any) -> None:
        gathered = gather({name: values.pop(name, None) for name in options})
        run(**values, **gathered)

    command.__annotations__ = {one.name: one.annotation for one in own}
    command.__dict__.update(
        __signature__=signature.replace(parameters=own),
        common_options=frozenset(common) | getattr(run, "common_options", frozenset()),
    )
    return command


def with_help_all(*common: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return a decorator that adds ``--help-all`` and shortens ``--help``.

    Args:
        *common: Parameters of the command that ``--help`` shows. Options added by `with_settings`
            and `with_inputs` need not be named.
    """
    shown = (*common, "help", command_help.NAME)
    options = {command_help.NAME: command_help.HELP_ALL}
    return lambda run: _with_options(run, options, lambda values: {}, common=shown)


# ---- settings ----------------------------------------------------------------------------------


def with_settings(run: Callable[..., None]) -> Callable[..., None]:
    """Return a command with an option for every setting.

    Args:
        run: Takes ``settings``, a dict of those on the command line.
    """
    flagged = [one for one in fields(Settings) if one.metadata["flag"]]

    def gather(values: dict[str, Any]) -> dict[str, Any]:
        named = {name: value for name, value in values.items() if value is not None}
        return {"settings": {k: None if value is _NONE else value for k, value in named.items()}}

    return _with_options(
        run,
        {one.name: _option(one) for one in flagged},
        gather,
        replaced=("settings",),
        common=[one.name for one in flagged if one.metadata["common"]],
    )


def flag_of(name: str) -> str:
    """Return the option of a setting.

    Example:
        >>> flag_of("hidden_channels")
        '--hidden-channels'
    """
    return "--" + name.replace("_", "-")


def with_flags(help_text: str) -> str:
    """Return the help of a setting with the options of other settings in place of their names."""
    snake = "|".join(one.name for one in fields(Settings) if "_" in one.name)
    return re.sub(rf"(?<![-\w'])({snake})\b", lambda m: flag_of(m[1]), help_text)


def default_text(one: Field[Any]) -> str:
    """Return the default of a setting as the command line writes it.

    Example:
        >>> [default_text(one) for one in Settings.group("run")]
        ['0', '0.2', 'auto', 'none']
    """
    if isinstance(one.default, float):
        return f"{one.default:g}"
    return "none" if one.default is None else str(one.default).lower()


def value_text(one: Field[Any]) -> str:
    """Return what stands behind the option of a setting: N, X, TEXT, or the words to choose from.

    Example:
        >>> [value_text(one) for one in Settings.group("tokens")[:4] + Settings.group("run")[2:]]
        ['N', 'N|none', 'N|none', 'X', 'TEXT', 'N|none']
    """
    words = one.metadata["choices"] or ({int: "N", float: "X", str: "TEXT"}[_kind(one)],)
    return "|".join((*words, *_other_word(one)))


def _kind(one: Field[Any]) -> type:
    return next(kind for kind in (float, int, str) if kind.__name__ in str(one.type))


def _other_word(one: Field[Any]) -> tuple[str, ...]:
    """Return the word that is allowed beside the values of a setting's type."""
    if "None" in str(one.type):
        return ("none",)
    return ("auto",) if str(one.type) == "int | str" else ()


def _option(one: Field[Any]) -> Any:
    """Return the annotation that makes a setting an option."""
    flag = flag_of(one.name)
    about: dict[str, Any] = {
        "help": with_flags(f"{one.metadata['help']} [default: {default_text(one)}]"),
        "show_default": False,
        "rich_help_panel": one.metadata["group"].capitalize(),
    }
    if one.type == "bool":
        return Annotated[bool | None, typer.Option(f"{flag}/--no-{flag[2:]}", **about)]
    numbers = {int: (int,), float: (int, float), str: (str,)}[_kind(one)]

    def read(text: str) -> Any:
        value = yaml_files.read_text(one.name, text)
        if value is None:
            return _NONE
        if value not in _other_word(one) and not isinstance(value, numbers):
            number = "a whole number" if numbers == (int,) else "a number"
            raise typer.BadParameter(" or ".join((f"{text!r} is not {number}", *_other_word(one))))
        return value

    return Annotated[Any, typer.Option(flag, parser=read, metavar=value_text(one), **about)]


# ---- sources of a graph ------------------------------------------------------------------------


def _graph(kind: Any, help: str, *names: str) -> Any:
    return Annotated[kind | None, typer.Option(*names, help=help, rich_help_panel="Graph")]


_INPUTS: dict[str, Any] = {
    "dataset": _graph(str, "Name of a public dataset, see dhilgt datasets list.", "--data"),
    "edges": _graph(Path, "File of edges: text, Parquet, NPZ or MatrixMarket."),
    "features": _graph(str, "CSV or Parquet with a column of ids, .npy, .npz, or 'degree'."),
    "labels": _graph(Path, "CSV or Parquet of id and class; .npy, one per node."),
    "nodes": _graph(Path, "File of all ids, one per line: the order of the rows of .npy files."),
    "split": _graph(
        str,
        "CSV or Parquet of id and part: train, val or test. With --data: paper, official, or "
        "percentages like 60/20/20.",
    ),
    "id_column": _graph(str, "Column of ids in features, labels and split; found by its values."),
    "label_column": _graph(str, "Column of classes in --labels; found by its name."),
    "split_column": _graph(str, "Column of parts in --split; found by its name or values."),
    "feature_columns": _graph(
        str,
        "Columns of features: names and patterns like 'age,gene_*'; '!name' leaves one out, "
        "'zip:category' says what it is.",
    ),
    "directed": _graph(bool, "Keep the direction of edges, or not.", "--directed/--undirected"),
    "columns": _graph(str, "The two columns of edges, by name or position: 'from,to', '0,2'."),
    "source_column": _graph(str, "Column of the first ends of edges, by name or position."),
    "target_column": _graph(str, "Column of the other ends."),
    "separator": _graph(str, "Text between the columns of edges; detected by default."),
    "header": _graph(bool, "First line of edges is a header, or not.", "--header/--no-header"),
    "comment": _graph(
        str, "Skip lines that begin with this sign; '' for none. Default: # and % above rows."
    ),
    "ignore_weights": _graph(bool, "Ignore further columns of edges.", "--ignore-weights"),
    "root": _graph(Path, "Folder with datasets; else $DHILGT_DATA, else the user's cache."),
    "drop_isolated": _graph(
        bool, "Leave out nodes of the dataset without an edge.", "--drop-isolated"
    ),
    "config": Annotated[
        Path | None, typer.Option(help="YAML file of settings; options override it.")
    ],
    "recipe": Annotated[
        str | None,
        typer.Option(
            help="auto (the default of train, and for it alone) tries a few kinds of models and "
            "keeps the best; paper; best, from a long search on the dataset."
        ),
    ],
}
_COMMON_INPUTS = ("dataset", "edges", "features", "labels", "config", "recipe")


def with_inputs(run: Callable[..., None], *, without: tuple[str, ...] = ()) -> Callable[..., None]:
    """Return a command with the options of the graph and of files of settings.

    Args:
        run: Takes ``sources``, a dict of the options by the names of `Inputs`, ``config`` and
            ``recipe``; its first parameter stays the first.
        without: Options that mean nothing to this command, by the names of `Inputs`; a command
            without ``config`` or ``recipe`` does not take them.
    """
    options = {name: option for name, option in _INPUTS.items() if name not in without}
    files: list[str] = [name for name in ("config", "recipe") if name in options]

    def gather(values: dict[str, Any]) -> dict[str, Any]:
        arguments = {name: values.pop(name) for name in files}
        texts = {k: str(value) if isinstance(value, Path) else value for k, value in values.items()}
        return {"sources": texts, **arguments}

    replaced = ("sources", "config", "recipe")
    return _with_options(run, options, gather, replaced=replaced, common=_COMMON_INPUTS, place=1)


# ---- clusters ----------------------------------------------------------------------------------

ClusterOption = Annotated[
    str | None,
    typer.Option(
        "--cluster", metavar="ADDRESS", help="Work on a Ray cluster: auto, or its address."
    ),
]


# ---- `dhilgt bench` ----------------------------------------------------------------------------

Results = Annotated[
    list[Path] | None, typer.Argument(help="With --render-only: files of results to show.")
]
Data = Annotated[str, typer.Option(help="Datasets, like cora,chameleon.")]
Seeds = Annotated[str, typer.Option(help="Seeds, like 0-9 or 1,5,7.")]
Output = Annotated[
    Path, typer.Option("--output", "-o", help="File of results, a JSON line per cell.")
]
StudiedRecipes = Annotated[
    str,
    typer.Option(
        "--recipe",
        help="Settings of the whole model, some of paper (as written), short (a quarter of its "
        "epochs), auto (the default, which chooses), best, or files.",
    ),
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
Models = Annotated[
    str, typer.Option(help="all, or a list like dhilgt,gcn:tuned (system, or system:variant).")
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
