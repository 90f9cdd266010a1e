"""A classifier that averages models with different inputs, exported as one program and served."""

import json

import numpy as np
import pytest
import torch

from dhilgt import ArtifactError, NodeClassifier
from dhilgt.classifier.inputs import FitInputs
from dhilgt.classifier.serving import export_classifier
from dhilgt.model.export import WRITERS
from dhilgt.store.exports import Export, read_export, write_beside
from tests.classifier.cases import community_graph, quick
from tests.classifier.serving_cases import assert_served

TOKENS = {"size": 4, "num_virtual": 0, "readout": "ego", "feature_scale": "standard"}
ALONE = {"num_layers": 0, "hops": 1, "hop_channels": 3, "neighbor_inputs": True}
CLASSES = {"num_layers": 0, "class_inputs": True, "feature_scale": "rank"}


def averaged(graph, *settings):
    """Train a classifier for each of the settings, and return the average of all."""
    all_of = [quick(**one, epochs=1, cache=False).fit(graph) for one in settings]
    first = all_of[0]
    inputs = FitInputs(first.graph_, first.classes_, first.split_, False, 0)
    members = tuple(one.members_[0] for one in all_of)
    first._set_fitted(inputs, members, first.result_, first.scores_)
    return first


@pytest.fixture(scope="module")
def clf():
    """Token rows with a scale, and the node alone with hops and its neighbours, twice."""
    return averaged(community_graph(ids=True), TOKENS, ALONE, ALONE | {"hidden_channels": 4})


@pytest.fixture
def stub(monkeypatch):
    """The groups of models that a stub was given to write."""
    given = []

    def write(models, file):
        given.append(models)
        file.write_bytes(b"a model")

    monkeypatch.setitem(WRITERS, ".onnx", write)
    return given


def program_inputs(firsts, nodes):
    """All inputs of some members, as the arrays of a program."""
    for member in firsts:
        loader = member.pipeline.loader(nodes, device=torch.device("cpu"), batch_size=len(nodes))
        x, index, spd, *more = next(iter(loader)).inputs
        yield from (x if x.layout == torch.strided else x.to_dense(), index.long(), spd)
        known, ego = [*more, None, None][:2]
        if known is not None:
            yield known
        if ego is not None:
            yield from (ego.crow_indices().long(), ego.col_indices().long(), ego.values())


def test_a_program_predicts_as_the_classifier(clf, tmp_path):
    export_classifier(clf, tmp_path / "model.pt2")
    program = torch.export.load(tmp_path / "model.pt2").module()
    nodes = np.arange(12)
    found = program(*program_inputs(clf.members_[:2], nodes)).softmax(dim=1)
    expected = clf.predict_proba(clf.graph_.ids_of(nodes))
    np.testing.assert_allclose(found.detach(), expected, atol=1e-5)


def test_members_are_grouped_by_their_inputs(clf, stub, tmp_path):
    export_classifier(clf, tmp_path / "model.onnx")
    (groups,) = stub
    first, *others = (member.model for member in clf.members_)
    assert groups == [[first], others]


def test_the_facts_of_each_group_are_beside_the_program(clf, stub, tmp_path):
    facts = json.loads(export_classifier(clf, tmp_path / "model.onnx").read_text())
    assert (facts["hops"], facts["tokens"]["size"], facts["feature_scale"]) == (0, 4, "standard")
    (other,) = facts["members"]
    assert other["prefix"] == "m2_"
    assert (other["hops"], other["tokens"]["size"], other["feature_scale"]) == (1, 1, "none")
    assert other["ego_rows"] == ["neighbors"]
    assert "classes" not in other
    assert sorted(file.name for file in tmp_path.iterdir()) == [
        "model.onnx", "model.onnx.json", "model.onnx.m2.ego.npz", "model.onnx.m2.projection.npz",
        "model.onnx.scale.npz",
    ]  # fmt: skip


def test_what_is_read_is_what_the_members_use(clf, stub, tmp_path):
    export_classifier(clf, tmp_path / "model.onnx")
    export = read_export(tmp_path / "model.onnx")
    (other,) = export.members
    assert export.scale is not None
    assert (export.ego, export.projection, other.scale, other.known) == (None,) * 4
    pipeline = clf.members_[1].pipeline
    for name, array in pipeline.projection.arrays.items():
        np.testing.assert_array_equal(other.projection[name], array)
    np.testing.assert_array_equal(other.ego["values"], pipeline.ego.data)


@pytest.mark.parametrize("name", ["model.onnx.m2.ego.npz", "model.onnx.m2.projection.npz"])
def test_a_file_of_a_group_that_was_changed_is_refused_by_name(clf, stub, tmp_path, name):
    export_classifier(clf, tmp_path / "model.onnx")
    (tmp_path / name).write_bytes(b"another")
    with pytest.raises(ArtifactError, match=f"{name} is damaged or of another export"):
        read_export(tmp_path / "model.onnx")
    (tmp_path / name).unlink()
    with pytest.raises(ArtifactError, match=name):
        read_export(tmp_path / "model.onnx")


@pytest.mark.parametrize(
    ("members", "words"),
    [
        (7, "members = 7 is not a list of objects"),
        (["m2_"], "is not a list of objects"),
        ([{"scale": "../letter.npz"}], "is not the name of a file beside it"),
        ([{"scale": "other.npz"}], "other.npz"),
    ],
)
def test_facts_of_groups_that_lead_elsewhere_are_refused(tmp_path, members, words):
    (tmp_path / "model.onnx").write_bytes(b"a model")
    write_beside(tmp_path / "model.onnx", Export({"members": members}, None, None))
    with pytest.raises(ArtifactError, match=words):
        read_export(tmp_path / "model.onnx")


def test_a_classifier_with_one_group_has_no_others(stub, tmp_path):
    clf = averaged(community_graph(), CLASSES, CLASSES | {"lr": 0.1})
    facts = json.loads(export_classifier(clf, tmp_path / "model.onnx").read_text())
    assert "members" not in facts
    assert read_export(tmp_path / "model.onnx").members == ()


@pytest.mark.full
def test_the_example_serves_it(tmp_path):
    """From its saved run; groups have other numbers of copies, scales, orders, known classes."""
    known = TOKENS | {"copies": 2, "label_inputs": True, "seed": 3, "order": "random"}
    third = TOKENS | {"copies": 3, "feature_scale": "auto", "hops": 2, "hop_kind": "smooth"}
    part = np.arange(90) // 3 % 3  # all see the same training nodes, whatever their seed
    masks = {name: part == at for at, name in enumerate(("train", "val", "test"))}
    clf = averaged(community_graph(ids=True, masks=masks), known, ALONE, third, CLASSES)
    clf.save(tmp_path / "saved")
    read = NodeClassifier.load(tmp_path / "saved").set_params(progress=False)
    np.testing.assert_allclose(read.predict_proba(), clf.predict_proba(), atol=1e-6)
    assert_served(read, tmp_path)
