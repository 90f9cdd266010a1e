"""The five official splits of LINKX: an object array of dicts of indices, in a .npy file."""

from dhilgt.datasets import safe_pickle
from dhilgt.datasets.files import Files, reading
from dhilgt.datasets.readers.raw_graph import Split

_PARTS = {"train": "train", "val": "valid", "test": "test"}


def linkx_splits(files: Files) -> tuple[Split, ...]:
    """Return the official splits of a dataset; none where it has no file of them."""
    file = next((file for file in files.info.files if file.needed_for == "official"), None)
    if file is None:
        return ()
    path = files.path(file.path)
    splits = safe_pickle.load_object_array(path).reshape(-1)
    with reading(path, "a list of splits"):
        return tuple({part: split[key] for part, key in _PARTS.items()} for split in splits)
