"""The settings of the model; plain values, no torch."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from dhilgt.utils.checks import choice, fraction, name_hint, number, whole_number

READOUTS = ("attention", "ego")
ATTENTIONS = ("auto", "reference", "sdpa", "fused")

_COUNTS = {
    "in_channels": (1, 2**31 - 1),
    "hidden_channels": (1, 2**20),
    "out_channels": (1, 2**31 - 1),
    "num_layers": (1, 1000),
    "heads": (1, 2**20),
    "num_virtual": (0, 1000),
    "input_layers": (1, 100),
    "output_layers": (1, 100),
}
_RATES = (
    "dropout",
    "input_dropout",
    "bias_dropout",
    "attention_dropout",
    "output_dropout",
    "label_dropout",
)
# Left out of files where they have these values: older versions of the package read those files.
_UNUSED: tuple[dict[str, Any], ...] = (
    {"label_inputs": False, "label_dropout": 0.5},
    {"bias_slope": 0.0},
    {"output_dropout": 0.0},
)


@dataclass(frozen=True)
class DHILGTConfig:
    """The checked settings of a `DHILGT`, which describes them.

    Example:
        >>> config = DHILGTConfig(in_channels=16, hidden_channels=32, out_channels=3)
        >>> config.num_layers, DHILGTConfig.from_dict(config.to_dict()) == config
        (4, True)
    """

    in_channels: int
    hidden_channels: int
    out_channels: int
    num_layers: int = 4
    heads: int = 8
    num_virtual: int = 4
    dropout: float = 0.5
    input_dropout: float = 0.1
    bias_dropout: float = 0.1
    attention_dropout: float = 0.0
    ffn_channels: int | None = None
    input_layers: int = 1
    output_layers: int = 1
    readout: str = "attention"
    spd_bias: bool = True
    attention: str = "auto"
    label_inputs: bool = False
    label_dropout: float = 0.5
    bias_slope: float = 0.0
    output_dropout: float = 0.0

    def __post_init__(self) -> None:
        for name, (low, high) in _COUNTS.items():
            object.__setattr__(self, name, whole_number(name, getattr(self, name), low, high))
        if self.ffn_channels is not None:
            width = whole_number("ffn_channels", self.ffn_channels, 1, 2**20)
            object.__setattr__(self, "ffn_channels", width)
        if self.hidden_channels % self.heads:
            raise ValueError(
                f"hidden_channels = {self.hidden_channels} is not a multiple of "
                f"heads = {self.heads}; change one of them"
            )
        for name in _RATES:
            object.__setattr__(self, name, fraction(name, getattr(self, name)))
        for name in ("spd_bias", "label_inputs"):
            if not isinstance(getattr(self, name), bool):
                raise ValueError(f"{name} = {getattr(self, name)!r}; pass True or False")
        object.__setattr__(self, "bias_slope", _checked_bias_slope(self.bias_slope, self.spd_bias))
        choice("readout", self.readout, READOUTS)
        choice("attention", self.attention, ATTENTIONS)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for a file."""
        values = asdict(self)
        for unused in _UNUSED:
            if all(values[name] == value for name, value in unused.items()):
                values = {name: value for name, value in values.items() if name not in unused}
        return values

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "DHILGTConfig":
        """Return the settings in `values`; those left out have their defaults.

        Raises:
            ValueError: If a key is unknown, a value is wrong, or the channels are missing.
        """
        known = [field.name for field in fields(cls)]
        for key in values:
            if key not in known:
                hint = name_hint(key, known)
                raise ValueError(f"unknown setting {key!r}; {hint}")
        missing = [name for name in known[:3] if name not in values]
        if missing:
            raise ValueError(f"setting {missing[0]} is missing; it has no default")
        return cls(**values)


def _checked_bias_slope(value: Any, has_bias: bool) -> float:
    slope = number("bias_slope", value, 0, 100)
    if slope and not has_bias:
        raise ValueError(
            f"bias_slope = {slope:g} says where the bias per distance begins, and there is none "
            "with spd_bias = False; change one of them"
        )
    return slope
