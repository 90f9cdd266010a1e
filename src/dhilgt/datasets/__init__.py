"""The public graphs of the paper and a few more, by name.

`load` reads the files as their authors published them, from a local folder or fetched.
"""

from dhilgt.datasets.files import data_folder
from dhilgt.datasets.graph_statistics import Statistics, statistics
from dhilgt.datasets.loading import load, resplit
from dhilgt.datasets.registry import DatasetInfo, info, names
from dhilgt.datasets.splits import random_split, split_hash
from dhilgt.errors import DatasetError

__all__ = [
    "DatasetError",
    "DatasetInfo",
    "Statistics",
    "data_folder",
    "info",
    "load",
    "names",
    "random_split",
    "resplit",
    "split_hash",
    "statistics",
]
