"""Training and prediction on a cluster give the bytes of one machine."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import dhilgt
from tests.cluster.cases import graph, model_bytes, small_cluster, train

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def cluster():
    with small_cluster() as cluster:
        yield cluster


@pytest.fixture(scope="module")
def trained(cluster, tmp_path_factory):
    folder = tmp_path_factory.mktemp("trained") / "run"
    return folder, train(folder, cluster.address)


def torchrun(folder, **changes):
    command = [
        sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2",
        "-m", "tests.cluster.cases", str(folder), json.dumps(changes),
    ]  # fmt: skip
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True, timeout=200)


def test_two_workers_train_as_two_processes_of_torchrun(trained, tmp_path):
    folder, clf = trained
    torchrun(tmp_path / "run")
    assert model_bytes(folder) == model_bytes(tmp_path / "run")
    assert clf.classes_.tolist() == [3, 7, 11]
    assert clf.result_.epochs == 3
    assert not (folder / "cluster").exists()
    assert json.loads((folder / "environment.json").read_text())["processes"] == 2


def test_workers_predict_as_this_process(trained, cluster):
    folder, clf = trained
    some = graph().ids_of(np.array([70, 3, 3, 41]))
    assert np.array_equal(clf.predict_proba(cluster=cluster.address), clf.predict_proba())
    loaded = dhilgt.NodeClassifier.load(folder)
    assert np.array_equal(loaded.predict(some, cluster=cluster.address), clf.predict(some))
    assert not list(folder.glob("predictions*"))
