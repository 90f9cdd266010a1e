"""Export of the model: as a PyTorch program (.pt2) or for ONNX Runtime (.onnx).

An export is the plain arithmetic of the model in evaluation mode, on the CPU and in float32, for
any number of rows, slots and distinct nodes. Tokens and features are made outside of it.
"""

from __future__ import annotations

import contextlib
import io
import logging
import warnings
from collections.abc import Callable, Iterator
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from dhilgt._version import __version__
from dhilgt.errors import ArtifactError, ConfigError
from dhilgt.features.scale import NONE
from dhilgt.model.dhilgt import DHILGT
from dhilgt.store.files import canonical_json, explained, hash_file, write_file

if TYPE_CHECKING:
    from dhilgt.classifier.classifier import NodeClassifier

INPUTS = ("x", "index", "spd")
"""Names of the inputs of an ONNX file, in the order of `DHILGT.forward`."""

KNOWN = "known"
"""Name of the fourth input, of models that see known classes."""

OUTPUT = "logits"
"""Name of the output of an ONNX file."""

_KNOWN_ENDING = ".known.npy"
_SCALE_ENDING = ".scale.npz"


def export_program(model: DHILGT, path: str | PathLike[str]) -> None:
    """Write a program that `torch.export.load` reads without this package.

    Its inputs and logits are those of `DHILGT.forward`, with dense `x` in float32 and `index` in
    int64.

    Args:
        model: Any model; it is not changed.
        path: File to write, by custom with the ending .pt2; written atomically.

    Raises:
        ArtifactError: If the file cannot be written.

    Example:
        >>> import tempfile
        >>> model = DHILGT(in_channels=5, hidden_channels=16, out_channels=3)
        >>> file = Path(tempfile.mkdtemp()) / "model.pt2"
        >>> export_program(model, file)
        >>> program = torch.export.load(file).module()
        >>> index, spd = torch.zeros(7, 4, dtype=torch.int64), torch.zeros(7, 4, 4)
        >>> program(torch.randn(2, 5), index, spd.byte()).shape
        torch.Size([7, 3])
    """
    with _target(path) as file:
        stream = io.BytesIO()
        with _quiet():
            torch.export.save(_program(model), stream)
        _write(file, stream.getvalue())


def export_onnx(model: DHILGT, path: str | PathLike[str]) -> None:
    """Write a file that ONNX Runtime runs without PyTorch.

    Inputs: x [nodes, in_channels] float32, index [batch, slots] int64 (-1 = padding) and
    spd [batch, slots, slots] uint8; of models with `label_inputs` also known [nodes] int64 (class
    + 1, 0 = not known); output: logits [batch, out_channels] float32.

    Args:
        model: Any model; it is not changed.
        path: File to write, by custom with the ending .onnx; written atomically.

    Raises:
        ArtifactError: If the file cannot be written.
        ImportError: If onnx or onnxscript is not installed.
    """
    _need_onnx()
    with _target(path) as file:
        with _quiet():
            program = _program(model)
            exported = torch.onnx.export(
                program,
                (),
                dynamo=True,
                dynamic_shapes=_shapes(model),  # only for the names of the axes
                input_names=input_names(model),
                output_names=[OUTPUT],
                verbose=False,
            )
        if exported is None:
            raise ArtifactError(f"cannot write {file}: the exporter returned nothing")
        _write(file, exported.model_proto.SerializeToString())


def _program(model: DHILGT) -> torch.export.ExportedProgram:
    """Trace the model; no axis is fixed to its length in the example."""
    return torch.export.export(plain(model), _example(model), dynamic_shapes=_shapes(model))


def input_names(model: DHILGT) -> tuple[str, ...]:
    """Return the names of the inputs of a model's ONNX file.

    Args:
        model: Any model.
    """
    return (*INPUTS, KNOWN) if model.config.label_inputs else INPUTS


def _shapes(model: DHILGT) -> tuple[dict[int, Any], ...]:
    nodes, rows, slots = (torch.export.Dim(name, min=1) for name in ("nodes", "batch", "slots"))
    shapes = {0: nodes}, {0: rows, 1: slots}, {0: rows, 1: slots, 2: slots}
    return (*shapes, {0: nodes}) if model.config.label_inputs else shapes


def plain(model: DHILGT) -> DHILGT:
    """Return the model on the CPU, in float32 and evaluation mode, with plain attention.

    Args:
        model: Any model; it is not changed.
    """
    copy = DHILGT(**{**model.config.to_dict(), "attention": "reference"})
    copy.load_state_dict(model.state_dict())
    return copy.float().eval()


def _example(model: DHILGT) -> tuple[Tensor, ...]:
    # Three different lengths, none of them 0 or 1, which the tracer treats as constants.
    index = torch.tensor([[0, 1, 2], [3, 1, -1]])
    x, spd = torch.zeros(5, model.config.in_channels), torch.zeros(2, 3, 3, dtype=torch.uint8)
    known = (torch.zeros(5, dtype=torch.int64),) if model.config.label_inputs else ()
    return x, index, spd, *known


# ---- files and messages ------------------------------------------------------------------------


@contextlib.contextmanager
def _target(path: str | PathLike[str]) -> Iterator[Path]:
    """Refuse a path that cannot be written before the work."""
    file = Path(path)
    if file.is_dir():
        raise ArtifactError(f"{file} is a folder; name a file in it")
    with explained("write", file):
        file.parent.mkdir(parents=True, exist_ok=True)
    yield file


def _write(file: Path, data: bytes) -> None:
    with explained("write", file, len(data)):
        write_file(file, iter([memoryview(data)]))


def _need_onnx() -> None:
    try:
        import onnx
        import onnxscript
    except ImportError as error:
        raise ImportError(
            f"an ONNX file needs {error.name}; install it with pip install 'dhilgt[export]'"
        ) from error
    del onnx, onnxscript


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Silence PyTorch's messages about its exporter and about packages that are not used."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)


# ---- a whole classifier ------------------------------------------------------------------------


def export_classifier(clf: NodeClassifier, path: str | PathLike[str]) -> Path:
    """Writes the model of a classifier, and beside it what serves it: model.serving.json.

    The second file names the classes, the settings of the tokens and the width of the features,
    so that a server needs neither PyTorch nor the classifier. Of a model with `label_inputs` there
    is a third one, model.known.npy: class + 1 of each node of the graph, 0 = not known. Of one with
    a `feature_scale` there is model.scale.npz: the arrays of its `FeatureScale`.

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
    beside = file.with_suffix(".serving.json")
    pipeline = clf._pipeline
    if pipeline.known is not None:
        stream = io.BytesIO()
        np.save(stream, pipeline.known + 1)
        _write(file.with_suffix(_KNOWN_ENDING), stream.getvalue())
    if pipeline.scale is not None:
        stream = io.BytesIO()
        np.savez(stream, **pipeline.scale.arrays)  # type: ignore[arg-type, unused-ignore]
        _write(file.with_suffix(_SCALE_ENDING), stream.getvalue())
    _write(beside, canonical_json(_serving_facts(clf, file), indent=2) + b"\n")
    return beside


def _serving_facts(clf: NodeClassifier, file: Path) -> dict[str, Any]:
    settings = clf.settings_
    more = {KNOWN: file.with_suffix(_KNOWN_ENDING).name} if settings.label_inputs else {}
    if settings.feature_scale != NONE:
        more["scale"] = file.with_suffix(_SCALE_ENDING).name
    return more | {
        "kind": "dhilgt-serving",
        "format": 1,
        "library": __version__,
        "sha256": hash_file(file),
        "classes": clf.classes_.tolist(),
        "features": clf.n_features_in_,
        "hops": settings.hops,
        "hop_kind": settings.hop_kind,
        "hop_restart": settings.hop_restart,
        "feature_scale": settings.feature_scale,
        "tokens": settings.token_options(),
        "copies": settings.copies,
        "order": settings.order,
        "graph": clf.graph_.fingerprint,
    }


def check_ending(path: str | PathLike[str]) -> str:
    """Gives ".onnx" or ".pt2", whichever a path ends with.

    Raises:
        ConfigError: If it is neither.
    """
    ending = Path(path).suffix.lower()
    if ending not in WRITERS:
        raise ConfigError(f"{path} ends with {ending or 'nothing'}; name it .onnx or .pt2")
    return ending


WRITERS: dict[str, Callable[[DHILGT, Path], None]] = {
    ".onnx": export_onnx,
    ".pt2": export_program,
}
"""How to write a model, by the ending of the file."""
