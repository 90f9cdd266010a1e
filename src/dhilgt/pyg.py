"""Tokens for PyTorch Geometric: a transform that adds them to a `Data`.

This module needs torch and torch_geometric (``pip install 'dhilgt[pyg]'``); the rest of the
package does not, and does not import it.
"""

import copyreg
from functools import cache
from typing import Any

import numpy as np

from dhilgt.errors import GraphError
from dhilgt.graph import checks
from dhilgt.graph.graph import Graph
from dhilgt.labels.hub_labels import HubLabels
from dhilgt.labels.radius import checked_radius
from dhilgt.tokens.sampler import TokenSampler
from dhilgt.tokens.spec import TokenSpec
from dhilgt.utils.checks import num_threads, whole_number

try:
    import torch
    from torch_geometric.data import Batch, Data
    from torch_geometric.data.datapipes import functional_transform
    from torch_geometric.transforms import BaseTransform
except ImportError as error:
    raise ImportError(
        f"dhilgt.pyg needs torch and torch_geometric ({error}); install them with "
        "pip install 'dhilgt[pyg]'"
    ) from error

_MOST_COPIES = 1 << 20


class _HubTokens:
    """What a `Data` with tokens does beyond any other: a mixin, before the class of the data."""

    @property
    def token_ids(self) -> torch.Tensor:
        """The tokens of each node as indices of this data's nodes, -1 for padding."""
        if "token_ids" not in self._store:  # type: ignore[attr-defined]
            raise AttributeError(f"{type(self).__name__} has no token_ids")
        ids: torch.Tensor = self._store["token_ids"]  # type: ignore[attr-defined]
        _check_up_to_date(ids, int(self.num_nodes))  # type: ignore[attr-defined]
        graph = self._store.get("batch") if isinstance(self, Batch) else None
        if graph is None:
            return ids
        # Batching adds the number of earlier nodes to all ids, padding included.
        first = torch.searchsorted(graph, graph).view(-1, *[1] * (ids.dim() - 1))
        return torch.where(ids < first, -1, ids)

    @token_ids.setter
    def token_ids(self, ids: torch.Tensor) -> None:
        self._store["token_ids"] = ids  # type: ignore[attr-defined]

    def __getitem__(self, key: Any) -> Any:
        return self.token_ids if key == "token_ids" else super().__getitem__(key)  # type: ignore[misc]

    def __inc__(self, key: str, value: Any, *args: Any, **kwargs: Any) -> Any:
        """Return what batching adds to the values of the next graph."""
        if key == "token_ids":
            return self.num_nodes  # type: ignore[attr-defined]
        return super().__inc__(key, value, *args, **kwargs)  # type: ignore[misc]


class _TokenDataType(type(Data)):  # type: ignore[misc]
    """The type of classes made for a user's own kind of `Data`; pickled by that class."""


class HubTokenData(_HubTokens, Data):  # type: ignore[misc]
    """A PyG `Data` with tokens, as `AddHubTokens` returns it.

    Its ``token_ids`` are indices of its own nodes, in a `Batch` too. Once nodes were removed,
    added or reordered, they are refused: the tokens of another graph are other tokens.

    Example:
        >>> from torch_geometric.data import Batch, Data
        >>> path = Data(edge_index=torch.tensor([[0, 1], [1, 2]]), num_nodes=3)
        >>> data = AddHubTokens(size=3)(path)
        >>> Batch.from_data_list([data, data]).token_ids[3:].tolist()
        [[3, 4, -1], [4, 5, -1], [5, 4, -1]]
        >>> data.subgraph(torch.tensor([1, 2])).token_ids  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        dhilgt.errors.GraphError: token_ids were made for other nodes than this data has: ...
    """


# `torch.load` with weights_only=True, which PyG's datasets use, then reads it without a warning.
torch.serialization.add_safe_globals([HubTokenData])


@cache
def _token_class(kind: Any) -> type:
    """Return the class of data with tokens for a class of data without."""
    if kind is Data:
        return HubTokenData
    return _TokenDataType(f"HubToken{kind.__name__}", (_HubTokens, kind), {"_without": kind})


def _reduced(kind: Any) -> tuple[Any, tuple[type]]:
    return _token_class, (kind._without,)


copyreg.pickle(_TokenDataType, _reduced)


def _check_up_to_date(ids: torch.Tensor, num_nodes: int) -> None:
    """Raise unless row i has the tokens of node i, all of them among the nodes."""
    egos = ids.flatten(1)[:, 0]
    nodes = torch.arange(num_nodes, device=ids.device)
    largest = int(ids.max()) if len(ids) else -1
    if torch.equal(egos, nodes) and largest < num_nodes:
        return
    raise GraphError(
        "token_ids were made for other nodes than this data has: nodes were removed, added or "
        f"reordered since (it has {num_nodes:,} nodes, the tokens name node {largest:,}); "
        "apply AddHubTokens after that step, for a loader of subgraphs as its transform="
    )


@functional_transform("add_hub_tokens")
class AddHubTokens(BaseTransform):  # type: ignore[misc, unused-ignore]
    """Add a row of tokens to every node of a `Data` (functional name: ``add_hub_tokens``).

    The result has

    - ``token_ids``, [N, size] int64: the node itself, then hubs, holders and padding (-1). As
      int64 they index tensors, as in ``data.x[data.token_ids]``; mask or clamp the padding first.
    - ``token_spd``, [N, size, size] uint8: distances of all pairs, row = source: 0 to 253 exact,
      254 far, 255 no path or padding. With ``packed=True`` it is [N, pairs] instead; see
      `dhilgt.PackedRows`.

    With ``copies`` above 1 a dimension follows the first: [N, copies, size] and so on. The rows are
    those that `Tokens` and `TokenSampler` draw from the same graph and settings. All rows are kept
    in the `Data`, about 1.3 kB a node at size 32, 0.75 kB packed; where that is too much, store
    `Tokens` on disk, or draw rows per batch with a `TokenSampler`.

    The result is a `HubTokenData`: a `Batch` of several renumbers `token_ids`, and after a step
    that removes, adds or reorders nodes (`subgraph`, `NeighborLoader`, `RemoveIsolatedNodes`)
    reading them is an error. Distances are of the edges that the data had at this step: what
    changes edges belongs before it.

    Args:
        size: Slots of a row, the node's own included.
        num_out: Hubs to draw; half of the slots when None.
        num_in: Holders to draw; the rest when None.
        out_exponent: A hub at distance d has weight d ** out_exponent.
        in_exponent: A holder at distance d has weight d ** in_exponent.
        copies: Rows to draw per node.
        seed: Seed of all draws.
        spill: Give slots that one side cannot use to the other.
        fill: "neighbors" gives slots still free to neighbours not drawn.
        directed: Keep the direction of the edges; otherwise missing reverse edges are added.
        radius: Keep hubs within this distance, on graphs whose full labels are too large; "auto"
            for the largest that fits the memory. Pairs of nodes that share no hub are then "far".
        threads: Threads to use; None for every core.
        packed: Keep distances packed, in half the bytes.
        weights: A `Data` with an `edge_weight` other than ones is refused, since distances count
            edges; "ignore" counts every edge as one hop.

    Example:
        >>> from torch_geometric.data import Data
        >>> edge_index = torch.tensor([[0, 1, 2], [1, 2, 3]])
        >>> data = AddHubTokens(size=4)(Data(edge_index=edge_index, num_nodes=4))
        >>> data.token_ids[3].tolist(), data.token_spd[3, 0].tolist()
        ([3, 2, 1, -1], [0, 1, 2, 255])
    """

    def __init__(
        self,
        size: int = 32,
        num_out: int | None = None,
        num_in: int | None = None,
        out_exponent: float = -1.0,
        in_exponent: float = -1.0,
        *,
        copies: int = 1,
        seed: int = 0,
        spill: bool = False,
        fill: str | None = None,
        directed: bool = False,
        radius: int | str | None = None,
        threads: int | None = None,
        packed: bool = False,
        weights: str | None = None,
    ) -> None:
        self.spec = TokenSpec(
            size=size,
            num_out=num_out,
            num_in=num_in,
            out_exponent=out_exponent,
            in_exponent=in_exponent,
            seed=seed,
            spill=spill,
            fill=fill,
        )
        self.copies = whole_number("copies", copies, 1, _MOST_COPIES)
        num_threads(threads)  # refused here rather than in the middle of a pipeline
        self.directed = directed
        self.radius = checked_radius(radius)
        self.threads = threads
        self.packed = packed
        self.weights = weights

    def forward(self, data: Data) -> Data:
        """Return the data with ``token_ids`` and ``token_spd``.

        Args:
            data: One graph with an `edge_index`. Loops and repeated edges are ignored.

        Raises:
            GraphError: If there is no `edge_index`, no node, or an edge to an index without a node.
        """
        labels = HubLabels.build(
            self._graph(data), radius=self.radius, threads=self.threads, progress=False
        )
        sampler = TokenSampler(labels, threads=self.threads, progress=False, **self.spec.to_dict())
        nodes = np.arange(labels.num_nodes)
        rows: list[tuple[Any, Any]] = []
        for copy in range(self.copies):
            drawn = sampler.packed_rows(nodes, copy) if self.packed else sampler.rows(nodes, copy)
            rows.append((torch.from_numpy(drawn.ids).long(), torch.from_numpy(drawn.spd)))
        if not isinstance(data, (Batch, _HubTokens)):
            # `data` is a copy of what the user has; its own setattr would store an attribute.
            kind: Any = type(data)
            object.__setattr__(data, "__class__", _token_class(kind))
        if self.copies == 1:
            data.token_ids, data.token_spd = rows[0]
        else:
            data.token_ids = torch.stack([ids for ids, _ in rows], dim=1)
            data.token_spd = torch.stack([spd for _, spd in rows], dim=1)
        return data

    def _graph(self, data: Data) -> Graph:
        edges = getattr(data, "edge_index", None)
        if edges is None or hasattr(data, "edge_types"):
            raise GraphError(
                f"{type(data).__name__} has no edge_index; pass a torch_geometric.data.Data "
                "(for heterogeneous data its to_homogeneous())"
            )
        checks.weights(getattr(data, "edge_weight", None), self.weights, "edge_weight")
        # Only the structure is used: features, classes and masks may be of any kind here.
        return Graph.from_edge_index(
            edges, data.num_nodes, directed=self.directed, threads=self.threads
        )

    def __repr__(self) -> str:
        copies = f", copies={self.copies}" if self.copies > 1 else ""
        return (
            f"{type(self).__name__}(size={self.spec.size}, num_out={self.spec.num_out}, "
            f"num_in={self.spec.num_in}{copies})"
        )
