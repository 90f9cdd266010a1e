"""Export of a trained classifier: its model, and the files a server needs beside it."""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dhilgt._version import __version__
from dhilgt.errors import ConfigError, argument
from dhilgt.features.scale import NONE
from dhilgt.model.export import WRITERS, check_ending
from dhilgt.store.exports import write_beside

if TYPE_CHECKING:
    from dhilgt.classifier.classifier import NodeClassifier


def export_classifier(clf: NodeClassifier, path: str | PathLike[str]) -> Path:
    """Write the model of a classifier, and beside it what serves it: model.onnx.json.

    The second file names the classes, the settings of the tokens and the width of the features,
    so that a server needs neither PyTorch nor the classifier. A model with `label_inputs` has a
    third file, model.onnx.known.npy: class + 1 of each node of the graph, 0 = not known. One with
    a scale has model.onnx.scale.npz: the arrays of its `FeatureScale`.
    `dhilgt.store.exports.read_export` reads and checks them. Several members with the same
    settings are one program: its logits are the logarithms of the mean of their probabilities.

    Args:
        clf: A fitted classifier.
        path: File to write; its ending, .onnx or .pt2, decides the form.

    Returns:
        The second file.

    Raises:
        ConfigError: If the ending is another, or the members of the classifier have different
            settings, and so different inputs.
        ArtifactError: If a file cannot be written.
    """
    clf._check_fitted("model to export")
    file = Path(path)
    ending = check_ending(file)
    first, *others = clf.members_
    if any(one.settings != first.settings for one in others):
        raise ConfigError(
            f"this classifier averages {len(clf.members_)} models whose settings, and so whose "
            "inputs, are different; an export has one set of inputs: train the settings of one "
            f"with {argument('recipe', 'paper')}"
        )
    WRITERS[ending](first.model, file, [one.model for one in others])
    pipeline = clf._pipeline
    known = None if pipeline.known is None else pipeline.known + 1
    scale = pipeline.scale
    if scale is not None and not len(scale.columns):  # no column needed one
        scale = None
    facts = _serving_facts(clf) | {"feature_scale": NONE if scale is None else scale.kind}
    return write_beside(file, facts, known, None if scale is None else scale.arrays)


def _serving_facts(clf: NodeClassifier) -> dict[str, Any]:
    settings = clf.settings_
    named: dict[str, Any] = {}
    if clf.feature_columns_ is not None:
        named["feature_names"] = list(clf.feature_columns_.names)
    return named | {
        "library": __version__,
        "classes": clf.classes_.tolist(),
        "features": clf.n_features_in_,
        "hops": settings.hops,
        "hop_kind": settings.hop_kind,
        "hop_restart": settings.hop_restart,
        "tokens": settings.token_options(),
        "copies": settings.copies,
        "order": settings.order,
        "graph": clf.graph_.fingerprint,
    }
