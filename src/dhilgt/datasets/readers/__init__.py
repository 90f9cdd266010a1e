"""Readers of public datasets: a module per format, each with a function `read`.

Several formats share `raw_graph` (the result of `read`), `array_files` (NumPy and MATLAB files),
`csv_tables` and `linkx_splits`.
"""
