"""Seven graphs beside their label graphs: lines, table and pictures of docs/results/hierarchy.md.

`python -m docs.make.hierarchy` writes the table from the JSON lines. `--measure` first measures the
lines and draws the pictures, from the datasets' files (see `dhilgt datasets`).
"""

import argparse
from pathlib import Path
from typing import Any

from docs.make import lines_of, markdown

from dhilgt import HubLabels, datasets
from dhilgt.benchmark.lines import script_command, signed_line
from dhilgt.hierarchy import hierarchy_numbers, plot_hierarchy

GRAPHS = ("chameleon", "squirrel", "tolokers", "cora", "citeseer", "pubmed", "physics")
DRAWN = ("chameleon", "squirrel", "cora", "citeseer")
_FAR = 4  # this distance and larger ones are one column
HEAD = (
    "graph", "nodes", "edges", "degree", "homophily", "chance", "modularity", "clustering",
)  # fmt: skip


def measured(name: str) -> dict[str, Any]:
    """Return the line of a dataset, with hubs in the order of the paper's recipe."""
    graph = datasets.load(name, split=None)
    labels = HubLabels.build(graph, order="degree-id", progress=False)
    return hierarchy_numbers(graph, labels=labels, name=name).to_dict()


def table(lines: list[dict[str, Any]]) -> str:
    """Return both tables as Markdown: the graphs, and the label edges by distance."""
    rows = [HEAD, ("---", *("---:" for _ in HEAD[1:]))]
    for line in lines:
        for kind in ("raw", "label"):
            numbers = line[kind]
            names = ("homophily", "chance", "modularity", "clustering")
            rows.append(
                (
                    line["name"] if kind == "raw" else "… label graph",
                    f"{line['nodes']:,}" if kind == "raw" else "",
                    f"{numbers['edges']:,}",
                    f"{numbers['average_degree']:.1f}",
                    *(f"{numbers[name]:.3f}" for name in names),
                )
            )
    far = f"{_FAR} and more"
    steps = [*(str(one) for one in range(1, _FAR)), far]
    head = ("label edges of", *(f"distance {one}" for one in steps), "edges kept")
    second = [head, ("---", *("---:" for _ in head[1:]))]
    for line in lines:
        cells = [_cell(line["distances"], one) for one in range(1, _FAR + 1)]
        second.append((line["name"], *cells, f"{100 * line['kept']:.1f} %"))
    return markdown(rows) + "\n" + markdown(second)


def _cell(distances: list[dict[str, Any]], distance: int) -> str:
    """Return the percentage of label edges at a distance, and their homophily."""
    rows = [row for row in distances if min(row["distance"], _FAR) == distance]
    count = sum(row["edges"] for row in rows)
    fraction = sum(row["share"] for row in rows)
    # Weighted by all edges of a distance, though a few lack a class at an end.
    homophily = sum(row["edges"] * row["homophily"] for row in rows) / max(count, 1)
    return f"{100 * fraction:.1f} % ({homophily:.3f})"


def main() -> None:
    """Write the table, and before it the lines and pictures if asked to."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--results", type=Path, default=Path("docs/results"))
    parser.add_argument("--measure", action="store_true", help="make lines and pictures first")
    options = parser.parse_args()
    results, file = options.results, options.results / "hierarchy.jsonl"
    if options.measure:
        lines = [{**measured(name), "command": script_command()} for name in GRAPHS]
        file.write_bytes(b"".join(signed_line(line) + b"\n" for line in lines))
        for name in DRAWN:
            graph = datasets.load(name, split=None)
            plot_hierarchy(graph, results / f"hierarchy-{name}.png", title=name)
    (results / "hierarchy-table.md").write_text(table(lines_of(file)), encoding="utf-8")


if __name__ == "__main__":
    main()
