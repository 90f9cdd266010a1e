"""Labels and tokens for workers: of small graphs from the driver, of large ones on the cluster."""

import numpy as np

from dhilgt import HubLabels, Tokens, generate
from dhilgt.classifier.cache import Cache
from dhilgt.cluster import parts

GRAPH = generate(300, 5, seed=2, num_features=4)


def test_a_cache_of_a_cluster_holds_labels_in_parts(cluster, connection, tmp_path):
    cache = Cache(tmp_path, cluster=cluster.address)
    labels = cache.labels(GRAPH, progress=False)
    tokens = cache.tokens(labels, {"size": 8}, progress=False)
    assert labels.is_sharded
    plain = HubLabels.build(GRAPH, progress=False)
    assert labels.fingerprint == plain.fingerprint
    expected = Tokens.build(plain, size=8, progress=False).rows(np.arange(300))
    for found, wanted in zip(tokens.rows(np.arange(300)), expected, strict=True):
        np.testing.assert_array_equal(found, wanted)
    again = cache.labels(GRAPH, progress=False)
    assert again.is_sharded
    assert len(cache.entries()) == 2


def test_only_large_graphs_are_for_the_cluster(cluster, connection, tmp_path, monkeypatch):
    def builders():
        made = parts.shared_cache(connection, cluster.address, GRAPH, False, tmp_path, False)
        return made.cluster

    assert builders() is None
    monkeypatch.setattr(parts, "SMALL", 1000)  # 300 nodes and 750 edges
    assert builders() == cluster.address
