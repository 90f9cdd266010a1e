"""SIGINT and SIGTERM: the step is finished, the state saved, the user's handlers back."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
import torch

from dhilgt.errors import TrainingInterrupted
from dhilgt.training.signals import StopSignals
from dhilgt.training.trainer import Trainer
from tests.training.cases import Accuracy, Loader, loaders, settings, toy_model, trainer

torch.set_num_threads(1)
ROOT = Path(__file__).parents[2]


class Signalling(Loader):
    """Sends this process a signal when batch number `at` (counted over all epochs) is asked for."""

    def __init__(self, *args, at, signum, times=1, **kwargs):
        super().__init__(*args, **kwargs)
        self.at, self.signum, self.times = at, signum, times

    def iterate(self, start_batch=0):
        for batch in super().iterate(start_batch):
            self.at -= 1
            if self.at == 0:
                for _ in range(self.times):
                    os.kill(os.getpid(), self.signum)
            yield batch


def outcome(folder):
    return (folder / "metrics.jsonl").read_bytes(), (folder / "best.safetensors").read_bytes()


@pytest.mark.parametrize("keep", [0.0, 0.7])
def test_a_mean_of_weights_counts_each_epoch_once_however_often_it_is_scored(tmp_path, keep):
    train, val = loaders()
    in_batch = Signalling(range(40), shuffle=True, at=13, signum=signal.SIGTERM)
    in_scoring = Signalling(range(40, 60), at=8, signum=signal.SIGTERM)
    for asking in ((in_batch, val), (train, in_scoring)):
        with pytest.raises(TrainingInterrupted):
            trainer(tmp_path / "run", resume=True, weight_average=keep).fit(*asking)
    trainer(tmp_path / "run", resume=True, weight_average=keep).fit(train, val)
    trainer(tmp_path / "whole", weight_average=keep).fit(train, val)
    assert outcome(tmp_path / "run") == outcome(tmp_path / "whole")


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("at", [1, 5, 6, 18])
def test_stops_saves_and_resumes(tmp_path, signum, at):
    train, val = loaders()
    handlers = [signal.getsignal(s) for s in (signal.SIGINT, signal.SIGTERM)]
    asking = Signalling(range(40), shuffle=True, at=at, signum=signum)
    with pytest.raises(TrainingInterrupted) as caught:
        trainer(tmp_path / "run").fit(asking, val)
    assert [signal.getsignal(s) for s in (signal.SIGINT, signal.SIGTERM)] == handlers
    assert caught.value.signum == signum
    assert isinstance(caught.value, KeyboardInterrupt)
    text = str(caught.value)
    assert signal.Signals(signum).name in text
    assert f"run_dir={str(tmp_path / 'run')!r}, resume=True" in text
    trainer(tmp_path / "run", resume=True).fit(train, val)
    trainer(tmp_path / "whole").fit(train, val)
    assert outcome(tmp_path / "run") == outcome(tmp_path / "whole")


def test_stops_inside_an_evaluation(tmp_path):
    train, val = loaders()
    asking = Signalling(range(40, 60), at=8, signum=signal.SIGTERM)
    with pytest.raises(TrainingInterrupted, match="after 2 epochs and 5 batches"):
        trainer(tmp_path / "run").fit(train, asking)
    trainer(tmp_path / "run", resume=True).fit(train, val)
    trainer(tmp_path / "whole").fit(train, val)
    assert outcome(tmp_path / "run") == outcome(tmp_path / "whole")


def test_second_sigint_stops_at_once(tmp_path):
    asking = Signalling(range(40), at=7, signum=signal.SIGINT, times=2)
    with pytest.raises(TrainingInterrupted, match="at once by a second SIGINT") as caught:
        trainer(tmp_path / "run").fit(asking)
    assert f"the last save in {tmp_path / 'run'} is of 1 epoch; go on with" in str(caught.value)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert (tmp_path / "run" / "checkpoints" / "LATEST").read_text() == "00001-000000\n"
    trainer(tmp_path / "run", resume=True).fit(loaders()[0])


def test_second_sigint_before_the_first_save(tmp_path):
    for folder, words in (
        (tmp_path / "run", "before the first save in"),
        (None, "run_dir is None"),
    ):
        asking = Signalling(range(40), at=2, signum=signal.SIGINT, times=2)
        with pytest.raises(TrainingInterrupted, match=words):
            trainer(folder).fit(asking)
    assert trainer(tmp_path / "run", resume=True, epochs=1).fit(loaders()[0]).epochs == 1


def test_message_names_the_command_and_says_when_nothing_was_saved(tmp_path):
    asking = Signalling(range(40), at=2, signum=signal.SIGTERM)
    worker = Trainer(
        toy_model(), settings(), tmp_path / "my run", "cpu", metric=Accuracy(), progress=False,
        resume_command="some-command --resume {run_dir}",
    )  # fmt: skip
    with pytest.raises(TrainingInterrupted, match=r"or: some-command --resume '.*my run'"):
        worker.fit(asking)
    with pytest.raises(TrainingInterrupted, match="nothing was saved, as run_dir is None"):
        trainer().fit(Signalling(range(40), at=2, signum=signal.SIGTERM))


def test_users_handler_is_called_too(tmp_path):
    calls = []
    before = signal.signal(signal.SIGTERM, lambda *_: calls.append("mine"))
    try:
        mine = signal.getsignal(signal.SIGTERM)
        with pytest.raises(TrainingInterrupted):
            trainer().fit(Signalling(range(40), at=2, signum=signal.SIGTERM))
        assert calls == ["mine"]
        assert signal.getsignal(signal.SIGTERM) is mine
    finally:
        signal.signal(signal.SIGTERM, before)


def test_ignored_signal_stays_ignored():
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        asking = Signalling(range(40), at=2, signum=signal.SIGINT)
        assert trainer(epochs=2).fit(asking).epochs == 2
    finally:
        signal.signal(signal.SIGINT, before)


def test_signal_in_the_last_epoch_changes_nothing():
    _, val = loaders()
    asking = Signalling(range(40, 60), at=6, signum=signal.SIGTERM)

    class AfterTheLast(Accuracy):
        def __call__(self, labels, logits):
            os.kill(os.getpid(), signal.SIGTERM)
            return super().__call__(labels, logits)

    assert asking.num_nodes == val.num_nodes
    assert trainer(epochs=1, metric=AfterTheLast()).fit(*loaders()).epochs == 1


def test_other_threads_leave_signals_alone():
    actual = []

    def work():
        with StopSignals() as stop:
            actual.append((signal.getsignal(signal.SIGINT), stop.requested))
        actual.append(trainer(epochs=1).fit(*loaders()).epochs)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert actual == [(signal.default_int_handler, False), 1]


@pytest.mark.full
def test_process_ends_and_goes_on(tmp_path):
    folder = tmp_path / "run"
    command = [sys.executable, "-m", "tests.training.cases", str(folder)]
    process = subprocess.Popen(
        [*command, json.dumps({"delay": 0.05})], cwd=ROOT, text=True,
        stderr=subprocess.PIPE,
    )  # fmt: skip
    while not (folder / "checkpoints" / "LATEST").exists():
        assert process.poll() is None
        time.sleep(0.01)
    process.send_signal(signal.SIGTERM)
    _, said = process.communicate(timeout=30)
    assert "TrainingInterrupted: stopped by SIG" in said
    assert "resume=True" in said
    assert process.returncode not in (0, -9)
    train, val = loaders()
    trainer(folder, resume=True).fit(train, val)
    trainer(tmp_path / "whole").fit(train, val)
    assert outcome(folder) == outcome(tmp_path / "whole")
