"""Sentences with figures on the pages of results, computed from the lines of the runs.

`python -m docs.make.sentences` prints the sentences that a page does not have as its lines would
have them, and the numbers of a page that no sentence carries; it ends with 1 if there are any, and
the test suite does the same. When lines change, put the printed sentences in the place of the old
ones. Tables are made from lines by the commands that their pages name.
"""

import re
import sys
from collections.abc import Callable, Iterator

from docs.make.figures import ROOT, claims, growth, label_graphs, parts, protocol, scores, studies

Pages = dict[str, Callable[[], Iterator[str]]]

PAGES: Pages = {
    "docs/results/ablation.md": studies.ablations,
    "docs/results/claims.md": claims.claims,
    "docs/results/cluster.md": lambda: iter(()),
    "docs/results/default.md": protocol.as_it_comes,
    "docs/results/gpu.md": parts.gpu,
    "docs/results/grow.md": parts.grow,
    "docs/results/hierarchy.md": label_graphs.hierarchy,
    "docs/results/known.md": lambda: iter(()),
    "docs/results/labels.md": parts.labels,
    "docs/results/paper.md": protocol.comparison,
    "docs/results/parameters.md": studies.parameters,
    "docs/results/scaling.md": growth.scaling,
    "docs/results/scores.md": scores.scores,
    "docs/results/tokens.md": parts.tokens,
    "docs/results/train.md": lambda: iter(()),
}
"""Pages of which every number must be in a sentence, in code, or in `DEFINITIONS`."""

FURTHER: Pages = {"README.md": claims.readme, "docs/concepts/new-nodes.md": parts.new_nodes}
"""Pages with some sentences about lines."""

DEFINITIONS: dict[str, tuple[str, ...]] = {
    "docs/results/ablation.md": ("(t distribution, 95 %)", "the interval excludes 0"),
    "docs/results/claims.md": ("readout it loses 3 to 7 points",),
    "docs/results/default.md": (
        "(NeurIPS 2024)", "were chosen on seeds 0 to 9", "(t distribution, 95 %)",
        "| 95 % interval |", "14 runs side by side", "the last 3 or 4 seeds",
        "4,096 training nodes they had 2 and 4 rounds", "3 steps in each of 100 epochs",
        "6 in each of 50 now", "seeds 0 to 5 of", "100 x 100 cells", "10,000 nodes with short-cuts",
    ),
    "docs/results/grow.md": ("above 1 x",),
    "docs/results/hierarchy.md": ("at distance 1",),
    "docs/results/labels.md": ("Algorithm 1", "(average degree 10,"),
    "docs/results/paper.md": (
        "random 60/20/20 per cent", "on seeds 0 to 9 of seven of these graphs",
        "(an A30 of 24 GB and 32 Xeon cores;",
    ),
    "docs/results/parameters.md": (
        "2 to 64, half", "0 to 31, the", "-4 to 4", "s = 32", "s_in = 15", "r_in = r_out = -1",
        "r_out = -1", "r_in = -1", "both exponents -1",
    ),
    "docs/results/scaling.md": (
        "up to 2,000,000 nodes and 40,000,000 directed edges", "64 features", "4,096 nodes",
        "the best 64 of each row", "DHIL-GT on 2,000,000 nodes and 40,000,000 directed edges",
    ),
    "docs/results/scores.md": ("60/20/20 per cent",),
    "docs/results/train.md": ("(128 wide, four layers)",),
}  # fmt: skip
"""Numbers that say what was asked for, not what was measured."""


# ---- checking ----------------------------------------------------------------------------------


def plain(text: str) -> str:
    """Return text with every run of white space as one space."""
    return " ".join(text.split())


def _prose(text: str) -> str:
    return plain(re.sub(r"`[^`\n]*`|\]\([^)]*\)", "", text))


def missing(page: str) -> list[str]:
    """Return the sentences that a page should have and has not."""
    text = plain((ROOT / page).read_text(encoding="utf-8"))
    return [one for one in (PAGES | FURTHER)[page]() if plain(one) not in text]


def uncarried(page: str) -> list[str]:
    """Return the numbers of a page that neither a sentence nor a definition has, with their place.

    Blocks, code and the targets of links are left out, and tables that a program makes.
    """
    text = (ROOT / page).read_text(encoding="utf-8")
    text = re.sub(r"^```.*?^```$", "", text, flags=re.M | re.S)
    text = _prose(re.sub(r"^\d+\. ", "", text, flags=re.M))  # without the numbers of a list
    known = [_prose(one) for one in (*PAGES[page](), *DEFINITIONS.get(page, ()))]
    for one in sorted(known, key=len, reverse=True):  # one may be a part of another
        text = text.replace(one, "")
    return [
        text[max(0, m.start() - 40) : m.end() + 20] for m in re.finditer(r"(?<!\w)\d[\d.,]*", text)
    ]


def main() -> int:
    """Print what does not fit; return 1 if there is anything."""
    found = [f"{page}: should have: {one}" for page in PAGES | FURTHER for one in missing(page)]
    found += [f"{page}: no line carries: … {one} …" for page in PAGES for one in uncarried(page)]
    print("\n".join(found) or "every number is carried by a line")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
