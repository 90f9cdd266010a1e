"""The trials of a search, as each worker process runs them."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from dhilgt.classifier.cache import Cache
from dhilgt.errors import DhilgtError
from dhilgt.settings.settings import Settings
from dhilgt.training.signals import StopSignals
from dhilgt.tune.objective import Objective
from dhilgt.tune.storage import open_storage, optuna
from dhilgt.utils.devices import free_gpu
from dhilgt.utils.workers import orphaned

if TYPE_CHECKING:
    from dhilgt.tune.space import Stage
    from dhilgt.tune.study import Search

LATE = "late"
"""Marks a trial that was cut off and does not count."""

_MOST_FAILURES = 5  # at the start of a stage, before the search ends with an error
_SECONDS_BETWEEN_LOOKS = 0.2


@dataclass(frozen=True)
class Task:
    """The work of a stage.

    Attributes:
        run: Identifies the call of `run_search`.
        base: All settings outside the stage.
        limit: Trials; None for no limit.
        soft: Time of day from which no trial is begun.
        hard: Time of day at which trials are cut off.
    """

    run: str
    base: dict[str, Any]
    limit: int | None
    soft: float
    hard: float

    def to_dict(self) -> dict[str, Any]:
        """Return plain values; None for times without a limit."""
        return {
            name: None if value == float("inf") else value for name, value in asdict(self).items()
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Task:
        """Return what `to_dict` wrote."""
        ends = {name: values[name] for name in ("soft", "hard")}
        endless = {name: float("inf") if at is None else at for name, at in ends.items()}
        return cls(values["run"], dict(values["base"]), values["limit"], **endless)


class _OutOfTimeError(Exception):
    """The time is up, or the process that started this one has ended."""


def work(
    search: Search,
    first: int,
    last: int,
    run: str,
    hard: float,
    parent: int,
    tick: Callable[..., None] | None = None,
) -> bool:
    """Run trials of some stages, each as soon as it is open.

    Args:
        search: The search.
        first: Number of the first stage.
        last: Number after that of the last.
        run: Whose tasks to take.
        hard: Time of day to end at.
        parent: Number of the process that started this one; 0 if it is this one.
        tick: Called now and then.

    Returns:
        Whether a signal ended it.
    """
    storage = open_storage(search.address)
    objective = Objective(search.source, search.seeds, cache=Cache() if search.cache else None)
    with StopSignals() as stop:

        def ends() -> bool:
            return stop.requested or time.time() >= hard or bool(parent and orphaned(parent))

        for number in range(first, last):
            study = search.study(number, storage)
            while (study.user_attrs.get("task") or {}).get("run") != run and not ends():
                time.sleep(_SECONDS_BETWEEN_LOOKS)
            if ends():
                break
            task = Task.from_dict(study.user_attrs["task"])
            stage = search.space.stages[number]
            while time.time() < task.soft and not ends():
                trial = _next_trial(study, task)
                if trial is None:
                    break
                _Attempt(task, stage, search.seed, study, parent, tick).run(trial, objective)
                _refuse_hopeless(study)
    return stop.requested


def _next_trial(study: Any, task: Task) -> Any:
    """Return the next trial, None if there are enough."""
    if task.limit is not None and counted(study) >= task.limit:
        return None
    trial = study.ask()
    if task.limit is not None and counted(study, trial.number) > task.limit:
        trial.set_user_attr(LATE, True)  # others asked at the same moment
        study.tell(trial, state=optuna().trial.TrialState.FAIL)
        return None
    return trial


def counted(study: Any, last: float = float("inf")) -> int:
    """Return how many trials up to a number have started, without those that were cut off."""
    waiting = optuna().trial.TrialState.WAITING
    return sum(
        one.number <= last and one.state != waiting and not one.user_attrs.get(LATE)
        for one in study.get_trials(deepcopy=False)
    )


class _Attempt:
    """One trial, from its choices to its score."""

    def __init__(
        self,
        task: Task,
        stage: Stage,
        seed: int,
        study: Any,
        parent: int,
        tick: Callable[..., None] | None,
    ) -> None:
        self._task, self._stage, self._seed = task, stage, seed
        self._study, self._parent, self._tick = study, parent, tick

    def run(self, trial: Any, objective: Objective) -> None:
        """Try the settings and report the result to the study."""
        package, study = optuna(), self._study
        states = package.trial.TrialState
        # By place, so that a continued search chooses as one that was never stopped.
        seed = (self._seed * 1_000_003 + counted(study, trial.number)) % 2**32
        study.sampler = package.samplers.TPESampler(
            seed=seed, n_startup_trials=10, constant_liar=bool(self._parent)
        )

        def report(step: int, score: float) -> None:
            trial.report(score, step)
            if trial.should_prune():
                raise package.TrialPruned

        try:
            values = self._stage.choose(trial, self._task.base)
            chosen = {one.name: values[one.name] for one in self._stage.parameters}
            trial.set_user_attr("chosen", chosen)
            outcome = objective(Settings.from_dict(values), report, self._alive)
        except package.TrialPruned:
            study.tell(trial, state=states.PRUNED)
        except (_OutOfTimeError, KeyboardInterrupt):
            _cut(study, trial.number, trial._trial_id, trial.params)
        except (DhilgtError, MemoryError, RuntimeError, ValueError) as error:
            # Settings that contradict each other, a loss of NaN, a full GPU.
            trial.set_user_attr("error", f"{type(error).__name__}: {error}"[:500])
            study.tell(trial, state=states.FAIL)
        else:
            for name, value in outcome.to_dict().items():
                trial.set_user_attr(name, value)
            study.tell(trial, outcome.score)
        free_gpu()
        if self._tick is not None:
            self._tick()

    def _alive(self) -> None:
        if self._tick is not None:
            self._tick()
        if time.time() > self._task.hard or (self._parent and orphaned(self._parent)):
            raise _OutOfTimeError


def take_back(study: Any) -> None:
    """Queue the trials of killed processes again."""
    package = optuna()
    running = (package.trial.TrialState.RUNNING,)
    for trial in study.get_trials(deepcopy=False, states=running):
        _cut(study, trial.number, trial._trial_id, trial.params)


def _cut(study: Any, number: int, trial_id: int, params: Mapping[str, Any]) -> None:
    """Mark a trial as cut off and put its choices back in the queue."""
    package = optuna()
    study._storage.set_trial_user_attr(trial_id, LATE, True)
    study.tell(number, state=package.trial.TrialState.FAIL)
    if params:
        study.enqueue_trial(dict(params))


def failures(study: Any) -> list[str]:
    """Return the error messages of failed trials."""
    trials = study.get_trials(deepcopy=False)
    return [one.user_attrs["error"] for one in trials if "error" in one.user_attrs]


def _refuse_hopeless(study: Any) -> None:
    """End a search whose trials all fail, with the reason of the last."""
    errors = failures(study)
    trials = study.get_trials(deepcopy=False)
    ended = [one for one in trials if one.state.name in ("COMPLETE", "PRUNED")]
    if len(errors) >= _MOST_FAILURES and not ended:
        raise DhilgtError(f"the first {len(errors)} trials failed, the last with: {errors[-1]}")
