"""Every system on larger and larger graphs, each until it no longer fits.

Two series of generated graphs: in one the nodes grow at constant degree, in the other the
number of edges at constant nodes. A system that runs out of memory or time on a graph is not
tried on any that is as large or larger in both. The papers' complexities stand beside.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from dhilgt.benchmark.record import FAILED, Record
from dhilgt.benchmark.running.data import PREFIX, Generated
from dhilgt.benchmark.running.grid import Cell, cells
from dhilgt.benchmark.running.recipe import OURS, Recipe
from dhilgt.benchmark.running.results import Results
from dhilgt.benchmark.running.runner import Limits, OnCell, Summary, run
from dhilgt.errors import ConfigError

NODES = (2_000, 10_000, 50_000, 200_000, 500_000, 1_000_000, 2_000_000)
DEGREE = 20
FIXED_NODES, DEGREES = 200_000, (5, 10, 20, 40)
EPOCHS = 3
_LEAST_SECONDS = 1.0  # of a run: a process does not even start in less

Beyond = Callable[[Cell, Record], None]


@dataclass(frozen=True)
class GraphSizes:
    """The graphs of a run.

    Attributes:
        nodes: Sizes of the first series.
        degree: Of the first series.
        fixed_nodes: Nodes of the second series.
        degrees: Of the second series; none for no second series.
        features: Numbers per node.
        classes: Number of classes.

    Example:
        >>> [graph.name for graph in GraphSizes((50, 30), 4, 30, (2, 4), 8, 3).graphs()]
        ['generated:30:degree=2', 'generated:30', 'generated:50']
    """

    nodes: Sequence[int] = NODES
    degree: int = DEGREE
    fixed_nodes: int = FIXED_NODES
    degrees: Sequence[int] = DEGREES
    features: int = 64
    classes: int = 10

    def graphs(self) -> list[Generated]:
        """Return all graphs, the ones with fewer edges first, each once.

        Raises:
            ConfigError: If a number is not above 0, or there is no graph.
            DatasetError: If a graph is too small or too large to have a name.
        """
        pairs = [(nodes, self.degree) for nodes in self.nodes]
        pairs += [(self.fixed_nodes, degree) for degree in self.degrees]
        if not pairs or min(map(min, pairs)) < 1 or min(self.features, self.classes) < 1:
            raise ConfigError(f"{self}; pass whole numbers above 0, and at least one size")
        graphs = {Generated(n, d, self.features, self.classes) for n, d in pairs}
        for graph in graphs:
            Generated.from_name(graph.name)
        return sorted(graphs, key=lambda graph: (graph.edges, graph.nodes))


def run_scaling(
    systems: Sequence[tuple[str, str]],
    sizes: GraphSizes,
    results: Results,
    limits: Limits,
    *,
    recipe: Recipe | None = None,
    epochs: int = EPOCHS,
    tell: OnCell = lambda cell, record, done, of: None,
    beyond: Beyond = lambda cell, record: None,
    command: str | None = None,
) -> Summary:
    """Run all systems on one graph after the other, the smaller ones first.

    A graph is made only when a system is left to be run on it.

    Args:
        systems: Systems with their variants, from `grid.models`.
        sizes: The graphs.
        results: An open file; what it holds already is not run again.
        limits: Time, processes, device. ``total`` is that of all graphs together.
        recipe: How systems are trained; None for each as its own paper has it.
        epochs: Epochs of each training; the first one warms up and is not counted.
        tell: As for `run`; the numbers are those of one graph.
        beyond: Called for each cell that is skipped, with the record of the smaller graph.
        command: The command of this run, for the records.

    Raises:
        ConfigError: If a size or a setting is wrong; nothing was run then.
        KeyboardInterrupt: If it was stopped; the running cells are lost, no others.
    """
    grids = [cells(systems, [graph.name], [0], recipe, epochs=epochs) for graph in sizes.graphs()]
    ends = None if limits.total is None else time.monotonic() + limits.total
    ran = skipped = left = 0
    for grid in grids:
        pending = []
        known = results.by_key()
        for cell in grid:
            stop = stopped_before(cell, known.values(), limits.budget)
            record = known.get(cell.key)
            if stop is not None:
                beyond(cell, stop)
            elif record is not None and record.is_final(limits.budget):
                skipped += 1
            else:
                pending.append(cell)
        rest = None if ends is None else ends - time.monotonic()
        if rest is not None and rest < _LEAST_SECONDS:
            left += len(pending)
        elif pending:
            summary = run(pending, results, replace(limits, total=rest), tell, command)
            ran, left = ran + summary.ran, left + summary.left
    return Summary(ran, skipped, left)


def stopped_before(cell: Cell, records: Iterable[Record], budget: float | None) -> Record | None:
    """Return the record of a smaller graph that was too large for the system of a cell, if any.

    Smaller means: no more nodes and no higher degree, and not the same graph. A failure that more
    time may mend does not count if there is more now.

    Args:
        cell: On a generated graph.
        records: Of a results file.
        budget: Seconds that a cell may take.
    """
    graph = Generated.from_name(cell.data)
    own = (cell.system, cell.variant, cell.recipe)
    for record in records:
        other = record.cell
        same = (other.system, other.variant, other.recipe) == own
        if record.ok or not same or not other.data.startswith(PREFIX):
            continue
        tried = Generated.from_name(other.data)
        smaller = tried.nodes <= graph.nodes and tried.degree <= graph.degree and tried != graph
        # A failed cell has been tried again by now: graphs are run in the order of their size.
        if smaller and (record.status == FAILED or record.is_final(budget)):
            return record
    return None


@dataclass(frozen=True)
class Claim:
    """A bound, as a sum of products.

    Attributes:
        text: In the notation of the documentation: n nodes, m edges, n_b nodes of a batch, s size
            of a token, L layers, K hops, F width, F₀ features.
        nodes: The power of n that it allows while m grows with n.
        edges: The power of m that it allows while n stays.

    Example:
        >>> claim("dhilgt", "epoch")
        Claim(text='L n F² + L n s² F', nodes=1, edges=0)
        >>> claim("dhilgt", "inference") is None
        True
    """

    text: str
    nodes: int
    edges: int


QUANTITIES = ("precompute", "epoch", "inference", "host", "gpu")
NONE = Claim("none", 0, 0)
"""The paper has no such stage, or only work that it does not count, such as degrees."""
_KERNEL = Claim("L n F² + L m F", 1, 1)
_HOST, _GPU = Claim("n F + m", 1, 1), Claim("L n_b F + m", 1, 1)
_PAIRS, _PAIR_LAYERS = Claim("n²", 2, 0), Claim("L n² F", 2, 0)
_ROWS, _BATCH = Claim("n F + n s²", 1, 0), Claim("L n_b F + n_b s²", 0, 0)

# Rows of the paper's table of complexities: before training, an epoch, host memory, GPU memory.
# Batches of the systems with a term of m are whole graphs here: n_b is n.
_PAPER: dict[str, tuple[Claim, Claim, Claim, Claim]] = {
    "difformer": (NONE, _KERNEL, _HOST, _GPU),
    "nodeformer": (NONE, _KERNEL, _HOST, _GPU),
    "polynormer": (NONE, _KERNEL, _HOST, _GPU),
    "nagphormer": (
        Claim("L m F₀", 1, 1),
        Claim("L n F²", 1, 0),
        Claim("L n F", 1, 0),
        Claim("L n_b F²", 0, 0),
    ),
    "polyformer": (
        Claim("L m F₀", 1, 1),
        Claim("L n F²", 1, 0),
        Claim("L n F", 1, 0),
        Claim("L n_b F²", 0, 0),
    ),
    "ansgt": (Claim("n s² + L m", 1, 1), Claim("L n F² + L n s² F", 1, 0), _ROWS, _BATCH),
    "graphgps": (Claim("n³", 3, 0), _KERNEL, Claim("n F + n²", 2, 0), _GPU),
    "goat": (Claim("n F", 1, 0), _KERNEL, _HOST, Claim("L n_b² + L n_b F + m", 1, 1)),
    "graphormer": (Claim("n³", 3, 0), _PAIR_LAYERS, _PAIRS, _PAIR_LAYERS),
    "grpe": (_PAIRS, _PAIR_LAYERS, _PAIRS, _PAIR_LAYERS),
    "hsgt": (
        Claim("n + L m", 1, 1),
        _KERNEL,
        Claim("n F + L m", 1, 1),
        Claim("L n_b² + L n_b F + L m", 1, 1),
    ),
    OURS: (Claim("n s³ + m s", 1, 1), Claim("L n F² + L n s² F", 1, 0), _ROWS, _BATCH),
}
# Systems that the paper's table leaves out: what the pages of the baselines say.
_OWN: dict[str, tuple[Claim, Claim]] = {
    "gcn": (Claim("m", 1, 1), _KERNEL),
    "sage": (Claim("m", 1, 1), _KERNEL),
    "sgformer": (Claim("m", 1, 1), _KERNEL),
    "linkx": (NONE, Claim("n F² + m F", 1, 1)),
    "mlp": (NONE, Claim("n F²", 1, 0)),
}


def claim(system: str, quantity: str) -> Claim | None:
    """Return what is claimed of a system, None where nothing is.

    Args:
        system: Its name.
        quantity: One of `QUANTITIES`.
    """
    names = [name for name in QUANTITIES if name != "inference"]
    row = _PAPER.get(system) or _OWN.get(system) or ()
    return dict(zip(names, row, strict=False)).get(quantity)


def in_paper(system: str) -> bool:
    """Return whether the claims of a system are the paper's."""
    return system in _PAPER
