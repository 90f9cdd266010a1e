"""What a run has to do, in order: the trainings of searches, and the cells that wait for them."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from dhilgt.benchmark.record import Record, SearchSummary
from dhilgt.benchmark.running.grid import Cell
from dhilgt.benchmark.running.search import Search


@dataclass(frozen=True, order=True)
class Job:
    """A cell that can be run.

    Attributes:
        place: What jobs are sorted by.
        cell: With the settings that its search chose, if there was one.
        key: Of the cell as it was asked for.
        search: The search that was made for it.
        trial_of: Key of the search that it is a training of; None for cells of a table.
    """

    place: tuple[int, int]
    cell: Cell = field(compare=False)
    key: str = field(compare=False)
    search: SearchSummary | None = field(default=None, compare=False)
    trial_of: str | None = field(default=None, compare=False)


class Agenda:
    """All jobs of a run: those that can begin, and those that wait for a search.

    A search takes the place of the first cell that needs it, so that the order of the cells is the
    order of all work.

    Args:
        cells: In the order in which they are wanted; each once.
    """

    def __init__(self, cells: Iterable[Cell]) -> None:
        self._plain: list[Job] = []
        self._searches: dict[str, _SearchJobs] = {}
        for place, cell in enumerate(cells):
            if not cell.trials:
                self._plain.append(Job((place, 0), cell, cell.key))
                continue
            group = _group(cell)
            if group not in self._searches:
                self._searches[group] = _SearchJobs(group, place, Search(cell))
            self._searches[group].cells.append((place, cell))

    @property
    def total(self) -> int:
        """Number of all trainings; where many of a search fail, its second stage has fewer."""
        return len(self._plain) + sum(one.total for one in self._searches.values())

    def first(self) -> list[Job]:
        """Return the jobs that wait for nothing."""
        return [*self._plain, *(job for one in self._searches.values() for job in one.first())]

    def after(self, job: Job, known: Mapping[str, Record]) -> list[Job]:
        """Return the jobs that can begin now that one has ended.

        Args:
            job: One that was returned before; each ends once.
            known: All records so far, that of the job included.
        """
        return [] if job.trial_of is None else self._searches[job.trial_of].after(job, known)

    def waiting(self) -> list[tuple[Cell, int]]:
        """Return the searches that are not done: a cell of each, and how many jobs wait for it."""
        return [(one.cells[0][1], one.total - one.released) for one in self._searches.values()]


def _group(cell: Cell) -> str:
    return replace(cell, seed=0).key


class _SearchJobs:
    """The jobs of one search and of the cells that need it."""

    def __init__(self, group: str, place: int, search: Search) -> None:
        self.cells: list[tuple[int, Cell]] = []
        self.released = 0
        self._group, self._place, self._search = group, place, search
        self._trainings = search.trainings
        self._open: set[str] = set()  # trainings of the current stage
        self._is_second = False

    @property
    def total(self) -> int:
        """Number of jobs."""
        return self._trainings + len(self.cells)

    def first(self) -> list[Job]:
        """Return the trainings on the first split."""
        return self._jobs(self._search.trials)

    def after(self, job: Job, known: Mapping[str, Record]) -> list[Job]:
        """Return the jobs of the next stage when the last of the current one has ended."""
        self._open.discard(job.key)
        if self._open:
            return []
        if not self._is_second:
            self._is_second = True
            further = self._search.second_stage(known)
            self._trainings = self.released + len(further)
            if further:
                return self._jobs(further)
        chosen = self._search.summary(known)
        self.released = self.total
        return [_chosen_job(place, cell, chosen) for place, cell in self.cells]

    def _jobs(self, cells: Sequence[Cell]) -> list[Job]:
        jobs = [
            Job((self._place, 1 + self.released + at), cell, cell.key, trial_of=self._group)
            for at, cell in enumerate(cells)
        ]
        self.released += len(jobs)
        self._open = {job.key for job in jobs}
        return jobs


def _chosen_job(place: int, cell: Cell, search: SearchSummary) -> Job:
    """Return the job of a cell with the settings that a search chose; else its recipe stands."""
    used = cell if search.changes is None else replace(cell, changes=search.changes)
    return Job((place, 0), used, cell.key, search)


# ---- what is left ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Plan:
    """What is left of a run.

    Attributes:
        total: Trainings of the whole run, those of searches included.
        left: Trainings that are not done.
        seconds: A guess of what they take one after the other; None before any has ended.
    """

    total: int
    left: int
    seconds: float | None

    def text(self, jobs: int) -> str:
        """Return a line about it.

        Args:
            jobs: Trainings at once.

        Example:
            >>> Plan(300, 120, 7200.0).text(jobs=8)
            '180 of 300 trainings done, 120 left: about 15 minutes with 8 at once'
        """
        done = f"{self.total - self.left} of {self.total} trainings done"
        if not self.left or self.seconds is None:
            return f"{done}, {self.left} left" if self.left else done
        minutes = max(1, round(self.seconds / jobs / 60))
        unit = "minute" if minutes == 1 else "minutes"
        return f"{done}, {self.left} left: about {minutes:,} {unit} with {jobs} at once"


def plan(cells: Iterable[Cell], known: Mapping[str, Record], budget: float | None = None) -> Plan:
    """Return what is left of a run, with a guess of its time.

    A training is guessed to take as long as those of its system on its graph did on average, else
    as long as those of its system, else as all.

    Args:
        cells: Of the run.
        known: Records by key.
        budget: Seconds that a cell may take.
    """
    agenda = Agenda(cells)
    open_jobs, left = agenda.first(), []
    while open_jobs:
        job = open_jobs.pop()
        record = known.get(job.key)
        if record is not None and record.is_final(budget):
            open_jobs += agenda.after(job, known)
        else:
            left.append((job.cell, 1))
    left += [(cell, count) for cell, count in agenda.waiting() if count]
    guess = _Guess(known.values())
    guesses = [(guess.seconds(cell), count) for cell, count in left]
    seconds = sum(one * count for one, count in guesses if one is not None)
    is_known = bool(guesses) and all(one is not None for one, _ in guesses)
    return Plan(agenda.total, sum(count for _, count in left), seconds if is_known else None)


class _Guess:
    """Mean seconds of trainings, by system and graph."""

    def __init__(self, records: Iterable[Record]) -> None:
        known: dict[tuple[str, ...], list[float]] = {}
        for record in records:
            if record.total_seconds is not None:
                system, data = record.cell.system, record.cell.data
                for group in ((system, data), (system,), ()):
                    known.setdefault(group, []).append(record.total_seconds)
        self._means = {group: statistics.fmean(seconds) for group, seconds in known.items()}

    def seconds(self, cell: Cell) -> float | None:
        """Return the mean of the nearest trainings there are; None without any."""
        groups: tuple[tuple[str, ...], ...] = ((cell.system, cell.data), (cell.system,), ())
        return next((self._means[one] for one in groups if one in self._means), None)
