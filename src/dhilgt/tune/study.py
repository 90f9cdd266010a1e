"""A search: trials by Optuna, stage by stage, in one process or several; it can be continued."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from dhilgt import metrics
from dhilgt.classifier.origin import Digests, check_inputs
from dhilgt.errors import ArtifactError, ConfigError, DhilgtError, setting
from dhilgt.features.scale import AUTO, NONE
from dhilgt.settings.settings import Settings
from dhilgt.store.files import explained
from dhilgt.store.target import BuildLock
from dhilgt.training.signals import StopSignals
from dhilgt.tune.objective import Source
from dhilgt.tune.space import Space, followed
from dhilgt.tune.storage import JOURNAL, default_address, is_journal, open_storage, optuna
from dhilgt.tune.trials import Task, counted, failures, take_back, work
from dhilgt.utils.workers import Workers

PRUNERS = ("median", "hyperband", "none")
_SECONDS_BETWEEN_NOTES = 2.0
_SECONDS_BETWEEN_LOOKS = 0.5


@dataclass(frozen=True)
class Search:
    """What is searched, and how.

    Attributes:
        source: Where the graph comes from.
        base: Settings outside the space, and those of the first trial.
        space: What to choose from.
        folder: Where the search is kept.
        seeds: A trial's score is the mean over these.
        trials: How many in all stages together; None for no limit.
        budget: Seconds in all, earlier runs of this search counted in; None for no limit.
        pruner: "median", "hyperband" or "none": which trials are ended early.
        storage: An address of Optuna's; None for a file in the folder.
        name: Of the search in its storage; None for the folder's name.
        about: Plain values that identify the data; a search is only continued with the same.
        inputs: The `input_digests` of the graph, compared likewise; None compares nothing.
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
    inputs: Digests | None = None
    cache: bool = True
    seed: int = 0

    def __post_init__(self) -> None:
        if self.trials is None and self.budget is None:
            raise ConfigError("a search without end; give a number of trials or a budget")
        stages = len(self.space.stages)
        if self.trials is not None and self.trials < stages:
            raise ConfigError(
                f"{setting('trials', self.trials)} for {stages} stages; give each one at least"
            )
        if self.budget is not None and not self.budget > 0:
            raise ConfigError(f"{setting('budget', self.budget)}; give seconds above 0")
        if self.pruner not in PRUNERS:
            raise ConfigError(f"{setting('pruner', self.pruner)}; choose {' or '.join(PRUNERS)}")
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

    def as_good(self, new: float, old: float | None) -> bool:
        """Return whether a score is at least as good as another, or there is no other."""
        return old is None or (new >= old if self.higher_is_better else new <= old)

    def limit(self, number: int) -> int | None:
        """Return the trials of all stages up to number ``number`` (from 0)."""
        return (
            None if self.trials is None else max(number + 1, round(self.trials * self._up(number)))
        )

    def time_limit(self, number: int) -> float:
        """Return the seconds of all stages up to number ``number`` (from 0)."""
        return float("inf") if self.budget is None else self.budget * self._up(number)

    def _up(self, number: int) -> float:
        shares = [stage.share for stage in self.space.stages]
        return sum(shares[: number + 1]) / sum(shares)

    def study(self, number: int, storage: Any = None) -> Any:
        """Return the Optuna study of a stage, which is created if there is none."""
        package = optuna()
        storage = open_storage(self.address) if storage is None else storage
        name = self.study_name(number)
        try:  # create_study would write to the storage each time
            storage.get_study_id_from_name(name)
        except KeyError:
            package.create_study(
                storage=storage,
                study_name=name,
                direction="maximize" if self.higher_is_better else "minimize",
                load_if_exists=True,
            )
        return package.load_study(storage=storage, study_name=name, pruner=self._pruner(package))

    def study_name(self, number: int) -> str:
        """Return the name of a stage's study in the storage."""
        stage = self.space.stages[number]
        return f"{self.name or self.folder.resolve().name}: {number + 1} {stage.name}"

    def _pruner(self, package: Any) -> Any:
        epochs = self.base.epochs
        if self.pruner == "median":
            # Early scores say little while the learning rate still rises.
            warm = max(int(self.base.warmup_epochs) + 1, epochs // 10)
            return package.pruners.MedianPruner(n_startup_trials=5, n_warmup_steps=warm)
        if self.pruner == "hyperband":
            return package.pruners.HyperbandPruner(
                min_resource=max(1, epochs // 10), max_resource=epochs * len(self.seeds)
            )
        return package.pruners.NopPruner()

    def facts(self) -> dict[str, Any]:
        """Return what must be the same for trials to be compared."""
        return {
            "data": dict(self.about),
            "base": self.base.to_dict(),
            "space": self.space.to_dict(),
            "seeds": list(self.seeds),
            "pruner": self.pruner,
            "seed": self.seed,
        }


# ---- running it --------------------------------------------------------------------------------


def run_search(
    search: Search,
    *,
    jobs: int = 1,
    watch: Callable[[], None] | None = None,
    until: float = float("inf"),
) -> bool:
    """Run a search to its end, or continue one; its trials are in the storage afterwards.

    Args:
        search: What to do.
        jobs: Processes at work at once.
        watch: Called now and then.
        until: Time of day, as `time.time` gives it, at which to pause.

    Returns:
        Whether the search has ended; the same call continues one that has not.

    Raises:
        KeyboardInterrupt: When stopped by a signal; the same call continues.
        ConfigError: If the storage holds a search of something else.
        DhilgtError: If no trial of a stage ends well.
    """
    with explained("write in", search.folder):
        search.folder.mkdir(parents=True, exist_ok=True)
    # Signals are handled between steps, so that no write to the storage is interrupted.
    with _alone(search), StopSignals() as stop:
        storage = open_storage(search.address)
        begun = stages_begun(search, storage)
        first = search.study(0, storage)
        _check_same(search, first)
        before = float(first.user_attrs.get("seconds", 0.0))
        clock = _Clock(first, before, watch, stop)
        if is_journal(search.address):
            for number in range(max(begun, 1)):
                take_back(search.study(number, storage))
        stages = _Stages(search, storage, jobs, clock, until)
        try:
            ended = _run_stages(stages, search, max(begun - 1, 0), jobs, clock)
        finally:
            clock.note(at_once=True)
        fixed_before(search, stages.now + 1, storage)  # raises if no trial has ended
    return ended


@contextlib.contextmanager
def _alone(search: Search) -> Iterator[None]:
    """Keep a second search out of the folder's file."""
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

    def __init__(
        self, study: Any, before: float, watch: Callable[[], None] | None, stop: StopSignals
    ) -> None:
        self._study, self._before, self._watch, self.stop = study, before, watch, stop
        self._start = self._noted = time.time()

    def spent(self) -> float:
        return self._before + time.time() - self._start

    def wall(self, seconds: float) -> float:
        """Return the time of day at which the search has taken some seconds."""
        return self._start + seconds - self._before

    def note(self, at_once: bool = False) -> None:
        if at_once or time.time() - self._noted > _SECONDS_BETWEEN_NOTES:
            self._noted = time.time()
            self._study.set_user_attr("seconds", round(self.spent(), 3))
            if self._watch is not None:
                self._watch()


def stages_begun(search: Search, storage: Any) -> int:
    """Return how many stages have begun."""
    known = {one.study_name for one in optuna().get_all_study_summaries(storage)}
    numbers = range(len(search.space.stages))
    return max((at + 1 for at in numbers if search.study_name(at) in known), default=0)


def as_begun(search: Search) -> Search:
    """Return a search that goes on with the features as they are if it began so.

    Earlier versions did by default: the same command then goes on with the same search.
    """
    new = is_journal(search.address) and not (search.folder / JOURNAL).exists()
    if new or search.base.feature_scale != AUTO:
        return search
    storage = open_storage(search.address)
    try:
        study = storage.get_study_id_from_name(search.study_name(0))
    except KeyError:
        return search
    begun = storage.get_study_user_attrs(study).get("facts", {}).get("base", {})
    if begun.get("feature_scale", NONE) != NONE:
        return search
    return replace(search, base=replace(search.base, feature_scale=NONE))


def _check_same(search: Search, study: Any) -> None:
    facts = search.facts()
    known = study.user_attrs.get("facts")
    if known is None:
        study.set_user_attr("facts", facts)
        study.set_user_attr("inputs", search.inputs)
        return
    # A search of an earlier version lacks the settings that came later, which are off by default.
    known = known | {"base": Settings().to_dict() | known.get("base", {})}
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
    before = study.user_attrs.get("inputs")
    if before is not None and search.inputs is not None:
        check_inputs(before, search.inputs, str(search.folder), what="search")


def fixed_before(search: Search, number: int, storage: Any) -> dict[str, Any]:
    """Return all settings a stage begins with: the base, and the best of each stage before it.

    Raises:
        DhilgtError: If no trial of the stages before it has ended.
    """
    values: dict[str, Any] = search.base.to_dict()
    best: float | None = None
    for earlier in range(number):
        with contextlib.suppress(ValueError):  # none ended: the best of earlier stages stays
            trial = search.study(earlier, storage).best_trial
            if search.as_good(trial.value, best):
                best, stage = trial.value, search.space.stages[earlier]
                names = {one.name for one in stage.parameters}
                values = followed(values | trial.user_attrs["chosen"], names)
    if number and best is None:
        errors = [text for at in range(number) for text in failures(search.study(at, storage))]
        if errors:
            raise DhilgtError(f"{len(errors)} trials failed, the last with: {errors[-1]}")
        raise DhilgtError(
            "no trial ended in its time; raise --budget, or have fewer or shorter epochs"
        )
    return values


class _Stages:
    """Opens one stage after the other, for all workers."""

    def __init__(
        self, search: Search, storage: Any, jobs: int, clock: _Clock, until: float
    ) -> None:
        self._search, self._storage, self._jobs, self._clock = search, storage, jobs, clock
        self._until, self._looked = until, 0.0
        self.run = f"{os.getpid()}-{time.time_ns()}"
        whole = float("inf") if search.budget is None else search.budget
        self.hard = min(clock.wall(whole), until)
        self.now = -1
        self.task: Task | None = None

    def open(self, number: int) -> Task:
        """Open a stage: from here on its trials may be tried."""
        search = self._search
        study = search.study(number, self._storage)
        base = fixed_before(search, number, self._storage)
        if not study.get_trials(deepcopy=False):
            own = search.space.stages[number].first(base)
            if own is not None:  # the search then never ends worse than the base
                study.enqueue_trial(own)
        total = search.limit(number)
        earlier = sum(counted(search.study(at, self._storage)) for at in range(number))
        if self._jobs > 1 and search.base.threads is None:
            base["threads"] = max(1, (os.cpu_count() or 1) // self._jobs)  # changes no result
        soft = min(self._clock.wall(search.time_limit(number)), self.hard)
        limit = None if total is None else total - earlier
        self.task = Task(self.run, base, limit, soft, self.hard)
        self.now = number
        study.set_user_attr("task", self.task.to_dict())
        return self.task

    def done(self) -> bool:
        """Return whether the open stage has used its trials or its time."""
        assert self.task is not None, "a stage is open"
        if time.time() >= self.task.soft:
            return True
        study = self._search.study(self.now, self._storage)
        return self.task.limit is not None and counted(study) >= self.task.limit

    def finished(self) -> bool:
        """Return whether the search has ended."""
        last = self.now == len(self._search.space.stages) - 1
        paused = time.time() >= self._until < self._clock.wall(self._search.time_limit(self.now))
        if not (last and self.done()):
            return False
        assert self.task is not None, "the last one is open"
        study = self._search.study(self.now, self._storage)
        return not paused or (self.task.limit is not None and counted(study) >= self.task.limit)

    def advance(self) -> None:
        """Open the next stage if this one is done and none of its trials is running."""
        if self._clock.stop.requested:
            raise KeyboardInterrupt("stopped")
        self._clock.note()
        if time.time() - self._looked < _SECONDS_BETWEEN_LOOKS or time.time() >= self.hard:
            return
        self._looked = time.time()
        running = (optuna().trial.TrialState.RUNNING,)
        study = self._search.study(self.now, self._storage)
        last = self.now + 1 == len(self._search.space.stages)
        if not last and self.done() and not study.get_trials(deepcopy=False, states=running):
            self.open(self.now + 1)


def _run_stages(stages: _Stages, search: Search, first: int, jobs: int, clock: _Clock) -> bool:
    count = len(search.space.stages)
    if jobs == 1:
        for number in range(first, count):
            stages.open(number)
            stopped = work(search, number, number + 1, stages.run, stages.hard, 0, clock.note)
            if stopped or clock.stop.requested:
                raise KeyboardInterrupt("stopped")
            if time.time() >= stages.hard:
                break
        return stages.finished()
    stages.open(first)
    with Workers(jobs) as workers:
        for at in range(jobs):
            workers.start(
                f"process {at + 1}", work, search, first, count, stages.run, stages.hard,
                os.getpid(),
            )  # fmt: skip
        ends = [stopped for _, stopped in workers.results(stages.advance)]
    if any(ends) or clock.stop.requested:
        raise KeyboardInterrupt("stopped")
    return stages.finished()
