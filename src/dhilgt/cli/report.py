"""`dhilgt report`: the page about a run, or one page with all results of a folder."""

from pathlib import Path
from typing import Annotated

import typer

from dhilgt.errors import ArtifactError
from dhilgt.report.run import folder as run_folders

_PAGE = "report.html"
_SITE = Path("site")


def run(
    folder: Annotated[
        Path, typer.Argument(help="A run, or a folder with files of results and pictures.")
    ],
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            help="Where to write: of a run a page, RUN/report.html by default; "
            "of results the folder for index.html, by default site.",
        ),
    ] = None,
    title: Annotated[str | None, typer.Option(help="Heading of the page.")] = None,
    quiet: bool = False,
) -> None:
    """Write the page about a run again, or one page with all results of a folder.

    Each page is one file that needs no other. That of a run is made from its report.json, or from
    its model and graph if that is lost or damaged.

    \b
    Example:
      dhilgt report runs/mine
      dhilgt report docs/results -o site
    """  # noqa: D301 - \b keeps the example's lines apart
    if run_folders.is_run(folder):
        page = _run_page(folder, output, title)
    else:
        from dhilgt.report.site import write_site

        page = write_site(folder, output or _SITE, title=title or "Results")
    if not quiet:
        typer.echo(page)


def _run_page(folder: Path, output: Path | None, title: str | None) -> Path:
    from dhilgt.report.run.rebuild import write_page_of_run

    page = folder / _PAGE if output is None else output
    if page.is_dir() or not page.suffix:
        page = page / _PAGE
    if page.suffix != ".html":
        raise ArtifactError(f"{page} is not a page; name a file that ends in .html, or a folder")
    return write_page_of_run(folder, page, title=title)
