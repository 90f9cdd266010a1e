"""How long a job takes on a cluster: list scheduling of measured units of work.

A job is a list of stages, a stage a list of units with the seconds each was measured to take. A
free worker takes the next unit; a stage begins when all units of the one before are done. Machines
may be slow, and may die: the unit they were doing is begun again elsewhere, and a new machine
takes their place after a while. `bench.cluster` compares the prediction with real runs.
"""

import heapq
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Stage:
    """Units of work that do not wait for each other.

    Attributes:
        name: Of the stage.
        unit_seconds: What each unit takes on a machine of usual speed, in the order they are begun.
    """

    name: str
    unit_seconds: tuple[float, ...]


@dataclass(frozen=True)
class Workers:
    """The workers of a cluster.

    Attributes:
        count: How many units are done at once.
        unit_overhead_seconds: What a unit takes beside its work: dispatch, checks, its record.
        slow_fraction: Fraction of the workers that are slow.
        slow_factor: How much longer a slow worker takes.
        deaths_per_hour: How often one worker dies.
        replace_seconds: Until a new worker takes the place of a dead one.
    """

    count: int
    unit_overhead_seconds: float = 0.0
    slow_fraction: float = 0.0
    slow_factor: float = 3.0
    deaths_per_hour: float = 0.0
    replace_seconds: float = 120.0


@dataclass(frozen=True)
class SimulatedRun:
    """A job as it was simulated.

    Attributes:
        seconds: From the first unit to the last.
        stage_seconds: Of each stage.
        lost_seconds: Work of units that were begun again.
        deaths: Workers that died.
    """

    seconds: float
    stage_seconds: tuple[float, ...]
    lost_seconds: float
    deaths: int


def simulate(stages: Sequence[Stage], workers: Workers, *, seed: int = 0) -> SimulatedRun:
    """Return how long a job takes.

    Args:
        stages: The stages, one after the other.
        workers: The workers.
        seed: Of the draw of slow workers and of deaths.

    Example:
        >>> simulate([Stage("search", (3.0, 2.0, 1.0))], Workers(2)).seconds
        3.0
    """
    if workers.count < 1:
        raise ValueError(f"{workers.count} workers; a job needs one")
    random = np.random.default_rng(seed)
    speeds = np.where(random.random(workers.count) < workers.slow_fraction, workers.slow_factor, 1)
    dies_at = [_next_death(workers, 0.0, random) for _ in range(workers.count)]
    now, lost, deaths = 0.0, 0.0, 0
    ends = []
    for stage in stages:
        waiting = deque(stage.unit_seconds)
        free = [(now, worker) for worker in range(workers.count)]
        heapq.heapify(free)
        while waiting:
            begin, worker = heapq.heappop(free)
            seconds = waiting.popleft()
            end = begin + (seconds + workers.unit_overhead_seconds) * float(speeds[worker])
            if dies_at[worker] < end:
                lost += max(0.0, dies_at[worker] - begin)  # nothing if it was idle
                deaths += 1
                waiting.appendleft(seconds)
                back = max(begin, dies_at[worker] + workers.replace_seconds)
                dies_at[worker] = _next_death(workers, back, random)
                heapq.heappush(free, (back, worker))
                continue
            now = max(now, end)
            heapq.heappush(free, (end, worker))
        ends.append(now)
    lengths = np.diff([0.0, *ends])
    return SimulatedRun(now, tuple(float(one) for one in lengths), lost, deaths)


def _next_death(workers: Workers, after: float, random: np.random.Generator) -> float:
    if workers.deaths_per_hour <= 0:
        return float("inf")
    return after + float(random.exponential(3600 / workers.deaths_per_hour))
