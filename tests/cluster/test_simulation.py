"""The simulator of jobs: against schedules that can be drawn by hand, and laws of any schedule."""

import pytest
from bench.cluster import predicted_seconds
from bench.projection import carried
from bench.simulation import Stage, Workers, simulate
from hypothesis import given
from hypothesis import strategies as st

units = st.lists(st.floats(0.01, 100), min_size=1, max_size=30).map(tuple)


def test_a_free_worker_takes_the_next_unit():
    # worker 0: 4 | worker 1: 1 2 3
    assert simulate([Stage("search", (4, 1, 2, 3))], Workers(2)).seconds == 6


def test_a_stage_waits_for_the_last_unit_of_the_one_before():
    run = simulate([Stage("search", (5, 1)), Stage("merge", (2, 2))], Workers(2))
    assert run.seconds == 7
    assert run.stage_seconds == (5, 2)


def test_dispatch_is_paid_per_unit():
    assert simulate([Stage("search", (1, 1))], Workers(1, unit_overhead_seconds=0.5)).seconds == 3


def test_slow_workers_stretch_their_units():
    assert (
        simulate([Stage("search", (2,))], Workers(1, slow_fraction=1, slow_factor=3)).seconds == 6
    )


@given(units, st.integers(1, 8))
def test_list_scheduling_is_within_its_bounds(seconds, count):
    run = simulate([Stage("search", seconds)], Workers(count))
    best = max(sum(seconds) / count, max(seconds))
    assert best - 1e-9 <= run.seconds <= sum(seconds) / count + max(seconds) + 1e-9


@given(units, st.integers(1, 4), st.integers(0, 5))
def test_deaths_delay_a_job_and_never_lose_a_unit(seconds, count, seed):
    calm = simulate([Stage("search", seconds)], Workers(count), seed=seed)
    stormy = simulate([Stage("search", seconds)], Workers(count, deaths_per_hour=5), seed=seed)
    assert (stormy.deaths == 0) == (stormy.lost_seconds == 0 and stormy.seconds == calm.seconds)
    work = sum(seconds) + stormy.lost_seconds
    assert stormy.seconds * count >= work - 1e-6


def test_a_job_needs_a_worker():
    with pytest.raises(ValueError, match="0 workers"):
        simulate([Stage("search", (1,))], Workers(0))


def test_figures_are_carried_by_their_power_of_the_nodes():
    lines = [{"nodes": n, "seconds": 3e-6 * n**1.5} for n in (1000, 10_000, 50_000)]
    assert carried(lines, "seconds", 10**6) == pytest.approx(3e-6 * 10**9)


def test_a_prediction_divides_units_and_nothing_else():
    stages = [
        {"stage": "search", "seconds": 9, "units": 4, "unit_seconds": [2, 2, 2, 2]},  # 1 s of start
        {"stage": "table", "seconds": 1, "units": 1, "unit_seconds": [1]},
        {"stage": "search", "seconds": 4, "units": 4, "unit_seconds": [1, 1, 1, 1]},
        {"stage": "table", "seconds": 0, "units": 1, "unit_seconds": [1]},  # done before
    ]
    measured = {"seconds": 16, "stages": stages}  # 2 s before the first stage
    assert predicted_seconds(measured, 1, 1) == 16
    assert predicted_seconds(measured, 2, 1) == 2 + 1 + 4 + 1 + 2
    assert predicted_seconds(measured, 1, 4) == 2 + 1 + 2 + 1 + 1
