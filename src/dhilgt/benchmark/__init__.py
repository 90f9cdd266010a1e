"""Fair comparison: every system on the same splits, by the same trainer, clock and search budget.

`grid` says which cells there are, `cell` runs one, `child` does so in a process of its own,
`runner` runs them all and keeps their lines (`record`), `tables` and `render` show them.
"""

from dhilgt.benchmark.running.grid import Cell, cells, models
from dhilgt.benchmark.running.results import Results
from dhilgt.benchmark.running.runner import Limits, run
from dhilgt.benchmark.show.tables import Table, tables

__all__ = ["Cell", "Limits", "Results", "Table", "cells", "models", "run", "tables"]
