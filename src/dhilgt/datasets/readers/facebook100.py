"""Facebook100: friendships ``A`` and seven facts about each person, ``local_info``.

The facts are status, gender, major, second major, dorm, year and high school, as numbers; 0 says
that one was not given. Gender is the class; a person who gave none is unlabelled. Of the six
others, each value that occurs (0 too) is a feature that a person has or has not.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dhilgt.datasets import optional
from dhilgt.datasets.files import Files
from dhilgt.datasets.readers import linkx, matlab
from dhilgt.datasets.readers.raw import Raw

_GENDER, _NUM_FACTS = 1, 7


def read(files: Files, *, features: bool, official: bool) -> Raw:
    """Gives what the files hold."""
    with matlab.opened(files.path(files.info.files[0].path), ("A", "local_info")) as found:
        friends, facts = found["A"].tocoo(), np.asarray(found["local_info"]).astype(np.int64)
        if facts.ndim != 2 or facts.shape != (friends.shape[0], _NUM_FACTS):
            raise ValueError(f"{friends.shape[0]} people, but local_info has shape {facts.shape}")
    return Raw(
        len(facts),
        friends.row,
        friends.col,
        facts[:, _GENDER] - 1,
        _one_hot(np.delete(facts, _GENDER, axis=1)) if features else None,
        linkx.splits(files) if official else (),
    )


def _one_hot(facts: NDArray[np.int64]) -> Any:
    columns, width = np.empty_like(facts), 0
    for at in range(facts.shape[1]):
        values, which = np.unique(facts[:, at], return_inverse=True)
        columns[:, at] = which.reshape(-1) + width
        width += len(values)
    ones = np.ones(facts.size, dtype=np.float32)
    offsets = np.arange(0, facts.size + 1, facts.shape[1])
    return optional.scipy_sparse().csr_matrix(
        (ones, columns.reshape(-1), offsets), shape=(len(facts), width)
    )
