"""The start of a search: who takes part, and whether one in the run's folder goes on."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import torch

from dhilgt.classifier.auto.entries import Entry, entries
from dhilgt.classifier.auto.portfolio import (
    WITHOUT_CHOICE,
    GraphFacts,
    num_last_seeds,
    num_seeds,
    portfolio,
)
from dhilgt.classifier.auto.record import SearchRecord, read_record
from dhilgt.classifier.auto.search import Continuation, Search
from dhilgt.classifier.cache import Cache
from dhilgt.classifier.inputs import FitInputs
from dhilgt.classifier.origin import INPUTS, check_inputs, input_digests
from dhilgt.errors import ConfigError, setting
from dhilgt.training.distributed import Group
from dhilgt.training.run_folder import BUNDLE

_GIVEN = "given"
_FREE = frozenset({"device", "threads", "attention", "validation", "cuda_graph"})


def begin(
    inputs: FitInputs,
    given: Mapping[str, Any],
    device: torch.device,
    *,
    cache: Cache | None,
    progress: bool | Literal["auto"],
    budget: float | None,
    run_dir: Path | None,
    resume: bool,
    goes_on: tuple[str | None, str],
) -> Search | None:
    """Return a search, new or to be continued; None where the one in the folder has ended.

    Args:
        inputs: The graph and the split.
        given: Settings that the user gave.
        device: Where to train.
        cache: Keeps labels and tokens between runs.
        progress: False for no display.
        budget: Seconds; None for any.
        run_dir: Folder of the run; None writes nothing.
        resume: Whether to go on with the search in the folder.
        goes_on: Command and call that go on with it, for messages.

    Raises:
        ConfigError: If a setting is wrong, or the search in the folder began with other inputs or
            settings.
    """
    listed, seeds, last_seeds = taking_part(inputs, given, device)
    began: dict[str, Any] = {}
    earlier = None
    with Group().agreed():
        if run_dir is not None:
            values = listed[-1].settings.to_dict()
            began = {
                INPUTS: input_digests(inputs.graph, inputs.classes),
                _GIVEN: {name: values[name] for name in given},
            }
            earlier = read_record(run_dir) if resume else None
            if earlier is not None:
                _check_same(earlier, began, listed, run_dir)
                if (run_dir / BUNDLE).exists():
                    return None
    return Search(
        inputs,
        listed,
        seeds,
        last_seeds,
        cache=cache,
        progress=progress,
        budget=budget,
        run_dir=run_dir,
        earlier=earlier,
        began=began,
        goes_on=Continuation(*goes_on),
    )


def taking_part(
    inputs: FitInputs, given: Mapping[str, Any], device: torch.device
) -> tuple[list[Entry], int, int]:
    """Return the candidates of a search with all of their settings, and the trainings of each.

    These are the trainings of a rung, and those of a candidate that is averaged.

    Args:
        inputs: The graph and the split.
        given: Settings that the user gave.
        device: Where to train.

    Raises:
        ConfigError: If the given settings fit no candidate.
    """
    facts = graph_facts(inputs, device)
    listed = portfolio(facts)
    if not facts.num_val:
        listed = tuple(one for one in listed if one.name == WITHOUT_CHOICE) or listed[:1]
    return entries(listed, given), num_seeds(facts), num_last_seeds(facts)


def graph_facts(inputs: FitInputs, device: torch.device) -> GraphFacts:
    """Return what the portfolio depends on."""
    graph = inputs.graph
    return GraphFacts(
        num_nodes=graph.num_nodes,
        num_edges=graph.num_edges,
        num_features=int(graph.features.shape[1]),
        num_train=len(inputs.split["train"]),
        num_val=len(inputs.split.get("val", ())),
        num_classes=len(inputs.classes),
        device=device.type,
    )


def _check_same(
    earlier: SearchRecord, began: Mapping[str, Any], now: list[Entry], run_dir: Path
) -> None:
    """Raise if the search in a folder began with something else."""
    before = earlier.began.get(_GIVEN, {})
    check_inputs(earlier.began.get(INPUTS, {}), began[INPUTS], str(run_dir), "search")
    for name in {*before, *began[_GIVEN]} - _FREE:
        then, value = before.get(name, _MISSING), began[_GIVEN].get(name, _MISSING)
        if then != value:
            raise ConfigError(
                f"{_said(name, value)}, but the search in this folder began with "
                f"{_said(name, then)}; resume with that, or choose another folder"
            )
    tried = [(one.name, _without_free(one.settings)) for one in earlier.candidates]
    if tried != [(one.name, _without_free(one.changed)) for one in now]:
        raise ConfigError(
            f"the search in {run_dir} was begun by another version of dhilgt, with other "
            "candidates; go on with that version, or choose another folder"
        )


_MISSING = object()


def _said(name: str, value: Any) -> str:
    return f"{name} not given" if value is _MISSING else setting(name, value)


def _without_free(settings: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in settings.items() if name not in _FREE}
