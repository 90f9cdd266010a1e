"""Token rows of one slot, the node itself: for models without a Transformer."""

from typing import Any

import numpy as np

from dhilgt.graph.graph import Graph
from dhilgt.tokens.sampler import PackedRows, TokenRows, TokenSampler, checked_nodes
from dhilgt.tokens.spec import TokenSpec
from dhilgt.tokens.tokens import Tokens


class SingleRows:
    """Rows that hold their node alone; they need no hub labels.

    Args:
        graph: The graph.

    Example:
        >>> rows = SingleRows(Graph.from_edges([0, 1], [1, 2])).rows([2, 0])
        >>> rows.ids.tolist(), rows.spd.tolist()
        ([[2], [0]], [[[0]], [[0]]])
    """

    copies = 1
    spec = TokenSpec(size=1)
    radius = None

    def __init__(self, graph: Graph) -> None:
        self.num_nodes = graph.num_nodes
        self.directed = graph.directed
        self.graph_fingerprint = graph.fingerprint

    def rows(self, nodes: Any, copy: int = 0) -> TokenRows:
        """Return the rows of nodes.

        Args:
            nodes: Node indices.
            copy: Any number; all copies are the same.
        """
        ids = self.packed_rows(nodes, copy).ids
        return TokenRows(ids, np.zeros((len(ids), 1, 1), np.uint8))

    def packed_rows(self, nodes: Any, copy: int = 0) -> PackedRows:
        """Return the rows of nodes, as stored tokens and a sampler do.

        Args:
            nodes: Node indices.
            copy: Any number; all copies are the same.
        """
        ids = checked_nodes(nodes, self.num_nodes).astype(np.int32)[:, None]
        count = len(ids)
        return PackedRows(ids, np.zeros((count, 0), np.uint8), np.zeros((count, 2), np.uint16))

    def __repr__(self) -> str:
        return f"SingleRows(nodes={self.num_nodes})"


TokenSource = Tokens | TokenSampler | SingleRows
"""Where a loader's rows come from."""
