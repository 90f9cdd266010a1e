"""Rows of features as a pandas frame."""

import numbers
from typing import Any

import numpy as np

from dhilgt.errors import GraphError
from dhilgt.graph.node_ids import as_objects
from dhilgt.graph.table import Column


def has_names(rows: Any) -> bool:
    """Return whether rows of features are a frame whose columns have names, all of them text."""
    names = getattr(rows, "columns", None)
    return (
        hasattr(rows, "iloc")
        and names is not None
        and getattr(rows, "ndim", 0) == 2
        and len(names) > 0
        and all(isinstance(name, str) for name in names)
    )


def frame_columns(frame: Any) -> list[Column]:
    """Return the columns of a frame.

    Raises:
        GraphError: If a column holds neither numbers, booleans, dates nor text.
    """
    return [_column(str(name), frame.iloc[:, at]) for at, name in enumerate(frame.columns)]


def declared_kinds(frame: Any) -> dict[str, str]:
    """Return the columns that a frame declares to be categories."""
    columns = ((name, frame.iloc[:, at]) for at, name in enumerate(frame.columns))
    return {str(name): "category" for name, series in columns if hasattr(series, "cat")}


def _column(name: str, series: Any) -> Column:
    missing = series.isna().to_numpy(dtype=np.bool_)
    kind = getattr(series.dtype, "kind", "O")
    if kind == "c":
        raise GraphError(f"Complex data not supported; column {name!r} has to be real numbers")
    if kind == "M":
        if getattr(series.dtype, "tz", None) is not None:
            series = series.dt.tz_convert("UTC").dt.tz_localize(None)
        return Column(name, series.to_numpy(dtype="datetime64[s]"), missing)
    if kind == "b":
        return Column(name, series.to_numpy(dtype=np.bool_, na_value=False), missing)
    if kind in "iuf":
        if missing.any():
            return Column(name, series.to_numpy(dtype=np.float64, na_value=np.nan), missing)
        return Column(name, series.to_numpy(), missing)
    cells = series.tolist()
    if hasattr(series, "cat"):
        return Column(name, as_objects([str(cell) for cell in cells]), missing)
    present = [cell for cell, gap in zip(cells, missing.tolist(), strict=True) if not gap]
    for types, dtype in (((bool, np.bool_), np.bool_), ((numbers.Real,), np.float64)):
        if present and all(isinstance(cell, types) for cell in present):
            values = np.zeros(len(cells), dtype)
            values[~missing] = present
            return Column(name, values, missing)
    return Column(name, as_objects([str(cell) for cell in cells]), missing)
