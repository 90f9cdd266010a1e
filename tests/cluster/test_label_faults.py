"""Whatever dies while labels are built, the files are the same, or the error says what to do."""

import json
import signal
import subprocess
import sys
import threading
import time

import pytest

from dhilgt import HubLabels, generate
from dhilgt.cluster import labels as cluster_labels
from dhilgt.cluster.jobs import MAX_ATTEMPTS, Job
from dhilgt.errors import ArtifactError
from dhilgt.labels.sharding import build_sharded
from tests.cluster import faulty_units
from tests.cluster.conftest import NODE, a_cluster
from tests.cluster.stages import cut_small

pytestmark = pytest.mark.full

GRAPH_OPTIONS = {"seed": 3, "num_features": 0, "directed": True}
NUM_NODES = 4000


def graph():
    return generate(NUM_NODES, 4, **GRAPH_OPTIONS)


@pytest.fixture(autouse=True)
def _cut_small(monkeypatch):
    cut_small(monkeypatch, 1024)


@pytest.fixture(scope="module")
def expected(tmp_path_factory):
    path = tmp_path_factory.mktemp("one") / "labels"
    with pytest.MonkeyPatch.context() as patch:
        cut_small(patch, 1024)
        build_sharded(graph(), path, num_ranges=cluster_labels.num_parts(NUM_NODES))
    return bytes_of(path)


def bytes_of(folder):
    return {file.name: file.read_bytes() for file in folder.iterdir()}


def build(folder):
    HubLabels.build(graph(), cluster="auto", path=folder / "labels", progress=False)
    return bytes_of(folder / "labels")


def put(monkeypatch, units):
    for name, function in units.items():
        monkeypatch.setattr(cluster_labels, name, function)


def wait_until(condition, seconds=60):
    limit = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < limit
        time.sleep(0.02)


def finished(folder, word):
    """Return how many units with a word in their name are finished."""
    journal = folder / "labels.partial" / "journal.jsonl"
    return journal.read_text().count(f'"unit": "the {word}') if journal.exists() else 0


def test_workers_killed_in_each_stage(connection, expected, tmp_path, monkeypatch):
    put(monkeypatch, faulty_units.DYING)
    assert build(tmp_path) == expected
    for stage in faulty_units.UNITS:
        assert (tmp_path / f"deaths-{stage}").stat().st_size > 2


def test_workers_killed_at_any_moment(cluster, connection, expected, tmp_path, monkeypatch):
    import psutil

    put(monkeypatch, faulty_units.SLOW)
    raylets = [
        psutil.Process(node.all_processes["raylet"][0].process.pid)
        for node in cluster.list_all_nodes()
    ]
    killed, stopped = [], threading.Event()

    def kill():
        # Fewer than a unit is begun: the same one may be hit each time.
        while len(killed) < MAX_ATTEMPTS - 1 and not stopped.wait(0.9):
            for worker in (child for raylet in raylets for child in raylet.children()):
                if worker.cmdline()[:1] == ["ray::perform"]:
                    worker.send_signal(signal.SIGKILL)
                    killed.append(worker.pid)
                    break

    killer = threading.Thread(target=kill)
    killer.start()
    try:
        assert build(tmp_path) == expected
    finally:
        stopped.set()
        killer.join()
    assert killed


@pytest.mark.parametrize("stage", ["search", "labels"])
def test_a_node_removed_in_a_stage(cluster, connection, expected, tmp_path, monkeypatch, stage):
    put(monkeypatch, faulty_units.SLOW)
    node = cluster.add_node(**NODE)
    cluster.wait_for_nodes()

    def remove():
        wait_until(lambda: finished(tmp_path, stage) > 1)
        cluster.remove_node(node, allow_graceful=False)

    remover = threading.Thread(target=remove)
    remover.start()
    assert build(tmp_path) == expected
    remover.join()


DRIVER = """
import sys
import pytest
from dhilgt import HubLabels
from tests.cluster import faulty_units, stages, test_label_faults as faults

with pytest.MonkeyPatch.context() as patch:
    stages.cut_small(patch, 1024)
    faults.put(patch, faulty_units.SLOW)
    HubLabels.build(faults.graph(), cluster=sys.argv[1], path=sys.argv[2], progress=False)
"""


def test_the_machine_of_the_head_lost(expected, tmp_path, monkeypatch):
    """Without it there is no cluster: Ray ends the driver, and the same call goes on elsewhere."""
    monkeypatch.setenv("RAY_gcs_rpc_server_reconnect_timeout_s", "5")  # not a minute
    path = tmp_path / "labels"
    for is_lost in (True, False):
        with a_cluster() as cluster:
            driver = subprocess.Popen([sys.executable, "-c", DRIVER, cluster.address, str(path)])
            if is_lost:
                wait_until(lambda: finished(tmp_path, "search") > 1)
                cluster.head_node.kill_all_processes(check_alive=False, allow_graceful=False)
            assert (driver.wait(timeout=100) != 0) == is_lost
            assert path.exists() != is_lost
    assert bytes_of(path) == expected


@pytest.mark.parametrize("stage", ["search", "labels"])
def test_a_driver_killed_in_a_stage(cluster, connection, expected, tmp_path, monkeypatch, stage):
    driver = subprocess.Popen(
        [sys.executable, "-c", DRIVER, cluster.address, str(tmp_path / "labels")]
    )
    wait_until(lambda: finished(tmp_path, stage) > 1)
    with pytest.raises(ArtifactError, match=f"is being built by process {driver.pid}"):
        build(tmp_path)
    driver.kill()
    driver.wait(60)
    lines = (tmp_path / "labels.partial" / "journal.jsonl").read_text().split("\n")
    done = {json.loads(line)["unit"] for line in lines[1:-1]}
    begun, call = [], Job._call
    monkeypatch.setattr(Job, "_call", lambda job, unit: begun.append(unit.name) or call(job, unit))
    assert build(tmp_path) == expected
    assert begun
    assert not done.intersection(begun)


def test_a_full_disk_on_a_node(connection, expected, tmp_path, monkeypatch):
    put(monkeypatch, {"search_range": faulty_units.search_on_full_disk})
    with pytest.raises(ArtifactError, match=r"the disk of node .* is full, at the search from"):
        build(tmp_path)
    monkeypatch.undo()
    cut_small(monkeypatch, 1024)
    assert build(tmp_path) == expected
