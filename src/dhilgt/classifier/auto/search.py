"""The search of `recipe="auto"`: candidates are trained rung by rung, and the best are averaged."""

from __future__ import annotations

import math
import shutil
import signal
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from dhilgt import metrics
from dhilgt.classifier.auto import average, halving
from dhilgt.classifier.auto.entries import Entry
from dhilgt.classifier.auto.portfolio import FEATURES_ALONE
from dhilgt.classifier.auto.record import (
    AVERAGED,
    CHOSEN,
    DROPPED,
    FAILED,
    REFERENCE,
    Rung,
    SearchRecord,
    Trial,
    write_record,
)
from dhilgt.classifier.auto.sentence import sentence
from dhilgt.classifier.auto.training import CandidateData, Training, seed_of
from dhilgt.classifier.cache import Cache
from dhilgt.classifier.inputs import FitInputs
from dhilgt.classifier.members import Member, mean
from dhilgt.classifier.pipeline import Pipeline
from dhilgt.classifier.sharing import share
from dhilgt.errors import (
    ArtifactError,
    ConfigError,
    DhilgtError,
    GraphError,
    TrainingError,
    TrainingInterrupted,
    TrainingWarning,
)
from dhilgt.labels.radius import AUTO as RADIUS_AUTO
from dhilgt.settings.settings import Settings
from dhilgt.training.clock import StageClock
from dhilgt.training.distributed import Group
from dhilgt.training.resume import way_on
from dhilgt.training.run_folder import SEARCH
from dhilgt.training.state import TrainResult, TrainState, finite_or_none
from dhilgt.utils.progress import Progress

LOSS = "loss"
_RADIUS = "radius"  # in the record: what "auto" chose
_FAILURES = (DhilgtError, MemoryError, RuntimeError, FloatingPointError)


@dataclass(frozen=True)
class Outcome:
    """What a search ends with.

    Attributes:
        members: The models to average, the first one first.
        result: How the training of the first one went.
        scores: Loss and metric of the average by part of the split.
        record: What was tried.
        clock: Times of all trainings.
    """

    members: tuple[Member, ...]
    result: TrainResult
    scores: dict[str, dict[str, float]]
    record: SearchRecord
    clock: StageClock


@dataclass(frozen=True)
class Continuation:
    """How a search that is stopped goes on; for the message.

    Attributes:
        command: A command of the shell, None for none.
        call: A call in Python.
    """

    command: str | None
    call: str


class _OutOfTimeError(Exception):
    """The budget does not allow for another training."""


class Search:
    """Trains the candidates of a portfolio and chooses by their validation scores.

    Args:
        inputs: The graph and the split.
        entries: Who takes part.
        num_seeds: Trainings of each.
        last_seeds: Trainings of each candidate that is averaged.
        cache: Keeps labels and tokens between runs.
        progress: False for no display.
        budget: Seconds after which no other training begins; None for any.
        run_dir: The run's folder, for checkpoints and the record; None writes nothing.
        earlier: The record of the search in the folder, to go on with; None begins one.
        began: What the search begins with, for its record.
        goes_on: For the message of a stop.
    """

    def __init__(
        self,
        inputs: FitInputs,
        entries: Sequence[Entry],
        num_seeds: int,
        last_seeds: int,
        *,
        cache: Cache | None,
        progress: bool | Literal["auto"] = False,
        budget: float | None = None,
        run_dir: Path | None = None,
        earlier: SearchRecord | None = None,
        began: Mapping[str, Any] | None = None,
        goes_on: Continuation | None = None,
    ) -> None:
        self._inputs = inputs
        self._entries = {one.name: one for one in entries}
        self._cache = cache
        self._progress = progress
        self._budget = budget
        self._run_dir = run_dir
        self._goes_on = goes_on or Continuation(None, "")
        self._group = Group()
        self._clock = StageClock()
        self._trainings: dict[tuple[str, int], Training] = {}
        self._data: dict[str, CandidateData] = {}
        self._latest: dict[str, dict[int, tuple[float | None, float | None]]] = {}
        self._finished: dict[tuple[str, int], tuple[Member, TrainResult]] = {}
        self._level: list[str] | None = None
        self._first_error: Exception | None = None
        self._warned = False
        self._can_choose = "val" in inputs.split
        name = next(iter(entries)).settings.metric
        self._metric = metrics.metric(name) if self._is_defined(name) else None
        if earlier is None:
            earlier = SearchRecord(
                metric=LOSS if self._metric is None else name,
                higher_is_better=self._metric is not None and self._metric.higher_is_better,
                rungs=list(halving.rungs(max(one.settings.epochs for one in entries))),
                seeds=num_seeds,
                last_seeds=last_seeds,
                candidates=[Trial(one.name, one.about, one.changed) for one in entries],
                began=dict(began or {}),
            )
        self.record = earlier
        self._seconds_before = earlier.seconds
        self._start = time.monotonic()
        contenders = sum(one.contends for one in entries)
        self._display = _Display(
            len(entries),
            halving.most_epochs(
                contenders, num_seeds, earlier.rungs, len(entries) - contenders, last_seeds
            ),
            earlier.higher_is_better,
            progress if self._group.is_main else False,
        )

    @property
    def is_main(self) -> bool:
        """Whether this is the process that writes files."""
        return self._group.is_main

    def _is_defined(self, name: str) -> bool:
        """Return whether the metric is defined on the validation nodes, whatever is predicted."""
        if not self._can_choose:
            return False
        truth = self._truth("val")
        num_classes = len(self._inputs.classes)
        logits = np.random.default_rng(0).normal(size=(len(truth), num_classes))
        return not math.isnan(metrics.metric(name)(truth, logits))

    def _truth(self, part: str) -> NDArray[np.int64]:
        labels = self._inputs.graph.labels
        assert labels is not None, "a classifier is trained on classes"
        truth: NDArray[np.int64] = labels[self._inputs.split[part]]
        return truth

    # ---- the rungs -----------------------------------------------------------------------------

    def run(self) -> Outcome:
        """Return the models to average.

        Raises:
            TrainingInterrupted: On a signal; the search can go on where it stands.
            DhilgtError: If all candidates failed: that of the first one.
        """
        try:
            self._make_parts()
            with self._display:
                alive = self._run_rungs()
            return self._ended(alive)
        except KeyboardInterrupt as error:
            for training in self._trainings.values():
                training.save()
            signum = error.signum if isinstance(error, TrainingInterrupted) else signal.SIGINT
            raise self._stopped(int(signum)) from None

    def _make_parts(self) -> None:
        """Make labels, tokens and features first: they have displays of their own."""
        for name, entry in self._entries.items():
            trial = self.record.trial(name)
            if trial.status == FAILED or self._is_done(trial):
                continue
            with self._failing(name):
                pipeline = self._data_of(entry).pipeline
                _ = pipeline.tokens, pipeline.features, pipeline.ego, pipeline.adjacency
                self._keep_radius(pipeline.settled.radius)

    def _keep_radius(self, radius: int | str | None) -> None:
        """Note a radius that "auto" chose: the search goes on with it, whatever fits then."""
        if isinstance(radius, int) and _RADIUS not in self.record.began:
            self.record.began[_RADIUS] = radius
            self._write()

    def _settings_of(self, entry: Entry) -> Settings:
        if entry.settings.radius != RADIUS_AUTO or _RADIUS not in self.record.began:
            return entry.settings
        return replace(entry.settings, radius=self.record.began[_RADIUS])

    def _is_done(self, trial: Trial) -> bool:
        """Return whether a candidate needs no more training: it was dropped by an earlier run."""
        return trial.status == DROPPED and trial.name != FEATURES_ALONE

    def _run_rungs(self) -> list[str]:
        """Train, and return the contenders that are left."""
        record, higher = self.record, self.record.higher_is_better
        alive = [name for name, one in self._entries.items() if one.contends]
        try:
            for at, until in enumerate(record.rungs):
                self._display.rung(at + 1, len(record.rungs))
                for seed_at in range(record.seeds):
                    for name in self._going(alive):
                        self._train(name, seed_at, until)
                alive = [name for name in alive if record.trial(name).status != FAILED]
                if not alive:
                    errors = (one.error for one in record.candidates if one.error is not None)
                    raise self._first_error or TrainingError(next(errors))
                if until != record.rungs[-1] and self._can_choose:
                    scores = {name: self._score(record.trial(name), until) for name in alive}
                    alive = halving.survivors(scores, higher_is_better=higher)
                    self._drop([name for name in scores if name not in alive])
            self._train_further(alive)
        except _OutOfTimeError:
            record.out_of_time = True
            alive = [name for name in alive if self._latest.get(name)]
        return alive

    def _train_further(self, alive: Sequence[str]) -> None:
        """Train those that will be averaged with further seeds."""
        seeds = range(self.record.seeds, self.record.last_seeds or 0)
        if seeds and self._can_choose:
            for training in self._trainings.values():
                training.save()  # they end below; a search that is stopped later needs them
            self._level = self._choose_level(alive)
            for seed_at in seeds:
                for name in self._level:
                    try:
                        self._train(name, seed_at, self.record.rungs[-1])
                    except _OutOfTimeError:
                        self._latest[name].pop(seed_at, None)  # its other seeds have ended
                        raise

    def _going(self, alive: Sequence[str]) -> list[str]:
        """Return who is trained in a rung: the contenders, and the features alone in any case."""
        return [
            name
            for name in self._entries
            if (name in alive or name == FEATURES_ALONE)
            and self.record.trial(name).status != FAILED
        ]

    def _score(self, trial: Trial, until: int) -> float:
        return halving.mean_score([float(one) for one in trial.rung(until).scores])  # type: ignore[arg-type]

    def _train(self, name: str, seed_at: int, until: int) -> None:
        """Train a candidate with one seed to a rung, unless an earlier run did."""
        trial = self.record.trial(name)
        if trial.status == FAILED:
            return  # with an earlier seed
        rung = trial.rung(until)
        if len(rung.scores) > seed_at:
            self._latest.setdefault(name, {})[seed_at] = rung.scores[seed_at], rung.losses[seed_at]
            return
        self._display.candidate(name, list(self._entries).index(name) + 1)
        start = time.monotonic()
        with self._failing(name):
            training = self._training(name, seed_at)
            self._check_time(training.seconds_to(until))
            before = training.epoch
            with self._warnings():
                state = training.advance(until, self._in_time)
            self.record.num_epochs += state.epoch - before
            score, loss = self._scores_of(state)
            self._latest.setdefault(name, {})[seed_at] = score, loss
            self._display.scored(name, score)
            if training.cut_short:
                raise _OutOfTimeError
            rung.scores.append(score)
            rung.losses.append(loss)
            rung.seconds += time.monotonic() - start
            trial.batch_size = training.data.batch_size
            self._write()

    def _scores_of(self, state: TrainState) -> tuple[float | None, float | None]:
        """Return score and loss of the best epoch so far; None without validation nodes."""
        if not self._can_choose:
            return None, None
        if self._metric is None:
            if state.best_loss is None:
                raise TrainingError("the validation loss is not a number")
            return state.best_loss, state.best_loss
        if state.by_loss or state.best_score is None:
            raise TrainingError(f"{self.record.metric} of its predictions is not defined")
        return state.best_score, state.best_loss

    def _training(self, name: str, seed_at: int) -> Training:
        key = name, seed_at
        if key not in self._trainings:
            entry = self._entries[name]
            self._trainings[key] = Training(
                self._data_of(entry),
                seed_of(entry.settings.seed, seed_at),
                self._checkpoints(name, seed_at),
                self._display.epoch,
            )
        self._display.begin(self._trainings[key].epoch)
        return self._trainings[key]

    def _data_of(self, entry: Entry) -> CandidateData:
        if entry.name not in self._data:
            pipeline = Pipeline(
                self._inputs.graph,
                self._settings_of(entry),
                cache=self._cache,
                progress=self._progress,
                clock=self._clock,
            )
            share(pipeline, [one.pipeline for one in self._data.values()])
            batch_size = self.record.trial(entry.name).batch_size
            self._data[entry.name] = CandidateData(self._inputs, pipeline, batch_size)
        else:
            others = [one.pipeline for one in self._data.values()]
            share(self._data[entry.name].pipeline, others)
        return self._data[entry.name]

    def _checkpoints(self, name: str, seed_at: int) -> Path | None:
        if self._run_dir is None:
            return None
        place = list(self._entries).index(name) + 1
        return (
            self._run_dir / SEARCH / f"{place}-{name.replace(' ', '-').replace(',', '')}-{seed_at}"
        )

    @contextmanager
    def _failing(self, name: str) -> Iterator[None]:
        """Record the failure of a candidate in the block; the others go on."""
        try:
            yield
        except (ArtifactError, ConfigError, GraphError):
            raise  # the disk, the settings or the data: the others would fail as well
        except _FAILURES as error:
            # Where one of several processes fails alone, the others would wait for it.
            if self._group.size > 1 and not isinstance(error, TrainingError):
                raise
            self._first_error = self._first_error or error
            trial = self.record.trial(name)
            trial.status, trial.error = FAILED, str(error) or type(error).__name__
            self._release(name)
            self._latest.pop(name, None)
            self._write()

    @contextmanager
    def _warnings(self) -> Iterator[None]:
        """Show the warnings of the first training; those of the others are the same."""
        if not self._warned:
            self._warned = True
            yield
            return
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", TrainingWarning)
            yield

    def _drop(self, names: Sequence[str]) -> None:
        for name in names:
            self.record.trial(name).status = DROPPED
            if name != FEATURES_ALONE:
                self._release(name)
        self._write()

    def _release(self, name: str) -> None:
        """Forget the trainings of a candidate, and remove their checkpoints."""
        self._data.pop(name, None)
        for seed_at in range(max(self.record.seeds, self.record.last_seeds or 0)):
            training = self._trainings.pop((name, seed_at), None)
            if training is not None:
                self._clock.join(training.trainer.stages)
            folder = self._checkpoints(name, seed_at)
            if folder is not None and self._group.is_main:
                shutil.rmtree(folder, ignore_errors=True)

    # ---- time ----------------------------------------------------------------------------------

    def _spent(self) -> float:
        return self._seconds_before + time.monotonic() - self._start

    def _in_time(self) -> bool:
        within = self._budget is None or self._spent() < self._budget
        return self._group.from_main(within)

    def _check_time(self, predicted: float | None) -> None:
        """Raise if a training would not end in time; without any score, there is always time."""
        if self._budget is None:
            return
        fits = self._spent() + (predicted or 0.0) < self._budget
        if not self._group.from_main(fits) and self._latest:
            raise _OutOfTimeError

    # ---- the choice ----------------------------------------------------------------------------

    def _ended(self, alive: Sequence[str]) -> Outcome:
        """Return the average of the best models of those that are left."""
        record = self.record
        chosen = self._choose_level(alive) if self._level is None else self._level
        ranking = [name for name in chosen if record.trial(name).status != FAILED]
        if not ranking:
            assert self._first_error is not None, "a failure has a reason"
            raise self._first_error
        if self._can_choose:
            scores = {name: self._final_score(name) for name in ranking}
            ranking = halving.ranked(scores, higher_is_better=record.higher_is_better)
        winner = ranking[0]
        keys = [key for name in ranking for key in self._best_first(name)]
        if not self._can_choose:
            keys = keys[:1]
        members = tuple(self._finish(*key)[0] for key in keys)
        alone = [self._finish(FEATURES_ALONE, at)[0] for at in self._latest.get(FEATURES_ALONE, ())]
        for training in self._trainings.values():
            self._clock.join(training.trainer.stages)
        record.chosen = [
            {
                "name": name,
                "seed": seed_of(self._entries[name].settings.seed, seed_at),
                "weight": 1 / len(keys),
            }
            for name, seed_at in keys
        ]
        for trial in record.candidates:
            self._close(trial)
            if trial.name == winner:
                trial.status = CHOSEN
            elif any(name == trial.name for name, _ in keys):
                trial.status = AVERAGED
            elif trial.name == FEATURES_ALONE and trial.status != FAILED:
                trial.status = REFERENCE
            elif trial.status != FAILED:
                trial.status = DROPPED
        split = self._inputs.split
        scores_by_part = {part: self._measured(members, part) for part in split}
        record.references = self._references(alone)
        record.sentence = sentence(record, {one: self._entries[one].about for one in self._entries})
        record.seconds = self._spent()
        result = self._finish(*keys[0])[1]
        return Outcome(members, result, scores_by_part, record, self._clock)

    def _close(self, trial: Trial) -> None:
        """Leave the rungs that a candidate ended, and where the budget ended it."""
        latest = self._latest.get(trial.name, {})
        whole = [rung for rung in trial.rungs if len(rung.scores) >= self.record.seeds]
        epochs = [
            self._trainings[trial.name, at].epoch for at in latest if self._is_here(trial, at)
        ]
        if self.record.out_of_time and epochs and (not whole or max(epochs) > whole[-1].epochs):
            pairs = [latest[at] for at in sorted(latest)]
            cut = Rung(max(epochs), [score for score, _ in pairs], [loss for _, loss in pairs])
            whole.append(cut)
        trial.rungs = whole

    def _is_here(self, trial: Trial, seed_at: int) -> bool:
        return (trial.name, seed_at) in self._trainings

    def _final_score(self, name: str) -> float:
        found = [score for score, _ in self._latest[name].values()]
        return halving.mean_score([one for one in found if one is not None])

    def _choose_level(self, alive: Sequence[str]) -> list[str]:
        """Return who is averaged: the winner first, and those that are not clearly worse."""
        if not self._can_choose:
            return list(alive[:1])
        scores = {name: self._final_score(name) for name in alive}
        ranking = halving.ranked(scores, higher_is_better=self.record.higher_is_better)
        nodes = self._inputs.split["val"]
        shares = {
            name: mean(
                [self._finish(name, at)[0].probabilities(nodes) for at in self._latest[name]]
            )
            for name in ranking
        }
        return average.level(shares, self._truth("val"), self._metric, ranking[0])

    def _finish(self, name: str, seed_at: int) -> tuple[Member, TrainResult]:
        """Return a model with the weights of its best epoch, and how its training went."""
        key = name, seed_at
        if key not in self._finished:
            training = self._training(name, seed_at)
            if not self.record.out_of_time:  # a killed process may have left an earlier epoch
                training.advance(self.record.rungs[-1], lambda: True)
            self._finished[key] = training.finish()
        return self._finished[key]

    def _best_first(self, name: str) -> list[tuple[str, int]]:
        """Return the trainings of a candidate, the one with the best score first."""
        sign = -1 if self.record.higher_is_better else 1
        latest = self._latest[name]
        return [
            (name, at) for at in sorted(latest, key=lambda at: (sign * (latest[at][0] or 0.0), at))
        ]

    def _measured(self, members: Sequence[Member], part: str) -> dict[str, float]:
        """Return loss and metric of an average on a part of the split."""
        truth, nodes = self._truth(part), self._inputs.split[part]
        shares = mean([member.probabilities(nodes) for member in members])
        name = members[0].settings.metric
        logits = np.log(np.maximum(shares, np.finfo(np.float32).tiny))
        score = float(metrics.metric(name)(truth, logits))
        return {"loss": average.mean_loss(shares, truth), name: score}

    def _references(self, alone: Sequence[Member]) -> dict[str, dict[str, float | None]]:
        """Return the scores of the features alone, and of one answer for all nodes."""
        name = next(iter(self._entries.values())).settings.metric
        train, num_classes = self._truth("train"), len(self._inputs.classes)
        found: dict[str, dict[str, float | None]] = {"mlp": {}, "majority": {}}
        for part in ("val", "test"):
            has_part = part in self._inputs.split
            mlp = [self._measured([member], part)[name] for member in alone if has_part]
            found["mlp"][part] = finite_or_none(sum(mlp) / len(mlp)) if mlp else None
            constant = math.nan
            if has_part:
                constant = metrics.constant_score(name, self._truth(part), train, num_classes)
            found["majority"][part] = finite_or_none(float(constant))
        return found

    # ---- saving --------------------------------------------------------------------------------

    def _write(self) -> None:
        self.record.seconds = self._spent()
        if self._run_dir is not None and self._group.is_main:
            write_record(self.record, self._run_dir)

    def _stopped(self, signum: int) -> TrainingInterrupted:
        text = f"stopped by {signal.Signals(signum).name} in the search for settings; "
        if self._run_dir is None:
            return TrainingInterrupted(f"{text}nothing was saved, as run_dir is None", signum)
        run_dir = str(self._run_dir)
        way = way_on(run_dir, self._goes_on.command, self._goes_on.call)
        return TrainingInterrupted(f"{text}saved in {run_dir}; {way}", signum)


class _Display:
    """The one line about a search: candidate, rung, best score so far, time left."""

    def __init__(
        self,
        num_candidates: int,
        num_epochs: int,
        higher_is_better: bool,
        enabled: bool | Literal["auto"],
    ) -> None:
        self._bar = Progress("search", unit="epochs", enabled=enabled)
        self._num_candidates, self._total = num_candidates, num_epochs
        self._sign = 1 if higher_is_better else -1
        self._done = self._at = 0
        self._rung = self._candidate = self._best = ""
        self._best_score: float | None = None

    def __enter__(self) -> None:
        self._bar.start()

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def rung(self, number: int, count: int) -> None:
        self._rung = f"rung {number}/{count}"

    def candidate(self, name: str, number: int) -> None:
        self._candidate = f"{number}/{self._num_candidates} {name}"
        self._draw()

    def begin(self, epoch: int) -> None:
        """Count the epochs of a training from here."""
        self._at = epoch

    def epoch(self, line: Mapping[str, Any]) -> None:
        self._done += line["epoch"] - self._at
        self._at = line["epoch"]
        self._draw()

    def scored(self, name: str, score: float | None) -> None:
        if score is None:
            return
        if self._best_score is None or self._sign * (score - self._best_score) > 0:
            self._best_score, self._best = score, f"best {score:.4f} ({name})"

    def _draw(self) -> None:
        parts = (self._candidate, self._rung, self._best)
        note = "  ".join(part for part in parts if part)
        self._bar.update(min(self._done, self._total), self._total, note=note)
