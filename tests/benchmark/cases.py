"""Records with known figures, and contenders that do what a test needs."""

import numpy as np

from dhilgt.benchmark.record import Record
from dhilgt.benchmark.running import contenders
from dhilgt.benchmark.running.data import about
from dhilgt.benchmark.running.grid import Cell

GPU = {"device": "cuda:0", "gpus": ["H200"], "cpu": "Xeon", "cpus": 16, "torch": "2.9"}


def changed(record, **values):
    """A record with some values of its line changed."""
    return Record.from_json(record.to_json() | values)


def unrun(cell, budget=None):
    """The record of a cell of which nothing is known yet."""
    return Record.of(cell, about(cell.data), budget)


def line(system, data, seed, score=None, *, trials=0, recipe="paper", variant="paper", **more):
    """A record as a cell would have: all figures given, or a status and message."""
    cell = Cell(system, data, seed, variant, recipe, trials=trials)
    names = about(data).metrics
    scores = score if isinstance(score, dict) else {names[0]: score}
    figures = {
        "status": "ok",
        "precompute_seconds": 0.5,
        "epoch_seconds": 0.012,
        "inference_seconds": 0.004,
        "inference_device": "cuda:0",
        "gpu_peak_bytes": 1_250_000_000,
        "host_peak_bytes": 900_000_000,
        "environment": GPU,
        "scores": {"test": {name: scores.get(name) for name in names}},
    }
    return changed(unrun(cell, 600.0), **(figures | more))


def broken(system, data, seed, status, message=""):
    """The record of a cell that has no figures."""
    cell = Cell(system, data, seed)
    return changed(unrun(cell, 600.0), status=status, message=message, environment=GPU)


class Scripted(contenders.Contender):
    """A system whose training is a function of its cell; it predicts the truth."""

    script = staticmethod(lambda cell: 0.5)
    asked = ()

    def prepare(self):
        with self.clock.measure("precompute"):
            self.num_parameters = 1

    def train(self):
        for _ in range(2):
            with self.clock.measure("epoch"):
                pass
        score = type(self).script(self.cell)
        return contenders.Training(2, 1, score, self.settings.training.metric)

    def predict(self, part):
        type(self).asked = (*type(self).asked, (self.cell.name, part))
        with self.clock.measure("inference"):
            truth = self.graph.labels[self.part(part)]
            return np.eye(self.graph.num_classes, dtype=np.float32)[truth]

    @property
    def inference_device(self):
        return "cpu"


def scripted(monkeypatch, script=lambda cell: 0.5):
    """Has all cells of this process run by `script`, which gives a validation score or raises."""
    kind = type("Contender", (Scripted,), {"script": staticmethod(script), "asked": ()})
    monkeypatch.setattr(contenders, "contender", lambda *args: kind(*args))
    return kind
