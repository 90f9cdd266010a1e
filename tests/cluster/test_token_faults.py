"""Whatever dies while tokens are drawn, the files are the same, or the error says what to do."""

import json
import subprocess
import sys
import threading
import time

import pytest

from dhilgt import HubLabels, Tokens, generate
from dhilgt.cluster import tokens as cluster_tokens
from dhilgt.cluster.jobs import Job
from dhilgt.errors import ArtifactError
from dhilgt.labels.sharding import build_sharded
from dhilgt.tokens import store as tokens_store
from tests.cluster import faulty_token_units
from tests.cluster.conftest import NODE

pytestmark = pytest.mark.full


@pytest.fixture(autouse=True)
def _small_shards(monkeypatch):
    monkeypatch.setattr(tokens_store, "_SHARD_ROWS", 100)


@pytest.fixture(scope="module")
def labels(tmp_path_factory):
    graph = generate(1200, 5, seed=4, num_features=0, directed=True)
    return build_sharded(graph, tmp_path_factory.mktemp("parts") / "labels", num_ranges=3)


@pytest.fixture
def expected(labels, tmp_path_factory):
    path = tmp_path_factory.mktemp("one") / "tokens"
    Tokens.build(labels.gather(), path=path, progress=False)
    return bytes_of(path)


def bytes_of(folder):
    return {file.name: file.read_bytes() for file in folder.iterdir()}


def draw(labels, folder):
    Tokens.build(labels, path=folder / "tokens", cluster="auto", progress=False)
    return bytes_of(folder / "tokens")


def finished(folder):
    """Return the names of the finished units."""
    journal = folder / "tokens.partial" / "journal.jsonl"
    lines = journal.read_text().split("\n") if journal.exists() else []
    return {json.loads(line)["unit"] for line in lines[1:-1]}


def wait_until(condition, seconds=60):
    limit = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < limit
        time.sleep(0.02)


def test_workers_killed_before_and_after_they_write(
    connection, labels, expected, tmp_path, monkeypatch
):
    monkeypatch.setattr(cluster_tokens, "draw_shard", faulty_token_units.dying_draw)
    assert draw(labels, tmp_path) == expected
    assert {(tmp_path / f"deaths-{number}").stat().st_size for number in range(4)} == {3}


def test_a_node_removed(cluster, connection, labels, expected, tmp_path, monkeypatch):
    monkeypatch.setattr(cluster_tokens, "draw_shard", faulty_token_units.slow_draw)
    node = cluster.add_node(**NODE)
    cluster.wait_for_nodes()

    def remove():
        wait_until(lambda: len(finished(tmp_path)) > 1)
        cluster.remove_node(node, allow_graceful=False)

    remover = threading.Thread(target=remove)
    remover.start()
    assert draw(labels, tmp_path) == expected
    remover.join()


DRIVER = """
import sys
from dhilgt import HubLabels, Tokens
from dhilgt.cluster import tokens
from dhilgt.tokens import store
from tests.cluster import faulty_token_units

address, labels, path = sys.argv[1:]
store._SHARD_ROWS = 100
tokens.draw_shard = faulty_token_units.slow_draw
Tokens.build(HubLabels.load(labels), path=path, cluster=address, progress=False)
"""


def test_a_driver_killed(cluster, connection, labels, expected, tmp_path, monkeypatch):
    driver = subprocess.Popen(
        [sys.executable, "-c", DRIVER, cluster.address, labels.path, tmp_path / "tokens"]
    )
    wait_until(lambda: len(finished(tmp_path)) > 1)
    with pytest.raises(ArtifactError, match=f"is being built by process {driver.pid}"):
        draw(labels, tmp_path)
    driver.kill()
    driver.wait(60)
    done = finished(tmp_path)
    assert len(done) < 12
    begun, call = [], Job._call
    monkeypatch.setattr(Job, "_call", lambda job, unit: begun.append(unit.name) or call(job, unit))
    assert draw(labels, tmp_path) == expected
    assert len(begun) == 12 - len(done)
    assert not done.intersection(begun)


def test_a_full_disk_on_a_node(connection, labels, expected, tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(cluster_tokens, "draw_shard", faulty_token_units.draw_on_full_disk)
        with pytest.raises(ArtifactError, match=r"the disk of node .* is full, at the rows"):
            draw(labels, tmp_path)
    assert draw(labels, tmp_path) == expected


def test_workers_open_replaced_labels_again(connection, tmp_path):
    for seed in (4, 9):
        graph = generate(500, 5, seed=seed, num_features=0)
        labels = build_sharded(graph, tmp_path / "labels", num_ranges=2, overwrite=True)
        Tokens.build(
            labels, path=tmp_path / "tokens", cluster="auto", overwrite=True, progress=False
        )
        Tokens.build(HubLabels.build(graph, progress=False), path=tmp_path / f"{seed}")
        assert bytes_of(tmp_path / "tokens") == bytes_of(tmp_path / f"{seed}")
