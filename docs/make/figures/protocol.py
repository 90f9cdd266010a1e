"""What the protocol asks for: sentences of docs/results/paper.md and docs/results/default.md."""

from collections.abc import Iterator, Sequence

from docs.make.figures import records

from dhilgt.benchmark import Record
from dhilgt.benchmark.experiments import default, paper, protocol
from dhilgt.benchmark.running import search
from dhilgt.benchmark.running.grid import Cell
from dhilgt.benchmark.show import paired


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
    yield from _on_two_cores()


def _on_two_cores() -> Iterator[str]:
    """Yield what the default reaches without a GPU, beside the same splits with one."""
    with_gpu = {record.cell.key: record.test_score() for record in records("default.jsonl")}
    lines = records("default-cpu.jsonl")
    # A run that was stopped has more splits of some graphs: those that all graphs have count.
    splits = set.intersection(
        *({one.cell.seed for one in lines if one.cell.data == graph} for graph in _graphs(lines))
    )
    yield f"{len(splits)} of the ten splits were run without a GPU, too"
    for graph in _graphs(lines):
        here = [one for one in lines if one.cell.data == graph and one.cell.seed in splits]
        own = [100 * _number(one.test_score()) for one in here]
        gpu = [100 * _number(with_gpu[one.cell.key]) for one in here]
        gap = paired.difference(gpu, own)
        ends = " to ".join(f"{_number(end):+.2f}" for end in (gap.low, gap.high))
        yield (
            f"| {graph} | {sum(own) / len(own):.2f} | {sum(gpu) / len(gpu):.2f} "
            f"| {gap.mean:+.2f} | {ends} |"
        )


def _graphs(lines: Sequence[Record]) -> list[str]:
    return sorted({one.cell.data for one in lines}, key=default.GRAPHS.index)


def _number(value: float | None) -> float:
    assert value is not None, "whole runs of several splits"
    return value
