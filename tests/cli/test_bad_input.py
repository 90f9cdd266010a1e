"""Input that is wrong: one message with the value and the way out, and nothing written."""

import gzip
import os
import re

import numpy as np
import pytest

from tests.cli.cases import Files, fails, ok


@pytest.fixture(autouse=True)
def own_cache(monkeypatch, tmp_path_factory):
    monkeypatch.setenv("DHILGT_CACHE", str(tmp_path_factory.mktemp("cache")))


@pytest.fixture
def files(tmp_path):
    return Files(tmp_path)


def changed(file, old, new):
    text = file.read_text()
    assert old in text
    return text.replace(old, new, 1)


# What a person did: the file that is changed, how, further arguments, and words of the message.
FILES = {
    "edges: three columns": (
        "edges", lambda t: t.replace("target\n", "target,w\n").replace("\n", ",1\n"), [],
        ["may be weights", "--ignore-weights"],
    ),
    "edges: one column": ("edges", lambda t: "n00\nn01\n", [], ["line 1", "'n00'", "two ids"]),
    "edges: a web page": ("edges", lambda t: "<!DOCTYPE html><p>login", [], ["web page"]),
    "edges: empty": ("edges", lambda t: "", [], ["is empty"]),
    "edges: not UTF-8": ("edges", lambda t: t.encode() + b"n\xff1,n00\n", [], ["not UTF-8"]),
    "edges: a node without features": (
        "edges", lambda t: t + "n00,stranger\n", [],
        ["'stranger' has no features", "90 rows", "91 nodes", "add their rows"],
    ),
    "features: a word": (
        "x", lambda t: t.replace("\nn05,", "\nn05,oops", 1), [],
        ["line 7, column 'a'", "'oops", "not a number"],
    ),
    "features: not a number": (
        "x", lambda t: t.replace("\nn05,", "\nn05,inf\nn05,", 1).replace("inf\n", "inf,1,1,1\n", 1),
        [], ["line 7, column 'a' = inf", "not finite"],
    ),
    "features: twice": (
        "x", lambda t: t + "n00,1,2,3,4\n", [], ["line 92: 'n00' has a row already (line 2)"],
    ),
    "features: no ids": (
        "x", lambda t: t.replace("id,a,", "w,a,", 1).replace("\nn", "\n"), [],
        ["no column of ids", "w, a, b, c, d", "'id'"],
    ),
    "labels: unknown node": (
        "y", lambda t: t + "n9O,red\n", [],
        ["line 92: 'n9O' is not a node of the graph", "nearest:", "--nodes"],
    ),
    "labels: twice": (
        "y", lambda t: t + "n03,red\n", [], ["line 92: 'n03' has a row already (line 5)"],
    ),
    "labels: regression": (
        "y", lambda t: "id,label\nn00,0.25\nn01,1\n", [], ["line 2: 0.25 is not a class"],
    ),
    "labels: negative": (
        "y", lambda t: "id,label\nn00,-5\nn01,1\n", [], ["-5", "use -1 for unlabelled"],
    ),
    "labels: nothing": ("y", lambda t: "id,label\nn00,\n", [], ["holds no class"]),
    "split: unknown part": (
        "split", lambda t: t.replace("n01,train", "n01,trial"), [],
        ["line 3: 'trial' is not a part", "did you mean"],
    ),
    "split: in two parts": (
        "split", lambda t: t + "n01,test\n", [], ["line 92: 'n01' has a row already (line 3)"],
    ),
    "split: nothing to train on": (
        "split", lambda t: t.replace(",train", ",val"), [], ["no training nodes"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FILES)
def test_faults_in_files(files, tmp_path, name):
    which, change, further, words = FILES[name]
    file = tmp_path / {"edges": "edges.csv", "split": "split.csv"}.get(which, f"{which}.csv")
    files.write(file.name, change(file.read_text()))
    message = fails(*files.train(split=files.split), *further)
    expected = [] if which == "split" and "nothing" in name else [str(file)]
    if name.startswith("edges: a node"):
        expected = [str(files.features)]
    assert [word for word in (*expected, *words) if word not in message] == []
    assert not (tmp_path / "run").exists()


def test_a_train_node_without_a_label(files, tmp_path):
    files.write("y.csv", re.sub(r"\nn07,\w+", "\nn07,", files.labels.read_text()))
    message = fails(*files.train(split=files.split))
    assert f"{files.split}, line 9: node 'n07' is in 'train' and has no label" in message
    assert not (tmp_path / "run").exists()


def test_arrays_that_do_not_fit(files, tmp_path):
    nodes = files.write("nodes.txt", "\n".join(files.names))
    few = files.save("few.npy", np.ones((80, 4)))
    message = fails(*files.train(features=few, nodes=nodes))
    assert f"{few}: features has 80 rows, but the graph has 90 nodes" in message
    bad = np.ones((90, 4))
    bad[3, 2] = np.inf
    message = fails(*files.train(features=files.save("bad.npy", bad), nodes=nodes))
    assert "features[3, 2] = inf is not finite" in message
    message = fails(*files.train(features=few))
    assert "has 80 rows and no ids" in message
    assert "--nodes FILE" in message
    numbers = files.write("numbers.csv", "0,1\n1,85\n")
    message = fails(*files.train(edges=numbers, features=few))
    assert "edge 2, target 85 is outside 0 to 79" in message
    negative = files.write("negative.csv", "0,1\n-1,3\n")
    assert "-1 is outside 0 to 79" in fails(*files.train(edges=negative, features=few))
    twice = files.write("twice.txt", "\n".join([*files.names, "n05"]))
    assert "repeats" in fails(*files.train(features=few, nodes=twice))
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("name", ["edges", "labels", "split"])
def test_a_missing_file_is_named_before_any_is_read(files, tmp_path, name):
    bare = files.write("bare.csv", "w,a\n1,2\n")  # a table without ids is refused too
    wrong = tmp_path / "there-is-none.csv"
    message = fails(*files.train(**({"split": files.split, "features": bare} | {name: wrong})))
    assert f"{wrong} does not exist; check the path" in message


def test_files_that_could_run_code_are_not_loaded(files, tmp_path):
    ran = tmp_path / "ran"

    class Evil:
        def __reduce__(self):
            return os.mkdir, (str(ran),)

    np.save(tmp_path / "evil.npy", np.array([Evil()], dtype=object), allow_pickle=True)
    assert "could run code" in fails(*files.train(features=tmp_path / "evil.npy"))
    np.savez(tmp_path / "evil.npz", x=np.array([Evil()], dtype=object))
    fails(*files.train(features=tmp_path / "evil.npz"))
    assert not ran.exists()


def test_ids_that_are_halves(files, tmp_path):
    edges = files.write("numbers.csv", "1,2\n2,3\n")
    features = files.write("numbers_x.csv", "id,a\n1,1\n2,2\n3,3\n")
    labels = files.write("numbers_y.csv", "id,label\n1.0,a\n2.5,b\n")
    message = fails(*files.train(edges=edges, features=features, labels=labels))
    assert "line 3: '2.5' is not the id of a node" in message


def test_a_name_that_is_nearly_right(files, tmp_path):
    message = fails(*files.train(features=tmp_path / "x.cvs"))
    assert "does not exist" in message
    assert f"did you mean {files.features}?" in message
    assert "--labels" in fails(*files.train(labels=None))
    assert "--edges" in fails(*files.train(edges=None))


def test_damaged_files(files, tmp_path):
    cut = files.write("x.csv.gz", gzip.compress(files.features.read_bytes())[:-30])
    assert "damaged gzip" in fails(*files.train(features=cut))
    damaged = files.write("x.parquet", b"PAR1 and then nothing")
    assert "damaged Parquet" in fails(*files.train(features=damaged))


SETTINGS = {
    "out of range": (["--dropout", "1.5"], ["--dropout 1.5", "below 1"]),
    "not together": (["--heads", "3"], ["--hidden-channels 16", "--heads 3"]),
    "unknown choice": (["--readout", "mean"], ["--readout mean", '"ego"']),
    "unknown metric": (["--metric", "acuracy"], ["'acuracy'", "'accuracy'"]),
    "no such GPU": (["--device", "cuda:77"], ["cuda:77"]),
    "no such device": (["--device", "gpu"], ["gpu"]),
    "too many slots wanted": (["--num-out", "7", "--num-in", "7"], ["--num-out"]),
    "all held out": (["--validation", "1"], ["--validation 1", "below 1"]),
}


@pytest.mark.parametrize("name", SETTINGS)
def test_settings_that_cannot_be(files, tmp_path, name):
    flags, words = SETTINGS[name]
    message = fails(*files.train(), *flags)
    assert [word for word in words if word not in message] == []
    assert not (tmp_path / "run").exists()


def test_slips_in_a_file_of_settings(files, tmp_path):
    def message(text):
        return fails(*files.train(config=files.write("mine.yaml", text)))

    assert "line 1: 'epoch' is not a setting; did you mean 'epochs'?" in message("epoch: 3\n")
    assert "unknown key 'feature'; did you mean 'features'?" in message("data: {feature: x.csv}\n")
    assert "directed = 'yes'" in message("data: {directed: 'yes'}\n")
    assert "cannot be read" in fails(*files.train(config=tmp_path / "none.yaml"))
    assert not (tmp_path / "run").exists()


def test_places_that_cannot_be_written(files, tmp_path):
    assert "is a file" in fails(*files.train(output=files.edges))
    assert "is a file" in fails(*files.train(output=files.edges / "run"))
    other = tmp_path / "thesis"
    other.mkdir()
    (other / "chapter.txt").write_text("dear reader")
    message = fails(*files.train(output=other))
    assert "it holds 'chapter.txt'" in message
    assert "choose another folder" in message
    assert [path.name for path in other.iterdir()] == ["chapter.txt"]
    if os.geteuid() != 0:
        locked = tmp_path / "locked"
        locked.mkdir(mode=0o500)
        assert "cannot be written" in fails(*files.train(output=locked / "run"))


def test_a_place_that_stood_empty_stays_so(files, tmp_path):
    (tmp_path / "run").mkdir()
    files.write("split.csv", files.split.read_text().replace(",train", ",val"))
    fails(*files.train(split=files.split))
    assert list((tmp_path / "run").iterdir()) == []


def test_a_damaged_run_is_named(files, tmp_path):
    ok(*files.train(), "--quiet")
    weights = next((tmp_path / "run" / "model").glob("*.safetensors"))
    weights.write_bytes(weights.read_bytes()[:-10])
    message = fails("predict", tmp_path / "run", "-o", tmp_path / "out.csv")
    assert "model" in message
    (tmp_path / "run" / "bundle.json").write_text("{}")
    fails("evaluate", tmp_path / "run")
    assert not (tmp_path / "out.csv").exists()
