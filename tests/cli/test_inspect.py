"""`dhilgt inspect` and `dhilgt report` on the folders of runs."""

import json
import os
import shutil
import socket
import subprocess
import sys

import pytest
import torch

from dhilgt import NodeClassifier
from dhilgt.report import read_facts
from tests.cli.cases import Files, fails, ok

torch.set_num_threads(1)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Files of a graph; the folders run (with test nodes), other (another lr) and seeds."""
    with pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.mktemp("inspect")
        patch.setenv("DHILGT_CACHE", str(folder / "cache"))
        files = Files(folder)
        ok(*files.train(split=files.split))
        ok(*files.train(split=files.split, output=folder / "other"), "--lr", 0.05, "--epochs", 4)
        ok(*files.train(split=files.split, output=folder / "seeds"), "--seeds", "0-2")
        yield files


@pytest.fixture
def run(files, tmp_path):
    """A copy of the run, to be damaged."""
    shutil.copytree(files.folder / "run", tmp_path / "run")
    return tmp_path / "run"


def inspected(*paths):
    return json.loads(ok("inspect", *paths, "--json").stdout)


def cut_off(run, *, epochs):
    """Make a run look as if it had been killed after some epochs."""
    for name in ("bundle.json", "result.json", "report.html", "report.json"):
        (run / name).unlink()
    lines = (run / "metrics.jsonl").read_text().splitlines(keepends=True)
    (run / "metrics.jsonl").write_text("".join(lines[:epochs]) + '{"epoch": ')


# ---- one run -----------------------------------------------------------------------------------


def test_a_run_is_described(run, files):
    clf = NodeClassifier.load(run)
    facts = inspected(run)
    assert facts["state"] == "whole"
    assert facts["problems"] == []
    assert facts["data"]["edges"] == str(files.edges)
    assert (facts["graph"]["nodes"], facts["graph"]["edges"]) == (90, clf.graph_.num_edges // 2)
    assert facts["classes"] == ["blue", "green", "red"]
    assert facts["split"] == {"train": 50, "val": 20, "test": 20}
    assert facts["changed_settings"]["lr"] == 0.02
    assert "readout" not in facts["changed_settings"]
    assert facts["scores"] == clf.scores_
    assert facts["epochs"] == 2
    assert facts["seconds"] > 0
    common = max(set(files.classes[:50]), key=files.classes[:50].count)
    assert facts["majority"]["test"] == files.classes[70:].count(common) / 20
    text = ok("inspect", run).stdout
    for part in ("undirected, 90 nodes", "4 a node", "50 train, 20 val, 20 test", "lr 0.02",
                 "majority class", f"dhilgt predict {run} -o predictions.csv"):  # fmt: skip
        assert part in text


def test_the_majority_is_scored_by_the_metric_of_the_run(tmp_path, monkeypatch):
    monkeypatch.setenv("DHILGT_CACHE", str(tmp_path / "cache"))
    files = Files(tmp_path)
    done = ok(*files.train(split=files.split), "--metric", "roc_auc", "--epochs", 1)
    table = [line.split() for line in done.stdout.splitlines()[:4]]
    assert [row[-1] for row in table[1:]] == ["0.5000"] * 3
    assert "(majority class: roc_auc of" in done.stdout
    assert inspected(tmp_path / "run")["majority"] == {"train": 0.5, "val": 0.5, "test": 0.5}


def test_the_parts_of_a_run_are_described(run):
    graph, model = inspected(run / "graph"), inspected(run / "model")
    assert (graph["kind"], graph["nodes"]) == ("graph", 90)
    assert graph["edges"] == inspected(run)["graph"]["edges"]
    clf = NodeClassifier.load(run)
    assert model["parameters"] == sum(one.numel() for one in clf.model_.parameters())
    assert model["config"]["hidden_channels"] == 16
    checkpoints = inspected(run / "checkpoints")
    assert [one["epoch"] for one in checkpoints["checkpoints"]] == [1, 2]
    newest = run / "checkpoints" / checkpoints["latest"]
    assert inspected(newest)["checkpoints"] == checkpoints["checkpoints"][-1:]
    assert "after 2 epochs" in ok("inspect", newest).stdout


def test_a_run_that_was_cut_off_tells_how_to_go_on(run):
    cut_off(run, epochs=1)
    facts = inspected(run)
    first = json.loads((run / "metrics.jsonl").read_text().splitlines()[0])
    assert (facts["state"], facts["epochs"], facts["best_epoch"]) == ("cut off", 1, 1)
    assert facts["best_score"] == first["val_score"]
    text = ok("inspect", run).stdout
    assert "cut off after epoch 1 of at most 2" in text
    assert f"the best so far is 1 (validation accuracy {first['val_score']:.4f})" in text
    assert f"next: dhilgt train --resume -o {run}" in text
    ok("train", "--resume", "-o", run)  # and that command is right
    assert inspected(run)["state"] == "whole"


def test_a_run_without_an_epoch_and_one_that_is_running(run):
    cut_off(run, epochs=0)
    shutil.rmtree(run / "checkpoints")
    assert "stopped before its first epoch" in ok("inspect", run).stdout
    holder = {"pid": os.getpid(), "host": socket.gethostname()}
    (run.parent / ".run.lock").write_text(json.dumps(holder))
    assert "running now: epoch 1 of at most 2" in ok("inspect", run).stdout
    assert inspected(run)["next"] == []


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("metrics.jsonl", "metrics.jsonl is missing"),
        ("model/model.safetensors", "model/model.safetensors is missing"),
        ("graph/manifest.json", "graph/manifest.json is missing"),
        ("graph/labels.npy", "labels.npy is missing"),
    ],
)
def test_missing_parts_are_named(run, name, problem):
    (run / name).unlink()
    facts = inspected(run)
    assert facts["state"] == "damaged"
    assert any(problem in one for one in facts["problems"])
    assert "damaged" in ok("inspect", run).stdout


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"kind": "dhilgt-classifier"}', "\x00"])
def test_a_damaged_bundle_is_a_problem_not_an_accident(run, content):
    (run / "bundle.json").write_text(content)
    facts = inspected(run)
    assert facts["state"] == "damaged"
    assert "bundle.json" in facts["problems"][0]


def test_verify_reads_every_byte(run):
    ok("inspect", run, "--verify")
    path = run / "graph" / "features.npy"
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    assert "features.npy" in fails("inspect", run, "--verify")


def test_other_folders_are_refused(tmp_path):
    assert "not an artifact" in fails("inspect", tmp_path)


def test_a_run_is_described_without_torch(run):
    code = (
        "import sys; from dhilgt.cli.app import app; "
        f"app(['inspect', {str(run)!r}], standalone_mode=False); sys.exit('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True)
    assert done.returncode == 0, done.stderr


# ---- several seeds -----------------------------------------------------------------------------


def test_seeds_are_summarised(files):
    facts = inspected(files.folder / "seeds")
    lines = (files.folder / "seeds" / "runs.jsonl").read_text().splitlines()
    scores = [json.loads(line)["scores"]["test"]["accuracy"] for line in lines]
    assert (facts["kind"], facts["ended"], len(facts["runs"])) == ("runs", 3, 3)
    assert facts["summary"]["test"]["mean"] == pytest.approx(sum(scores) / 3)
    text = ok("inspect", files.folder / "seeds").stdout
    assert "mean ± sd" in text
    assert "3 of 3 have ended" in text


def test_a_seed_that_was_cut_off_is_no_part_of_the_mean(files, tmp_path):
    shutil.copytree(files.folder / "seeds", tmp_path / "seeds")
    cut_off(tmp_path / "seeds" / "seed-1", epochs=1)
    facts = inspected(tmp_path / "seeds")
    whole = [one["scores"]["test"]["accuracy"] for one in facts["runs"] if one["scores"]]
    assert (facts["ended"], len(whole)) == (2, 2)
    assert facts["summary"]["test"]["mean"] == pytest.approx(sum(whole) / 2)
    text = ok("inspect", tmp_path / "seeds").stdout
    assert f"dhilgt train --resume -o {tmp_path / 'seeds' / 'seed-1'}" in text


# ---- two runs ----------------------------------------------------------------------------------


def test_two_runs_are_compared_on_the_same_test_nodes(files):
    paths = files.folder / "run", files.folder / "other"
    facts = inspected(*paths)
    assert facts["settings"] == {"epochs": [2, 4], "lr": [0.02, 0.05]}
    assert all(facts["data"].values())
    one, other = (NodeClassifier.load(path) for path in paths)
    difference = other.scores_["test"]["accuracy"] - one.scores_["test"]["accuracy"]
    rows = {(row["part"], row["score"]): row for row in facts["scores"]}
    assert rows["test", "accuracy"]["difference"] == pytest.approx(difference)
    paired = facts["paired"]
    assert paired["nodes"] == 20
    assert paired["difference"] == pytest.approx(difference)
    assert paired["low"] <= paired["difference"] <= paired["high"]
    changed = paired["only_second_right"] - paired["only_first_right"]
    assert changed / 20 == pytest.approx(difference)
    text = ok("inspect", *paths).stdout
    assert "lr       0.02  0.05" in text
    assert "on the same 20 test nodes: B - A =" in text


def test_runs_on_other_data_are_not_paired(files, tmp_path, monkeypatch):
    monkeypatch.setenv("DHILGT_CACHE", str(tmp_path / "cache"))
    text = files.split.read_text().replace("n89,test", "n89,train")
    split = tmp_path / "split.csv"
    split.write_text(text)
    ok(*files.train(split=split, output=tmp_path / "run"))
    facts = inspected(files.folder / "run", tmp_path / "run")
    assert [part for part, same in facts["data"].items() if not same] == [
        "test nodes", "training nodes",
    ]  # fmt: skip
    assert facts["paired"] is None
    assert "data: other " in ok("inspect", files.folder / "run", tmp_path / "run").stdout


def test_seeds_are_compared_by_seed(files):
    place = files.folder / "seeds"
    facts = inspected(place, place)
    assert facts["settings"] == {}
    assert facts["paired"] == {"seeds": 3, "mean": 0.0, "sd": 0.0}
    assert "paired by seed on 3 seeds: B - A = +0.0000" in ok("inspect", place, place).stdout


def test_two_artifacts_are_compared(files, tmp_path):
    ok("label", files.edges, "-o", tmp_path / "a")
    ok("label", files.edges, "-o", tmp_path / "b", "--order", "random")
    facts = inspected(tmp_path / "a", tmp_path / "b")
    assert "fingerprint" in facts["differences"]
    assert "graph_fingerprint" not in facts["differences"]
    same = ok("inspect", tmp_path / "a", tmp_path / "a").stdout
    assert "the descriptions are the same" in same
    assert "byte for byte" in same


def test_two_kinds_cannot_be_compared(run):
    message = fails("inspect", run, run / "graph")
    assert message.endswith("compare two of one kind")
    assert "holds a run" in message


# ---- the report --------------------------------------------------------------------------------


def test_a_lost_page_is_rendered_from_its_data(run):
    before = (run / "report.html").read_bytes()
    (run / "report.html").unlink()
    assert f"dhilgt report {run}" in ok("inspect", run).stdout
    result = ok("report", run)
    assert result.stdout.strip() == str(run / "report.html")
    assert result.stderr == ""
    assert (run / "report.html").read_bytes() == before


@pytest.mark.parametrize("damage", ["lost", "cut", "of another run"])
def test_a_report_without_its_data_is_computed_again(run, files, damage):
    before = read_facts(run / "report.json")
    (run / "report.html").unlink()
    if damage == "lost":
        (run / "report.json").unlink()
    elif damage == "cut":
        (run / "report.json").write_bytes((run / "report.json").read_bytes()[:1000])
    else:
        shutil.copy(files.folder / "other" / "report.json", run / "report.json")
    notes = ok("report", run).stderr
    assert "the time that predicting took" in notes
    assert ("is computed again" in notes) is (damage != "lost")
    after = read_facts(run / "report.json")
    assert before["stages"].pop("inference")
    assert after == before
    assert (run / "report.html").exists()


def test_what_cannot_be_rebuilt_is_named(run):
    for name in ("report.html", "report.json", "environment.json"):
        (run / name).unlink()
    notes = ok("report", run, "-o", run.parent / "new" / "page.html", "--title", "Mine").stderr
    assert "versions and hardware of the training are not known" in notes
    facts = read_facts(run.parent / "new" / "page.json")
    assert (facts["title"], facts["environment_of"]) == ("Mine", "the report was made")


def test_a_run_that_has_not_ended_has_no_report(run):
    cut_off(run, epochs=1)
    assert fails("report", run).endswith(f"go on with: dhilgt train --resume -o {run}")
