"""The few rows of scores in the README.

`python -m docs.make.readme_table` writes them anew from the lines of docs/results/default.jsonl and
docs/results/paper, between two comments of the README: every system as it comes, on splits that
nothing was chosen on.
"""

from collections.abc import Iterable
from pathlib import Path

from docs.make import markdown

from dhilgt.benchmark import Record, Results
from dhilgt.benchmark.experiments.default import DEFAULT, MLP, GraphResult, graph_results
from dhilgt.benchmark.experiments.paper import TIMES
from dhilgt.benchmark.running.recipe import OURS, PAPER
from dhilgt.benchmark.show.tables import NOTHING, RowKey, score_text

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "docs" / "results"
BEGIN = "<!-- scores: begin -->"
END = "<!-- scores: end -->"
GRAPHS = ("chameleon", "squirrel", "tolokers", "cora", "citeseer", "pubmed", "physics")
ROWS = {
    "DHIL-GT, default": DEFAULT,
    "DHIL-GT, paper's settings": RowKey(OURS, PAPER, PAPER, 0),
    "GCN": RowKey("gcn", PAPER, PAPER, 0),
    "GCN, tuned later": RowKey("gcn", "tuned", PAPER, 0),
    "GCN, tuned for the graph": RowKey("gcn", "tuned", "retuned", 0),
    "SGFormer": RowKey("sgformer", PAPER, PAPER, 0),
    "Polynormer": RowKey("polynormer", PAPER, PAPER, 0),
    "MLP": MLP,
}


def table(records: Iterable[Record]) -> str:
    """Return the rows as Markdown: means over all splits of a graph."""
    scored = [record for record in records if record.cell.recipe != TIMES]
    results = {one.data: one for one in graph_results(scored)}
    if not results:
        return "*Not measured yet.*\n"
    graphs = [results[name] for name in GRAPHS if name in results]
    rows = [
        ["test score, per cent", *(one.data for one in graphs)],
        ["---", *("---:" for _ in graphs)],
    ]
    for name, key in ROWS.items():
        scores = [_score(one, key) for one in graphs]
        if any(one != NOTHING for one in scores):
            rows.append([name, *scores])
    return markdown(rows)


def _score(result: GraphResult, key: RowKey) -> str:
    """Return the score over all splits of a graph; nothing for a row that lacks one."""
    found = result.scores(key)
    if not result.is_ranked(key) or not set(result.seeds) <= set(found):
        return NOTHING
    return score_text([found[seed] for seed in sorted(result.seeds)])


def read() -> list[Record]:
    """Return the records of all systems; of two of one cell the later counts."""
    files = [RESULTS / f"{name}.jsonl" for name in ("default", "default-baselines")]
    files += sorted((RESULTS / "paper").glob("*.jsonl"))
    joined: dict[str, Record] = {}
    for file in files:
        joined |= Results(file).by_key()
    return list(joined.values())


def readme_text(readme: str) -> str:
    """Return the README with the table as it should be."""
    before, rest = readme.split(BEGIN)
    after = rest.split(END)[1]
    return f"{before}{BEGIN}\n{table(read())}{END}{after}"


if __name__ == "__main__":
    page = ROOT / "README.md"
    page.write_text(readme_text(page.read_text(encoding="utf-8")), encoding="utf-8")
