"""`dhilgt report`: one page with all results of a folder."""

from pathlib import Path
from typing import Annotated

import typer


def run(
    folder: Annotated[Path, typer.Argument(help="Folder with files of results and pictures.")],
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Folder to write index.html to.")
    ] = Path("site"),
    title: Annotated[str, typer.Option(help="Heading of the page.")] = "Results",
) -> None:
    """Write one page with all tables and figures of a folder of results; it needs no other file.

    \b
    Example:
      dhilgt report docs/results -o site
    """  # noqa: D301 - \b keeps the example's lines apart
    from dhilgt.report.site import write_site

    typer.echo(write_site(folder, output, title=title))
