"""Write pictures and pages of a graph beside its label graph."""

from os import PathLike
from pathlib import Path

from dhilgt.errors import ArtifactError, ConfigError, GraphError
from dhilgt.graph.graph import Graph
from dhilgt.hierarchy.numbers import HierarchyNumbers
from dhilgt.hierarchy.page import check_size, page
from dhilgt.hierarchy.picture import draw
from dhilgt.hierarchy.scene import DrawOptions, Scene
from dhilgt.labels.hub_labels import HubLabels
from dhilgt.store.files import explained, write_file

ENDINGS = (".png", ".svg", ".html")


def plot_hierarchy(
    graph: Graph,
    *paths: str | PathLike[str],
    labels: HubLabels | None = None,
    layout: str = "own",
    color: str = "class",
    max_edges: int = 20_000,
    seed: int = 0,
    title: str | None = None,
    threads: int | None = None,
) -> HierarchyNumbers:
    """Draw a graph beside its label graph, and return statistics of both.

    The label graph has an edge from every node to each of its hubs. The same arguments give the
    same picture.

    Args:
        graph: With or without classes.
        *paths: Files to write, completely or not at all: .png, .svg, or .html for an interactive
            page that needs no other file. Without paths only the statistics are computed, and no
            package for pictures is needed.
        labels: The graph's hub labels; built when None.
        layout: "own" lays each graph out by itself; "shared" draws both at the positions of the
            raw graph.
        color: What dots are coloured by: "class" or "rank". A page can do both.
        max_edges: Largest number of edges to draw of each graph; of more, a uniform sample. The
            statistics count all edges.
        seed: Seed of the layout and of that sample.
        title: Heading, and the name in the statistics; the graph's name when None.
        threads: Threads for building the labels; all cores when None.

    Raises:
        ConfigError: If a file has another ending, or an option an unknown value.
        GraphError: If the graph has no nodes, is too large for a page, or a package is missing.
        ArtifactError: If a file cannot be written.

    Example:
        >>> ring = Graph.from_edges([0, 1, 2, 3], [1, 2, 3, 0])
        >>> plot_hierarchy(ring).label.edges
        5
    """
    files = [Path(path) for path in paths]
    for file in files:
        check_ending(file)
        if not file.parent.is_dir():
            raise ArtifactError(f"{file.parent} is not a folder; make it or choose another path")
    options = DrawOptions(layout, color, max_edges, seed, title)
    if labels is None:
        labels = HubLabels.build(graph, progress=False, threads=threads)
    elif labels.graph_fingerprint != graph.fingerprint:
        raise GraphError(
            "these labels were made from another graph; leave them out, or pass its own"
        )
    if any(file.suffix.lower() == ".html" for file in files):
        check_size(graph.num_nodes, labels.num_entries - graph.num_nodes)
    scene = Scene(graph, labels, options)
    for file in files:
        form = file.suffix.lower()[1:]
        content = page(scene).encode() if form == "html" else draw(scene, form)
        with explained("write", file):
            write_file(file, iter([memoryview(content)]))
    return scene.numbers


def check_ending(path: Path) -> None:
    """Raise an error if a file has an ending that cannot be written.

    Args:
        path: The file.

    Raises:
        ConfigError: If it has; the message lists the endings that can be written.
    """
    ending = path.suffix.lower()
    if ending not in ENDINGS:
        raise ConfigError(
            f"{path} ends with {ending or 'nothing'}; name it {', '.join(ENDINGS[:-1])} or "
            f"{ENDINGS[-1]}"
        )
