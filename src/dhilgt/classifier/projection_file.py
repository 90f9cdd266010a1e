"""The file of a run that holds the projection of its features."""

from __future__ import annotations

from os import PathLike
from pathlib import Path

import torch

from dhilgt.errors import ArtifactError
from dhilgt.features.projection import Projection
from dhilgt.model.store import checked_bytes, read_checked
from dhilgt.store import files
from dhilgt.store.files import canonical_json, explained, write_file
from dhilgt.training.run_folder import PROJECTION, RunFolder


def write_projection(folder: Path, projection: Projection | None) -> None:
    """Write a projection to a folder; None removes the one that is there.

    Args:
        folder: Of a run.
        projection: What to write.
    """
    path = folder / PROJECTION
    with explained("write", path):
        if projection is None:
            if path.exists():
                files.ops.unlink(path)
            return
        tensors = {name: torch.tensor(array) for name, array in projection.arrays.items()}
        data = checked_bytes(tensors, canonical_json({}))
        write_file(path, iter((memoryview(data),)))


def read_projection(folder: Path) -> Projection | None:
    """Return the projection in an untrusted folder; None where there is none.

    Args:
        folder: Of a run.

    Raises:
        ArtifactError: If its file is damaged.
    """
    path = folder / PROJECTION
    if not path.exists():
        return None
    tensors, _ = read_checked(path)
    try:
        return Projection.from_arrays({name: one.numpy() for name, one in tensors.items()})
    except (ArtifactError, TypeError) as error:
        raise ArtifactError(f"{path} is not as written ({error}); save it again") from error


def projection_of_run(
    run_dir: str | PathLike[str], width: int, channels: int | None
) -> Projection | None:
    """Return the projection that the run in a folder began with, None before its first checkpoint.

    Args:
        run_dir: Folder of the run.
        width: Columns of the features.
        channels: The `hop_channels` to go on with.

    Raises:
        ArtifactError: If its file is damaged or missing, or the run has another one.
    """
    folder = RunFolder(run_dir)
    if folder.checkpoints.latest() is None:
        return None
    projection = read_projection(folder.path)
    check_projection(projection, width, channels)
    return projection


def check_projection(projection: Projection | None, width: int, channels: int | None) -> None:
    """Raise if a projection is not the one that the settings ask for.

    Args:
        projection: As read from a folder.
        width: Columns of the features.
        channels: The setting `hop_channels`.

    Raises:
        ArtifactError: If it is missing, too much, or of another size.
    """
    expected = None if channels is None or channels >= width else (width, channels)
    found = None if projection is None else projection.weights.shape
    if found != expected:
        has = "is missing" if found is None else f"projects {found[0]} columns to {found[1]}"
        raise ArtifactError(
            f"settings and folder do not agree on hop_channels: {channels} is set for {width} "
            f"columns of features, {PROJECTION} {has}; copy the folder of the run as a whole, or "
            "save it again"
        )
