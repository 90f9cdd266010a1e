"""What a token row looks like and how its nodes are drawn."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from dhilgt.errors import ConfigError, argument, setting
from dhilgt.utils.checks import whole_number
from dhilgt.utils.fields import CheckedSettings, choice, count, number, switch

FAR = 254
"""Stands for every distance of 254 and more, and for nodes beyond the radius of the labels."""

NO_PATH = 255
"""Stands for "no path" and for every pair with a padding slot."""

PADDING = -1
"""The id in a slot that holds no node."""

_MAX_SIZE = 1024
_MAX_EXPONENT = 64.0


@dataclass(frozen=True)
class TokenSpec(CheckedSettings):
    """The shape of token rows and how their nodes are drawn.

    Example:
        >>> TokenSpec(size=32).num_out, TokenSpec(size=32).num_in
        (16, 15)
    """

    size: int = count(32, 1, _MAX_SIZE, help="Slots of a token row, the node's own included.")
    num_out: int | None = count(
        None, 0, _MAX_SIZE - 1, help="Hubs to draw per row; half of the slots when not given."
    )
    num_in: int | None = count(
        None, 0, _MAX_SIZE - 1, help="Holders to draw per row; the other slots when not given."
    )
    out_exponent: float = number(
        -1.0,
        -_MAX_EXPONENT,
        _MAX_EXPONENT,
        help="A hub at distance d is drawn with weight d ** exponent: below 0 favours near ones.",
    )
    in_exponent: float = number(-1.0, -_MAX_EXPONENT, _MAX_EXPONENT, help="The same for holders.")
    seed: int = count(
        0, 0, 2**64 - 1, help="Seed of all draws; a row depends on seed, copy and node alone."
    )
    spill: bool = switch(
        False, help="Give slots that hubs or holders cannot use to the other side."
    )
    fill: str | None = choice(
        None, "neighbors", help='"neighbors" gives slots still free to neighbours not drawn yet.'
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("num_out", "num_in"):
            whole_number(name, getattr(self, name), 0, self.size - 1, optional=True)
        if self.num_out is None:
            half = self.size // 2 if self.num_in is None else self.size - 1 - self.num_in
            self._set("num_out", min(half, self.size - 1))
        if self.num_in is None:
            self._set("num_in", self.size - 1 - self.hubs_wanted)
        wanted = 1 + self.hubs_wanted + self.holders_wanted
        if wanted > self.size:
            hubs, holders = argument("num_out"), argument("num_in")
            raise ConfigError(
                f"1 + {hubs} + {holders} = {wanted} slots are wanted, "
                f"{setting('size', self.size)}; lower {hubs} or {holders}, or raise "
                f"{argument('size')}"
            )

    @property
    def hubs_wanted(self) -> int:
        """num_out, known to be a number."""
        return int(self.num_out or 0)

    @property
    def holders_wanted(self) -> int:
        """num_in, known to be a number."""
        return int(self.num_in or 0)

    def num_pairs(self, directed: bool) -> int:
        """Return the bytes of a row's packed distances."""
        return self.size * (self.size - 1) // 2 * (2 if directed else 1)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """Return the spec that `to_dict` wrote; other keys are ignored, none may be missing."""
        return cls(**{field.name: values[field.name] for field in fields(cls)})


def exact_codes(codes: NDArray[np.uint8], radius: int | None) -> NDArray[np.bool_]:
    """Return which codes are exact distances.

    Args:
        codes: Distances of rows, of any shape.
        radius: That of the labels; None for full ones. The exact distances end one step beyond it:
            see `HubLabels.is_exact`.

    Example:
        >>> codes = np.array([0, 3, 4, 5, FAR, NO_PATH], np.uint8)
        >>> exact_codes(codes, 3).tolist(), exact_codes(codes, None).tolist()
        ([True, True, True, False, False, False], [True, True, True, True, False, False])
    """
    return np.asarray(codes < FAR if radius is None else codes <= min(radius + 1, FAR - 1))
