"""`dhilgt predict` and `dhilgt evaluate` on a run, on chosen nodes and on a grown graph."""

import csv
import io
import json
import subprocess

import numpy as np
import pyarrow.parquet as pq
import pytest

import dhilgt
from tests.cli.cases import Files, fails, ok, shell_command


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("trained")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DHILGT_CACHE", str(folder / "cache"))
        found = Files(folder)
        ok(*found.train(split=found.split), "--epochs", "15", "--quiet")
        yield found


@pytest.fixture
def trained(files):
    return files.folder / "run"


@pytest.fixture(scope="module")
def clf(files):
    return dhilgt.NodeClassifier.load(files.folder / "run")


def table(text):
    return list(csv.DictReader(io.StringIO(text)))


def test_every_node_is_predicted_with_its_own_id(trained, files, clf):
    rows = table(ok("predict", trained).stdout)
    assert [row["node"] for row in rows] == files.names
    assert [row["label"] for row in rows] == clf.predict(files.names).tolist()
    shares = clf.predict_proba(files.names).max(axis=1)
    assert [float(row["probability"]) for row in rows] == pytest.approx(shares, rel=1e-4)


def test_dash_prints_and_a_file_is_written_whole(trained, tmp_path):
    printed = ok("predict", trained, "-o", "-").stdout
    result = ok("predict", trained, "-o", tmp_path / "out.csv")
    assert "wrote 90 predictions" in result.stderr
    assert (tmp_path / "out.csv").read_text() == printed
    assert [path.name for path in tmp_path.iterdir()] == ["out.csv"]


def test_chosen_nodes_in_the_order_of_the_file(trained, files, tmp_path, clf):
    wanted = tmp_path / "some.csv"
    wanted.write_text("id\nn30\nn02\nn30\n")
    rows = table(ok("predict", trained, "--nodes", wanted, "--all-probabilities").stdout)
    assert [row["node"] for row in rows] == ["n30", "n02", "n30"]
    for name in ("blue", "green", "red"):
        at = clf.classes_.tolist().index(name)
        shares = clf.predict_proba(["n30", "n02", "n30"])[:, at]
        assert [float(row[f"probability_{name}"]) for row in rows] == pytest.approx(
            shares, rel=1e-4
        )


def test_parquet_has_the_same_columns(trained, files, tmp_path):
    ok("predict", trained, "-o", tmp_path / "out.parquet", "--all-probabilities", "--quiet")
    found = pq.read_table(tmp_path / "out.parquet").to_pydict()
    assert list(found) == [
        "node", "label", "probability", "probability_blue", "probability_green", "probability_red",
    ]  # fmt: skip
    assert found["node"] == files.names
    assert np.sum([found[f"probability_{c}"] for c in ("blue", "green", "red")], axis=0) == (
        pytest.approx(np.ones(90), abs=1e-5)
    )


def test_a_grown_graph_is_read_as_the_first_one_was(trained, files, tmp_path):
    edges, features = tmp_path / "grown.csv", tmp_path / "grown_x.csv"
    edges.write_text(files.edges.read_text() + "new,n00\nnew,n07\n")
    features.write_text(files.features.read_text() + "new,1,2,3,4\n")
    output = tmp_path / "out.csv"
    ok("predict", trained, "--edges", edges, "--features", features, "-o", output)
    rows = table(output.read_text())
    assert [row["node"] for row in rows] == [*files.names, "new"]
    one = tmp_path / "one.txt"
    one.write_text("new\n")
    args = ("--edges", edges, "--features", features, "--nodes", one)
    assert table(ok("predict", trained, *args).stdout) == rows[-1:]
    quick = table(ok("predict", trained, *args, "--quick").stdout)
    assert [row["node"] for row in quick] == ["new"]
    clf = dhilgt.NodeClassifier.load(trained)
    grown = dhilgt.Graph.read(edges, features=features)
    shares = clf.predict_proba(["new"], graph=grown, quick=True)[0]
    assert float(quick[0]["probability"]) == pytest.approx(shares.max(), rel=1e-4)


def test_predictions_that_cannot_be_made_are_refused_before_anything_is_written(
    trained, files, tmp_path
):
    output = tmp_path / "out.csv"
    narrow = files.save("narrow.npy", np.ones((90, 1), np.float32))
    listed = files.write("listed.txt", "\n".join(files.names))
    other = ("--edges", files.edges, "--graph-nodes", listed, "--features")
    message = fails("predict", trained, *other, narrow, "-o", output)
    assert f"{narrow} has 1 features" in message
    assert "expecting 4 features as input (a, b, c, d)" in message
    wanted = tmp_path / "some.txt"
    wanted.write_text("n01\nn1\n")
    message = fails("predict", trained, "--nodes", wanted, "-o", output)
    assert f"{wanted}: " in message
    assert "'n1' is not a node" in message
    assert "--features" in fails("predict", trained, "--edges", files.edges, "-o", output)
    assert "is a folder" in fails("predict", trained, "-o", tmp_path)
    assert "cannot be written" in fails("predict", trained, "-o", tmp_path / "no" / "out.csv")
    assert "not a folder" in fails("predict", files.edges, "-o", output)
    assert "--edges" in fails("predict", trained, "--quick", "-o", output, code=2)
    assert "--edges" in fails("predict", trained, "--features", narrow, "-o", output, code=2)
    assert not output.exists()


def test_a_folder_that_is_no_run_is_named(tmp_path):
    message = fails("predict", tmp_path)
    assert str(tmp_path) in message


@pytest.mark.full
def test_a_reader_that_has_enough_ends_the_command_quietly(trained):
    with subprocess.Popen(
        shell_command("predict", trained), stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout.readline() == b"node,label,probability\n"
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 0


# ---- evaluate ----------------------------------------------------------------------------------


def test_scores_by_part_are_those_of_training(trained, clf):
    facts = json.loads(ok("evaluate", trained, "--json").stdout)
    assert {part: scores["nodes"] for part, scores in facts["parts"].items()} == {
        "train": 50, "val": 20, "test": 20,
    }  # fmt: skip
    for part, scores in facts["parts"].items():
        assert scores["accuracy"] == pytest.approx(clf.scores_[part]["accuracy"])
        assert scores["log_loss"] == pytest.approx(clf.scores_[part]["loss"], abs=1e-4)
    text = ok("evaluate", trained).stdout
    assert text.split()[:6] == ["part", "nodes", "accuracy", "roc_auc", "macro_f1", "log_loss"]
    assert f"{facts['parts']['test']['accuracy']:.4f}" in text


def test_new_labels_are_compared_by_id(trained, tmp_path, clf):
    labels = tmp_path / "held_back.csv"
    predicted = clf.predict(["n80", "n03"]).tolist()
    labels.write_text(f"id,label\nn80,{predicted[0]}\nn03,{predicted[1]}\nn04,\n")
    parts = json.loads(ok("evaluate", trained, "--labels", labels, "--json").stdout)["parts"]
    assert {part: (one["nodes"], one["accuracy"]) for part, one in parts.items()} == {
        "train": (1, 1.0), "test": (1, 1.0),
    }  # fmt: skip
    assert parts["test"]["roc_auc"] is None  # one class alone
    assert "undefined" in ok("evaluate", trained, "--labels", labels).stdout


def test_unknown_classes_and_nodes_are_named(trained, tmp_path):
    labels = tmp_path / "y.csv"
    labels.write_text("id,label\nn80,purple\n")
    message = fails("evaluate", trained, "--labels", labels)
    assert "line 2: the run knows no class 'purple'" in message
    labels.write_text("id,label\nn99,red\n")
    assert "line 2: 'n99' is not a node" in fails("evaluate", trained, "--labels", labels)


def test_nodes_outside_of_the_split_stand_apart(files, tmp_path):
    some = "".join(f"{n},{c}\n" for n, c in zip(files.names[:40], files.classes, strict=False))
    (tmp_path / "y.csv").write_text("id,label\n" + some)
    ok(*files.train(labels=tmp_path / "y.csv", output=tmp_path / "run"), "--quiet")
    parts = json.loads(ok("evaluate", tmp_path / "run", "--labels", files.labels, "--json").stdout)
    assert {part: one["nodes"] for part, one in parts["parts"].items()} == {
        "train": 32, "val": 8, "other": 50,
    }  # fmt: skip


# ---- columns of features by name ---------------------------------------------------------------


def rewritten(files, tmp_path, change):
    """The table of features with its rows changed, as lists of cells below the header."""
    lines = files.features.read_text().splitlines()
    rows = [line.split(",") for line in lines]
    path = tmp_path / "changed.csv"
    path.write_text("".join(",".join(row) + "\n" for row in change(rows)))
    return "--edges", files.edges, "--features", path


def test_columns_in_another_order_give_the_same_predictions(trained, files, tmp_path):
    args = rewritten(files, tmp_path, lambda rows: [[row[0], *row[:0:-1]] for row in rows])
    assert ok("predict", trained, *args).stdout == ok("predict", trained).stdout


def test_a_missing_column_is_refused_by_name(trained, files, tmp_path):
    def renamed(rows):
        return [[*rows[0][:-1], "dd"], *rows[1:]]

    message = fails("predict", trained, *rewritten(files, tmp_path, renamed))
    assert "changed.csv lacks 1 of the 4 columns of training: 'd' (is it 'dd'?)" in message


def test_a_further_column_is_named_and_not_used(trained, files, tmp_path):
    args = rewritten(
        files, tmp_path, lambda rows: [[*row, "9" if at else "e"] for at, row in enumerate(rows)]
    )
    result = ok("predict", trained, *args)
    assert "columns that training did not have are not used: 'e'" in result.stderr
    assert result.stdout == ok("predict", trained).stdout


def test_a_column_that_became_words_is_refused_with_its_cell(trained, files, tmp_path):
    def worded(rows):
        rows[3][2] = "high"
        return rows

    message = fails("predict", trained, *rewritten(files, tmp_path, worded))
    assert "changed.csv, line 4, column 'b' = 'high' is not a number" in message


# ---- new nodes from only their rows and edges --------------------------------------------------


@pytest.fixture
def newcomers(tmp_path):
    edges, features = tmp_path / "e.csv", tmp_path / "x.csv"
    edges.write_text("source,target\nzed,n00\nabe,zed\nabe,n07\n")
    features.write_text("id,a,b,c,d\nzed,1,2,3,4\nabe,0,1,0,1\nlone,1,1,1,1\n")
    return ["--new-edges", edges, "--new-features", features]


@pytest.mark.parametrize("how", [[], ["--quick"]])
def test_new_nodes_alone_are_predicted_as_on_the_whole_graph(
    trained, files, newcomers, tmp_path, how
):
    found = table(ok("predict", trained, *newcomers, *how, "--all-probabilities").stdout)
    assert [row["node"] for row in found] == ["abe", "lone", "zed"]
    edges, features, nodes = (tmp_path / name for name in ("all.csv", "all_x.csv", "new.txt"))
    edges.write_text(files.edges.read_text() + "zed,n00\nabe,zed\nabe,n07\n")
    more = newcomers[3].read_text().split("\n", 1)[1]
    features.write_text(files.features.read_text() + more)
    nodes.write_text("abe\nlone\nzed\n")
    whole = ok(
        "predict", trained, "--edges", edges, "--features", features, "--nodes", nodes, *how,
        "--all-probabilities",
    )  # fmt: skip
    assert found == table(whole.stdout)


def test_nodes_chooses_among_old_and_new_ones(trained, newcomers, tmp_path):
    nodes = tmp_path / "some.txt"
    nodes.write_text("n07\nzed\n")
    rows = table(ok("predict", trained, *newcomers, "--nodes", nodes).stdout)
    assert [row["node"] for row in rows] == ["n07", "zed"]


def test_new_nodes_that_do_not_fit_are_refused_by_name(trained, files, newcomers, tmp_path):
    wrong = tmp_path / "wrong.csv"
    wrong.write_text("id,a,b,c,d\nzed,1,2,3,4\nabe,1,1,1,1\nn07,1,1,1,1\n")
    message = fails("predict", trained, *newcomers[:2], "--new-features", wrong)
    assert f"{wrong}: 'n07' is a node of the graph already" in message
    wrong.write_text("id,a,b,c,d\nzed,1,2,3,4\n")
    message = fails("predict", trained, *newcomers[:2], "--new-features", wrong)
    assert f"{newcomers[1]}: 'abe' in a new edge is not a node of the graph" in message
    message = fails("predict", trained, *newcomers[:2])
    assert "pass them with --new-features" in message
    message = fails("predict", trained, *newcomers, "--edges", files.edges, code=2)
    assert "--edges and --features" in " ".join(message.split())


def test_a_run_on_degrees_needs_the_new_edges_alone(files, tmp_path, monkeypatch):
    monkeypatch.setenv("DHILGT_CACHE", str(tmp_path / "cache"))
    run = tmp_path / "run"
    ok(*files.train(features="degree", output=run), "--quiet", "--no-report")
    new, whole = tmp_path / "e.csv", tmp_path / "all.csv"
    new.write_text("zed,n00\nzed,n07\n")
    whole.write_text(files.edges.read_text() + new.read_text())
    found = table(ok("predict", run, "--new-edges", new).stdout)
    assert [row["node"] for row in found] == ["zed"]
    assert found[0] == table(ok("predict", run, "--edges", whole).stdout)[-1]
    new.write_text("n00,n89\n")
    assert "add edges and no node" in fails("predict", run, "--new-edges", new)
