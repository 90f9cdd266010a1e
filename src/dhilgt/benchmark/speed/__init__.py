"""How fast the model trains and predicts: implementations of attention, side by side in one run.

`cases` draws batches and times steps on them, `measure` goes through sizes and special cases,
`show` makes a table and a plot of the lines.
"""

from dhilgt.benchmark.speed.measure import (
    OTHERS,
    BatchSizes,
    Implementation,
    default_implementations,
    measure,
    parse_implementations,
)
from dhilgt.benchmark.speed.show import draw, table

__all__ = [
    "OTHERS", "BatchSizes", "Implementation", "default_implementations", "draw", "measure",
    "parse_implementations", "table",
]  # fmt: skip
