"""Parts of pipelines of one graph that several settings have in common: each is made once."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import Any

from dhilgt.classifier.pipeline import Pipeline
from dhilgt.labels.orders import DRAWN
from dhilgt.settings.settings import Settings

_FEATURES = ("hops", "hop_kind", "hop_restart", "hop_channels", "feature_scale")
_INPUTS = ("neighbor_inputs", "hub_inputs", "class_inputs", "table_rows")


def _ranking(settings: Settings) -> tuple[Any, ...]:
    return settings.order, settings.radius, settings.seed if settings.order in DRAWN else 0


def _rows(settings: Settings) -> tuple[Any, ...]:
    options = tuple(sorted(settings.token_options().items()))
    # A model without layers reads the node alone.
    return _ranking(settings), options, settings.copies, settings.fresh, settings.num_layers == 0


def _features(settings: Settings) -> tuple[Any, ...]:
    return tuple(getattr(settings, name) for name in _FEATURES)


def _inputs(settings: Settings) -> tuple[Any, ...]:
    return (*(getattr(settings, name) for name in _INPUTS), _ranking(settings))


def inputs_key(settings: Settings) -> Hashable:
    """Return what is equal for settings under which models of one graph take the same inputs.

    Example:
        >>> plain, wide = Settings(), Settings(hidden_channels=32)
        >>> inputs_key(plain) == inputs_key(wide), inputs_key(plain) == inputs_key(Settings(hops=1))
        (True, False)
    """
    seen = settings.label_inputs, settings.message_layers > 0
    return _rows(settings), _features(settings), _inputs(settings), seen


# Attributes of a pipeline, and the settings that decide them.
_PARTS: dict[str, Callable[[Settings], Hashable]] = {
    "_labels": _ranking,
    "_tokens": _rows,
    "_features": _features,
    "_open_features": _features,
    "_scale": _features,
    "_projection": lambda settings: (settings.hop_channels, settings.feature_scale),
    "_vocabulary": _inputs,
    "_ego": _inputs,
    "_adjacency": lambda settings: settings.message_layers > 0,
}


def share(pipeline: Pipeline, others: Iterable[Pipeline]) -> None:
    """Take over what other pipelines of the same graph have made already, where it is the same.

    Args:
        pipeline: It lacks parts, and will make those that are not found.
        others: Pipelines of the same graph with other settings.

    Example:
        >>> import dhilgt
        >>> graph = dhilgt.generate(50, 4, seed=1, num_features=3)
        >>> first, second = (
        ...     Pipeline(graph, Settings(size=4, epochs=n), cache=None, progress=False)
        ...     for n in (1, 2)
        ... )
        >>> tokens = first.tokens
        >>> share(second, [first])
        >>> second.tokens is tokens
        True
    """
    for other in others:
        for part, key in _PARTS.items():
            made = getattr(other, part, None)
            same = key(pipeline.settings) == key(other.settings)
            if made is not None and same and getattr(pipeline, part, None) is None:
                setattr(pipeline, part, made)
