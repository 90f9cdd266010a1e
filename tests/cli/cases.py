"""The command line in one process, and a small graph as files."""

import json
import sys

import numpy as np
import pytest
from typer.testing import CliRunner

import dhilgt
from dhilgt.cli.app import app

SMALL = (
    "--size", "8", "--hidden-channels", "16", "--num-layers", "1", "--heads", "2",
    "--epochs", "2", "--lr", "0.02", "--warmup-epochs", "0", "--dropout", "0.1",
    "--recipe", "paper",
)  # fmt: skip


def run(*args, stdin=None):
    return CliRunner().invoke(app, [str(arg) for arg in args], input=stdin, prog_name="dhilgt")


def ok(*args, stdin=None):
    result = run(*args, stdin=stdin)
    assert result.exit_code == 0, result.output
    return result


def fails(*args, code=1):
    """The one message of a command that is refused."""
    result = run(*args)
    assert result.exit_code == code, result.output
    assert "Traceback" not in result.output
    last = result.stderr.strip().splitlines()[-1]
    if code == 1:
        assert last.startswith("dhilgt: ")
        assert result.stderr.count("dhilgt: ") == 1
    return last if code == 1 else result.stderr


def shell_command(*args):
    return [sys.executable, "-c", "from dhilgt.cli.app import main; main()", *map(str, args)]


class Files:
    """A graph of 90 named nodes in three classes, as three CSV files in a folder."""

    def __init__(self, folder):
        self.folder = folder
        graph = dhilgt.generate(90, 6, seed=3, num_features=4, num_classes=3, homophily=0.9)
        self.graph = graph
        self.names = [f"n{v:02}" for v in range(90)]
        pairs = graph.to_edge_index().T
        lines = [f"{self.names[u]},{self.names[v]}\n" for u, v in pairs.tolist() if u < v]
        self.edges = self.write("edges.csv", "source,target\n" + "".join(lines))
        rows = [
            f"{name},{','.join(f'{x:.6g}' for x in row)}\n"
            for name, row in zip(self.names, graph.features.tolist(), strict=True)
        ]
        self.features = self.write("x.csv", "id,a,b,c,d\n" + "".join(rows))
        self.classes = [["red", "green", "blue"][c] for c in graph.labels.tolist()]
        pairs = zip(self.names, self.classes, strict=True)
        self.labels = self.write("y.csv", "id,label\n" + "".join(f"{n},{c}\n" for n, c in pairs))
        parts = ["train"] * 50 + ["val"] * 20 + ["test"] * 20
        lines = [f"{n},{p}\n" for n, p in zip(self.names, parts, strict=True)]
        self.split = self.write("split.csv", "id,part\n" + "".join(lines))

    def write(self, name, data):
        file = self.folder / name
        file.write_bytes(data.encode() if isinstance(data, str) else data)
        return file

    def save(self, name, array):
        np.save(self.folder / name, array)
        return self.folder / name

    def train(self, **changes):
        """The arguments of a small training run; None leaves one out."""
        given = {
            "edges": self.edges, "features": self.features, "labels": self.labels,
            "output": self.folder / "run", **changes,
        }  # fmt: skip
        flags = [
            part
            for name, value in given.items()
            if value is not None
            for part in (f"--{name}", value)
        ]
        return ["train", *flags, *SMALL]


def assert_commands_agree(clf, run):
    """Checks that predict, evaluate and explain say of a run in a folder what its model says."""
    out = run.with_suffix(".csv")
    ok("predict", run, "-o", out)
    rows = [line.split(",") for line in out.read_text().splitlines()[1:]]
    assert [row[1] for row in rows] == clf.predict([row[0] for row in rows]).tolist()
    scores = json.loads(ok("evaluate", run, "--json").stdout)["parts"]
    assert scores["test"]["accuracy"] == pytest.approx(clf.scores_["test"]["accuracy"])
    assert ok("explain", run, "n07").stdout
