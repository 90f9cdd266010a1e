"""`dhilgt inspect`: the content of a folder on disk, or the differences of two.

A kind of artifact is described by one function, from the opened artifact to a `Report`; add it to
`KINDS` under the kind's name. A kind without one gets the listing that all of them get.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray

from dhilgt.cli import compare, inspect_runs, shell
from dhilgt.graph import store as graph_store
from dhilgt.labels import sharded_store
from dhilgt.labels import store as labels_store
from dhilgt.labels.hub_labels import HubLabels
from dhilgt.store.artifact import Artifact
from dhilgt.tokens import store as tokens_store
from dhilgt.tokens.stats import token_stats
from dhilgt.tokens.tokens import Tokens
from dhilgt.utils.memory import format_bytes
from dhilgt.utils.progress import progress_bar

_MOST_NODES = 200_000  # labels are decoded one by one; more would take many seconds
_MOST_BARS = 40


@dataclass
class Report:
    """The description of an artifact.

    Attributes:
        facts: Plain values, for --json.
        rows: Names and values, for people.
        lines: Text after the rows.
    """

    facts: dict[str, Any] = field(default_factory=dict)
    rows: list[tuple[str, str]] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)


def run(
    path: Annotated[
        Path,
        typer.Argument(
            metavar="PATH", help="Folder that a dhilgt command wrote: a run, labels, tokens, ..."
        ),
    ],
    other: Annotated[
        Path | None,
        typer.Argument(metavar="OTHER", help="A second one of its kind, to compare with."),
    ] = None,
    verify: Annotated[
        bool, typer.Option("--verify", help="Read every byte and compare the checksums.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Show what a run or a saved artifact holds, or how two of them differ.

    All bytes of up to 100 MB are checked; of more, all with --verify, else those that are read.

    \b
    Example:
      dhilgt inspect runs/mine
      dhilgt inspect runs/mine runs/other
      dhilgt inspect web.labels --verify
    """  # noqa: D301 - \b keeps the example's lines apart
    report = described(path, verify=verify)
    if other is not None:
        facts = compare.compared(report.facts, described(other, verify=verify).facts)
        if as_json:
            shell.print_json(facts)
        else:
            for line in compare.lines_of(facts):
                typer.echo(line)
        return
    if as_json:
        shell.print_json(report.facts)
        return
    shell.print_table(report.rows)
    for line in report.lines:
        typer.echo(line)


def described(path: Path, *, verify: bool) -> Report:
    """Return the description of a folder.

    Args:
        path: The folder.
        verify: Read every byte and compare it with the checksums.

    Raises:
        ArtifactError: If it is damaged, or holds nothing of ours.
    """
    facts = inspect_runs.facts_of(path, verify=verify)
    if facts is None:
        return _artifact(path, verify=verify)
    rows, lines = inspect_runs.lines_of(facts)
    return Report(facts | {"verified": verify}, rows, lines)


def _artifact(path: Path, *, verify: bool) -> Report:
    artifact = Artifact.open(path)
    verify = verify or not artifact.is_large
    if verify:
        with progress_bar("verifying", unit="bytes") as update:
            artifact.verify(lambda done, total: update(done, total))
    report = KINDS.get(artifact.kind, _describe_any)(artifact)
    facts = {
        "path": str(path),
        "kind": artifact.kind,
        "format": artifact.format_version,
        "written_by": artifact.library_version,
        "graph_fingerprint": artifact.fingerprint,
        "bytes_on_disk": artifact.nbytes,
        "verified": verify,
        **report.facts,
    }
    rows = [
        ("kind", f"{artifact.kind}, format {artifact.format_version}"),
        ("written by", f"dhilgt {artifact.library_version}"),
        ("graph", artifact.fingerprint or "none"),
        *report.rows,
        ("checksums", "all bytes verified" if verify else "of a part (--verify reads all)"),
    ]
    return Report(facts, rows, report.lines)


def _describe_any(artifact: Artifact) -> Report:
    arrays = {
        name: {"dtype": entry.dtype, "shape": list(entry.shape), "bytes": entry.nbytes}
        for name, entry in artifact.files.items()
    }
    rows = [(str(name), str(value)) for name, value in artifact.params.items()]
    rows.append(("on disk", format_bytes(artifact.nbytes)))
    lines = ["", "arrays"] + [
        f"  {name}: {entry.dtype} {list(entry.shape)}, {format_bytes(entry.nbytes)}"
        for name, entry in artifact.files.items()
    ]
    return Report({"params": artifact.params, "arrays": arrays}, rows, lines)


# ---- labels ------------------------------------------------------------------------------------


def _describe_labels(artifact: Artifact) -> Report:
    labels = HubLabels.load(artifact.path)
    sizes, all_nodes = _label_sizes(labels)
    histogram = labels.distance_histogram().tolist()
    per_entry = artifact.nbytes / labels.num_entries
    mean, median, largest = (
        labels.num_entries / labels.num_nodes,
        float(np.median(sizes)),
        int(sizes.max()),
    )
    facts: dict[str, Any] = {
        "nodes": labels.num_nodes,
        "directed": labels.directed,
        "exact": labels.exact,
        "ids": _kind_of_ids(labels),
        "order": labels.order_name,
        "entries": labels.num_entries,
        "entries_per_node": {"mean": mean, "median": median, "max": largest, "exact": all_nodes},
        "longest_distance": labels.max_distance,
        "bytes_per_entry": per_entry,
        "fingerprint": labels.fingerprint,
        "distance_histogram": histogram,
    }
    sample = "" if all_nodes else f" (median and max of {len(sizes):,} nodes)"
    rows = [
        ("labels", labels.fingerprint),
        ("nodes", f"{labels.num_nodes:,}, ids {facts['ids']}"),
        ("directed", "yes, two labels per node" if labels.directed else "no"),
        ("order", labels.order_name or "not noted (degree-id, unless another was asked for)"),
        ("entries", f"{labels.num_entries:,}"),
        ("entries per node", f"mean {mean:.1f}, median {median:g}, max {largest:,}{sample}"),
        ("longest distance", f"{labels.max_distance:,} in a label"),
        ("on disk", f"{format_bytes(artifact.nbytes)} ({per_entry:.2f} bytes per entry)"),
    ]
    if not labels.exact:
        facts["grown_from"] = labels.grown_from
        rows.insert(1, ("exact", f"no, grown from {labels.grown_from}: distances may be too long"))
    if all_nodes and not labels.directed and labels.exact:
        # The best ranked node of a connected part is a hub of all others in it; its own label has
        # one entry, itself.
        facts["components"] = int((sizes == 1).sum())
        rows.insert(3, ("connected parts", f"{facts['components']:,}"))
    if labels.is_sharded:
        facts["parts"] = labels.num_parts
        rows.append(("parts", f"{labels.num_parts:,}, with the holders of every hub"))
    return Report(facts, rows, ["", "entries by distance", *_histogram_lines(histogram)])


def _kind_of_ids(labels: HubLabels) -> str:
    if labels.ids.are_text:
        return "strings"
    return f"0 to {labels.num_nodes - 1}" if labels.ids.node_ids is None else "integers"


def _label_sizes(labels: HubLabels) -> tuple[NDArray[np.int64], bool]:
    """Return entries per node and whether all nodes are counted; both label sets if directed."""
    count = labels.num_nodes
    all_nodes = count <= _MOST_NODES
    chosen = np.arange(count)
    if not all_nodes:
        chosen = np.random.default_rng(0).choice(count, _MOST_NODES, replace=False)
    ids = labels.ids.ids_of(chosen).tolist()
    sizes = np.zeros(len(ids), np.int64)
    for side in ("in", "out") if labels.directed else ("out",):
        sizes += [len(labels.hubs(node, side=side)[1]) for node in ids]
    return sizes, all_nodes


def _histogram_lines(histogram: list[int]) -> list[str]:
    if len(histogram) <= _MOST_BARS:
        return shell.bars(histogram)
    shown = histogram[:_MOST_BARS]
    rest = sum(histogram[_MOST_BARS:])
    return [*shell.bars(shown), f"{_MOST_BARS} and more: {rest:,}"]


# ---- tokens ------------------------------------------------------------------------------------


def _describe_tokens(artifact: Artifact) -> Report:
    tokens = Tokens.load(artifact.path)
    stats = token_stats(tokens)
    settings = {
        **tokens.spec.to_dict(),
        "copies": tokens.copies,
        "bits": tokens.bits,
        "directed": tokens.directed,
    }
    facts = {
        **stats.to_dict(),
        "settings": settings,
        "labels_fingerprint": tokens.labels_fingerprint,
        "bytes_per_row": artifact.nbytes / max(1, stats.rows),
    }
    parts = [
        (
            name,
            f"{part.mean:.1f} a row ({part.least} to {part.most}), covering {part.covered:,} nodes",
        )
        for name, part in (("hubs", stats.hubs), ("holders", stats.holders))
    ]
    rows = [
        ("labels", tokens.labels_fingerprint),
        (
            "rows",
            f"{stats.rows:,}: {stats.num_egos:,} of {stats.num_nodes:,} nodes, {stats.copies} each",
        ),
        ("settings", ", ".join(f"{name} {value}" for name, value in settings.items())),
        ("slots", f"{stats.size} a row, {stats.fill_rate:.1%} filled, {stats.padding:.1%} padding"),
        *parts,
        (
            "on disk",
            f"{format_bytes(artifact.nbytes)} ({facts['bytes_per_row']:.0f} bytes per row)",
        ),
    ]
    if stats.neighbors:
        rows.append(("filler", f"{stats.neighbors:.1f} neighbours a row"))
    lines = ["", "pairs by distance", *_histogram_lines(list(stats.distances))]
    lines += [f"far: {stats.far:,} pairs"] if stats.far else []
    lines += [f"no path: {stats.unreachable:,} pairs"] if stats.unreachable else []
    return Report(facts, rows, lines)


# ---- graphs ------------------------------------------------------------------------------------


def _describe_graph(artifact: Artifact) -> Report:
    graph = graph_store.load_graph(artifact.path)
    channels = None if graph.features is None else int(graph.features.shape[1])
    known = 0 if graph.labels is None else int((graph.labels >= 0).sum())
    parts = {name: int(mask.sum()) for name, mask in (graph.masks or {}).items()}
    facts: dict[str, Any] = {
        "nodes": graph.num_nodes,
        "edges": graph.num_distinct_edges,
        "directed": graph.directed,
        "features": channels,
        "columns": None if graph.feature_columns is None else graph.feature_columns.kinds,
        "classes": graph.num_classes,
        "labelled_nodes": known,
        "masks": parts,
    }
    direction = "directed" if graph.directed else "undirected"
    rows = [
        ("nodes", f"{graph.num_nodes:,}"),
        ("edges", f"{facts['edges']:,}, {direction}"),
        ("features", "none" if channels is None else f"{channels:,} a node"),
        *inspect_runs.columns_row(facts["columns"]),
        ("classes", f"{graph.num_classes:,}, known of {known:,} nodes"),
        ("masks", ", ".join(f"{name} {count:,}" for name, count in parts.items()) or "none"),
        ("on disk", format_bytes(artifact.nbytes)),
    ]
    return Report(facts, rows)


KINDS: dict[str, Callable[[Artifact], Report]] = {
    graph_store.KIND: _describe_graph,
    labels_store.KIND: _describe_labels,
    sharded_store.KIND: _describe_labels,
    tokens_store.KIND: _describe_tokens,
}
