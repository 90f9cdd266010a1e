"""One page with all results of a folder: tables, figures, where and how they were measured."""

from dhilgt.report.site.page import render_site, write_site
from dhilgt.report.site.sections import SECTIONS, Section
from dhilgt.report.site.source import Source

__all__ = ["SECTIONS", "Section", "Source", "render_site", "write_site"]
