"""What a token row looks like and how its nodes are drawn."""

from dataclasses import asdict, dataclass, fields
from typing import Any

import numpy as np

from dhilgt.errors import ConfigError, argument, setting
from dhilgt.utils.checks import number, whole_number

FAR = 254
"""Stands for every distance of 254 and more."""

NO_PATH = 255
"""Stands for "no path" and for every pair with a padding slot."""

PADDING = -1
"""The id in a slot that holds no node."""

_MAX_SIZE = 1024
_MAX_EXPONENT = 64.0


@dataclass(frozen=True)
class TokenSpec:
    """The shape of token rows and the law of their draw.

    Attributes:
        size: Slots of a row, the ego's included.
        num_out: Hubs to draw. None takes half of the slots.
        num_in: Holders to draw. None takes what is left.
        out_exponent: A hub at distance d is drawn with weight d ** out_exponent: negative favours
            near ones, positive far ones, 0 none.
        in_exponent: The same for holders.
        seed: Key of all draws. The row of a node depends on (seed, copy, node) alone.
        spill: Give slots that one side cannot use to the other.
        fill: "neighbors" gives slots that are still free to neighbours of the ego not drawn yet.

    Example:
        >>> TokenSpec(size=32).num_out, TokenSpec(size=32).num_in
        (16, 15)
    """

    size: int = 32
    num_out: int | None = None
    num_in: int | None = None
    out_exponent: float = -1.0
    in_exponent: float = -1.0
    seed: int = 0
    spill: bool = False
    fill: str | None = None

    def __post_init__(self) -> None:
        self._set_count("size", 1, _MAX_SIZE)
        for name in ("num_out", "num_in"):
            if getattr(self, name) is not None:
                self._set_count(name, 0, self.size - 1)
        if self.num_out is None:
            half = self.size // 2 if self.num_in is None else self.size - 1 - self.num_in
            object.__setattr__(self, "num_out", min(half, self.size - 1))
        if self.num_in is None:
            object.__setattr__(self, "num_in", self.size - 1 - self.hubs_wanted)
        wanted = 1 + self.hubs_wanted + self.holders_wanted
        if wanted > self.size:
            hubs, holders = argument("num_out"), argument("num_in")
            raise ConfigError(
                f"1 + {hubs} + {holders} = {wanted} slots are wanted, "
                f"{setting('size', self.size)}; lower {hubs} or {holders}, or raise "
                f"{argument('size')}"
            )
        for name in ("out_exponent", "in_exponent"):
            exponent = number(name, getattr(self, name), -_MAX_EXPONENT, _MAX_EXPONENT)
            object.__setattr__(self, name, exponent)
        self._set_count("seed", 0, 2**64 - 1)
        if not isinstance(self.spill, (bool, np.bool_)):
            raise ValueError(f"spill = {self.spill!r}; pass True or False")
        object.__setattr__(self, "spill", bool(self.spill))
        if self.fill is not None and self.fill != "neighbors":
            raise ValueError(f'fill = {self.fill!r}; pass None or "neighbors"')

    def _set_count(self, name: str, low: int, high: int) -> None:
        object.__setattr__(self, name, whole_number(name, getattr(self, name), low, high))

    @property
    def hubs_wanted(self) -> int:
        """num_out, known to be a number."""
        return int(self.num_out or 0)

    @property
    def holders_wanted(self) -> int:
        """num_in, known to be a number."""
        return int(self.num_in or 0)

    def num_pairs(self, directed: bool) -> int:
        """Gives the bytes of a row's packed distances."""
        return self.size * (self.size - 1) // 2 * (2 if directed else 1)

    def to_dict(self) -> dict[str, Any]:
        """Gives plain values, for a manifest."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> "TokenSpec":
        """Gives the spec that `to_dict` wrote; other keys are passed over, none may be missing."""
        return cls(**{field.name: values[field.name] for field in fields(cls)})
