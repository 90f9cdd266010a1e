"""Disks that fail, processes that die, builders that meet: the artifact is whole or absent."""

import errno
import json
import os
import random
import signal
import time

import numpy as np
import pytest

from dhilgt.errors import ArtifactError
from dhilgt.store import files, target
from dhilgt.store.artifact import Artifact, ArtifactWriter
from dhilgt.store.files import FileOps
from dhilgt.store.shards import ShardWriter
from tests.store.cases import (
    PLAN,
    SHARDS,
    build,
    contents,
    fork,
    kind_of,
    names,
    shard,
    whole_build,
    write,
)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    return whole_build(tmp_path_factory.mktemp("whole"))


# ---- calls that fail ---------------------------------------------------------------------------


class Failing(FileOps):
    """Fails the n-th call of one sort, once."""

    def __init__(self, method, nth, code):
        self.left = nth
        original = getattr(super(), method)

        def call(*arguments):
            self.left -= 1
            if self.left == 0:
                if method == "write" and len(arguments[1]) > 1:
                    # A full disk takes what still fits.
                    original(arguments[0], arguments[1][: len(arguments[1]) // 2])
                raise OSError(code, os.strerror(code))
            return original(*arguments)

        setattr(self, method, call)


def fail_each(monkeypatch, method, code, attempt):
    """Run ``attempt`` with the first, second, ... call failing, until none is left to fail."""
    for nth in range(1, 200):
        ops = Failing(method, nth, code)
        with monkeypatch.context() as patch:
            patch.setattr(files, "ops", ops)
            error = attempt(nth)
        if ops.left > 0:
            assert error is None
            return nth - 1
        assert error is not None, f"{method} {nth} failed and nobody was told"
        message = str(error)
        assert os.strerror(code) in message
        assert "free some space" in message or code != errno.ENOSPC
        assert "choose another folder" in message or code != errno.EACCES
    raise AssertionError("the work never ends")


def error_of(work, *arguments, **options):
    try:
        work(*arguments, **options)
    except ArtifactError as error:
        return error
    return None


FAULTS = [
    (method, code)
    for method in ("open", "write", "fsync", "rename", "mkdir")
    for code in (errno.ENOSPC, errno.EACCES, errno.EIO)
]


@pytest.mark.parametrize(("method", "code"), FAULTS)
def test_a_failed_first_write_leaves_nothing(tmp_path, monkeypatch, method, code):
    def attempt(nth):
        error = error_of(write, tmp_path / f"new{nth}" / "labels")
        if error is not None:
            assert names(tmp_path) == []
        return error

    assert fail_each(monkeypatch, method, code, attempt) >= 2


@pytest.mark.parametrize(("method", "code"), FAULTS)
def test_a_failed_replacement_leaves_the_older_artifact(tmp_path, monkeypatch, method, code):
    path = tmp_path / "labels"
    write(path)
    before = contents(path)

    def attempt(nth):
        error = error_of(write, path, 2, overwrite=True)
        assert names(tmp_path) == ["labels"]
        if error is not None:
            assert contents(path) == before
        return error

    assert fail_each(monkeypatch, method, code, attempt) >= 1
    assert contents(path) != before


@pytest.mark.parametrize("older", [False, True], ids=["new", "replacing"])
@pytest.mark.parametrize(("method", "code"), FAULTS)
def test_a_failed_long_build_can_be_resumed(tmp_path, monkeypatch, whole, method, code, older):
    def attempt(nth):
        path = tmp_path / str(nth) / "tokens"
        path.parent.mkdir()
        if older:
            with monkeypatch.context() as healthy:
                healthy.setattr(files, "ops", FileOps())
                write(path)
            before = contents(path)
        error = error_of(build, path, overwrite=older)
        if error is not None:
            assert set(names(path.parent)) <= {"tokens", "tokens.partial"}
            assert not list(path.parent.rglob("*.tmp"))
            if older:
                assert contents(path) == before
            else:
                assert not path.exists()
            # The fault is over: it fails one call.
            build(path, resume=True, overwrite=older)
        assert contents(path) == whole
        assert names(path.parent) == ["tokens"]
        return error

    assert fail_each(monkeypatch, method, code, attempt) >= 1


@pytest.mark.parametrize(("method", "code"), FAULTS)
def test_a_failed_resume_can_be_resumed(tmp_path, monkeypatch, whole, method, code):
    def attempt(nth):
        path = tmp_path / str(nth) / "tokens"
        with monkeypatch.context() as healthy:
            healthy.setattr(files, "ops", FileOps())
            with ShardWriter(path, **PLAN, shard_names=SHARDS) as writer:
                writer.write_shard(SHARDS[1], shard(SHARDS[1]))
        error = error_of(build, path, resume=True)
        if error is not None:
            with ShardWriter(path, **PLAN, shard_names=SHARDS, resume=True) as writer:
                assert SHARDS[1] in writer.done
            build(path, resume=True)
        assert contents(path) == whole
        return error

    least = 0 if method == "mkdir" else 1
    assert fail_each(monkeypatch, method, code, attempt) >= least


# The first two writes are the lock and the journal's header, before any array; then each of the
# five arrays takes three: header, data, line of the journal.
@pytest.mark.parametrize("nth", range(3, 18))
def test_a_shard_that_failed_can_be_written_again_at_once(tmp_path, monkeypatch, whole, nth):
    path, errors = tmp_path / "tokens", []
    with monkeypatch.context() as patch:
        patch.setattr(files, "ops", Failing("write", nth, errno.ENOSPC))
        with ShardWriter(path, **PLAN, shard_names=SHARDS) as writer:
            for name, array in [("shared", np.arange(7)), *((n, shard(n)) for n in SHARDS)]:
                error = error_of(writer.write_array, name, array)
                if error is not None:
                    errors.append(error)
                    writer.write_array(name, array)
    assert len(errors) == 1
    # The journal tells the same as the writer knew.
    with ShardWriter(path, **PLAN, shard_names=SHARDS, resume=True) as writer:
        assert writer.done == set(SHARDS)
        writer.commit()
    assert contents(path) == whole


def test_a_full_disk_says_how_much_is_needed_and_free(tmp_path, monkeypatch):
    ops = Failing("write", 2, errno.ENOSPC)
    ops.free_bytes = lambda folder: 1_234_000
    monkeypatch.setattr(files, "ops", ops)
    with pytest.raises(ArtifactError, match=r"hubs.npy.*400 B needed, 1.23 MB free"):
        write(tmp_path / "labels")


def test_writes_may_come_in_pieces(tmp_path, monkeypatch, whole):
    class Dribbling(FileOps):
        def write(self, descriptor, data):
            return super().write(descriptor, data[:100])

    monkeypatch.setattr(files, "ops", Dribbling())
    build(tmp_path / "tokens")
    assert contents(tmp_path / "tokens") == whole


# ---- processes that die ------------------------------------------------------------------------

METHODS = ("open", "write", "fsync", "rename", "mkdir", "unlink", "rmdir", "truncate")


class Dying(FileOps):
    """Kills its own process before, in the middle of or after the n-th call."""

    def __init__(self, nth, moment):
        self.left = nth
        for method in METHODS:
            setattr(self, method, self.deadly(method, getattr(super(), method), moment))

    def deadly(self, method, original, moment):
        def call(*arguments):
            self.left -= 1
            last = self.left == 0
            if last and moment == "middle" and method == "write":
                original(arguments[0], arguments[1][: len(arguments[1]) // 2])
            if last and moment != "after":
                os.kill(os.getpid(), signal.SIGKILL)
            result = original(*arguments)
            if last:
                os.kill(os.getpid(), signal.SIGKILL)
            return result

        return call


def run_and_die(work, nth, moment):
    """Whether ``work`` came to its end in a child that dies at its n-th call."""

    def child():
        files.ops = Dying(nth, moment)
        work()
        os._exit(0)

    process = fork.Process(target=child)
    process.start()
    process.join()
    assert process.exitcode in (0, -signal.SIGKILL)
    return process.exitcode == 0


@pytest.mark.parametrize("moment", ["middle", "after"])
def test_a_replacement_killed_anywhere_leaves_one_whole_artifact(tmp_path, moment):
    for nth in range(1, 200):
        path = tmp_path / str(nth) / "labels"
        write(path)
        ended = run_and_die(lambda path=path: write(path, 2, overwrite=True), nth, moment)
        artifact = Artifact.open(path, kind="labels")
        artifact.verify()
        assert artifact.array("hubs")[1] in (1, 2)
        assert kind_of(path) == "labels"
        # The next builder finds its way, and nothing of the dead one stays.
        write(path, 3, overwrite=True)
        assert names(path.parent) == ["labels"]
        assert Artifact.open(path).array("hubs")[1] == 3
        if ended:
            break
    assert nth > 25


def test_the_older_artifact_is_put_back_after_a_crash_between_the_renames(tmp_path):
    path = tmp_path / "labels"
    write(path)
    before = contents(path)
    path.rename(tmp_path / ".labels.old")
    assert Artifact.open(path).array("hubs")[1] == 1
    # A next builder that comes to nothing leaves the older artifact where it belongs.
    with pytest.raises(ArtifactError, match="exists"):
        write(path, 2)
    assert contents(path) == before
    assert names(tmp_path) == ["labels"]


@pytest.mark.parametrize(
    "older",
    [pytest.param(False, id="new"), pytest.param(True, id="replacing", marks=pytest.mark.full)],
)
@pytest.mark.parametrize("moment", ["middle", "after"])
def test_a_long_build_killed_anywhere_ends_the_same(tmp_path, whole, moment, older):
    for nth in range(1, 300):
        path = tmp_path / str(nth) / "tokens"
        path.parent.mkdir()
        if older:
            write(path)
        ended = run_and_die(
            lambda path=path: build(path, resume=True, overwrite=older), nth, moment
        )
        if older:
            Artifact.open(path).verify()
        build(path, resume=True, overwrite=older)
        assert contents(path) == whole
        assert names(path.parent) == ["tokens"]
        if ended:
            break
    assert nth > 45


def test_no_whole_shard_is_made_twice(tmp_path):
    path = tmp_path / "tokens"
    with ShardWriter(path, **PLAN, shard_names=SHARDS) as writer:
        assert writer.done == set()
        writer.write_shard(SHARDS[2], shard(SHARDS[2]))
        assert writer.done == {SHARDS[2]}
    stamp = (tmp_path / "tokens.partial" / f"{SHARDS[2]}.npy").stat().st_mtime_ns
    build(path, resume=True)
    assert (path / f"{SHARDS[2]}.npy").stat().st_mtime_ns == stamp


def test_sigkill_at_random_moments_ends_the_same(tmp_path):
    """One build of 60 shards, killed again and again until it has been killed 25 times."""
    shards = [f"rows-{i:03}" for i in range(60)]
    build(tmp_path / "whole", shards=shards)
    path = tmp_path / "tokens"
    randomness = random.Random(5)

    def child():
        build(path, shards=shards, resume=True)
        os._exit(0)

    start = time.monotonic()
    build(tmp_path / "timed", shards=shards)
    longest = time.monotonic() - start
    kills = 0
    while kills < 25:
        process = fork.Process(target=child)
        process.start()
        time.sleep(randomness.uniform(0, longest / 3))
        process.kill()
        process.join()
        kills += process.exitcode == -signal.SIGKILL
        if process.exitcode == 0:
            assert contents(path) == contents(tmp_path / "whole")
            path.rename(tmp_path / f"done-{kills}-{time.monotonic_ns()}")
    build(path, shards=shards, resume=True)
    assert contents(path) == contents(tmp_path / "whole")


# ---- builders that meet ------------------------------------------------------------------------


def test_a_second_builder_is_told_who_and_when(tmp_path):
    path = tmp_path / "tokens"
    with ShardWriter(path, **PLAN, shard_names=SHARDS):
        for second in (lambda: write(path), lambda: build(path, resume=True)):
            with pytest.raises(ArtifactError, match=rf"process {os.getpid()} on .+ since 20\d\d-"):
                second()
    build(path, resume=True)


def test_two_processes_at_once_make_one_artifact(tmp_path, whole):
    path = tmp_path / "tokens"

    def child(results):
        for _ in range(20):
            results.put(str(error_of(build, path, resume=True)))

    results = fork.SimpleQueue()
    children = [fork.Process(target=child, args=(results,)) for _ in range(3)]
    for process in children:
        process.start()
    answers = [results.get() for _ in range(60)]
    for process in children:
        process.join()
        assert process.exitcode == 0
    assert "None" in answers
    assert all(answer == "None" or "is being built by" in answer for answer in answers)
    assert contents(path) == whole
    assert names(tmp_path) == ["tokens"]


def test_readers_never_see_less_than_an_artifact(tmp_path):
    path = tmp_path / "labels"
    write(path)

    def child():
        for scale in range(2, 40):
            write(path, scale, overwrite=True)
        os._exit(0)

    process = fork.Process(target=child)
    process.start()
    opened = 0
    while process.is_alive():
        assert Artifact.open(path, kind="labels").names == ("dist", "hubs")
        opened += 1
    process.join()
    assert process.exitcode == 0
    assert opened > 5


def test_a_dead_builders_lock_is_taken_over(tmp_path):
    dead = fork.Process(target=lambda: None)
    dead.start()
    dead.join()
    lock = tmp_path / ".labels.lock"
    lock.write_text(json.dumps({"pid": dead.pid, "host": "here", "started": "long ago"}))
    write(tmp_path / "labels")
    assert names(tmp_path) == ["labels"]


def test_a_killed_builders_lock_is_taken_over(tmp_path):
    path = tmp_path / "tokens"
    reader, writer = fork.Pipe()

    def child():
        with ShardWriter(path, **PLAN, shard_names=SHARDS):
            writer.send("locked")
            time.sleep(60)

    process = fork.Process(target=child)
    process.start()
    reader.recv()
    with pytest.raises(ArtifactError, match=f"process {process.pid} on"):
        build(path, resume=True)
    process.kill()
    process.join()
    assert (tmp_path / ".tokens.lock").exists()
    build(path, resume=True)
    assert names(tmp_path) == ["tokens"]


def test_a_lock_that_vanished_while_it_was_taken_is_taken_again(tmp_path, monkeypatch):
    """The previous holder may remove the file between our opening and locking it."""
    path, flock, calls = tmp_path / "labels", target.fcntl.flock, []

    def slow_flock(descriptor, operation):
        if not calls:
            (tmp_path / ".labels.lock").unlink()
        calls.append(operation)
        return flock(descriptor, operation)

    monkeypatch.setattr(target.fcntl, "flock", slow_flock)
    with ArtifactWriter(path, kind="labels", format_version=1):
        assert len(calls) == 2
        with pytest.raises(ArtifactError, match="is being built by"):
            write(path)


@pytest.mark.parametrize("content", [b"", b"\xff", b"[]", b"{}", b"7"])
def test_a_lock_without_a_name_still_holds(tmp_path, content):
    path = tmp_path / "tokens"
    with ShardWriter(path, **PLAN, shard_names=SHARDS):
        (tmp_path / ".tokens.lock").write_bytes(content)
        with pytest.raises(ArtifactError, match="built by another process"):
            build(path, resume=True)


def test_a_forked_worker_does_not_keep_the_lock(tmp_path):
    path = tmp_path / "tokens"
    with ShardWriter(path, **PLAN, shard_names=SHARDS):
        worker = fork.Process(target=time.sleep, args=(60,))
        worker.start()
    build(path, resume=True)
    worker.kill()
    worker.join()


def test_systems_without_kernel_locks_still_build(tmp_path, monkeypatch, whole):
    monkeypatch.setattr(target, "fcntl", None)
    build(tmp_path / "tokens")
    assert contents(tmp_path / "tokens") == whole
    assert names(tmp_path) == ["tokens"]
