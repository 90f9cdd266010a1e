"""Saving a run, and going on with it: whether it is this one, and putting everything back."""

from __future__ import annotations

import shlex
import signal
from dataclasses import asdict
from typing import Any

import torch
from torch import Tensor, nn

from dhilgt.errors import ArtifactError, ConfigError, TrainingWarning, warn, wording
from dhilgt.training import rng
from dhilgt.training.checkpoint import Checkpoint
from dhilgt.training.config import TrainConfig
from dhilgt.training.distributed import Group
from dhilgt.training.epoch import EpochLoop
from dhilgt.training.protocols import Loader
from dhilgt.training.run_folder import RunFolder
from dhilgt.training.state import TrainState, WeightAverage, pack, process_part, unpack

# These say how long and how safely to train, not what a step does.
_FREE = {"epochs", "patience", "checkpoint_every", "checkpoint_batches", "cuda_graph"}


def loader_facts(loader: Loader, steps: int) -> dict[str, Any]:
    """Gives what tells one loader from another."""
    seed = getattr(loader, "seed", None)
    graph = getattr(getattr(loader, "tokens", None), "graph_fingerprint", None)
    return {
        "num_nodes": int(loader.num_nodes),
        "seed": seed if isinstance(seed, int) else None,
        "batches": steps,
        "graph": graph if isinstance(graph, str) else None,
    }


def facts(
    state: TrainState, config: TrainConfig, loader: Loader, steps: int, **more: Any
) -> dict[str, Any]:
    """Gives the plain values of a checkpoint."""
    return more | {
        "state": asdict(state),
        "config": config.to_dict(),
        "loader": loader_facts(loader, steps),
        "epochs_without_improvement": state.epoch - state.best_epoch,
        # A size that was found by trying is not searched for again: it could come out otherwise.
        "batch_size": getattr(loader, "batch_size", None),
    }


def save(
    folder: RunFolder,
    group: Group,
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    loop: EpochLoop,
    best: dict[str, Tensor],
    state: TrainState,
    values: dict[str, Any],
    average: WeightAverage | None = None,
) -> None:
    """Commits a checkpoint of all processes; each must call it."""
    tensors, plain = rng.capture()
    own = {"rng": plain, "loss_sum": float(loop.loss_sum), "count": loop.count}
    processes = group.collect((tensors, own))
    if processes is not None:
        packed = pack(model, optimizer, best, values, processes, average)
        folder.checkpoints.save(state.epoch, state.batch, packed)


RESUME_CALL = "Trainer(..., run_dir={run_dir!r}, resume=True).fit(...)"
"""How a run is taken up again in Python."""


def way_to_go_on(
    state: TrainState,
    signum: int,
    run_dir: str | None,
    command: str | None,
    call: str = RESUME_CALL,
) -> str:
    """Gives the message of an interrupted run.

    Example:
        >>> way_to_go_on(TrainState(epoch=2), 15, None, None)
        'stopped by SIGTERM after 2 epochs; nothing was saved, as run_dir is None'
    """
    place = f"{state.epoch} epochs" + (f" and {state.batch} batches" if state.batch else "")
    text = f"stopped by {signal.Signals(signum).name} after {place}; "
    if run_dir is None:
        return text + "nothing was saved, as run_dir is None"
    text += f"saved in {run_dir}; go on with"
    in_python = f" {call.format(run_dir=run_dir)}"
    if command is None:
        return text + in_python
    in_shell = command.format(run_dir=shlex.quote(run_dir))
    return f"{text}{wording(f'{in_python} or', '')}: {in_shell}"


def check(
    checkpoint: Checkpoint,
    config: TrainConfig,
    loader: Loader,
    steps: int,
    where: dict[str, Any],
    processes: int,
) -> TrainState:
    """Gives the state to go on from.

    Raises:
        ConfigError: If settings, data or processes are not those of the run; both are named.
    """
    values = checkpoint.values
    for key in ("config", "loader", "environment", "state", "processes", "stages"):
        if key not in values:
            raise ArtifactError(f"the checkpoint's state lacks {key!r}; start a new run")
    state = TrainState.from_dict(values["state"])
    # A setting that the run did not know yet was at what is its default now.
    before, now = TrainConfig().to_dict() | values["config"], config.to_dict()
    for key in now:
        then = before[key]
        if now[key] != then and key not in _FREE:
            raise ConfigError(
                f"{key} = {now[key]!r}, but the run in this folder has {key} = {then!r}; resume "
                "with that value, or choose another folder",
                argument=key,
            )
    falls = config.decay == "linear" and config.decay_steps is None
    if now["epochs"] != values["config"].get("epochs") and falls:
        warn(
            f"the run was planned for {values['config'].get('epochs')} epochs and now has "
            f"{now['epochs']}: the learning rate falls along the new plan from here on",
            TrainingWarning,
        )
    for key, now_there in loader_facts(loader, steps).items():
        then = values["loader"].get(key, now_there)  # older runs did not note the graph
        # Other processes share the nodes out differently.
        same_shares = key != "batches" or len(values["processes"]) == processes
        if same_shares and now_there != then:
            raise ConfigError(
                f"the training loader has {key} = {now_there}, the run in this folder has "
                f"{then}; resume with the same data, or choose another folder"
            )
    _check_processes(values, state, processes)
    for key in ("torch", "numpy", "device"):
        if values["environment"].get(key) != where[key]:
            warn(
                f"the run was saved with {key} {values['environment'].get(key)} and goes on with "
                f"{where[key]}; the numbers can differ a little from those of one run",
                TrainingWarning,
            )
    return state


def _check_processes(values: dict[str, Any], state: TrainState, processes: int) -> None:
    then = len(values["processes"])
    if then == processes:
        return
    if state.batch:
        raise ConfigError(
            f"the run was saved inside epoch {state.epoch + 1} by {then} processes and cannot go "
            f"on with {processes}; resume with {then}"
        )
    warn(
        f"the run was saved by {then} processes and goes on with {processes}; random numbers start "
        "anew",
        TrainingWarning,
    )


def restore_model(
    checkpoint: Checkpoint,
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    average: WeightAverage | None = None,
) -> None:
    """Puts weights, their average and the optimizer back."""
    unpack(checkpoint, model, optimizer, "the checkpoint", average)


def restore_process(
    checkpoint: Checkpoint, group: Group, loop: EpochLoop, config: TrainConfig
) -> None:
    """Puts this process's random numbers and sums back."""
    if len(checkpoint.values["processes"]) != group.size:
        # As many numbers as processes, none of them drawn before.
        epoch = int(checkpoint.values["state"]["epoch"])
        rng.seed_all(config.seed + group.rank + 1_000_003 * epoch)
        return
    tensors, own = process_part(checkpoint, group.rank)
    rng.restore(tensors, own["rng"])
    loop.restart(own["loss_sum"], own["count"])
