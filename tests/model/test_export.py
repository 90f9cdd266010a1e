"""Exported models give the logits of the model they came from, for batches of any shape."""

import numpy as np
import pytest
import torch

from dhilgt import ArtifactError
from dhilgt.model.export import check_ending, export_onnx, export_program
from tests.model.cases import batch_of, model_of

onnxruntime = pytest.importorskip("onnxruntime")

PT2_TOLERANCE, ONNX_TOLERANCE = 1e-5, 1e-4
# The paper's model, one without its parts, and each part alone left out or done in another way.
MODELS = {
    "default": {},
    "bare": {"readout": "ego", "num_virtual": 0, "spd_bias": False},
    "sdpa": {"attention": "sdpa"},
    "no readout": {"readout": "ego"},
    "one layer, no readout": {"readout": "ego", "num_layers": 1},
    "no layers": {"num_layers": 0},
    "no virtual nodes": {"num_virtual": 0},
    "no distances": {"spd_bias": False},
    "deep ends": {"input_layers": 2, "output_layers": 2, "ffn_channels": 24},
}
CASES = [
    pytest.param(settings, id=name, marks=() if name == "default" else pytest.mark.full)
    for name, settings in MODELS.items()
]
# rows, slots, distinct nodes: none is that of the example the exporter traces.
SHAPES = [(1, 1, 1), (1, 6, 40), (17, 6, 9), (4, 13, 2)]


def batches():
    """Rows with padding, distances up to 253, far (254) and unreachable (255) pairs."""
    for seed, (rows, slots, nodes) in enumerate(SHAPES):
        x, index, spd = batch_of(rows, slots, nodes, seed=seed, high=255)
        far = torch.rand(spd.shape, generator=torch.Generator().manual_seed(seed)) < 0.2
        yield x, index, spd.masked_fill(far, 254)


def from_program(path):
    module = torch.export.load(path).module()
    return lambda *batch: module(*batch)


def from_onnx(path):
    session = onnxruntime.InferenceSession(path)

    def run(x, index, spd):
        feeds = {"x": x.numpy(), "index": index.numpy(), "spd": spd.numpy()}
        return torch.from_numpy(session.run(["logits"], feeds)[0])

    return run


@pytest.fixture(scope="module")
def onnx_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("exported") / "model.onnx"
    export_onnx(model_of(), path)
    return path


@pytest.mark.parametrize("settings", CASES)
@pytest.mark.parametrize(
    ("write", "read", "tolerance"),
    [
        (export_program, from_program, PT2_TOLERANCE),
        (export_onnx, from_onnx, ONNX_TOLERANCE),
    ],
    ids=["pt2", "onnx"],
)
def test_the_exported_model_gives_the_same_logits(write, read, tolerance, settings, tmp_path):
    model = model_of(**settings)
    write(model, tmp_path / "model")
    exported = read(tmp_path / "model")
    for batch in batches():
        with torch.no_grad():
            expected = model(*batch)
        actual = exported(*batch)
        assert actual.shape == expected.shape
        assert (actual - expected).abs().max() <= tolerance
        assert torch.isfinite(actual).all()


def test_what_is_exported_is_the_model_in_evaluation_and_the_model_stays(tmp_path):
    model = model_of(train=True)  # with dropout
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    export_program(model, tmp_path / "model.pt2")
    assert model.training
    assert all(torch.equal(before[name], now) for name, now in model.state_dict().items())
    assert [file.name for file in tmp_path.iterdir()] == ["model.pt2"]
    batch = batch_of(seed=3)
    actual = from_program(tmp_path / "model.pt2")(*batch)
    assert torch.allclose(actual, model.eval()(*batch), atol=PT2_TOLERANCE)


def test_an_onnx_file_says_what_it_takes(onnx_file):
    session = onnxruntime.InferenceSession(onnx_file)
    inputs = {one.name: (one.type, one.shape) for one in session.get_inputs()}
    assert inputs == {
        "x": ("tensor(float)", ["nodes", 7]),
        "index": ("tensor(int64)", ["batch", "slots"]),
        "spd": ("tensor(uint8)", ["batch", "slots", "slots"]),
    }
    (output,) = session.get_outputs()
    assert (output.name, output.type, output.shape) == ("logits", "tensor(float)", ["batch", 3])


def test_what_stands_in_the_distances_of_padding_does_not_matter(onnx_file):
    run = from_onnx(onnx_file)
    x, index, spd = batch_of(padding=0.5)
    hidden = index == -1
    other = spd.masked_fill(hidden[:, None, :] | hidden[:, :, None], 3)
    np.testing.assert_array_equal(run(x, index, spd), run(x, index, other))


@pytest.mark.parametrize("write", [export_program, export_onnx])
def test_a_place_that_cannot_be_written_is_refused(write, tmp_path):
    with pytest.raises(ArtifactError, match="is a folder; name a file in it"):
        write(model_of(), tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(ArtifactError, match=r"cannot write .*model"):
        write(model_of(), tmp_path / "file" / "model")


def test_the_ending_decides_the_form():
    assert check_ending("a/model.ONNX") == ".onnx"
    assert check_ending("model.pt2") == ".pt2"
    with pytest.raises(ValueError, match=r"model.pt ends with .pt; name it .onnx or .pt2"):
        check_ending("model.pt")
