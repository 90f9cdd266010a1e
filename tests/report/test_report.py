"""The report of a run: its facts are those of the run, and its page shows them to everyone."""

import json
import re
import subprocess
import sys
from html.parser import HTMLParser
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import accuracy_score, f1_score

from dhilgt import ArtifactError, NodeClassifier, TokenSampler
from dhilgt.metrics import METRICS
from dhilgt.report import read_facts, render, run_facts, write_report
from dhilgt.report.html import packaged, tag, text
from dhilgt.report.run import charts, diagrams, facts
from dhilgt.tokens.stats import token_stats
from tests.report.cases import classifier, facts_of, graph_of

SECTIONS = [
    "score", "training", "confusion", "classes", "calibration", "tokens", "stages", "settings",
    "environment",
]  # fmt: skip
VOID = {"meta", "br", "hr", "col", "wbr"}


class Tree(HTMLParser):
    """Reads a page strictly: every element is closed by its own end."""

    def __init__(self, page):
        super().__init__()
        self.open, self.elements, self.words = [], [], []
        self.feed(page)
        self.close()
        assert not self.open

    def handle_starttag(self, name, attributes):
        names = [key for key, _ in attributes]
        assert len(names) == len(set(names)), f"an attribute of {name} is there twice"
        self.elements.append((name, dict(attributes)))
        if name not in VOID:
            self.open.append(name)

    def handle_endtag(self, name):
        assert self.open.pop() == name

    def handle_data(self, data):
        if self.open and self.open[-1] not in ("style", "script"):
            self.words.append(data)

    @property
    def text(self):
        return " ".join(" ".join(self.words).replace("\xa0", " ").split())

    def all(self, name):
        return [attributes for kind, attributes in self.elements if kind == name]


@pytest.fixture(scope="module")
def run():
    return facts_of(graph_of(400, 4, ["red", "green", "blue", "grey"]), lr=0.01, epochs=20)


@pytest.fixture(scope="module")
def tree(run):
    return Tree(render(run))


# ---- facts -------------------------------------------------------------------------------------


def test_facts_are_plain_json(run):
    assert json.loads(json.dumps(run, allow_nan=False)) == run


@pytest.mark.parametrize("metric", METRICS)
def test_scores_are_those_of_the_classifier(metric):
    clf = classifier(metric=metric)
    result = run_facts(clf)
    assert result["evaluated"]["part"] == "test"
    assert result["evaluated"]["score"] == float(clf.scores_["test"][metric])
    between = result["evaluated"]["interval"]
    assert between["low"] < result["evaluated"]["score"] < between["high"]
    assert between["method"] == ("Wilson" if metric == "accuracy" else "bootstrap")


def test_majority_answers_the_most_common_training_class():
    clf = classifier(metric="macro_f1")
    known, truth = (clf.graph_.labels[clf.split_[part]] for part in ("train", "test"))
    answer = np.bincount(known).argmax()
    result = run_facts(clf)["evaluated"]["majority"]
    assert result["class"] == str(clf.classes_[answer])
    assert result["score"] == pytest.approx(
        f1_score(truth, np.full(len(truth), answer), average="macro", zero_division=0)
    )
    clf.settings_ = type(clf.settings_)()
    expected = accuracy_score(truth, np.full(len(truth), answer))
    assert run_facts(clf)["evaluated"]["majority"]["score"] == pytest.approx(expected)
    clf.settings_ = type(clf.settings_)(metric="roc_auc")
    assert run_facts(clf)["evaluated"]["majority"]["score"] == pytest.approx(0.5)


@pytest.mark.parametrize("at_once", [1, 7, 100, 1 << 22])
def test_edges_inside_a_class_are_counted(at_once, monkeypatch):
    monkeypatch.setattr(facts, "_EDGES_AT_ONCE", at_once)
    clf = classifier()
    source, target = clf.graph_.to_edge_index()
    labels = clf.graph_.labels
    expected = (labels[source] == labels[target]).mean()
    result = run_facts(clf)["graph"]
    assert result["edges_within_classes"] == pytest.approx(expected)
    assert result["edges"] == clf.graph_.num_edges // 2


def test_confusion_and_classes_agree(run):
    matrix = facts.dense(run["confusion"], 4)
    assert matrix.sum() == run["evaluated"]["nodes"]
    assert matrix.sum(axis=1).tolist() == [one["nodes"] for one in run["classes"]]
    assert matrix.sum(axis=0).tolist() == [one["predicted"] for one in run["classes"]]
    assert sum(one["nodes"] for one in run["calibration"]["bins"]) == matrix.sum()


def test_changed_settings_come_first(run):
    assert [one["name"] for one in run["settings"] if one["changed"]] == ["lr"]
    assert run["settings"][0]["name"] == "lr"
    assert (run["settings"][0]["value"], run["settings"][0]["default"]) == (0.01, 0.0001)


def test_tokens_that_are_not_stored_are_sampled():
    stored = run_facts(classifier())["tokens"]
    drawn = run_facts(classifier(tokens=lambda labels: TokenSampler(labels, size=8)))["tokens"]
    assert (stored.pop("sampled"), drawn.pop("sampled")) == (False, True)
    assert stored == drawn


def test_many_token_rows_are_sampled(monkeypatch):
    monkeypatch.setattr(facts, "_ROWS_COUNTED", 100)
    monkeypatch.setattr(facts, "_ROWS_SAMPLED", 50)
    clf = classifier()
    result = run_facts(clf)["tokens"]
    assert result["sampled"]
    assert result["rows"] == 50
    assert result["fill_rate"] == pytest.approx(token_stats(clf.tokens_).fill_rate, abs=0.1)


def test_an_unfitted_classifier_is_refused():
    with pytest.raises(Exception, match="not fitted yet, so it has no report"):
        run_facts(NodeClassifier())


def test_the_real_classifier(tmp_path):
    graph = graph_of(200, 3, ["a", "b", "c"])
    clf = NodeClassifier(
        size=6,
        hidden_channels=16,
        num_layers=1,
        heads=2,
        epochs=3,
        cache=False,
        progress=False,
        recipe="paper",
    )
    clf.fit(graph, run_dir=tmp_path / "run")
    written = write_report(clf, tmp_path / "run" / "report.html")
    result = read_facts(tmp_path / "run" / "report.json")
    assert written.read_text(encoding="utf-8") == render(result)
    assert result["evaluated"]["part"] == "val"
    assert result["evaluated"]["score"] == clf.scores_["val"]["accuracy"]
    assert len(result["training"]["history"]) == 3
    matrix = facts.dense(result["confusion"], 3)
    assert matrix.diagonal().sum() / matrix.sum() == pytest.approx(clf.score())
    assert result["environment_of"] == "the model was trained"
    assert {"labels", "tokens", "epoch", "evaluation"} <= set(result["stages"])
    # A folder with a report is still a run's folder, and gives the same report again.
    clf.save(tmp_path / "run", overwrite=True)
    again = run_facts(NodeClassifier.load(tmp_path / "run"))
    for key in ("scores", "evaluated", "classes", "confusion", "calibration", "tokens", "training"):
        assert again[key] == result[key], key


# ---- the page ----------------------------------------------------------------------------------


def test_page_is_well_formed_and_stands_alone(run, tree):
    written = render(run)
    assert written.startswith('<!DOCTYPE html>\n<html lang="en">')
    assert "//" not in re.sub(r"/\*.*?\*/", "", written)
    assert not tree.all("script")
    assert not tree.all("link")
    assert not tree.all("img")
    for _, attributes in tree.elements:
        assert not {"src", "href", "onload", "onclick"} & set(attributes)


def test_every_section_is_there_in_order(tree):
    assert [one["id"] for one in tree.all("section")] == SECTIONS
    ids = [one["id"] for _, one in tree.elements if "id" in one]
    assert len(ids) == len(set(ids))
    for one in tree.all("section"):
        assert one["aria-labelledby"] in ids


def test_every_chart_speaks_and_has_its_sentence(tree):
    charts = tree.all("svg")
    assert len(charts) == 8
    ids = {one["id"] for _, one in tree.elements if "id" in one}
    for one in charts:
        assert one["role"] == "img"
        assert set(one["aria-labelledby"].split()) <= ids
    assert len(tree.all("figcaption")) == len(tree.all("figure")) == len(charts)
    assert len(tree.all("caption")) == len(tree.all("table"))
    assert all(one.get("scope") in ("col", "row") for one in tree.all("th"))


def test_numbers_are_the_facts(run, tree):
    result = run["evaluated"]
    words = tree.text
    assert f"{100 * result['score']:.1f} % accuracy on {result['nodes']} test nodes" in words
    low, high = (100 * result["interval"][end] for end in ("low", "high"))
    assert f"The 95 % interval (Wilson) reaches from {low:.1f} % to {high:.1f} %" in words
    assert f"for every node gives {100 * result['majority']['score']:.1f} %" in words
    for one in run["classes"]:
        row = f"{one['name']} {one['nodes']} {one['predicted']} {100 * one['precision']:.1f} %"
        assert row in words
    assert f"expected calibration error is {100 * run['calibration']['error']:.1f} %" in words
    assert "Training ran for 20 epochs; the weights are those of epoch 17" in words
    for part, count in run["split"].items():
        assert f"{count} {100 * run['scores'][part]['accuracy']:.1f} %" in words
    assert run["environment"]["torch"] in words


def test_every_count_of_the_matrix_is_drawn(run, tree):
    matrix = facts.dense(run["confusion"], 4)
    names = [one["name"] for one in run["classes"]]
    for row in range(4):
        for column in range(4):
            words = f"{matrix[row, column]} of {matrix[row].sum()} {names[row]} predicted as"
            assert f"{words} {names[column]}" in tree.text


def test_same_facts_same_bytes(run):
    again = json.loads(json.dumps(run, sort_keys=True))
    assert render(again) == render(run)


@pytest.mark.parametrize(
    "name",
    ["<script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "a&amp;b\x00\u2028", "é"],
)
def test_names_of_users_are_inert(name):
    result = facts_of(graph_of(200, 2, [name, "plain"]))
    result["title"] = name
    result["environment"]["gpus"] = [name]
    result["settings"][0]["value"] = name
    written = render(result)
    shown = Tree(written)
    assert not shown.all("script")
    assert not shown.all("img")
    assert "<script" not in written
    assert "<img" not in written
    assert "\x00" not in written
    assert name.replace("\x00", "�").replace("\u2028", " ") in shown.text.replace("\u2028", " ")


@given(st.text())
def test_any_text_becomes_text(value):
    assert "<" not in text(value)
    result = Tree(tag("p", value, title=value))
    assert [name for name, _ in result.elements] == ["p"]


@pytest.mark.parametrize("num_classes", [40, 349])
def test_many_classes_stay_readable(num_classes):
    names = [f"a class whose name does not seem to end, number {at}" for at in range(num_classes)]
    shown = Tree(render(facts_of(graph_of(12 * num_classes, num_classes, names))))
    words = shown.text
    assert f"the 11 classes of {num_classes} with the most mistakes" in words
    assert f"{num_classes - 11} others" in words
    assert "The 20 classes with the lowest F1" in words
    assert f"All {num_classes} classes" in words
    assert len([one for one in shown.all("rect") if "cell" in one.get("class", "")]) == 144


def test_undefined_scores_are_called_undefined():
    clf = classifier(graph_of(60, 1, ["only"]), metric="roc_auc", parts=("train",))
    result = run_facts(clf)
    assert result["evaluated"]["score"] is None
    words = Tree(render(result)).text
    assert "Score undefined ROC AUC on 60 training nodes" in words
    assert "all 60 labels are class 0." in words
    assert "Every node was predicted correctly." in words
    assert "nan" not in words.lower().replace("nano", "")


def test_class_that_does_not_occur_is_undefined():
    result = facts_of()
    result["classes"][1] |= {
        "nodes": 0,
        "predicted": 0,
        "precision": None,
        "recall": None,
        "f1": None,
    }
    assert "1 0 0 undefined undefined undefined" in Tree(render(result)).text


def test_without_validation_nodes():
    result = facts_of(parts=("train", "test"))
    words = Tree(render(result)).text
    assert "without validation nodes; the weights are those of the last one" in words
    assert "validation loss goes" not in words
    assert "test nodes" in words


def test_without_test_nodes_the_page_says_what_it_judges_by():
    words = Tree(render(facts_of(parts=("train", "val")))).text
    assert "accuracy on 150 validation nodes" in words
    assert "this score is a little too good" in words
    words = Tree(render(facts_of(parts=("train",)))).text
    assert "says little about other nodes" in words


def test_test_nodes_without_labels_are_not_judged_by():
    clf = classifier()
    clf.graph_ = graph = _with_labels(clf.graph_, clf.split_["test"], -1)
    assert run_facts(clf)["evaluated"]["part"] == "val"
    assert run_facts(clf)["graph"]["labelled"] == (graph.labels >= 0).sum()


def _with_labels(graph, nodes, value):
    labels = graph.labels.copy()
    labels[nodes] = value
    source, target = graph.to_edge_index()
    return type(graph).from_edges(
        source, target, num_nodes=graph.num_nodes, features=graph.features, labels=labels
    )


def test_the_page_mentions_a_model_no_better_than_one_answer():
    result = facts_of()
    result["evaluated"]["score"] = result["evaluated"]["majority"]["score"] - 0.01
    assert "The model is no better than that." in Tree(render(result)).text
    result["evaluated"]["score"] = 0.0
    assert "The model is no better than that." in Tree(render(result)).text


# ---- colours -----------------------------------------------------------------------------------


def palettes():
    style = packaged("dhilgt.report", "base.css") + packaged("dhilgt.report.run", "style.css")
    base, own, dark = (
        dict(re.findall(r"--([a-z-]+): (#[0-9a-f]{6})", one)) for one in _roots(style)
    )
    light = base | own
    assert light.keys() == dark.keys()
    return {"light": light, "dark": dark}


def _roots(style):
    return re.findall(r":root \{(.*?)\}", style, re.DOTALL)


def _mixed(top, below, opacity):
    return [
        int(top[at : at + 2], 16) * opacity + int(below[at : at + 2], 16) * (1 - opacity)
        for at in (1, 3, 5)
    ]


def contrast(one, other):
    def light(colour):
        parts = [c / 255 / 12.92 if c <= 10 else ((c / 255 + 0.055) / 1.055) ** 2.4 for c in colour]
        return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2] + 0.05

    low, high = sorted((light(one), light(other)))
    return high / low


@pytest.mark.parametrize("name", ["light", "dark"])
def test_text_can_be_read(name):
    colours = palettes()[name]
    paper = colours["paper"]
    for ink in ("ink", "soft-ink", "accent", "second"):
        assert contrast(_mixed(colours[ink], paper, 1), _mixed(paper, paper, 1)) >= 4.5, ink
    for percent in range(101):
        cell = _mixed(colours["cell"], paper, percent / 100)
        ink = "on-strong" if percent / 100 > diagrams.STRONG else "on-weak"
        assert contrast(cell, _mixed(colours[ink], paper, 1)) >= 4.5, percent


# ---- charts ------------------------------------------------------------------------------------


@given(st.floats(-1e6, 1e6), st.floats(1e-3, 1e6))
def test_ticks_are_round_and_cover(low, width):
    result = charts.ticks(low, low + width)
    assert 2 <= len(result) <= 12
    assert result[0] <= low + 1e-6 * abs(low) + 1e-6 * width
    assert result[-1] >= low + width - 1e-6 * abs(low) - 1e-6 * width
    assert all(a < b for a, b in pairwise(result))


def test_ticks_of_epochs_are_whole():
    assert all(
        tick == int(tick) for last in range(1, 300) for tick in charts.ticks(1, last, whole=True)
    )


def test_long_lines_keep_their_peaks():
    points = [(float(x), float(np.sin(x))) for x in range(20_000)]
    points[777] = (777.0, 50.0)
    thin = charts.thinned(points)
    assert len(thin) <= 402
    assert (777.0, 50.0) in thin
    assert thin == sorted(thin)
    assert (thin[0], thin[-1]) == (points[0], points[-1])


def test_a_long_history_makes_a_small_page():
    assert len(render(facts_of(epochs=5000))) < 150_000


# ---- files -------------------------------------------------------------------------------------


def test_report_and_data_are_written_whole(tmp_path):
    clf = classifier()
    assert write_report(clf, str(tmp_path / "r.html"), title="My graph") == tmp_path / "r.html"
    assert sorted(one.name for one in tmp_path.iterdir()) == ["r.html", "r.json"]
    result = read_facts(tmp_path / "r.json")
    assert result["title"] == "My graph"
    assert render(result) == (tmp_path / "r.html").read_text(encoding="utf-8")
    assert result["environment_of"] == "the report was made"


def test_of_several_processes_the_first_writes(tmp_path, monkeypatch):
    asked = []
    clf = classifier()
    answer = clf.predict_proba
    clf.predict_proba = lambda nodes: asked.append(len(nodes)) or answer(nodes)
    monkeypatch.setattr("dhilgt.training.distributed.Group.is_main", False)
    assert write_report(clf, tmp_path / "r.html") == tmp_path / "r.html"
    assert asked == [100]  # the others wait for this one's predictions
    assert list(tmp_path.iterdir()) == []


def test_a_report_that_cannot_be_made_leaves_the_old_one(tmp_path, monkeypatch):
    clf = classifier()
    path = write_report(clf, tmp_path / "r.html")
    before = path.read_bytes()

    def fail(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("dhilgt.store.files.ops.rename", fail)
    with pytest.raises(ArtifactError, match="No space left"):
        write_report(clf, path, title="other")
    assert path.read_bytes() == before
    assert sorted(one.name for one in tmp_path.iterdir()) == ["r.html", "r.json"]


def test_places_that_cannot_be_written_are_refused_before_any_work(tmp_path):
    for path, why in (
        (tmp_path, "is a folder"),
        (tmp_path / "r.json", "where the report's data goes"),
        (tmp_path / "none" / "r.html", "is not a folder"),
    ):
        with pytest.raises(ArtifactError, match=why):
            write_report(None, path)


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ("[]", "is not the data of a report"),
        ('{"kind": "dhilgt-report", "format": 99}', "has format 99"),
        ('{"kind": NaN}', "is not the data of a report"),
    ],
)
def test_other_data_is_refused(tmp_path, content, why):
    (tmp_path / "x.json").write_text(content)
    with pytest.raises(ArtifactError, match=why):
        read_facts(tmp_path / "x.json")
    with pytest.raises(ArtifactError, match="cannot read"):
        read_facts(tmp_path / "none.json")


def test_rendering_needs_no_torch():
    code = "import sys, dhilgt.report; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
