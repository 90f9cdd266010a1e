"""The model and the loaders that `NodeClassifier.fit` trains with."""

from __future__ import annotations

from os import PathLike

import torch

from dhilgt import scale_files
from dhilgt.batch_size import CPU_BATCH, auto_batch_size
from dhilgt.fit_inputs import FitInputs
from dhilgt.loader import TokenLoader
from dhilgt.model import DHILGT
from dhilgt.pipeline import Pipeline
from dhilgt.run_folder import RunFolder
from dhilgt.train import Trainer


def training_loaders(
    inputs: FitInputs,
    pipeline: Pipeline,
    model: DHILGT,
    trainer: Trainer,
    run_dir: str | PathLike[str] | None,
    resume: bool,
) -> tuple[dict[str, TokenLoader], int]:
    """Gives the loaders of training and validation, and the batch size; keeps the scale."""
    settings, device, classes = pipeline.settings, trainer.device, inputs.graph.labels
    size = settings.batch_size if isinstance(settings.batch_size, int) else CPU_BATCH
    train = pipeline.loader(
        inputs.split["train"], classes, device=device, batch_size=size, training=True
    )
    train.class_names = tuple(map(str, inputs.classes.tolist()))  # for warnings
    if settings.batch_size == "auto":
        found = size_of_run(run_dir) if resume else None
        size = found or auto_batch_size(model, train, trainer.config, device)
        train = train.with_batch_size(size)
    with trainer.group.agreed():
        if run_dir is not None and trainer.group.is_main:
            scale_files.write_scale(RunFolder(run_dir).path, pipeline.scale)
    loaders = {"train": train}
    if "val" in inputs.split:
        loaders["val"] = pipeline.loader(
            inputs.split["val"], classes, device=device, batch_size=size
        )
    return loaders, size


def new_model(pipeline: Pipeline, num_classes: int) -> DHILGT:
    """Gives a model whose first weights follow from the seed, and leaves other random numbers."""
    settings = pipeline.settings
    config = settings.model_config(pipeline.num_channels, num_classes)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(settings.seed)
        return DHILGT(**config.to_dict())


def size_of_run(run_dir: str | PathLike[str] | None) -> int | None:
    """Gives the batch size that the run in a folder began with."""
    if run_dir is None:
        return None
    checkpoint = RunFolder(run_dir).checkpoints.load()
    found = None if checkpoint is None else checkpoint.values.get("batch_size")
    return found if isinstance(found, int) else None
