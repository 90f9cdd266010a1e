"""A search: trials by Optuna, stage by stage, in one process or several, going on where it was."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dhilgt import metrics
from dhilgt.cache import Cache
from dhilgt.errors import ArtifactError, ConfigError, DhilgtError
from dhilgt.settings import Settings
from dhilgt.signals import StopSignals
from dhilgt.store_files import explained
from dhilgt.store_target import BuildLock
from dhilgt.tune.objective import Objective, Source
from dhilgt.tune.space import Space, Stage, followed
from dhilgt.tune.storage import default_address, is_journal, open_storage, optuna
from dhilgt.workers import Workers, orphaned

PRUNERS = ("median", "hyperband", "none")
LATE = "late"  # marks a trial that was cut off and does not count
_MOST_FAILURES = 5  # at the start of a stage, before the search gives up
_SECONDS_BETWEEN_NOTES = 2.0


@dataclass(frozen=True)
class Search:
    """What is searched, and how.

    Attributes:
        source: Where the graph comes from.
        base: Settings outside the space, and the first trial's.
        space: What to choose from.
        folder: Where the search is kept.
        seeds: A trial's score is the mean over these.
        trials: How many in all stages together; None for no limit.
        budget: Seconds in all, earlier runs of this search counted in; None for no limit.
        pruner: "median", "hyperband" or "none": how trials that fall behind are ended.
        storage: An address of Optuna's; None for a file in the folder.
        name: Of the search in its storage; None for the folder's name.
        about: Plain values that say what data this is; a search goes on only with the same.
        cache: Keep hub labels in the user's cache.
        seed: Of the choices.
    """

    source: Source
    base: Settings
    space: Space
    folder: Path
    seeds: tuple[int, ...] = (0, 1, 2)
    trials: int | None = 60
    budget: float | None = None
    pruner: str = "median"
    storage: str | None = None
    name: str | None = None
    about: Mapping[str, Any] = field(default_factory=dict)
    cache: bool = True
    seed: int = 0

    def __post_init__(self) -> None:
        if self.trials is None and self.budget is None:
            raise ConfigError("a search without end; give a number of trials or a budget")
        stages = len(self.space.stages)
        if self.trials is not None and self.trials < stages:
            raise ConfigError(f"trials = {self.trials} for {stages} stages; give each one at least")
        if self.budget is not None and not self.budget > 0:
            raise ConfigError(f"budget = {self.budget!r}; give seconds above 0")
        if self.pruner not in PRUNERS:
            raise ConfigError(f"pruner = {self.pruner!r}; choose {' or '.join(PRUNERS)}")
        if not self.seeds:
            raise ConfigError("no seeds are given; a trial trains on each of them")

    @property
    def address(self) -> str:
        """The address of the storage."""
        return default_address(self.folder) if self.storage is None else self.storage

    @property
    def higher_is_better(self) -> bool:
        """Whether a larger score is the better one."""
        return metrics.metric(self.base.metric).higher_is_better

    def limit(self, number: int) -> int | None:
        """Gives the trials of all stages up to number ``number`` (from 0)."""
        return (
            None if self.trials is None else max(number + 1, round(self.trials * self._up(number)))
        )

    def time_limit(self, number: int) -> float:
        """Gives the seconds of all stages up to number ``number`` (from 0)."""
        return float("inf") if self.budget is None else self.budget * self._up(number)

    def _up(self, number: int) -> float:
        shares = [stage.share for stage in self.space.stages]
        return sum(shares[: number + 1]) / sum(shares)

    def study(self, number: int, storage: Any = None) -> Any:
        """Gives the Optuna study of a stage, made now or found."""
        package = optuna()
        stage = self.space.stages[number]
        return package.create_study(
            storage=open_storage(self.address) if storage is None else storage,
            study_name=f"{self.name or self.folder.resolve().name}: {number + 1} {stage.name}",
            direction="maximize" if self.higher_is_better else "minimize",
            load_if_exists=True,
            pruner=self._pruner(package),
        )

    def _pruner(self, package: Any) -> Any:
        epochs = self.base.epochs
        if self.pruner == "median":
            # Early scores say little while the learning rate still climbs.
            warm = max(int(self.base.warmup_epochs) + 1, epochs // 10)
            return package.pruners.MedianPruner(n_startup_trials=5, n_warmup_steps=warm)
        if self.pruner == "hyperband":
            return package.pruners.HyperbandPruner(
                min_resource=max(1, epochs // 10), max_resource=epochs * len(self.seeds)
            )
        return package.pruners.NopPruner()

    def facts(self) -> dict[str, Any]:
        """Gives what must be the same for trials to be compared."""
        return {
            "data": dict(self.about),
            "base": self.base.to_dict(),
            "space": self.space.to_dict(),
            "seeds": list(self.seeds),
            "pruner": self.pruner,
            "seed": self.seed,
        }


# ---- running it --------------------------------------------------------------------------------


def run_search(search: Search, *, jobs: int = 1, watch: Callable[[], None] | None = None) -> None:
    """Runs a search to its end, or goes on with one; its trials are in the storage afterwards.

    Args:
        search: What to do.
        jobs: Processes at work at once.
        watch: Called now and then.

    Raises:
        KeyboardInterrupt: When stopped by a signal; the same call goes on.
        ConfigError: If the storage holds a search of something else.
        DhilgtError: If no trial of a stage can be ended.
    """
    with explained("write in", search.folder):
        search.folder.mkdir(parents=True, exist_ok=True)
    with _alone(search):
        storage = open_storage(search.address)
        begun = stages_begun(search, storage)
        first = search.study(0, storage)
        _check_same(search, first)
        before = float(first.user_attrs.get("seconds", 0.0))
        clock = _Clock(first, before, watch)
        if is_journal(search.address):
            for number in range(max(begun, 1)):
                _take_back(search.study(number, storage))
        try:
            for number in range(max(begun - 1, 0), len(search.space.stages)):
                _run_stage(search, number, storage, jobs, clock)
        finally:
            clock.note(at_once=True)


@contextlib.contextmanager
def _alone(search: Search) -> Iterator[None]:
    """Keeps a second search out of the folder's file."""
    if not is_journal(search.address):
        yield
        return
    with explained("write in", search.folder):
        try:
            lock = BuildLock(search.folder / "search")
        except ArtifactError as error:
            raise ArtifactError(
                f"a search is at work in {search.folder} ({error}); use --jobs for more processes, "
                "or choose another folder"
            ) from None
    try:
        yield
    finally:
        lock.release()


class _Clock:
    """The seconds a search has taken so far, kept in its storage."""

    def __init__(self, study: Any, before: float, watch: Callable[[], None] | None) -> None:
        self._study, self._before, self._watch = study, before, watch
        self._start = self._noted = time.time()

    def spent(self) -> float:
        return self._before + time.time() - self._start

    def wall(self, seconds: float) -> float:
        """Gives the time of day at which so many seconds are spent."""
        return self._start + seconds - self._before

    def note(self, at_once: bool = False) -> None:
        if at_once or time.time() - self._noted > _SECONDS_BETWEEN_NOTES:
            self._noted = time.time()
            self._study.set_user_attr("seconds", round(self.spent(), 3))
            if self._watch is not None:
                self._watch()


def stages_begun(search: Search, storage: Any) -> int:
    """Gives how many stages have begun."""
    known = {one.study_name for one in optuna().get_all_study_summaries(storage)}
    count = 0
    prefix = search.name or search.folder.resolve().name
    for number, stage in enumerate(search.space.stages):
        if f"{prefix}: {number + 1} {stage.name}" in known:
            count = number + 1
    return count


def _check_same(search: Search, study: Any) -> None:
    facts = search.facts()
    known = study.user_attrs.get("facts")
    if known is None:
        study.set_user_attr("facts", facts)
        return
    for name, value in facts.items():
        if known.get(name) != value:
            what = name
            if isinstance(value, dict) and isinstance(known.get(name), dict):
                keys = [key for key in value if known[name].get(key) != value[key]]
                what = f"{name} ({', '.join(keys[:3])})" if keys else name
            raise ConfigError(
                f"{search.folder} holds a search with other {what}; choose another folder, or "
                "give the same settings to go on with it"
            )


def _take_back(study: Any) -> None:
    """Has trials that a killed process left behind tried again."""
    package = optuna()
    running = (package.trial.TrialState.RUNNING,)
    for trial in study.get_trials(deepcopy=False, states=running):
        _cut(study, trial.number, trial._trial_id, trial.params)


def _cut(study: Any, number: int, trial_id: int, params: Mapping[str, Any]) -> None:
    """Marks a trial as cut off and puts its choices back in the queue."""
    package = optuna()
    study._storage.set_trial_user_attr(trial_id, LATE, True)
    study.tell(number, state=package.trial.TrialState.FAIL)
    if params:
        study.enqueue_trial(dict(params))


def fixed_before(search: Search, number: int, storage: Any) -> dict[str, Any]:
    """Gives all settings a stage begins with: the base, and the best of each stage before it."""
    values = search.base.to_dict()
    for earlier in range(number):
        stage = search.space.stages[earlier]
        chosen = _best_params(search.study(earlier, storage), search, earlier)
        values = followed(values | chosen, {one.name for one in stage.parameters})
    return values


def _best_params(study: Any, search: Search, number: int) -> dict[str, Any]:
    try:
        found: dict[str, Any] = dict(study.best_trial.user_attrs["chosen"])
    except ValueError:
        name = search.space.stages[number].name
        raise DhilgtError(
            f"no trial of stage {name!r} ended in its time; raise --budget, or lower epochs"
        ) from None
    return found


def _run_stage(search: Search, number: int, storage: Any, jobs: int, clock: _Clock) -> None:
    study = search.study(number, storage)
    stage = search.space.stages[number]
    base = fixed_before(search, number, storage)
    if not study.get_trials(deepcopy=False):
        own = stage.first(base)
        if own is not None:  # nothing found can then be worse than what was there
            study.enqueue_trial(own)
    total = search.limit(number)
    earlier = sum(counted(search.study(at, storage)) for at in range(number))
    limit = None if total is None else total - earlier
    soft = clock.wall(search.time_limit(number))
    hard = clock.wall(float("inf") if search.budget is None else search.budget)
    task = _Task(search, number, base, limit, soft, hard)
    if jobs == 1:
        stopped = _work(task, 0, clock.note)
    else:
        with Workers(jobs) as workers:
            for at in range(jobs):
                workers.start(f"process {at + 1}", _work, task, os.getpid())
            ends = [value for _, value in workers.results(clock.note)]
        stopped = any(ends)
    clock.note(at_once=True)
    if stopped:
        raise KeyboardInterrupt("stopped")
    _best_params(study, search, number)


def counted(study: Any) -> int:
    """Gives the trials that count: all that have begun, but those that were cut off."""
    waiting = optuna().trial.TrialState.WAITING
    return sum(
        one.state != waiting and not one.user_attrs.get(LATE)
        for one in study.get_trials(deepcopy=False)
    )


# ---- in each process ---------------------------------------------------------------------------


@dataclass(frozen=True)
class _Task:
    """What a process is told."""

    search: Search
    number: int
    base: dict[str, Any]
    limit: int | None
    soft: float
    hard: float

    @property
    def stage(self) -> Stage:
        return self.search.space.stages[self.number]


class _OutOfTimeError(Exception):
    """The time is up, or whoever wanted the result is gone."""


def _work(task: _Task, parent: int, tick: Callable[..., None] | None = None) -> bool:
    """Runs trials of a stage until there are enough; True if a signal ended it."""
    search = task.search
    study = search.study(task.number)
    objective = Objective(search.source, search.seeds, cache=Cache() if search.cache else None)
    with StopSignals() as stop:
        while time.time() < task.soft and not stop.requested:
            if parent and orphaned(parent):
                break
            if task.limit is not None and counted(study) >= task.limit:
                break
            trial = study.ask()
            if task.limit is not None and _place(study, trial.number) > task.limit:
                # Others asked at the same moment.
                study._storage.set_trial_user_attr(trial._trial_id, LATE, True)
                study.tell(trial, state=optuna().trial.TrialState.FAIL)
                break
            _try(task, study, trial, objective, parent, tick)
            _refuse_hopeless(study)
    return stop.requested


def _place(study: Any, number: int) -> int:
    waiting = optuna().trial.TrialState.WAITING
    return sum(
        one.number <= number and one.state != waiting and not one.user_attrs.get(LATE)
        for one in study.get_trials(deepcopy=False)
    )


def _try(
    task: _Task,
    study: Any,
    trial: Any,
    objective: Objective,
    parent: int,
    tick: Callable[..., None] | None,
) -> None:
    package = optuna()
    states = package.trial.TrialState
    # By place, so that a search that goes on chooses as one that was never stopped.
    seed = (task.search.seed * 1_000_003 + _place(study, trial.number)) % 2**32
    study.sampler = package.samplers.TPESampler(
        seed=seed, n_startup_trials=10, constant_liar=bool(parent)
    )

    def alive() -> None:
        if tick is not None:
            tick()
        if time.time() > task.hard or (parent and orphaned(parent)):
            raise _OutOfTimeError

    def report(step: int, score: float) -> None:
        trial.report(score, step)
        if trial.should_prune():
            raise package.TrialPruned

    try:
        values = task.stage.choose(trial, task.base)
        chosen = {one.name: values[one.name] for one in task.stage.parameters}
        trial.set_user_attr("chosen", chosen)
        outcome = objective(Settings.from_dict(values), report, alive)
    except package.TrialPruned:
        study.tell(trial, state=states.PRUNED)
    except (_OutOfTimeError, KeyboardInterrupt):
        _cut(study, trial.number, trial._trial_id, trial.params)
    except (DhilgtError, MemoryError, RuntimeError, ValueError) as error:
        # Settings that do not fit together, a loss that is not a number, a GPU that is full.
        trial.set_user_attr("error", f"{type(error).__name__}: {error}"[:500])
        study.tell(trial, state=states.FAIL)
    else:
        for name, value in outcome.to_dict().items():
            trial.set_user_attr(name, value)
        study.tell(trial, outcome.score)
    if tick is not None:
        tick()


def _refuse_hopeless(study: Any) -> None:
    """Ends a search whose trials all fail, with the reason of the last."""
    trials = study.get_trials(deepcopy=False)
    errors = [one.user_attrs["error"] for one in trials if "error" in one.user_attrs]
    ended = [one for one in trials if one.state.name in ("COMPLETE", "PRUNED")]
    if len(errors) >= _MOST_FAILURES and not ended:
        raise DhilgtError(f"the first {len(errors)} trials failed, the last with: {errors[-1]}")
