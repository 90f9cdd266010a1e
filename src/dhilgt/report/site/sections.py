"""The sections of the page: which files each one shows, how, and the command that makes them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from dhilgt.report.html import Markup
from dhilgt.report.site import tables
from dhilgt.report.site.source import Line, Source


@dataclass(frozen=True)
class Section:
    """A part of the page.

    Attributes:
        title: Its heading.
        pattern: Pattern of the names of its files, relative to the folder; `*` matches anything.
        show: Function from its files to HTML; see `tables.of_tables` and `tables.plain`.
        command: The command that makes the files again.
        about: A sentence that explains how to read it.
        pictures: Pattern of the names of its pictures.
        fits: Condition that every line of a file must fulfil; None for no condition.
        rest: Whether it takes only files that no earlier section took.

    Example:
        >>> one = Section("Speed", "*gpu.jsonl", tables.plain, "make bench-gpu")
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
        """Return whether a file belongs to the section."""
        if not fnmatchcase(source.name, self.pattern):
            return False
        return self.fits is None or (bool(source.lines) and all(map(self.fits, source.lines)))

    def draws(self, name: str) -> bool:
        """Return whether a picture belongs to the section."""
        return bool(self.pictures) and fnmatchcase(name, self.pictures)


SECTIONS: list[Section] = [
    Section(
        "All systems as they come",
        "*paper/*.jsonl",
        tables.of_tables(tables.as_they_come),
        "dhilgt bench paper --table defaults --jobs 8 --resume -o paper/defaults.jsonl",
        "Every system with the settings of its own paper, DHIL-GT with its default.",
        fits=tables.is_cell,
    ),
    Section(
        "All systems after an equal search",
        "*paper/*.jsonl",
        tables.of_tables(tables.equal_search),
        "dhilgt bench paper --table search --jobs 8 --resume -o paper/search.jsonl",
        "As many settings tried for every system, chosen on other splits than those shown.",
        fits=tables.is_cell,
    ),
    Section(
        "Time and memory beside the published figures",
        "*paper/*.jsonl",
        tables.of_tables(tables.times),
        "dhilgt bench paper --table times -o paper/times.jsonl",
        "Short trainings with each paper's settings, and the speed of DHIL-GT.",
        fits=tables.is_cell,
    ),
    Section(
        "Ablation",
        "*ablation*.jsonl",
        tables.of_tables(tables.ablation),
        "dhilgt bench ablation --data citeseer,chameleon,cora,squirrel --seeds 0-9 -o FILE",
        "DHIL-GT without some of its parts, compared split by split.",
        "*ablation*",
        fits=tables.is_cell,
    ),
    Section(
        "Parameter study",
        "*study*.jsonl",
        tables.of_tables(tables.study),
        "dhilgt bench study --data chameleon,citeseer --seeds 0-4 --grid -o FILE",
        "Token rows of other sizes, fractions and exponents, compared split by split.",
        "*study*",
        fits=tables.is_cell,
    ),
    Section(
        "Scaling",
        "*scaling*.jsonl",
        tables.file_by_file(tables.scaling),
        "dhilgt bench scaling -o FILE",
        "Time and memory against nodes and edges, with the exponents of their growth.",
        "*scaling*",
        fits=tables.is_cell,
    ),
    Section(
        "Raw graph and label graph",
        "*hierarchy.jsonl",
        tables.plain,
        "python -m docs.make.hierarchy --measure",
        "What the pictures of the label graph suggest, as numbers.",
        "*hierarchy-*",
    ),
    Section(
        "Known figures of the baselines",
        "*known.jsonl",
        tables.plain,
        "python -m docs.make.known --results FOLDER",
        "Each baseline under the protocol of its own paper.",
    ),
    Section(
        "Scores on public graphs",
        "*scores/*.jsonl",
        tables.scores,
        "python -m docs.make.search --data NAME --space none --jobs 14",
        "The paper's recipe, and the best result of a search for settings.",
    ),
    Section(
        "Training and inference on a GPU",
        "*gpu.jsonl",
        tables.plain,
        "make bench-gpu RESULTS=FOLDER",
        "The fused kernels beside plain PyTorch.",
        "*gpu-*",
    ),
    Section(
        "Hub labels",
        "*labels.jsonl",
        tables.plain,
        "make bench-labels RESULTS=FOLDER",
        "Time, memory and size beside Algorithm 1 and NetworKit.",
        "*labels-*",
    ),
    Section(
        "Tokens",
        "*tokens.jsonl",
        tables.plain,
        "make bench-tokens RESULTS=FOLDER",
        "Drawing rows and their distances.",
        "*tokens-*",
    ),
    Section("Training on the CPU", "*train.jsonl", tables.plain, "make bench-train RESULTS=FOLDER"),
    Section("New nodes", "*grow.jsonl", tables.plain, "make bench-grow RESULTS=FOLDER"),
    Section(
        "Comparisons",
        "*.jsonl",
        tables.of_tables(tables.comparison),
        "dhilgt bench table -o FILE",
        "Files of the comparison that belong to no table above.",
        fits=tables.is_cell,
        rest=True,
    ),
]
"""In the order of the page. A new experiment adds one entry above "Comparisons"."""
OTHERS = Section(
    "Other results", "*.jsonl", tables.plain, "", "Files of no known experiment, as they are.",
    pictures="*", rest=True,
)  # fmt: skip
