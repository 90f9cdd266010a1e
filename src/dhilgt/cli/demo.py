"""`dhilgt demo`: every stage on a generated graph.

A stage is a function in `STEPS`; it reads what earlier ones left in `Demo` and adds to it.
"""

import contextlib
import io
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray

from dhilgt.cli import label, search_lines, shell
from dhilgt.cli import predict as predict_command
from dhilgt.cli import tokens as tokens_command
from dhilgt.datasets.splits import random_split
from dhilgt.errors import DhilgtError
from dhilgt.graph.graph import Graph
from dhilgt.graph.random_graphs import generate
from dhilgt.labels.hub_labels import HubLabels
from dhilgt.report.run import tried
from dhilgt.store.artifact import Artifact
from dhilgt.store.target import Target
from dhilgt.tokens.stats import token_stats
from dhilgt.tokens.tokens import Tokens
from dhilgt.utils.memory import format_bytes

if TYPE_CHECKING:
    from dhilgt.classifier.classifier import NodeClassifier

_AVERAGE_DEGREE = 10
_FEATURE_NOISE = 2.0  # so much that the classes do not follow from the features alone
_SOURCES = 5
BUDGET_SECONDS = 75.0
"""The search ends by then, so that the demo takes less than three minutes on a slow machine."""


@dataclass
class Demo:
    """What the steps pass on to later ones."""

    folder: Path
    num_nodes: int
    seed: int
    graph: Graph | None = None
    labels: HubLabels | None = None
    classifier: "NodeClassifier | None" = None

    @property
    def run_path(self) -> Path:
        """Folder of the trained classifier, its report and its predictions."""
        return self.folder / "run"

    @property
    def labels_path(self) -> Path:
        """Folder of the labels."""
        return self.folder / "labels"

    @property
    def tokens_path(self) -> Path:
        """Folder of the tokens."""
        return self.folder / "tokens"

    def the_graph(self) -> Graph:
        """Return the graph, which the first step makes."""
        assert self.graph is not None
        return self.graph

    def the_labels(self) -> HubLabels:
        """Return the labels, which the second step makes."""
        assert self.labels is not None
        return self.labels

    def the_classifier(self) -> "NodeClassifier":
        """Return the trained classifier, which a later step makes."""
        assert self.classifier is not None
        return self.classifier


def run(
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Folder for what the demo saves.")
    ] = Path("demo-output"),
    nodes: Annotated[int, typer.Option(min=500, help="Nodes of the generated graph.")] = 3_000,
    seed: Annotated[int, typer.Option(help="Seed of the generated graph.")] = 0,
    quiet: bool = False,
) -> None:
    """Show everything on a generated graph: labels, distances, tokens, training, predictions.

    \b
    Example:
      dhilgt demo
    """  # noqa: D301 - \b keeps the example's lines apart
    with contextlib.redirect_stdout(io.StringIO()) if quiet else contextlib.nullcontext():
        _run(Demo(output, nodes, seed))


def _run(demo: Demo) -> None:
    for path in (demo.labels_path, demo.tokens_path):
        Target(path, overwrite=True, keep=False).abandon()
    remove_run(demo.run_path)
    started = time.perf_counter()
    for number, (title, step) in enumerate(STEPS, start=1):
        typer.echo(f"{'' if number == 1 else chr(10)}{number}. {title}")
        step(demo)
    typer.echo(f"\nDone in {time.perf_counter() - started:.1f} s. Now try:")
    two = demo.the_labels().ids.ids_of(np.array([0, demo.num_nodes // 2])).tolist()
    typer.echo(f"  dhilgt query {demo.labels_path} {two[0]} {two[1]} --witness")
    typer.echo(f"  dhilgt inspect {demo.labels_path}")
    typer.echo(f"  dhilgt inspect {demo.tokens_path}")
    typer.echo(f"  dhilgt explain {demo.run_path} {two[1]}")
    typer.echo(f"  dhilgt evaluate {demo.run_path}")
    typer.echo(f"The report:      {demo.run_path / 'report.html'}")
    typer.echo(f"The predictions: {demo.run_path / 'predictions.csv'}")


def remove_run(path: Path) -> None:
    """Remove the run of an earlier demo; raise for a folder that holds anything else."""
    from dhilgt.training.run_folder import BUNDLE, is_ours

    if not path.exists():
        return
    names = [one.name for one in path.iterdir()]
    if not all(map(is_ours, names)) or (
        names and BUNDLE not in names and "checkpoints" not in names
    ):
        raise DhilgtError(f"{path} is not the run of a demo; choose another --output")
    shutil.rmtree(path)


# ---- graph, labels, tokens ---------------------------------------------------------------------


def make_graph(num_nodes: int, seed: int) -> Graph:
    """Return the graph of the demo, with its split.

    Args:
        num_nodes: Number of nodes.
        seed: Another seed makes another graph.
    """
    graph = generate(num_nodes, _AVERAGE_DEGREE, feature_noise=_FEATURE_NOISE, seed=seed)
    assert graph.labels is not None
    return graph.with_nodes(masks=random_split(graph.labels, seed))


def _make_graph(demo: Demo) -> None:
    demo.graph = make_graph(demo.num_nodes, demo.seed)
    degrees = demo.graph.degrees
    shell.print_table(
        [
            ("nodes", f"{demo.graph.num_nodes:,}"),
            ("edges", f"{demo.graph.num_distinct_edges:,}"),
            ("degree", f"mean {degrees.mean():.1f}, largest {degrees.max():,}"),
        ]
    )


def _build_labels(demo: Demo) -> None:
    graph = demo.the_graph()
    started = time.perf_counter()
    demo.labels = HubLabels.build(graph)
    built = time.perf_counter()
    demo.labels.save(demo.labels_path, overwrite=True)
    seconds = {"build": built - started, "save": time.perf_counter() - built}
    on_disk = Artifact.open(demo.labels_path).nbytes
    shell.print_table(label.summary_rows(label.summary(graph, demo.labels, on_disk, seconds))[2:])


def _query_distances(demo: Demo) -> None:
    graph, labels = demo.the_graph(), demo.the_labels()
    rng = np.random.default_rng(demo.seed)
    all_nodes = np.arange(graph.num_nodes)
    for source in rng.choice(graph.num_nodes, min(_SOURCES, graph.num_nodes), replace=False):
        from_labels = labels.distances(np.full(graph.num_nodes, source), all_nodes)
        from_search = distances_from(graph, int(source))
        wrong = np.flatnonzero(from_labels != from_search)
        if wrong.size:
            raise DhilgtError(
                f"the labels say {from_labels[wrong[0]]} from {source} to {wrong[0]}, the search "
                f"{from_search[wrong[0]]}; please report this graph (seed {demo.seed})"
            )
        target = int(rng.integers(graph.num_nodes))
        distance, hub = labels.witness(int(source), target)
        answer = "no path" if hub is None else f"{distance} hops, through {hub}"
        typer.echo(
            f"from {source} to {target}: {answer}; "
            f"all {graph.num_nodes:,} distances from {source} equal a breadth-first search"
        )
    pairs = rng.integers(graph.num_nodes, size=(2, 100_000))
    started = time.perf_counter()
    labels.distances(pairs[0], pairs[1])
    seconds = time.perf_counter() - started
    typer.echo(f"{pairs.shape[1]:,} random distances in {seconds:.3f} s")


def distances_from(graph: Graph, source: int) -> NDArray[np.int32]:
    """Return the distance from one node to every node, by index; -1 where there is no path.

    A breadth-first search that shares no code with the labels it checks.

    Example:
        >>> distances_from(Graph.from_edges([0, 1], [1, 2]), 0).tolist()
        [0, 1, 2]
    """
    distances = np.full(graph.num_nodes, -1, dtype=np.int32)
    level, distance = np.array([source]), 0
    while level.size:
        distances[level] = distance
        distance += 1
        starts = graph.offsets[level]
        degrees = graph.offsets[level + 1] - starts
        # Places in `targets` of all neighbours of the level, one run of places per node.
        run_starts = np.repeat(starts - np.cumsum(degrees) + degrees, degrees)
        neighbors = graph.targets[run_starts + np.arange(len(run_starts))]
        level = np.unique(neighbors[distances[neighbors] < 0])
    return distances


def _load_labels(demo: Demo) -> None:
    labels = demo.the_labels()
    loaded = HubLabels.load(demo.labels_path, verify=True)
    pairs = np.random.default_rng(demo.seed).integers(labels.num_nodes, size=(2, 10_000))
    same = loaded.fingerprint == labels.fingerprint and np.array_equal(
        loaded.distances(*pairs), labels.distances(*pairs)
    )
    if not same:
        raise DhilgtError(f"{demo.labels_path} answers otherwise than the labels it was saved from")
    size = format_bytes(Artifact.open(demo.labels_path).nbytes)
    typer.echo(f"{demo.labels_path} ({size}): checksums right, 10,000 answers the same")


def _build_tokens(demo: Demo) -> None:
    labels = demo.the_labels()
    started = time.perf_counter()
    tokens = Tokens.build(labels, path=demo.tokens_path, overwrite=True)
    seconds = time.perf_counter() - started
    shell.print_table(
        tokens_command.summary_rows(tokens_command.summary(tokens, demo.tokens_path, seconds))
    )
    for line in str(token_stats(tokens)).splitlines()[1:]:
        typer.echo(line)
    ids, spd = tokens.rows([0])
    members = ids[0][ids[0] >= 0]
    exact = labels.distance_matrix(labels.ids.ids_of(members.astype(np.int64)))
    if not np.array_equal(exact, spd[0, : len(members), : len(members)]):
        raise DhilgtError(f"the row of node 0 in {demo.tokens_path} has wrong distances")
    typer.echo(f"the row of node 0: {members.tolist()}, all {len(members) ** 2} distances right")


# ---- training and predicting -------------------------------------------------------------------


def train(graph: Graph, path: Path, seed: int, **settings: Any) -> "NodeClassifier":
    """Train a classifier with the default recipe into a folder and print how it went.

    Args:
        graph: The graph.
        path: Folder of the run.
        seed: Of the training.
        **settings: Settings that hold in everything that is tried.
    """
    import dhilgt

    started = time.perf_counter()
    clf = dhilgt.NodeClassifier(budget=BUDGET_SECONDS, seed=seed, cache=False, **settings).fit(
        graph, run_dir=path
    )
    record = tried.search_record(clf)
    assert record is not None, "the default searches"
    shell.print_columns(search_lines.candidate_rows(record))
    shell.print_table(
        [
            ("nodes", ", ".join(f"{len(nodes):,} {part}" for part, nodes in clf.split_.items())),
            ("chosen", record["sentence"]),
            ("seconds", f"{time.perf_counter() - started:.1f}"),
        ]
    )
    return clf


def _train(demo: Demo) -> None:
    demo.classifier = train(demo.the_graph(), demo.run_path, demo.seed)


def compare(clf: "NodeClassifier") -> dict[str, float]:
    """Return the test scores of the classifier, of an MLP, and of one class for all nodes."""
    assert clf.search_ is not None, "the default searches"
    beside = clf.search_.references
    return {
        "one answer for all": beside["majority"]["test"] or 0.0,
        "MLP, features alone": beside["mlp"]["test"] or 0.0,
        "DHIL-GT": clf.scores_["test"]["accuracy"],
    }


def _compare(demo: Demo) -> None:
    scores = compare(demo.the_classifier())
    shell.print_table((name, f"{100 * score:.1f}% right") for name, score in scores.items())


def _predict(demo: Demo) -> None:
    from dhilgt.report import write_report

    path = demo.run_path
    predict_command.run(path, output=path / "predictions.csv", quiet=True)
    lines = (path / "predictions.csv").read_text(encoding="utf-8").splitlines()
    for line in lines[:4]:
        typer.echo(line)
    typer.echo(f"... and {len(lines) - 4:,} more")
    write_report(demo.the_classifier(), path / "report.html", title="The demo's run")


STEPS: list[tuple[str, Callable[[Demo], None]]] = [
    ("A graph with hubs, communities and classes", _make_graph),
    ("Its hub labels", _build_labels),
    ("Distances, checked live against breadth-first search", _query_distances),
    ("Saved and loaded", _load_labels),
    ("A token of 32 nodes for each node, with all distances inside", _build_tokens),
    ("Several models learn the classes of 60% of the nodes, the best is kept", _train),
    ("Compared on the test nodes, which none of them has seen", _compare),
    ("Predictions for all nodes, and a report", _predict),
]
