"""Learning, scoring, stopping early, and what the run folder holds."""

import json
import subprocess
import sys
import warnings

import numpy as np
import pytest
import torch

import dhilgt
from dhilgt.errors import (
    ArtifactError,
    ConfigError,
    MemoryLimitError,
    TrainingError,
    TrainingWarning,
)
from dhilgt.training.config import TrainConfig
from dhilgt.training.display import TrainDisplay
from dhilgt.training.trainer import Trainer
from tests.training.cases import (
    Accuracy,
    Loader,
    Scripted,
    Undefined,
    loaders,
    same,
    toy_data,
    toy_model,
    trainer,
    weights,
)

torch.set_num_threads(1)


def read_lines(folder):
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def test_learns(tmp_path):
    train, val = loaders()
    worker = trainer(tmp_path / "run", epochs=30)
    worker.stages.add("labels", seconds=1.5)
    result = worker.fit(train, val)
    assert result.history[-1]["train_loss"] < 0.5 * result.history[0]["train_loss"]
    assert result.best_score == max(line["val_score"] for line in result.history) > 0.8
    scores = worker.evaluate(val)
    assert scores["accuracy"] == result.best_score
    nodes, shares = worker.predict(val)
    assert nodes.tolist() == list(range(40, 60))
    np.testing.assert_allclose(shares.sum(1), 1, rtol=1e-6)
    assert (shares.argmax(1) == toy_data()[1][40:].numpy()).mean() == result.best_score

    assert read_lines(tmp_path / "run") == result.history
    written = json.loads((tmp_path / "run" / "result.json").read_text())
    assert written["best_epoch"] == result.best_epoch
    assert set(written["stages"]) == {"labels", "epoch", "evaluation"}
    assert written["stages"]["epoch"]["times"] == 30
    assert written["stages"]["epoch"]["host_peak_bytes"] > 0
    assert set(worker.stages.seconds()) == {"labels", "epoch", "evaluation", "inference"}
    about = json.loads((tmp_path / "run" / "environment.json").read_text())
    assert about["torch"] == torch.__version__
    assert json.loads((tmp_path / "run" / "config.json").read_text())["epochs"] == 30
    assert {p.name for p in (tmp_path / "run").iterdir()} == {
        "config.json", "environment.json", "metrics.jsonl", "result.json", "best.safetensors",
        "checkpoints",
    }  # fmt: skip


def test_one_step_by_hand():
    """Plain torch with the same settings takes the same steps."""
    train = Loader(range(20), batch_size=8)  # the last batch is smaller
    worker = trainer(dropout=0.0, epochs=2, lr=0.01, warmup_epochs=0, decay="none", clip_norm=0.3)
    result = worker.fit(train)
    model = toy_model(0.0)
    matrices = [p for p in model.parameters() if p.ndim > 1]
    others = [p for p in model.parameters() if p.ndim <= 1]
    groups = [{"params": matrices, "weight_decay": 0.01}, {"params": others, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=0.01)
    for _ in range(2):
        total = 0.0
        for batch in train.iterate():
            loss = torch.nn.functional.cross_entropy(model(*batch.inputs), batch.labels)
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 0.3)
            optimizer.step()
            total += loss.item() * len(batch)
    for name, tensor in model.state_dict().items():
        torch.testing.assert_close(worker.model.state_dict()[name], tensor)
    assert result.history[-1]["train_loss"] == pytest.approx(total / 20)
    assert result.best_epoch == 2
    assert result.best_score is None


def test_same_run_twice_is_the_same():
    actual = []
    for _ in range(2):
        worker = trainer(deterministic=True, epochs=4)
        result = worker.fit(*loaders())
        actual.append((weights(worker.model), result.history))
    assert same(actual[0][0], actual[1][0])
    assert actual[0][1] == actual[1][1]
    assert not torch.are_deterministic_algorithms_enabled()
    other = trainer(seed=1, epochs=4)
    other.fit(*loaders())
    assert not same(actual[0][0], weights(other.model))


def test_bf16_learns():
    worker = trainer(epochs=20, precision="bf16")
    result = worker.fit(*loaders())
    assert result.best_score > 0.7
    assert all(tensor.dtype == torch.float32 for tensor in worker.model.state_dict().values())


def test_stops_early_and_gives_the_best_back():
    metric = Scripted([0.1, 0.5, 0.4, 0.5, 0.3, 0.2])
    kept = {}

    class Watched(Scripted):
        pass

    worker = trainer(metric=metric, patience=3, epochs=50)
    original = worker._end_epoch

    def spy(run, *rest):
        done = original(run, *rest)
        kept[run.state.epoch] = weights(worker.model)
        return done

    worker._end_epoch = spy
    result = worker.fit(*loaders())
    assert (result.best_epoch, result.best_score, result.epochs) == (2, 0.5, 5)
    assert result.stopped_early
    assert same(weights(worker.model), kept[2])
    assert not same(kept[5], kept[2])


def test_lower_can_be_better():
    metric = Scripted([0.5, 0.1, 0.4])
    metric.higher_is_better = False
    assert trainer(metric=metric, epochs=3).fit(*loaders()).best_epoch == 2


@pytest.mark.parametrize("unit", ["warmup_epochs", "warmup_steps"])
def test_patience_is_counted_from_the_end_of_the_warm_up(unit):
    train, val = loaders()
    warmup = {unit: 6.5 if unit == "warmup_epochs" else 7 * len(train)}
    worker = trainer(metric=Scripted([0.9] + [0.1] * 40), patience=3, epochs=40, **warmup)
    result = worker.fit(train, val)
    assert (result.epochs, result.best_epoch, result.stopped_early) == (10, 1, True)


def test_no_patience_trains_to_the_end():
    result = trainer(metric=Scripted([0.9] + [0.1] * 9), patience=None).fit(*loaders())
    assert (result.epochs, result.best_epoch, result.stopped_early) == (10, 1, False)


def test_eval_every():
    result = trainer(epochs=5, eval_every=2).fit(*loaders())
    assert [line["val_score"] is not None for line in result.history] == [
        False, True, False, True, True,
    ]  # fmt: skip


def test_undefined_metric_falls_back_to_loss(tmp_path):
    with pytest.warns(TrainingWarning, match="undefined is not defined"):
        result = trainer(tmp_path / "run", metric=Undefined(), epochs=5).fit(*loaders())
    assert [line["val_score"] for line in result.history] == [None] * 5
    losses = [line["val_loss"] for line in result.history]
    assert result.metric == "loss"
    assert result.best_score == min(losses)
    assert result.best_epoch == 1 + losses.index(min(losses))
    assert "NaN" not in (tmp_path / "run" / "metrics.jsonl").read_text()


def test_metric_undefined_once_is_never_taken_for_zero():
    metric = Scripted([0.2, float("nan"), 0.1, 0.1, 0.1])
    with pytest.warns(TrainingWarning, match="epoch 2"):
        result = trainer(metric=metric, epochs=5).fit(*loaders())
    losses = [line["val_loss"] for line in result.history]
    assert result.best_epoch == 1 + losses.index(min(losses))


def test_no_validation_nodes_turns_early_stopping_off():
    train, _ = loaders()
    with pytest.warns(TrainingWarning, match="early stopping is off"):
        result = trainer(patience=1, epochs=4).fit(train, Loader([]))
    assert (result.epochs, result.best_epoch) == (4, 4)


def test_no_training_nodes():
    with pytest.raises(TrainingError, match="no nodes"):
        trainer().fit(Loader([]))


def test_one_class_or_a_missing_one_is_said():
    with pytest.warns(TrainingWarning, match="all training nodes are of class 0"):
        trainer(epochs=1).fit(Loader(range(0, 30, 3)))
    nodes = [node for node in range(40) if node % 3 != 1]
    with pytest.warns(TrainingWarning, match="no training node is of class 1"):
        trainer(epochs=1).fit(Loader(nodes))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        trainer(epochs=1).fit(*loaders())


@pytest.mark.parametrize("label", [-1, 3])
def test_label_out_of_range(label):
    train = Loader(range(40))
    train.labels = train.labels.clone()
    train.labels[11] = label
    with pytest.raises(TrainingError, match=rf"node 11 has label {label}.*3 classes"):
        trainer().fit(train)


def test_loader_without_labels():
    bare = Loader(range(10))
    bare.labels = None
    with pytest.raises(TrainingError, match="no labels"):
        trainer().fit(bare)
    with pytest.raises(TrainingError, match="without labels"):
        trainer().evaluate(bare)
    nodes, shares = trainer().predict(bare)
    assert len(nodes) == len(shares) == 10


def test_loss_that_is_not_a_number_stops(tmp_path):
    train, val = loaders()
    train.x = train.x.clone()
    train.x[3] = float("nan")
    with pytest.raises(TrainingError, match=r"loss of epoch 1 is nan.*clip_norm"):
        trainer(tmp_path / "run").fit(train, val)


def test_too_little_memory_names_the_batch_and_what_is_smaller(tmp_path):
    class Large(torch.nn.Linear):
        def forward(self, x):
            return super().forward(x) + torch.empty(10**15)  # the system refuses it

    words = r"for training batches of 8 nodes on cpu: 4 PB more .*; lower batch_size, size,"
    with pytest.raises(MemoryLimitError, match=words):
        trainer(tmp_path / "run", model=Large(6, 3)).fit(*loaders())


def test_last_batch_of_one_and_batches_of_one():
    trainer(epochs=1).fit(Loader(range(41), batch_size=8), Loader([50]))
    trainer(epochs=1).fit(Loader(range(5), batch_size=1))


def test_no_epoch_begins_when_the_time_is_over():
    worker = trainer(epochs=50, max_seconds=1e-9)
    result = worker.fit(*loaders())
    assert (result.epochs, result.best_epoch) == (1, 1)
    assert (result.out_of_time, result.stopped_early) == (True, False)
    whole = trainer(epochs=2, max_seconds=1e6).fit(*loaders())
    assert (whole.epochs, whole.out_of_time) == (2, False)


def test_the_time_before_a_resume_counts(tmp_path):
    trainer(tmp_path, epochs=50, max_seconds=1e-9).fit(*loaders())
    again = trainer(tmp_path, resume=True, epochs=50, max_seconds=1e-9)
    assert again.fit(*loaders()).epochs == 1


def test_max_batches():
    worker = trainer(epochs=2, max_batches=2, max_eval_batches=1)
    train, val = loaders()
    worker.fit(train, val)
    assert len(worker.predict(val)[0]) == 8


def test_several_copies_average_probabilities():
    class Copies(Loader):
        copies = 3

        def with_copy(self, copy):
            actual = Loader(self.all, self.batch_size)
            actual.x = actual.x + copy
            return actual

    worker = trainer()
    loader = Copies(range(40, 60))
    parts = [worker.predict(loader.with_copy(copy))[1] for copy in range(3)]
    np.testing.assert_allclose(worker.predict(loader)[1], np.mean(parts, axis=0), rtol=1e-4)
    assert set(worker.evaluate(loader)) == {"loss", "accuracy"}


def test_folder_of_another_run_or_of_something_else(tmp_path):
    trainer(tmp_path / "run", epochs=1).fit(*loaders())
    with pytest.raises(ArtifactError, match="holds a run; pass resume=True"):
        trainer(tmp_path / "run", epochs=1).fit(*loaders())
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "diary.txt").write_text("dear")
    with pytest.raises(ArtifactError, match=r"not the folder of a run .*diary"):
        trainer(tmp_path / "notes", resume=True).fit(*loaders())
    (tmp_path / "file").write_text("x")
    with pytest.raises(ArtifactError, match="is a file"):
        trainer(tmp_path / "file").fit(*loaders())


def test_two_runs_in_one_folder(tmp_path):
    first = trainer(tmp_path / "run")
    first._folder.open(resume=False)
    with pytest.raises(ArtifactError, match="process"):
        trainer(tmp_path / "run", resume=True).fit(*loaders())
    first._folder.close()
    trainer(tmp_path / "run", epochs=1, resume=True).fit(*loaders())


def test_config_may_be_a_mapping():
    assert dhilgt.Trainer(toy_model(), {"epochs": 2}, device="cpu").config.epochs == 2
    with pytest.raises(ConfigError, match="did you mean 'lr'"):
        dhilgt.Trainer(toy_model(), {"lrr": 2}, device="cpu")
    with pytest.raises(ConfigError, match="is not available; use cpu"):
        dhilgt.Trainer(toy_model(), device="cuda:77")


def test_package_starts_without_torch():
    code = (
        "import sys, dhilgt; assert 'torch' not in sys.modules; assert 'Trainer' in dir(dhilgt);"
        "dhilgt.Trainer; dhilgt.TrainConfig; assert 'torch' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_display_says_everything(capfd):
    display = TrainDisplay("training", epochs=5, force=True)
    display.start()
    display.epoch(2)
    display._since -= 1
    line = {"metric": "accuracy", "val_score": 0.75, "val_loss": 0.4, "train_loss": 0.6}
    display.scored(line, "0.8000 (epoch 1)")
    display.step(3, 10, 640, lambda: 0.5)
    note = display._note()
    display.stop()
    assert "epoch 2/5  accuracy 0.7500  best 0.8000 (epoch 1)  loss 0.5000" in note
    assert "nodes/s" in note
    assert capfd.readouterr().err


def test_quiet_when_piped(capfd):
    dhilgt.Trainer(toy_model(), {"epochs": 1}, device="cpu", metric=Accuracy()).fit(*loaders())
    captured = capfd.readouterr()
    assert captured.out == captured.err == ""


def test_each_scored_epoch_is_told_and_may_end_the_training(tmp_path):
    class EnoughError(Exception):
        pass

    reported = []

    def after(line):
        reported.append(line)
        if line["epoch"] == 6:
            raise EnoughError

    train, val = loaders()
    worker = Trainer(
        toy_model(), TrainConfig(epochs=10, eval_every=2), tmp_path / "run", "cpu",
        metric=Accuracy(), progress=False, after_epoch=after,
    )  # fmt: skip
    with pytest.raises(EnoughError):
        worker.fit(train, val)
    assert [line["epoch"] for line in reported] == [2, 4, 6]
    assert reported == [
        line for line in read_lines(tmp_path / "run") if line["val_score"] is not None
    ]
    reported.clear()
    trainer_alone = Trainer(
        toy_model(), TrainConfig(epochs=2), device="cpu", progress=False, after_epoch=after
    )
    trainer_alone.fit(train)
    assert reported == []  # without validation no epoch is scored
