"""New nodes: quick labels against labelling everything again, in time and in results.

Some nodes are hidden, the rest is labelled, and the hidden ones come back as new nodes. `make
bench-grow` prints the table and writes `grow.jsonl`.
"""

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench import graphs
from bench.labels import build
from bench.measure import Bench, seconds
from dhilgt import Graph, GraphWarning, HubLabels, TokenSampler
from dhilgt.labels.grow import quick_labels

PER_MILLE = {"cora": (10, 50), "pubmed": (10, 50), "ogbn-arxiv": (1, 10, 50)}  # nodes hidden
EPOCHS = {"cora": 30, "pubmed": 10}  # where predictions are compared, with most nodes hidden
ROWS_TO_COMPARE = 500


def hidden(graph: Graph, per_mille: int) -> tuple[Graph, NDArray[np.int64]]:
    """Return the graph without some random nodes, and the indices of these."""
    rng = np.random.default_rng(0)
    count = max(1, graph.num_nodes * per_mille // 1000)
    new = np.sort(rng.choice(graph.num_nodes, count, replace=False))
    is_old = np.ones(graph.num_nodes, bool)
    is_old[new] = False
    sources, targets = graph.to_edge_index()
    stays = is_old[sources] & is_old[targets]
    parts: dict[str, Any] = {}
    if graph.features is not None:
        parts["features"] = graph.features[is_old]
    if graph.labels is not None:
        parts["labels"] = graph.labels[is_old]
    nodes = np.flatnonzero(is_old)
    return Graph.from_edges(sources[stays], targets[stays], nodes=nodes, **parts), new


def labels(name: str, per_mille: int, threads: int) -> dict[str, Any]:
    """Time quick and exact labels, and compare hubs, members and distances of new nodes."""
    shown, grown = graphs.load(name)
    graph, new = hidden(grown, per_mille)
    before = build(graph, threads)
    exact = build(grown, threads)
    made: list[HubLabels] = []
    seconds_quick = seconds(
        lambda: made.append(quick_labels(before, graph, grown, threads=threads)), 2
    )
    again = seconds(lambda: build(grown, threads), 2)
    quick = made[-1]
    egos = np.random.default_rng(1).permutation(new)[:ROWS_TO_COMPARE]
    ours = TokenSampler(quick, threads=threads, progress=False).rows(egos)
    sampler = TokenSampler(exact, threads=threads, progress=False)
    true, other = sampler.ids(egos), sampler.with_seed(1).ids(egos)
    figures: dict[str, Any] = {
        "measure": "labels",
        "graph": shown,
        "nodes": grown.num_nodes,
        "new_nodes": len(new),
        "seconds_quick": seconds_quick,
        "seconds_again": again,
        "ratio": again / seconds_quick,
        "hubs_equal": _hubs_shared(quick, exact, egos),
        "members_equal": _members_shared(ours.ids, true),
        "members_equal_other_seed": _members_shared(other, true),
    }
    return {**figures, **_distances(ours.ids, ours.spd, exact)}


def _hubs_shared(quick: HubLabels, exact: HubLabels, nodes: NDArray[np.int64]) -> float:
    """Return the fraction of exact hubs, with their distance, that quick labels have as well."""
    shared = total = 0
    for node in nodes.tolist():
        ours, true = (
            set(zip(*(part.tolist() for part in of.hubs(node)), strict=True))
            for of in (quick, exact)
        )
        shared, total = shared + len(ours & true), total + len(true)
    return shared / total


def _members_shared(ours: NDArray[np.int32], true: NDArray[np.int32]) -> float:
    shared = total = 0
    for row, exact in zip(ours[:, 1:].tolist(), true[:, 1:].tolist(), strict=True):
        members = set(exact) - {-1}
        shared, total = shared + len(members.intersection(row)), total + len(members)
    return shared / max(total, 1)


def _distances(
    ids: NDArray[np.int32], spd: NDArray[np.uint8], exact: HubLabels
) -> dict[str, float]:
    """Compare the distances in tokens with the true ones of the same pairs."""
    left, right = np.triu_indices(ids.shape[1], 1)
    real = (ids[:, left] >= 0) & (ids[:, right] >= 0)
    true = exact.distances(ids[:, left][real], ids[:, right][real]).astype(np.int64)
    ours = spd[:, left, right][real].astype(np.int64)
    true = np.where(true < 0, 255, np.minimum(true, 254))
    assert (ours >= true).all(), "a quick distance is too short"
    finite = ours < 255
    return {
        "distances_equal": float((ours == true).mean()),
        "distances_lost": float((~finite & (true < 255)).mean()),
        "mean_excess": float((ours - true)[finite].mean()),
    }


def predictions(name: str, per_mille: int, threads: int) -> dict[str, Any]:
    """Train on the old graph, and classify the new nodes in both modes."""
    import torch

    from dhilgt import NodeClassifier

    torch.set_num_threads(threads)
    shown, grown = graphs.load(name)
    graph, new = hidden(grown, per_mille)
    classifier = NodeClassifier(
        recipe="paper",
        num_layers=1,
        hidden_channels=64,
        epochs=EPOCHS[name],
        lr=0.005,
        hops=2,
        threads=threads,
        device="cpu",
        cache=False,
        progress=False,
    ).fit(graph)
    assert grown.labels is not None
    ids, true = grown.ids_of(new), grown.labels[new]
    exact = classifier.predict(ids, graph=grown)
    quick = classifier.predict(ids, graph=grown, quick=True)
    return {
        "measure": "predictions",
        "graph": shown,
        "new_nodes": len(new),
        "accuracy_exact": float((exact == true).mean()),
        "accuracy_quick": float((quick == true).mean()),
        "predictions_equal": float((exact == quick).mean()),
    }


def main() -> None:
    """Measure everything and print the table."""
    bench = Bench("grow", PARTS, __doc__ or "")
    for name, sizes in PER_MILLE.items():
        for per_mille in sizes:
            made = bench.measured(labels, name, per_mille, bench.threads)
            title = f"{made['graph']}, {per_mille / 10:g} % new"
            bench.row(
                f"{title}: quick labels against labelling again",
                f"{made['ratio']:.1f} x ({made['seconds_again']:.2f} / "
                f"{made['seconds_quick']:.2f} s)",
            )
            bench.row(
                f"{title}: hubs of new nodes as in exact labels",
                f"{made['hubs_equal']:.1%}",
            )
            bench.row(
                f"{title}: token members of new nodes as in exact tokens",
                f"{made['members_equal']:.1%} (another seed: "
                f"{made['members_equal_other_seed']:.1%})",
            )
            bench.row(
                f"{title}: distances in these tokens",
                f"{made['distances_equal']:.1%} equal, {made['distances_lost']:.2%} lost, "
                f"{made['mean_excess']:.3f} too long on average",
            )
            if name in EPOCHS and per_mille == sizes[-1]:
                predicted = bench.measured(predictions, name, per_mille, bench.threads)
                bench.row(
                    f"{title}: accuracy on {predicted['new_nodes']} new nodes, exact / quick",
                    f"{predicted['accuracy_exact']:.3f} / {predicted['accuracy_quick']:.3f} "
                    f"({predicted['predictions_equal']:.1%} of predictions equal)",
                )
    bench.finish()


PARTS = [labels, predictions]

if __name__ == "__main__":
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GraphWarning)
        main()
