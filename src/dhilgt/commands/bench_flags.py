"""Options that the commands of `dhilgt bench` share."""

from pathlib import Path
from typing import Annotated

import typer

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
