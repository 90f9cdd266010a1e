"""Export of a trained classifier: its model, and the files a server needs beside it."""

from __future__ import annotations

import io
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dhilgt._version import __version__
from dhilgt.features.scale import NONE
from dhilgt.model.export import KNOWN, WRITERS, check_ending
from dhilgt.store.files import canonical_json, explained, hash_file, write_file

if TYPE_CHECKING:
    from dhilgt.classifier.classifier import NodeClassifier

_FACTS_ENDING = ".serving.json"
_KNOWN_ENDING = ".known.npy"
_SCALE_ENDING = ".scale.npz"


def export_classifier(clf: NodeClassifier, path: str | PathLike[str]) -> Path:
    """Write the model of a classifier, and beside it what serves it: model.serving.json.

    The second file names the classes, the settings of the tokens and the width of the features,
    so that a server needs neither PyTorch nor the classifier. A model with `label_inputs` has a
    third file, model.known.npy: class + 1 of each node of the graph, 0 = not known. One with a
    scale has model.scale.npz: the arrays of its `FeatureScale`.

    Args:
        clf: A fitted classifier.
        path: File to write; its ending, .onnx or .pt2, decides the form.

    Returns:
        The second file.

    Raises:
        ConfigError: If the ending is another.
        ArtifactError: If a file cannot be written.
    """
    clf._check_fitted("model to export")
    file = Path(path)
    WRITERS[check_ending(file)](clf.model_, file)
    pipeline = clf._pipeline
    if pipeline.known is not None:
        stream = io.BytesIO()
        np.save(stream, pipeline.known + 1)
        _write(file.with_suffix(_KNOWN_ENDING), stream.getvalue())
    if pipeline.scale is not None and len(pipeline.scale.columns):
        stream = io.BytesIO()
        np.savez(stream, **pipeline.scale.arrays)  # type: ignore[arg-type, unused-ignore]
        _write(file.with_suffix(_SCALE_ENDING), stream.getvalue())
    beside = file.with_suffix(_FACTS_ENDING)
    _write(beside, canonical_json(_serving_facts(clf, file), indent=2) + b"\n")
    return beside


def _serving_facts(clf: NodeClassifier, file: Path) -> dict[str, Any]:
    settings = clf.settings_
    files: dict[str, Any] = {}
    if settings.label_inputs:
        files[KNOWN] = file.with_suffix(_KNOWN_ENDING).name
    if _is_scaled(clf):
        files["scale"] = file.with_suffix(_SCALE_ENDING).name
    if clf.feature_columns_ is not None:
        files["feature_names"] = list(clf.feature_columns_.names)
    return files | {
        "kind": "dhilgt-serving",
        "format": 1,
        "library": __version__,
        "sha256": hash_file(file),
        "classes": clf.classes_.tolist(),
        "features": clf.n_features_in_,
        "hops": settings.hops,
        "hop_kind": settings.hop_kind,
        "hop_restart": settings.hop_restart,
        "feature_scale": settings.feature_scale if _is_scaled(clf) else NONE,
        "tokens": settings.token_options(),
        "copies": settings.copies,
        "order": settings.order,
        "graph": clf.graph_.fingerprint,
    }


def _is_scaled(clf: NodeClassifier) -> bool:
    """Return whether any column of the features is scaled."""
    scale = clf._pipeline.scale
    return scale is not None and len(scale.columns) > 0


def _write(file: Path, data: bytes) -> None:
    with explained("write", file, len(data)):
        write_file(file, iter([memoryview(data)]))
