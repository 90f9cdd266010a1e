"""Inputs of training: what the user passed to `fit`, as a graph with classes and a split."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dhilgt.classifier.frames import declared_kinds, frame_columns, has_names
from dhilgt.classifier.graph_inputs import as_graph, is_graph
from dhilgt.datasets.splits import node_keys
from dhilgt.errors import GraphError, TrainingWarning, warn
from dhilgt.graph import checks, node_ids
from dhilgt.graph.feature_columns import FeatureColumns
from dhilgt.graph.graph import Graph
from dhilgt.graph.table import has_index_of_ids
from dhilgt.utils.checks import as_array

PARTS = checks.MASK_NAMES
_SHOWN = 5  # names in a message
_UNNAMED = (
    "which the classifier has not: it was trained on an array, or by an earlier version; they are "
    "taken in their order"
)


@dataclass(frozen=True)
class FitInputs:
    """A graph to train on.

    Attributes:
        graph: With features; its labels are places in ``classes``, its masks are the split.
        classes: The user's classes, in ascending order.
        split: Node indices of "train" and, where there are any, "val" and "test".
        from_array: Whether the user passed rows of features, not a graph.
        held_out: Number of nodes held out for validation, 0 where the user named them.
    """

    graph: Graph
    classes: NDArray[Any]
    split: dict[str, NDArray[np.int64]]
    from_array: bool
    held_out: int


def prepare(data: Any, y: Any, *, train: Any, val: Any, validation: float, seed: int) -> FitInputs:
    """Return the arguments of `NodeClassifier.fit` as a graph, classes and a split.

    Raises:
        GraphError: If something is missing or contradicts itself; before any heavy work.
    """
    from_array = is_array(data)
    graph = array_graph(data) if from_array else as_graph(data)
    if graph.features is None:
        raise GraphError(
            "the graph has no features, and the model learns from them; pass features= when you "
            "make it, for example degrees.reshape(-1, 1)"
            if isinstance(data, Graph)
            else "the data has no x, and the model learns from features; set data.x, for example "
            "by torch_geometric.transforms.LocalDegreeProfile()"
        )
    if from_array and hasattr(data, "tocsr") and data.shape[0] == data.shape[1]:
        warn(
            "a square sparse matrix is taken as features of nodes without edges; if it is an "
            "adjacency matrix, pass dhilgt.Graph.from_scipy(matrix, features=..., labels=...)"
        )
    codes, classes = graph_classes(graph, y, from_array)
    split, held_out = _split(graph, codes, train, val, validation, seed)
    return FitInputs(_marked(graph, codes, classes, split), classes, split, from_array, held_out)


def is_array(data: Any) -> bool:
    """Return whether these are rows of features rather than a graph."""
    return not is_graph(data)


def array_graph(
    rows: Any, expected: int | None = None, columns: FeatureColumns | None = None
) -> Graph:
    """Return a graph without edges, one node per row of features.

    Args:
        rows: (n, channels), an array or a SciPy sparse matrix; or a frame of pandas, Polars or
            Arrow, whose columns are matched by name.
        expected: Channels there must be.
        columns: The columns of training, for a frame; None fits them on the frame, or, where
            channels are expected, takes its columns in their order.
    """
    none = np.empty(0, np.int64)
    if has_names(rows) and len(rows):
        if columns is not None or expected is None:
            table = frame_columns(rows)
            notes: tuple[str, ...] = ()
            if columns is None:
                columns = FeatureColumns.fit(table, declared_kinds(rows), "X")
                notes = tuple(columns.table_rows("X"))
            matrix = columns.encode(table, "X")
            graph = Graph.from_edges(none, none, num_nodes=len(matrix), features=matrix)
            return graph.with_nodes(feature_columns=columns, notes=notes)
        warn(f"X has names of columns, {_UNNAMED}")
    if not hasattr(rows, "tocsr"):
        rows = as_array(rows)
        if rows.dtype.kind == "O":
            rows = rows.astype(np.float64)  # raises for what is not a number
    if rows.dtype.kind == "c":
        raise GraphError("Complex data not supported; pass real numbers")
    if rows.ndim != 2:
        raise GraphError(
            f"X has shape {rows.shape}; pass a graph, or a 2-D array of one row per node. Reshape "
            "your data with X.reshape(-1, 1) for one feature, X.reshape(1, -1) for one node"
        )
    if 0 in rows.shape:
        what = "sample(s)" if rows.shape[0] == 0 else "feature(s)"
        raise GraphError(f"X has 0 {what} (shape={rows.shape}) while a minimum of 1 is required.")
    check_width(rows.shape[1], expected, columns)
    return Graph.from_edges(none, none, num_nodes=rows.shape[0], features=rows)


def check_width(
    width: int, expected: int | None, columns: FeatureColumns | None = None, source: str = "X"
) -> None:
    """Raise for features of another width than the model was trained with."""
    if expected is None or width == expected:
        return
    named = ""
    if columns is not None:
        more = ", ..." if expected > _SHOWN else ""
        named = f" ({', '.join(columns.names[:_SHOWN])}{more})"
    raise GraphError(
        f"{source} has {width} features, but NodeClassifier is expecting {expected} features as "
        f"input{named}; pass those it was trained with"
    )


def matched_features(
    graph: Graph, columns: FeatureColumns | None, width: int, source: str = "graph"
) -> Graph:
    """Return a graph whose features are the channels that a model was trained with, in order.

    Columns are matched by name where both sides have names; arrays are taken as they are.

    Args:
        graph: With features.
        columns: The columns of training; None where it had an array.
        width: Channels of training.
        source: Name of the features, for messages.

    Raises:
        GraphError: If a column is missing or was encoded in another way, or the width differs.
    """
    theirs = graph.feature_columns
    if columns is None or theirs is None:
        check_width(int(graph.features.shape[1]), width, columns, source)
        if theirs is None:
            return graph
        warn(f"{source} has names of columns, {_UNNAMED}")
        return graph.with_nodes(feature_columns=None)
    places = columns.channels_in(theirs, source)
    extra = columns.extra_in(theirs)
    if extra:
        shown = ", ".join(map(repr, extra[:_SHOWN])) + (", ..." if len(extra) > _SHOWN else "")
        warn(f"{source}: columns that training did not have are not used: {shown}")
    if np.array_equal(places, np.arange(theirs.num_channels)):
        return graph
    features = graph.features[:, places]
    features[:, places < 0] = 0
    features.flags.writeable = False
    return graph.with_nodes(features=features, feature_columns=columns)


# ---- classes -----------------------------------------------------------------------------------


def graph_classes(
    graph: Graph, y: Any, from_array: bool = False
) -> tuple[NDArray[np.int64], NDArray[Any]]:
    """Return the place of each node's class in the list of classes (-1: unknown), and the list."""
    if y is None and from_array:
        raise GraphError("NodeClassifier requires y to be passed, but the target y is None")
    if y is not None:
        if not from_array and has_index_of_ids(y):  # of pandas: its rows name their nodes
            y = dict(zip(y.index.tolist(), as_array(y).reshape(len(y), -1)[:, 0], strict=True))
        if isinstance(y, Mapping):
            y = node_ids.labels_by_id(y, graph.node_ids, graph.num_nodes)
        return encode(y, graph.num_nodes, complete=from_array)
    if graph.labels is None:
        raise GraphError(
            "the graph has no labels; pass y= to fit, or labels= when you make the graph (in a PyG "
            "Data they are y)"
        )
    if graph.class_names is not None:
        return graph.labels, np.array(graph.class_names)
    return _numbered(graph.labels, graph.labels >= 0)


def encode(y: Any, count: int, *, complete: bool) -> tuple[NDArray[np.int64], NDArray[Any]]:
    """Return places in the ascending list of classes, -1 where there is none, and the list.

    Args:
        y: One class per node: integers, whole floats, booleans, strings, or one-hot rows.
        count: Number of nodes.
        complete: Whether every node must have a class; otherwise -1, NaN, None and "" stand for
            "not known".

    Example:
        >>> encode(["dog", "cat", None], 3, complete=False)
        (array([ 1,  0, -1]), array(['cat', 'dog'], dtype='<U3'))
    """
    array = as_array(y)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if len(array.shape) == 0 or array.shape[0] != count:
        raise GraphError(f"y has shape {array.shape} for {count} nodes; pass one class for each")
    if array.ndim == 2 or array.dtype.kind in "OUST":
        codes, names = checks.labels(array, count)
        if complete and (codes < 0).any():
            at = int(np.flatnonzero(codes < 0)[0])
            raise GraphError(f"y[{at}] = {array[at]!r} is not a class; pass one for each row")
        if names is not None:
            return codes, np.array(names)
        return _numbered(codes, codes >= 0)
    if array.dtype.kind not in "biuf":
        raise GraphError(f"y holds {array.dtype}; pass class numbers or strings")
    known = np.ones(count, np.bool_)
    if array.dtype.kind == "f":
        whole = np.isfinite(array) & (array == np.floor(array))
        absent = np.isnan(array) & (not complete)
        bad = np.flatnonzero(~whole & ~absent)
        if bad.size:
            raise GraphError(
                f"Unknown label type: y[{bad[0]}] = {array[bad[0]]} is not a class; pass whole "
                "numbers or strings"
            )
        known = ~absent
    if not complete and array.dtype.kind in "if":
        known &= array != -1
    return _numbered(array, known)


def _numbered(
    values: NDArray[Any], known: NDArray[np.bool_]
) -> tuple[NDArray[np.int64], NDArray[Any]]:
    classes, places = np.unique(values[known], return_inverse=True)
    codes = np.full(len(values), -1, np.int64)
    codes[known] = places
    return codes, classes


# ---- the split ---------------------------------------------------------------------------------


def node_indices(graph: Graph, nodes: Any, name: str) -> NDArray[np.int64]:
    """Return ascending node indices from a mask, ids, or (where ids are strings) indices.

    Args:
        graph: The graph.
        nodes: What the user passed.
        name: Of the argument, for messages.
    """
    array = as_array(nodes)
    if graph.node_ids is None or array.dtype == np.bool_ or not array.size:
        return np.flatnonzero(checks.node_mask(array, graph.num_nodes, name))
    if graph.ids.are_text and array.dtype.kind in "iu":
        return np.flatnonzero(checks.node_mask(array, graph.num_nodes, name))
    indices = np.sort(graph.index_of(array))
    twice = np.flatnonzero(indices[1:] == indices[:-1])
    if twice.size:
        raise GraphError(f"{name} lists node {graph.ids_of(int(indices[twice[0]]))!r} twice")
    return indices


def _split(
    graph: Graph, codes: NDArray[np.int64], train: Any, val: Any, validation: float, seed: int
) -> tuple[dict[str, NDArray[np.int64]], int]:
    masks = graph.masks or {}
    split: dict[str, NDArray[np.int64]] = {}
    for name, nodes in (("train", train), ("val", val)):
        if nodes is not None:
            split[name] = node_indices(graph, nodes, name)
        elif name in masks and (train is None or name == "train"):
            split[name] = np.flatnonzero(masks[name])
    if "test" in masks:
        split["test"] = np.flatnonzero(masks["test"])
    if "train" not in split:
        others = [split[name] for name in split]
        taken = np.concatenate(others) if others else np.empty(0, np.int64)
        split["train"] = np.setdiff1d(np.flatnonzero(codes >= 0), taken)
    _check_split(graph, codes, split)
    held_out = 0
    if "val" not in split:
        split["train"], split["val"] = stratified_holdout(codes, split["train"], validation, seed)
        held_out = len(split["val"])
    if not len(split["val"]):
        warn(
            "there are no validation nodes; early stopping is off and the last epoch counts",
            TrainingWarning,
        )
    return {name: split[name] for name in PARTS if name in split and len(split[name])}, held_out


def _check_split(
    graph: Graph, codes: NDArray[np.int64], split: dict[str, NDArray[np.int64]]
) -> None:
    if not len(split["train"]):
        raise GraphError("there are no training nodes; check the labels and the training mask")
    names = list(split)
    for at, name in enumerate(names):
        bare = split[name][codes[split[name]] < 0]
        if len(bare):
            raise GraphError(
                f"{name} has node {graph.ids_of(int(bare[0]))!r}, which has no label "
                f"({len(bare)} such nodes); leave nodes without a label out"
            )
        for other in names[at + 1 :]:
            both = np.intersect1d(split[name], split[other])
            if len(both):
                raise GraphError(
                    f"{name} and {other} share {len(both)} nodes, the first is "
                    f"{graph.ids_of(int(both[0]))!r}; results on them would be worthless, make the "
                    "parts disjoint"
                )


def _marked(
    graph: Graph,
    codes: NDArray[np.int64],
    classes: NDArray[Any],
    split: dict[str, NDArray[np.int64]],
) -> Graph:
    masks = {}
    for name, nodes in split.items():
        masks[name] = np.zeros(graph.num_nodes, np.bool_)
        masks[name][nodes] = True
    names = tuple(classes.tolist()) if classes.dtype.kind == "U" else None
    return graph.with_nodes(labels=codes, class_names=names, masks=MappingProxyType(masks))


# ---- holding out nodes -------------------------------------------------------------------------


def stratified_holdout(
    classes: NDArray[np.int64], nodes: NDArray[np.int64], fraction: float, seed: int = 0
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the nodes to keep and those to hold out, both ascending.

    About ``fraction`` of the nodes are held out, in every class as near to it as whole nodes
    allow. A class of two nodes or more has at least one on each side, a class of one is kept. The
    choice depends on the seed and the indices of the nodes alone: it is the same on every platform,
    and for the same nodes in any order.

    Args:
        classes: Class of every node of the graph.
        nodes: Nodes to choose from, all of them with a class.
        fraction: Above 0 and below 1.
        seed: Another seed holds out other nodes.

    Example:
        >>> classes = np.array([0, 0, 0, 0, 1, 1, 1, 1, 2])
        >>> kept, held = stratified_holdout(classes, np.arange(9), 0.25)
        >>> classes[held].tolist(), len(kept)
        ([0, 1], 7)
    """
    known, member = np.unique(classes[nodes], return_inverse=True)
    sizes = np.bincount(member, minlength=len(known))
    quotas = _quotas(sizes, fraction)
    # Within a class by a random key, then by index: two nodes may have the same key.
    order = np.lexsort((nodes, node_keys(nodes, seed), member))
    firsts = np.cumsum(sizes) - sizes
    place = np.arange(len(nodes)) - np.repeat(firsts, sizes)  # place of each within its class
    taken = place < np.repeat(quotas, sizes)
    return np.sort(nodes[order[~taken]]), np.sort(nodes[order[taken]])


def _quotas(sizes: NDArray[np.int64], fraction: float) -> NDArray[np.int64]:
    """Return how many nodes of each class are held out: whole numbers nearest to the fraction."""
    exact = sizes * fraction
    quotas = np.floor(exact).astype(np.int64)
    missing = round(fraction * int(sizes.sum())) - int(quotas.sum())
    largest_remainders = np.argsort(-(exact - quotas), kind="stable")
    quotas[largest_remainders[: max(0, missing)]] += 1
    limited: NDArray[np.int64] = np.clip(quotas, np.minimum(sizes - 1, 1), np.maximum(sizes - 1, 0))
    return limited
