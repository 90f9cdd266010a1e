"""Training and prediction on a cluster give the bytes of one machine."""

import json

import numpy as np
import pytest

import dhilgt
from dhilgt.cluster import machines
from dhilgt.errors import ArtifactError, TrainingError
from tests.classifier.cases import quick
from tests.cluster.cases import SETTINGS, graph, model_bytes, torchrun, train


@pytest.fixture(scope="module")
def address(cluster, connection):
    return cluster.address


@pytest.fixture(scope="module")
def trained(address, tmp_path_factory):
    folder = tmp_path_factory.mktemp("trained") / "run"
    return folder, train(folder, address)


@pytest.mark.full
def test_two_workers_train_as_two_processes_of_torchrun(trained, tmp_path):
    folder, clf = trained
    torchrun(tmp_path / "run")
    assert model_bytes(folder) == model_bytes(tmp_path / "run")
    assert clf.classes_.tolist() == [3, 7, 11]
    assert clf.result_.epochs == 3
    assert [list(one) for one in clf.scores_.values()] == [["loss", "accuracy"]] * 2
    assert list(clf.scores_) == ["train", "val"]
    assert {"labels", "tokens", "epoch"} <= set(clf.stages_)
    assert not (folder / "cluster").exists()
    assert json.loads((folder / "environment.json").read_text())["processes"] == 2


def test_workers_train_together(trained):
    folder, clf = trained
    assert clf.result_.epochs == 3
    assert json.loads((folder / "environment.json").read_text())["processes"] == 2
    assert {"labels", "tokens", "epoch"} <= set(clf.stages_)
    assert not (folder / "cluster").exists()


def test_workers_predict_as_this_process(trained, address):
    folder, clf = trained
    loaded = dhilgt.NodeClassifier.load(folder)
    some = graph().ids_of(np.array([70, 3, 3, 41]))
    found = loaded.predict_proba(some, cluster=address)
    assert np.array_equal(found, clf.predict_proba(some))
    assert not list(folder.glob("predictions*"))


def test_folder_that_a_machine_does_not_see(address, tmp_path, monkeypatch):
    def blind(mark):
        import ray

        head = ray.get_runtime_context().get_node_id() == first
        return "" if head else "no such folder", dhilgt.__version__

    import ray

    first = ray.get_runtime_context().get_node_id()
    monkeypatch.setattr(machines, "look", blind)
    with pytest.raises(ArtifactError, match=r"^node .* does not see .*cluster \(no such folder\)"):
        train(tmp_path / "run", address)
    assert not list((tmp_path / "run").iterdir())


@pytest.mark.full
def test_search_on_a_cluster(address, tmp_path):
    options = {"recipe": "auto", "epochs": 2, "checkpoint_batches": None}
    clf = train(tmp_path / "cluster", address, **options)
    torchrun(tmp_path / "two", **options)
    assert model_bytes(tmp_path / "cluster") == model_bytes(tmp_path / "two")
    again = train(tmp_path / "cluster", address, **options)  # it has ended
    assert again.search_.sentence == clf.search_.sentence
    assert np.array_equal(clf.predict_proba(cluster=address), clf.predict_proba())


@pytest.mark.full
def test_messages_on_a_cluster(address, tmp_path):
    options = {"message_layers": 2, "num_layers": 0}
    clf = train(tmp_path / "cluster", address, **options)
    torchrun(tmp_path / "two", **options)
    assert model_bytes(tmp_path / "cluster") == model_bytes(tmp_path / "two")
    assert np.array_equal(clf.predict_proba(cluster=address), clf.predict_proba())


@pytest.mark.full
def test_another_graph_and_quick(trained, address):
    folder, _ = trained
    clf = dhilgt.NodeClassifier.load(folder)
    edges = ["new-1", "new-2"], ["node-005", "new-1"]
    grown = clf.graph_with(edges, clf.graph_.features[:2], nodes=edges[0])
    for is_quick in (False, True):
        here = clf.predict_proba(graph=grown, quick=is_quick)
        assert np.array_equal(clf.predict_proba(graph=grown, quick=is_quick, cluster=address), here)


@pytest.mark.full
def test_error_of_a_worker_reaches_the_driver(address, tmp_path):
    data, clf = graph(), quick(**SETTINGS)
    with pytest.raises(TrainingError, match="1 training nodes do not give each of 2 processes"):
        clf.fit(
            data, train=["node-000"], val=["node-001"], run_dir=tmp_path / "run", cluster=address
        )
    assert not (tmp_path / "run" / "cluster").exists()
