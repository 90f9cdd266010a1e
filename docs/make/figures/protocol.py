"""What the protocol asks for: sentences of docs/results/paper.md and docs/results/default.md."""

from collections.abc import Iterator

from docs.make.figures import records

from dhilgt.benchmark.experiments import default, paper, protocol
from dhilgt.benchmark.running import search
from dhilgt.benchmark.running.grid import Cell


def comparison() -> Iterator[str]:
    """Yield the sentences of the page of all systems."""
    yield f"{1 + len(paper.SYSTEMS)} systems are trained under the same rules"
    assert len(default.GRAPHS) == 12
    yield "on twelve graphs whose files are public"
    yield f"*Equal search*: {protocol.TRIALS} settings of every system on every graph"
    whole = search.Search(Cell("gcn", "cora", protocol.SEEDS[0], trials=protocol.TRIALS))
    first, *others = search.SEEDS
    yield (
        f"on the split of seed {first} and the best third of them on those of seeds "
        f"{' and '.join(map(str, others))} too: {whole.trainings} trainings for every system"
    )
    yield f"Scores are those of seeds {protocol.SEEDS[0]} to {protocol.SEEDS[-1]}, which no search"
    yield (
        f"Seed {protocol.SEEDS[0]} is the first of these ten, seed {protocol.SEEDS[-1]} the last."
    )


def as_it_comes() -> Iterator[str]:
    """Yield the sentences of the page of the default."""
    low, high = default.SEEDS.split("-")
    yield f"Ten random splits (60/20/20 %) per graph, seeds {low} to {high}."
    first = {record.cell.key: record.scores for record in records("default.jsonl")}
    again = records("default-again.jsonl")
    assert all(record.scores == first[record.cell.key] for record in again)
    yield f"{len(again)} of these runs were made a second time, and have the same scores"
