"""Labels in parts, opened for reading rows alone: nothing of them is held in memory."""

from dataclasses import dataclass
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dhilgt.errors import ArtifactError
from dhilgt.labels.packed import PackedLabelRows
from dhilgt.labels.sharded_store import FORMAT, KIND, PackedParts, holder_parts, label_parts
from dhilgt.store.artifact import Artifact

_SCAN = 1 << 22  # ranks looked at in one step


@dataclass(frozen=True)
class MappedRows:
    """Packed labels and inverted labels by rank, mapped, with the node at each rank.

    `HubLabels` holds the order, the ranks and the ids of all nodes in memory, which many worker
    processes of one machine cannot each do for a very large graph.

    Attributes:
        num_nodes: Nodes of the graph.
        num_entries: Label entries in all.
        directed: Whether there are two label sets.
        bounded: Whether the labels end at a radius.
        node_at: Node index at each rank, mapped.
        labels: Rows of labels.
        holders: Rows of inverted labels.
    """

    num_nodes: int
    num_entries: int
    directed: bool
    bounded: bool
    node_at: NDArray[np.uint32]
    labels: PackedParts
    holders: PackedParts

    @classmethod
    def open(cls, path: "str | PathLike[str]") -> "MappedRows":
        """Open labels in parts; their bytes are not checked (see `HubLabels.check_files`).

        Args:
            path: The folder.

        Raises:
            ArtifactError: If it does not hold complete labels in parts.
        """
        artifact = Artifact.open(path, kind=KIND, max_format=FORMAT)
        labels, holders = (parts(artifact, check=False) for parts in (label_parts, holder_parts))
        num_nodes, params = labels.bounds[-1], artifact.params
        order = artifact.array("order", check=False)
        if order.shape != (num_nodes,) or order.dtype != np.uint32:
            raise ArtifactError(f"{artifact.path}: order does not list {num_nodes} nodes")
        return cls(
            num_nodes=num_nodes,
            num_entries=int(params["num_entries"]),
            directed=params["directed"] is True,
            # As in `HubLabels.radius`: a radius that leaves nothing out is none.
            bounded=params.get("radius", params["max_distance"] + 1) <= params["max_distance"],
            node_at=order,
            labels=labels,
            holders=holders,
        )

    def packed_rows(self, ranks: NDArray[Any], side: str) -> PackedLabelRows:
        """Return the packed labels of some ranks.

        Args:
            ranks: Ranks, in any order.
            side: "in" or "out".
        """
        return self.labels.rows_of(ranks, ("in", "out").index(side))

    def packed_holders(self, ranks: NDArray[Any], side: str) -> PackedLabelRows:
        """Return the packed inverted labels of some ranks.

        Args:
            ranks: Ranks, in any order.
            side: "in" or "out".
        """
        return self.holders.rows_of(ranks, ("in", "out").index(side))

    def ranks_of(self, nodes: NDArray[np.integer[Any]]) -> NDArray[np.uint32]:
        """Return the ranks of nodes, found by reading the order once instead of inverting it.

        Args:
            nodes: Node indices, few of all or close to each other.

        Raises:
            ArtifactError: If the order does not list one of them.
        """
        if len(nodes) == 0:
            return np.empty(0, np.uint32)
        wanted, places = np.unique(nodes, return_inverse=True)
        ranks = np.full(len(wanted), self.num_nodes, np.uint32)
        for start in range(0, self.num_nodes, _SCAN):
            here = self.node_at[start : start + _SCAN]
            near = np.flatnonzero((here >= wanted[0]) & (here <= wanted[-1]))
            at = np.searchsorted(wanted, here[near])
            found = wanted[at] == here[near]
            ranks[at[found]] = start + near[found]
        missing = np.flatnonzero(ranks == self.num_nodes)
        if missing.size:
            raise ArtifactError(
                f"the order of the labels does not list node {wanted[missing[0]]}; build again"
            )
        of_each: NDArray[np.uint32] = ranks[places]
        return of_each
