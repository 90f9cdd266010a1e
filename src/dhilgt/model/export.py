"""Export of the model: as a PyTorch program (.pt2) or for ONNX Runtime (.onnx).

An export is the plain arithmetic of the model in evaluation mode, on the CPU and in float32, for
any number of rows, slots and distinct nodes. Tokens and features are made outside of it.
"""

from __future__ import annotations

import contextlib
import io
import logging
import warnings
from collections.abc import Callable, Iterator, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from dhilgt.errors import ArtifactError, ConfigError
from dhilgt.model.dhilgt import DHILGT
from dhilgt.store.files import explained, write_file

INPUTS = ("x", "index", "spd")
"""Names of the inputs of an ONNX file, in the order of `DHILGT.forward`."""

KNOWN = "known"
"""Name of the fourth input, of models that see known classes."""

OUTPUT = "logits"
"""Name of the output of an ONNX file."""


def export_program(model: DHILGT, path: str | PathLike[str], others: Sequence[DHILGT] = ()) -> None:
    """Write a program that `torch.export.load` reads without this package.

    Its inputs and logits are those of `DHILGT.forward`, with dense `x` in float32 and `index` in
    int64.

    Args:
        model: Any model; it is not changed.
        path: File to write, by custom with the ending .pt2; written atomically.
        others: Models with the same inputs. The logits are then the logarithms of the mean of the
            probabilities of all.

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
            torch.export.save(_program(model, others), stream)
        _write(file, stream.getvalue())


def export_onnx(model: DHILGT, path: str | PathLike[str], others: Sequence[DHILGT] = ()) -> None:
    """Write a file that ONNX Runtime runs without PyTorch.

    Inputs: x [nodes, in_channels] float32, index [batch, slots] int64 (-1 = padding) and
    spd [batch, slots, slots] uint8; of models with `label_inputs` also known [nodes] int64 (class
    + 1, 0 = not known); output: logits [batch, out_channels] float32.

    Args:
        model: Any model; it is not changed.
        path: File to write, by custom with the ending .onnx; written atomically.
        others: As for `export_program`.

    Raises:
        ArtifactError: If the file cannot be written.
        ImportError: If onnx or onnxscript is not installed.
    """
    _need_onnx()
    with _target(path) as file:
        with _quiet():
            program = _program(model, others)
            exported = torch.onnx.export(
                program,
                (),
                dynamo=True,
                dynamic_shapes=_program_shapes(model, others),  # only for the names of the axes
                input_names=input_names(model),
                output_names=[OUTPUT],
                verbose=False,
            )
        if exported is None:
            raise ArtifactError(f"cannot write {file}: the exporter returned nothing")
        _write(file, exported.model_proto.SerializeToString())


def _program(model: DHILGT, others: Sequence[DHILGT]) -> torch.export.ExportedProgram:
    """Trace the model; no axis is fixed to its length in the example."""
    module: nn.Module = plain(model)
    if others:
        module = _Average([module, *map(plain, others)])
    shapes = _program_shapes(model, others)
    return torch.export.export(module, _example(model), dynamic_shapes=shapes)


def _program_shapes(model: DHILGT, others: Sequence[DHILGT]) -> tuple[Any, ...]:
    shapes = _shapes(model)
    if not others or len(shapes) == len(INPUTS):
        return shapes
    return *shapes[: len(INPUTS)], tuple(shapes[len(INPUTS) :])  # those of *more


class _Average(nn.Module):
    """Models that take the same inputs, and the mean of their probabilities."""

    def __init__(self, models: Sequence[nn.Module]) -> None:
        super().__init__()
        self.models = nn.ModuleList(models)

    def forward(self, x: Tensor, index: Tensor, spd: Tensor, *more: Tensor) -> Tensor:
        """Return the logarithms of the mean."""
        shares = [model(x, index, spd, *more).softmax(dim=1) for model in self.models]
        return torch.stack(shares).mean(dim=0).clamp_min(torch.finfo(torch.float32).tiny).log()


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


# ---- files ---------------------------------------------------------------------------------------


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


def check_ending(path: str | PathLike[str]) -> str:
    """Return ".onnx" or ".pt2", whichever a path ends with.

    Raises:
        ConfigError: If it is neither.
    """
    ending = Path(path).suffix.lower()
    if ending not in WRITERS:
        raise ConfigError(f"{path} ends with {ending or 'nothing'}; name it .onnx or .pt2")
    return ending


WRITERS: dict[str, Callable[[DHILGT, Path, Sequence[DHILGT]], None]] = {
    ".onnx": export_onnx,
    ".pt2": export_program,
}
"""The function that writes a model, by the ending of the file."""
