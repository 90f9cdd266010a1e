"""The graph in rank space, as files that all workers map."""

import hashlib
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dhilgt.errors import ArtifactError, GraphError
from dhilgt.graph.graph import Graph
from dhilgt.graph.node_ids import NodeIds
from dhilgt.labels.orders import order_name, ranking
from dhilgt.store.artifact import Artifact, ArtifactWriter

KIND = "ranked-graph"
FORMAT = 1
READ_AHEAD = 16  # zeros after the last target: loops that prefetch read that far

Arcs = tuple[NDArray[np.uint64], NDArray[np.uint32]]  # offsets by rank, neighbours ascending


class RankedGraphFiles:
    """A graph with its nodes renumbered by importance, in mapped files.

    Sending it to another process sends the path alone.

    Attributes:
        folder: Where the files are.
        num_nodes: Number of nodes.
        num_arcs: Number of arcs of one direction.
        directed: Whether distances depend on the direction.
        order: Node index of each rank.
        order_name: Name of the order.
        ids: The nodes' ids.
        graph_fingerprint: Fingerprint of the graph.

    Example:
        >>> import tempfile
        >>> folder = tempfile.mkdtemp() + "/ranked"
        >>> files = write_ranked_graph(Graph.from_edges([0, 1, 2], [1, 2, 3]), None, folder)
        >>> files
        RankedGraphFiles(nodes=4, arcs=6)
    """

    def __init__(self, artifact: Artifact) -> None:
        params = artifact.params
        self.folder = artifact.path
        self.num_nodes: int = params["num_nodes"]
        self.directed: bool = params["directed"]
        self.order_name: str | None = params["order"]
        self.graph_fingerprint = artifact.fingerprint
        self.order: NDArray[np.uint32] = artifact.array("order", mmap=False)
        arrays = {
            name: artifact.array(name, mmap=False)
            for name in artifact.names
            if name.startswith("ids")
        }
        self.ids = NodeIds.from_arrays(arrays, self.num_nodes)
        # The directions in which a search goes on: from a hub to the nodes that it reaches
        # ("forward", entries of the in-labels) or to those that reach it.
        self.forward: Arcs = artifact.array("out_offsets"), artifact.array("out_targets")
        self.backward: Arcs = self.forward
        if self.directed:
            self.backward = artifact.array("in_offsets"), artifact.array("in_targets")
        self._check()

    @classmethod
    def open(cls, folder: "str | PathLike[str]") -> "RankedGraphFiles":
        """Map the files that `write_ranked_graph` wrote.

        Args:
            folder: The folder.

        Raises:
            ArtifactError: If they are not complete.
        """
        return cls(Artifact.open(folder, kind=KIND, max_format=FORMAT))

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of graph and order, which all units of a build must share."""
        digest = hashlib.sha256(self.graph_fingerprint.encode())
        digest.update(self.order.astype("<u4", copy=False).tobytes())
        return digest.hexdigest()

    @property
    def num_arcs(self) -> int:
        """Number of arcs of one direction."""
        return len(self.forward[1]) - READ_AHEAD

    @property
    def sides(self) -> tuple[str, ...]:
        """The label sets: "in", and "out" if the graph is directed."""
        return ("in", "out") if self.directed else ("in",)

    def _check(self) -> None:
        for offsets, targets in (self.forward, self.backward):
            fits = offsets.shape == (self.num_nodes + 1,) and targets.dtype == np.uint32
            if not fits or len(targets) != int(offsets[-1]) + READ_AHEAD:
                raise ArtifactError(f"{self.folder}: the arcs do not fit the nodes; write it again")

    def __reduce__(self) -> Any:
        return RankedGraphFiles.open, (str(self.folder),)

    def __repr__(self) -> str:
        kind = ", directed" if self.directed else ""
        return f"RankedGraphFiles(nodes={self.num_nodes}, arcs={self.num_arcs}{kind})"


def write_ranked_graph(
    graph: Graph,
    order: Any,
    folder: "str | PathLike[str]",
    *,
    seed: int = 0,
    overwrite: bool = False,
) -> RankedGraphFiles:
    """Write a graph in rank space and return its mapped files.

    Args:
        graph: The graph.
        order: As for `HubLabels.build`.
        folder: The folder to create.
        seed: Seed of the orders "closeness" and "random".
        overwrite: Replace an older one.

    Raises:
        GraphError: If the graph has no nodes, or the order does not list each node once.
    """
    if graph.num_nodes == 0:
        raise GraphError("the graph has no nodes; labels need at least one")
    node_at = ranking(graph, order, seed)
    params = {
        "num_nodes": graph.num_nodes,
        "directed": graph.directed,
        "order": order_name(order),
    }
    with ArtifactWriter(
        folder,
        kind=KIND,
        format_version=FORMAT,
        params=params,
        fingerprint=graph.fingerprint,
        overwrite=overwrite,
    ) as writer:
        writer.write_array("order", node_at)
        for name, array in graph.ids.to_arrays().items():
            writer.write_array(name, array)
        sides = [("out", graph.offsets, graph.targets)]
        if graph.directed:
            sides.append(("in", graph.in_offsets, graph.in_targets))
        for name, offsets, targets in sides:
            ranked_offsets, ranked_targets = _ranked(offsets, targets, node_at)
            writer.write_array(f"{name}_offsets", ranked_offsets)
            writer.write_array(f"{name}_targets", ranked_targets)
    return RankedGraphFiles.open(Path(folder))


def _ranked(
    offsets: NDArray[np.int64], targets: NDArray[np.int32], node_at: NDArray[np.uint32]
) -> Arcs:
    rank_of = np.empty(len(node_at), np.uint32)
    rank_of[node_at] = np.arange(len(node_at), dtype=np.uint32)
    counts = np.diff(offsets)[node_at]
    ranked_offsets = np.concatenate([[0], np.cumsum(counts)])
    take = np.repeat(offsets[:-1][node_at] - ranked_offsets[:-1], counts)
    take += np.arange(ranked_offsets[-1])
    rows = np.repeat(np.arange(len(node_at), dtype=np.uint64), counts)
    ends = rows << np.uint64(32) | rank_of[targets[take]]
    ends.sort()  # by row, then neighbour
    ranked_targets = np.zeros(len(ends) + READ_AHEAD, np.uint32)
    ranked_targets[: len(ends)] = ends  # the lower half
    return ranked_offsets.astype(np.uint64), ranked_targets
