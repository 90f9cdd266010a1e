"""How time and memory grow with the graph: sentences of docs/results/scaling.md."""

from collections.abc import Iterator

from docs.make.figures import lines, records, span

from dhilgt.benchmark.experiments import growth
from dhilgt.benchmark.running.recipe import OURS, PAPER
from dhilgt.benchmark.show.tables import GB, RowKey


def size(system: str, nodes: int, quantity: str, name: str = "scaling.jsonl") -> float:
    """Return a figure of a system on the generated graph of a size, in seconds or GB."""
    by_nodes, _ = growth.series_of(records(name))
    value = growth.figure(by_nodes.records[RowKey(system, PAPER, PAPER, 0)][nodes], quantity)
    assert value is not None, f"{system} has no {quantity} at {nodes} nodes"
    return value / GB if quantity in ("host", "gpu") else value


def powers(system: str, quantity: str, name: str = "scaling.jsonl") -> tuple[float, float]:
    """Return the powers of n and m that a figure grows with."""
    key = RowKey(system, PAPER, PAPER, 0)
    of_nodes, of_edges = (one.power(key, quantity) for one in growth.series_of(records(name)))
    assert of_nodes is not None
    assert of_edges is not None
    return of_nodes.exponent, of_edges.exponent


def scaling() -> Iterator[str]:
    """Yield the sentences of the page of growth."""
    ours = {name: size(OURS, 2_000_000, name) for name in growth.QUANTITIES}
    yield (
        f"takes {ours['precompute']:.0f} s of precomputation on 16 cores, {ours['host']:.1f} GB of "
        f"host memory, {ours['epoch']:.1f} s an epoch, {ours['inference']:.1f} s for the test "
        f"nodes and {ours['gpu']:.1f} GB of the GPU"
    )
    epoch, inference = powers(OURS, "epoch"), powers(OURS, "inference")
    yield (
        f"(powers {epoch[0]:.2f} and {inference[0]:.2f}), and do not depend on m ({epoch[1]:.2f} "
        f"and {inference[1]:.2f})"
    )
    yield f"the power of n is {powers(OURS, 'precompute')[0]:.2f} on these graphs"
    whole = ("gcn", "sage", "linkx", "sgformer", "difformer")
    times = [size(name, 2_000_000, "epoch") for name in whole]
    memory = [size(name, 2_000_000, "gpu") for name in whole]
    yield (
        "With 2,000,000 nodes GCN, GraphSAGE, LINKX, SGFormer and DIFFormer train on the whole "
        f"graph in {span(times, '.2f')} s an epoch and {span(memory, '.0f')} GB of the GPU"
    )
    yield (
        f"Polynormer takes {size('polynormer', 500_000, 'gpu'):.0f} GB at 500,000 nodes and was "
        "not measured at 2,000,000"
    )
    small = "cpu/scaling.jsonl"
    assert {one.status for one in records(small)} == {"ok"}
    assert all(one.costs.ran_alone for one in records(small))
    yield "Every system alone on two cores; none is over its budget."
    times = [size("ansgt", nodes, "precompute", small) for nodes in (4000, 8000)]
    yield f"it takes {times[0]:.1f} s at 4,000 nodes and {times[1]:.1f} s at 8,000"
    epochs = [powers(name, "epoch", small)[0] for name in ("goat", "hsgt")]
    yield f"epochs** grow by {epochs[0]:.2f} and {epochs[1]:.2f} at these sizes"
    yield f"grows by {powers(OURS, 'precompute', small)[0]:.2f} here"
    longer = [one["entries"] / one["nodes"] for one in lines("labels.jsonl") if "entries" in one]
    assert min(longer) > 32
    yield "[labels are longer](labels.md) on all graphs measured here"
