"""The parts of a run that are no artifacts, read without PyTorch: its model, its checkpoints."""

import math
from pathlib import Path
from typing import Any

from dhilgt.errors import ArtifactError
from dhilgt.store.files import explained, hash_file, open_regular, read_object, strict_json

_MODEL = ("config.json", "model.safetensors")
_STATE, _LATEST = "state.json", "LATEST"
_MAX_BYTES, _MAX_VALUES = 256 << 20, 100_000_000


def is_model(folder: Path) -> bool:
    """Return whether a folder holds the settings and weights of a model."""
    return all((folder / name).is_file() for name in _MODEL)


def model_state(folder: Path) -> dict[str, Any]:
    """Return settings and size of a model, as plain values; the weights are not read."""
    config, weights = (folder / name for name in _MODEL)
    tensors = _tensor_shapes(weights)
    return {
        "path": str(folder),
        "kind": "model",
        "config": read_object(config, max_bytes=_MAX_BYTES, max_values=_MAX_VALUES),
        "tensors": len(tensors),
        "parameters": sum(math.prod(shape) for shape in tensors.values()),
        "bytes_on_disk": sum((folder / name).stat().st_size for name in _MODEL),
    }


def checkpoint_folders(folder: Path) -> list[Path]:
    """Return a checkpoint, or those in the folder of checkpoints, the newest last."""
    if (folder / _STATE).is_file():
        return [folder]
    return sorted(one.parent for one in folder.glob(f"*/{_STATE}"))


def checkpoints_state(folder: Path, *, verify: bool) -> dict[str, Any]:
    """Return what checkpoints hold, as plain values.

    Args:
        folder: One of them, or the folder that holds them.
        verify: Compare every byte with the checksums.

    Raises:
        ArtifactError: If one is damaged.
    """
    latest = folder / _LATEST
    return {
        "path": str(folder),
        "kind": "checkpoints",
        "latest": latest.read_text(encoding="ascii").strip() if latest.is_file() else None,
        "checkpoints": [_checkpoint(one, verify) for one in checkpoint_folders(folder)],
    }


def _checkpoint(folder: Path, verify: bool) -> dict[str, Any]:
    values = read_object(folder / _STATE, max_bytes=_MAX_BYTES, max_values=_MAX_VALUES)
    try:
        state, files = values["values"]["state"], values["files"]
        for name, entry in files.items():
            _check(folder / name, entry, verify)
        return {
            "name": folder.name,
            "epoch": state["epoch"],
            "batch": state["batch"],
            "best_epoch": state["best_epoch"],
            "best_score": state["best_score"],
            "bytes_on_disk": sum(entry["bytes"] for entry in files.values()),
        }
    except (KeyError, TypeError, AttributeError) as error:
        raise ArtifactError(f"{folder / _STATE} is not the state of a checkpoint") from error


def _check(path: Path, entry: dict[str, Any], verify: bool) -> None:
    with explained("read", path):
        size = path.stat().st_size
        if size != entry["bytes"]:
            raise ArtifactError(f"{path} is damaged: {size} bytes, expected {entry['bytes']}")
        if verify and hash_file(path) != entry["sha256"]:
            raise ArtifactError(f"{path} is damaged: its content does not match its SHA-256")


def _tensor_shapes(path: Path) -> dict[str, list[int]]:
    """Return the shapes in the header of a safetensors file."""
    with explained("read", path), open_regular(path) as file:
        length = int.from_bytes(file.read(8), "little")
        header = file.read(min(length, _MAX_BYTES))
    try:
        entries = strict_json(header, _MAX_VALUES)
        return {
            name: list(entry["shape"]) for name, entry in entries.items() if name != "__metadata__"
        }
    except (ArtifactError, KeyError, TypeError, AttributeError) as error:
        raise ArtifactError(f"{path} is damaged: its header cannot be read") from error
