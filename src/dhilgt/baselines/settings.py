"""Settings of a system: a frozen dataclass whose fields state the values they take."""

from dataclasses import dataclass

from dhilgt.errors import ConfigError
from dhilgt.utils.fields import CheckedSettings, choice, count, counts, number, rate, switch

__all__ = ["Settings", "choice", "count", "counts", "number", "rate", "switch"]


@dataclass(frozen=True)
class Settings(CheckedSettings):
    """Base of the settings of all systems: checked on construction, plain values in and out.

    Example:
        >>> @dataclass(frozen=True)
        ... class Mine(Settings):
        ...     layers: int = count(2)
        ...     dropout: float = rate(0.5)
        >>> Mine(layers=3).to_dict()
        {'layers': 3, 'dropout': 0.5}
        >>> Mine.from_dict({"layer": 1})
        Traceback (most recent call last):
        dhilgt.errors.ConfigError: 'layer' is not a setting of this system; did you mean 'layers'?
    """

    _noun = "a setting of this system"

    def check_heads(self) -> None:
        """Refuse a width that is not a multiple of the heads, for systems that have both.

        Raises:
            ConfigError: It names both.
        """
        width, heads = self.to_dict()["hidden_channels"], self.to_dict()["heads"]
        if width % heads:
            raise ConfigError(
                f"hidden_channels = {width} is not a multiple of heads = {heads}; change one of "
                "them"
            )
