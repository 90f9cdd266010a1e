"""Exact resume, kills at any moment, failing disks, damaged files."""

import contextlib
import json
import multiprocessing
import os
import random
import shutil
import time

import numpy as np
import pytest
import safetensors.torch
import torch

from dhilgt.errors import ArtifactError, ConfigError, TrainingWarning
from dhilgt.store import files
from dhilgt.training import rng
from dhilgt.training.checkpoint import Checkpoint, CheckpointFolder
from tests.training.cases import Loader, loaders, run, same, toy_model, trainer, weights

torch.set_num_threads(1)


class Killed(BaseException):
    """Stands for the end of the process at some step."""


# Each run is a process of its own, forked off one that has torch loaded already.
PROCESSES = multiprocessing.get_context("forkserver")
PROCESSES.set_forkserver_preload(["dhilgt.training.trainer"])


def start(folder, **changes):
    process = PROCESSES.Process(target=run, args=(str(folder), changes))
    process.start()
    return process


def finish(folder, **changes):
    process = start(folder, **changes)
    process.join()
    assert process.exitcode == 0


def wait_for(condition, seconds=60):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited too long"
        time.sleep(0.002)


def latest(folder):
    path = folder / "checkpoints" / "LATEST"
    return path.read_text().strip() if path.exists() else ""


def outcome(folder):
    return (folder / "metrics.jsonl").read_bytes(), (folder / "best.safetensors").read_bytes()


def last_tensors(folder):
    path = folder / "checkpoints" / latest(folder) / "training.safetensors"
    return safetensors.torch.load_file(path)


@pytest.fixture(scope="module")
def whole_run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole") / "run"
    trainer(folder, clip_norm=1.0).fit(*loaders())
    return folder


def assert_same_run(folder, whole):
    assert outcome(folder) == outcome(whole)
    assert same(last_tensors(folder), last_tensors(whole))


# ---- exact resume ------------------------------------------------------------------------------


@pytest.mark.full
def test_killed_between_epochs(tmp_path, whole_run):
    """10 epochs = 5, SIGKILL, 5 more, in processes of their own."""
    folder = tmp_path / "run"
    process = start(folder, clip_norm=1.0, delay=0.005)
    wait_for(lambda: latest(folder) >= "00005-000000")
    process.kill()
    process.join()
    assert "00005-000000" <= latest(folder) < "00010-000000"
    finish(folder, clip_norm=1.0)
    assert_same_run(folder, whole_run)


def test_killed_inside_an_epoch(tmp_path, whole_run):
    folder = tmp_path / "run"
    process = start(folder, clip_norm=1.0, delay=0.02, checkpoint_batches=1)
    wait_for(lambda: latest(folder) > "00003" and not latest(folder).endswith("000000"))
    process.kill()
    process.join()
    assert not latest(folder).endswith("-000000") or latest(folder) > "00003"
    trainer(folder, clip_norm=1.0, resume=True).fit(*loaders())
    assert_same_run(folder, whole_run)


@pytest.mark.parametrize("stop_at", [1, 4, 5, 6, 23, 47])
def test_cut_off_at_any_step(tmp_path, whole_run, stop_at):
    folder = tmp_path / "run"

    class Breaking(Loader):
        left = stop_at

        def iterate(self, start_batch=0):
            for batch in super().iterate(start_batch):
                Breaking.left -= 1
                if Breaking.left < 0:
                    raise Killed
                yield batch

    train, val = loaders()
    breaking = Breaking(range(40), shuffle=True)
    with pytest.raises(Killed):
        trainer(folder, clip_norm=1.0, checkpoint_batches=2).fit(breaking, val)
    # What the next process does before it gets here must not matter.
    random.random(), np.random.rand(3), torch.rand(5)  # noqa: NPY002
    # Before the first save the run begins anew, with the weights of the model.
    model = toy_model(seed=99) if latest(folder) else None
    trainer(folder, clip_norm=1.0, resume=True, model=model).fit(train, val)
    assert_same_run(folder, whole_run)


def test_rare_saves_lose_epochs_not_exactness(tmp_path, whole_run):
    folder = tmp_path / "run"
    first = trainer(folder, clip_norm=1.0, checkpoint_every=4)
    original, calls = first._end_epoch, []

    def dying(*arguments):
        if len(calls) == 6:
            raise Killed
        calls.append(1)
        return original(*arguments)

    first._end_epoch = dying
    with pytest.raises(Killed):
        first.fit(*loaders())
    assert latest(folder) == "00004-000000"
    assert len((folder / "metrics.jsonl").read_text().splitlines()) == 6
    with (folder / "metrics.jsonl").open("a") as file:
        file.write('{"epoch": 7, "tor')  # a torn line
    trainer(folder, clip_norm=1.0, resume=True).fit(*loaders())
    assert_same_run(folder, whole_run)


@pytest.mark.parametrize(("seconds", "saved"), [(1e9, [1, 10]), (0.0, list(range(1, 11)))])
def test_short_epochs_share_a_save(tmp_path, monkeypatch, seconds, saved):
    monkeypatch.setattr("dhilgt.training.trainer._SECONDS_BETWEEN_SAVES", seconds)
    epochs, save = [], CheckpointFolder.save
    monkeypatch.setattr(
        CheckpointFolder,
        "save",
        lambda folder, epoch, *rest: (epochs.append(epoch), save(folder, epoch, *rest))[1],
    )
    trainer(tmp_path / "run").fit(*loaders())
    assert epochs == saved
    assert len((tmp_path / "run/metrics.jsonl").read_text().splitlines()) == 10


def test_finished_run_resumes_to_its_result(tmp_path):
    first = trainer(tmp_path / "run", epochs=3)
    done = first.fit(*loaders())
    again = trainer(tmp_path / "run", epochs=3, resume=True, model=toy_model(seed=50))
    actual = again.fit(*loaders())
    assert (actual.history, actual.best_epoch) == (done.history, done.best_epoch)
    assert same(weights(first.model), weights(again.model))


def test_more_epochs_than_planned(tmp_path):
    trainer(tmp_path / "run", epochs=3, decay="none").fit(*loaders())
    more = trainer(tmp_path / "run", epochs=5, decay="none", resume=True).fit(*loaders())
    straight = trainer(epochs=5, decay="none").fit(*loaders())
    assert more.history == straight.history
    trainer(tmp_path / "b", epochs=2).fit(*loaders())
    with pytest.warns(TrainingWarning, match="planned for 2 epochs"):
        trainer(tmp_path / "b", epochs=3, resume=True).fit(*loaders())
    trainer(tmp_path / "c", epochs=2, decay="cosine").fit(*loaders())
    with pytest.warns(TrainingWarning, match="planned for 2 epochs"):
        trainer(tmp_path / "c", epochs=3, decay="cosine", resume=True).fit(*loaders())


def test_resume_with_nothing_there_starts(tmp_path):
    assert trainer(tmp_path / "run", epochs=1, resume=True).fit(*loaders()).epochs == 1


def test_resume_with_other_settings_data_or_model(tmp_path):
    folder = tmp_path / "run"
    trainer(folder, epochs=2).fit(*loaders())
    with pytest.raises(ConfigError, match=r"lr = 0.5, but the run in this folder has lr = 0.02"):
        trainer(folder, epochs=2, lr=0.5, resume=True).fit(*loaders())
    with pytest.raises(ConfigError, match="training nodes 40 then, 30 now"):
        trainer(folder, epochs=2, resume=True).fit(Loader(range(30), shuffle=True))
    with pytest.raises(ConfigError, match="seed 0 then, 8 now"):
        trainer(folder, epochs=2, resume=True).fit(Loader(range(40), shuffle=True, seed=8))
    with pytest.raises(ArtifactError, match="does not fit the model"):
        trainer(folder, epochs=2, resume=True, model=torch.nn.Linear(6, 3)).fit(*loaders())


def test_random_states_come_back():
    random.gauss(0, 1), np.random.normal()  # noqa: NPY002  leaves half a pair behind
    tensors, values = rng.capture()
    values = json.loads(json.dumps(values))

    def draw():
        numbers = [random.gauss(0, 1), random.random(), np.random.normal()]  # noqa: NPY002
        return numbers + torch.rand(3).tolist()

    first = draw()
    rng.restore(tensors, values)
    assert draw() == first
    with pytest.raises(ArtifactError, match="random state"):
        rng.restore({}, values)


# ---- SIGKILL at random moments -----------------------------------------------------------------


def saved_batches(folder):
    epoch, _, batch = (latest(folder) or "0-0").partition("-")
    return 5 * int(epoch) + int(batch)


def check_kills(tmp_path, whole_run, kills, seed):
    draw = random.Random(seed)
    folder, done = tmp_path / "run", 0
    finished = 0
    while done < kills:
        if latest(folder) > "00007":
            # Near the end: finish, compare, begin another run.
            finish(folder, clip_norm=1.0)
            assert_same_run(folder, whole_run)
            shutil.rmtree(folder)
            finished += 1
        process = start(folder, clip_norm=1.0, checkpoint_batches=1)
        # A few saves on, then anywhere inside a step or a save; now and then while it starts.
        goal = saved_batches(folder) + draw.randrange(8)
        wait_for(lambda at=goal, it=process: saved_batches(folder) >= at or not it.is_alive())
        time.sleep(draw.uniform(0.0, 0.02))
        process.kill()
        process.join()
        done += 1
        for path in folder.glob("*.json"):
            json.loads(path.read_text())
        if latest(folder):
            assert CheckpointFolder(folder / "checkpoints").load() is not None
    trainer(folder, clip_norm=1.0, resume=True).fit(*loaders())
    assert_same_run(folder, whole_run)
    left = {path.name for path in (folder / "checkpoints").iterdir()}
    assert len(left) == 3, left
    return finished


def test_killed_at_random_moments_of_saving(tmp_path, whole_run):
    """Dies inside any system call of any save, without a process for each."""
    draw = random.Random(5)
    folder = tmp_path / "run"
    for _ in range(25):
        with dying_disk(draw.randrange(1, 250)), contextlib.suppress(Killed):
            trainer(folder, clip_norm=1.0, checkpoint_batches=2, resume=True).fit(*loaders())
            assert_same_run(folder, whole_run)
            shutil.rmtree(folder)
    trainer(folder, clip_norm=1.0, resume=True).fit(*loaders())
    assert_same_run(folder, whole_run)


@pytest.mark.full
def test_sigkill_at_random_moments(tmp_path, whole_run):
    check_kills(tmp_path, whole_run, kills=10, seed=1)


@pytest.mark.full
def test_sigkill_at_fifty_random_moments(tmp_path, whole_run):
    assert check_kills(tmp_path, whole_run, kills=50, seed=2) > 0


# ---- failing disk ------------------------------------------------------------------------------


class FailingOps(files.FileOps):
    """Fails the n-th call that changes the disk, with an error or with the end of the process.

    After the end of the process nothing reaches the disk any more.
    """

    def __init__(self, at, error):
        self.left, self.error, self.dead = at, error, False

    def count(self):
        self.left -= 1
        if self.dead or self.left == 0:
            self.dead = isinstance(self.error, Killed)
            raise self.error

    def open(self, path, flags):
        self.count()
        return super().open(path, flags)

    def write(self, descriptor, data):
        try:
            self.count()
        except Killed:
            os.write(descriptor, data[: len(data) // 2])
            raise
        return super().write(descriptor, data)

    def fsync(self, descriptor):
        self.count()  # the tests do not wait for the disk

    def rename(self, source, target):
        self.count()
        super().rename(source, target)

    def mkdir(self, path):
        self.count()
        super().mkdir(path)

    def unlink(self, path):
        # The kernel lets go of a dead process's lock.
        if path.suffix != ".lock" and (self.dead or isinstance(self.error, Killed)):
            self.count()
        super().unlink(path)

    def rmdir(self, path):
        if self.dead or isinstance(self.error, Killed):
            self.count()
        super().rmdir(path)


class dying_disk:
    def __init__(self, at, error=None):
        self.ops = FailingOps(at, error or Killed())

    def __enter__(self):
        self.before, files.ops = files.ops, self.ops
        return self.ops

    def __exit__(self, *_):
        files.ops = self.before


def message_of(work):
    try:
        work()
    except ArtifactError as error:
        return str(error)
    return ""


def small(value):
    return Checkpoint({"w": torch.full((3,), float(value))}, {}, {"value": value})


@pytest.mark.parametrize("code", [28])
def test_every_failing_call_raises_and_keeps_the_older(tmp_path, code):
    for at in range(1, 40):
        folder = CheckpointFolder(tmp_path / str(at))
        folder.save(1, 0, small(1))
        folder.save(2, 0, small(2))
        with dying_disk(at, OSError(code, os.strerror(code))) as disk:
            said = message_of(lambda folder=folder: folder.save(3, 0, small(3)))
            if said:
                assert os.strerror(code) in said
            else:
                assert disk.left > 0, "a failed call was not reported"
                assert at > 15
                return
        # LATEST may have been replaced just before the folder's sync failed.
        assert folder.load().values["value"] in (2, 3)
        assert not [p for p in folder.path.iterdir() if p.name.startswith(".unfinished")]
        folder.save(4, 0, small(4))
        assert folder.load().values["value"] == 4
    pytest.fail("never came to the end of a save")


def test_failed_save_stops_training(tmp_path, monkeypatch):
    folder = tmp_path / "run"
    trainer(folder, epochs=2, decay="none").fit(*loaders())
    before = last_tensors(folder)

    def full(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(ArtifactError, match=r"No space left.*free some space"):
        trainer(folder, epochs=4, decay="none", resume=True).fit(*loaders())
    monkeypatch.undo()
    assert same(before, last_tensors(folder))
    assert trainer(folder, epochs=4, decay="none", resume=True).fit(*loaders()).epochs == 4


@pytest.mark.skipif(os.geteuid() == 0, reason="the super-user may write anywhere")
def test_read_only_folder_is_found_before_work(tmp_path):
    tmp_path.chmod(0o500)
    try:
        with pytest.raises(ArtifactError, match="allow writing"):
            trainer(tmp_path / "run").fit(*loaders())
    finally:
        tmp_path.chmod(0o700)


# ---- damaged files -----------------------------------------------------------------------------


def damage(path, kind):
    data = path.read_bytes()
    if kind == "gone":
        path.unlink()
    elif kind == "flipped":
        middle = len(data) * 3 // 4
        path.write_bytes(data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :])
    elif kind == "cut":
        path.write_bytes(data[: len(data) // 2])
    elif kind == "empty":
        path.write_bytes(b"")
    elif kind == "longer":
        path.write_bytes(data + b"x")


@pytest.mark.parametrize("file", ["training.safetensors", "best.safetensors", "state.json"])
@pytest.mark.parametrize("kind", ["gone", "flipped", "cut", "empty", "longer"])
def test_damaged_checkpoint_is_refused(tmp_path, file, kind):
    folder = CheckpointFolder(tmp_path / "c")
    tensors = {"w": torch.arange(100.0)}
    folder.save(1, 0, Checkpoint(tensors, tensors, {"value": 1}))
    folder.save(2, 0, Checkpoint(tensors, tensors, {"value": 2}))
    damage(folder.path / "00002-000000" / file, kind)
    with pytest.raises(ArtifactError, match=f"{file}.*write 00001-000000 in"):
        folder.load()
    (folder.path / "LATEST").write_text("00001-000000\n")
    assert folder.load().values["value"] == 1


def test_without_latest_the_newest_is_taken(tmp_path):
    folder = CheckpointFolder(tmp_path / "c")
    for epoch in (1, 2):
        folder.save(epoch, 0, small(epoch))
    (folder.path / "LATEST").unlink()
    with pytest.warns(TrainingWarning, match="LATEST is missing; the run goes on from 00002"):
        assert folder.load().values["value"] == 2


@pytest.mark.parametrize("text", ["", "../../etc", "00009-000000x", "\xff" * 100])
def test_latest_that_names_no_checkpoint(tmp_path, text):
    folder = CheckpointFolder(tmp_path / "c")
    folder.save(1, 0, small(1))
    (folder.path / "LATEST").write_text(text)
    with pytest.raises(ArtifactError, match="LATEST"):
        folder.load()


def test_newer_version_is_refused(tmp_path):
    folder = CheckpointFolder(tmp_path / "c")
    state = folder.save(1, 0, small(1)) / "state.json"
    state.write_text(state.read_text().replace('"version": 1', '"version": 2'))
    with pytest.raises(ArtifactError, match=r"version 2, this library reads 1"):
        folder.load()


def test_two_checkpoints_are_kept(tmp_path):
    folder = CheckpointFolder(tmp_path / "c")
    for epoch in range(1, 6):
        folder.save(epoch, 0, small(epoch))
    names = sorted(path.name for path in folder.path.iterdir())
    assert names == ["00004-000000", "00005-000000", "LATEST"]


def test_nothing_is_pickled(whole_run):
    for path in whole_run.rglob("*"):
        assert path.is_dir() or path.suffix in (".json", ".jsonl", ".safetensors", "")
