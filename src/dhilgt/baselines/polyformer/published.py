"""Settings that the released commands choose for single graphs, with monomials."""

from __future__ import annotations

from typing import Any

_NAMES = (
    "order", "hidden_channels", "num_layers", "heads", "ffn_channels", "expansion", "falloff",
    "dropout", "attention_dropout", "attention_rate", "attention_decay",
)  # fmt: skip
_MODELS: dict[str, tuple[float, ...]] = {
    "chameleon": (6, 256, 4, 8, 32, 2.0, 2.0, 0.2, 0.4, 0.005, 1e-5),
    "citeseer": (6, 256, 1, 4, 128, 2.0, 2.0, 0.9, 0.6, 2.0, 1e-5),
    "physics": (4, 128, 1, 2, 256, 0.5, 1.2, 0.9, 0.8, 0.1, 1e-3),
    "pubmed": (2, 256, 2, 8, 32, 2.0, 1.6, 0.5, 0.8, 0.1, 1e-8),
    "squirrel": (12, 256, 2, 4, 128, 1.0, 1.4, 0.3, 0.8, 10.0, 1e-7),
    "tolokers": (10, 64, 1, 16, 128, 1.0, 1.0, 0.2, 0.0, 0.2, 0.0),
}
_RECIPES = {  # learning rate and weight decay of all but the attention
    "chameleon": (0.01, 1e-6),
    "citeseer": (5e-4, 1e-3),
    "physics": (1e-3, 1e-5),
    "pubmed": (5e-3, 1e-3),
    "squirrel": (1e-4, 0.0),
    "tolokers": (5e-4, 1e-8),
}


def models() -> dict[str, dict[str, Any]]:
    """Return settings of the model by graph.

    Example:
        >>> models()["physics"]["order"]
        4
    """
    return {
        graph: dict(zip(_NAMES, values, strict=True)) for graph, values in sorted(_MODELS.items())
    }


def recipes() -> dict[str, dict[str, Any]]:
    """Return changes of the recipe by graph.

    Example:
        >>> recipes()["physics"]
        {'lr': 0.001, 'weight_decay': 1e-05}
    """
    return {
        graph: {"lr": rate, "weight_decay": decay}
        for graph, (rate, decay) in sorted(_RECIPES.items())
    }
