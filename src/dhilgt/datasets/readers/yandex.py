"""The .npz files of the Yandex suite: features, classes, a list of edges, ten splits as masks."""

from dhilgt.datasets.files import Files
from dhilgt.datasets.readers.array_files import open_npz
from dhilgt.datasets.readers.raw_graph import RawGraph, Split

_MASKS = {"train": "train_masks", "val": "val_masks", "test": "test_masks"}


def read(files: Files, *, features: bool, official: bool) -> RawGraph:
    """Return what the file holds."""
    with open_npz(files.path(files.info.files[0].path)) as arrays:
        labels = arrays["node_labels"].astype("int64")
        edges = arrays["edges"]
        if edges.ndim != 2 or edges.shape[1] != 2:
            raise ValueError(f"edges has shape {edges.shape} instead of (number, 2)")
        splits: tuple[Split, ...] = ()
        if official:
            masks = {part: arrays[key].astype(bool) for part, key in _MASKS.items()}
            count = min(len(mask) for mask in masks.values())
            splits = tuple({part: masks[part][at] for part in masks} for at in range(count))
        x = arrays["node_features"] if features else None
    return RawGraph(len(labels), edges[:, 0], edges[:, 1], labels, x, splits)
