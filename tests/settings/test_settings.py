"""Settings: one list, checked at once, the same as the parts' own."""

import inspect
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import pytest
from docs.make import settings_table

from dhilgt import ConfigError, DHILGTConfig, Settings, Tokens, TokenSpec, TrainConfig
from dhilgt.cli.flags import flag_of
from dhilgt.settings.settings import GROUPS


def defaults_of(cls: type) -> dict[str, object]:
    return {one.name: one.default for one in fields(cls)}


@pytest.mark.parametrize("part", [TokenSpec, DHILGTConfig, TrainConfig])
def test_every_setting_of_a_part_is_in_the_list_with_the_parts_default(part: type) -> None:
    mine = defaults_of(Settings)
    for name, default in defaults_of(part).items():
        if name in ("in_channels", "out_channels", "ego_channels", "ego_groups"):
            continue  # these follow from the data
        if name == "hidden_channels":
            assert mine[name] == 128  # the part has no default
            continue
        assert mine[name] == default, name


def test_tokens_are_built_with_the_same_defaults() -> None:
    theirs = inspect.signature(Tokens.build).parameters
    for name in ("copies", *Settings().token_options()):
        assert theirs[name].default == defaults_of(Settings)[name], name


def test_each_setting_has_a_group_and_a_sentence_of_help() -> None:
    for setting in fields(Settings):
        assert setting.metadata["group"] in GROUPS
        assert setting.metadata["help"].endswith((".", "..."))
    listed = [one.name for group in GROUPS for one in Settings.group(group)]
    assert listed == [one.name for one in fields(Settings)]


def test_dict_and_back() -> None:
    settings = Settings(size=8, lr=0.01, batch_size="auto", patience=None, device="cpu", hops=2)
    assert Settings.from_dict(settings.to_dict()) == settings


def test_the_parts_get_what_was_set() -> None:
    settings = Settings(size=8, num_in=2, seed=5, hidden_channels=64, heads=4, lr=0.01)
    assert TokenSpec(**settings.token_options()) == TokenSpec(size=8, num_in=2, seed=5)
    assert settings.model_config(7, 3) == DHILGTConfig(7, 64, 3, heads=4)
    assert settings.train_config() == TrainConfig(lr=0.01, seed=5)
    assert settings.num_out is None  # as given, so that another size halves anew


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"hiden_channels": 64}, "did you mean 'hidden_channels'"),
        ({"zzzz": 1}, "known: size"),
        ({"size": 0}, "size = 0"),
        ({"num_out": 30, "num_in": 30}, "lower num_out or num_in"),
        ({"hidden_channels": 10}, "not a multiple of heads"),
        ({"dropout": 1.0}, "dropout = 1.0"),
        ({"lr": "0.1"}, "lr = '0.1'"),
        ({"batch_size": 0}, 'whole number from 1 to .*, or "auto"'),
        ({"batch_size": "big"}, 'or "auto"'),
        ({"copies": 0}, "copies = 0"),
        ({"hops": -1}, "hops = -1"),
        ({"hop_kind": "mean"}, "hop_kind = 'mean'"),
        ({"hop_restart": 1.0}, "hop_restart = 1.0; pass a number from 0 to below 1"),
        ({"hop_restart": "half"}, "hop_restart = 'half'"),
        ({"hop_restart": float("nan")}, "hop_restart = nan"),
        ({"fresh": 1}, "fresh = 1"),
        ({"order": "size"}, "order = 'size'; pass one of .degree., "),
        ({"validation": 0}, "validation = 0"),
        ({"validation": 1.0}, "validation = 1.0"),
        ({"validation": float("nan")}, "validation = nan"),
        ({"threads": 0}, "threads = 0"),
        ({"seed": -1}, "seed = -1"),
    ],
)
def test_what_is_wrong_is_refused_with_the_way_out(values: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Settings.from_dict(values)


def test_the_list_needs_no_torch() -> None:
    code = "import sys, dhilgt; dhilgt.Settings(); print('torch' in sys.modules)"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "False"


@pytest.mark.parametrize("page", settings_table.PAGES, ids=lambda page: page.name)
def test_the_tables_of_the_pages_are_made_from_the_list(page: Path) -> None:
    text = page.read_text("utf-8")
    assert text == settings_table.page_text(page), "run python -m docs.make.settings_table"
    for setting in fields(Settings):
        name = setting.name if page.name == "classifier.md" else flag_of(setting.name)
        assert (f"`{name}" in text) is (name == setting.name or setting.metadata["flag"])


def test_the_defaults_of_the_parts_are_declared_once() -> None:
    """A default, a check and a help of a part are those of the part itself."""
    for part in (TokenSpec, DHILGTConfig, TrainConfig):
        theirs = {one.name: one for one in fields(part)}
        for setting in fields(Settings):
            one = theirs.get(setting.name)
            if one is not None and setting.name not in ("seed", "hidden_channels"):
                assert setting.metadata["check"] is one.metadata["check"]
                assert setting.metadata["help"] == one.metadata["help"]
