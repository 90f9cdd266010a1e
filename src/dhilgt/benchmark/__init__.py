"""Fair comparison: every system on the same splits, by the same trainer, clock and search budget.

`running.grid` lists the cells, `running.cell` runs one, `running.runner` runs them all, in
processes of their own, and keeps their records (`record`); `show` makes tables of these.
"""

from dhilgt.benchmark.record import Record
from dhilgt.benchmark.running.grid import Cell, cells, models
from dhilgt.benchmark.running.results import Results
from dhilgt.benchmark.running.runner import Limits, run
from dhilgt.benchmark.show.tables import Table, tables

__all__ = ["Cell", "Limits", "Record", "Results", "Table", "cells", "models", "run", "tables"]
