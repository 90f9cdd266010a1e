"""`dhilgt predict`: the classes of nodes, from a trained run."""

import csv
import io
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TextIO

import numpy as np
import typer
from numpy.typing import NDArray

from dhilgt.classifier.inputs import matched_features
from dhilgt.cli import shell
from dhilgt.cli.flags import ClusterOption
from dhilgt.cli.inputs import DEGREE, Inputs
from dhilgt.cli.label import edge_columns, naming_files
from dhilgt.cli.train import classifier_class
from dhilgt.cluster.session import check_cluster
from dhilgt.errors import ArtifactError, ConfigError, DhilgtError, GraphError
from dhilgt.features.from_graph import degree_features
from dhilgt.graph.graph import Graph
from dhilgt.readers import node_lists
from dhilgt.readers.new_nodes import graph_with_new_nodes, new_ids
from dhilgt.readers.node_tables import ColumnOptions
from dhilgt.settings import yaml_files

if TYPE_CHECKING:
    from dhilgt.classifier.classifier import NodeClassifier


def run(
    run_folder: Annotated[
        Path, typer.Argument(metavar="RUN", help="Folder that `dhilgt train` wrote.")
    ],
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="File to write, .csv or .parquet; '-' or none prints."),
    ] = None,
    nodes: Annotated[
        Path | None,
        typer.Option(help="File of ids to predict; all nodes, or the new ones, by default."),
    ] = None,
    edges: Annotated[
        Path | None, typer.Option(help="Edges of a grown or another graph, the old edges included.")
    ] = None,
    features: Annotated[
        str | None, typer.Option(help="Features of that graph, as for `dhilgt train`.")
    ] = None,
    new_edges: Annotated[
        Path | None,
        typer.Option(help="Edges of new nodes alone, among them and to nodes of the run's graph."),
    ] = None,
    new_features: Annotated[
        Path | None, typer.Option(help="Features of the new nodes alone, with their ids.")
    ] = None,
    id_column: Annotated[
        str | None,
        typer.Option(help="Column of ids in --features or --new-features; found by its values."),
    ] = None,
    graph_nodes: Annotated[
        Path | None, typer.Option(help="All ids of that graph, in the order of a .npy's rows.")
    ] = None,
    quick: Annotated[
        bool,
        typer.Option("--quick", help="Reuse the labels of old nodes: faster, approximate."),
    ] = False,
    all_probabilities: Annotated[
        bool, typer.Option("--all-probabilities", help="Add a column per class.")
    ] = False,
    device: Annotated[
        str | None, typer.Option(help="auto, cpu, cuda, cuda:1, ...; as in training by default.")
    ] = None,
    cluster: ClusterOption = None,
    quiet: bool = False,
) -> None:
    """Write the predicted class of nodes with its probability.

    The columns are node, label and probability. Nodes are in the order of --nodes, otherwise by
    ascending id.

    \b
    Example:
      dhilgt predict runs/mine -o predictions.csv
      dhilgt predict runs/mine --nodes some.txt --all-probabilities
      dhilgt predict runs/mine --new-edges e.csv --new-features x.csv
      dhilgt predict runs/mine --edges e2.csv --features x2.csv -o new.parquet
      dhilgt predict runs/mine -o predictions.parquet --cluster auto
    """  # noqa: D301 - \b keeps the example's lines apart
    printed = output is None or str(output) == "-"
    grows = new_edges is not None or new_features is not None
    if grows and (edges is not None or features is not None or graph_nodes is not None):
        raise shell.usage_error(
            "the run's graph and new nodes, or another graph: give --new-edges and --new-features, "
            "or --edges and --features",
            "--new-edges" if new_edges is not None else "--new-features",
        )
    if quick and edges is None and not grows:
        raise shell.usage_error(
            "--quick is for a grown graph; give its --edges, or --new-edges", "--quick"
        )
    if (features is not None or graph_nodes is not None) and edges is None:
        raise shell.usage_error("give the --edges of the graph too", "--edges")
    if cluster is not None:
        check_cluster(cluster)
    listed = None if nodes is None else node_lists.read_nodes(nodes)
    clf = load(run_folder, device, quiet)
    other = None
    if edges is not None:
        other = _other_graph(run_folder, clf, edges, features, graph_nodes, quiet, id_column)
    if grows:
        other = _grown_graph(run_folder, clf, new_edges, new_features, id_column)
        if listed is None:
            listed = _new_ids(clf, other)
    ids = _ids_to_predict(other or clf.graph_, listed, nodes)
    if printed:
        _write_csv(sys.stdout, *_predicted(clf, ids, other, quick, all_probabilities, cluster))
        return
    assert output is not None
    if output.suffix == ".parquet":
        _need_pyarrow(output)
    with shell.written_whole(output) as draft:
        columns, table = _predicted(clf, ids, other, quick, all_probabilities, cluster)
        if output.suffix == ".parquet":
            _write_parquet(draft, columns, table)
        else:
            with draft.open("w", newline="", encoding="utf-8") as stream:
                _write_csv(stream, columns, table)
    if not quiet:
        typer.echo(f"wrote {len(ids):,} predictions to {output}", err=True)


def load(folder: Path, device: str | None, quiet: bool) -> "NodeClassifier":
    """Return the classifier of a run.

    Raises:
        ArtifactError: If the folder holds none; the message of a run that was cut off says how to
            go on.
    """
    classifier = classifier_class()
    if not folder.is_dir():
        raise ArtifactError(f"{folder} is not a folder; give the one that `dhilgt train` wrote")
    if (folder / "checkpoints").is_dir() and not (folder / "bundle.json").exists():
        raise ArtifactError(
            f"{folder} holds a run that has not ended; go on with: dhilgt train --resume -o "
            f"{shlex.quote(str(folder))}"
        )
    clf = classifier.load(folder, device=device)
    if quiet:
        clf.set_params(progress=False)
    return clf


def _other_graph(
    folder: Path,
    clf: "NodeClassifier",
    edges: Path,
    features: str | None,
    graph_nodes: Path | None,
    quiet: bool,
    id_column: str | None,
) -> Graph:
    """Read a graph with the options of the run's own graph, without labels and split."""
    known = _inputs_of(folder, clf)
    if features is None and known.features != "degree":
        raise GraphError(
            f"{edges} is another graph, and its features are missing; pass them with --features"
        )
    options = {"edges": str(edges), "features": features}
    inputs = Inputs(
        directed=clf.graph_.directed,
        features=known.features,
        columns=known.columns,
        source_column=known.source_column,
        target_column=known.target_column,
        separator=known.separator,
        header=known.header,
        comment=known.comment,
        id_column=id_column or known.id_column,
        feature_columns=known.feature_columns,
        ignore_weights=known.ignore_weights,
        nodes=None if graph_nodes is None else str(graph_nodes),
    ).updated(options)
    graph = inputs.load(
        threads=clf.settings_.threads,
        progress=shell.watched() and not quiet,
        feature_columns=clf.feature_columns_,
    )
    return matched_features(graph, clf.feature_columns_, clf.n_features_in_, str(inputs.features))


def _inputs_of(folder: Path, clf: "NodeClassifier") -> Inputs:
    """Return where the graph of a run came from, and how its files were read."""
    config = folder / yaml_files.NAME
    if not config.exists():
        return Inputs(directed=clf.graph_.directed)
    try:
        values = yaml_files.read_settings(config)
        return Inputs.from_file(values.get("data", {}), config)
    except ConfigError as error:
        raise ArtifactError(f"the run's own {error}") from error


def _grown_graph(
    folder: Path,
    clf: "NodeClassifier",
    edges: Path | None,
    features: Path | None,
    id_column: str | None,
) -> Graph:
    """Return the run's graph with new nodes; files are read as those of the run were."""
    known = _inputs_of(folder, clf)
    from_degree = known.features == DEGREE
    if features is None and not from_degree:
        raise GraphError(f"{edges}: new nodes need features; pass them with --new-features")
    if features is not None and from_degree:
        raise shell.usage_error(
            "the run learned from degrees, which follow from the edges; leave it out",
            "--new-features",
        )
    with naming_files(edges or features or "", features=features):
        graph = graph_with_new_nodes(
            clf.graph_,
            edges,
            features,
            separator="\t" if known.separator in ("\\t", "tab") else known.separator,
            columns=edge_columns(known.columns, known.source_column, known.target_column),
            ignore_weights=known.ignore_weights,
            options=ColumnOptions(
                id_column=id_column or known.id_column,
                feature_columns=known.feature_columns,
                header=known.header,
                comment=known.comment,
            ),
            threads=clf.settings_.threads,
        )
    return graph.with_data(features=degree_features(graph)) if from_degree else graph


def _new_ids(clf: "NodeClassifier", grown: Graph) -> NDArray[Any]:
    ids = new_ids(clf.graph_, grown)
    if not len(ids):
        raise GraphError(
            "the files add edges and no node; name the nodes to predict again with --nodes"
        )
    return ids


def _ids_to_predict(graph: Graph, listed: Any, file: Path | None) -> NDArray[Any]:
    """Return the ids to predict, as text where the graph has text ids."""
    if listed is None:
        return graph.nodes
    if graph.ids.are_text:
        listed = np.array([str(value) for value in listed], dtype=object)
    try:
        graph.index_of(listed)
    except GraphError as error:
        raise GraphError(f"{file}: {error.quotable}") from error
    return listed  # type: ignore[no-any-return]


def _predicted(
    clf: "NodeClassifier",
    ids: NDArray[Any],
    graph: Graph | None,
    quick: bool,
    every: bool,
    cluster: str | None,
) -> tuple[list[str], list[Any]]:
    """Return names and values of the columns."""
    probabilities = clf.predict_proba(ids, graph=graph, quick=quick, cluster=cluster)
    best = probabilities.argmax(axis=1)
    names = ["node", "label", "probability"]
    columns = [ids, clf.classes_[best], probabilities[np.arange(len(best)), best]]
    if every:
        names += [f"probability_{name}" for name in clf.classes_.tolist()]
        columns += list(probabilities.T)
    return names, columns


def _write_csv(stream: TextIO, names: list[str], columns: list[Any]) -> None:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(names)
    cells = [
        [f"{value:.6g}" for value in column.tolist()] if column.dtype.kind == "f" and at > 1
        else column.tolist()
        for at, column in enumerate(columns)
    ]  # fmt: skip
    for start in range(0, len(cells[0]), 100_000):
        writer.writerows(zip(*(column[start : start + 100_000] for column in cells), strict=True))
        stream.write(text.getvalue())
        text.seek(0)
        text.truncate()
    stream.write(text.getvalue())
    stream.flush()


def _need_pyarrow(output: Path) -> None:
    try:
        import pyarrow.parquet  # noqa: F401
    except ImportError as error:
        raise DhilgtError(
            f"{output} is Parquet, which needs pyarrow; install dhilgt[io]"
        ) from error


def _write_parquet(path: Path, names: list[str], columns: list[Any]) -> None:
    import pyarrow
    import pyarrow.parquet

    arrays = [pyarrow.array(column.tolist() if column.dtype.kind in "OU" else column)
              for column in columns]  # fmt: skip
    pyarrow.parquet.write_table(pyarrow.Table.from_arrays(arrays, names=names), path)
