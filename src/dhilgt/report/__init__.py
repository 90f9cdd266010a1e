"""The report of a run: facts, charts and the page that shows them."""

from dhilgt.report.run.facts import read_facts, run_facts
from dhilgt.report.run.page import render, write_report

__all__ = ["read_facts", "render", "run_facts", "write_report"]
