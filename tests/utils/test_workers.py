"""Worker processes: calls and answers, side by side, and how they end."""

import os
import subprocess
import sys
import time

import pytest

from dhilgt.errors import DhilgtError
from dhilgt.utils.workers import DONE, ERROR, NOTE, Worker, Workers, notify


def add_and_report(a, b):
    notify("adding")
    return a + b


def add(a, b):
    return a + b


def fail():
    raise DhilgtError("no such file; check the path")


def print_and_exit():
    print("last words", flush=True)
    sys.exit(3)


def answer(worker):
    message = worker.answer(60)
    assert message is not None
    return message


@pytest.fixture(params=[False, True], ids=["attached", "detached"])
def worker(request):
    one = Worker(detached=request.param)
    yield one
    one.end()


def test_a_worker_makes_one_call_after_another(worker):
    for a in (1, 2):
        worker.call(add_and_report, a, 5)
        assert answer(worker) == (NOTE, "adding")
        assert answer(worker) == (DONE, a + 5)
    worker.call(fail)
    assert answer(worker) == (ERROR, "no such file; check the path")
    worker.call(divmod, 1, 0)
    kind, message = answer(worker)
    assert kind == ERROR
    assert message.startswith("unexpected ZeroDivisionError: ")
    worker.call(os.getpid)
    assert answer(worker)[1] != os.getpid()
    assert worker.answer(0) is None


def test_a_process_that_ends_without_an_answer_has_an_exit_code_and_its_output():
    worker = Worker(detached=True)
    worker.call(print_and_exit)
    with pytest.raises(EOFError):
        worker.answer(60)
    assert worker.end(60) == "last words"
    assert worker.exit_code == 3


def test_a_worker_at_work_is_ended_at_once(worker):
    worker.call(time.sleep, 600)
    start = time.monotonic()
    worker.end()
    assert time.monotonic() - start < 30
    assert worker.exit_code < 0


@pytest.mark.full
def test_results_come_by_name_and_an_error_ends_all():
    with Workers(2) as workers:
        workers.start("a", add, 1, 2)
        workers.start("b", add, 3, 4)
        assert dict(workers.results()) == {"a": 3, "b": 7}
    with Workers(2) as workers:
        workers.start("a", time.sleep, 600)
        workers.start("b", fail)
        with pytest.raises(DhilgtError, match="b: no such file"):
            list(workers.results())


def test_a_process_that_dies_is_reported_with_its_exit_code():
    with Workers(1) as workers:
        workers.start("c", os._exit, 3)
        with pytest.raises(DhilgtError, match="c: a process ended with exit code 3"):
            list(workers.results())


SCRIPT = """\
from dhilgt.utils.workers import Workers

def larger(a, b):
    return max(a, b)

if {condition}:
    with Workers(1) as workers:
        workers.start("a", {function}, 3, 7)
        print(dict(workers.results()))
"""


@pytest.mark.full
@pytest.mark.parametrize(
    ("condition", "function"),
    [("True", "max"), ("__name__ == '__main__'", "max"), ("__name__ == '__main__'", "larger")],
)
def test_a_script_needs_a_guard_only_to_call_what_it_defines(tmp_path, condition, function):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT.format(condition=condition, function=function), encoding="utf-8")
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=True)
    assert done.stdout == "{'a': 7}\n"
