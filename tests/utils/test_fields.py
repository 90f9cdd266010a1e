"""Settings classes: one declaration gives the check, the help and the signature."""

import inspect
from dataclasses import dataclass, field

import numpy as np
import pytest

from dhilgt.errors import ConfigError
from dhilgt.utils.fields import CheckedSettings, choice, count, number, rate, switch, takes, text


@dataclass(frozen=True)
class Some(CheckedSettings):
    """Some settings."""

    width: int = field(metadata=count(1).metadata)
    layers: int | str = count(2, word="auto", help="Linear layers.")
    limit: float | None = number(None, above=True)
    held_out: float = rate(0.2, above=True)
    fill: str | None = choice(None, "near", "far")
    name: str = text("x")
    fresh: bool = switch(False)


def test_values_are_kept_in_their_own_type():
    some = Some(np.int32(3), layers="auto", limit=2, held_out=np.float32(0.5), fresh=np.True_)
    assert some.to_dict() == {
        "width": 3, "layers": "auto", "limit": 2.0, "held_out": 0.5, "fill": None, "name": "x",
        "fresh": True,
    }  # fmt: skip
    assert [type(value) for value in some.to_dict().values()] == [
        int, str, float, float, type(None), str, bool,
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"width": 0}, r"width = 0; pass a whole number from 1"),
        ({"layers": "many"}, r'layers = .many.; pass a whole number .*, or "auto"'),
        ({"limit": 0}, r"limit = 0; pass a number above 0 .*, or None"),
        ({"held_out": 0}, r"held_out = 0; pass a number above 0 to below 1"),
        ({"held_out": 1}, r"held_out = 1; pass a number above 0 to below 1"),
        ({"fill": "all"}, r'fill = .all.; pass one of "near", "far", or None'),
        ({"name": ""}, r"name = ''; pass a name"),
        ({"fresh": 1}, r"fresh = 1; pass True or False"),
        ({"widht": 2}, r"'widht' is not a setting; did you mean 'width'"),
    ],
)
def test_what_is_wrong_is_named_with_what_is_accepted(change, message):
    with pytest.raises(ConfigError, match=message):
        Some.from_dict({"width": 1, **change})


def test_a_setting_without_a_default_is_asked_for():
    with pytest.raises(ConfigError, match="width is missing"):
        Some.from_dict({"layers": 2})


def test_the_docstring_lists_what_has_a_help():
    assert Some.__doc__ == "Some settings.\n\nAttributes:\n    layers: Linear layers.\n"


def test_a_method_can_take_the_arguments_of_a_class():
    class Owner:
        @takes(Some)
        def __init__(self, *args, **kwargs):
            self.some = Some(*args, **kwargs)

        @takes(Some, by_name=True)
        def change(self, **kwargs):
            return kwargs

    assert Owner(3, fill="far").some == Some(3, fill="far")
    assert inspect.signature(Owner) == inspect.signature(Some)
    kinds = {one.kind for one in inspect.signature(Owner(1).change).parameters.values()}
    assert kinds == {inspect.Parameter.KEYWORD_ONLY}
