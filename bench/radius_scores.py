"""What a radius of the labels costs in score: the default with full labels and with bounded ones.

`python -m bench.radius_scores --jobs 8` trains on the splits of seeds 10 to 14 and prints the
paired differences; `--render FILE...` prints them from files of results.
"""

import argparse
from pathlib import Path

from dhilgt.benchmark import Cell, Limits, Record, Results, run
from dhilgt.benchmark.experiments.studied import studied_recipes, whole_cells
from dhilgt.benchmark.lines import script_command
from dhilgt.benchmark.show.paired import difference_texts, paired_difference, scores

DATA = ("chameleon", "cora", "citeseer", "reed98")
SEEDS = tuple(range(10, 15))
RADII = (None, 3, 2, 1)


def radius_cells() -> list[Cell]:
    """Return a training for each radius, graph and split; None is the default as it comes."""
    whole = whole_cells(studied_recipes("auto"), DATA, SEEDS)
    return [
        cell if radius is None else cell.varied(f"radius={radius}", {"radius": radius})
        for radius in RADII
        for cell in whole
    ]


def table(records: list[Record]) -> str:
    """Return the scores by radius, with the differences to full labels, as Markdown."""
    by_cell = {record.cell.key: record for record in records}
    lines = [
        "| graph | radius | test score | minus full labels | 95 % interval |",
        "|---|---:|---:|---:|---:|",
    ]
    found: dict[tuple[str, str], dict[int, Record]] = {}
    for cell in radius_cells():
        if cell.key in by_cell:
            name = cell.recipe.partition("radius=")[2] or "full"
            found.setdefault((cell.data, name), {})[cell.seed] = by_cell[cell.key]
    for (data, name), by_seed in sorted(found.items(), key=lambda item: DATA.index(item[0][0])):
        full = found.get((data, "full"), {})
        gap = None if name == "full" else paired_difference(full, by_seed)
        mean, interval, _ = difference_texts(gap)
        known = list(scores(by_seed).values())
        if len(known) < len(full):
            continue  # not all splits are run
        score = f"{100 * sum(known) / len(known):.2f} ({len(known)} splits)"
        lines.append(f"| {data} | {name} | {score} | {mean} | {interval} |")
    return "\n".join(lines)


def main() -> None:
    """Train what is not in the file yet, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--total", type=float, default=None, help="seconds of the whole run")
    parser.add_argument("-o", "--output", type=Path, default=Path("radius-scores.jsonl"))
    parser.add_argument("--render", type=Path, nargs="*", help="files of results to show")
    options = parser.parse_args()
    if options.render is None:
        limits = Limits(total=options.total, jobs=options.jobs)
        with Results(options.output).open(resume=True) as results:
            run(radius_cells(), results, limits, command=script_command())
    files = options.render or [options.output]
    print(table([record for path in files for record in Results(path).lines()]))


if __name__ == "__main__":
    main()
