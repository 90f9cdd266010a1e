"""A graph on disk: structure, ids, features, classes and masks in one checksummed folder."""

from __future__ import annotations

from dataclasses import asdict
from os import PathLike
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dhilgt import _native
from dhilgt.errors import ArtifactError, GraphError
from dhilgt.graph import checks
from dhilgt.graph.build import Cleaning, Parts
from dhilgt.graph.feature_columns import FeatureColumns
from dhilgt.graph.graph import Graph
from dhilgt.graph.node_ids import NodeIds, as_objects
from dhilgt.store.artifact import Artifact, ArtifactWriter
from dhilgt.store.files import canonical_json, strict_json

KIND = "graph"
FORMAT = 1
_SPARSE = ("features_offsets", "features_columns", "features_values")
_COLUMNS = "columns"  # bytes of JSON: the manifest would be too small for thousands of names
_MAX_COLUMN_VALUES = 8_000_000


def save_graph(graph: Graph, path: str | PathLike[str], *, overwrite: bool = False) -> None:
    """Write a graph to a folder, all or nothing, with checksums.

    Args:
        graph: The graph; all its data is stored.
        path: The folder to create.
        overwrite: Replace a graph at ``path``.

    Raises:
        ArtifactError: If it cannot be written.

    Example:
        >>> import tempfile, dhilgt
        >>> folder = tempfile.mkdtemp() + "/web"
        >>> save_graph(Graph.from_edges(["a", "b"], ["b", "c"]), folder)
        >>> load_graph(folder)
        Graph(nodes=3, edges=2, undirected, ids=str)
    """
    arrays: dict[str, NDArray[Any]] = {"offsets": graph.offsets, "targets": graph.targets}
    arrays.update(graph.ids.to_arrays())
    features, channels = graph.features, None
    if features is not None:
        channels = int(features.shape[1])
        if hasattr(features, "tocsr"):
            csr = features.tocsr()
            parts = (csr.indptr.astype(np.int64), csr.indices.astype(np.int64), csr.data)
            arrays.update(zip(_SPARSE, parts, strict=True))
        else:
            arrays["features"] = np.asarray(features)
    if graph.feature_columns is not None:
        text = canonical_json(graph.feature_columns.to_dict())
        arrays[_COLUMNS] = np.frombuffer(text, np.uint8)
    if graph.labels is not None:
        arrays["labels"] = graph.labels
    if graph.class_names is not None:
        # Class names are ascending texts, as ids are.
        names = NodeIds(as_objects(list(graph.class_names)), len(graph.class_names)).to_arrays()
        arrays.update({f"class_{name}": array for name, array in names.items()})
    arrays.update({f"mask_{name}": mask for name, mask in (graph.masks or {}).items()})
    params = {
        "num_nodes": graph.num_nodes,
        "num_edges": graph.num_edges,
        "directed": graph.directed,
        "num_channels": channels,
        "num_class_names": None if graph.class_names is None else len(graph.class_names),
        "cleaning": asdict(graph.cleaning),
    }
    with ArtifactWriter(
        path,
        kind=KIND,
        format_version=FORMAT,
        params=params,
        fingerprint=graph.fingerprint,
        overwrite=overwrite,
        need_bytes=sum(array.nbytes for array in arrays.values()),
    ) as writer:
        for name, array in arrays.items():
            writer.write_array(name, array)


def load_graph(path: str | PathLike[str], *, verify: bool = False) -> Graph:
    """Return a graph that `save_graph` wrote; dense features stay on disk and are mapped.

    Every byte is compared with its checksum, of features above 100 MB a sample of blocks.

    Args:
        path: The folder.
        verify: Check every byte of the features too, however large they are.

    Raises:
        ArtifactError: If the folder does not hold a complete graph of a known format.
    """
    artifact = Artifact.open(path, kind=KIND, max_format=FORMAT)
    if verify:
        artifact.verify()
    try:
        graph = Graph(_parts(artifact))
    except (GraphError, ValueError, TypeError, KeyError) as error:
        raise ArtifactError(f"{artifact.path} is not a graph as written: {error}") from error
    if graph.fingerprint != artifact.fingerprint:
        raise ArtifactError(
            f"{artifact.path} is damaged: its edges have fingerprint {graph.fingerprint}, "
            f"{artifact.fingerprint} was written; save the graph again"
        )
    return graph


def _parts(artifact: Artifact) -> Parts:
    params, names = artifact.params, set(artifact.names)
    count, directed = params["num_nodes"], params["directed"]
    offsets, targets = (artifact.array(name, mmap=False) for name in ("offsets", "targets"))
    _check_structure(offsets, targets, count, directed)
    stored = {name: artifact.array(name, mmap=False) for name in names if name.startswith("ids")}
    class_names: tuple[str, ...] | None = None
    if params["num_class_names"] is not None:
        texts = {
            name.removeprefix("class_"): artifact.array(name, mmap=False)
            for name in names
            if name.startswith("class_")
        }
        class_names = tuple(NodeIds.from_arrays(texts, params["num_class_names"]).all.tolist())
    classes = None
    if "labels" in names:
        classes, _ = checks.labels(artifact.array("labels", mmap=False), count)
        if class_names is not None and classes.max(initial=-1) >= len(class_names):
            raise GraphError(f"class {classes.max()} has no name; there are {len(class_names)}")
    masks = {
        name: artifact.array(f"mask_{name}", mmap=False)
        for name in checks.MASK_NAMES
        if f"mask_{name}" in names
    }
    split = checks.masks(masks, count, classes) if masks else None
    features = _features(artifact, names, count)
    return Parts(
        offsets=offsets,
        targets=targets,
        directed=directed,
        cleaning=Cleaning(**params["cleaning"]),
        node_ids=NodeIds.from_arrays(stored, count).node_ids,
        features=features,
        feature_columns=_checked_columns(artifact, features),
        labels=classes,
        class_names=class_names,
        masks=None if split is None else MappingProxyType(split),
    )


def _features(artifact: Artifact, names: set[str], count: int) -> Any:
    if "features" in names:
        # Mapped: rows are read and checked when they are used.
        matrix = artifact.array("features")
        if matrix.ndim != 2 or matrix.shape[0] != count or matrix.dtype != np.float32:
            raise GraphError(f"features are {matrix.dtype} {matrix.shape} for {count} nodes")
        return matrix
    if _SPARSE[0] not in names:
        return None
    try:
        import scipy.sparse
    except ImportError as error:
        raise ImportError(
            f"{artifact.path} has sparse features, which need scipy; install it with "
            "pip install 'dhilgt[io]'"
        ) from error

    offsets, columns, values = (artifact.array(name, mmap=False) for name in _SPARSE)
    shape = (count, artifact.params["num_channels"])
    matrix = scipy.sparse.csr_matrix((values, columns, offsets), shape=shape)
    matrix.check_format(full_check=True)
    return checks.features(matrix, count)


def read_columns(artifact: Artifact) -> FeatureColumns | None:
    """Return the columns of the features of a stored graph; None if they came from an array.

    Raises:
        ArtifactError: If the file is damaged.
        GraphError: If it does not hold such columns.
    """
    if _COLUMNS not in artifact.names:
        return None
    data = artifact.array(_COLUMNS, mmap=False).tobytes()
    return FeatureColumns.from_dict(strict_json(data, _MAX_COLUMN_VALUES))


def _checked_columns(artifact: Artifact, features: Any) -> FeatureColumns | None:
    columns = read_columns(artifact)
    if columns is None:
        return None
    width = 0 if features is None else features.shape[1]
    if columns.num_channels != width:
        raise GraphError(f"its columns have {columns.num_channels} channels, features {width}")
    return columns


def _check_structure(offsets: Any, targets: Any, count: Any, directed: Any) -> None:
    """Raise for rows out of range, out of order or one-sided: the native core does not check."""
    fits = (
        isinstance(directed, bool)
        and offsets.dtype == np.int64
        and targets.dtype == np.int32
        and targets.ndim == 1
        and offsets.shape == (count + 1,)
        and offsets[0] == 0
        and offsets[-1] == len(targets)
        and bool((np.diff(offsets) >= 0).all())
        and (not len(targets) or (targets.min() >= 0 and targets.max() < count))
    )
    if not fits:
        raise GraphError("offsets and targets do not describe rows of neighbours")
    rows = np.repeat(np.arange(count), np.diff(offsets))
    ascending = (np.diff(targets) > 0) | (np.diff(rows) > 0)
    if not ascending.all() or (rows == targets).any():
        raise GraphError("neighbours are not in order, each once and without self-loops")
    if not directed:
        back_offsets, back_targets = _native.transpose(offsets, targets)
        if not np.array_equal(back_offsets, offsets) or not np.array_equal(back_targets, targets):
            raise GraphError("the graph is called undirected, but an edge lacks its reverse")
