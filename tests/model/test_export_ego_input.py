"""Exported models take the sparse rows of egos as three dense inputs, for batches of any size."""

import pytest
import torch

from dhilgt.model.export import export_onnx, export_program
from tests.model.cases import batch_of, model_of
from tests.model.ego_cases import GROUPS, SETTINGS, ego_rows

onnxruntime = pytest.importorskip("onnxruntime")

TOLERANCE = 1e-5
EGO = ["ego_offsets", "ego_columns", "ego_values"]
CASES = [
    pytest.param({"label_inputs": True, "num_layers": 1}, id="with classes"),
    pytest.param({}, id="alone", marks=pytest.mark.full),
    pytest.param({"num_layers": 0}, id="without layers"),
]
# rows, slots, distinct nodes: none is that of the example the exporter traces.
SHAPES = [(1, 1, 1), (1, 6, 40), (17, 6, 9), (4, 2, 2)]


def batches(label_inputs=False, **_):
    """The inputs of a model and the arrays that its export takes; the rows of an ego are empty."""
    for seed, (rows, slots, nodes) in enumerate(SHAPES):
        batch, ego = batch_of(rows, slots, nodes, seed=seed), ego_rows(rows, seed)
        known = [torch.arange(nodes) % 4] if label_inputs else []
        parts = ego.crow_indices(), ego.col_indices(), ego.values()
        yield (*batch, *(known or [None]), ego), (*batch, *known, *parts)


def assert_same(model, run, settings):
    for inputs, arrays in batches(**settings):
        with torch.no_grad():
            expected = model(*inputs)
        actual = run(*arrays)
        assert actual.shape == expected.shape
        assert (actual - expected).abs().max() <= TOLERANCE


@pytest.mark.parametrize("settings", CASES)
def test_a_program_gives_the_same_logits(tmp_path, settings):
    model = model_of(**settings, **SETTINGS)
    export_program(model, tmp_path / "model.pt2")
    assert_same(model, torch.export.load(tmp_path / "model.pt2").module(), settings)


@pytest.mark.parametrize("settings", CASES)
def test_an_onnx_file_gives_the_same_logits_and_names_its_inputs(tmp_path, settings):
    model = model_of(**settings, **SETTINGS)
    export_onnx(model, tmp_path / "model.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "model.onnx")
    names = [one.name for one in session.get_inputs()]
    assert names == ["x", "index", "spd", *(["known"] if "label_inputs" in settings else []), *EGO]
    shapes = {one.name: (one.type, one.shape) for one in session.get_inputs()}
    assert shapes["ego_offsets"] == ("tensor(int64)", [f"{GROUPS}*batch + 1"])
    assert shapes["ego_columns"] == ("tensor(int64)", ["entries"])
    assert shapes["ego_values"] == ("tensor(float)", ["entries"])

    def run(*arrays):
        feeds = {name: array.numpy() for name, array in zip(names, arrays, strict=True)}
        return torch.from_numpy(session.run(["logits"], feeds)[0])

    assert_same(model, run, settings)
