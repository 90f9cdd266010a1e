"""The scale of features in the folder of a run: feature_scale.safetensors."""

from __future__ import annotations

from os import PathLike
from pathlib import Path

import torch

from dhilgt import run_folder, store_files
from dhilgt.errors import ArtifactError, ConfigError
from dhilgt.feature_scale import NONE, FeatureScale
from dhilgt.model_files import checked_bytes, read_checked
from dhilgt.run_folder import RunFolder
from dhilgt.store_files import canonical_json, explained, strict_json, write_file


def write_scale(folder: Path, scale: FeatureScale | None) -> None:
    """Puts a scale in a folder; None removes the one that is there.

    Args:
        folder: Of a run.
        scale: What to write.
    """
    path = folder / run_folder.SCALE
    with explained("write", path):
        if scale is None:
            if path.exists():
                store_files.ops.unlink(path)
            return
        tensors = {name: torch.tensor(array) for name, array in scale.arrays.items()}
        data = checked_bytes(tensors, canonical_json({"kind": scale.kind}))
        write_file(path, iter((memoryview(data),)))


def read_scale(folder: Path) -> FeatureScale | None:
    """Gives the scale in a folder, trusting nothing in it; None where there is none.

    Args:
        folder: Of a run.

    Raises:
        ArtifactError: If its file is damaged.
    """
    path = folder / run_folder.SCALE
    if not path.exists():
        return None
    tensors, noted = read_checked(path)
    try:
        kind = strict_json(noted or b"null")["kind"]
        arrays = {name: tensor.numpy() for name, tensor in tensors.items()}
        return FeatureScale.from_arrays(kind, arrays)
    except (ArtifactError, TypeError, KeyError) as error:
        raise ArtifactError(f"{path} is not as written ({error}); save it again") from error


def scale_of_run(run_dir: str | PathLike[str], kind: str) -> FeatureScale | None:
    """Gives the scale that the run in a folder began with, None if it did not begin yet.

    Args:
        run_dir: Folder of the run.
        kind: The `feature_scale` to go on with.

    Raises:
        ConfigError: If the run has another one.
    """
    folder = RunFolder(run_dir)
    if folder.checkpoints.latest() is None:
        return None
    found = read_scale(folder.path)
    then = NONE if found is None else found.kind
    if then != kind:
        raise ConfigError(
            f"feature_scale = {kind!r}, but the run in this folder has feature_scale = {then!r}; "
            "resume with that value, or choose another run_dir"
        )
    return found
