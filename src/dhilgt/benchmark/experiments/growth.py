"""Curves and fitted powers of time and memory against the size of the graph."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from dhilgt.benchmark.experiments.scaling import NONE, QUANTITIES, Claim, claim, in_paper
from dhilgt.benchmark.record import Record
from dhilgt.benchmark.running.data import PREFIX, Generated
from dhilgt.benchmark.show.notes import machines
from dhilgt.benchmark.show.tables import (
    GB,
    NOT_RUN,
    NOTHING,
    WORDS,
    Row,
    RowKey,
    Table,
    TableEntry,
    label_of,
    row_key,
    seconds_text,
    sorted_keys,
)
from dhilgt.errors import ArtifactError

_FEWEST = 3  # points of a fit with an error


@dataclass(frozen=True)
class Power:
    """The fit y = a x^exponent.

    Attributes:
        exponent: Of the size.
        error: Its standard error; None with only two points.
        points: Number of points.
    """

    exponent: float
    error: float | None
    points: int

    def __str__(self) -> str:
        error = "" if self.error is None else f" ± {self.error:.2f}"
        return f"{round(self.exponent, 2) + 0.0:.2f}{error}"  # no minus before a zero


def fit(sizes: Sequence[float], values: Sequence[float]) -> Power | None:
    """Fit a power by least squares on logarithms, over the larger half of the sizes.

    At small sizes fixed costs dominate. At least three points are used, if there are as many.

    Args:
        sizes: Above 0.
        values: Above 0, one for each size.

    Returns:
        The fit; None if there are fewer than two different sizes.

    Example:
        >>> str(fit([1, 10, 100, 1000], [9, 3.0, 30.0, 300.0]))
        '1.00 ± 0.00'
    """
    pairs = sorted(zip(sizes, values, strict=True))
    pairs = pairs[-max(_FEWEST, math.ceil(len(pairs) / 2)) :]
    if len({size for size, _ in pairs}) < 2:
        return None
    x, y = np.log(np.array(pairs, dtype=np.float64)).T
    x = x - x.mean()
    exponent = float(x @ y / (x @ x))
    if len(pairs) < _FEWEST:
        return Power(exponent, None, len(pairs))
    residual = y - y.mean() - exponent * x
    error = math.sqrt(float(residual @ residual) / (len(pairs) - 2) / float(x @ x))
    return Power(exponent, error, len(pairs))


TITLES = {
    "precompute": "Precomputation, s",
    "epoch": "Epoch, s",
    "inference": "Inference, s",
    "host": "Host memory, GB",
    "gpu": "GPU memory in training, GB",
}
BEYOND = "beyond"
_LARGEST_ERROR = 0.25  # a less certain power is not judged
_SLACK = 0.15  # caches, launches and other fixed costs bend a straight line by about this much
# Smaller figures measure the clock or the allocator, not the system.
_LEAST = {"precompute": 1e-3, "epoch": 1e-3, "inference": 1e-3, "host": 20e6, "gpu": 20e6}


def figure(record: Record, quantity: str) -> float | None:
    """Return a figure of a cell that ended well: seconds, or bytes; None if it has none.

    An epoch is the mean of all but the first. Host memory is what the process took beyond what it
    held before it loaded the graph, GPU memory what an epoch of training took.

    Args:
        record: Of a results file.
        quantity: One of `QUANTITIES`.

    Example:
        >>> from dhilgt.benchmark.record import Costs
        >>> from dhilgt.benchmark.running.grid import Cell
        >>> costs = Costs(first_epoch_seconds=5.0, stages={"epoch": {"seconds": 9.0, "times": 3}})
        >>> figure(Record(Cell("gcn", "cora", 0), "", status="ok", costs=costs), "epoch")
        2.0
    """
    if not record.ok:
        return None
    costs = record.costs
    epoch = (costs.stages or {}).get("epoch", {})
    first = costs.first_epoch_seconds
    if quantity == "epoch":
        if first is None or epoch.get("times", 0) < 2:
            return _positive(first)
        return _positive((epoch["seconds"] - first) / (epoch["times"] - 1))
    if quantity == "host":
        peak, before = costs.host_peak_bytes, costs.host_before_bytes
        return None if peak is None or before is None else _positive(peak - before)
    if quantity == "gpu":
        return _positive(epoch.get("device_peak_bytes"))
    return _positive(costs.seconds(quantity))


def _positive(value: float | None) -> float | None:
    return None if value is None or value <= 0 else float(value)


@dataclass(frozen=True)
class Series:
    """The records of one series by system, the smaller graphs first.

    Attributes:
        over: "nodes" or "edges": what grows.
        fixed: The other number: the degree, or the nodes.
        sizes: All values of what grows.
        records: By system, then by size.
    """

    over: str
    fixed: int
    sizes: tuple[int, ...]
    records: dict[RowKey, dict[int, Record]]

    def points(self, key: RowKey, quantity: str) -> list[tuple[int, float]]:
        """Return size and figure wherever a system has one."""
        by_size = self.records.get(key, {})
        pairs = ((size, figure(by_size[size], quantity)) for size in sorted(by_size))
        return [(size, value) for size, value in pairs if value is not None]

    def power(self, key: RowKey, quantity: str, less: float = 0.0) -> Power | None:
        """Return the power that a figure grows with.

        Args:
            key: The system.
            quantity: One of `QUANTITIES`.
            less: The fixed cost of any graph, subtracted first.
        """
        points = [(size, value - less) for size, value in self.points(key, quantity)]
        points = [pair for pair in points if pair[1] >= _LEAST[quantity]]
        return fit([size for size, _ in points], [value for _, value in points])


def series_of(records: Iterable[Record]) -> tuple[Series, Series]:
    """Return the series over nodes and that over edges.

    The degree of the first is the one with the most different numbers of nodes, the nodes of the
    second those with the most different degrees.

    Raises:
        ArtifactError: If no record is of a generated graph.
    """
    pairs = [
        (Generated.from_name(record.cell.data), record)
        for record in records
        if record.cell.data.startswith(PREFIX) and record.cell.trial is None
    ]
    if not pairs:
        raise ArtifactError("there are no results of generated graphs; run dhilgt bench scaling")
    graphs = {graph for graph, _ in pairs}
    degree = _most(Counter(graph.degree for graph in graphs))
    nodes = _most(Counter(graph.nodes for graph in graphs))
    return (
        _series("nodes", degree, [pair for pair in pairs if pair[0].degree == degree]),
        _series("edges", nodes, [pair for pair in pairs if pair[0].nodes == nodes]),
    )


def _most(counts: Counter[int]) -> int:
    return max(counts, key=lambda value: (counts[value], value))


def _series(over: str, fixed: int, pairs: Sequence[tuple[Generated, Record]]) -> Series:
    records: dict[RowKey, dict[int, Record]] = {}
    for graph, record in pairs:
        records.setdefault(row_key(record), {})[getattr(graph, over)] = record
    sizes = sorted({size for by_size in records.values() for size in by_size})
    return Series(over, fixed, tuple(sizes), records)


# ---- tables ------------------------------------------------------------------------------------


def tables(records: Sequence[Record]) -> list[Table]:
    """Return a table per quantity: figures by number of nodes, and powers beside what is claimed.

    Args:
        records: Of a results file.
    """
    by_nodes, by_edges = series_of(records)
    keys = sorted_keys(sorted({*by_nodes.records, *by_edges.records}))
    shown = [
        quantity
        for quantity in QUANTITIES
        if any(by_nodes.points(key, quantity) for key in by_nodes.records)
    ]
    made = [_table(quantity, keys, by_nodes, by_edges) for quantity in shown]
    if made:
        made[-1] = replace(made[-1], notes=tuple(_notes(records, by_nodes, by_edges)))
    return made


def _table(quantity: str, keys: Sequence[RowKey], by_nodes: Series, by_edges: Series) -> Table:
    rows = []
    for key in keys:
        figures = tuple(TableEntry(_text(by_nodes, key, size, quantity)) for size in by_nodes.sizes)
        less = _fixed_cost(by_nodes, key, quantity)
        of_nodes = by_nodes.power(key, quantity, less)
        of_edges = by_edges.power(key, quantity, less)
        claimed = claim(key.system, quantity)
        stated = NOTHING if claimed is None else claimed.text
        if claimed is not None and not in_paper(key.system):
            stated += " †"
        growth = (
            stated,
            NOTHING if of_nodes is None else str(of_nodes),
            NOTHING if of_edges is None else str(of_edges),
            verdict(claimed, of_nodes, of_edges),
        )
        rows.append(Row(label_of(key), (figures, tuple(map(TableEntry, growth)))))
    return Table(
        (f"{TITLES[quantity]}, n =", "Growth"),
        (
            tuple(f"{size:,}" for size in by_nodes.sizes),
            ("paper", "power of n", "power of m", "verdict"),
        ),
        tuple(rows),
    )


def _fixed_cost(by_nodes: Series, key: RowKey, quantity: str) -> float:
    """Return the host memory of the smallest graph, nearly all of which does not depend on size."""
    if quantity != "host":
        return 0.0
    points = by_nodes.points(key, quantity)
    return points[0][1] if points and points[0][0] == by_nodes.sizes[0] else 0.0


def _text(series: Series, key: RowKey, size: int, quantity: str) -> str:
    by_size = series.records.get(key, {})
    record = by_size.get(size)
    if record is None:
        stopped = any(at < size and not by_size[at].ok for at in by_size)
        return BEYOND if stopped else NOT_RUN
    if not record.ok:
        return WORDS[record.status]
    value = figure(record, quantity)
    if value is None:
        return NOTHING
    return f"{value / GB:.2f}" if quantity in ("host", "gpu") else seconds_text(value)


def verdict(claimed: Claim | None, of_nodes: Power | None, of_edges: Power | None) -> str:
    """Return what measured powers make of a claim.

    A power counts as equal within 0.15 and two standard errors. A claim is a bound: growing more
    slowly does not contradict it.

    Args:
        claimed: The claim, if there is one.
        of_nodes: Measured power of n.
        of_edges: Measured power of m.

    Example:
        >>> bound = Claim("n F", 1, 0)
        >>> verdict(bound, Power(1.05, 0.02, 4), Power(0.1, 0.05, 3))
        'confirms'
        >>> verdict(bound, Power(1.5, 0.02, 4), Power(0.1, 0.05, 3))
        'corrects (n)'
        >>> verdict(bound, Power(0.5, 0.02, 4), None)
        'below (n)'
    """
    if claimed is None or claimed == NONE:
        return NOTHING
    judged = [
        (letter, _compared(power, bound))
        for letter, power, bound in (
            ("n", of_nodes, claimed.nodes),
            ("m", of_edges, claimed.edges),
        )
        if power is not None and power.error is not None and power.error <= _LARGEST_ERROR
    ]
    if not judged:
        return "too little to tell"
    above = [letter for letter, sign in judged if sign > 0]
    if above:
        return f"corrects ({', '.join(above)})"
    word = "below" if all(sign < 0 for _, sign in judged) else "confirms"
    return word if len(judged) == 2 else f"{word} ({judged[0][0]})"


def _compared(power: Power, bound: int) -> int:
    slack = _SLACK + 2 * (power.error or 0.0)
    return (power.exponent > bound + slack) - (power.exponent < bound - slack)


def _notes(records: Sequence[Record], by_nodes: Series, by_edges: Series) -> list[str]:
    notes = [
        f"Generated graphs with m = {by_nodes.fixed} n, edges counted in both directions. Powers "
        f"of n along this series, powers of m at n = {by_edges.fixed:,} with m of "
        f"{', '.join(f'{size:,}' for size in by_edges.sizes)}: least squares on logarithms over "
        "the larger half of the sizes (three at least), ± standard error. From host memory, what "
        "the smallest graph takes is taken off before.",
        "Confirms: within 0.15 and two standard errors of what the paper's expression allows; "
        "below: the bound holds and is not reached at these sizes; corrects: grows faster. A power "
        "of fewer than three points, or known no better than to 0.25, is not judged; in brackets, "
        "what a verdict rests on where it is not both.",
        "† not in the paper's table: as the page of the baseline states.",
        "Beyond: not tried, as a smaller graph was too much already.",
    ]
    notes += machines(records)
    if any(record.costs.beside for record in records):
        notes.append("Some cells ran beside others on the same machine: their times are too long.")
    for record in records:
        if not record.ok and record.cell.data.startswith(PREFIX):
            graph = Generated.from_name(record.cell.data)
            size = f"n = {graph.nodes:,}, m = {graph.edges:,}"
            why = " ".join(record.message.split())[:160]
            notes.append(f"{record.cell.system}, {size}: {record.status} ({why}).")
    return notes
