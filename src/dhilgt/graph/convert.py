"""Conversion from and to SciPy, NetworkX and PyG; each is imported only when it is used."""

from typing import TYPE_CHECKING, Any

import numpy as np

from dhilgt.errors import GraphError
from dhilgt.graph import checks, node_attributes
from dhilgt.graph.feature_columns import FeatureColumns
from dhilgt.graph.graph import Graph
from dhilgt.utils.checks import as_array

if TYPE_CHECKING:
    import networkx
    import scipy.sparse


def creation_hint(thing: Any) -> str:
    """Return which method makes a graph of what was passed to `Graph` itself."""
    text = isinstance(thing, (str, bytes))
    if text or hasattr(thing, "__fspath__"):
        return "Graph.read(path)"
    if hasattr(thing, "edge_index"):
        return "Graph.from_pyg(data)"
    if hasattr(thing, "is_directed"):
        return "Graph.from_networkx(graph)"
    if hasattr(thing, "tocoo"):
        return "Graph.from_scipy(matrix)"
    if hasattr(thing, "columns"):
        return 'Graph.from_edges(table["source"], table["target"])'
    shape = np.shape(as_array(thing)) if isinstance(thing, (list, tuple)) else np.shape(thing)
    if len(shape) == 2 and shape[0] == 2:
        return "Graph.from_edge_index(edge_index)"
    if len(shape) == 2 and shape[1] == 2:
        return "Graph.from_edges(*zip(*pairs))"
    return "Graph.from_edges(src, dst)"


def from_scipy(matrix: Any, *, weights: Any = None, **options: Any) -> Graph:
    """See `Graph.from_scipy`."""
    if not hasattr(matrix, "tocoo"):
        raise GraphError(
            f"a {type(matrix).__name__} is not a SciPy sparse matrix; "
            "for a dense one pass scipy.sparse.csr_array(matrix)"
        )
    if len(matrix.shape) != 2 or matrix.shape[0] != matrix.shape[1]:
        raise GraphError(f"the matrix has shape {matrix.shape}; an adjacency matrix is square")
    coo = matrix.tocoo()
    rows, columns, values = coo.row, coo.col, coo.data
    if not values.all():
        rows, columns, values = rows[values != 0], columns[values != 0], values[values != 0]
    checks.weights(values, weights, "matrix.data")
    return Graph.from_edges(rows, columns, num_nodes=matrix.shape[0], **options)


def from_networkx(graph: Any, *, weights: Any = None, **options: Any) -> Graph:
    """See `Graph.from_networkx`."""
    if not hasattr(graph, "is_directed") or not hasattr(graph, "edges"):
        raise GraphError(f"a {type(graph).__name__} is not a NetworkX graph")
    if weights != "ignore":
        checks.weights(None, weights, "weights")
        for u, v, weight in graph.edges(data="weight", default=1):
            if weight != 1:
                checks.refuse_weights(f"edge ({u!r}, {v!r}) has weight {weight!r}")
    nodes = dict(graph.nodes(data=True))
    columns: FeatureColumns | None = None
    if node_attributes.are_names(options.get("features")):
        source = "the attributes of the nodes"
        attributes = node_attributes.feature_columns(nodes, options["features"])
        columns = FeatureColumns.fit(attributes, source=source)
        options["features"] = columns.encode(attributes, source)
    if isinstance(options.get("labels"), str):
        options["labels"] = node_attributes.classes(nodes, options["labels"])
    node_ids = _ids_of(list(nodes))
    at = {node: i for i, node in enumerate(nodes)}
    pairs = np.array([(at[u], at[v]) for u, v in graph.edges()], dtype=np.int64).reshape(-1, 2)
    directed = graph.is_directed()
    if not directed:  # both directions, so that no reverse edge counts as added
        pairs = np.concatenate([pairs, pairs[pairs[:, 0] != pairs[:, 1]][:, ::-1]])
    sources, targets = node_ids[pairs[:, 0]], node_ids[pairs[:, 1]]
    made = Graph.from_edges(sources, targets, nodes=node_ids, directed=directed, **options)
    if columns is None:
        return made
    return made.with_nodes(feature_columns=columns, notes=tuple(columns.table_rows(source)))


def _ids_of(nodes: list[Any]) -> checks.IdArray:
    whole = all(isinstance(n, (int, np.integer)) and not isinstance(n, bool) for n in nodes)
    if whole or all(isinstance(node, str) for node in nodes):
        return checks.node_list(np.array(nodes, dtype=None if whole else object))
    node_of: dict[str, Any] = {}
    for node in nodes:
        other = node_of.setdefault(str(node), node)
        if other is not node:
            raise GraphError(
                f"nodes {other!r} and {node!r} would both be named {str(node)!r}; "
                "rename them with networkx.relabel_nodes"
            )
    return checks.node_list(np.array(list(node_of), dtype=object))


def from_pyg(
    data: Any,
    split: int = 0,
    *,
    directed: bool = False,
    weights: Any = None,
    threads: int | None = None,
    classes: bool = True,
) -> Graph:
    """See `Graph.from_pyg`; with ``classes=False`` y and masks are left out."""
    edges = getattr(data, "edge_index", None)
    if edges is None or hasattr(data, "edge_types"):
        raise GraphError(_no_edges(data))
    checks.weights(getattr(data, "edge_weight", None), weights, "edge_weight")
    x = getattr(data, "x", None)
    graph = Graph.from_edge_index(
        edges,
        data.num_nodes,
        directed=directed,
        features=_sparse_features(x) if x is not None and getattr(x, "is_sparse", False) else x,
        threads=threads,
    )
    if not classes:
        return graph
    y = getattr(data, "y", None)
    graphs = int(getattr(data, "num_graphs", 1) or 1)
    if y is not None and as_array(y).shape[:1] == (graphs,) != (graph.num_nodes,):
        raise GraphError(
            f"y has one class for each of {graphs} graph{'s' if graphs > 1 else ''}, not for each "
            f"of the {graph.num_nodes:,} nodes; this package classifies nodes"
        )
    return graph.with_data(labels=y, masks=_pyg_masks(data, split, graph.num_nodes) or None)


def _no_edges(data: Any) -> str:
    if getattr(data, "adj_t", None) is not None:
        return (
            f"{type(data).__name__} has adj_t in place of edge_index; pass the data as it was "
            "before ToSparseTensor"
        )
    return (
        f"{type(data).__name__} has no edge_index; pass a torch_geometric.data.Data "
        "(for heterogeneous data its to_homogeneous())"
    )


def _pyg_masks(data: Any, split: int, num_nodes: int) -> dict[str, Any]:
    """Return the masks of a `Data` by part: booleans, or indices as in ``train_idx``."""
    masks = {}
    for part in checks.MASK_NAMES:
        also = ("valid",) if part == "val" else ()
        names = (f"{word}_{kind}" for word in (part, *also) for kind in ("mask", "idx", "index"))
        for name in names:
            value = getattr(data, name, None)
            if value is not None:
                masks[part] = _one_split(as_array(value), split, name, num_nodes)
                break
    return masks


def _one_split(mask: Any, split: int, name: str, num_nodes: int) -> Any:
    if mask.dtype == np.uint8 and len(mask) == num_nodes:  # the masks of older PyG
        mask = mask.astype(np.bool_)
    if mask.ndim == 1:
        if split != 0:
            raise GraphError(f"split={split}, but {name} has only one split; pass split=0")
        return mask
    if mask.ndim != 2 or not 0 <= split < mask.shape[1]:
        raise GraphError(
            f"split={split}, but {name} has splits 0 to {mask.shape[1] - 1}; pass one of them"
            if mask.ndim == 2
            else f"{name} has shape {mask.shape}; pass (nodes,) or (nodes, splits)"
        )
    return mask[:, split]


def _sparse_features(x: Any) -> Any:
    import scipy.sparse

    x = x.coalesce()
    rows, columns = x.indices().cpu().numpy()
    return scipy.sparse.csr_matrix(
        (x.values().cpu().numpy(), (rows, columns)), shape=tuple(x.shape)
    )


def to_scipy(graph: Graph) -> "scipy.sparse.csr_array":
    """See `Graph.to_scipy`."""
    import scipy.sparse

    ones = np.ones(graph.num_edges, dtype=np.float32)
    shape = (graph.num_nodes, graph.num_nodes)
    return scipy.sparse.csr_array((ones, graph.targets, graph.offsets), shape=shape, copy=True)


def to_networkx(graph: Graph) -> "networkx.Graph":
    """See `Graph.to_networkx`."""
    import networkx

    sources, targets = graph.to_edge_index()
    if not graph.directed:
        forward = sources < targets
        sources, targets = sources[forward], targets[forward]
    converted = networkx.DiGraph() if graph.directed else networkx.Graph()
    converted.add_nodes_from(graph.nodes.tolist())
    pairs = zip(graph.ids_of(sources).tolist(), graph.ids_of(targets).tolist(), strict=True)
    converted.add_edges_from(pairs)
    return converted


def to_pyg(graph: Graph, sparse: bool = False) -> Any:
    """See `Graph.to_pyg`."""
    try:
        import torch
        from torch_geometric.data import Data
    except ImportError as error:
        raise ImportError(
            f"Graph.to_pyg needs torch and torch_geometric ({error}); install them with "
            "pip install 'dhilgt[pyg]'"
        ) from error

    data = Data(edge_index=torch.from_numpy(graph.to_edge_index()), num_nodes=graph.num_nodes)
    x = graph.features
    if x is not None and hasattr(x, "tocoo") and sparse:
        coo = x.tocoo()
        positions = torch.from_numpy(np.stack([coo.row, coo.col]).astype(np.int64))
        values = torch.from_numpy(coo.data.copy())
        data.x = torch.sparse_coo_tensor(positions, values, coo.shape, check_invariants=False)
    elif x is not None:
        data.x = torch.from_numpy(x.toarray() if hasattr(x, "toarray") else x.copy())
    if graph.labels is not None:
        data.y = torch.from_numpy(graph.labels.copy())
    for name, mask in (graph.masks or {}).items():
        data[f"{name}_mask"] = torch.from_numpy(mask.copy())
    return data
