"""What the protocol asks for: sentences of docs/results/paper.md and docs/results/default.md."""

from collections import Counter
from collections.abc import Iterator, Sequence

from docs.make.figures import lines, records

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
    withdrawn = lines("withdrawn.jsonl")
    assert {line["system"] for line in withdrawn} == {"polynormer"}
    yield f"{len(withdrawn)} runs of Polynormer are withdrawn"


def as_it_comes() -> Iterator[str]:
    """Yield the sentences of the page of the default."""
    low, high = default.SEEDS.split("-")
    yield f"Ten random splits (60/20/20 %) per graph, seeds {low} to {high}."
    now, before = records("default.jsonl"), records("default-before.jsonl")
    on_gpu = [record for record in now if record.costs.inference_device != "cpu"]
    splits = Counter(record.cell.data for record in on_gpu)
    assert set(splits) == set(default.GRAPHS)
    yield f"{min(splits.values())} or {max(splits.values())} splits of every graph on an H200"
    first = {record.cell.key: record.scores for record in before}
    again = records("default-again.jsonl")
    assert all(record.scores == first[record.cell.key] for record in again)
    yield f"{len(again)} of its runs were made a second time, and have the same scores"
    yield from _beside(on_gpu, before)
    yield _as_it_is_now(now)
    cpu = records("default-cpu.jsonl")
    # A run that was stopped has more splits of some graphs: those that all graphs have count.
    shared = set.intersection(
        *(
            {one.cell.seed for one in cpu if one.cell.data == graph}
            for graph in {one.cell.data for one in cpu}
        )
    )
    yield f"{len(shared)} of the ten splits were run without a GPU, too"
    yield from _beside([one for one in cpu if one.cell.seed in shared], before)
    yield _times_alone()


def _times_alone() -> str:
    """Return how long the default takes with nothing beside it on the machine with a GPU."""
    runs = [
        line
        for line in lines("default-time.jsonl")
        if line["system"] == "default" and line["machine"]["cores"] == 16
    ]
    assert {run["data"] for run in runs} == set(default.GRAPHS)
    train, both = ([run[name] for run in runs] for name in ("train_seconds", "seconds"))
    return (
        f"The machine of {runs[0]['machine']['cores']} cores has an H200. Nothing else ran on it: "
        f"on twelve graphs `dhilgt train` took {min(train):.0f} to {max(train):.0f} s with "
        f"compilation and report, and {min(both):.0f} to {max(both):.0f} s together with"
    )


def _as_it_is_now(table: Sequence[Record]) -> str:
    """Return what the default of now has, minus that of the table, over all pairs of runs."""
    known = {record.cell.key: record.test_score() for record in table}
    runs = records("default-now.jsonl")
    assert {record.cell.data for record in runs} == set(default.GRAPHS)
    assert {record.costs.inference_device for record in runs} == {"cpu"}
    gap = paired.difference(
        [100 * _number(known[record.cell.key]) for record in runs],
        [100 * _number(record.test_score()) for record in runs],
    )
    seeds = sorted({record.cell.seed for record in runs})
    assert len(runs) == len(seeds) * len(default.GRAPHS)
    return (
        f"Seeds {' and '.join(map(str, seeds))} of all graphs were run with the default as it is "
        f"now, too, without a GPU: {len(runs)} runs. They differ from those of the table by "
        f"{gap.mean:+.2f} points on average (95 % interval {_number(gap.low):+.2f} to "
        f"{_number(gap.high):+.2f})"
    )


def _beside(lines: Sequence[Record], others: Sequence[Record]) -> Iterator[str]:
    """Yield the mean scores of two kinds of runs on the splits that both have, by graph."""
    kept = {record.cell.key: record.test_score() for record in others}
    both = [record for record in lines if record.cell.key in kept]
    for graph in sorted({record.cell.data for record in both}, key=default.GRAPHS.index):
        shared = [record for record in both if record.cell.data == graph]
        one = [100 * _number(record.test_score()) for record in shared]
        other = [100 * _number(kept[record.cell.key]) for record in shared]
        gap = paired.difference(other, one)
        ends = " to ".join(f"{_number(end):+.2f}" for end in (gap.low, gap.high))
        yield (
            f"| {graph} | {len(shared)} | {sum(one) / len(one):.2f} "
            f"| {sum(other) / len(other):.2f} | {gap.mean:+.2f} | {ends} |"
        )


def _number(value: float | None) -> float:
    assert value is not None, "whole runs of several splits"
    return value
