"""The settings of the model; plain values, no torch."""

from dataclasses import dataclass, field
from typing import Any

from dhilgt.errors import ConfigError, setting
from dhilgt.utils.fields import CheckedSettings, choice, count, number, rate, switch

READOUTS = ("attention", "ego")
ATTENTIONS = ("auto", "reference", "sdpa", "fused")
MOST_HIDDEN_CHANNELS = 2**20

# Left out of files while they have these values: models without them are written as before.
_UNUSED: tuple[dict[str, Any], ...] = (
    {"label_inputs": False, "label_dropout": 0.5},
    {"bias_slope": 0.0},
    {"output_dropout": 0.0},
    {"ego_channels": 0, "ego_groups": 0},
    {"input_activation": False},
    {"message_layers": 0},
)


@dataclass(frozen=True)
class DHILGTConfig(CheckedSettings):
    """The settings of a `DHILGT`, checked; see there for more on each one.

    Example:
        >>> config = DHILGTConfig(in_channels=16, hidden_channels=32, out_channels=3)
        >>> config.num_layers, DHILGTConfig.from_dict(config.to_dict()) == config
        (4, True)
    """

    _noun = "a setting of the model"

    in_channels: int = field(metadata=count(1).metadata)
    hidden_channels: int = field(metadata=count(1, 1, MOST_HIDDEN_CHANNELS).metadata)
    out_channels: int = field(metadata=count(1).metadata)
    num_layers: int = count(
        4, 0, 1000, help="Transformer layers; 0 for none: the node's own row of features alone."
    )
    heads: int = count(8, 1, 2**20, help="Attention heads.")
    num_virtual: int = count(4, 0, 1000, help="Virtual nodes behind the slots of each row.")
    dropout: float = rate(0.5, help="Dropout on what each block adds.")
    input_dropout: float = rate(0.1, help="Dropout on the features.")
    bias_dropout: float = rate(0.1, help="Fraction of pairs that lose their distance bias.")
    ffn_channels: int | None = count(
        None,
        1,
        2**20,
        help="Inner width of the feed-forward blocks; that of hidden_channels when not given.",
    )
    input_layers: int = count(1, 1, 100, help="Linear layers before the transformer.")
    output_layers: int = count(1, 1, 100, help="Linear layers after the transformer.")
    readout: str = choice(*READOUTS, help="How a row becomes one vector.")
    spd_bias: bool = switch(True, help="Learn an attention bias per distance.")
    attention: str = choice(*ATTENTIONS, help="Implementation of attention.")
    attention_dropout: float = rate(0.0, help="Dropout on the attention weights.")
    label_inputs: bool = switch(
        False, help="Show a token the classes of the training nodes in it, except its own node's."
    )
    label_dropout: float = rate(
        0.5, help="Fraction of those classes that are hidden in each training step."
    )
    bias_slope: float = number(
        0.0,
        0,
        100,
        help="How steeply the distance bias falls with distance at first: near slots count more.",
    )
    output_dropout: float = rate(0.0, help="Dropout on the input of the output layers.")
    input_activation: bool = switch(
        False,
        help="Apply ReLU and dropout to what the first layer takes; without layers, also add a "
        "residual layer.",
    )
    message_layers: int = count(
        0,
        0,
        100,
        help="Rounds of message passing over the whole graph before the first layer; each training "
        "step computes them for all nodes.",
    )
    ego_channels: int = count(0, 0, 2**31 - 1, help="Columns of the sparse rows of the egos.")
    ego_groups: int = count(0, 0, 1000, help="Sparse rows of each ego, one per kind of entry.")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.hidden_channels % self.heads:
            raise ConfigError(
                f"{setting('hidden_channels', self.hidden_channels)} is not a multiple of "
                f"{setting('heads', self.heads)}; change one of them"
            )
        if self.label_inputs and not self.num_layers:
            raise ConfigError(
                f"{setting('label_inputs', True)} shows a node the classes of others in its token, "
                f"which {setting('num_layers', 0)} does not read; leave label_inputs out or use "
                "num_layers of 1 or more"
            )
        if self.label_inputs and self.message_layers:
            raise ConfigError(
                f"{setting('label_inputs', True)} shows each node the classes of the others, and "
                f"{setting('message_layers', self.message_layers)} would pass a node's own class "
                "back to it; leave out one of them, or use class_inputs"
            )
        if self.bias_slope and not self.spd_bias:
            raise ConfigError(
                f"{setting('bias_slope', self.bias_slope)} is the slope of the bias per distance, "
                f"and there is none with {setting('spd_bias', False)}; change one of them"
            )
        if (self.ego_channels > 0) != (self.ego_groups > 0):
            raise ConfigError(
                f"{setting('ego_channels', self.ego_channels)} with "
                f"{setting('ego_groups', self.ego_groups)}; set both, or neither"
            )

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for a file."""
        values = super().to_dict()
        for unused in _UNUSED:
            if all(values[name] == value for name, value in unused.items()):
                values = {name: value for name, value in values.items() if name not in unused}
        return values
