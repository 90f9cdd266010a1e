"""`dhilgt train` from files as people have them to a run's folder."""

import json
import os
import re
import signal
import subprocess
import time
from dataclasses import fields

import numpy as np
import pytest
import scipy.sparse
import typer.main
import yaml

import dhilgt
from dhilgt.cli.app import app
from dhilgt.settings.settings import GROUPS, Settings
from tests.cli.cases import SMALL, Files, fails, ok, run, shell_command


@pytest.fixture(autouse=True)
def own_cache(monkeypatch, tmp_path_factory):
    monkeypatch.setenv("DHILGT_CACHE", str(tmp_path_factory.mktemp("cache")))


@pytest.fixture
def files(tmp_path):
    return Files(tmp_path)


def test_three_files_become_a_run(files, tmp_path):
    result = ok(*files.train(split=files.split))
    assert f"read {files.edges}: undirected, 90 nodes" in result.stderr
    assert "4 features a node; 3 classes on 90 labelled nodes; 50 train, 20 val, 20 test" in (
        result.stderr
    )
    lines = result.stdout.splitlines()
    assert lines[0].split() == ["part", "nodes", "loss", "accuracy", "majority", "class"]
    assert [line.split()[:2] for line in lines[1:4]] == [
        ["train", "50"], ["val", "20"], ["test", "20"],
    ]  # fmt: skip
    assert f"next: dhilgt predict {tmp_path / 'run'} -o predictions.csv" in result.stdout
    assert (tmp_path / "run" / "report.html").read_text().startswith("<!DOCTYPE html>")
    clf = dhilgt.NodeClassifier.load(tmp_path / "run")
    assert clf.classes_.tolist() == ["blue", "green", "red"]
    assert clf.graph_.ids_of(clf.split_["test"]).tolist() == files.names[70:]
    truth = np.array(files.classes)
    common = max(set(truth[:50]), key=truth[:50].tolist().count)
    majority = (truth[70:] == common).mean()
    assert float(lines[3].split()[-1]) == pytest.approx(majority, abs=1e-4)


@pytest.mark.parametrize("metric", ["accuracy", "roc_auc", "macro_f1"])
def test_the_majority_class_is_scored_by_the_metric_of_the_run(files, metric):
    two = ["red" if one == "red" else "blue" for one in files.classes]
    pairs = zip(files.names, two, strict=True)
    files.write("y.csv", "id,label\n" + "".join(f"{n},{c}\n" for n, c in pairs))
    result = ok(*files.train(split=files.split), "--metric", metric, "--no-report")
    lines = result.stdout.splitlines()
    truth = np.array(two[70:])
    f1 = 2 * (truth == "blue").sum() / (len(truth) + (truth == "blue").sum())
    expected = {"accuracy": (truth == "blue").mean(), "roc_auc": 0.5, "macro_f1": f1 / 2}[metric]
    assert lines[0].split() == ["part", "nodes", "loss", metric, "majority", "class"]
    assert float(lines[3].split()[-1]) == pytest.approx(expected, abs=1e-4)
    answer = (
        "giving the fractions of the training classes" if metric == "roc_auc" else "saying 'blue'"
    )
    assert f"(majority class: {metric} of always {answer})" in lines


def test_json_is_one_object_with_the_same_numbers(files, tmp_path):
    result = ok(*files.train(split=files.split), "--json")
    facts = json.loads(result.stdout)
    clf = dhilgt.NodeClassifier.load(tmp_path / "run")
    assert facts["scores"]["test"]["accuracy"] == pytest.approx(clf.scores_["test"]["accuracy"])
    assert facts["split"] == {"train": 50, "val": 20, "test": 20}
    assert facts["classes"] == ["blue", "green", "red"]
    assert set(facts["stages"]) >= {"labels", "tokens", "epoch"}
    assert facts["reused_from_cache"] == []


def test_quiet_prints_nothing_and_the_cache_is_used_again(files, tmp_path):
    first = ok(*files.train(output=tmp_path / "one"), "--quiet")
    assert first.output == ""
    again = ok(*files.train(output=tmp_path / "two"))
    assert "labels and tokens reused" in again.stdout
    apart = ok(*files.train(output=tmp_path / "three"), "--no-cache", "--no-report")
    assert not (tmp_path / "three" / "report.html").exists()
    assert "nothing reused" in apart.stdout


def test_the_same_nodes_in_another_order_give_the_same_run(files, tmp_path):
    ok(*files.train(output=tmp_path / "one"), "--deterministic")
    rng = np.random.default_rng(0)
    for name in ("edges.csv", "x.csv", "y.csv"):
        head, *lines = (tmp_path / name).read_text().splitlines(keepends=True)
        mixed = rng.permutation(np.array(lines, dtype=object)).tolist()
        files.write(name, head + "".join(mixed))
    ok(*files.train(output=tmp_path / "two"), "--deterministic")
    one, two = (dhilgt.NodeClassifier.load(tmp_path / name) for name in ("one", "two"))
    assert np.array_equal(one.predict_proba(files.names), two.predict_proba(files.names))


def test_arrays_follow_the_list_of_nodes_or_plain_numbers(files, tmp_path):
    x = files.graph.features
    order = np.random.default_rng(1).permutation(90)
    nodes = files.write("nodes.txt", "".join(f"{files.names[v]}\n" for v in order))
    scipy.sparse.save_npz(tmp_path / "x.npz", scipy.sparse.csr_array(x[order]))
    ok(*files.train(features=tmp_path / "x.npz", nodes=nodes))
    clf = dhilgt.NodeClassifier.load(tmp_path / "run")
    assert clf.graph_.features.toarray() == pytest.approx(x)  # names ascend with the numbers
    pairs = files.graph.to_edge_index().T.tolist()
    plain = files.write("plain.csv", "".join(f"{u},{v}\n" for u, v in pairs))
    numbers = "".join(f"{v},{c}\n" for v, c in enumerate(files.classes))
    labels = files.write("plain_y.csv", numbers)
    integers = files.save("x.npy", (100 * x).astype(np.int16))
    ok(*files.train(edges=plain, features=integers, labels=labels, output=tmp_path / "plain"))
    assert dhilgt.NodeClassifier.load(tmp_path / "plain").graph_.node_ids is None


def test_features_can_be_made_from_degrees(files, tmp_path):
    message = fails(*files.train(features=None))
    assert "--features degree" in message
    assert not (tmp_path / "run").exists()
    ok(*files.train(features="degree"))
    assert dhilgt.NodeClassifier.load(tmp_path / "run").n_features_in_ == 33


def test_constant_columns_and_rows_of_zeros_are_fine(files):
    lines = "".join(f"{name},0,1\n" for name in files.names)
    ok(*files.train(features=files.write("flat.csv", "id,a,b\n" + lines)))


def test_missing_labels_are_no_part_of_the_split(files, tmp_path):
    some = "".join(f"{n},{c}\n" for n, c in zip(files.names[:40], files.classes, strict=False))
    result = ok(*files.train(labels=files.write("some.csv", some + f"{files.names[50]},\n")))
    assert "3 classes on 40 labelled nodes" in result.stderr
    clf = dhilgt.NodeClassifier.load(tmp_path / "run")
    assert sum(map(len, clf.split_.values())) == 40
    assert len(clf.predict()) == 90


def test_a_class_without_training_nodes_is_named(files):
    parts = ["val" if c == "red" else "train" for c in files.classes]
    pairs = zip(files.names, parts, strict=True)
    split = files.write("odd.csv", "".join(f"{n},{p}\n" for n, p in pairs))
    assert "no training node has class 'red'" in ok(*files.train(split=split)).stderr


def test_one_class_alone_is_learnt_and_predicted(files, tmp_path):
    same = "".join(f"{name},only\n" for name in files.names[:30])
    ok(*files.train(labels=files.write("same.csv", same)))
    assert set(dhilgt.NodeClassifier.load(tmp_path / "run").predict()) == {"only"}


# ---- settings ----------------------------------------------------------------------------------


def test_the_folder_holds_its_settings_and_they_repeat_the_run(files, tmp_path):
    ok(*files.train(split=files.split), "--deterministic", "--clip-norm", "1.0")
    written = yaml.safe_load((tmp_path / "run" / "config.yaml").read_text())
    assert written["data"] == {
        "edges": str(files.edges), "features": str(files.features), "labels": str(files.labels),
        "split": str(files.split),
    }  # fmt: skip
    assert (written["model"]["heads"], written["training"]["clip_norm"]) == (2, 1.0)
    config = tmp_path / "run" / "config.yaml"
    ok("train", "--config", config, "-o", tmp_path / "again")
    ok("train", "--config", config, "-o", tmp_path / "other", "--seed", "7", "--clip-norm", "none")
    first, again, other = (
        dhilgt.NodeClassifier.load(tmp_path / name) for name in ("run", "again", "other")
    )
    assert first.settings_ == again.settings_
    assert np.array_equal(first.predict_proba(), again.predict_proba())
    assert (other.settings_.seed, other.settings_.clip_norm) == (7, None)
    assert not np.array_equal(first.predict_proba(), other.predict_proba())


def test_paths_of_a_file_are_relative_to_it(files, tmp_path, monkeypatch):
    config = files.write(
        "mine.yaml",
        "recipe: paper\ndata: {edges: edges.csv, features: x.csv, labels: y.csv}\n"
        "epochs: 1\nlr: 1e-3\n",
    )
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    ok("train", "--config", config, "-o", "run", *SMALL[:8])
    settings = dhilgt.NodeClassifier.load("run").settings_
    assert (settings.epochs, settings.lr) == (1, 1e-3)


def test_several_seeds_give_mean_and_spread(files, tmp_path):
    result = ok(*files.train(output=tmp_path / "many"), "--seeds", "0-1,5")
    assert [p.name for p in sorted((tmp_path / "many").iterdir())] == [
        "runs.jsonl", "seed-0", "seed-1", "seed-5",
    ]  # fmt: skip
    lines = [json.loads(x) for x in (tmp_path / "many" / "runs.jsonl").read_text().splitlines()]
    assert [line["seed"] for line in lines] == [0, 1, 5]
    values = [line["scores"]["val"]["accuracy"] for line in lines]
    last = result.stdout.splitlines()[-2]
    assert last.startswith("mean ± sd")
    assert f"{np.mean(values):.4f} ± {np.std(values, ddof=1):.4f}" in last
    ended = (tmp_path / "many" / "seed-0" / "bundle.json").stat()
    more = ok(*files.train(output=tmp_path / "many"), "--seeds", "0-1,5-6", "--resume", "--json")
    facts = json.loads(more.stdout)
    assert [one["seed"] for one in facts["runs"]] == [0, 1, 5, 6]
    assert facts["runs"][0]["scores"] == lines[0]["scores"]
    again = (tmp_path / "many" / "seed-0" / "bundle.json").stat()
    assert (again.st_ino, again.st_mtime_ns) == (ended.st_ino, ended.st_mtime_ns)  # only read


# ---- dry run, folders --------------------------------------------------------------------------


def test_a_dry_run_tells_and_writes_nothing(files, tmp_path):
    result = ok(*files.train(), "--dry-run")
    assert [line.split()[0] for line in result.stdout.splitlines()[1:]] == [
        "stage", "labels", "tokens", "training", "prediction", "all",
    ]  # fmt: skip
    assert not (tmp_path / "run").exists()
    facts = json.loads(ok(*files.train(output=None), "--dry-run", "--json").stdout)
    assert facts["num_train"] == 72
    assert facts["disk_bytes"] == sum(stage["disk_bytes"] for stage in facts["stages"])


def test_a_folder_that_holds_a_run_is_kept(files, tmp_path):
    ok(*files.train())
    before = {p: p.read_bytes() for p in (tmp_path / "run").rglob("*") if p.is_file()}
    message = fails(*files.train())
    assert "holds a run; pass --resume" in message
    assert "--lr 1.0, but the run in this folder has --lr 0.02" in fails(
        *files.train(), "--resume", "--lr", "1.0"
    )
    assert {p: p.read_bytes() for p in (tmp_path / "run").rglob("*") if p.is_file()} == before


@pytest.mark.parametrize("epochs", [2, 3])  # of a run that has ended, and of one that goes on
def test_a_run_goes_on_only_with_the_inputs_it_began_with(files, tmp_path, epochs):
    args = [*files.train(split=files.split), "--quiet", "--no-report"]
    resume = [*args, "--resume", "--epochs", epochs]
    ok(*args)
    y = files.labels.read_text()
    files.labels.write_text(y.replace(f"n03,{files.classes[3]}", f"n03,{files.classes[4]}"))
    assert files.classes[3] != files.classes[4]
    assert "began with other labels; resume with the inputs" in fails(*resume)
    files.labels.write_text(y)
    x = files.features.read_text()
    files.features.write_text(x.replace("n05,-0.7", "n05,0.7"))
    assert "began with other features; resume with the inputs" in fails(*resume)
    head, *lines = x.splitlines(keepends=True)
    files.features.write_text(head + "".join(reversed(lines)))  # the same rows
    ok(*resume)


def test_slips_are_answered_with_the_options_of_the_command(files, tmp_path):
    def said(*args):
        return fails(*files.train(), *args).removeprefix("dhilgt: ")

    assert said("--device", "gpu").startswith("--device gpu is not available; use cpu")
    assert said("--threads", "0").endswith("or none")
    assert said("--resume", "--size", "0").startswith("--size 0; pass a whole number")
    nothing = fails("train", "--resume", "-o", tmp_path / "none")
    assert f"{tmp_path / 'none'} holds no run to go on with; check the path" in nothing
    assert "see dhilgt datasets list" in fails("train", "--data", "xyz", "-o", tmp_path / "none")
    assert "give the folder of a run that `dhilgt train` wrote" in fails("evaluate", tmp_path)
    assert not (tmp_path / "run").exists()


def test_usage_errors_are_told_apart(files):
    assert "--dry-run" in fails(*files.train(output=None), code=2)
    assert "not both" in fails(*files.train(), "--seeds", "0-3", "--seed", "1", code=2)
    assert "0-9" in fails(*files.train(), "--seeds", "9-0", code=2)
    assert "whole number" in fails(*files.train(), "--patience", "soon", code=2)


# ---- as a process of its own -------------------------------------------------------------------


def test_an_interrupted_run_says_how_to_go_on_and_does(files, tmp_path):
    folder = tmp_path / "my run"
    arguments = [*files.train(output=folder), "--epochs", "100000", "--patience", "none"]
    process = subprocess.Popen(
        shell_command(*arguments), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    metrics = folder / "metrics.jsonl"
    deadline = time.monotonic() + 120
    while not (metrics.exists() and metrics.read_text().count("\n") >= 2):
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Traceback" not in said
    last = said.strip().splitlines()[-1]
    assert last.endswith(f"go on with: dhilgt train --resume -o '{folder}'")
    assert "has not ended" in fails("predict", folder)
    done = metrics.read_text().count("\n")
    ok("train", "--resume", "-o", folder, "--epochs", done + 2, "--quiet")
    assert metrics.read_text().count("\n") == done + 2
    assert len(dhilgt.NodeClassifier.load(folder).predict()) == 90


def test_the_shell_completes_commands_and_flags():
    def completed(words):
        environment = {
            **os.environ, "_DHILGT_COMPLETE": "complete_bash", "COMP_WORDS": " ".join(words),
            "COMP_CWORD": str(len(words) - 1),
        }  # fmt: skip
        found = subprocess.run(
            shell_command(), env=environment, capture_output=True, text=True, check=False
        )
        return found.stdout.split()

    assert completed(["dhilgt", "tr"]) == ["train"]
    assert "--hidden-channels" in completed(["dhilgt", "train", "--hid"])


def listed_options(text):
    """The options that a help text describes, each as often as it does."""
    return re.findall(r"^  (?:-\w, )?(--[\w-]+)(?: / (--[\w-]+))?", text, flags=re.MULTILINE)


def test_every_setting_has_its_flag_with_help_and_default():
    text = " ".join(run("train", "--help-all").stdout.split())
    for one in fields(Settings):
        assert (f"--{one.name.replace('_', '-')} " in text) is one.metadata["flag"]
    assert "own row of features alone. [default: 4]" in text
    assert "--attention auto|reference|sdpa|fused" in text
    without = [one.name for one in fields(Settings) if not one.metadata["flag"]]
    assert without == ["max_batches", "max_eval_batches"]


@pytest.mark.parametrize("name", ["train", "tune"])
def test_the_long_help_describes_every_option_once_under_its_heading(name):
    text = ok(name, "--help-all").stdout
    options = [one for pair in listed_options(text) for one in pair if one]
    command = typer.main.get_command(app).commands[name]
    known = [
        next(flag for flag in flags if flag.startswith("--"))
        for one in command.params
        for flags in (one.opts, one.secondary_opts)
        if flags
    ]
    assert sorted(options) == sorted([*known, "--help"])
    headings = re.findall(r"^(\w+):$", text, flags=re.MULTILINE)
    groups = [group.capitalize() for group in GROUPS] if name == "train" else []
    assert headings == ["Options", "Graph", *groups]


def test_the_short_help_describes_what_a_newcomer_needs():
    text = ok("train", "--help").stdout
    assert [first for first, _ in listed_options(text)] == [
        "--output", "--data", "--edges", "--features", "--labels", "--config", "--recipe",
        "--budget", "--seeds", "--resume", "--size", "--hidden-channels", "--num-layers",
        "--epochs", "--lr", "--seed", "--device", "--help-all", "--help",
    ]  # fmt: skip
    assert [first for first, _ in listed_options(ok("tune", "--help").stdout)] == [
        "--output", "--data", "--edges", "--features", "--labels", "--config", "--recipe",
        "--space", "--trials", "--budget", "--seeds", "--jobs", "--set", "--help-all", "--help",
    ]  # fmt: skip


def test_settings_without_a_flag_are_read_from_files(files, tmp_path):
    config = files.write("short.yaml", "max_batches: 1\nmax_eval_batches: null\n")
    ok(*files.train(), "--config", config)
    assert dhilgt.NodeClassifier.load(tmp_path / "run").settings_.max_batches == 1
    assert "No such option" in fails(*files.train(), "--max-batches", "1", code=2)


# ---- tables as people have them ----------------------------------------------------------------


def test_one_table_holds_features_classes_and_parts(files):
    """The class and the part are no features: a model that sees them has learnt nothing."""
    parts = ["train"] * 50 + ["val"] * 20 + ["test"] * 20
    lines = files.features.read_text().splitlines()[1:]
    rows = "".join(
        f"{line},{party},{part}\n"
        for line, party, part in zip(lines, files.classes, parts, strict=True)
    )
    table = files.write("people.csv", f"sku,a,b,c,d,party,use\n{rows}")
    train = files.train(features=table, labels=table, split=table)
    assert "which one is the class? Pass --label-column" in fails(*train)
    result = ok(*train, "--label-column", "party", "--feature-columns", "!d", "--dry-run")
    assert "3 features a node; 3 classes on 90 labelled nodes; 50 train, 20 val" in result.stderr
    assert f"{table}: ids are in column 'sku' (all values differ, 100% are nodes" in result.stderr
    assert f"{table}: column 'party' (the class) is not a feature" in result.stderr
    message = fails(*train, "--label-column", "party", "--feature-columns", "e")
    assert "--feature-columns names 'e', but" in message
    assert "--id-column sku_: no table has such a column" in fails(*train, "--id-column", "sku_")


def test_columns_in_a_file_of_settings(files, tmp_path):
    config = files.write(
        "run.yaml",
        "data:\n  edges: edges.csv\n  features: x.csv\n  labels: y.csv\n  id_column: id\n"
        "  label_column: label\n  feature_columns: [a, c]\n",
    )
    result = ok("train", "--config", config, "--dry-run", "-o", tmp_path / "run", *SMALL)
    assert "2 features a node" in result.stderr
