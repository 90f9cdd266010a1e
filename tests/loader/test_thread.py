"""The thread that makes batches ahead: bounded, ended when not needed, its errors raised."""

import gc
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

from dhilgt import TokenLoader, TokenSampler
from dhilgt.loader.prefetch import Prefetcher
from tests.loader.cases import plain
from tests.tokens.cases import generated_labels


@pytest.fixture(scope="module")
def sampler():
    return TokenSampler(generated_labels(), size=12, progress=False, seed=3)


@pytest.fixture(scope="module")
def features():
    return np.random.default_rng(0).normal(size=(400, 7)).astype(np.float32)


def threads_alive():
    return [t for t in threading.enumerate() if t.name == "dhilgt-prefetch"]


def test_early_break_leaves_no_thread(sampler, features):
    loader = TokenLoader(sampler, features, batch_size=8, prefetch=2)
    for _ in loader:
        break
    gc.collect()
    assert threads_alive() == []
    begun = iter(loader)
    next(begun)
    assert len(threads_alive()) == 1
    del begun
    gc.collect()
    assert threads_alive() == []


def test_an_exception_in_the_loop_leaves_no_thread(sampler, features):
    loader = TokenLoader(sampler, features, batch_size=8)

    def work():
        for _ in loader:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        work()
    gc.collect()
    assert threads_alive() == []


def test_whole_epochs_leave_no_thread_and_work_side_by_side(sampler, features):
    loader = TokenLoader(sampler, features, batch_size=64)
    pairs = [(plain(a), plain(b)) for a, b in zip(loader, loader, strict=True)]
    assert all(a == b for a, b in pairs)
    assert threads_alive() == []


@pytest.mark.parametrize("prefetch", [0, 1, 4])
def test_exceptions_of_the_thread_arrive_in_their_place(sampler, features, prefetch):
    loader = TokenLoader(sampler, features, batch_size=50, prefetch=prefetch)
    real = sampler.packed_rows

    class Broken(TokenSampler):
        def __init__(self):
            self.__dict__.update(sampler.__dict__)

        def packed_rows(self, nodes, copy=0, *, update=None):
            if 120 in nodes:
                raise OSError("the disk is gone")
            return real(nodes, copy)

    loader.tokens = Broken()
    seen = []
    with pytest.raises(OSError, match="the disk is gone"):
        seen.extend(len(batch) for batch in loader)
    assert seen == [50, 50]
    assert threads_alive() == []


def test_the_reader_waits_for_a_slow_thread_and_ends_after_an_error():
    def slow():
        yield 1
        time.sleep(0.3)
        yield 2
        raise RuntimeError("no more")

    ahead = Prefetcher(slow, 2)
    assert [next(ahead), next(ahead)] == [1, 2]
    with pytest.raises(RuntimeError, match="no more"):
        next(ahead)
    with pytest.raises(StopIteration):
        next(ahead)


def test_the_thread_stays_within_its_bound():
    made = []

    def numbers():
        for number in range(100):
            made.append(number)
            yield number

    ahead = Prefetcher(numbers, 3)
    time.sleep(0.3)
    assert len(made) == 4  # three wait, one is in the thread's hands
    ahead.close()
    ahead.close()
    assert list(ahead) == []


def test_ctrl_c_while_waiting_shuts_the_thread_down(monkeypatch):
    go = threading.Event()

    def stuck():
        go.wait(5)
        yield 1

    ahead = Prefetcher(stuck, 1)

    def interrupt(*_, **__):
        go.set()
        raise KeyboardInterrupt

    monkeypatch.setattr(ahead, "_get", interrupt)
    with pytest.raises(KeyboardInterrupt):
        next(ahead)
    assert threads_alive() == []


def test_a_process_ends_though_an_iteration_is_open():
    code = """
import dhilgt
graph = dhilgt.generate(300, 6, seed=1, num_features=4)
labels = dhilgt.HubLabels.build(graph, progress=False)
sampler = dhilgt.TokenSampler(labels, size=8, progress=False)
begun = iter(dhilgt.TokenLoader(sampler, graph.features, batch_size=4))
next(begun)
print("done")
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "done\n", "")
