"""Where things stand in a chart: ticks, scales and long lines made short."""

import math
from collections.abc import Callable, Sequence

Point = tuple[float, float]


def ticks(low: float, high: float, about: int = 5, *, whole: bool = False) -> list[float]:
    """Gives round numbers from low or below to high or above, about so many.

    Args:
        low: Smallest value to show.
        high: Largest value to show.
        about: How many are wanted.
        whole: Give whole numbers only.

    Example:
        >>> ticks(0.0, 0.93), ticks(1, 4, whole=True)
        ([0.0, 0.25, 0.5, 0.75, 1.0], [1.0, 2.0, 3.0, 4.0])
    """
    if high <= low:
        wide = 1.0 if whole else max(abs(low) * 0.1, 0.1)
        low, high = low - (0 if whole else wide), high + wide
    rough = (high - low) / max(1, about - 1)
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * unit for unit in (1, 2, 2.5, 5, 10) if power * unit >= rough * 0.999)
    if whole:
        step = max(1.0, math.ceil(step))
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [round(at * step, 12) for at in range(first, last + 1)]


def tick_text(values: Sequence[float]) -> list[str]:
    """Gives ticks as text, all with the digits that they need to differ.

    Example:
        >>> tick_text([0.0, 0.25, 0.5]), tick_text([0, 5000])
        (['0.00', '0.25', '0.50'], ['0', '5,000'])
    """
    for digits in range(7):
        if all(abs(value - round(value, digits)) <= 1e-9 * max(1, abs(value)) for value in values):
            return [f"{value:,.{digits}f}" for value in values]
    return [f"{value:g}" for value in values]


def scale(low: float, high: float, start: float, stop: float) -> Callable[[float], float]:
    """Gives the map of values between low and high to places between start and stop."""
    span = high - low or 1.0
    return lambda value: start + (value - low) / span * (stop - start)


def thinned(points: Sequence[Point], most: int = 400) -> list[Point]:
    """Gives a line of fewer points that looks the same: lowest and highest of each stretch stay.

    Args:
        points: By ascending x.
        most: About how many to keep.

    Example:
        >>> len(thinned([(float(x), float(x % 7)) for x in range(10_000)])) <= 402
        True
    """
    if len(points) <= most:
        return list(points)
    stretches = most // 2
    kept = {0, len(points) - 1}
    for at in range(stretches):
        begin = at * len(points) // stretches
        inside = range(begin, (at + 1) * len(points) // stretches)
        kept.add(min(inside, key=lambda i: points[i][1]))
        kept.add(max(inside, key=lambda i: points[i][1]))
    return [points[i] for i in sorted(kept)]
