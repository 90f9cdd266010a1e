"""A model's folder: config.json and model.safetensors.

The header of the weights holds a copy of the config and a checksum. A config of other settings is
removed before the weights are replaced, and written after them, so that a save that is interrupted
anywhere leaves the old model or the new one, never a mixture.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from os import PathLike
from pathlib import Path
from typing import Any, Protocol, TypeVar

import safetensors
import safetensors.torch
import torch
from torch import Tensor

from dhilgt.errors import ArtifactError
from dhilgt.store.files import (
    canonical_json,
    explained,
    open_regular,
    ops,
    shown,
    strict_json,
    sync_folder,
    write_file,
)

CONFIG = "config.json"
WEIGHTS = "model.safetensors"
_FORMAT_VERSION = 1
_NOTE = "dhilgt"
_MAX_CONFIG_BYTES = 1 << 20


class ModelConfig(Protocol):
    """Settings of a model."""

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for a file."""


C = TypeVar("C", bound=ModelConfig)


def save_model(
    config: ModelConfig,
    tensors: Mapping[str, Tensor],
    folder: str | PathLike[str],
    architecture: str = "DHILGT",
) -> None:
    """Write a model's folder; see `DHILGT.save_pretrained`."""
    path = Path(folder)
    plain = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    text = canonical_json({**_head(architecture), **config.to_dict()}, indent=2) + b"\n"
    weights = checked_bytes(plain, text)
    with explained("write", path, len(weights)):
        path.mkdir(parents=True, exist_ok=True)
        old = path / CONFIG
        if old.exists() and old.read_bytes() != text:
            ops.unlink(old)
            sync_folder(path)
        write_file(path / WEIGHTS, iter([memoryview(weights)]))
        write_file(path / CONFIG, iter([memoryview(text)]))


def load_model(
    folder: str | PathLike[str],
    expected: Callable[[C], Mapping[str, Tensor]],
    read: Callable[[dict[str, Any]], C],
    architecture: str = "DHILGT",
) -> tuple[C, dict[str, Tensor]]:
    """Return settings and tensors of a model's folder, after checking everything in it.

    Args:
        folder: The folder.
        expected: Returns the tensors that a model of some settings has; they need no storage.
        read: Returns the settings from plain values.
        architecture: Kind of model that the folder must hold.
    """
    path = Path(folder)
    if not (path / WEIGHTS).is_file():
        raise ArtifactError(f"{path} has no {WEIGHTS}; pass a folder that save_pretrained wrote")
    tensors, noted = read_checked(path / WEIGHTS)
    with explained("read", path):
        if (path / CONFIG).exists():
            with open_regular(path / CONFIG) as file:
                text, source = file.read(_MAX_CONFIG_BYTES + 1), str(path / CONFIG)
        elif noted is not None:  # a save was interrupted
            text, source = noted, f"the header of {path / WEIGHTS}"
        else:
            raise ArtifactError(f"{path} has no {CONFIG}; restore it or save the model again")
    config = _read_config(text, source, read, architecture)
    _compare(path / WEIGHTS, tensors, expected(config))
    if noted is not None:
        _compare_config(source, text, noted)
    return config, tensors


def checked_bytes(tensors: Mapping[str, Tensor], config: bytes) -> bytes:
    """Return the bytes of a safetensors file with a config and a checksum in its header.

    Args:
        tensors: On the CPU, contiguous.
        config: Text in ASCII.
    """
    note = {"config": config.decode("ascii"), "sha256": _digest(tensors, config)}
    # One entry: the order of several would not be fixed.
    header = {_NOTE: canonical_json(note).decode("ascii")}
    return safetensors.torch.save(dict(tensors), header)


def read_checked(file: Path) -> tuple[dict[str, Tensor], bytes | None]:
    """Return the tensors, and the config in the header: None in files of other programs.

    Args:
        file: A safetensors file.

    Raises:
        ArtifactError: If it is damaged.
    """
    opened: Any  # safetensors has no types
    try:
        with explained("read", file), safetensors.safe_open(file, "pt") as opened:
            metadata: dict[str, str] = opened.metadata() or {}
            tensors: dict[str, Tensor] = {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118
    except safetensors.SafetensorError as error:
        raise ArtifactError(f"{file} is damaged ({shown(str(error))}); save it again") from error
    if _NOTE not in metadata:
        return tensors, None
    try:
        note = strict_json(metadata[_NOTE].encode())
        config = str(note["config"]).encode()
        whole = note["sha256"] == _digest(tensors, config)
    except (ArtifactError, KeyError, TypeError):
        whole = False
    if not whole:
        raise ArtifactError(f"{file} is damaged (its checksum differs); save or fetch it again")
    return tensors, config


def _head(architecture: str) -> dict[str, Any]:
    return {"architecture": architecture, "format_version": _FORMAT_VERSION}


def _read_config(
    text: bytes, source: str, read: Callable[[dict[str, Any]], C], architecture: str
) -> C:
    if len(text) > _MAX_CONFIG_BYTES:
        raise ArtifactError(f"{source} is too long to be a config; save the model again")
    try:
        values = strict_json(text)
        if not isinstance(values, dict):
            raise ArtifactError(f"it holds {shown(values)}, not settings")
        for key, expected in _head(architecture).items():
            value = values.pop(key, expected)
            if value != expected:
                raise ArtifactError(f"{key} is {shown(value)}, not {shown(expected)}")
        return read(values)
    except ValueError as error:
        raise ArtifactError(f"{source} is not a config of {architecture}: {error}") from error


def _compare(file: Path, tensors: Mapping[str, Tensor], expected: Mapping[str, Tensor]) -> None:
    problems = [f"{name} is missing" for name in expected if name not in tensors]
    problems += [f"{name} is not expected" for name in tensors if name not in expected]
    for name, tensor in tensors.items():
        if name not in expected:
            continue
        shape, expected_shape = list(tensor.shape), list(expected[name].shape)
        if shape != expected_shape:
            problems.append(f"{name} has shape {shape}, not {expected_shape}")
        elif tensor.is_floating_point() != expected[name].is_floating_point():
            kind = "floating point" if expected[name].is_floating_point() else "whole"
            problems.append(f"{name} holds {tensor.dtype}, not {kind} numbers")
    if problems:
        more = f" (and {len(problems) - 5} more)" if len(problems) > 5 else ""
        raise ArtifactError(
            f"{file} does not belong to the config: {'; '.join(problems[:5])}{more}; "
            f"restore the {CONFIG} it was saved with"
        )


def _compare_config(source: str, text: bytes, noted: bytes) -> None:
    """Raise if the settings are not those that the weights were saved with.

    Weights of the same shapes give other numbers with, say, another number of heads.
    """
    values, then = strict_json(text), strict_json(noted)
    for key in sorted({*values, *then}):
        # As text: to Python, True is 1.
        before, now = (canonical_json(one.get(key)) for one in (then, values))
        if before != now:
            raise ArtifactError(
                f"{source} was changed: {key} is {shown(values.get(key))}, the weights were saved "
                f"with {shown(then.get(key))}; restore it, or remove it: {WEIGHTS} has a copy"
            )


def _digest(tensors: Mapping[str, Tensor], config: bytes) -> str:
    digest = hashlib.sha256(config)
    for name in sorted(tensors):
        tensor = tensors[name]
        digest.update(canonical_json([name, str(tensor.dtype), list(tensor.shape)]))
        if tensor.numel():
            digest.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()
