"""The settings of a training run."""

from dataclasses import dataclass

from dhilgt.utils.fields import CheckedSettings, choice, count, number, rate, switch, text

_MOST_STEPS = 10**12


@dataclass(frozen=True)
class TrainConfig(CheckedSettings):
    """How a model is trained. The defaults are the paper's recipe.

    Example:
        >>> config = TrainConfig(epochs=20, lr=1e-3)
        >>> TrainConfig.from_dict(config.to_dict()) == config
        True
    """

    _noun = "a training setting"

    epochs: int = count(500, 1, 10**9, help="The most passes over the training nodes.")
    lr: float = number(
        1e-4, 0, 1e3, above=True, help="Highest learning rate, reached when the warm-up ends."
    )
    weight_decay: float = number(
        0.01, 0, 1e3, help="How hard AdamW pulls weights to zero; biases and norms are exempt."
    )
    warmup_epochs: float = number(
        10.0, 0, 1e9, help="Epochs, fractions included, over which the rate rises from 0 to lr."
    )
    decay: str = choice(
        "linear",
        "cosine",
        "none",
        help="After the warm-up the rate falls to end_lr, linearly or along half a cosine, or "
        "stays at lr.",
    )
    clip_norm: float | None = number(
        None,
        0,
        1e12,
        above=True,
        help="Largest norm of the gradient, longer ones are scaled down; any when not given.",
    )
    patience: int | None = count(
        50,
        1,
        10**9,
        optional=True,
        help="Epochs without a better validation score, after the warm-up, before training stops; "
        "never when none.",
    )
    metric: str = text(
        "accuracy",
        help="Validation score that chooses the best epoch.",
        values="the name of a metric",
    )
    eval_every: int = count(1, 1, 10**9, help="Epochs between validations.")
    precision: str = choice("fp32", "bf16", help='Arithmetic; "bf16" is mixed precision.')
    seed: int = count(0, 0, 2**63 - 1, help="Seed of all random numbers drawn while training.")
    deterministic: bool = switch(False, help="Refuse operations whose result varies between runs.")
    checkpoint_every: int = count(
        1, 1, 10**9, help="Epochs between checkpoints; at most one checkpoint a second is written."
    )
    checkpoint_batches: int | None = count(
        None,
        1,
        _MOST_STEPS,
        help="Batches between checkpoints inside an epoch; none when not given.",
    )
    max_batches: int | None = count(
        None,
        1,
        _MOST_STEPS,
        help="Batches of an epoch to train on, the first ones; all when not given.",
    )
    max_eval_batches: int | None = count(
        None,
        1,
        _MOST_STEPS,
        help="Batches to evaluate and predict, the first ones; all when not given.",
    )
    optimizer: str = choice(
        "adamw", "adam", help='"adam" has the weight decay in the loss, on all weights.'
    )
    end_lr: float = number(0.0, 0, 1e3, help="Learning rate that a decay ends at.")
    warmup_steps: int | None = count(
        None, 0, _MOST_STEPS, help="Optimizer steps of the warm-up, in place of warmup_epochs."
    )
    decay_steps: int | None = count(
        None,
        1,
        _MOST_STEPS,
        help="Optimizer steps, warm-up included, until the rate is end_lr; all when not given.",
    )
    max_seconds: float | None = number(
        None,
        0,
        1e9,
        above=True,
        help="Seconds of training and validation, those before a resume included, after which no "
        "other epoch begins; any when not given.",
    )
    cuda_graph: str = choice(
        "auto",
        "off",
        help="Replay steps and evaluations as CUDA graphs where the fused kernels run on one GPU.",
    )
    weight_average: float = rate(
        0.0,
        help="Score and keep a running mean of the weights at the ends of epochs: the fraction of "
        "the mean that an epoch leaves as it was; 0 for no mean.",
    )
