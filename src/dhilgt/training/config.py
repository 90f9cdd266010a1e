"""The settings of a training run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from dhilgt.errors import ConfigError
from dhilgt.utils.checks import choice, name_hint, number, whole_number

_CHOICES = {
    "decay": ("linear", "none"),
    "optimizer": ("adamw", "adam"),
    "precision": ("fp32", "bf16"),
    "cuda_graph": ("auto", "off"),
}
# name: (smallest, largest, may be None)
_COUNTS = {
    "epochs": (1, 10**9, False),
    "patience": (1, 10**9, True),
    "eval_every": (1, 10**9, False),
    "warmup_steps": (0, 10**12, True),
    "decay_steps": (1, 10**12, True),
    "seed": (0, 2**63 - 1, False),
    "checkpoint_every": (1, 10**9, False),
    "checkpoint_batches": (1, 10**12, True),
    "max_batches": (1, 10**12, True),
    "max_eval_batches": (1, 10**12, True),
}
# name: (smallest, largest, smallest itself refused, may be None)
_NUMBERS = {
    "lr": (0.0, 1e3, True, False),
    "weight_decay": (0.0, 1e3, False, False),
    "warmup_epochs": (0.0, 1e9, False, False),
    "end_lr": (0.0, 1e3, False, False),
    "clip_norm": (0.0, 1e12, True, True),
    "max_seconds": (0.0, 1e9, True, True),
    "weight_average": (0.0, 1.0, False, False),
}


@dataclass(frozen=True)
class TrainConfig:
    """The settings of training. The defaults are the paper's recipe.

    Attributes:
        epochs: Most passes over the training nodes.
        lr: The highest learning rate, reached when the warm-up ends.
        weight_decay: Weight decay of AdamW. Biases, norms and embeddings are exempt.
        warmup_epochs: Epochs (fractions allowed) over which the rate rises from 0 to ``lr``.
        decay: "linear" lets the rate fall to ``end_lr`` at the last epoch, "none" keeps it.
        clip_norm: Largest norm of the gradient; larger ones are scaled down. None: no limit.
        patience: Epochs without a better validation score before training stops. None: never.
        metric: Name of the validation score.
        eval_every: Epochs between validations.
        precision: "fp32", or "bf16" for mixed precision.
        seed: Seed of all random numbers drawn while training.
        deterministic: Refuse operations whose result varies between runs.
        checkpoint_every: Epochs between saves.
        checkpoint_batches: Batches between saves inside an epoch. None: save at the ends of epochs.
        max_batches: Number of batches of an epoch to train on, from the first. None: all.
        max_eval_batches: The same for evaluation and prediction.
        optimizer: "adamw", or "adam": with weight decay as a term of the loss, on all weights.
        end_lr: The rate that "linear" falls to, and stays at where ``decay_steps`` end early.
        warmup_steps: Optimizer steps of the warm-up. None: those of ``warmup_epochs``.
        decay_steps: Optimizer steps, warm-up included, after which the rate is ``end_lr``.
            None: all steps of the run.
        max_seconds: Seconds of training and validation after which no other epoch begins; those
            before a resume count too. None: no limit.
        cuda_graph: "auto" records steps and evaluations as CUDA graphs where the fused kernels
            run on one GPU, after the first epoch; "off" never does.
        weight_average: Score and keep a running mean of the weights at the ends of epochs: the
            fraction of the mean that an epoch leaves as it was, below 1. 0: no mean.

    Example:
        >>> config = TrainConfig(epochs=20, lr=1e-3)
        >>> TrainConfig.from_dict(config.to_dict()) == config
        True
    """

    epochs: int = 500
    lr: float = 1e-4
    weight_decay: float = 0.01
    warmup_epochs: float = 10.0
    decay: str = "linear"
    clip_norm: float | None = None
    patience: int | None = 50
    metric: str = "accuracy"
    eval_every: int = 1
    precision: str = "fp32"
    seed: int = 0
    deterministic: bool = False
    checkpoint_every: int = 1
    checkpoint_batches: int | None = None
    max_batches: int | None = None
    max_eval_batches: int | None = None
    optimizer: str = "adamw"
    end_lr: float = 0.0
    warmup_steps: int | None = None
    decay_steps: int | None = None
    max_seconds: float | None = None
    cuda_graph: str = "auto"
    weight_average: float = 0.0

    def __post_init__(self) -> None:
        for name, (low, high, optional) in _COUNTS.items():
            value = whole_number(name, getattr(self, name), low, high, optional=optional)
            object.__setattr__(self, name, value)
        for name, (least, most, above, optional) in _NUMBERS.items():
            real = number(name, getattr(self, name), least, most, above=above, optional=optional)
            object.__setattr__(self, name, real)
        for name, choices in _CHOICES.items():
            choice(name, getattr(self, name), choices)
        if self.weight_average == 1:
            raise ConfigError("weight_average = 1 never learns; pass a number from 0 to below 1")
        if not isinstance(self.metric, str) or not self.metric:
            raise ConfigError(f"metric = {self.metric!r}; pass the name of a metric")
        if not isinstance(self.deterministic, bool):
            raise ConfigError(f"deterministic = {self.deterministic!r}; pass True or False")

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> TrainConfig:
        """Return the config of ``values``; settings that they lack have their defaults.

        Raises:
            ConfigError: If a key is not a setting; the message names the nearest one.
        """
        known = [field.name for field in fields(cls)]
        for key in values:
            if key not in known:
                hint = name_hint(key, known)
                raise ConfigError(f"{key!r} is not a training setting; {hint}")
        return cls(**dict(values))
