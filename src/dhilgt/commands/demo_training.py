"""The later steps of `dhilgt demo`: training, comparing, predicting."""

import shutil
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import typer

from dhilgt.commands import predict as predict_command
from dhilgt.commands import shell
from dhilgt.errors import DhilgtError
from dhilgt.graph import Graph

if TYPE_CHECKING:
    from dhilgt.estimator import NodeClassifier

# A smaller model than the paper's and fewer epochs: two CPU cores need half a minute.
SETTINGS: dict[str, Any] = {
    "size": 16,
    "hidden_channels": 64,
    "num_layers": 2,
    "dropout": 0.3,
    "epochs": 20,
    "lr": 3e-3,
    "warmup_epochs": 1,
    "batch_size": 256,
}
_MLP_EPOCHS = 100


def remove_run(path: Path) -> None:
    """Removes the run of an earlier demo; refuses to touch anything else."""
    from dhilgt.run_folder import BUNDLE, is_ours

    if not path.exists():
        return
    names = [one.name for one in path.iterdir()]
    if not all(map(is_ours, names)) or (
        names and BUNDLE not in names and "checkpoints" not in names
    ):
        raise DhilgtError(f"{path} is not the run of a demo; choose another --output")
    shutil.rmtree(path)


def train(graph: Graph, path: Path, seed: int) -> "NodeClassifier":
    """Trains a classifier into a folder and says how it went."""
    import dhilgt

    started = time.perf_counter()
    clf = dhilgt.NodeClassifier(**SETTINGS, seed=seed, cache=False).fit(graph, run_dir=path)
    result = clf.result_
    shell.print_table(
        [
            ("nodes", ", ".join(f"{len(nodes):,} {part}" for part, nodes in clf.split_.items())),
            ("weights", f"{sum(part.numel() for part in clf.model_.parameters()):,}"),
            ("best epoch", f"{result.best_epoch} of {result.epochs}"),
            ("seconds", f"{time.perf_counter() - started:.1f}"),
        ]
    )
    return clf


def compare(graph: Graph, clf: "NodeClassifier", seed: int) -> dict[str, float]:
    """Gives the test scores of the classifier, of an MLP and of one answer for all."""
    assert graph.labels is not None
    classes = graph.labels
    largest = np.bincount(classes[clf.split_["train"]]).argmax()
    return {
        "one answer for all": float((classes[clf.split_["test"]] == largest).mean()),
        "MLP, features alone": _mlp_score(graph, clf, seed),
        "DHIL-GT": clf.scores_["test"]["accuracy"],
    }


def _mlp_score(graph: Graph, clf: "NodeClassifier", seed: int) -> float:
    from dhilgt import Trainer, baselines

    model = baselines.create("mlp", graph, seed=seed)
    config = model.train_config(epochs=_MLP_EPOCHS, seed=seed)
    trainer = Trainer(model, config, device=clf.settings_.device, progress=False)
    trainer.fit(
        model.train_batches(clf.split_["train"]), model.inference_batches(clf.split_["val"])
    )
    return trainer.evaluate(model.inference_batches(clf.split_["test"]))["accuracy"]


def predict(clf: "NodeClassifier", path: Path) -> None:
    """Writes the predictions and the report beside the run."""
    from dhilgt.report import write_report

    predict_command.run(path, output=path / "predictions.csv", quiet=True)
    lines = (path / "predictions.csv").read_text(encoding="utf-8").splitlines()
    for line in lines[:4]:
        typer.echo(line)
    typer.echo(f"... and {len(lines) - 4:,} more")
    write_report(clf, path / "report.html", title="The demo's run")
