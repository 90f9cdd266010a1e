"""Models with different inputs are exported as one program that averages their probabilities."""

import pytest
import torch

from dhilgt.model.export import export_onnx, export_program
from tests.model.cases import batch_of, model_of
from tests.model.ego_cases import SETTINGS, ego_rows

PT2_TOLERANCE, ONNX_TOLERANCE = 1e-5, 1e-4
ROWS = [1, 2, 17]


@pytest.fixture(scope="module")
def groups():
    """Token rows, the node alone with rows of its egos (twice), and known classes."""
    small = {"num_layers": 1, "num_virtual": 0, "readout": "ego"}  # traced in little time
    alone = {"num_layers": 0, "in_channels": 4} | SETTINGS
    return [
        [model_of(**small)],
        [model_of(seed, **alone) for seed in (1, 2)],
        [model_of(3, label_inputs=True, **small)],
    ]


def batches():
    """The inputs of each group, and the flat arrays that the export takes."""
    for rows in ROWS:
        token = batch_of(rows, 6, 9, seed=rows)
        single = batch_of(rows, 1, rows, channels=4, seed=rows, padding=0.0)
        other, known = batch_of(rows, 3, 5, seed=rows + 1), torch.arange(5) % 4
        ego = ego_rows(rows, rows)
        parts = ego.crow_indices(), ego.col_indices(), ego.values()
        yield (
            [token, (*single, None, ego), (*other, known)],
            [*token, *single, *parts, *other, known],
        )


def mean_of(groups, inputs):
    """The oracle: each model by itself."""
    with torch.no_grad():
        shares = [
            model(*own).softmax(dim=1)
            for models, own in zip(groups, inputs, strict=True)
            for model in models
        ]
    return torch.stack(shares).mean(dim=0)


def test_a_program_takes_the_inputs_of_one_group_after_the_other(groups, tmp_path):
    export_program(groups, tmp_path / "model.pt2")
    program = torch.export.load(tmp_path / "model.pt2").module()
    for inputs, arrays in batches():
        found = program(*arrays).exp()
        assert torch.allclose(found, mean_of(groups, inputs), atol=PT2_TOLERANCE)


@pytest.mark.full
def test_an_onnx_file_names_the_inputs_by_group(groups, tmp_path):
    onnxruntime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    export_onnx(groups, tmp_path / "model.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "model.onnx")
    shapes = {one.name: one.shape for one in session.get_inputs()}
    assert list(shapes) == [
        "x", "index", "spd",
        "m2_x", "m2_index", "m2_spd", "m2_ego_offsets", "m2_ego_columns", "m2_ego_values",
        "m3_x", "m3_index", "m3_spd", "m3_known",
    ]  # fmt: skip
    assert shapes["index"] == ["batch", "slots"]
    assert shapes["m3_index"] == ["batch", "m3_slots"]
    assert shapes["m2_x"] == ["m2_nodes", 4]
    for inputs, arrays in batches():
        feeds = {name: array.numpy() for name, array in zip(shapes, arrays, strict=True)}
        found = torch.from_numpy(session.run(["logits"], feeds)[0]).exp()
        assert torch.allclose(found, mean_of(groups, inputs), atol=ONNX_TOLERANCE)


def test_a_class_that_no_model_gives_a_probability_has_finite_logits(tmp_path):
    models = [model_of(seed, num_layers=0) for seed in (1, 2)]
    with torch.no_grad():
        for model in models:
            model.output.layers[-1].bias[0] = -1e4
    export_program([models], tmp_path / "model.pt2")
    logits = torch.export.load(tmp_path / "model.pt2").module()(*batch_of())
    assert torch.isfinite(logits).all()
