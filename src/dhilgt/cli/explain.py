"""`dhilgt explain`: what a trained model saw of one node."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from dhilgt.classifier.explanation import check_ending
from dhilgt.cli import shell


class Color(StrEnum):
    """What the dots of a picture can be coloured by."""

    CLASS = "class"
    EFFECT = "effect"


def run(
    folder: Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a trained classifier.")],
    node: Annotated[str, typer.Argument(help="Id of the node.")],
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", help="Picture (.svg), page (.html) or values (.json) to write."
        ),
    ] = None,
    top: Annotated[
        int, typer.Option(min=0, help="Members to list, the most telling; 0 for all.")
    ] = 10,
    color: Annotated[Color, typer.Option(help="What dots are coloured by.")] = Color.CLASS,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Tell which members of a node's token mattered for its prediction, and draw them.

    Put -- before an id that begins with a minus sign.

    \b
    Example:
      dhilgt explain runs/mine alice
      dhilgt explain runs/mine alice -o alice.svg --top 5
    """  # noqa: D301 - \b keeps the example's lines apart
    if output is not None:
        check_ending(output)
    # PyTorch takes a second to import: only those who explain wait for it.
    from dhilgt.classifier.classifier import NodeClassifier
    from dhilgt.classifier.explanation import explain

    clf = NodeClassifier.load(folder, device="cpu")
    found = explain(clf, shell.typed_id(clf.graph_.ids, node, "this graph"))
    if output is not None:
        found.save(output, color.value)
    if as_json:
        shell.print_json(found.to_dict())
    else:
        typer.echo(found.table(top or None))
