"""Tokens from a cluster have the bytes of one machine, whatever happens to its units."""

import json
import sys

import numpy as np
import pytest

from dhilgt import HubLabels, Tokens, generate
from dhilgt.cluster import tokens as cluster_tokens
from dhilgt.cluster.jobs import Job
from dhilgt.errors import ArtifactError, ConfigError, DhilgtError
from dhilgt.labels.sharding import build_sharded, rest
from dhilgt.tokens import store as tokens_store
from tests.cluster import faulty_token_units
from tests.cluster.conftest import an_extra_node, kept_busy
from tests.module_cli import command, ended

GRAPHS = {
    directed: generate(700, 5, seed=4, num_features=0, directed=directed)
    for directed in (False, True)
}


@pytest.fixture(autouse=True)
def _small_shards(monkeypatch):
    monkeypatch.setattr(tokens_store, "_SHARD_ROWS", 150)


@pytest.fixture(scope="module")
def labels(tmp_path_factory):
    """Whole labels and the same in parts, by direction."""
    folder = tmp_path_factory.mktemp("labels")
    return {
        directed: (
            HubLabels.build(graph, progress=False),
            build_sharded(graph, folder / f"{directed}", num_ranges=3),
        )
        for directed, graph in GRAPHS.items()
    }


def bytes_of(folder):
    return {file.name: file.read_bytes() for file in folder.iterdir()}


def draw(labels, path, **options):
    return Tokens.build(labels, path=path, cluster="auto", progress=False, **options)


@pytest.mark.parametrize(
    ("directed", "options"),
    [
        (False, {"copies": 2, "bits": 4, "size": 9}),
        (True, {"spill": True, "fill": "neighbors", "size": 12}),
        (True, {"nodes": np.arange(0, 700, 2)[::-1], "threads": 1, "max_memory": "100MB"}),
    ],
    ids=["undirected", "directed", "some nodes"],
)
def test_the_files_are_those_of_one_machine(connection, labels, tmp_path, directed, options):
    whole, cut = labels[directed]
    Tokens.build(whole, path=tmp_path / "one", progress=False, **options)
    tokens = draw(cut, tmp_path / "many", **options)
    assert bytes_of(tmp_path / "many") == bytes_of(tmp_path / "one")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["many", "one"]
    assert tokens.traffic.num_rows == len(tokens)
    alone = Tokens.build(cut, progress=False, **options).traffic
    assert tokens.traffic._replace(seconds=0) == alone._replace(seconds=0)


def test_a_node_without_the_folder_draws_nothing(cluster, connection, labels, tmp_path):
    whole, cut = labels[False]
    Tokens.build(whole, path=tmp_path / "one", progress=False)
    apart = {"DHILGT_SEPARATE_NODE": "1", "TMPDIR": str(tmp_path)}
    with kept_busy(connection), an_extra_node(cluster, env_vars=apart):
        draw(cut, tmp_path / "many")
    assert bytes_of(tmp_path / "many") == bytes_of(tmp_path / "one")


def test_a_stopped_build_goes_on(connection, labels, tmp_path, monkeypatch):
    whole, cut = labels[False]
    monkeypatch.setattr(cluster_tokens, "draw_shard", faulty_token_units.draw_but_shard_3)
    with pytest.raises(DhilgtError, match=r"the rows 450 to 599 failed on node .* to go on from"):
        draw(cut, tmp_path / "many")
    monkeypatch.undo()
    with pytest.raises(ArtifactError, match="unfinished build of something else"):
        draw(cut, tmp_path / "many", seed=5)
    begun, call = [], Job._call
    monkeypatch.setattr(Job, "_call", lambda job, unit: begun.append(unit.name) or call(job, unit))
    monkeypatch.setattr(tokens_store, "_SHARD_ROWS", 150)
    tokens = draw(cut, tmp_path / "many")
    assert "the rows 450 to 599" in begun
    assert len(begun) < 5
    assert tokens.traffic.num_rows == 700  # with those of the first run
    Tokens.build(whole, path=tmp_path / "one", progress=False)
    assert bytes_of(tmp_path / "many") == bytes_of(tmp_path / "one")


def test_tokens_that_are_there(connection, labels, tmp_path):
    cut = labels[False][1]
    draw(cut, tmp_path / "tokens")
    with pytest.raises(ArtifactError, match="overwrite=True"):
        draw(cut, tmp_path / "tokens")
    assert draw(cut, tmp_path / "tokens", resume=True).traffic.num_rows == 0
    with pytest.raises(ArtifactError, match="overwrite=True"):
        draw(cut, tmp_path / "tokens", resume=True, seed=2)
    assert draw(cut, tmp_path / "tokens", overwrite=True, seed=2).spec.seed == 2


def test_large_labels_are_checked_by_the_workers(connection, tmp_path, monkeypatch):
    monkeypatch.setattr("dhilgt.store.checksums.WHOLE_BYTES", 1000)
    build_sharded(GRAPHS[False], tmp_path / "labels", num_ranges=2)
    assert len(draw(HubLabels.load(tmp_path / "labels"), tmp_path / "sound")) == 700
    file = tmp_path / "labels" / "in_records_00001.npy"
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    file.write_bytes(data)
    monkeypatch.setattr("dhilgt.store.artifact.sampled_blocks", lambda count: [])
    labels = HubLabels.load(tmp_path / "labels")
    with pytest.raises(ArtifactError, match=r"in_records_00001 failed on node .* is damaged"):
        draw(labels, tmp_path / "tokens")
    assert not (tmp_path / "tokens").exists()


def test_labels_that_the_workers_do_not_see(connection, tmp_path):
    labels = build_sharded(GRAPHS[False], tmp_path / "labels", num_ranges=2)
    (tmp_path / "labels").rename(tmp_path / "moved")
    with pytest.raises(ArtifactError, match="keep them in a folder that all machines share"):
        draw(labels, tmp_path / "tokens")


def test_arguments_that_do_not_go_together(labels, tmp_path):
    whole, cut = labels[False]
    with pytest.raises(ConfigError, match="cluster goes with path"):
        Tokens.build(cut, cluster="auto")
    with pytest.raises(ConfigError, match="cluster = 'auto' needs labels in parts"):
        draw(whole, tmp_path / "tokens")
    assert not list(tmp_path.iterdir())


def test_without_ray_the_way_out_is_one_line(monkeypatch, labels, tmp_path):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(DhilgtError, match=r"pip install 'dhilgt\[cluster\]'"):
        draw(labels[False][1], tmp_path / "tokens")
    assert not list(tmp_path.iterdir())


def test_the_command(cluster, labels, tmp_path):
    path, output = labels[True][1].path, tmp_path / "web.tokens"
    printed = command("tokens", path, "-o", output, "--cluster", cluster.address)
    assert "moved" in printed
    assert "bytes per row" in printed.split("moved")[1]
    facts = json.loads(
        command("tokens", path, "-o", output, "--overwrite", "--cluster", "auto", "--json")
    )
    assert facts["traffic"]["num_rows"] == 700
    labels[True][0].save(tmp_path / "whole")
    code, _, message = ended("tokens", tmp_path / "whole", "-o", output, "--cluster", "auto")
    assert code
    assert "--cluster auto needs labels in parts" in message


def test_the_search_of_labels_is_freed_before_rows_are_drawn(
    connection, labels, tmp_path, monkeypatch
):
    monkeypatch.setattr(Job, "run", lambda job, units, **_: [job.here(one) for one in units])
    monkeypatch.setitem(rest._kept, ("of a build",), object())
    draw(labels[False][1], tmp_path / "tokens")
    assert not rest._kept
