"""twitch-gamer: a CSV of edges and a CSV with a line per streamer.

The class is the column ``mature``. Features are the other seven: views, life_time, created_at and
updated_at (dates as the numbers YYYYMMDD), dead_account, language (numbered by first appearance)
and affiliate; each is shifted and scaled to mean 0 and standard deviation 1.
"""

import csv
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dhilgt.datasets.files import Files, reading
from dhilgt.datasets.readers.csv_tables import read_edges
from dhilgt.datasets.readers.linkx_splits import linkx_splits
from dhilgt.datasets.readers.raw_graph import RawGraph

_FEATURES = (
    "views", "life_time", "created_at", "updated_at", "dead_account", "language", "affiliate",
)  # fmt: skip


def read(files: Files, *, features: bool, official: bool) -> RawGraph:
    """Return what the files hold."""
    table = files.path("raw/large_twitch_features.csv")
    with reading(table, "a table of streamers"):
        labels, values = _streamers(table)
    sources, targets = read_edges(files.path("raw/large_twitch_edges.csv"))
    x = _standardised(values) if features else None
    splits = linkx_splits(files) if official else ()
    return RawGraph(len(labels), sources, targets, labels, x, splits)


def _streamers(path: Path) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    languages: dict[str, int] = {}
    labels: dict[int, int] = {}
    rows: dict[int, list[int]] = {}
    with path.open(newline="", encoding="utf-8") as stream:
        for line in csv.DictReader(stream, strict=True):
            node = int(line["numeric_id"])
            if node in rows:
                raise ValueError(f"streamer {node} occurs twice")
            line["language"] = str(languages.setdefault(line["language"], len(languages)))
            rows[node] = [int(line[name].replace("-", "")) for name in _FEATURES]
            labels[node] = int(line["mature"])
    if sorted(rows) != list(range(len(rows))):
        raise ValueError(f"{len(rows)} streamers are not numbered 0 to {len(rows) - 1}")
    order = range(len(rows))
    return (
        np.array([labels[node] for node in order], dtype=np.int64),
        np.array([rows[node] for node in order], dtype=np.float64).reshape(-1, len(_FEATURES)),
    )


def _standardised(values: NDArray[np.float64]) -> NDArray[Any]:
    spread = values.std(axis=0)
    scaled: NDArray[np.float64] = (values - values.mean(axis=0)) / np.where(spread == 0, 1, spread)
    return scaled.astype(np.float32)
