"""What cannot work on a cluster is refused before any work; no cluster is started here."""

import contextlib
import socket
import sys
from types import SimpleNamespace

import numpy as np
import pytest
from typer.testing import CliRunner

import dhilgt
from dhilgt.cli.app import app
from dhilgt.cluster import prediction, training
from dhilgt.cluster.failures import packed, unpacked
from dhilgt.cluster.machines import Workers, choose_workers, look, marked
from dhilgt.errors import ArtifactError, ConfigError, DhilgtError, setting
from dhilgt.store.target import BuildLock
from dhilgt.training.run_folder import RunFolder
from tests.classifier.cases import community_graph, quick
from tests.cluster.cases import train


def test_training_needs_a_folder():
    with pytest.raises(ConfigError, match="needs run_dir, a folder that all machines"):
        quick().fit(community_graph(), cluster="auto")


def test_prediction_needs_a_saved_classifier(tmp_path):
    clf = quick(epochs=1).fit(community_graph())
    with pytest.raises(ConfigError, match="call save first"):
        clf.predict(cluster="auto")
    clf.save(tmp_path / "saved")
    quick(epochs=1, seed=5).fit(community_graph()).save(tmp_path / "saved", overwrite=True)
    with pytest.raises(ConfigError, match="no longer holds this classifier"):
        clf.predict(cluster="auto")


def test_not_under_torchrun(tmp_path, monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(ConfigError, match="without torchrun"):
        train(tmp_path / "run", "auto")


def test_without_ray(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(DhilgtError, match=r"pip install 'dhilgt\[cluster\]'"):
        train(tmp_path / "run", "auto")
    assert not (tmp_path / "run").exists()


def test_address_of_the_client_of_ray(tmp_path):
    with pytest.raises(ConfigError, match=r"an address of Ray's client.*ray job submit"):
        train(tmp_path / "run", "ray://127.0.0.1:10001")
    assert not (tmp_path / "run").exists()


def test_second_driver_is_refused(tmp_path):
    folder = tmp_path / "run"
    (folder / "cluster").mkdir(parents=True)
    lock = BuildLock(folder / "cluster")
    with pytest.raises(ArtifactError, match="is being built by process"):
        train(folder, "auto")
    lock.release()


def test_leftovers_of_a_killed_driver_are_no_message_to_workers(tmp_path):
    place = tmp_path / "run" / "cluster"
    (place / "cache").mkdir(parents=True)
    for name in ("stop", "error-000000.json"):
        (place / name).touch()
    with training._claimed(RunFolder(tmp_path / "run"), resume=False):
        assert [path.name for path in place.iterdir()] == ["cache"]
        (place / "graph").mkdir()
    assert not place.exists()
    run = RunFolder(tmp_path / "run")
    with contextlib.suppress(KeyError), training._claimed(run, resume=False):
        (place / "cache").mkdir()
        (place / "graph").mkdir()
        raise KeyError
    assert [path.name for path in place.iterdir()] == ["cache"]  # for the next attempt


def test_folder_of_a_run_is_not_taken(tmp_path):
    graph = community_graph()
    quick(epochs=1).fit(graph, run_dir=tmp_path / "run")
    before = {path.name for path in (tmp_path / "run").iterdir()}
    with pytest.raises(ArtifactError, match="holds a run"):
        quick(epochs=1).fit(graph, run_dir=tmp_path / "run", cluster="auto")
    with pytest.raises(ConfigError, match="hidden_channels = 16"):
        quick(epochs=1, hidden_channels=16).fit(
            graph, run_dir=tmp_path / "run", resume=True, cluster="auto"
        )
    assert {path.name for path in (tmp_path / "run").iterdir()} == before


# ---- machines ----------------------------------------------------------------------------------


def machines(*resources):
    nodes = [{"Alive": True, "Resources": one} for one in resources]
    return SimpleNamespace(nodes=lambda: [*nodes, {"Alive": False, "Resources": {"CPU": 64}}])


def test_workers_of_a_cluster():
    boxes = machines({"CPU": 0}, {"CPU": 32, "GPU": 8}, {"CPU": 8, "GPU": 4})
    assert choose_workers(boxes) == Workers(12, 2, 1)
    assert choose_workers(boxes, "cpu") == Workers(2, 8, 0)
    assert choose_workers(machines({"CPU": 4}, {"CPU": 16})) == Workers(2, 4, 0)
    with pytest.raises(ConfigError, match="device = 'cuda', but no machine"):
        choose_workers(machines({"CPU": 4}), "cuda")
    with pytest.raises(ConfigError, match="no machine of the cluster has a core"):
        choose_workers(machines({"CPU": 0}))


def test_mark_of_a_folder(tmp_path):
    with marked(tmp_path) as mark:
        assert look(str(mark)) == ("", dhilgt.__version__)
        mark.write_text("other")
        assert look(str(mark))[0] == "it holds other files there"
    assert look(str(mark))[0] == "No such file or directory"
    assert not list(tmp_path.iterdir())


def test_errors_of_workers_keep_class_and_arguments_and_name_the_machine():
    refused = unpacked(*packed(ConfigError(f"{setting('size', 300)}; pass at most 255")))
    assert isinstance(refused, ConfigError)
    assert refused.argument == "size"
    full = unpacked(*packed(ArtifactError("cannot write x: no space left on device")))
    assert isinstance(full, ArtifactError)
    assert str(full) == f"on node {socket.gethostname()}: cannot write x: no space left on device"


# ---- ranges of prediction ----------------------------------------------------------------------


@pytest.mark.parametrize("count", [1, 15, 16, 17, 1000])
@pytest.mark.parametrize("workers", [1, 3])
def test_ranges_are_whole_batches(count, workers):
    ranges = list(prediction._ranges(count, [16, 5], workers))
    for member, batch in enumerate([16, 5]):
        own = [(first, last) for at, first, last in ranges if at == member]
        assert [at for first, last in own for at in range(first, last)] == list(range(count))
        assert all(first % batch == 0 for first, _ in own)


def test_damaged_parts_are_made_again(tmp_path):
    predictor = prediction.Predictor(SimpleNamespace(place=tmp_path))
    ranges = [(0, 0, 2), (0, 2, 4)]
    for one in ranges:
        predictor._write(one, np.full((2, 3), one[1], np.float32))
    paths = prediction._done(tmp_path, ranges)
    assert set(paths) == set(ranges)
    paths[ranges[1]].write_bytes(b"cut")
    assert set(prediction._done(tmp_path, ranges)) == {ranges[0]}


def test_range_that_kills_workers_is_given_up(tmp_path):
    predictor = prediction.Predictor(SimpleNamespace(place=tmp_path))
    for _ in range(4):
        predictor._note_try((0, 0, 2))
    answer = predictor({"member": [0], "first": [0], "last": [2]})
    assert "4 workers died one after the other" in answer["message"][0]


# ---- commands ----------------------------------------------------------------------------------


def said(*arguments):
    result = CliRunner().invoke(app, list(map(str, arguments)), prog_name="dhilgt")
    return result.exit_code, result.output


def test_commands(tmp_path, monkeypatch):
    files = ["train", "--edges", "e.csv", "--features", "x.csv", "--labels", "y.csv"]
    place = ["-o", tmp_path / "run", "--cluster", "auto"]
    code, text = said(*files, *place, "--seeds", "0-1", "--jobs", "2")
    assert code == 2
    assert "a cluster divides each run" in text
    monkeypatch.setitem(sys.modules, "ray", None)
    for command in ([*files, *place], ["predict", tmp_path, "--cluster", "auto"]):
        code, text = said(*command)
        assert code == 1
        assert "pip install 'dhilgt[cluster]'" in " ".join(text.split())
