"""One page with all results of a folder: tables, figures, where and how they were measured."""

from dhilgt.report_site.page import render_site, write_site
from dhilgt.report_site.registry import SECTIONS, Section
from dhilgt.report_site.source import Source

__all__ = ["SECTIONS", "Section", "Source", "render_site", "write_site"]
