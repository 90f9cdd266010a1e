"""How fast the model trains and answers: the ways to compute attention, side by side in one run.

`cases` draws batches and takes steps, `timing` measures them, `grid` goes through sizes, `others`
adds what a size does not show, `show` makes a table and a plot of the lines.
"""

from dhilgt.benchmark.speed.measure import OTHERS, Sizes, Way, default_ways, measure, parse_ways
from dhilgt.benchmark.speed.show import draw, table

__all__ = ["OTHERS", "Sizes", "Way", "default_ways", "draw", "measure", "parse_ways", "table"]
