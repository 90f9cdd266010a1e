"""The settings of the model and its folder on disk."""

import contextlib
import json

import pytest
import torch

from dhilgt import DHILGT, ArtifactError, DHILGTConfig
from tests.model.cases import batch_of, model_of

torch.set_num_threads(1)


def test_config():
    model = model_of(dropout=0)
    assert model.config == DHILGTConfig(7, 16, 3, num_layers=2, heads=4, num_virtual=2, dropout=0)
    assert DHILGTConfig.from_dict(model.config.to_dict()) == model.config
    with pytest.raises(AttributeError):
        model.config.heads = 2
    with pytest.raises(ValueError, match="did you mean 'hidden_channels'"):
        DHILGTConfig.from_dict({"in_channels": 1, "hiden_channels": 8, "out_channels": 2})
    with pytest.raises(ValueError, match="'zzz' is not a setting of the model; known: in_channels"):
        DHILGTConfig.from_dict({"zzz": 1})
    with pytest.raises(ValueError, match="out_channels is missing"):
        DHILGTConfig.from_dict({"in_channels": 1, "hidden_channels": 8})
    assert "heads=4" in repr(model)


def test_options_that_are_off_are_not_in_files():
    """A model without them is read by versions that do not know them."""
    assert "bias_slope" not in model_of().config.to_dict()
    assert "output_dropout" not in model_of().config.to_dict()
    assert model_of(bias_slope=2).config.to_dict()["bias_slope"] == 2.0
    assert model_of(output_dropout=0.5).config.to_dict()["output_dropout"] == 0.5


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"num_virtual": 0, "readout": "ego", "spd_bias": False, "output_layers": 2},
        {"bias_slope": 2.0, "output_dropout": 0.3},
    ],
)
def test_saved_and_loaded(tmp_path, dtype, settings):
    model, batch = model_of(dtype=dtype, **settings), batch_of()
    model.save_pretrained(tmp_path / "a" / "model")
    state = torch.random.get_rng_state()
    again = DHILGT.from_pretrained(str(tmp_path / "a" / "model"))
    assert torch.equal(torch.random.get_rng_state(), state)
    assert again.config == model.config
    assert not again.training
    assert torch.equal(again(*batch), model(*batch))
    assert all(parameter.requires_grad for parameter in again.parameters())
    assert sorted(p.name for p in (tmp_path / "a" / "model").iterdir()) == [
        "config.json", "model.safetensors",
    ]  # fmt: skip
    assert json.loads((tmp_path / "a" / "model" / "config.json").read_text())["heads"] == 4


def test_saving_again_replaces_and_repeats(tmp_path):
    model_of(seed=1, heads=2).save_pretrained(tmp_path)
    model_of(seed=2).save_pretrained(tmp_path)
    bytes_of = {p.name: p.read_bytes() for p in tmp_path.iterdir()}
    model_of(seed=2).save_pretrained(tmp_path)
    assert bytes_of == {p.name: p.read_bytes() for p in tmp_path.iterdir()}
    assert DHILGT.from_pretrained(tmp_path).config.heads == 4


@pytest.mark.parametrize("call", ["unlink", "write", "fsync", "rename"])
@pytest.mark.parametrize("when", range(4))
def test_interrupted_save_leaves_one_whole_model(tmp_path, monkeypatch, call, when):
    from dhilgt.store.files import FileOps

    old, new, batch = model_of(seed=1), model_of(seed=2, heads=2), batch_of()
    old.save_pretrained(tmp_path)
    real, count = getattr(FileOps, call), iter(range(100))

    def fail(self, *arguments):
        if next(count) == when:
            raise KeyboardInterrupt
        return real(self, *arguments)

    monkeypatch.setattr(FileOps, call, fail)
    with contextlib.suppress(KeyboardInterrupt):
        new.save_pretrained(tmp_path)
    monkeypatch.undo()
    actual = DHILGT.from_pretrained(tmp_path)
    one = old if actual.config == old.config else new
    assert torch.equal(actual(*batch), one(*batch))


def edited(folder, **changes):
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, **changes}))


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda f: (f / "model.safetensors").unlink(), "has no model.safetensors"),
        (lambda f: (f / "config.json").write_text("[]"), "not settings"),
        (lambda f: (f / "config.json").write_text("{"), "not JSON"),
        (lambda f: (f / "config.json").write_text(" " * (2 << 20)), "too long"),
        (lambda f: edited(f, layers=3), "did you mean 'num_layers'"),
        (lambda f: edited(f, format_version=2), "format_version is 2, not 1"),
        (lambda f: edited(f, architecture="GCN"), "architecture is 'GCN'"),
        (lambda f: edited(f, num_layers=3), "layers.2.* is missing"),
        (lambda f: edited(f, num_layers=1), "layers.1.* is not expected"),
        (lambda f: edited(f, out_channels=4), r"output.layers.0.weight has shape \[3, 16\], not"),
        (
            lambda f: edited(f, bias_slope=2.0),
            "bias_slope is 2.0, the weights were saved with None",
        ),
        (lambda f: edited(f, num_virtual=10**9), "num_virtual = 1000000000"),
    ],
)
def test_damaged_folders_are_named(tmp_path, damage, words):
    model_of().save_pretrained(tmp_path)
    damage(tmp_path)
    with pytest.raises(ArtifactError, match=words):
        DHILGT.from_pretrained(tmp_path)


@pytest.mark.parametrize("share", [0.0, 0.01, 0.5, 0.999])
def test_shortened_weights_are_named(tmp_path, share):
    model_of().save_pretrained(tmp_path)
    file = tmp_path / "model.safetensors"
    data = file.read_bytes()
    file.write_bytes(data[: int(len(data) * share)])
    with pytest.raises(ArtifactError, match=r"model.safetensors is damaged"):
        DHILGT.from_pretrained(tmp_path)


def test_changed_weights_are_named(tmp_path):
    model_of().save_pretrained(tmp_path)
    file = tmp_path / "model.safetensors"
    data = file.read_bytes()
    note = data.index(b'{"config') if b'{"config' in data else data.index(b'{\\"config')
    for at in [*range(0, 8), *range(note, note + 800, 7), *range(4000, len(data), 997)]:
        changed = bytearray(data)
        changed[at] ^= 0x10
        file.write_bytes(changed)
        with pytest.raises(ArtifactError, match=r"model.safetensors"):
            DHILGT.from_pretrained(tmp_path)


def test_missing_folder_and_foreign_weights(tmp_path):
    import safetensors.torch

    with pytest.raises(ArtifactError, match="pass a folder that save_pretrained wrote"):
        DHILGT.from_pretrained(tmp_path / "nothing")
    model = model_of()
    state = {name: value.clone() for name, value in model.state_dict().items()}
    safetensors.torch.save_file(state, tmp_path / "model.safetensors")
    with pytest.raises(ArtifactError, match=r"has no config.json"):
        DHILGT.from_pretrained(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps(model.config.to_dict()))
    assert DHILGT.from_pretrained(tmp_path).config == model.config


def test_cannot_save_over_a_file(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ArtifactError, match="cannot write"):
        model_of().save_pretrained(tmp_path / "file")
