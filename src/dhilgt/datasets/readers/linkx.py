"""The five official splits of LINKX: an object array of dicts of indices, in a .npy file."""

from dhilgt.datasets import safe_pickle
from dhilgt.datasets.files import Files, reading
from dhilgt.datasets.readers.raw import Split

_PARTS = {"train": "train", "val": "valid", "test": "test"}


def splits(files: Files) -> tuple[Split, ...]:
    """Gives the official splits of a dataset that has them."""
    file = next((file for file in files.info.files if file.needed_for == "official"), None)
    if file is None:
        return ()
    path = files.path(file.path)
    found = safe_pickle.load_object_array(path)
    with reading(path, "a list of splits"):
        return tuple({part: one[key] for part, key in _PARTS.items()} for one in found.reshape(-1))
