"""The sections of the page: which files each one shows, how, and the command that makes them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from dhilgt.benchmark import growth
from dhilgt.report.markup import Markup
from dhilgt.report_site import shown
from dhilgt.report_site.source import Line, Source


@dataclass(frozen=True)
class Section:
    """A part of the page.

    Attributes:
        title: Its heading.
        pattern: Names of its files of JSON lines, below the folder; `*` stands for anything.
        show: From its files to HTML; see `shown.of_tables` and `shown.plain`.
        command: What makes the files again.
        about: A sentence that says how to read it.
        pictures: Names of its pictures.
        fits: What the first line of a file must be like; None for anything.
        rest: Whether it takes only files that no section before it took.

    Example:
        >>> one = Section("Speed", "*gpu.jsonl", shown.plain, "make bench-gpu")
        >>> one.takes(Source("gpu.jsonl", [])), one.takes(Source("labels.jsonl", []))
        (True, False)
    """

    title: str
    pattern: str
    show: Callable[[Sequence[Source]], Markup]
    command: str
    about: str = ""
    pictures: str = ""
    fits: Callable[[Line], bool] | None = None
    rest: bool = False

    def takes(self, source: Source) -> bool:
        """Says whether a file is one of its own."""
        if not fnmatchcase(source.name, self.pattern):
            return False
        return self.fits is None or (bool(source.lines) and all(map(self.fits, source.lines)))

    def draws(self, name: str) -> bool:
        """Says whether a picture is one of its own."""
        return bool(self.pictures) and fnmatchcase(name, self.pictures)


_PAPER = "dhilgt bench paper --table {} --tune 20 --budget 120 --jobs 8 -o paper/{}.jsonl"
SECTIONS: list[Section] = [
    Section(
        "Main table of the paper",
        "*paper/*.jsonl",
        shown.of_tables(shown.paper_main),
        _PAPER.format("main", "main"),
        "Heterophilous graphs: every system beside its published figures.",
        fits=shown.is_cell,
    ),
    Section(
        "Homophilous graphs of the paper",
        "*paper/*.jsonl",
        shown.of_tables(shown.paper_homophilous),
        _PAPER.format("homophilous", "homophilous"),
        "The second table: every system beside its published figures.",
        fits=shown.is_cell,
    ),
    Section(
        "Speed beside the published figures",
        "*paper/*.jsonl",
        shown.of_tables(shown.speed),
        "dhilgt bench paper --table speed --part times -o paper/times.jsonl",
        "DHIL-GT with the paper's settings, from files to predictions.",
        fits=shown.is_cell,
    ),
    Section(
        "Ablation",
        "*ablation*.jsonl",
        shown.of_tables(shown.ablation),
        "dhilgt bench ablation --data citeseer,chameleon,cora,squirrel --seeds 0-9 -o FILE",
        "DHIL-GT without some of its parts, compared split by split.",
        "*ablation*",
        fits=shown.is_cell,
    ),
    Section(
        "Parameter study",
        "*study*.jsonl",
        shown.of_tables(shown.study),
        "dhilgt bench study --data chameleon,citeseer --seeds 0-4 --grid -o FILE",
        "Token rows of other sizes, shares and exponents, compared split by split.",
        "*study*",
        fits=shown.is_cell,
    ),
    Section(
        "Scaling",
        "*scaling*.jsonl",
        shown.file_by_file(growth.tables),
        "dhilgt bench scaling -o FILE",
        "Time and memory against nodes and edges, with the powers they grow by.",
        "*scaling*",
        fits=shown.is_cell,
    ),
    Section(
        "Raw graph and label graph",
        "*hierarchy.jsonl",
        shown.plain,
        "python -m bench.hierarchy --measure",
        "What the pictures of the label graph suggest, as numbers.",
        "*hierarchy-*",
    ),
    Section(
        "Known figures of the baselines",
        "*known.jsonl",
        shown.plain,
        "python -m bench.known --results FOLDER",
        "Each baseline under the protocol of its own paper.",
    ),
    Section(
        "Scores on public graphs",
        "*scores/*.jsonl",
        shown.scores,
        "python -m bench.search --data NAME --space none --jobs 14",
        "The paper's recipe as it stands, and the best that a search has found.",
    ),
    Section(
        "Training and inference on a GPU",
        "*gpu.jsonl",
        shown.plain,
        "make bench-gpu RESULTS=FOLDER",
        "The fused kernels beside plain PyTorch.",
        "*gpu-*",
    ),
    Section(
        "Hub labels",
        "*labels.jsonl",
        shown.plain,
        "make bench-labels RESULTS=FOLDER",
        "Time, memory and size beside Algorithm 1 and NetworKit.",
        "*labels-*",
    ),
    Section(
        "Tokens",
        "*tokens.jsonl",
        shown.plain,
        "make bench-tokens RESULTS=FOLDER",
        "Drawing rows and their distances.",
        "*tokens-*",
    ),
    Section("Training on the CPU", "*train.jsonl", shown.plain, "make bench-train RESULTS=FOLDER"),
    Section("New nodes", "*grow.jsonl", shown.plain, "make bench-grow RESULTS=FOLDER"),
    Section(
        "Comparisons",
        "*.jsonl",
        shown.of_tables(shown.comparison),
        "dhilgt bench table -o FILE",
        "Files of the comparison that belong to no table above.",
        fits=shown.is_cell,
        rest=True,
    ),
]
"""In the order of the page. A new experiment adds one entry above "Comparisons"."""
OTHERS = Section(
    "Other results", "*.jsonl", shown.plain, "", "Files of no known experiment, as they are.",
    pictures="*", rest=True,
)  # fmt: skip
