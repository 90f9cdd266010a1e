"""Predicts with ONNX Runtime, without PyTorch.

dhilgt export runs/mine -o served/model.onnx
python examples/serve_onnx.py runs/mine/graph served/model.onnx NODE ...
"""

import sys

import numpy as np
import onnxruntime
from scipy.sparse import csr_array
from scipy.special import softmax

import dhilgt
from dhilgt.features.from_graph import with_hops
from dhilgt.features.scale import FeatureScale
from dhilgt.graph.store import load_graph
from dhilgt.store.exports import read_export

graph, model = load_graph(sys.argv[1]), sys.argv[2]
export = read_export(model)
facts, known = export.facts, export.known
session = onnxruntime.InferenceSession(model)
labels = dhilgt.HubLabels.build(
    graph, order=facts["order"], seed=facts["tokens"]["seed"], progress=False
)
scale = None
if export.scale is not None:
    scale = FeatureScale.from_arrays(facts["feature_scale"], export.scale)
features = csr_array(graph.features)
if scale is not None and scale.kind == "auto":  # the other kinds come after the hops
    features, scale = csr_array(scale.apply(features)), None
hops = (facts["hops"], facts["hop_kind"], facts["hop_restart"])
features = csr_array(with_hops(graph, features, *hops))
sampler = dhilgt.TokenSampler(labels, progress=False, **facts["tokens"])


def probabilities(nodes: np.ndarray, copy: int) -> np.ndarray:
    """Gives a row of class probabilities per node."""
    ids, spd = sampler.rows(nodes, copy)
    members, index = np.unique(np.append(ids, -1), return_inverse=True)  # -1 is padding
    x, index = features[members[1:]].toarray(), index[:-1].reshape(ids.shape) - 1
    x = x if scale is None else scale.apply(x)
    inputs = {"x": x, "index": index, "spd": spd}
    if known is not None:
        inputs["known"] = known[members[1:]]
    return softmax(session.run(None, inputs)[0], axis=1)


wanted = sys.argv[3:] if graph.ids.are_text else [int(node) for node in sys.argv[3:]]
nodes = graph.index_of(wanted)
mean = np.mean([probabilities(nodes, copy) for copy in range(facts["copies"])], axis=0)
for node, row in zip(wanted, mean, strict=True):
    print(f"{node}: {facts['classes'][row.argmax()]} ({row.max():.3f})")
