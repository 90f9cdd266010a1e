"""Facebook100: friendships ``A`` and seven facts about each person, ``local_info``.

The facts are status, gender, major, second major, dorm, year and high school, as numbers; 0 means
unknown. Gender is the class; a person of unknown gender is unlabelled. Each value of the six others
that occurs (0 too) is a binary feature.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dhilgt.datasets.files import Files
from dhilgt.datasets.readers.array_files import open_matlab
from dhilgt.datasets.readers.linkx_splits import linkx_splits
from dhilgt.datasets.readers.raw_graph import RawGraph, one_hot_rows

_GENDER, _NUM_FACTS = 1, 7


def read(files: Files, *, features: bool, official: bool) -> RawGraph:
    """Return what the files hold."""
    with open_matlab(files.path(files.info.files[0].path), "A", "local_info") as values:
        friends, facts = values["A"].tocoo(), np.asarray(values["local_info"]).astype(np.int64)
        if facts.ndim != 2 or facts.shape != (friends.shape[0], _NUM_FACTS):
            raise ValueError(f"{friends.shape[0]} people, but local_info has shape {facts.shape}")
    return RawGraph(
        len(facts),
        friends.row,
        friends.col,
        facts[:, _GENDER] - 1,
        _one_hot(np.delete(facts, _GENDER, axis=1)) if features else None,
        linkx_splits(files) if official else (),
    )


def _one_hot(facts: NDArray[np.int64]) -> Any:
    columns, width = np.empty_like(facts), 0
    for at in range(facts.shape[1]):
        values, value_of = np.unique(facts[:, at], return_inverse=True)
        columns[:, at] = value_of.reshape(-1) + width
        width += len(values)
    return one_hot_rows(columns, width)
