"""Names of other packages for settings are understood in every hint."""

import pytest
from typer.testing import CliRunner

import dhilgt
from dhilgt.cli.app import app
from dhilgt.errors import ConfigError
from dhilgt.settings.settings import Settings
from dhilgt.settings.yaml_files import checked_value
from dhilgt.utils.synonyms import _SYNONYMS, setting_meant

MEANT = {
    "hidden": "hidden_channels", "hidden_dim": "hidden_channels", "hidden_size": "hidden_channels",
    "n_layers": "num_layers", "depth": "num_layers", "n_heads": "heads", "num_heads": "heads",
    "epoch": "epochs", "max_epochs": "epochs", "n_epochs": "epochs", "learning_rate": "lr",
    "lr_rate": "lr", "wd": "weight_decay", "l2": "weight_decay", "batch": "batch_size",
    "dropout_rate": "dropout", "random_state": "seed", "n_jobs": "threads",
}  # fmt: skip


def test_every_synonym_is_of_a_setting():
    names = set(Settings().to_dict())
    assert set(_SYNONYMS) <= names
    words = [word for listed in _SYNONYMS.values() for word in listed.split()]
    assert len(words) == len(set(words))
    assert not {setting_meant(name) for name in names} - {None}  # no setting means another


@pytest.mark.parametrize("name", MEANT)
def test_python_files_and_shell_name_the_setting(name):
    hint = f"did you mean '{MEANT[name]}'"
    with pytest.raises(TypeError, match=f"unexpected keyword argument '{name}'; {hint}"):
        dhilgt.NodeClassifier(**{name: 1})
    with pytest.raises(ConfigError, match=hint):
        dhilgt.NodeClassifier().set_params(**{name: 1})
    with pytest.raises(ConfigError, match=hint):
        Settings.from_dict({name: 1})
    with pytest.raises(ConfigError, match=hint):
        checked_value(name, "1", "settings.yaml")
    shown = CliRunner().invoke(app, ["train", f"--{name.replace('_', '-')}", "1"])
    assert shown.exit_code == 2
    assert f"--{MEANT[name].replace('_', '-')})" in shown.output
