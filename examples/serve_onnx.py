"""Predict with ONNX Runtime, without PyTorch.

dhilgt export runs/mine -o served/model.onnx
python examples/serve_onnx.py runs/mine/graph served/model.onnx NODE ...
"""

import argparse
import math
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np

import dhilgt
from dhilgt.graph.store import load_graph
from dhilgt.store.exports import Export, read_export


def probabilities_of(
    graph: dhilgt.Graph, model: Path, export: Export
) -> Callable[[np.ndarray], np.ndarray]:
    """Return the function from nodes to rows of class probabilities."""
    import onnxruntime
    from scipy.special import softmax

    session = onnxruntime.InferenceSession(model)
    labels_of = cache(
        lambda order, seed: dhilgt.HubLabels.build(graph, order=order, seed=seed, progress=False)
    )
    groups = [
        (one.facts.get("prefix", ""), one.facts["copies"], inputs_of(graph, one, labels_of))
        for one in (export, *export.members)  # models with other inputs have names of their own
    ]
    num_calls = math.lcm(*(copies for _, copies, _ in groups))

    def probabilities(nodes: np.ndarray) -> np.ndarray:
        shares = []
        for call in range(num_calls):
            inputs = {
                prefix + name: array
                for prefix, copies, make in groups
                for name, array in make(nodes, call % copies).items()
            }
            shares.append(softmax(session.run(None, inputs)[0], axis=1))
        return np.mean(shares, axis=0)

    return probabilities


def inputs_of(
    graph: dhilgt.Graph, export: Export, labels_of: Callable[[str, int], dhilgt.HubLabels]
) -> Callable[[np.ndarray, int], dict[str, np.ndarray]]:
    """Return the function from nodes and the number of a copy to inputs of the model."""
    from scipy.sparse import csr_array

    from dhilgt.features.adjacency import adjacency
    from dhilgt.features.from_graph import with_hops
    from dhilgt.features.projection import Projection
    from dhilgt.features.scale import FeatureScale
    from dhilgt.tokens.single import SingleRows

    facts, known = export.facts, export.known
    groups = len(facts.get("ego_rows", ()))
    if export.ego is not None:
        parts = (export.ego[name] for name in ("values", "columns", "offsets"))
        ego = csr_array(tuple(parts))
    scale = None
    if export.scale is not None:
        scale = FeatureScale.from_arrays(facts["feature_scale"], export.scale)
    features = csr_array(graph.features)
    if scale is not None and scale.kind == "auto":  # the other kinds come after the hops
        features, scale = csr_array(scale.apply(features)), None
    if export.projection is not None:
        features = csr_array(Projection.from_arrays(export.projection).apply(features))
    hops = (facts["hops"], facts["hop_kind"], facts["hop_restart"])
    features = csr_array(with_hops(graph, features, *hops))
    if facts["tokens"]["size"] == 1:  # the node alone
        sampler = SingleRows(graph)
    else:
        labels = labels_of(facts["order"], facts["tokens"]["seed"])
        sampler = dhilgt.TokenSampler(labels, progress=False, **facts["tokens"])
    edges = None
    if facts.get("message_layers"):  # the model computes all nodes of the graph
        edges = adjacency(graph)
        everyone = features.toarray() if scale is None else scale.apply(features.toarray())

    def inputs(nodes: np.ndarray, copy: int) -> dict[str, np.ndarray]:
        ids, spd = sampler.rows(nodes, copy)
        if edges is None:
            members, index = np.unique(np.append(ids, -1), return_inverse=True)  # -1 is padding
            x, index = features[members[1:]].toarray(), index[:-1].reshape(ids.shape) - 1
            x = x if scale is None else scale.apply(x)
        else:
            x, index = everyone, ids.astype(np.int64)
        made = {"x": x, "index": index, "spd": spd}
        if known is not None:
            made["known"] = known[members[1:]]
        if export.ego is not None:
            rows = ego[(nodes[:, None] * groups + np.arange(groups)).reshape(-1)]
            made["ego_offsets"] = rows.indptr.astype(np.int64)
            made["ego_columns"] = rows.indices.astype(np.int64)
            made["ego_values"] = rows.data
        if edges is not None:
            made["edge_offsets"] = edges.indptr.astype(np.int64)
            made["edge_columns"] = edges.indices.astype(np.int64)
            made["edge_weights"] = edges.data
        return made

    return inputs


def main() -> None:
    """Print the class of each node that the command line names."""
    parser = argparse.ArgumentParser(
        description="Predict the classes of nodes with ONNX Runtime, without PyTorch."
    )
    parser.add_argument("graph", help="folder of the graph, like runs/mine/graph")
    parser.add_argument("model", type=Path, help="file that `dhilgt export RUN -o FILE` wrote")
    parser.add_argument("nodes", nargs="+", metavar="NODE", help="id of a node of the graph")
    chosen = parser.parse_args()

    if not chosen.model.is_file():
        raise FileNotFoundError(f"{chosen.model} does not exist; write it with dhilgt export")
    export = read_export(chosen.model)
    graph = load_graph(chosen.graph)
    wanted = chosen.nodes if graph.ids.are_text else [int(node) for node in chosen.nodes]
    nodes = graph.index_of(wanted)
    probabilities = probabilities_of(graph, chosen.model, export)
    for node, row in zip(wanted, probabilities(nodes), strict=True):
        print(f"{node}: {export.facts['classes'][row.argmax()]} ({row.max():.3f})")


if __name__ == "__main__":
    try:
        main()
    except (OSError, ValueError, ImportError) as error:  # a wrong path, id or installation
        sys.exit(f"serve_onnx.py: {error}")
