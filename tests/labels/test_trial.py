"""The time of a build, predicted from its beginning."""

import numpy as np
import pytest

from dhilgt import HubLabels, _native
from dhilgt.labels import trial
from dhilgt.labels.orders import node_order
from dhilgt.labels.sizes import estimate
from dhilgt.labels.trial import try_build
from tests.oracle_graphs import cycle, grid


class Clock:
    """A clock that only a faked build moves."""

    now = 0.0

    def perf_counter(self):
        return self.now


@pytest.fixture
def build(monkeypatch):
    """Fake a build: reports of (seconds, hubs, entries), and the time when it would end."""

    def fake(reports):
        clock = Clock()
        monkeypatch.setattr(trial, "time", clock)

        def build_labels(*arguments, **_):
            for seconds, hubs, entries in reports:
                clock.now = seconds
                arguments[-1](0, hubs, entries, 0)
            raise AssertionError("the build was not stopped")

        monkeypatch.setattr(_native, "build_labels", build_labels)

    return fake


def test_a_short_build_is_timed_whole():
    graph = grid(8)
    found = try_build(graph, estimate(graph).num_entries)
    assert found.labels.num_entries == HubLabels.build(graph, progress=False).num_entries
    assert 0 < found.seconds < 5


def test_hub_by_hub_the_time_grows_with_the_square_of_the_entries(build):
    build([(0.5, 100, 10), (1.0, 100, 15), (1.6, 100, 20)])
    found = try_build(grid(3), 200)
    assert (found.deep, found.labels) == (True, None)
    assert found.seconds == pytest.approx(0.5 + 1.1 / 0.1**2)


def test_by_planes_the_last_entries_take_long(build):
    build([(0.5, 0, 40), (2.0, 0, 60)])
    found = try_build(grid(3), 100)
    assert not found.deep
    assert found.seconds == pytest.approx(2 * 5.5 / -np.log(0.4))


def test_a_build_without_any_entry_says_nothing(build):
    build([(2.0, 0, 0), (5.0, 0, 0)])
    assert try_build(grid(3), 100).seconds is None


def test_a_real_build_is_stopped():
    graph = cycle(3000)
    order = node_order(graph, "degree-id")  # from node to node: labels are long
    entries = estimate(graph, order=order).num_entries
    found = try_build(graph, entries, order=order, limit_seconds=0.01)
    assert found.labels is None
    assert found.deep
    assert found.seconds > 0.01


@pytest.mark.parametrize("name", ["degree", "degree-id"])
@pytest.mark.parametrize("graph", [grid(25), cycle(400), grid(25, diagonals=True)], ids=repr)
def test_sizes_of_deep_graphs_are_right_within_a_factor_of_two(graph, name):
    labels = HubLabels.build(graph, progress=False, order=name)
    found = estimate(graph, order=node_order(graph, name))
    assert labels.num_entries / 2 < found.num_entries < 2 * labels.num_entries
    assert labels.nbytes / 2 < found.num_bytes < 2 * labels.nbytes
