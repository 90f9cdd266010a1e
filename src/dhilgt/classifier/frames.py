"""Rows of features as a frame of pandas, Polars or Arrow, its columns matched by name."""

from typing import Any

from dhilgt.errors import GraphError
from dhilgt.graph.table import Column, frame_library, is_frame
from dhilgt.readers import frames


def has_names(rows: Any) -> bool:
    """Return whether rows of features are a frame whose columns have names, all of them text."""
    if not is_frame(rows):
        return False
    names = rows.schema.names if frame_library(rows) == "pyarrow" else list(rows.columns)
    return len(names) > 0 and all(isinstance(name, str) for name in names)


def frame_columns(frame: Any) -> list[Column]:
    """Return the columns of a frame; the index of a pandas frame is none of them.

    Raises:
        GraphError: If a column holds neither numbers, booleans, dates nor text.
    """
    if frame_library(frame) == "pandas":
        frame = frame.reset_index(drop=True)
        for at, name in enumerate(frame.columns):
            if getattr(frame.iloc[:, at].dtype, "kind", "O") == "c":
                raise GraphError(
                    f"Complex data not supported; column {name!r} has to be real numbers"
                )
    table = frames.to_table(frame, "X")
    return [table.column(at) for at in range(len(table.names))]


def declared_kinds(frame: Any) -> dict[str, str]:
    """Return the columns that a pandas frame declares to be categories."""
    if frame_library(frame) != "pandas":
        return {}
    columns = ((name, frame.iloc[:, at]) for at, name in enumerate(frame.columns))
    return {str(name): "category" for name, series in columns if hasattr(series, "cat")}
