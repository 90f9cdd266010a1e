"""`dhilgt export`: a trained model for ONNX Runtime or plain PyTorch."""

from pathlib import Path
from typing import Annotated

import typer

from dhilgt.cli import shell
from dhilgt.utils.memory import format_bytes


def run(
    folder: Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a trained classifier.")],
    output: Annotated[
        Path, typer.Option("--output", "-o", help="File to write: model.onnx or model.pt2.")
    ],
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    quiet: bool = False,
) -> None:
    """Write a trained model as a file for ONNX Runtime, or for PyTorch without dhilgt.

    A second file, model.onnx.json, holds classes, token settings and features.

    \b
    Example:
      dhilgt export runs/mine -o served/model.onnx
    """  # noqa: D301 - \b keeps the example's lines apart
    # PyTorch takes a second to import: no other command waits for it.
    from dhilgt.classifier.classifier import NodeClassifier
    from dhilgt.classifier.serving import export_classifier
    from dhilgt.model.export import check_ending

    check_ending(output)
    clf = NodeClassifier.load(folder, device="cpu")
    beside = export_classifier(clf, output)
    size = output.stat().st_size
    if as_json:
        shell.print_json({"model": str(output), "bytes": size, "serving": str(beside)})
    elif not quiet:
        shell.print_table([("model", f"{output} ({format_bytes(size)})"), ("serving", str(beside))])
