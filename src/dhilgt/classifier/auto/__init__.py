"""`recipe="auto"`: a portfolio of settings is tried, and what validates best is used."""
