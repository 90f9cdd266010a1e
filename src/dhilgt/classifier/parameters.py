"""The parameters of a classifier, by scikit-learn's conventions and without needing it."""

from __future__ import annotations

import inspect
import sys
from typing import Any, Literal, Self

from dhilgt.errors import ConfigError, DhilgtError
from dhilgt.settings.settings import Settings
from dhilgt.utils.checks import name_hint


class NotFittedError(DhilgtError, ValueError, AttributeError):
    """The classifier has to be trained or loaded first."""


class Parameters:
    """Keeps constructor arguments as they are given; they are checked when training begins.

    The arguments are the fields of `Settings` with the same defaults, `cache` and `progress`.
    """

    _estimator_type = "classifier"
    device: str
    cache: bool
    progress: bool | Literal["auto"]

    def __init__(
        self,
        *,
        size: int = 32,
        num_out: int | None = None,
        num_in: int | None = None,
        out_exponent: float = -1.0,
        in_exponent: float = -1.0,
        spill: bool = False,
        fill: str | None = None,
        copies: int = 1,
        fresh: bool = False,
        order: str = "degree",
        hidden_channels: int = 128,
        num_layers: int = 4,
        heads: int = 8,
        num_virtual: int = 4,
        dropout: float = 0.5,
        input_dropout: float = 0.1,
        bias_dropout: float = 0.1,
        attention_dropout: float = 0.0,
        ffn_channels: int | None = None,
        input_layers: int = 1,
        output_layers: int = 1,
        readout: str = "attention",
        spd_bias: bool = True,
        bias_slope: float = 0.0,
        output_dropout: float = 0.0,
        attention: str = "auto",
        hops: int = 0,
        hop_kind: str = "append",
        hop_restart: float = 0.0,
        feature_scale: str = "none",
        label_inputs: bool = False,
        label_dropout: float = 0.5,
        batch_size: int | str = 1024,
        epochs: int = 500,
        lr: float = 0.0001,
        weight_decay: float = 0.01,
        warmup_epochs: float = 10.0,
        decay: str = "linear",
        clip_norm: float | None = None,
        patience: int | None = 50,
        metric: str = "accuracy",
        eval_every: int = 1,
        precision: str = "fp32",
        deterministic: bool = False,
        checkpoint_every: int = 1,
        checkpoint_batches: int | None = None,
        max_batches: int | None = None,
        max_eval_batches: int | None = None,
        optimizer: str = "adamw",
        end_lr: float = 0.0,
        warmup_steps: int | None = None,
        decay_steps: int | None = None,
        max_seconds: float | None = None,
        cuda_graph: str = "auto",
        weight_average: float = 0.0,
        seed: int = 0,
        validation: float = 0.2,
        device: str = "auto",
        threads: int | None = None,
        cache: bool = True,
        progress: bool | Literal["auto"] = "auto",
    ) -> None:
        values = dict(locals())
        del values["self"]
        self.__dict__.update(values)

    @classmethod
    def _names(cls) -> list[str]:
        return [name for name in inspect.signature(cls.__init__).parameters if name != "self"]

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Gives all parameters by name.

        Args:
            deep: Without meaning here: no parameter has parameters of its own.
        """
        return {name: getattr(self, name) for name in self._names()}

    def set_params(self, **params: Any) -> Self:
        """Changes parameters; they count from the next `fit` on.

        Args:
            **params: New values by name.

        Raises:
            ConfigError: If a name is not a parameter; the message names the nearest one.
        """
        known = self._names()
        for name, value in params.items():
            if name not in known:
                hint = name_hint(name, known)
                raise ConfigError(f"{name!r} is not a parameter; {hint}")
            setattr(self, name, value)
        return self

    def _settings(self) -> Settings:
        values = self.get_params()
        del values["cache"], values["progress"]
        return Settings(**values)

    def __repr__(self) -> str:
        """Names the parameters that differ from their defaults."""
        defaults = inspect.signature(type(self).__init__).parameters
        changed = [
            f"{name}={value!r}"
            for name, value in self.get_params().items()
            if repr(value) != repr(defaults[name].default)
        ]
        return f"{type(self).__name__}({', '.join(changed)})"

    def __sklearn_tags__(self) -> Any:
        """Tells scikit-learn what this is."""
        # Only scikit-learn asks, so it is there.
        from sklearn.utils import ClassifierTags, InputTags, Tags, TargetTags

        return Tags(
            estimator_type="classifier",
            target_tags=TargetTags(required=True),
            classifier_tags=ClassifierTags(),
            input_tags=InputTags(sparse=True),
        )

    def __sklearn_is_fitted__(self) -> bool:
        """Tells scikit-learn whether `fit` has been called."""
        return "model_" in self.__dict__

    def _check_fitted(self, what: str) -> None:
        if "model_" not in self.__dict__:
            name = type(self).__name__
            raise _not_fitted(
                f"this {name} is not fitted yet, so it has no {what}; call fit, or load one that "
                f"was saved with {name}.load"
            )


def _not_fitted(message: str) -> NotFittedError:
    """Gives an error that scikit-learn, where it is in use, knows as its own."""
    theirs = getattr(sys.modules.get("sklearn.exceptions"), "NotFittedError", None)
    if theirs is None:
        return NotFittedError(message)
    both = type("NotFittedError", (NotFittedError, theirs), {})
    error: NotFittedError = both(message)
    return error
