"""The files beside an exported model: facts and arrays that a server needs, and their checksums.

Beside ``model.onnx`` are ``model.onnx.json`` (the facts) and, where a model needs them,
``model.onnx.known.npy``, ``model.onnx.scale.npz``, ``model.onnx.projection.npz`` and
``model.onnx.ego.npz``. A program of several models with different inputs has such files for each
group of inputs: ``model.onnx.m2.scale.npz`` and so on. Reading them needs no PyTorch.
"""

from __future__ import annotations

import hashlib
import io
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dhilgt.errors import ArtifactError
from dhilgt.store.files import (
    canonical_json,
    explained,
    hash_file,
    is_plain_name,
    open_regular,
    read_object,
    shown,
    write_file,
)

KIND = "dhilgt-serving"
FORMAT = 3
_TIES_BY_ID = (1, 2)  # formats in which the name of an order stood for ties by id
FACTS = ".json"  # added to the name of the model, as are those of the arrays
_ENDINGS = {
    "known": ".known.npy",
    "scale": ".scale.npz",
    "projection": ".projection.npz",
    "ego": ".ego.npz",
}
_FACTS_OF_FORMAT_1 = ".serving.json"  # in the place of the ending: of the last export of a name
_OWN_SUM = "facts_sha256"
_MAX_BYTES = 4 << 30  # of a file of arrays


@dataclass(frozen=True)
class Export:
    """What belongs with an exported model.

    Attributes:
        facts: Classes, settings of the tokens and all else; see the page of `dhilgt export`.
        known: Class + 1 of each node of the graph, 0 = not known; None for models without
            `label_inputs`.
        scale: Arrays for `FeatureScale.from_arrays`; None for models without a `feature_scale`.
        projection: Arrays for `Projection.from_arrays`; None where features are as wide as they
            are.
        ego: The rows of neighbours, hubs and classes of all nodes of the graph, as the arrays
            "offsets", "columns" and "values"; None for models that do not take them. Node v has the
            rows v * K to v * K + K - 1, where K is the length of ``facts["ego_rows"]``.
        members: The same for the second and each further group of inputs; ``facts["prefix"]`` is
            what the names of its inputs begin with.
    """

    facts: dict[str, Any]
    known: NDArray[Any] | None
    scale: dict[str, NDArray[Any]] | None
    projection: dict[str, NDArray[Any]] | None = None
    ego: dict[str, NDArray[Any]] | None = None
    members: tuple[Export, ...] = ()


def write_beside(model: Path, export: Export) -> Path:
    """Write what belongs with a model that is already in its place; return the file of facts.

    Args:
        model: The file of the model.
        export: Facts are plain values; names of files and checksums are added to them.
    """
    arrays: dict[str, bytes] = {}
    facts = _with_files(export, model.name, arrays)
    if export.members:
        facts["members"] = [
            _with_files(one, f"{model.name}.m{number}", arrays)
            for number, one in enumerate(export.members, start=2)
        ]
    sums = {name: _write(model.with_name(name), data) for name, data in arrays.items()}
    values: dict[str, Any] = {
        **facts,
        "kind": KIND,
        "format": FORMAT,
        "sha256": hash_file(model),
        "files": sums,
    }
    values[_OWN_SUM] = hashlib.sha256(canonical_json(values)).hexdigest()
    beside = model.with_name(model.name + FACTS)
    _write(beside, canonical_json(values, indent=2) + b"\n")
    return beside


def _with_files(export: Export, stem: str, arrays: dict[str, bytes]) -> dict[str, Any]:
    """Return the facts with the names of the files, whose content is added to the arrays."""
    names: dict[str, str] = {}
    for key, ending in _ENDINGS.items():
        content = getattr(export, key)
        if content is not None:
            names[key] = stem + ending
            stream = io.BytesIO()
            if key == "known":
                np.save(stream, content)
            else:
                np.savez(stream, **content)
            arrays[names[key]] = stream.getvalue()
    return {**names, **export.facts}


def read_export(model: str | PathLike[str]) -> Export:
    """Read what belongs with an exported model, and compare all of it with the checksums.

    Args:
        model: The file of the model; files of version 0.1 are read too.

    Raises:
        ArtifactError: If a file is missing, damaged, or of another export; the message names it.
    """
    path = Path(model)
    beside = path.with_name(path.name + FACTS)
    if not beside.exists() and path.with_suffix(_FACTS_OF_FORMAT_1).exists():
        beside = path.with_suffix(_FACTS_OF_FORMAT_1)
    facts = _facts(beside)
    _compare(path, beside, facts.get("sha256"), _hash(path))
    members = facts.get("members", [])
    if not isinstance(members, list) or not all(isinstance(one, dict) for one in members):
        raise ArtifactError(f"{beside}: members = {shown(members)} is not a list of objects")
    others = tuple(_with_arrays(beside, one, facts) for one in members)
    return replace(_with_arrays(beside, facts, facts), members=others)


def _with_arrays(beside: Path, facts: dict[str, Any], whole: Mapping[str, Any]) -> Export:
    """Read the files that some of the facts name; the checksums are in the whole of them."""
    known, scale, projection, ego = (_array_file(beside, facts, key, whole) for key in _ENDINGS)
    return Export(facts, None if known is None else known[""], scale, projection, ego)


def _facts(path: Path) -> dict[str, Any]:
    facts = read_object(path)
    if facts.get("kind") != KIND:
        raise ArtifactError(f"{path} does not describe an exported model; export it again")
    version = facts.get("format")
    if version not in range(1, FORMAT + 1) or isinstance(version, bool):
        raise ArtifactError(
            f"{path} has format {shown(version)}, this version reads up to {FORMAT}; it was "
            f"written by dhilgt {shown(facts.get('library'))}: use that version, or export again"
        )
    own = facts.pop(_OWN_SUM, None)
    if version != 1 or own is not None:
        _compare(path, path, own, hashlib.sha256(canonical_json(facts)).hexdigest())
    if version in _TIES_BY_ID and facts.get("order", "random") != "random":
        facts["order"] = f"{facts['order']}-id"
    return facts


def _array_file(
    beside: Path, facts: Mapping[str, Any], key: str, whole: Mapping[str, Any]
) -> dict[str, NDArray[Any]] | None:
    """Return the arrays of the file that the facts name, a single one under the name ""."""
    name = facts.get(key)
    if name is None:
        return None
    if not isinstance(name, str) or not is_plain_name(name):
        raise ArtifactError(f"{beside}: {key} = {shown(name)} is not the name of a file beside it")
    path = beside.with_name(name)
    data = _read(path)
    if whole["format"] != 1:
        _compare(path, beside, whole["files"].get(name), hashlib.sha256(data).hexdigest())
    try:
        loaded = np.load(io.BytesIO(data))
        return {"": loaded} if isinstance(loaded, np.ndarray) else dict(loaded)
    except (ValueError, OSError, EOFError, KeyError, zipfile.BadZipFile) as error:
        raise ArtifactError(f"{path} is damaged ({error}); export the model again") from error


def _compare(path: Path, beside: Path, expected: Any, actual: str) -> None:
    if actual != expected:
        raise ArtifactError(
            f"{path} is damaged or of another export: {beside.name} has SHA-256 {shown(expected)}, "
            f"found {actual!r}; export the model again"
        )


def _hash(path: Path) -> str:
    with explained("read", path):
        return hash_file(path)


def _read(path: Path) -> bytes:
    with explained("read", path), open_regular(path) as file:
        data = file.read(_MAX_BYTES + 1)
    if len(data) > _MAX_BYTES:
        raise ArtifactError(f"{path} is longer than {_MAX_BYTES} bytes; it is not ours")
    return data


def _write(path: Path, data: bytes) -> str:
    with explained("write", path, len(data)):
        return write_file(path, iter([memoryview(data)]))
