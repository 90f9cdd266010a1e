"""Export of the model: as a PyTorch program (.pt2) or for ONNX Runtime (.onnx).

An export is the plain arithmetic of the model in evaluation mode, on the CPU and in float32, for
any number of rows, slots and distinct nodes. Tokens and features are made outside of it. Several
models are one program that averages their probabilities; those that take the same inputs share
them.
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
from dhilgt.model.sparse_product import CsrParts
from dhilgt.store.files import explained, write_file

INPUTS = ("x", "index", "spd")
"""Names of the inputs of an ONNX file, in the order of `DHILGT.forward`."""

KNOWN = "known"
"""Name of the fourth input, of models that see known classes."""

EGO = ("ego_offsets", "ego_columns", "ego_values")
"""Names of the next three inputs, of models that take sparse rows of egos."""

EDGES = ("edge_offsets", "edge_columns", "edge_weights")
"""Names of the last three inputs, of models that pass messages along edges."""

OUTPUT = "logits"
"""Name of the output of an ONNX file."""

ModelGroups = Sequence[Sequence[DHILGT]]
"""Models in groups; those of one group take the same inputs."""


def export_program(model: DHILGT | ModelGroups, path: str | PathLike[str]) -> None:
    """Write a program that `torch.export.load` reads without this package.

    Its inputs and logits are those of `DHILGT.forward`, with dense `x` in float32 and `index` in
    int64. Inputs that the model does not take are left out; sparse rows of egos and edges are three
    inputs each, as in `export_onnx`.

    Args:
        model: Any model, or several in groups; they are not changed. The models of one group take
            the same inputs; the inputs of the second group follow those of the first, and so on.
            The logits of several models are the logarithms of the mean of their probabilities.
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
            torch.export.save(_program(_groups(model)), stream)
        _write(file, stream.getvalue())


def export_onnx(model: DHILGT | ModelGroups, path: str | PathLike[str]) -> None:
    """Write a file that ONNX Runtime runs without PyTorch.

    Inputs: x [nodes, in_channels] float32, index [batch, slots] int64 (-1 = padding) and
    spd [batch, slots, slots] uint8; of models with `label_inputs` also known [nodes] int64 (class
    + 1, 0 = not known); of models with `ego_channels` also the sparse rows of the egos as the
    arrays of a CSR matrix: ego_offsets [batch * ego_groups + 1] int64, ego_columns [entries] int64
    and ego_values [entries] float32; of models with `message_layers` also the weights of all edges
    in the same form: edge_offsets [nodes + 1], edge_columns [edges] and edge_weights [edges], and
    `x` has a row for each node of the graph. Output: logits [batch, out_channels] float32. The
    names of the inputs of a second group of models begin with ``m2_``, those of a third with
    ``m3_``.

    Args:
        model: As for `export_program`.
        path: File to write, by custom with the ending .onnx; written atomically.

    Raises:
        ArtifactError: If the file cannot be written.
        ImportError: If onnx or onnxscript is not installed.
    """
    _need_onnx()
    with _target(path) as file:
        with _quiet():
            groups = _groups(model)
            exported = torch.onnx.export(
                _program(groups),
                (),
                dynamo=True,
                dynamic_shapes=_program_shapes(groups),  # only for the names of the axes
                input_names=[
                    prefix_of(at) + name
                    for at, (first, *_) in enumerate(groups)
                    for name in input_names(first)
                ],
                output_names=[OUTPUT],
                verbose=False,
            )
        if exported is None:
            raise ArtifactError(f"cannot write {file}: the exporter returned nothing")
        _write(file, exported.model_proto.SerializeToString())


def prefix_of(group: int) -> str:
    """Return what the names of the inputs of a group of models begin with.

    Args:
        group: Its place, from 0.

    Example:
        >>> prefix_of(0), prefix_of(1)
        ('', 'm2_')
    """
    return f"m{group + 1}_" if group else ""


def _groups(model: DHILGT | ModelGroups) -> ModelGroups:
    return [[model]] if isinstance(model, DHILGT) else model


def _program(groups: ModelGroups) -> torch.export.ExportedProgram:
    """Trace the models; no axis is fixed to its length in the example."""
    example = tuple(tensor for first, *_ in groups for tensor in _example(first))
    shapes = _program_shapes(groups)
    return torch.export.export(_joined(groups), example, dynamic_shapes=shapes)


def _joined(groups: ModelGroups) -> nn.Module:
    return _module(groups[0][0]) if _is_one(groups) else _Average(groups)


def _is_one(groups: ModelGroups) -> bool:
    return sum(map(len, groups)) == 1


def _program_shapes(groups: ModelGroups) -> tuple[Any, ...]:
    """Return the dynamic axes of all inputs, in the form of the arguments of `forward`."""
    batch = torch.export.Dim("batch", min=1)
    shapes: list[Any] = []
    for at, (first, *_) in enumerate(groups):
        shapes += _shapes(first, batch, prefix_of(at))
    more = shapes[len(INPUTS) :]
    if not more or (_is_one(groups) and not _takes_sparse(groups[0][0])):
        return tuple(shapes)
    return *shapes[: len(INPUTS)], tuple(more)  # those of *more


class _Average(nn.Module):
    """Models in groups that take the same inputs, and the mean of all their probabilities."""

    def __init__(self, groups: ModelGroups) -> None:
        super().__init__()
        self.models = nn.ModuleList(_module(model) for group in groups for model in group)
        self.own: list[slice] = []  # of all inputs, those of each model
        start = 0
        for group in groups:
            end = start + len(input_names(group[0]))
            self.own += [slice(start, end)] * len(group)
            start = end

    def forward(self, x: Tensor, index: Tensor, spd: Tensor, *more: Tensor) -> Tensor:
        """Return the logarithms of the mean; `more` holds the other inputs of all groups."""
        inputs = x, index, spd, *more
        shares = [
            model(*inputs[own]).softmax(dim=1)
            for model, own in zip(self.models, self.own, strict=True)
        ]
        return torch.stack(shares).mean(dim=0).clamp_min(torch.finfo(torch.float32).tiny).log()


def input_names(model: DHILGT) -> tuple[str, ...]:
    """Return the names of the inputs of a model's ONNX file.

    Args:
        model: Any model.
    """
    known = (KNOWN,) if model.config.label_inputs else ()
    ego = EGO if model.config.ego_channels else ()
    return (*INPUTS, *known, *ego, *(EDGES if model.config.message_layers else ()))


def _takes_sparse(model: DHILGT) -> bool:
    """Return whether a model takes sparse matrices, which a program takes as three arrays each."""
    return model.config.ego_channels > 0 or model.config.message_layers > 0


def _shapes(model: DHILGT, rows: Any, prefix: str) -> list[Any]:
    """Return the dynamic axes of each input; groups have only the number of rows in common."""
    nodes, slots = (torch.export.Dim(prefix + name, min=1) for name in ("nodes", "slots"))
    shapes = [{0: nodes}, {0: rows, 1: slots}, {0: rows, 1: slots, 2: slots}]
    if model.config.label_inputs:
        shapes.append({0: nodes})
    if model.config.ego_channels:
        entries = torch.export.Dim(f"{prefix}entries", min=0)
        shapes += [{0: model.config.ego_groups * rows + 1}, {0: entries}, {0: entries}]
    if model.config.message_layers:
        edges = torch.export.Dim(f"{prefix}edges", min=0)
        shapes += [{0: nodes + 1}, {0: edges}, {0: edges}]
    return shapes


def _module(model: DHILGT) -> nn.Module:
    return _WithParts(plain(model)) if _takes_sparse(model) else plain(model)


class _WithParts(nn.Module):
    """A model that takes each sparse matrix as three dense tensors."""

    def __init__(self, model: DHILGT) -> None:
        super().__init__()
        self.model = model

    def forward(self, x: Tensor, index: Tensor, spd: Tensor, *more: Tensor) -> Tensor:
        """Return the logits; `more` holds those of known, ego and edges that the model takes."""
        config, rest = self.model.config, list(more)
        known = rest.pop(0) if config.label_inputs else None
        ego = _matrix(rest[:3], config.ego_channels) if config.ego_channels else None
        edges = _matrix(rest[-3:], x.shape[0]) if config.message_layers else None
        logits: Tensor = self.model(x, index, spd, known, ego, edges)
        return logits


def _matrix(parts: Sequence[Tensor], num_columns: int) -> CsrParts:
    offsets, columns, values = parts
    return CsrParts(offsets, columns, values, num_columns)


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
    ego: tuple[Tensor, ...] = ()
    if model.config.ego_channels:
        offsets = torch.arange(2 * model.config.ego_groups + 1)
        ego = offsets, torch.zeros_like(offsets[1:]), torch.zeros(len(offsets) - 1)
    edges: tuple[Tensor, ...] = ()
    if model.config.message_layers:
        edges = torch.tensor([0, 1, 3, 5, 6, 6]), torch.tensor([1, 0, 2, 1, 3, 2]), torch.ones(6)
    return x, index, spd, *known, *ego, *edges


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


WRITERS: dict[str, Callable[[ModelGroups, Path], None]] = {
    ".onnx": export_onnx,
    ".pt2": export_program,
}
"""The function that writes models, by the ending of the file."""
