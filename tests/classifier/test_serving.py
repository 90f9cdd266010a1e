"""A trained classifier explained and exported, through the library and the command line."""

import hashlib
import json
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

import dhilgt
from dhilgt.classifier.explaining import explain
from dhilgt.classifier.serving import export_classifier
from dhilgt.cli.app import app
from dhilgt.model.export import WRITERS
from dhilgt.store.exports import read_export
from dhilgt.store.files import canonical_json

EXAMPLE = Path(__file__).parents[2] / "examples" / "serve_onnx.py"
SETTINGS = {
    "size": 8,
    "hidden_channels": 16,
    "heads": 2,
    "num_layers": 1,
    "num_virtual": 1,
    "epochs": 2,
    "lr": 0.01,
    "cache": False,
    "progress": False,
    "recipe": "paper",
}


def drawn(names=True):
    """A generated graph, by default with names and classes that are strings."""
    graph = dhilgt.generate(120, 6, seed=4, num_features=6, num_classes=3)
    if not names:
        return graph
    ids = np.array([f"v{at:03d}" for at in range(120)])
    source, target = graph.to_edge_index()
    classes = np.array(["low", "mid", "top"])[graph.labels]
    return dhilgt.Graph.from_edges(
        ids[source], ids[target], nodes=ids, features=graph.features, labels=classes
    )


@pytest.fixture(scope="module")
def clf():
    return dhilgt.NodeClassifier(**SETTINGS, copies=2, hops=1).fit(drawn())


@pytest.fixture(scope="module")
def folder(clf, tmp_path_factory):
    path = tmp_path_factory.mktemp("runs") / "mine"
    clf.save(path)
    return path


@pytest.fixture(scope="module")
def numbered(tmp_path_factory):
    path = tmp_path_factory.mktemp("runs") / "numbered"
    dhilgt.NodeClassifier(**SETTINGS, readout="ego").fit(drawn(names=False)).save(path)
    return path


@pytest.fixture(scope="module")
def served(folder, tmp_path_factory):
    path = tmp_path_factory.mktemp("served") / "model.onnx"
    found = run("export", folder, "-o", path)
    assert found.exit_code == 0, found.output
    return path


def run(*args):
    return CliRunner().invoke(app, [str(arg) for arg in args], prog_name="dhilgt")


def fails(*args):
    """The one message of a command that ends with exit code 1."""
    result = run(*args)
    assert result.exit_code == 1, result.output
    return result.stderr.strip().splitlines()[-1]


# ---- explain -----------------------------------------------------------------------------------


def test_an_explanation_agrees_with_the_classifier(clf):
    for node in ("v000", "v050", "v119"):
        found = explain(clf, node)
        assert found.prediction == clf.predict([node])[0]
        np.testing.assert_allclose(
            list(found.probabilities.values()), clf.predict_proba([node])[0], atol=1e-5
        )
        assert list(found.probabilities) == ["low", "mid", "top"]
        assert found.copies == 2
        assert found.label == clf.classes_[clf.graph_.labels[clf.graph_.index_of(node)]]
        json.dumps(found.to_dict())


def test_a_classifier_without_training_is_refused():
    with pytest.raises(ValueError, match="is not fitted yet"):
        explain(dhilgt.NodeClassifier(), "v000")


def test_the_command_prints_a_table_and_writes_a_picture(clf, folder, tmp_path):
    found = run("explain", folder, "v050", "-o", tmp_path / "v050.svg", "--top", 3)
    assert found.exit_code == 0, found.output
    assert found.stdout.strip() == explain(clf, "v050").table(3)
    ElementTree.parse(tmp_path / "v050.svg")


def test_the_command_lists_ten_members_unless_told_otherwise(folder):
    def members(*options):
        text = run("explain", folder, "v050", *options).stdout
        return [line for line in text.split("\n\n")[1].splitlines()[1:] if line[0] == "v"]

    assert len(members()) == 11  # and the ego
    assert len(members("--top", 0)) == len(members("--top", 99)) > 11


def test_the_command_prints_json(clf, folder):
    found = run("explain", folder, "v050", "--json")
    assert json.loads(found.stdout) == explain(clf, "v050").to_dict()


def test_ids_that_are_numbers_are_taken_as_numbers(numbered, tmp_path):
    found = json.loads(run("explain", numbered, "7", "--json", "-o", tmp_path / "a.html").stdout)
    assert found["node"] == found["members"][0]["node"] == 7
    assert found["members"][0]["share"] == 1.0
    assert (tmp_path / "a.html").read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
    assert "the ids of this graph are 64-bit integers" in fails("explain", numbered, "seven")


def test_what_cannot_be_explained_is_refused_with_a_way_out(folder, tmp_path):
    message = fails("explain", folder, "v05")
    assert "'v05' is not a node of the graph; the nearest ids are 'v" in message
    assert "holds no trained classifier" in fails("explain", tmp_path, "v050")
    message = fails("explain", folder, "v050", "-o", tmp_path / "v050.png")
    assert "ends with .png; name it .svg, .html or .json" in message


# ---- export ------------------------------------------------------------------------------------


def test_the_file_beside_the_model_says_what_a_server_needs(clf, served):
    facts = json.loads(served.with_name("model.onnx.json").read_text())
    assert facts["classes"] == ["low", "mid", "top"]
    assert (facts["features"], facts["hops"], facts["copies"]) == (6, 1, 2)
    assert dhilgt.TokenSpec(**facts["tokens"]) == clf.tokens_.spec
    assert facts["graph"] == clf.graph_.fingerprint
    assert facts["sha256"] == dhilgt.store.files.hash_file(served)


def test_the_example_serves_without_pytorch(clf, folder, served):
    nodes = ["v050", "v000", "v119"]
    script = (
        "import runpy, sys; sys.argv = sys.argv[1:]; "
        "runpy.run_path(sys.argv[0], run_name='__main__'); assert 'torch' not in sys.modules"
    )
    found = subprocess.run(
        [sys.executable, "-c", script, EXAMPLE, folder / "graph", served, *nodes],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert found.returncode == 0, found.stderr
    lines = [line.split() for line in found.stdout.splitlines()]
    assert [line[:2] for line in lines] == [
        [f"{node}:", name] for node, name in zip(nodes, clf.predict(nodes), strict=True)
    ]
    shares = [float(line[2].strip("()")) for line in lines]
    np.testing.assert_allclose(shares, clf.predict_proba(nodes).max(1), atol=6e-4)


@pytest.mark.parametrize(
    ("args", "code", "words"),
    [
        (["--help"], 0, "usage: serve_onnx.py [-h] graph model NODE"),
        (["graph", "none.onnx", "a"], 1, "serve_onnx.py: none.onnx does not exist"),
        (["graph", __file__, "a"], 1, "test_serving.py.json"),
    ],
)
def test_the_example_says_how_it_is_called(tmp_path, args, code, words):
    """Even where ONNX Runtime is not installed."""
    script = (
        "import runpy, sys; sys.modules['onnxruntime'] = None; sys.argv = sys.argv[1:]; "
        "runpy.run_path(sys.argv[0], run_name='__main__')"
    )
    found = subprocess.run(
        [sys.executable, "-c", script, EXAMPLE, *args],
        capture_output=True, text=True, check=False, cwd=tmp_path,
    )  # fmt: skip
    assert found.returncode == code
    assert words in (found.stdout if code == 0 else found.stderr.splitlines()[0])
    assert code == 0 or len(found.stderr.splitlines()) == 1


def test_a_program_is_exported_too(clf, tmp_path):
    beside = export_classifier(clf, tmp_path / "model.pt2")
    assert beside == tmp_path / "model.pt2.json"
    module = torch.export.load(tmp_path / "model.pt2").module()
    x, index = torch.randn(5, 12), torch.zeros(2, 8, dtype=torch.int64)
    spd = torch.zeros(2, 8, 8, dtype=torch.uint8)
    with torch.no_grad():
        wanted = clf.model_.cpu()(x, index, spd)
    assert torch.allclose(module(x, index, spd), wanted, atol=1e-5)


@pytest.fixture
def stub_writers(monkeypatch):
    """Models of a few bytes: tracing one takes seconds."""
    for ending in (".onnx", ".pt2"):
        writer = lambda models, file, ending=ending: file.write_bytes(  # noqa: E731
            ending.encode() + bytes(str(models[0][0].config), "utf-8")
        )
        monkeypatch.setitem(WRITERS, ending, writer)


@pytest.fixture(scope="module")
def two():
    """Two classifiers that need all files beside the model, with other classes each."""
    settings = SETTINGS | {"feature_scale": "standard", "label_inputs": True, "epochs": 1}
    return [
        dhilgt.NodeClassifier(**settings, seed=seed).fit(drawn(names=bool(seed))) for seed in (0, 1)
    ]


@pytest.mark.usefixtures("stub_writers")
def test_two_exports_under_one_name_keep_their_own_files(two, tmp_path):
    for clf, name in zip(two, ("model.onnx", "model.pt2"), strict=True):
        export_classifier(clf, tmp_path / name)
    for clf, name in zip(two, ("model.onnx", "model.pt2"), strict=True):
        export = read_export(tmp_path / name)
        assert export.facts["classes"] == clf.classes_.tolist()
        np.testing.assert_array_equal(export.known, clf._pipeline.known + 1)
        assert export.scale.keys() == clf._pipeline.scale.arrays.keys()
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "model.onnx", "model.onnx.json", "model.onnx.known.npy", "model.onnx.scale.npz",
        "model.pt2", "model.pt2.json", "model.pt2.known.npy", "model.pt2.scale.npz",
    ]  # fmt: skip


@pytest.mark.usefixtures("stub_writers")
@pytest.mark.parametrize("ending", ["", ".json", ".known.npy", ".scale.npz"])
def test_a_file_of_another_export_is_refused_by_name(two, tmp_path, ending):
    for clf, name in zip(two, ("mine", "other"), strict=True):
        (tmp_path / name).mkdir()
        export_classifier(clf, tmp_path / name / "model.onnx")
    name = f"model.onnx{ending}"
    file = tmp_path / "mine" / name
    if ending == "":
        file.write_bytes(b"another model")
    elif ending == ".json":
        facts = json.loads(file.read_text())
        file.write_text(json.dumps(facts | {"classes": facts["classes"][::-1]}))
    else:
        file.write_bytes((tmp_path / "other" / name).read_bytes() + b"\0")
    with pytest.raises(dhilgt.ArtifactError, match=rf"{name} is damaged or of another export"):
        read_export(tmp_path / "mine" / "model.onnx")
    file.unlink()
    with pytest.raises(dhilgt.ArtifactError, match=name):
        read_export(tmp_path / "mine" / "model.onnx")


@pytest.mark.usefixtures("stub_writers")
@pytest.mark.parametrize("name", ["../letter.npy", "/etc/passwd", 7, ""])
def test_a_name_that_leads_elsewhere_is_refused(two, tmp_path, name):
    beside = export_classifier(two[0], tmp_path / "model.onnx")
    facts = json.loads(beside.read_text())
    del facts["facts_sha256"]
    facts["known"] = name
    facts["facts_sha256"] = hashlib.sha256(canonical_json(facts)).hexdigest()
    beside.write_text(json.dumps(facts))
    with pytest.raises(dhilgt.ArtifactError, match="is not the name of a file beside it"):
        read_export(tmp_path / "model.onnx")


def test_the_command_says_what_it_wrote(folder, tmp_path):
    found = json.loads(run("export", folder, "-o", tmp_path / "m.pt2", "--json").stdout)
    assert found == {
        "model": str(tmp_path / "m.pt2"),
        "bytes": (tmp_path / "m.pt2").stat().st_size,
        "serving": str(tmp_path / "m.pt2.json"),
    }


def test_what_cannot_be_exported_is_refused_with_a_way_out(folder, tmp_path):
    message = fails("export", folder, "-o", tmp_path / "m.pt")
    assert "ends with .pt; name it .onnx or .pt2" in message
    assert "holds no trained classifier" in fails("export", tmp_path, "-o", tmp_path / "m.pt2")
    assert list(tmp_path.iterdir()) == []
