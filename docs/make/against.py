"""The best recipes against every system, split by split, from the records of the paper's tables.

`python -m docs.make.against` writes docs/results/against-table.md: for each system and graph the
mean of our score minus its score over the splits that both have, with the interval of that mean.
Ranks in a table say less, because the scores of all rows vary together with the splits.
"""

import argparse
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from docs.make import markdown

from dhilgt.benchmark import Record, Results
from dhilgt.benchmark.experiments.paper_tables import label
from dhilgt.benchmark.running.recipe import BEST
from dhilgt.benchmark.show.paired import (
    DROPS,
    GAINS,
    UNSEEN,
    BySeed,
    Difference,
    difference_texts,
    paired_difference,
)
from dhilgt.benchmark.show.tables import NOTHING, RowKey, in_known_order, row_key, sorted_keys

FILES = ("main.jsonl", "homophilous.jsonl", "best.jsonl")


def rows_of(records: Iterable[Record]) -> dict[RowKey, dict[str, BySeed]]:
    """Return the records of real graphs by row, dataset and seed."""
    rows: dict[RowKey, dict[str, BySeed]] = {}
    for record in records:
        cell = record.cell
        if cell.trial is None and record.standin_for is None:
            rows.setdefault(row_key(record), {}).setdefault(cell.data, {})[cell.seed] = record
    return rows


def entry(gap: Difference | None) -> str:
    """Return mean and interval in points, bold where the interval leaves 0 out."""
    mean, interval, verdict = difference_texts(gap)
    if gap is None or gap.low is None:
        return mean
    text = f"{mean} ({interval})"
    return text if verdict == UNSEEN else f"**{text}**"


def table(records: Iterable[Record]) -> str:
    """Return the differences as Markdown, with a summary under them."""
    rows = rows_of(records)
    (ours,) = (by_data for key, by_data in rows.items() if key.recipe == BEST)
    others = [key for key in sorted_keys(rows) if key.recipe != BEST]
    names = in_known_order(ours)
    head = ["", *(f"{name}, {len(ours[name])} splits" for name in names)]
    shown = [head, ["---", *["---:"] * len(names)]]
    verdicts: Counter[str] = Counter()
    for key in others:
        gaps = [paired_difference(rows[key].get(name, {}), ours[name]) for name in names]
        shown.append([label(key, searched=True), *map(entry, gaps)])
        verdicts.update(gap.verdict for gap in gaps if gap is not None and gap.low is not None)
    return markdown(shown) + (
        "\n"
        "- Points by which the best recipe is above the system: mean over splits, 95 % interval.\n"
        f"- Of {verdicts.total()} intervals {verdicts[GAINS] + verdicts[DROPS]} leave 0 out "
        f"(bold): {verdicts[GAINS]} for the best recipe, {verdicts[DROPS]} for the other system. "
        f"About {verdicts.total() / 20:.0f} would by chance where nothing differs.\n"
        f"- {NOTHING}: no split that both have.\n"
    )


def main() -> None:
    """Write the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--results", type=Path, default=Path("docs/results"))
    folder = parser.parse_args().results
    text = table(read(folder / "paper"))
    (folder / "against-table.md").write_text(text, encoding="utf-8")


def read(folder: Path) -> list[Record]:
    """Return the records of the tables in a folder."""
    return [record for name in FILES for record in Results(folder / name).lines()]


if __name__ == "__main__":
    main()
