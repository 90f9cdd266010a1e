"""Every setting from the graph to the predictions, in one flat list."""

from __future__ import annotations

from dataclasses import Field, dataclass, field, fields
from typing import Any

from dhilgt.features.from_graph import HOP_KINDS
from dhilgt.features.scale import FEATURE_SCALES
from dhilgt.labels.orders import ORDERS
from dhilgt.labels.radius import AUTO
from dhilgt.model.config import MOST_HIDDEN_CHANNELS, DHILGTConfig
from dhilgt.tokens.spec import TokenSpec
from dhilgt.training.config import TrainConfig
from dhilgt.utils.fields import CheckedSettings, choice, count, declared, rate, switch

GROUPS = ("tokens", "model", "features", "training", "run")


class _Group:
    """Makes the fields of one group, most of them those of the part that they configure."""

    def __init__(self, name: str, part: type[CheckedSettings] = CheckedSettings) -> None:
        self.name = name
        self.part = {one.name: one for one in fields(part)}

    def __call__(self, source: str | Field[Any], *, common: bool = False, flag: bool = True) -> Any:
        """Return a field of this group.

        Args:
            source: A field, or the name of one of the part.
            common: Whether a newcomer needs it: ``dhilgt train --help`` shows it.
            flag: Whether it is an option of the command line.
        """
        one = self.part[source] if isinstance(source, str) else source
        metadata = {**one.metadata, "group": self.name, "common": common, "flag": flag}
        return field(default=one.default, metadata=metadata)


_tokens = _Group("tokens", TokenSpec)
_model = _Group("model", DHILGTConfig)
_features = _Group("features", DHILGTConfig)
_training = _Group("training", TrainConfig)
_run = _Group("run")


@dataclass(frozen=True)
class Settings(CheckedSettings):
    """The settings of labels, tokens, model, training and run, checked together.

    This is the one list of settings: the parameters of `NodeClassifier`, the options of ``dhilgt
    train``, the keys of YAML files and the tables of the documentation are made from it. What
    belongs to a part (`TokenSpec`, `DHILGTConfig`, `TrainConfig`) is declared there. The defaults
    are the paper's recipe, but for `feature_scale`: the paper's graphs need no scale.

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

    size: int = _tokens("size", common=True)
    num_out: int | None = _tokens("num_out")
    num_in: int | None = _tokens("num_in")
    out_exponent: float = _tokens("out_exponent")
    in_exponent: float = _tokens("in_exponent")
    spill: bool = _tokens("spill")
    fill: str | None = _tokens("fill")
    copies: int = _tokens(
        count(
            1, 1, 1 << 20, help="Rows per node: one per epoch in training, averaged in prediction."
        )
    )
    fresh: bool = _tokens(switch(False, help="Draw new rows each epoch in place of stored ones."))
    order: str = _tokens(
        choice(
            *ORDERS,
            help='Ranking of the nodes: those at the top are hubs. "-id" breaks ties by id, in '
            "place of a hash of it.",
        )
    )
    radius: int | str = _tokens(
        count(
            AUTO,
            word=AUTO,
            help='Largest distance of a hub; "auto" keeps all hubs, or where their labels do not '
            "fit the memory those within the largest radius that does.",
        )
    )

    hidden_channels: int = _model(
        count(
            128, 1, MOST_HIDDEN_CHANNELS, help="Width of the representations, a multiple of heads."
        ),
        common=True,
    )
    num_layers: int = _model("num_layers", common=True)
    heads: int = _model("heads")
    num_virtual: int = _model("num_virtual")
    dropout: float = _model("dropout")
    input_dropout: float = _model("input_dropout")
    bias_dropout: float = _model("bias_dropout")
    attention_dropout: float = _model("attention_dropout")
    ffn_channels: int | None = _model("ffn_channels")
    input_layers: int = _model("input_layers")
    output_layers: int = _model("output_layers")
    readout: str = _model("readout")
    spd_bias: bool = _model("spd_bias")
    bias_slope: float = _model("bias_slope")
    output_dropout: float = _model("output_dropout")
    input_activation: bool = _model("input_activation")
    message_layers: int = _model("message_layers")
    attention: str = _model("attention")

    hops: int = _features(count(0, 0, 32, help="Rounds of averaging the features over neighbours."))
    hop_kind: str = _features(
        choice(
            *HOP_KINDS,
            help='"append" adds the mean over neighbours of each round to the features; "smooth" '
            'replaces them by the last average, weighted as in a GCN; "stack" adds every such '
            "average.",
        )
    )
    hop_restart: float = _features(
        rate(0.0, help="Fraction of the plain features that each round of averaging keeps.")
    )
    hop_channels: int | None = _features(
        count(
            None,
            1,
            2**16,
            help="Columns that wider features are projected to before averaging over neighbours; "
            "as wide as they are when not given.",
        )
    )
    feature_scale: str = _features(
        choice(
            *FEATURE_SCALES,
            help='Scale of the columns of the features: "auto" scales those that need it, like '
            'years and amounts; "standard" brings all, hops included, to mean 0 and deviation 1, '
            '"rank" to normal scores.',
        )
    )
    label_inputs: bool = _features("label_inputs")
    label_dropout: float = _features("label_dropout")
    neighbor_inputs: bool = _features(
        switch(False, help="Add a learned vector of each neighbour to a node's own features.")
    )
    hub_inputs: bool = _features(
        switch(False, help="Add a learned vector of each hub near a node, weighted by distance.")
    )
    class_inputs: bool = _features(
        switch(
            False,
            help="Add the classes of the training nodes one and two steps away, as fractions.",
        )
    )
    table_rows: int = _features(
        count(
            65_536,
            1,
            2**30,
            help="The most neighbours, and the most hubs, that have a learned vector.",
        )
    )

    batch_size: int | str = _training(
        count(1024, 1, 1 << 24, word="auto", help='Nodes per step; "auto" finds the most that fit.')
    )
    epochs: int = _training("epochs", common=True)
    lr: float = _training("lr", common=True)
    weight_decay: float = _training("weight_decay")
    warmup_epochs: float = _training("warmup_epochs")
    decay: str = _training("decay")
    clip_norm: float | None = _training("clip_norm")
    patience: int | None = _training("patience")
    metric: str = _training("metric")
    eval_every: int = _training("eval_every")
    precision: str = _training("precision")
    deterministic: bool = _training("deterministic")
    checkpoint_every: int = _training("checkpoint_every")
    checkpoint_batches: int | None = _training("checkpoint_batches")
    max_batches: int | None = _training("max_batches", flag=False)
    max_eval_batches: int | None = _training("max_eval_batches", flag=False)
    optimizer: str = _training("optimizer")
    end_lr: float = _training("end_lr")
    warmup_steps: int | None = _training("warmup_steps")
    decay_steps: int | None = _training("decay_steps")
    max_seconds: float | None = _training("max_seconds")
    cuda_graph: str = _training("cuda_graph")
    weight_average: float = _training("weight_average")

    seed: int = _run(
        count(
            0,
            0,
            2**63 - 1,
            help="Seed of all random numbers: tokens, split, weights, order, dropout.",
        ),
        common=True,
    )
    validation: float = _run(
        rate(
            0.2,
            above=True,
            help="Fraction of the labelled nodes held out to choose the best epoch, where no "
            "validation nodes are named.",
        )
    )
    device: str = _run(
        declared(
            "auto",
            lambda name, value: str(value),  # a torch.device too
            values='`"auto"`, or a device of PyTorch',
            help='Device to compute on, like "cpu" or "cuda:1"; "auto" is a GPU if there is one.',
        ),
        common=True,
    )
    threads: int | None = _run(
        count(None, help="Threads for labels and tokens; all cores when not given.")
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        # The parts check what their settings mean together.
        TokenSpec(**self.token_options())
        self.model_config(1, 1)

    # ---- for the parts -------------------------------------------------------------------------

    def token_options(self) -> dict[str, Any]:
        """Return the keyword arguments of `TokenSpec` and `TokenSampler`; seed included."""
        return self._those_of(TokenSpec)

    def model_config(
        self, in_channels: int, out_channels: int, ego_channels: int = 0, ego_groups: int = 0
    ) -> DHILGTConfig:
        """Return the settings of the model.

        Args:
            in_channels: Features per node, hops included.
            out_channels: Number of classes.
            ego_channels: Columns of the sparse rows of the egos; 0 without such rows.
            ego_groups: Such rows of each ego.
        """
        sizes: dict[str, Any] = {
            "in_channels": in_channels,
            "out_channels": out_channels,
            "ego_channels": ego_channels,
            "ego_groups": ego_groups,
        }
        return DHILGTConfig(**sizes, **self._those_of(DHILGTConfig))

    def train_config(self) -> TrainConfig:
        """Return the settings of the training."""
        return TrainConfig(**self._those_of(TrainConfig))

    def _those_of(self, part: type[CheckedSettings]) -> dict[str, Any]:
        names = {one.name for one in fields(self)}
        return {one.name: getattr(self, one.name) for one in fields(part) if one.name in names}

    @classmethod
    def group(cls, name: str) -> list[Field[Any]]:
        """Return the settings of a group ("tokens", "model", ...) in order.

        Example:
            >>> [setting.name for setting in Settings.group("features")][:4]
            ['hops', 'hop_kind', 'hop_restart', 'hop_channels']
        """
        return [one for one in fields(cls) if one.metadata["group"] == name]
