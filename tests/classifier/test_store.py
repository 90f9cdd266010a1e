"""A saved classifier predicts the same elsewhere; a folder that is not one is refused."""

import hashlib
import json
import math
import pickle
import shutil
import subprocess
import sys

import numpy as np
import pytest
import torch

import dhilgt
from dhilgt import ArtifactError, NodeClassifier
from dhilgt.store.files import canonical_json
from tests.classifier.cases import community_graph, quick

torch.set_num_threads(1)


@pytest.fixture(scope="module")
def clf():
    masks = {"train": list(range(40)), "val": list(range(40, 60)), "test": list(range(60, 90))}
    return quick(hops=1).fit(community_graph(ids=True, masks=masks))


@pytest.fixture
def folder(clf, tmp_path):
    clf.save(tmp_path / "saved")
    return tmp_path / "saved"


def test_everything_comes_back(clf, folder):
    found = NodeClassifier.load(folder)
    assert found.get_params() | {"progress": False} == clf.get_params()
    assert found.classes_.tolist() == clf.classes_.tolist()
    assert found.n_features_in_ == clf.n_features_in_
    assert found.scores_ == clf.scores_
    assert found.result_ == clf.result_
    assert found.settings_ == clf.settings_
    assert found.batch_size_ == clf.batch_size_
    assert found.graph_.fingerprint == clf.graph_.fingerprint
    assert found.graph_.nodes.tolist() == clf.graph_.nodes.tolist()
    for part, nodes in clf.split_.items():
        assert found.split_[part].tolist() == nodes.tolist()
    assert found.stages_["epoch"] == clf.stages_["epoch"]
    np.testing.assert_array_equal(found.predict(), clf.predict())
    np.testing.assert_array_equal(found.predict_proba(), clf.predict_proba())
    assert found.score() == clf.score()


def test_another_process_gives_equal_probabilities(clf, folder, tmp_path, monkeypatch):
    monkeypatch.setenv("DHILGT_CACHE", str(tmp_path / "empty"))  # labels and tokens made anew
    code = (
        "import sys, numpy, dhilgt, torch; torch.set_num_threads(1)\n"
        "shares = dhilgt.NodeClassifier.load(sys.argv[1]).predict_proba()\n"
        "numpy.save(sys.argv[2], shares)"
    )
    place = tmp_path / "shares.npy"
    subprocess.run([sys.executable, "-c", code, str(folder), str(place)], check=True)
    np.testing.assert_array_equal(np.load(place), clf.predict_proba())


@pytest.mark.parametrize(
    "classes",
    [["one", "two", "drei ß"], [4, 9, 2**40], [0.0, 2.0, 5.0], [False, True, True]],
    ids=str,
)
def test_classes_keep_their_kind(classes, tmp_path):
    made = quick(epochs=1).fit(community_graph(), np.array(classes)[np.arange(90) % 3])
    made.save(tmp_path / "saved")
    found = NodeClassifier.load(tmp_path / "saved")
    assert found.classes_.dtype == made.classes_.dtype
    np.testing.assert_array_equal(found.predict(), made.predict())


def test_a_run_folder_is_a_saved_classifier(tmp_path):
    made = quick().fit(community_graph(), run_dir=tmp_path / "run")
    names = {path.name for path in (tmp_path / "run").iterdir()}
    assert names == {
        "best.safetensors", "bundle.json", "checkpoints", "config.json", "environment.json",
        "graph", "metrics.jsonl", "model", "result.json",
    }  # fmt: skip
    found = NodeClassifier.load(tmp_path / "run")
    np.testing.assert_array_equal(found.predict_proba(), made.predict_proba())
    assert found.result_.history == made.result_.history


def test_a_finished_run_may_be_resumed_with_more_epochs(tmp_path):
    quick(decay="none").fit(community_graph(), run_dir=tmp_path / "run")
    more = quick(decay="none", epochs=6).fit(
        community_graph(), run_dir=tmp_path / "run", resume=True
    )
    assert more.result_.epochs == 6
    whole = quick(decay="none", epochs=6).fit(community_graph())
    np.testing.assert_array_equal(more.predict_proba(), whole.predict_proba())
    assert NodeClassifier.load(tmp_path / "run").result_.epochs == 6


def test_a_run_that_reports_and_predictions_were_added_to_is_still_one(tmp_path):
    made = quick().fit(community_graph(), run_dir=tmp_path / "run")
    for name in ("config.yaml", "report.html", "predictions.csv", "predictions.parquet"):
        (tmp_path / "run" / name).write_text("x")
    made.save(tmp_path / "run", overwrite=True)
    again = quick().fit(community_graph(), run_dir=tmp_path / "run", resume=True)
    np.testing.assert_array_equal(again.predict_proba(), made.predict_proba())


def test_saving_over_something_is_refused_unless_asked(clf, folder, tmp_path):
    with pytest.raises(ArtifactError, match="holds a run"):
        clf.save(folder)
    clf.save(folder, overwrite=True)
    NodeClassifier.load(folder)
    (tmp_path / "else").mkdir()
    (tmp_path / "else" / "letter.txt").write_text("dear")
    with pytest.raises(ArtifactError, match=r"letter\.txt"):
        clf.save(tmp_path / "else", overwrite=True)
    (tmp_path / "file").write_text("")
    with pytest.raises(ArtifactError, match="is a file"):
        clf.save(tmp_path / "file")


def test_a_save_that_is_cut_off_leaves_nothing_that_loads(clf, folder, monkeypatch):
    monkeypatch.setattr(
        "dhilgt.classifier.store.save_graph",
        lambda *_, **__: (_ for _ in ()).throw(OSError("full")),
    )
    with pytest.raises(OSError, match="full"):
        clf.save(folder, overwrite=True)
    with pytest.raises(ArtifactError, match=r"no bundle\.json"):
        NodeClassifier.load(folder)
    monkeypatch.undo()
    clf.save(folder, overwrite=True)
    np.testing.assert_array_equal(NodeClassifier.load(folder).predict(), clf.predict())


def test_scores_that_are_not_defined_stay_so(tmp_path):
    with pytest.warns(dhilgt.TrainingWarning):
        made = quick(metric="roc_auc").fit(community_graph(), [1] * 90)
    made.save(tmp_path / "saved")
    found = NodeClassifier.load(tmp_path / "saved")
    assert math.isnan(found.scores_["val"]["roc_auc"])


def test_device_may_be_chosen_when_loading(folder):
    assert NodeClassifier.load(folder, device="cpu").settings_.device == "cpu"


class Bomb:
    def __reduce__(self):
        return exec, ("raise SystemExit('a pickle was loaded')",)


@pytest.mark.parametrize(
    "name", ["bundle.json", "model/model.safetensors", "model/config.json", "graph/offsets.npy",
             "graph/manifest.json", "graph/features.npy", "result.json", "metrics.jsonl"],
)  # fmt: skip
def test_a_pickle_in_the_place_of_a_file_is_never_loaded(folder, name):
    (folder / name).write_bytes(pickle.dumps(Bomb()))
    with pytest.raises(ArtifactError):
        NodeClassifier.load(folder)


def test_a_pickle_beside_the_files_is_never_looked_at(clf, folder):
    for name in ("model/pytorch_model.bin", "clf.pkl"):
        (folder / name).write_bytes(pickle.dumps(Bomb()))
    np.testing.assert_array_equal(NodeClassifier.load(folder).predict(), clf.predict())


TIED = (
    "model/config.json", "model/model.safetensors", "graph/manifest.json", "result.json",
    "metrics.jsonl",
)  # fmt: skip


def changed(folder, **values):
    """Change values of a bundle, and its checksum as someone would who knows how."""
    path = folder / "bundle.json"
    facts = json.loads(path.read_text()) | values
    del facts["sha256"]
    facts["sha256"] = hashlib.sha256(canonical_json(facts)).hexdigest()
    path.write_text(json.dumps(facts))


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"kind": "sandwich"}, "kind 'sandwich'"),
        ({"format": 99}, "format 99, this version reads up to 3"),
        ({"settings": {"sise": 3}}, "did you mean 'size'"),
        ({"settings": 7}, "not as written"),
        ({"classes": ["a", "b"]}, "does not fit"),
        ({"classes": [1, 2, 3]}, "not a list of str"),
        ({"class_type": "object"}, "not as written"),
        ({"graph": "0" * 64}, "not the one it was trained on"),
        ({"features": 5}, "not the one it was trained on"),
        ({"batch_size": 0}, "not as written"),
        ({"scores": None}, "not as written"),
        ({"files": None}, "does not list the files"),
        ({"files": {"metrics.jsonl": {}, "/etc/passwd": {}}}, "does not list the files"),
        ({"files": {"metrics.jsonl": {"bytes": "x", "sha256": ""}}}, "was not there"),
        ({"files": {name: {} for name in TIED}}, "not as written"),
        ({"files": dict.fromkeys(TIED)}, "not as written"),
    ],
)
def test_a_bundle_that_does_not_fit_together_is_refused(folder, values, message):
    changed(folder, **values)
    with pytest.raises(ArtifactError, match=message):
        NodeClassifier.load(folder)


# ---- files that belong together ------------------------------------------------------------------


@pytest.fixture(scope="module")
def other(tmp_path_factory):
    """A run on the same edges, with other features and another seed."""
    graph = community_graph(ids=True, features=np.random.default_rng(1).normal(size=(90, 4)))
    path = tmp_path_factory.mktemp("runs") / "other"
    quick(hops=1, seed=5).fit(graph).save(path)
    return path


@pytest.mark.parametrize(
    "part", ["model", "model/model.safetensors", "graph", "result.json", "metrics.jsonl"]
)
def test_a_part_of_another_run_is_refused_by_name(folder, other, part):
    if (other / part).is_dir():
        shutil.copytree(other / part, folder / part, dirs_exist_ok=True)
    else:
        shutil.copy(other / part, folder / part)
    with pytest.raises(ArtifactError, match=rf"{part}.* is damaged or of another run"):
        NodeClassifier.load(folder)


@pytest.mark.parametrize("key", ["classes", "batch_size", "scores", "settings", "files", "library"])
def test_a_bundle_that_was_edited_is_refused(folder, key):
    path = folder / "bundle.json"
    facts = json.loads(path.read_text())
    value = facts[key]
    facts[key] = value[1:] if isinstance(value, list | str) else None
    path.write_text(json.dumps(facts))
    with pytest.raises(ArtifactError, match=r"bundle\.json was changed after it was written"):
        NodeClassifier.load(folder)


def test_a_bundle_without_its_checksum_is_refused(folder):
    path = folder / "bundle.json"
    facts = json.loads(path.read_text())
    del facts["sha256"]
    path.write_text(json.dumps(facts))
    with pytest.raises(ArtifactError, match=r"bundle\.json was changed"):
        NodeClassifier.load(folder)


def test_a_scale_that_was_not_there_is_refused(folder, tmp_path):
    quick(feature_scale="standard", epochs=1).fit(community_graph()).save(tmp_path / "scaled")
    shutil.copy(tmp_path / "scaled" / "feature_scale.safetensors", folder)
    with pytest.raises(ArtifactError, match=r"feature_scale\.safetensors was not there"):
        NodeClassifier.load(folder)


def test_a_run_that_goes_on_stays_readable_meanwhile(clf, folder):
    """More epochs append to the metrics, long before the folder is written anew."""
    with (folder / "metrics.jsonl").open("a") as file:
        file.write('{"epoch": 5, "train_loss": 0.1}\n{"epo')
    found = NodeClassifier.load(folder)
    assert found.result_ == clf.result_


def test_a_folder_that_is_none_is_refused_with_the_way_out(tmp_path):
    with pytest.raises(ArtifactError, match="pass a folder that save wrote"):
        NodeClassifier.load(tmp_path)


@pytest.mark.parametrize("name", ["model/model.safetensors", "graph/targets.npy", "result.json"])
def test_a_missing_file_is_named(folder, name):
    (folder / name).unlink()
    with pytest.raises(ArtifactError, match=name.rpartition("/")[2]):
        NodeClassifier.load(folder)
