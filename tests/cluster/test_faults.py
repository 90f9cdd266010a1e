"""Processes and machines that die: the run ends with the bytes of an undisturbed one."""

import json
import os
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

import dhilgt
from dhilgt.errors import TrainingInterrupted
from tests.cluster.cases import ROOT, graph, model_bytes, torchrun, train
from tests.cluster.conftest import NODE

pytestmark = [pytest.mark.full, pytest.mark.usefixtures("connection")]
LONG = {"epochs": 120}


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    folder = tmp_path_factory.mktemp("undisturbed") / "run"
    torchrun(folder, **LONG)
    return model_bytes(folder)


def epochs_saved(folder):
    try:
        return int((folder / "checkpoints" / "LATEST").read_text().partition("-")[0])
    except (OSError, ValueError):
        return 0


def wait_until(condition, seconds=100):
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, "it did not happen"
        time.sleep(0.02)


def once(condition, act):
    """Acts in the background once a condition holds; returns what to wait for."""

    def work():
        wait_until(condition)
        act()

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    return thread


def writer_of(folder):
    """The process that writes in the folder of a run: the worker of rank 0."""
    return json.loads((folder.parent / f".{folder.name}.lock").read_text())["pid"]


def test_worker_killed_in_training(cluster, tmp_path, undisturbed):
    folder = tmp_path / "run"
    killed = []

    def kill():
        killed.append((writer_of(folder), epochs_saved(folder)))
        os.kill(killed[0][0], signal.SIGKILL)

    thread = once(lambda: epochs_saved(folder) >= 3, kill)
    train(folder, cluster.address, **LONG)
    thread.join()
    assert killed[0][0] != os.getpid()
    assert 3 <= killed[0][1] < LONG["epochs"]
    assert model_bytes(folder) == undisturbed


def test_node_lost_in_training(cluster, tmp_path, undisturbed):
    folder = tmp_path / "run"
    # Nodes can be added in the main thread only.
    thread = threading.Thread(target=train, args=(folder, cluster.address), kwargs=LONG)
    thread.start()
    wait_until(lambda: epochs_saved(folder) >= 3)
    cluster.remove_node(cluster.list_all_nodes()[-1], allow_graceful=False)
    cluster.add_node(**NODE)
    thread.join()
    assert model_bytes(folder) == undisturbed


def driver(folder, address, **changes):
    return subprocess.Popen(
        [sys.executable, "-m", "tests.cluster.cases", str(folder),
         json.dumps(changes | {"cluster": address})],
        cwd=ROOT, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def test_driver_killed_in_training(cluster, tmp_path, undisturbed):
    folder = tmp_path / "run"
    process = driver(folder, cluster.address, **LONG)
    wait_until(lambda: epochs_saved(folder) >= 3)
    process.kill()
    process.wait()
    train(folder, cluster.address, **LONG)
    assert model_bytes(folder) == undisturbed


def test_interrupted_driver_saves_and_goes_on(cluster, tmp_path, undisturbed):
    folder = tmp_path / "run"
    once(lambda: epochs_saved(folder) >= 3, lambda: os.kill(os.getpid(), signal.SIGINT))
    with pytest.raises(TrainingInterrupted, match=r"stopped by SIGINT after .* cluster='"):
        train(folder, cluster.address, **LONG)
    assert 3 <= epochs_saved(folder) < LONG["epochs"]
    train(folder, cluster.address, **LONG)
    assert model_bytes(folder) == undisturbed


# ---- prediction --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    folder = tmp_path_factory.mktemp("saved") / "run"
    train(folder, batch_size=2)
    return folder


def tries(folder):
    """Processes that have begun a range."""
    return [int(path.name.split("-")[4]) for path in folder.glob("predictions.parts-*/try-*")]


def test_worker_killed_in_prediction(cluster, saved):
    clf = dhilgt.NodeClassifier.load(saved)
    killed = []

    def kill():
        killed.append(tries(saved)[0])
        os.kill(killed[0], signal.SIGKILL)

    thread = once(lambda: tries(saved), kill)
    found = clf.predict_proba(cluster=cluster.address)
    thread.join()
    assert killed
    assert np.array_equal(found, clf.predict_proba())


def test_driver_killed_in_prediction(cluster, saved):
    code = (
        "import sys, dhilgt; dhilgt.NodeClassifier.load(sys.argv[1]).predict(cluster=sys.argv[2])"
    )
    process = subprocess.Popen([sys.executable, "-c", code, str(saved), cluster.address])
    wait_until(lambda: list(saved.glob("predictions.parts-*/0-*.npy")))
    process.kill()
    process.wait()
    assert list(saved.glob("predictions.parts-*/0-*.npy"))
    clf = dhilgt.NodeClassifier.load(saved)
    found = clf.predict_proba(cluster=cluster.address)
    assert np.array_equal(found, clf.predict_proba(graph().nodes))
    assert not list(saved.glob("predictions.parts-*"))
