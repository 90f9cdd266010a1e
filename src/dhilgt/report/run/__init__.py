"""The report of one run: its facts, charts and page."""
