"""Showing a comparison: tables, statistics, figures."""
