"""What a run of `dhilgt train` is asked to be: recipe, settings that hold, budget."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dhilgt.classifier.parameters import PAPER_SETTINGS
from dhilgt.cli import shell
from dhilgt.cli.inputs import Inputs
from dhilgt.datasets.registry import info
from dhilgt.report.run.tried import search_record
from dhilgt.settings import recipes, yaml_files
from dhilgt.settings.settings import Settings
from dhilgt.settings.yaml_files import AUTO, PAPER

if TYPE_CHECKING:
    from dhilgt.classifier.classifier import NodeClassifier

_KNOWN_BEFORE = ("seed", "validation", "device", "metric", "threads")


@dataclass(frozen=True)
class Request:
    """What a run is asked to be.

    Attributes:
        recipe: "auto" to search, "paper" for fixed settings.
        given: Settings that hold, by name; with "paper" all of them.
        budget: Seconds that the search may take; None for as long as it takes.

    Example:
        >>> Request("auto", {"lr": 0.01}).with_seed(3).settings.seed
        3
    """

    recipe: str
    given: Mapping[str, Any] = field(default_factory=dict)
    budget: float | None = None

    @property
    def settings(self) -> Settings:
        """What is known before any training; of a search the settings that it does not choose."""
        fixed = self.recipe != AUTO
        return Settings.from_dict(
            {name: one for name, one in self.given.items() if fixed or name in _KNOWN_BEFORE}
        )

    def with_seed(self, seed: int) -> "Request":
        """Return the same request with another seed."""
        return replace(self, given={**self.given, "seed": seed})

    def classifier(self, **options: Any) -> "NodeClassifier":
        """Return the classifier to train.

        Args:
            **options: Parameters that are no settings, such as ``cache`` and ``progress``.
        """
        import dhilgt

        return dhilgt.NodeClassifier(
            recipe=self.recipe, budget=self.budget, **self.given, **options
        )

    def fits(self, clf: "NodeClassifier") -> bool:
        """Return whether a trained classifier is what this asks for."""
        searched = search_record(clf) is not None
        own = clf.settings_.to_dict()
        return searched == (self.recipe == AUTO) and all(
            own[name] == value for name, value in self.given.items()
        )

    def text(self, data: Mapping[str, Any]) -> str:
        """Return the file of settings that asks for the same.

        Args:
            data: Where the graph comes from.
        """
        return yaml_files.settings_text(self.given, data, recipe=self.recipe, budget=self.budget)


def requested(
    config: Path | None,
    flags: Mapping[str, Any],
    sources: Mapping[str, Any],
    recipe: str | None = None,
    budget: float | None = None,
) -> tuple[Request, Inputs]:
    """Return what a command line asks for: it overrides a file, which overrides a recipe.

    Args:
        config: File of settings.
        flags: Settings of the command line.
        sources: Inputs of the command line.
        recipe: Its recipe; None for the one that the file names, else "auto".
        budget: Its seconds for a search.
    """
    values, inputs = file_values(config, sources)
    named, seconds = values.pop("recipe", None), values.pop("budget", None)
    if named is None and _is_complete(values):
        named = PAPER
    name = recipe or named or AUTO
    if name != AUTO and budget is not None:
        raise shell.usage_error(
            "a budget is for the search of --recipe auto; a training with fixed settings takes "
            "--max-seconds",
            "--budget",
        )
    given = {**_base(name, inputs.dataset), **values, **flags}
    if name == AUTO:
        for one in fields(Settings):  # each alone: candidates decide what they mean together
            if one.name in given:
                one.metadata["check"](one.name, given[one.name])
        request = Request(AUTO, given, seconds if budget is None else budget)
    else:
        request = Request(PAPER, Settings.from_dict(given).to_dict())
    check_metric(request.settings.metric)
    return request, inputs


def file_values(config: Path | None, sources: Mapping[str, Any]) -> tuple[dict[str, Any], Inputs]:
    """Return what a file of settings says, and the inputs that it and the command line name.

    Args:
        config: The file; None for none.
        sources: Inputs of the command line, which override those of the file.
    """
    if config is None:
        return {}, Inputs().updated(dict(sources))
    values = yaml_files.read_settings(config)
    inputs = Inputs.from_file(values.pop("data", {}), config)
    return values, inputs.updated(dict(sources))


def _base(name: str, dataset: str | None) -> dict[str, Any]:
    """Return the settings of a recipe, which everything else overrides."""
    if name == AUTO:
        return {} if dataset is None else {"metric": info(dataset).metric}
    if name == PAPER and dataset is None:
        return dict(PAPER_SETTINGS)  # the others are the defaults of `Settings`
    return recipes.recipe(name, dataset)


def _is_complete(values: Mapping[str, Any]) -> bool:
    """Return whether a file has all settings, as runs of versions without recipes wrote them."""
    # A person writes a few; later versions have more settings than the one that wrote the file.
    return len(values) > len(fields(Settings)) // 2


def check_metric(name: str) -> None:
    """Raise for the name of a metric that does not exist."""
    from dhilgt import metrics

    metrics.metric(name)
