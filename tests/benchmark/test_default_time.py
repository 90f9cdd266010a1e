"""The time from files to predictions: the files are the graph, the peer has the same budget."""

import json

import numpy as np
import pytest
from bench import default_time, gcn_search
from scipy import sparse

from dhilgt.benchmark.running.data import load


@pytest.mark.parametrize("wide", [False, True])
def test_files_are_read_as_the_graph_they_were_written_from(tmp_path, monkeypatch, wide):
    if wide:
        monkeypatch.setattr(default_time, "_MOST_TEXT_COLUMNS", 1)
    graph = load("generated:40", 3)
    default_time.write_files(graph, tmp_path)
    again = gcn_search.read_graph(tmp_path)
    assert (tmp_path / ("features.npz" if wide else "features.csv")).is_file()
    assert again.num_nodes == graph.num_nodes
    np.testing.assert_array_equal(again.targets, graph.targets)
    np.testing.assert_array_equal(again.labels, graph.labels)
    for part, mask in graph.masks.items():
        np.testing.assert_array_equal(again.masks[part], mask)
    features = again.features.toarray() if sparse.issparse(again.features) else again.features
    np.testing.assert_allclose(features, graph.features, rtol=1e-5)


def test_the_peer_trains_as_often_and_as_long_as_the_search(monkeypatch):
    first = {"epochs": 1, "scores": [0.1, 0.2]}
    rungs = [first, {"epochs": 3, "scores": [0.3, 0.1]}]
    candidates = [{"rungs": rungs}, {"rungs": [first]}, {"rungs": []}]  # the last one failed
    plan = gcn_search.trainings({"candidates": candidates})
    assert plan == [[3, 3], [1, 1]]
    fits, fit = [], gcn_search.baselines.fit

    def watched(*args, **options):
        result = fit(*args, **options, device="cpu")
        fits.append(result.epochs)
        return result

    monkeypatch.setattr(gcn_search.baselines, "fit", watched)
    (model, best), score = gcn_search.search_gcn(load("generated:40", 0), plan)
    assert fits == [3, 3, 1, 1]
    assert best.best_score == score
    assert best.trainer.model is model


def test_the_last_line_of_a_system_counts():
    machine = {"cores": 2, "cpu": "EPYC"}
    lines = [
        {"data": "cora", "system": "default", "seconds": 90.0, "machine": machine},
        {"data": "cora", "system": "default", "seconds": 51.2, "test": 0.885, "machine": machine},
    ]
    (row,) = default_time.table(json.loads(json.dumps(lines))).splitlines()[2:]
    assert row == "| cora | default | 2 cores of EPYC | 51.2 | – | – | – | – | 0.885 | – |"


def test_a_gpu_is_named():
    machine = {"cores": 16, "cpu": "Xeon", "gpu": "H200"}
    line = {"data": "cora", "system": "default", "seconds": 46.0, "machine": machine}
    assert "| H200, 16 cores of Xeon | 46 |" in default_time.table([line])
