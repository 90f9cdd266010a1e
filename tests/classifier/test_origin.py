"""A run goes on only with the inputs and settings that it began with."""

import json

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st

import dhilgt
from dhilgt.classifier import origin
from dhilgt.classifier.origin import input_digests
from tests.classifier.cases import NAMES, community_graph, quick

COUNT = 90
MASKS = {
    "train": np.arange(COUNT) < 50,
    "val": (np.arange(COUNT) >= 50) & (np.arange(COUNT) < 70),
    "test": np.arange(COUNT) >= 70,
}


@pytest.fixture(scope="module")
def graph():
    return community_graph(ids=True, masks=MASKS)


@pytest.fixture(scope="module")
def cut_short(graph, tmp_path_factory):
    """The folder of a run of two epochs that can go on."""
    folder = tmp_path_factory.mktemp("runs") / "run"
    quick(epochs=2).fit(graph, run_dir=folder)
    return folder


def other_edges(graph):
    src, dst = graph.to_edge_index()
    names = graph.nodes
    return dhilgt.Graph.from_edges(
        [*names[src], names[0]], [*names[dst], names[89]], nodes=names, features=graph.features,
        labels=NAMES[graph.labels], masks=MASKS,
    )  # fmt: skip


def other_ids(graph):
    src, dst = graph.to_edge_index()
    names = np.array([text.replace("node", "knot") for text in graph.nodes])
    return dhilgt.Graph.from_edges(
        names[src], names[dst], nodes=names, features=graph.features,
        labels=NAMES[graph.labels], masks=MASKS,
    )  # fmt: skip


def other_features(graph):
    x = graph.features.copy()
    x[7, 2] += 1e-3
    return graph.with_data(features=x)


def other_labels(graph):
    y = NAMES[graph.labels]
    y[3] = "cedar"
    return graph.with_data(labels=y)


def other_class_names(graph):
    return graph.with_data(labels=np.array(["oak", "pine", "yew"])[graph.labels])


def other_split(graph):
    masks = {name: mask.copy() for name, mask in MASKS.items()}
    masks["train"][0], masks["val"][0] = False, True
    return graph.with_data(masks=masks)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (other_edges, r"began with other edges \(245 then, 246 now\); resume"),
        (other_ids, "began with other ids of nodes; resume"),
        (other_features, "began with other features; resume"),
        (other_labels, "began with other labels; resume"),
        (other_class_names, "began with other labels; resume"),
        (other_split, r"another split \(50 train, 20 val, 20 test then, 49 train, 21 val"),
    ],
)
def test_other_inputs_are_refused_by_name_before_the_work(
    graph, cut_short, monkeypatch, change, words
):
    refuse = classmethod(lambda *_, **__: pytest.fail("too late"))
    monkeypatch.setattr(dhilgt.HubLabels, "build", refuse)
    with pytest.raises(dhilgt.ConfigError, match=words):
        quick(epochs=3, cache=False).fit(change(graph), run_dir=cut_short, resume=True)


def test_all_parts_that_differ_are_named(graph, cut_short):
    changed = other_split(other_labels(other_features(graph)))
    with pytest.raises(dhilgt.ConfigError, match="other features, other labels and another split"):
        quick(epochs=3).fit(changed, run_dir=cut_short, resume=True)


def test_classes_passed_to_fit_count_as_labels(graph, cut_short):
    with pytest.raises(dhilgt.ConfigError, match="other labels"):
        quick(epochs=3).fit(graph, NAMES[::-1][graph.labels], run_dir=cut_short, resume=True)


@pytest.mark.parametrize("change", [{"size": 5}, {"hops": 1}, {"copies": 2}, {"order": "random"}])
def test_settings_of_tokens_and_features_are_compared_too(graph, cut_short, change):
    ((name, value),) = change.items()
    with pytest.raises(dhilgt.ConfigError, match=f"^{name} = {value!r}, but the run in this"):
        quick(epochs=3, **change).fit(graph, run_dir=cut_short, resume=True)


def test_the_same_inputs_in_another_form_go_on(graph, tmp_path):
    whole = quick(epochs=4, decay="none").fit(graph).predict_proba()
    quick(epochs=2, decay="none").fit(graph, run_dir=tmp_path / "run")
    rng = np.random.default_rng(0)
    src, dst = graph.to_edge_index()
    order, rows = rng.permutation(len(src)), rng.permutation(COUNT)
    again = dhilgt.Graph.from_edges(
        graph.nodes[dst[order]], graph.nodes[src[order]], nodes=graph.nodes[rows],
        features=graph.features[rows].astype(np.float64), labels=NAMES[graph.labels][rows],
        masks={name: mask[rows] for name, mask in MASKS.items()},
    )  # fmt: skip
    clf = quick(epochs=4, decay="none", threads=1)
    resumed = clf.fit(again, run_dir=tmp_path / "run", resume=True)
    assert resumed.result_.epochs == 4
    np.testing.assert_array_equal(resumed.predict_proba(), whole)


def test_a_run_without_digests_goes_on_with_a_note(graph, cut_short, monkeypatch, tmp_path):
    monkeypatch.setattr("dhilgt.classifier.classifier.origin", lambda *_: {})
    quick(epochs=2).fit(graph, run_dir=tmp_path / "old")
    monkeypatch.undo()
    with pytest.warns(dhilgt.TrainingWarning, match="kept no digests of its inputs"):
        quick(epochs=3).fit(graph, run_dir=tmp_path / "old", resume=True)
    with pytest.raises(dhilgt.ConfigError, match="other labels"):  # its next save has them
        quick(epochs=4).fit(other_labels(graph), run_dir=tmp_path / "old", resume=True)


def test_a_stored_graph_has_the_digests_of_the_graph(graph, cut_short):
    clf = dhilgt.NodeClassifier.load(cut_short)
    (state,) = (cut_short / "checkpoints").glob("00002-*/state.json")
    kept = json.loads(state.read_text())["values"]
    assert input_digests(clf.graph_, clf.classes_) == kept["inputs"]
    assert kept["settings"] == clf.settings_.to_dict()


@settings(max_examples=30)
@given(st.integers(1, 40), st.integers(1, 6), st.integers(1, 200), st.booleans(), st.data())
def test_any_changed_number_changes_the_digest_of_its_part(rows, width, block, sparse, data):
    x = np.arange(rows * width, dtype=np.float32).reshape(rows, width) + 1
    at = data.draw(st.integers(0, rows - 1)), data.draw(st.integers(0, width - 1))
    changed = x.copy()
    changed[at] = data.draw(st.sampled_from([0.0, -1.0, np.float32(1e9)]))
    form = scipy.sparse.csr_array if sparse else np.array
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(origin, "_BLOCK_BYTES", block)
        first, second, third = (
            input_digests(dhilgt.Graph.from_edges([], [], num_nodes=rows, features=form(one)))
            for one in (x, x.copy(), changed)
        )
    assert first == second
    assert {part for part in first if first[part] != third[part]} == {"features"}
