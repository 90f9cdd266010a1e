"""Every setting on the way from a graph to predictions, in one list."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import Field, asdict, dataclass, field, fields
from typing import Any

from dhilgt.errors import ConfigError
from dhilgt.features.from_graph import HOP_KINDS
from dhilgt.features.scale import FEATURE_SCALES
from dhilgt.labels.orders import ORDERS
from dhilgt.model.config import DHILGTConfig
from dhilgt.tokens.spec import TokenSpec
from dhilgt.training.config import TrainConfig
from dhilgt.utils.checks import choice, name_hint, num_threads, whole_number

GROUPS = ("tokens", "model", "features", "training", "run")
_MOST_COPIES = 1 << 20
_LARGEST_BATCH = 1 << 24
_MOST_HOPS = 32


def _setting(group: str, default: Any, text: str) -> Any:
    return field(default=default, metadata={"group": group, "help": text})


def _tokens(default: Any, text: str) -> Any:
    return _setting("tokens", default, text)


def _model(default: Any, text: str) -> Any:
    return _setting("model", default, text)


def _features(default: Any, text: str) -> Any:
    return _setting("features", default, text)


def _training(default: Any, text: str) -> Any:
    return _setting("training", default, text)


def _run(default: Any, text: str) -> Any:
    return _setting("run", default, text)


@dataclass(frozen=True)
class Settings:
    """The settings of labels, tokens, model, training and run: one flat list, checked at once.

    Each field carries a group and a sentence of help in its metadata; command lines, files and
    `NodeClassifier` are made from this list. The defaults are the paper's recipe.

    Raises:
        ConfigError: If a value is of the wrong type or out of range.

    Example:
        >>> settings = Settings(hidden_channels=64, epochs=20)
        >>> settings.train_config().epochs, settings.token_options()["size"]
        (20, 32)
        >>> Settings.from_dict(settings.to_dict()) == settings
        True
        >>> Settings.from_dict({"epoch": 3})
        Traceback (most recent call last):
            ...
        dhilgt.errors.ConfigError: 'epoch' is not a setting; did you mean 'epochs'?
    """

    size: int = _tokens(32, "Slots of a token row, the node's own included.")
    num_out: int | None = _tokens(None, "Hubs to draw per row; half of the slots when not given.")
    num_in: int | None = _tokens(None, "Holders to draw per row; the other slots when not given.")
    out_exponent: float = _tokens(-1.0, "A hub at distance d is drawn with weight d ** exponent.")
    in_exponent: float = _tokens(-1.0, "A holder at distance d is drawn with weight d ** exponent.")
    spill: bool = _tokens(False, "Give slots that hubs or holders cannot use to the other side.")
    fill: str | None = _tokens(None, 'What takes slots still free: nothing, or "neighbors".')
    copies: int = _tokens(1, "Rows per node: one each epoch in training, averaged in prediction.")
    fresh: bool = _tokens(False, "Draw new rows each epoch in place of stored ones.")
    order: str = _tokens(
        "degree",
        'What makes a node a hub: "degree", "neighbor-degree", "core", "closeness" or "random".',
    )

    hidden_channels: int = _model(128, "Width of the representations, a multiple of heads.")
    num_layers: int = _model(4, "Transformer layers.")
    heads: int = _model(8, "Attention heads.")
    num_virtual: int = _model(4, "Virtual nodes behind the slots of each row.")
    dropout: float = _model(0.5, "Dropout on what each block adds.")
    input_dropout: float = _model(0.1, "Dropout on the features.")
    bias_dropout: float = _model(0.1, "Share of pairs that lose their distance bias.")
    attention_dropout: float = _model(0.0, "Dropout on the attention weights.")
    ffn_channels: int | None = _model(
        None, "Inner width of the feed-forward blocks; that of hidden_channels when not given."
    )
    input_layers: int = _model(1, "Linear layers before the transformer.")
    output_layers: int = _model(1, "Linear layers after the transformer.")
    readout: str = _model("attention", 'How a row becomes one vector: "attention" or "ego".')
    spd_bias: bool = _model(True, "Learn an attention bias per distance.")
    bias_slope: float = _model(
        0.0, "How steeply that bias falls with distance at first: near slots count before far ones."
    )
    output_dropout: float = _model(0.0, "Dropout on what the output layers see.")
    attention: str = _model("auto", 'Attention code: "auto", "reference", "sdpa" or "fused".')

    hops: int = _features(
        0, "Append this many copies of the features, each averaged over neighbours once more."
    )
    hop_kind: str = _features(
        "append",
        'What hops do: "append" means over neighbours, "smooth": put the last average, weighted as '
        'in a GCN, in the place of the features, or "stack": append every such average.',
    )
    hop_restart: float = _features(
        0.0, "Share of the plain features that each round of averaging keeps."
    )
    feature_scale: str = _features(
        "none",
        'Bring the columns of the features, hops included, to one scale: "none", "standard" (mean '
        '0, deviation 1) or "rank" (normal scores).',
    )
    label_inputs: bool = _features(
        False, "Show a token the classes of the training nodes in it, its own node's excepted."
    )
    label_dropout: float = _features(
        0.5, "Share of those classes that are hidden in each training step."
    )

    batch_size: int | str = _training(
        1024, 'Nodes per step; "auto" finds the most that fit the GPU.'
    )
    epochs: int = _training(500, "The most passes over the training nodes.")
    lr: float = _training(1e-4, "The highest learning rate, reached when the warm-up ends.")
    weight_decay: float = _training(0.01, "How hard weights are pulled to zero.")
    warmup_epochs: float = _training(10.0, "Epochs over which the learning rate climbs.")
    decay: str = _training(
        "linear", 'After the warm-up the rate falls ("linear") or stays ("none").'
    )
    clip_norm: float | None = _training(None, "Longest gradient let through; any when not given.")
    patience: int | None = _training(
        50, "Epochs without a better validation score before training stops; never when none."
    )
    metric: str = _training("accuracy", "Score that chooses the best epoch.")
    eval_every: int = _training(1, "Epochs between validations.")
    precision: str = _training("fp32", '"fp32", or "bf16" for mixed precision.')
    deterministic: bool = _training(False, "Refuse operations whose result varies between runs.")
    checkpoint_every: int = _training(1, "Epochs between saves.")
    checkpoint_batches: int | None = _training(
        None, "Save also inside an epoch, every so many batches."
    )
    max_batches: int | None = _training(
        None, "Train on the first so many batches of each epoch only."
    )
    max_eval_batches: int | None = _training(
        None, "Evaluate and predict on the first so many batches only."
    )
    optimizer: str = _training(
        "adamw", '"adamw", or "adam", which decays all weights as a term of the loss.'
    )
    end_lr: float = _training(0.0, 'Learning rate that the "linear" decay ends at.')
    warmup_steps: int | None = _training(
        None, "Optimizer steps of the warm-up, in place of warmup_epochs."
    )
    decay_steps: int | None = _training(
        None, "Optimizer steps until the rate is end_lr; all of the run when not given."
    )
    max_seconds: float | None = _training(
        None, "Seconds of training after which no other epoch begins; any time when not given."
    )
    cuda_graph: str = _training("auto", 'Record steps as CUDA graphs: "auto" or "off".')
    weight_average: float = _training(
        0.0, "Share that each epoch leaves of a running mean of the weights; 0 for no mean."
    )

    seed: int = _run(0, "Start of all random numbers: tokens, split, weights, order, dropout.")
    validation: float = _run(
        0.2, "Share of the labelled nodes held out to choose the best epoch, where none are named."
    )
    device: str = _run("auto", '"auto" (a GPU if there is one), "cpu", "cuda", "cuda:1", ...')
    threads: int | None = _run(None, "Threads for labels and tokens; all cores when not given.")

    def __post_init__(self) -> None:
        try:
            self._check()
        except ConfigError:
            raise
        except ValueError as error:
            raise ConfigError(str(error)) from error

    def _check(self) -> None:
        """Has the parts check what is theirs, and keeps what they made of it."""
        # Kept as given where the part would fill in what follows from the others.
        self._keep(TokenSpec(**self._spec()), but=("num_out", "num_in"))
        self._keep(self.model_config(1, 1))
        self._keep(self.train_config())
        self._set("copies", whole_number("copies", self.copies, 1, _MOST_COPIES))
        self._set("hops", whole_number("hops", self.hops, 0, _MOST_HOPS))
        choice("hop_kind", self.hop_kind, HOP_KINDS)
        self._set("hop_restart", _share("hop_restart", self.hop_restart, or_zero=True))
        choice("feature_scale", self.feature_scale, FEATURE_SCALES)
        if self.batch_size != "auto":
            try:
                size = whole_number("batch_size", self.batch_size, 1, _LARGEST_BATCH)
            except ValueError as error:
                raise ConfigError(f'{error}, or "auto"') from None
            self._set("batch_size", size)
        if not isinstance(self.fresh, bool):
            raise ConfigError(f"fresh = {self.fresh!r}; pass True or False")
        choice("order", self.order, ORDERS)
        self._set("validation", _share("validation", self.validation))
        if not isinstance(self.device, str):
            self._set("device", str(self.device))
        if self.threads is not None:
            self._set("threads", num_threads(self.threads))

    def _keep(self, checked: Any, but: tuple[str, ...] = ()) -> None:
        mine = {setting.name for setting in fields(self)} - set(but)
        for name, value in checked.to_dict().items():
            if name in mine:
                self._set(name, value)

    def _set(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, value)

    def _spec(self) -> dict[str, Any]:
        return {one.name: getattr(self, one.name) for one in fields(TokenSpec)}

    # ---- for the parts -------------------------------------------------------------------------

    def token_options(self) -> dict[str, Any]:
        """Gives the keyword arguments of `TokenSpec` and `TokenSampler`; seed included."""
        return self._spec()

    def model_config(self, in_channels: int, out_channels: int) -> DHILGTConfig:
        """Gives the settings of the model.

        Args:
            in_channels: Features per node, hops included.
            out_channels: Number of classes.
        """
        known = {one.name for one in fields(DHILGTConfig)}
        mine = {one.name: getattr(self, one.name) for one in fields(self) if one.name in known}
        return DHILGTConfig(in_channels=in_channels, out_channels=out_channels, **mine)

    def train_config(self) -> TrainConfig:
        """Gives the settings of the training."""
        return TrainConfig(**{one.name: getattr(self, one.name) for one in fields(TrainConfig)})

    # ---- as plain values -----------------------------------------------------------------------

    def to_dict(self) -> dict[str, Any]:
        """Gives plain values by name, for a file."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Settings:
        """Gives the settings that ``values`` describe; what they leave out has its default.

        Raises:
            ConfigError: If a key is not a setting (the message names the nearest one), or a value
                is wrong.
        """
        known = [one.name for one in fields(cls)]
        for key in values:
            if key not in known:
                hint = name_hint(key, known)
                raise ConfigError(f"{key!r} is not a setting; {hint}")
        return cls(**dict(values))

    @classmethod
    def group(cls, name: str) -> list[Field[Any]]:
        """Gives the settings of a group ("tokens", "model", ...) in order.

        Example:
            >>> [setting.name for setting in Settings.group("features")]
            ['hops', 'hop_kind', 'hop_restart', 'feature_scale', 'label_inputs', 'label_dropout']
        """
        return [one for one in fields(cls) if one.metadata["group"] == name]


def _share(name: str, value: Any, *, or_zero: bool = False) -> float:
    number = float(value) if hasattr(value, "__float__") and not isinstance(value, bool) else None
    if number is None or not (0 < number < 1 or (or_zero and number == 0)):
        least = "from 0" if or_zero else "above 0"
        raise ConfigError(f"{name} = {value!r}; pass a share {least} and below 1")
    return number
