"""Ctrl-C stops a build at once and leaves the interpreter as it was."""

import signal
import subprocess
import sys
import threading
import time

import pytest

from dhilgt import Graph, HubLabels, generate

SCRIPT = """
import signal, sys, time
from dhilgt import Graph, HubLabels, generate

algorithm = sys.argv[1]
graph = generate(200_000, 10, seed=1, num_features=0)  # two million arcs
handler = signal.getsignal(signal.SIGINT)
print("ready", flush=True)
try:
    HubLabels.build(graph, progress=False, algorithm=algorithm, threads=2, preflight=False)
except KeyboardInterrupt:
    print("stopped", time.time(), flush=True)
else:
    print("finished", flush=True)
assert signal.getsignal(signal.SIGINT) is handler
small = HubLabels.build(Graph.from_edges([0, 1, 2], [1, 2, 3]), progress=False)
print(small.distance_matrix([0, 3]).tolist())
"""


@pytest.mark.parametrize("algorithm", ["auto", "pll", "planes", "psl"])
def test_sigint_stops_within_a_second(algorithm):
    with subprocess.Popen(
        [sys.executable, "-c", SCRIPT, algorithm], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout.readline() == "ready\n"
        time.sleep(0.7)
        process.send_signal(signal.SIGINT)
        sent = time.time()
        message, when = process.stdout.readline().split()
        assert message == "stopped"
        assert float(when) - sent < 1.0
        assert process.stdout.readline() == "[[0, 3], [3, 0]]\n"
        assert process.wait(10) == 0


def test_an_error_in_a_signal_handler_stops_too():
    class Alarm(Exception):
        pass

    def ring(number, frame):
        raise Alarm

    graph = generate(60_000, 12, seed=2, num_features=0)
    before = signal.signal(signal.SIGALRM, ring)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.3)
        start = time.perf_counter()
        with pytest.raises(Alarm):
            HubLabels.build(graph, progress=False, algorithm="pll")
        assert time.perf_counter() - start < 1.3
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_other_threads_run_while_labels_are_built():
    graph = generate(60_000, 12, seed=2, num_features=0)
    ticks, stop = [], threading.Event()

    def tick():
        while not stop.wait(0.005):
            ticks.append(time.perf_counter())

    ticker = threading.Thread(target=tick)
    ticker.start()
    try:
        HubLabels.build(graph, progress=False)
    finally:
        stop.set()
        ticker.join()
    assert len(ticks) > 10


def test_labels_answer_many_threads_at_once():
    labels = HubLabels.build(generate(2000, 6, seed=3), progress=False)
    expected = labels.distance_matrix(range(50)).tolist()
    wrong = []

    def ask(shift):
        for i in range(500):
            u, v = (i * 7 + shift) % 50, (i * 13) % 50
            if labels.distance(u, v) != expected[u][v]:
                wrong.append((u, v))

    threads = [threading.Thread(target=ask, args=(shift,)) for shift in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_two_builds_run_side_by_side():
    graphs = [generate(5000, 6, seed=seed, num_features=0) for seed in (1, 2)]
    expected = [HubLabels.build(graph, progress=False).num_entries for graph in graphs]
    actual = [0, 0]

    def work(at):
        actual[at] = HubLabels.build(graphs[at], progress=False, threads=2).num_entries

    threads = [threading.Thread(target=work, args=(at,)) for at in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert actual == expected
    assert HubLabels.build(Graph.from_edges([0], [1]), progress=False).num_entries == 3
