"""All systems by name."""

from __future__ import annotations

from importlib import import_module
from os import PathLike
from typing import Any

import torch

from dhilgt.baselines.base import ARCHITECTURE, Baseline, BaselineConfig, Shape
from dhilgt.errors import ConfigError
from dhilgt.graph.graph import Graph
from dhilgt.model.store import load_model
from dhilgt.utils.checks import name_hint

# Name of each system, its module in dhilgt.baselines and its class. The tests run all of them.
_SYSTEMS = {
    "ansgt": ("ansgt.model", "ANSGT"),
    "difformer": ("difformer", "DIFFormer"),
    "gcn": ("gcn", "GCN"),
    "goat": ("goat.model", "GOAT"),
    "graphgps": ("graphgps.model", "GraphGPS"),
    "graphormer": ("graphormer", "Graphormer"),
    "grpe": ("grpe", "GRPE"),
    "hsgt": ("hsgt.model", "HSGT"),
    "linkx": ("linkx", "LINKX"),
    "mlp": ("mlp", "MLP"),
    "nagphormer": ("nagphormer", "NAGphormer"),
    "nodeformer": ("nodeformer.model", "NodeFormer"),
    "polyformer": ("polyformer.model", "PolyFormer"),
    "polynormer": ("polynormer", "Polynormer"),
    "sage": ("sage", "SAGE"),
    "sgformer": ("sgformer", "SGFormer"),
}


def names() -> list[str]:
    """Return the names of all systems.

    Example:
        >>> "gcn" in names()
        True
    """
    return sorted(_SYSTEMS)


def system(name: str) -> type[Baseline]:
    """Return the class of a system.

    Raises:
        ConfigError: If there is none of this name.
    """
    if name not in _SYSTEMS:
        hint = name_hint(str(name).lower(), _SYSTEMS, cutoff=0.4)
        raise ConfigError(f"{name!r} is not a baseline; {hint}")
    module, cls = _SYSTEMS[name]
    baseline: type[Baseline] = getattr(import_module(f"dhilgt.baselines.{module}"), cls)
    return baseline


def name_of(cls: type[Baseline]) -> str:
    """Return the name of a system from its class."""
    for name in _SYSTEMS:
        if system(name) is cls:
            return name
    raise ConfigError(
        f"{cls.__name__} is not a registered baseline; add it to dhilgt.baselines.registry"
    )


def create(
    name: str, graph: Graph, *, variant: str = "paper", seed: int = 0, **settings: Any
) -> Baseline:
    """Return a system, created for a graph and ready to train on it.

    Args:
        name: One of `names()`.
        graph: A graph with features and labels.
        variant: Name of the settings to start from; see `describe`.
        seed: Seed of the initial weights and of the draws of `Baseline.prepare`.
        **settings: The system's own settings, which override those of the variant.

    Raises:
        ConfigError: If a name or a setting is unknown or invalid.
        GraphError: If the graph has no features or no labels.

    Example:
        >>> import dhilgt
        >>> graph = dhilgt.generate(60, 4, seed=1, num_features=8)
        >>> model = create("gcn", graph, hidden_channels=4)
        >>> trainer = dhilgt.Trainer(model, model.train_config(epochs=3), device="cpu")
        >>> trainer.fit(model.train_batches(range(30))).epochs
        3
        >>> trainer.predict(model.inference_batches())[1].shape
        (60, 5)
    """
    cls = system(name)
    variants = cls.variants()
    if variant not in variants:
        raise ConfigError(f"{name} has no variant {variant!r}; choose {', '.join(variants)}")
    chosen = cls.settings_type.from_dict({**variants[variant], **settings})
    model = _build(cls, chosen, Shape.of(graph), seed)
    model.prepare(graph)
    return model


def describe(name: str) -> dict[str, Any]:
    """Return title, source, batches, settings, variants and recipe of a system.

    Example:
        >>> describe("gcn")["title"]
        'GCN'
    """
    cls = system(name)
    return {
        "name": name,
        "title": cls.about.title,
        "source": cls.about.source,
        "batches": cls.about.batches,
        "settings": cls.settings_type().to_dict(),
        "variants": cls.variants(),
        "recipe": dict(cls.recipe),
        "variant_recipes": cls.variant_recipes(),
    }


def load(folder: str | PathLike[str], graph: Graph) -> Baseline:
    """Return the system that `Baseline.save` wrote, prepared for a graph.

    Args:
        folder: The folder of `Baseline.save`.
        graph: The graph it was trained on, or another with as many features and classes. Systems
            with weights per node need a graph with as many nodes.

    Raises:
        ArtifactError: If the folder does not hold a baseline, or is damaged.
        GraphError: If the graph does not fit.
    """

    def read(values: dict[str, Any]) -> BaselineConfig:
        config = BaselineConfig.from_dict(values)
        system(config.system).settings_type.from_dict(config.settings)
        return config

    def build(config: BaselineConfig) -> Baseline:
        cls = system(config.system)
        settings = cls.settings_type.from_dict(config.settings)
        return _build(cls, settings, config.shape, config.seed)

    config, tensors = load_model(
        folder, lambda config: build(config).state_dict(), read, ARCHITECTURE
    )
    model = build(config)
    model.load_state_dict(tensors)
    model.prepare(graph)
    return model


def _build(cls: type[Baseline], settings: Any, shape: Shape, seed: int) -> Baseline:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return cls(settings, shape, seed)
