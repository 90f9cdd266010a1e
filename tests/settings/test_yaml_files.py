"""Settings as YAML: written and read back alike, and slips named with their line."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dhilgt import ConfigError
from dhilgt.settings.settings import Settings
from dhilgt.settings.yaml_files import read_settings, settings_text, write_settings


@pytest.fixture
def write(tmp_path):
    def write(text, name="mine.yaml"):
        file = tmp_path / name
        file.write_bytes(text.encode() if isinstance(text, str) else text)
        return file

    return write


@settings(deadline=None, max_examples=40)
@given(
    lr=st.floats(1e-12, 1.0),
    seed=st.integers(0, 2**63 - 1),
    patience=st.none() | st.integers(1, 99),
    batch=st.just("auto") | st.integers(1, 4096),
    fresh=st.booleans(),
    edges=st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1),
)
def test_what_is_written_is_read_back(tmp_path_factory, lr, seed, patience, batch, fresh, edges):
    written = Settings(lr=lr, seed=seed, patience=patience, batch_size=batch, fresh=fresh)
    file = tmp_path_factory.mktemp("settings") / "config.yaml"
    write_settings(file, written, {"edges": edges, "directed": True})
    found = read_settings(file)
    assert found.pop("data") == {"edges": edges, "directed": True}
    assert Settings.from_dict(found) == written


def test_sections_are_for_the_eye_and_may_be_left_out(write):
    assert read_settings(write("epochs: 3\nmodel:\n  heads: 2\nrun: {seed: 5}\n")) == {
        "epochs": 3, "heads": 2, "seed": 5,
    }  # fmt: skip
    assert settings_text(Settings()).startswith("tokens:\n  size: 32\n")


def test_numbers_that_yaml_takes_for_text_are_numbers(write):
    found = read_settings(write("lr: 1e-4\npatience: none\nclip_norm: None\ndecay: none\n"))
    assert found == {"lr": 1e-4, "patience": None, "clip_norm": None, "decay": "none"}


FAULTS = {
    "unknown": ("epochs: 3\nhiden_channels: 64\n", ["line 2", "did you mean 'hidden_channels'"]),
    "unknown in a section": ("model:\n  head: 2\n", ["line 2", "did you mean 'heads'"]),
    "nothing near": ("zzz: 1\n", ["line 1", "known: size"]),
    "wrong type": ("size: 32\nepochs: many\n", ["line 2", "epochs = 'many'", "whole number"]),
    "out of range": ("dropout: 1.5\n", ["line 1", "dropout = 1.5", "below 1"]),
    "bad choice": ("\nprecision: fp8\n", ["line 2", "'fp8'", '"bf16"']),
    "twice": ("lr: 0.1\nlr: 0.2\n", ["line 2", "twice"]),
    "twice in two places": ("lr: 0.1\ntraining:\n  lr: 0.2\n", ["line 3", "set twice"]),
    "a list": ("- epochs\n", ["is no file of settings"]),
    "empty": ("", ["is no file of settings"]),
    "not YAML": ("a: [1\nb: 2\n", ["line 2", "not YAML"]),
    "code": ("epochs: !!python/object/apply:os.getcwd []\n", ["line 1", "plain values"]),
    "not text": (b"\xff\xfe\x00", ["not YAML"]),
    "too large": ("#" * (1 << 20) + "\nlr: 1\n", ["over 1 MB"]),
}


@pytest.mark.parametrize("name", FAULTS)
def test_slips_are_named_with_their_line(write, name):
    text, words = FAULTS[name]
    file = write(text)
    with pytest.raises(ConfigError) as caught:
        read_settings(file)
    assert [word for word in (str(file), *words) if word not in str(caught.value)] == []


def test_files_that_are_not_there_are_named(tmp_path):
    with pytest.raises(ConfigError, match="cannot be read"):
        read_settings(tmp_path / "none.yaml")
    with pytest.raises(ConfigError, match="is a folder"):
        read_settings(tmp_path)
