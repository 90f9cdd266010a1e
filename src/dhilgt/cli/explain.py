"""`dhilgt explain`: which nodes a prediction rests on."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from dhilgt.classifier.explanation import check_ending
from dhilgt.cli import shell


class Color(StrEnum):
    """What the colours of a picture stand for."""

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
        int, typer.Option(min=0, help="Members to list, those of largest effect; 0 for all.")
    ] = 10,
    color: Annotated[Color, typer.Option(help="What the colours of dots show.")] = Color.CLASS,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    quiet: bool = False,
) -> None:
    """Show which members of a node's token mattered for its prediction, and draw them.

    Put -- before an id that begins with a minus sign.

    \b
    Example:
      dhilgt explain runs/mine alice
      dhilgt explain runs/mine alice -o alice.svg --top 5
    """  # noqa: D301 - \b keeps the example's lines apart
    if output is not None:
        check_ending(output)
    # PyTorch takes a second to import: no other command waits for it.
    from dhilgt.classifier.classifier import NodeClassifier
    from dhilgt.classifier.explaining import explain
    from dhilgt.report.run.tried import search_record

    clf = NodeClassifier.load(folder, device="cpu")
    explanation = explain(clf, shell.typed_id(clf.graph_.ids, node, "this graph"))
    if output is not None:
        explanation.save(output, color.value)
    record = search_record(clf)
    if as_json:
        chosen = {} if record is None else {"chosen": record["sentence"]}
        shell.print_json(explanation.to_dict() | chosen)
    elif output is None or not quiet:
        typer.echo(explanation.table(top or None))
        if record is not None:
            typer.echo(f"\nthe model: {record['sentence']}")
