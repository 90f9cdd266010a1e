"""The table of candidates in docs/concepts/default.md.

`python -m docs.make.portfolio_table` writes it anew from the portfolio of the default, between two
comments on the page.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dhilgt.classifier.auto.portfolio import GraphFacts, portfolio
from dhilgt.cli.inspect_runs import value_text

PAGE = Path(__file__).parents[1] / "concepts" / "default.md"
BEGIN = "<!-- candidates: begin -->"
END = "<!-- candidates: end -->"
# A graph of middle size with few features, and a GPU: all candidates are tried.
FACTS = GraphFacts(10_000, 100_000, 50, 6_000, 2_000, 10, "cuda")


def table() -> str:
    """Return a line per candidate, and below them the settings that all share."""
    candidates = portfolio(FACTS)
    shared = {
        name
        for name, value in candidates[0].settings.items()
        if all(one.settings.get(name) == value for one in candidates)
    }
    lines = ["| candidate | learns from | settings of its own |", "|---|---|---|"]
    for one in candidates:
        own = {name: value for name, value in one.settings.items() if name not in shared}
        lines.append(f"| {one.name} | {one.about} | {_listed(own)} |")
    common = {name: candidates[0].settings[name] for name in sorted(shared)}
    lines += ["", f"Shared by all on a graph of {FACTS.num_nodes:,} nodes: {_listed(common)}."]
    return "\n".join(lines)


def _listed(settings: Mapping[str, Any]) -> str:
    return ", ".join(f"`{name}={value_text(value)}`" for name, value in settings.items())


def page_text(page: str) -> str:
    """Return the page with the table as it should be."""
    before, rest = page.split(BEGIN)
    after = rest.split(END)[1]
    return f"{before}{BEGIN}\n{table()}\n{END}{after}"


if __name__ == "__main__":
    PAGE.write_text(page_text(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
