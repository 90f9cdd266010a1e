"""What a search takes: time, memory and disk, from estimates of its candidates."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from dhilgt.classifier.auto import halving
from dhilgt.classifier.auto.entries import Entry
from dhilgt.classifier.auto.start import taking_part
from dhilgt.classifier.inputs import prepare
from dhilgt.classifier.planning import Plan, StagePlan, checkpoint_bytes, plan
from dhilgt.graph.graph import Graph
from dhilgt.settings.settings import Settings
from dhilgt.utils.devices import choose_device


@dataclass(frozen=True)
class CandidateCost:
    """What one candidate takes.

    Attributes:
        name: Of the candidate.
        about: What it learns from.
        num_parameters: Numbers in its model.
        seconds: Of one training to the end.
        ram_bytes: Peak memory of the process.
        gpu_bytes: Peak memory of the GPU; 0 without one.
    """

    name: str
    about: str
    num_parameters: int
    seconds: float
    ram_bytes: int
    gpu_bytes: int


@dataclass(frozen=True)
class SearchCosts:
    """What a search takes.

    Attributes:
        candidates: In the order they are tried.
        rungs: Epochs at which they are compared.
        seeds: Trainings of each.
        last_seeds: Trainings of each that is averaged.
        plan: The whole search, stage by stage.
    """

    candidates: tuple[CandidateCost, ...]
    rungs: tuple[int, ...]
    seeds: int
    last_seeds: int
    plan: Plan

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        return {
            **self.plan.to_dict(),
            "candidates": [asdict(one) for one in self.candidates],
            "rungs": list(self.rungs),
            "seeds": self.seeds,
            "last_seeds": self.last_seeds,
        }


def search_costs(
    graph: Graph, given: Mapping[str, Any], budget: float | None = None
) -> SearchCosts:
    """Predict what the search of `recipe="auto"` takes on a graph; nothing is built.

    Args:
        graph: The graph, with features and labels.
        given: Settings that the user gave.
        budget: Seconds that the search may take; None for any.

    Raises:
        ConfigError: If the graph or a setting is not fit for training.
    """
    known = {one: given[one] for one in ("seed", "validation", "device") if one in given}
    before = Settings.from_dict(known)
    inputs = prepare(
        graph, None, train=None, val=None, validation=before.validation, seed=before.seed
    )
    entries, seeds, last_seeds = taking_part(inputs, given, choose_device(before.device))
    plans = {one.name: plan(inputs.graph, one.settings) for one in entries}
    rungs = halving.rungs(max(one.settings.epochs for one in entries))
    costs = tuple(_cost(one, plans[one.name]) for one in entries)
    trainings = _Trainings(rungs, seeds, last_seeds)
    return SearchCosts(costs, rungs, seeds, last_seeds, _whole(entries, plans, trainings, budget))


@dataclass(frozen=True)
class _Trainings:
    """How often and how long candidates are trained."""

    rungs: tuple[int, ...]
    seeds: int
    last_seeds: int


def _cost(entry: Entry, predicted: Plan) -> CandidateCost:
    return CandidateCost(
        name=entry.name,
        about=entry.about,
        num_parameters=predicted.num_parameters,
        seconds=predicted.stage("training").seconds,
        ram_bytes=predicted.ram_bytes,
        gpu_bytes=predicted.gpu_bytes,
    )


def _whole(
    entries: list[Entry],
    plans: Mapping[str, Plan],
    how: _Trainings,
    budget: float | None,
) -> Plan:
    """Return the plan of the search: labels once, tokens once per kind of row, all trainings."""
    kinds: dict[Any, list[StagePlan]] = {}
    for one in entries:
        kind = tuple(sorted(one.settings.token_options().items()))
        kinds.setdefault(kind, []).append(plans[one.name].stage("tokens"))
    # A model without layers needs no tokens of its kind.
    tokens = [max(same, key=lambda one: one.seconds) for same in kinds.values()]
    trainings = [one.stage("training") for one in plans.values()]
    predictions = [one.stage("prediction") for one in plans.values()]
    most = max(plans.values(), key=lambda one: one.num_parameters)
    seconds = min(_trained_seconds(entries, plans, how), budget or math.inf)
    limit = "at most, if the slowest go on" if budget is None else "the budget"
    return Plan(
        stages=(
            max((one.stage("labels") for one in plans.values()), key=lambda one: one.seconds),
            StagePlan(
                "tokens",
                sum(one.seconds for one in tokens),
                max(one.ram_bytes for one in tokens),
                sum(one.disk_bytes for one in tokens),
                0,
                tokens[0].sure,
            ),
            StagePlan(
                "search",
                seconds,
                max(one.ram_bytes for one in trainings),
                # Each training has its checkpoints until its candidate is dropped.
                max(one.disk_bytes for one in trainings)
                + how.last_seeds
                * sum(checkpoint_bytes(one.num_parameters) for one in plans.values()),
                max(one.gpu_bytes for one in trainings),
                f"{limit}; time within a factor of 2",
            ),
            StagePlan(
                "prediction",
                halving.FINALISTS * how.last_seeds * max(one.seconds for one in predictions),
                max(one.ram_bytes for one in predictions),
                0,
                max(one.gpu_bytes for one in predictions),
                "by all models that are averaged; within a factor of 2",
            ),
        ),
        num_parameters=most.num_parameters,
        num_train=most.num_train,
        device=most.device,
    )


def _trained_seconds(entries: list[Entry], plans: Mapping[str, Plan], how: _Trainings) -> float:
    """Return the seconds of all trainings where the slowest candidates are never dropped."""

    def spent(entry: Entry, until: int) -> float:
        whole = entry.settings.epochs
        return plans[entry.name].stage("training").seconds * min(until, whole) / whole

    contenders = [one for one in entries if one.contends]
    alive, before, total, finalists = len(contenders), 0, 0.0, 0
    for until in how.rungs:
        slowest = sorted(
            (spent(one, until) - spent(one, before) for one in contenders), reverse=True
        )
        total += sum(slowest[:alive])
        if alive < len(entries):  # the features alone are trained to their end in any case
            total += spent(entries[0], until) - spent(entries[0], before)
        finalists, alive, before = alive, halving.num_survivors(alive), until
    last = sorted((spent(one, how.rungs[-1]) for one in contenders), reverse=True)
    return how.seeds * total + sum(last[:finalists]) * (how.last_seeds - how.seeds)
