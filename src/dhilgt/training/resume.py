"""Saving a run, and resuming it: checking that it is the same run, and restoring everything."""

from __future__ import annotations

import shlex
import signal
from dataclasses import asdict, dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from dhilgt.errors import ArtifactError, ConfigError, TrainingWarning, warn, wording
from dhilgt.training import rng
from dhilgt.training.average import WeightAverage
from dhilgt.training.checkpoint import Checkpoint
from dhilgt.training.config import TrainConfig
from dhilgt.training.distributed import Group
from dhilgt.training.epoch import EpochLoop
from dhilgt.training.protocols import Loader
from dhilgt.training.run_folder import RunFolder
from dhilgt.training.state import TrainState, host_copy, load_weights

# These settings decide how long and how safely to train, not what a step does.
FREE = frozenset({"epochs", "patience", "checkpoint_every", "checkpoint_batches", "cuda_graph"})

RESUME_CALL = "Trainer(..., run_dir={run_dir!r}, resume=True).fit(...)"
"""The call that resumes a run in Python."""


@dataclass
class TrainingRun:
    """A training run in memory: everything that a checkpoint holds.

    Attributes:
        model: The model.
        optimizer: Over its parameters.
        loop: Runs the epochs; holds the sums of the current one.
        state: The position of the run and its scores so far.
        average: The running mean of the weights; None where none is kept.
        best: Weights of the best epoch so far; empty where the model itself has them.
        facts: What the run was started with: its config, loader and environment.
    """

    model: nn.Module
    optimizer: torch.optim.Optimizer
    loop: EpochLoop
    state: TrainState
    average: WeightAverage | None
    best: dict[str, Tensor] = field(default_factory=dict)
    facts: dict[str, Any] = field(default_factory=dict)


def run_facts(
    config: TrainConfig, loader: Loader, steps: int, environment: dict[str, Any]
) -> dict[str, Any]:
    """Return what a run is started with, as plain values for its checkpoints."""
    return {
        "config": config.to_dict(),
        "loader": _loader_facts(loader, steps),
        "environment": environment,
        # A size that was found by trying is not searched for again: the result could differ.
        "batch_size": getattr(loader, "batch_size", None),
    }


def _loader_facts(loader: Loader, steps: int) -> dict[str, Any]:
    """Return what distinguishes one loader from another."""
    seed = getattr(loader, "seed", None)
    graph = getattr(getattr(loader, "tokens", None), "graph_fingerprint", None)
    return {
        "num_nodes": int(loader.num_nodes),
        "seed": seed if isinstance(seed, int) else None,
        "batches": steps,
        "graph": graph if isinstance(graph, str) else None,
    }


# ---- saving ------------------------------------------------------------------------------------


def save(run: TrainingRun, folder: RunFolder, group: Group, stages: dict[str, Any]) -> None:
    """Commit a checkpoint of all processes; each must call it.

    Args:
        run: The run.
        folder: Where its checkpoints are.
        group: The processes.
        stages: Times and memory so far.
    """
    checkpoint = packed(run, group, stages, rng.capture())
    if checkpoint is not None:
        folder.checkpoints.save(run.state.epoch, run.state.batch, checkpoint)


def packed(
    run: TrainingRun, group: Group, stages: dict[str, Any], states: rng.States
) -> Checkpoint | None:
    """Return a checkpoint of all processes to the main one, None to the others.

    Args:
        run: The run.
        group: The processes; each must call it.
        stages: Times and memory so far.
        states: Of the generators of random numbers of this process.
    """
    tensors, plain = states
    own = {"rng": plain, "loss_sum": float(run.loop.loss_sum), "count": run.loop.count}
    processes = group.collect((tensors, own))
    return None if processes is None else _pack(run, processes, stages)


def _pack(
    run: TrainingRun,
    processes: list[tuple[dict[str, Tensor], dict[str, Any]]],
    stages: dict[str, Any],
) -> Checkpoint:
    """Return a checkpoint; ``processes`` holds tensors and plain values of each process."""
    tensors = {f"model.{name}": tensor for name, tensor in host_copy(run.model).items()}
    values = run.facts | {
        "state": asdict(run.state),
        "stages": stages,
        "epochs_without_improvement": run.state.epoch - run.state.best_epoch,
        "processes": [own for _, own in processes],
    }
    if run.average is not None:
        for name, tensor in run.average.tensors().items():
            tensors[f"average.{name}"] = tensor.to("cpu", copy=True)
        values["averaged_epochs"] = run.average.epochs
    names = {id(parameter): name for name, parameter in run.model.named_parameters()}
    for parameter, entries in run.optimizer.state.items():
        for key, value in entries.items():
            copied = value.detach().to("cpu", copy=True).contiguous()
            tensors[f"optimizer.{names[id(parameter)]}.{key}"] = copied
    for rank, (generators, _) in enumerate(processes):
        tensors |= {f"rng.{rank}.{name}": tensor for name, tensor in generators.items()}
    return Checkpoint(tensors, run.best, values)


def interruption_message(
    state: TrainState,
    signum: int,
    run_dir: str | None,
    command: str | None,
    call: str = RESUME_CALL,
) -> str:
    """Return the message of an interrupted run: where it stands and how to resume it.

    Args:
        state: Where the run stands.
        signum: The signal that stopped it.
        run_dir: Its folder; None where nothing was saved.
        command: Command that resumes it, with ``{run_dir}`` for the folder; None for none.
        call: The same for Python, with ``{run_dir!r}``.

    Example:
        >>> interruption_message(TrainState(epoch=2), 15, None, None)
        'stopped by SIGTERM after 2 epochs; nothing was saved, as run_dir is None'
    """
    text = f"stopped by {signal.Signals(signum).name} after {_position(state)}; "
    if run_dir is None:
        return text + "nothing was saved, as run_dir is None"
    return f"{text}saved in {run_dir}; {way_on(run_dir, command, call)}"


def cut_off_message(
    folder: RunFolder | None,
    command: str | None,
    call: str = RESUME_CALL,
    how: str = "stopped at once by a second SIGINT",
) -> str:
    """Return the message of a run that was ended at once: what is saved of it.

    Args:
        folder: Of the run; None where nothing is saved.
        command: As for `interruption_message`.
        call: As for `interruption_message`.
        how: What ended it.

    Example:
        >>> cut_off_message(None, None)
        'stopped at once by a second SIGINT; nothing was saved, as run_dir is None'
    """
    text = how
    if folder is None:
        return f"{text}; nothing was saved, as run_dir is None"
    saved = folder.checkpoints.values()
    if saved is None:
        text += f" before the first save in {folder.path}"
    else:
        state = TrainState.from_dict(saved.get("state"))
        text += f"; the last save in {folder.path} is of {_position(state)}"
    return f"{text}; {way_on(str(folder.path), command, call)}"


def _position(state: TrainState) -> str:
    epochs = f"{state.epoch} epoch" + ("" if state.epoch == 1 else "s")
    return epochs + (f" and {state.batch} batches" if state.batch else "")


def way_on(run_dir: str, command: str | None, call: str) -> str:
    """Return how to go on with a run; the arguments are those of `interruption_message`."""
    in_python = f" {call.format(run_dir=run_dir)}"
    if command is None:
        return f"go on with{in_python}"
    in_shell = command.format(run_dir=shlex.quote(run_dir))
    return f"go on with{wording(f'{in_python} or', '')}: {in_shell}"


# ---- checking ----------------------------------------------------------------------------------


def check(
    checkpoint: Checkpoint, config: TrainConfig, facts: dict[str, Any], processes: int
) -> TrainState:
    """Return the state to resume from.

    Args:
        checkpoint: Of the run in the folder.
        config: Settings of the run that is starting.
        facts: Its `run_facts`.
        processes: Number of processes.

    Raises:
        ConfigError: If settings, data or processes are not those of the run; both are named.
    """
    values = checkpoint.values
    for key in ("config", "loader", "environment", "state", "processes", "stages"):
        if key not in values:
            raise ArtifactError(f"the checkpoint's state lacks {key!r}; start a new run")
    state = TrainState.from_dict(values["state"])
    _check_config(values["config"], config)
    _check_loader(values["loader"], facts["loader"], len(values["processes"]) == processes)
    _check_processes(len(values["processes"]), processes, state)
    _compare_environment(values["environment"], facts["environment"])
    return state


def _check_config(saved: dict[str, Any], config: TrainConfig) -> None:
    # A setting that did not exist when the run was saved had the value that is its default now.
    before, now = TrainConfig().to_dict() | saved, config.to_dict()
    for key in now:
        if now[key] != before[key] and key not in FREE:
            raise ConfigError(
                f"{key} = {now[key]!r}, but the run in this folder has {key} = {before[key]!r}; "
                "resume with that value, or choose another folder",
                argument=key,
            )
    falls = config.decay != "none" and config.decay_steps is None
    if now["epochs"] != saved.get("epochs") and falls:
        warn(
            f"the run was planned for {saved.get('epochs')} epochs and now has "
            f"{now['epochs']}: the learning rate falls along the new plan from here on",
            TrainingWarning,
        )


def _check_loader(saved: dict[str, Any], now: dict[str, Any], same_processes: bool) -> None:
    names = {"num_nodes": "training nodes", "batches": "batches per epoch"}
    for key, value in now.items():
        before = saved.get(key, value)  # older checkpoints lack the graph
        if key == "batches" and not same_processes:
            continue  # another number of processes divides the nodes differently
        if value != before:
            raise ConfigError(
                f"the run in this folder was begun with other data: {names.get(key, key)} "
                f"{before} then, {value} now; resume with the same data, or choose another folder"
            )


def _check_processes(saved: int, processes: int, state: TrainState) -> None:
    if saved == processes:
        return
    if state.batch:
        raise ConfigError(
            f"the run was saved inside epoch {state.epoch + 1} by {saved} processes and cannot go "
            f"on with {processes}; resume with {saved}"
        )
    warn(
        f"the run was saved by {saved} processes and goes on with {processes}; random numbers "
        "start anew",
        TrainingWarning,
    )


def _compare_environment(saved: dict[str, Any], now: dict[str, Any]) -> None:
    for key in ("torch", "numpy", "device"):
        if saved.get(key) != now[key]:
            warn(
                f"the run was saved with {key} {saved.get(key)} and goes on with {now[key]}; the "
                "numbers can differ a little from those of one run",
                TrainingWarning,
            )


# ---- restoring ---------------------------------------------------------------------------------


def restore_model(
    checkpoint: Checkpoint,
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    average: WeightAverage | None = None,
) -> None:
    """Load a checkpoint's weights, their mean and the optimizer's state."""
    tensors = checkpoint.training
    load_weights(model, _with_prefix(tensors, "model."), "the checkpoint")
    if average is not None:
        epochs = int(checkpoint.values.get("averaged_epochs", 0))
        average.restore(_with_prefix(tensors, "average."), epochs)
    states: dict[str, dict[str, Tensor]] = {}
    for name, tensor in _with_prefix(tensors, "optimizer.").items():
        parameter, _, key = name.rpartition(".")
        states.setdefault(parameter, {})[key] = tensor
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    packed = optimizer.state_dict()
    order = [
        names[id(parameter)] for group in optimizer.param_groups for parameter in group["params"]
    ]
    packed["state"] = {at: states[name] for at, name in enumerate(order) if name in states}
    optimizer.load_state_dict(packed)


def restore_process(
    checkpoint: Checkpoint, group: Group, loop: EpochLoop, config: TrainConfig
) -> None:
    """Restore this process's random numbers and the sums of its epoch."""
    if len(checkpoint.values["processes"]) != group.size:
        # A new seed for each process, none of which was used before.
        epoch = int(checkpoint.values["state"]["epoch"])
        rng.seed_all(config.seed + group.rank + 1_000_003 * epoch)
        return
    own = checkpoint.values["processes"][group.rank]
    rng.restore(_with_prefix(checkpoint.training, f"rng.{group.rank}."), own["rng"])
    loop.restart(own["loss_sum"], own["count"])


def _with_prefix(tensors: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {
        name.removeprefix(prefix): tensor
        for name, tensor in tensors.items()
        if name.startswith(prefix)
    }
