"""What version 0.1.0 wrote stays readable, and means the same.

The files under `fixtures/v0.1` were written by `fixtures/make_v0_1.py` at that version. They are
opened here as a user opens them: by `import dhilgt` and by the command line.
"""

import csv
import hashlib
import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

import dhilgt
from dhilgt.settings import Settings, read_settings
from dhilgt.store.exports import read_export
from tests.module_cli import command, ended

OLD = Path(__file__).parent / "fixtures" / "v0.1"
EXPECTED = json.loads((OLD / "expected.json").read_text())
ARTIFACTS = sorted(path.parent for path in OLD.rglob("manifest.json"))
CLOSE = {"rtol": 0, "atol": 1e-6}


@pytest.fixture(autouse=True)
def _one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def copied(tmp_path):
    """Return a function that copies a folder of the fixtures to where it can be changed."""

    def copy(name):
        target = tmp_path / Path(name).name
        shutil.copytree(OLD / name, target)
        for path in target.rglob("*"):  # as if the folder had been made here
            if path.suffix in (".yaml", ".journal"):
                text = path.read_text()
                path.write_text(text.replace(EXPECTED["made_in"], str(OLD)))
        return target

    return copy


def json_of(*args):
    return json.loads(command(*args, "--json"))


# ---- folders with a manifest ---------------------------------------------------------------------


def test_there_is_one_of_every_kind():
    assert EXPECTED["version"] == "0.1.0"
    kinds = [json.loads((path / "manifest.json").read_text())["kind"] for path in ARTIFACTS]
    assert {kind: kinds.count(kind) for kind in kinds} == {"graph": 4, "labels": 7, "tokens": 6}


@pytest.mark.parametrize("folder", ARTIFACTS, ids=lambda path: path.relative_to(OLD).as_posix())
def test_inspect_verifies_every_byte(folder):
    manifest = json.loads((folder / "manifest.json").read_text())
    facts = json_of("inspect", folder, "--verify")
    assert facts["verified"] is True
    assert (facts["kind"], facts["format"]) == (manifest["kind"], 1)
    assert facts["written_by"] == "0.1.0"
    assert facts["graph_fingerprint"] == manifest["fingerprint"]
    assert facts["bytes_on_disk"] >= sum(path.stat().st_size for path in folder.glob("*.npy"))


# ---- labels --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", EXPECTED["labels"])
def test_labels_give_the_same_distances(name):
    expected = EXPECTED["labels"][name]
    labels = dhilgt.HubLabels.load(OLD / "labels" / name, verify=True)
    assert labels.fingerprint == expected["fingerprint"]
    assert labels.graph_fingerprint == expected["graph_fingerprint"]
    assert labels.num_entries == expected["entries"]
    assert labels.exact is expected["exact"]
    assert labels.order.tolist() == expected["order"]
    nodes = labels.ids.ids_of(np.arange(12))
    assert labels.distance_matrix(nodes).tolist() == expected["distances"]


@pytest.mark.parametrize("name", EXPECTED["labels"])
def test_labels_do_not_say_which_order_they_have(name):
    assert dhilgt.HubLabels.load(OLD / "labels" / name).order_name is None
    facts = json_of("inspect", OLD / "labels" / name)
    assert facts["order"] is None
    assert "not noted (degree-id" in command("inspect", OLD / "labels" / name)


def test_plain_labels_have_the_order_that_is_now_called_degree_id():
    edges = OLD / "input" / "edges.csv"
    graph = dhilgt.Graph.read(edges)
    old = dhilgt.HubLabels.load(OLD / "labels" / "plain")
    by_id, by_hash = (
        dhilgt.HubLabels.build(graph, order=name, progress=False)
        for name in ("degree-id", "degree")
    )
    assert old.fingerprint == by_id.fingerprint != by_hash.fingerprint


def test_a_query_by_command_finds_the_old_nodes():
    expected = EXPECTED["labels"]["plain"]["distances"]
    out = command("query", OLD / "labels" / "plain", "node-01", "node-09")
    assert out.split()[-1] == str(expected[1][9])


def test_grown_labels_know_what_they_grew_from():
    facts = json_of("inspect", OLD / "labels" / "grown")
    assert facts["exact"] is False
    assert facts["grown_from"] == dhilgt.HubLabels.load(OLD / "labels" / "grown").grown_from


# ---- tokens --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", EXPECTED["tokens"])
def test_tokens_give_the_same_rows(name):
    expected = EXPECTED["tokens"][name]
    tokens = dhilgt.Tokens.load(OLD / "tokens" / name, verify=True)
    assert tokens.labels_fingerprint == expected["labels_fingerprint"]
    assert tokens.nodes[:4].tolist() == expected["nodes"]
    for copy, (ids, distances) in enumerate(
        zip(expected["ids"], expected["distances"], strict=True)
    ):
        rows = tokens.rows(expected["nodes"], copy)
        assert rows.ids.tolist() == ids
        assert rows.spd.tolist() == distances


@pytest.mark.parametrize(
    ("name", "labels"), [("bits-8", "plain"), ("directed", "directed"), ("some-nodes", "grown")]
)
def test_old_labels_give_the_rows_of_old_tokens(name, labels):
    tokens = dhilgt.Tokens.load(OLD / "tokens" / name)
    opened = dhilgt.HubLabels.load(OLD / "labels" / labels)
    sampler = dhilgt.TokenSampler(opened, progress=False, **tokens.spec.to_dict())
    for copy in range(tokens.copies):
        stored, drawn = tokens.rows(tokens.nodes, copy), sampler.rows(tokens.nodes, copy)
        assert np.array_equal(stored.ids, drawn.ids)
        assert np.array_equal(stored.spd, drawn.spd)


def test_a_build_of_tokens_that_was_cut_short_goes_on(copied, tmp_path):
    copied("tokens/cut-short.partial")
    assert (tmp_path / "cut-short.partial" / "journal.jsonl").exists()
    labels = OLD / "labels" / "plain"
    args = ["tokens", labels, "-o", tmp_path / "cut-short", "--size", 16, "--resume", "--quiet"]
    if dhilgt.__version__ != EXPECTED["version"]:  # rows of two versions are not mixed
        code, _, err = ended(*args)
        assert code == 1
        assert EXPECTED["version"] in err
        return
    before = (tmp_path / "cut-short.partial" / "ids-00000.npy").stat().st_mtime_ns
    command(*args)
    tokens = dhilgt.Tokens.load(tmp_path / "cut-short", verify=True)
    assert (tmp_path / "cut-short" / "ids-00000.npy").stat().st_mtime_ns == before
    anew = dhilgt.Tokens.build(dhilgt.HubLabels.load(labels), size=16, progress=False)
    assert np.array_equal(tokens.rows(range(60)).spd, anew.rows(range(60)).spd)


# ---- models --------------------------------------------------------------------------------------


def test_a_model_gives_the_same_logits():
    expected = EXPECTED["model"]
    model = dhilgt.DHILGT.from_pretrained(OLD / "model").eval()
    x, known = torch.tensor(expected["x"]), torch.tensor(expected["known"])
    index, spd = torch.tensor(expected["index"]), torch.tensor(expected["spd"], dtype=torch.uint8)
    with torch.no_grad():
        logits = model(x, index, spd, known)
    torch.testing.assert_close(logits, torch.tensor(expected["logits"]), **CLOSE)


def test_a_baseline_gives_the_same_logits():
    graph = dhilgt.NodeClassifier.load(OLD / "classifiers" / "words").graph_
    model = dhilgt.baselines.load(OLD / "baseline", graph)
    config = model.train_config(epochs=1)
    trainer = dhilgt.Trainer(model, config, device="cpu", progress=False)
    nodes, logits = trainer.predict(model.inference_batches())
    assert nodes.tolist() == EXPECTED["baseline"]["nodes"]
    np.testing.assert_allclose(logits, EXPECTED["baseline"]["logits"], **CLOSE)


# ---- classifiers ---------------------------------------------------------------------------------


def opened(name):
    return dhilgt.NodeClassifier.load(OLD / "classifiers" / name).set_params(progress=False)


@pytest.mark.parametrize("name", EXPECTED["classifiers"])
def test_a_classifier_gives_the_same_probabilities(name, tmp_path):
    expected = EXPECTED["classifiers"][name]
    clf = opened(name)
    assert clf.classes_.tolist() == expected["classes"]
    assert clf.graph_.fingerprint == expected["fingerprint"]
    assert clf.scores_ == expected["scores"]
    assert {part: nodes.tolist() for part, nodes in clf.split_.items()} == expected["split"]
    probabilities = clf.predict_proba()
    np.testing.assert_allclose(probabilities, expected["probabilities"], **CLOSE)
    clf.save(tmp_path / "again")
    again = dhilgt.NodeClassifier.load(tmp_path / "again").set_params(progress=False)
    assert np.array_equal(again.predict_proba(), probabilities)


@pytest.mark.parametrize(
    ("name", "order"), [("words", "degree-id"), ("directed", "core-id"), ("array", "degree-id")]
)
def test_orders_have_the_names_of_today(name, order):
    clf = opened(name)
    assert clf.settings_.order == order
    assert clf.hub_labels_.order_name == order


def test_a_graph_keeps_words_classes_and_parts():
    graph = opened("words").graph_
    assert (graph.num_nodes, graph.num_edges, graph.directed) == (60, 300, False)
    assert graph.nodes[:2].tolist() == ["node-00", "node-01"]
    assert graph.class_names == ("ash", "birch", "cedar")
    assert np.flatnonzero(graph.labels < 0).tolist() == [7, 31]
    assert {name: int(mask.sum()) for name, mask in graph.masks.items()} == {
        "train": 30, "val": 15, "test": 13,
    }  # fmt: skip
    read = dhilgt.Graph.read(
        OLD / "input" / "edges.csv",
        features=OLD / "input" / "features.csv",
        labels=OLD / "input" / "labels.csv",
    )
    assert read.fingerprint == graph.fingerprint
    np.testing.assert_allclose(graph.features, read.features, rtol=1e-5)


def test_a_directed_graph_keeps_numbers_and_sparse_features():
    graph = opened("directed").graph_
    assert (graph.num_nodes, graph.directed) == (51, True)
    assert graph.nodes.tolist() == list(range(10, 163, 3))
    assert graph.features.shape == (51, 6)
    assert graph.features.nnz == graph.features.tocsr().indptr[-1] == 128
    assert graph.degrees[-1] == 0


def test_an_explanation_says_the_same():
    then = json.loads((OLD / "served" / "explanation.json").read_text())
    now = json_of("explain", OLD / "classifiers" / "words", "node-07")
    _assert_alike(now, then)


def _assert_alike(now, then):
    """Compare nested values, numbers with a tolerance."""
    assert type(now) is type(then)
    if isinstance(then, dict):
        assert now.keys() == then.keys()
        for key, value in then.items():
            _assert_alike(now[key], value)
    elif isinstance(then, list):
        assert len(now) == len(then)
        for one, other in zip(now, then, strict=True):
            _assert_alike(one, other)
    elif isinstance(then, float):
        assert now == pytest.approx(then, abs=1e-5)
    else:
        assert now == then


def test_an_export_holds_the_same_as_before(copied, tmp_path):
    """Its files are named after the whole name of the model since; the old ones are still read."""
    command("export", OLD / "classifiers" / "words", "-o", tmp_path / "words.pt2")
    served = copied("served")
    facts = json.loads((served / "words.serving.json").read_text())
    (served / "words.pt2").write_bytes(b"a model")
    facts["sha256"] = hashlib.sha256(b"a model").hexdigest()
    (served / "words.serving.json").write_text(json.dumps(facts))
    then, now = read_export(served / "words.pt2"), read_export(tmp_path / "words.pt2")
    own = ("sha256", "library", "format", "known", "scale")  # files and versions
    for key in then.facts.keys() - own:
        assert now.facts[key] == then.facts[key]
    assert np.array_equal(now.known, then.known)
    assert now.scale.keys() == then.scale.keys()
    for name, array in then.scale.items():
        assert np.array_equal(now.scale[name], array)


def test_an_old_export_whose_model_was_replaced_is_refused(copied):
    served = copied("served")
    (served / "words.onnx").write_bytes(b"another model")
    with pytest.raises(dhilgt.ArtifactError, match=r"words\.onnx is damaged or of another export"):
        read_export(served / "words.onnx")


# ---- the cache -----------------------------------------------------------------------------------


def test_what_an_old_cache_holds_is_found_again(copied, monkeypatch):
    folder = copied("cache")
    monkeypatch.setenv("DHILGT_CACHE", str(folder))
    before = json_of("cache", "list")["entries"]
    assert sorted(entry["kind"] for entry in before) == ["labels", "tokens"]
    stored = {path: path.stat().st_mtime_ns for path in folder.rglob("*.npy")}
    opened("words").predict()
    after = json_of("cache", "list")["entries"]
    assert {entry["key"] for entry in after} == {entry["key"] for entry in before}
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*.npy")} == stored


# ---- runs ----------------------------------------------------------------------------------------

FINISHED = OLD / "runs" / "seeds" / "seed-0"
RECORD = json.loads((OLD / "runs" / "seeds" / "runs.jsonl").read_text())


def scores_of(facts):
    return {f"{part} {name}": v for part, one in facts.items() for name, v in one.items()}


def test_a_run_that_was_cut_short_goes_on_and_ends_as_a_whole_one(copied):
    folder = copied("runs/cut-short")
    assert "has not ended" in ended("predict", folder)[2]
    before = (folder / "metrics.jsonl").read_text().splitlines()
    facts = json_of("train", "--resume", "-o", folder, "--quiet", "--no-report")
    after = (folder / "metrics.jsonl").read_text().splitlines()
    assert after[: len(before)] == before
    assert len(before) == 10
    assert [json.loads(line)["epoch"] for line in after] == list(range(1, 31))
    # Another processor may round otherwise, and thirty epochs widen that.
    whole = scores_of(EXPECTED["runs"]["whole"])
    assert scores_of(facts["scores"]) == pytest.approx(whole, abs=1e-3)
    assert dhilgt.NodeClassifier.load(folder).settings_.epochs == 30


def test_a_run_goes_back_to_the_save_before(copied):
    folder = copied("runs/cut-short")
    latest = folder / "checkpoints" / "LATEST"
    assert latest.read_text() == "00010-000001\n"
    latest.write_text("00010-000000\n")
    command("train", "--resume", "-o", folder, "--epochs", 11, "--quiet", "--no-report")
    assert len((folder / "metrics.jsonl").read_text().splitlines()) == 11


def test_a_run_that_ended_is_found_as_it_was(copied):
    folder = copied("runs/seeds/seed-0")
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    facts = json_of("train", "--resume", "-o", folder, "--quiet")
    assert facts["scores"] == RECORD["scores"]
    assert facts["split_hash"] == RECORD["split_hash"]
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before
    scores = json_of("evaluate", folder)["parts"]
    for part, then in RECORD["scores"].items():
        assert scores[part]["accuracy"] == pytest.approx(then["accuracy"], abs=1e-6)


def test_its_settings_repeat_the_run(copied, tmp_path):
    config = copied("runs/seeds/seed-0") / "config.yaml"
    facts = json_of("train", "--config", config, "-o", tmp_path / "again", "--quiet", "--no-cache")
    assert scores_of(facts["scores"]) == pytest.approx(scores_of(RECORD["scores"]), abs=1e-3)
    expected = RECORD["config"] | {"order": "degree-id"}  # its name now
    assert facts["config"].items() >= expected.items()
    assert facts.keys() >= RECORD.keys()  # values are added, none is taken away
    then, now = (read_settings(path) for path in (config, tmp_path / "again" / "config.yaml"))
    assert now.pop("recipe") == "paper"
    assert (
        Settings().to_dict() | then | {"data": now["data"]} == now
    )  # and what later versions added, as it is by default
    then, now = (
        json.loads((p / "report.json").read_text()) for p in (FINISHED, tmp_path / "again")
    )
    assert now.keys() == then.keys()
    assert (now["kind"], now["format"]) == (then["kind"], then["format"])


def test_predictions_by_command_are_the_same(tmp_path):
    command("predict", FINISHED, "-o", tmp_path / "now.csv", "--all-probabilities", "--quiet")
    with (tmp_path / "now.csv").open() as new, (OLD / "runs" / "predictions.csv").open() as old:
        now, then = list(csv.reader(new)), list(csv.reader(old))
    assert now[0] == then[0]
    assert [row[:2] for row in now] == [row[:2] for row in then]
    np.testing.assert_allclose(
        np.array([row[2:] for row in now[1:]], float),
        np.array([row[2:] for row in then[1:]], float),
        **CLOSE,
    )


# ---- searches ------------------------------------------------------------------------------------


def test_a_search_goes_on_and_its_best_settings_are_read(copied):
    pytest.importorskip("optuna")
    folder = copied("search")
    then = [json.loads(line) for line in (folder / "trials.jsonl").read_text().splitlines()]
    inputs = [
        part
        for name in ("edges", "features", "labels", "split")
        for part in (f"--{name}", OLD / "input" / f"{name}.csv")
    ]
    fixed = {
        "size": 6, "hidden_channels": 4, "num_layers": 1, "heads": 2, "epochs": 5, "lr": 0.02,
        "warmup_epochs": 1, "batch_size": 8, "threads": 1, "device": "cpu",
    }  # fmt: skip
    flags = [part for name, value in fixed.items() for part in ("--set", f"{name}={value}")]
    facts = json_of(
        "tune", *inputs, *flags, "-o", folder, "--seeds", 0, "--trials", 3, "--no-cache"
    )
    assert (facts["trials"], facts["complete"]) == (3, 3)
    now = [json.loads(line) for line in (folder / "trials.jsonl").read_text().splitlines()]
    assert now[:2] == then
    assert facts["score"] >= then[0]["score"]
    plan = json_of("train", "--config", folder / "best.yaml", "--dry-run")
    assert plan["num_train"] == 30


# ---- benchmarks ----------------------------------------------------------------------------------


def lines_of(name):
    return [json.loads(line) for line in (OLD / "bench" / name).read_text().splitlines()]


def resumed(file, *args):
    recipe = ["--recipe", OLD / "bench" / "recipe.yaml", "--device", "cpu", "--epochs", 2]
    return command("bench", *args, *recipe, "--quiet", "--resume", "-o", file)


def test_measured_cells_are_known_as_done(copied):
    file = copied("bench") / "scaling.jsonl"
    before = file.read_bytes()
    args = ["--models", "dhilgt,mlp", "--nodes", "200,400", "--degrees", "none"]
    assert resumed(file, "scaling", *args) == command("bench", "scaling", "--render-only", file)
    assert file.read_bytes() == before


@pytest.mark.skipif("DHILGT_DATA" not in os.environ, reason="DHILGT_DATA names no folder of graphs")
def test_trained_cells_are_known_as_done(copied):
    """Searched ones are shown but not gone on with: a search now has other splits."""
    file = copied("bench") / "table.jsonl"
    before = file.read_bytes()
    args = ["--models", "dhilgt,gcn,mlp", "--no-references", "--seeds", 0, "--data", "cora"]
    args.append("--in-process")
    assert resumed(file, "table", *args) == command("bench", "show", file)
    assert file.read_bytes() == before


def test_tables_show_the_old_lines():
    for name in ("table.jsonl", "tuned.jsonl"):
        out = command("bench", "show", OLD / "bench" / name, "--no-published")
        for line in lines_of(name):
            if line["trial"] is None:
                assert f"{100 * line['scores']['test']['accuracy']:.2f}" in out
    out = command("bench", "ablation", "--render-only", OLD / "bench" / "ablation.jsonl")
    scores = [
        line["scores"]["test"]["accuracy"]
        for line in lines_of("ablation.jsonl")
        if line["recipe"] == "recipe"
    ]
    assert f"{100 * np.mean(scores):.2f}" in out
    assert command("bench", "scaling", "--render-only", OLD / "bench" / "scaling.jsonl")


def test_a_page_shows_every_old_line(tmp_path):
    command("report", OLD / "bench", "-o", tmp_path)
    page = (tmp_path / "index.html").read_text()
    for name in ("table", "tuned", "ablation", "scaling", "speed"):
        assert f"{name}.jsonl" in page
    for line in lines_of("table.jsonl"):
        assert f"{100 * line['scores']['test']['accuracy']:.2f}" in page
