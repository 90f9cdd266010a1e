"""Columns of features on one scale: the numbers, what is kept of them, and where they are used."""

import json
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse
import scipy.stats
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

import dhilgt
from dhilgt import ArtifactError, ConfigError, GraphError, NodeClassifier
from dhilgt.classifier.planning import plan
from dhilgt.classifier.store import read_scale, write_scale
from dhilgt.features.from_graph import with_hops
from dhilgt.features.scale import FEATURE_SCALES, FeatureScale
from dhilgt.settings.settings import Settings
from tests.classifier.cases import community_graph, quick, sealed_anew
from tests.classifier.serving_cases import assert_served
from tests.cli.cases import Files, assert_commands_agree, ok

torch.set_num_threads(1)
KINDS = ("standard", "rank")  # of all columns; tests/features/test_auto_scale.py has the other

any_features = arrays(
    np.float32,
    array_shapes(min_dims=2, max_dims=2, min_side=1, max_side=12),
    elements=st.floats(width=32, allow_nan=False, allow_infinity=False),
)
tame_columns = arrays(np.int64, st.integers(2, 40), elements=st.integers(-50, 50))


def column(values):
    return np.asarray(values, np.float32)[:, None]


def scaled(x, kind):
    return FeatureScale.fit(x, kind).apply(x)


def rows_of(seed=0, count=60, width=5):
    rng = np.random.default_rng(seed)
    return (rng.normal(size=(count, width)) * 10.0 ** np.arange(width)).astype(np.float32)


# ---- the numbers -------------------------------------------------------------------------------


def test_standard_is_the_plain_formula_with_mean_0_and_deviation_1():
    x = rows_of() + np.float32(1000)
    wide = x.astype(np.float64)
    actual = scaled(x, "standard")
    assert actual.dtype == np.float32
    np.testing.assert_allclose(actual, (wide - wide.mean(0)) / wide.std(0), rtol=1e-6)
    np.testing.assert_allclose(actual.mean(0, dtype=np.float64), 0, atol=1e-7)
    np.testing.assert_allclose(actual.std(0, dtype=np.float64), 1, rtol=1e-6)


@given(whole=tame_columns, factor=st.sampled_from([2.0**-100, 2.0**-20, 1.0, 2.0**90]))
def test_standard_does_not_depend_on_the_unit_of_a_column(whole, factor):
    assume(len(set(whole.tolist())) > 1)
    actual = scaled(column(whole * factor), "standard")
    np.testing.assert_allclose(actual, scaled(column(whole), "standard"), rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(actual.std(dtype=np.float64), 1, rtol=1e-5)


def test_a_tiny_spread_around_a_large_mean_becomes_a_whole_one():
    x = column(np.float32(1) + np.arange(8) * np.finfo(np.float32).eps)
    for kind in KINDS:
        assert scaled(x, kind).std() > 0.8


@given(whole=tame_columns)
def test_ranks_are_normal_scores_with_ties_in_the_middle(whole):
    middle = (scipy.stats.rankdata(whole) - 0.5) / len(whole)
    expected = scipy.stats.norm.ppf(middle)
    np.testing.assert_allclose(scaled(column(whole), "rank")[:, 0], expected, rtol=1e-5, atol=1e-6)


@given(whole=tame_columns, more=tame_columns)
def test_ranks_are_monotone_also_for_values_not_seen(whole, more):
    scale = FeatureScale.fit(column(whole), "rank")
    actual = scale.apply(column(np.sort(more / 3)))[:, 0]
    assert (np.diff(actual) >= 0).all()
    seen = scale.apply(column(whole))
    assert seen.min() <= actual.min()
    assert actual.max() <= seen.max()


@given(whole=tame_columns)
@pytest.mark.parametrize("change", [np.exp, np.cbrt, lambda x: 7 * x - 3])
def test_no_strictly_increasing_change_of_a_column_changes_its_ranks(whole, change):
    changed = column(change(whole.astype(np.float64)))
    assert np.array_equal(scaled(changed, "rank"), scaled(column(whole), "rank"))


def test_of_a_long_column_1001_values_are_kept_and_ranks_stay_within_a_thousandth():
    x = np.random.default_rng(0).lognormal(size=(50_000, 1)).astype(np.float32)
    scale = FeatureScale.fit(x, "rank")
    assert len(scale.arrays["values"]) == 1001
    actual = scipy.stats.norm.cdf(scale.apply(x)[:, 0])
    expected = (scipy.stats.rankdata(x[:, 0]) - 0.5) / len(x)
    assert np.abs(actual - expected).max() < 1e-3
    assert np.array_equal(scale.apply(x).min(), scale.arrays["scores"].min())


@pytest.mark.parametrize("kind", KINDS)
def test_a_column_of_one_value_becomes_zero(kind):
    x = column([0.1] * 37)  # of which the mean in floating point is another number
    assert not scaled(x, kind).any()
    assert np.isfinite(FeatureScale.fit(x, kind).apply(column([5.0, -5.0]))).all()


@given(x=any_features, other=any_features)
@pytest.mark.parametrize("kind", KINDS)
def test_finite_features_stay_finite_and_as_they_are(kind, x, other):
    before = x.copy()
    x.flags.writeable = False
    scale = FeatureScale.fit(x, kind)
    actual = scale.apply(x)
    assert actual.dtype == np.float32
    assert actual.shape == x.shape
    assert np.isfinite(actual).all()
    assert np.array_equal(x, before)
    width = min(x.shape[1], other.shape[1])
    narrow = FeatureScale.fit(x[:, :width], kind)
    assert np.isfinite(narrow.apply(other[:, :width])).all()


@pytest.mark.parametrize("make", [np.asarray, scipy.sparse.csr_array])
def test_a_value_of_another_graph_beyond_all_bounds_stays_finite(make):
    scale = FeatureScale.fit(make(column([0, 1e-30])), "standard")
    actual = scale.apply(make(column([3e38, -3e38])))
    largest = np.finfo(np.float32).max
    assert (actual if make is np.asarray else actual.toarray())[:, 0].tolist() == [
        largest,
        -largest,
    ]


@pytest.mark.parametrize("kind", KINDS)
def test_blocks_do_not_show_in_the_result(kind, monkeypatch):
    x = rows_of()
    whole = scaled(x, kind)
    monkeypatch.setattr("dhilgt.features.column_statistics.BLOCK", 70)
    np.testing.assert_allclose(scaled(x, kind), whole, rtol=1e-6, atol=1e-7)


# ---- sparse features ---------------------------------------------------------------------------


@given(
    x=arrays(np.int8, (9, 4), elements=st.sampled_from([0, 0, 0, 1, 5, -2])),
    make=st.sampled_from([scipy.sparse.csr_matrix, scipy.sparse.csr_array, scipy.sparse.coo_array]),
)
def test_sparse_features_are_dense_ones_without_centring(x, make):
    x = x.astype(np.float32)
    sparse = make(x)
    actual = scaled(sparse, "standard")
    deviation = x.std(0, dtype=np.float64)
    constant = (x == x[0]).all(0)
    assert scipy.sparse.issparse(actual)
    assert actual.nnz == sparse.nnz
    np.testing.assert_allclose(actual.toarray(), x / np.where(constant, 1, deviation), rtol=1e-6)
    assert np.array_equal(sparse.toarray(), x)


def test_entries_in_two_parts_count_as_their_sum(monkeypatch):
    monkeypatch.setattr("dhilgt.features.column_statistics.BLOCK", 2)
    twice = scipy.sparse.csr_array(
        (np.ones(4, np.float32), [0, 0, 1, 0], [0, 2, 3, 4]), shape=(3, 2)
    )
    whole = scipy.sparse.csr_array(twice.toarray())
    assert np.array_equal(scaled(twice, "standard").toarray(), scaled(whole, "standard").toarray())
    assert twice.nnz == 4


def test_whether_to_centre_is_settled_when_the_statistics_are_found():
    x = rows_of()
    x[::2] = 0
    sparse = scipy.sparse.csr_array(x)
    centred, plain = (FeatureScale.fit(one, "standard") for one in (x, sparse))
    assert np.array_equal(centred.apply(sparse), centred.apply(x))
    np.testing.assert_array_equal(plain.apply(x), plain.apply(sparse).toarray())


# ---- refusals ----------------------------------------------------------------------------------


def test_what_cannot_be_scaled_is_refused_with_the_way_out():
    sparse = scipy.sparse.csr_array(rows_of())
    with pytest.raises(
        ConfigError, match=r"sparse \(5 columns\); choose 'standard', or pass dense"
    ):
        FeatureScale.fit(sparse, "rank")
    with pytest.raises(
        ConfigError, match='kind = \'none\'; pass one of "auto", "standard", "rank"'
    ):
        FeatureScale.fit(rows_of(), "none")
    with pytest.raises(ConfigError, match="4 columns, the scale was fitted on 5"):
        FeatureScale.fit(rows_of(), "rank").apply(rows_of(width=4))
    for kind in KINDS:
        with pytest.raises(GraphError, match="without a row"):
            FeatureScale.fit(np.zeros((0, 3), np.float32), kind)
        for bad in (np.nan, np.inf, -np.inf):
            x = rows_of()
            x[7, 3] = bad
            with pytest.raises(GraphError, match="column 3 of the features"):
                FeatureScale.fit(x, kind)


@pytest.mark.parametrize("wrong", ["minmax", None, True])
def test_a_scale_that_is_none_is_not_a_setting(wrong):
    with pytest.raises(
        ConfigError, match=r'feature_scale = .*; pass one of "auto", "none", "standard", "rank"'
    ):
        Settings(feature_scale=wrong)


def test_sparse_features_are_refused_before_labels_are_made(monkeypatch):
    graph = community_graph()
    graph = graph.with_nodes(features=scipy.sparse.csr_array(graph.features))
    monkeypatch.setattr(dhilgt.HubLabels, "build", None)
    for hops in (0, 2):
        with pytest.raises(ConfigError, match="choose 'standard'"):
            quick(feature_scale="rank", hops=hops, cache=False).fit(graph)
    with pytest.raises(ConfigError, match="choose 'standard'"):
        plan(graph, Settings(feature_scale="rank"))


@pytest.mark.parametrize(
    ("kind", "name", "change"),
    [
        ("standard", "scale", lambda array: 0 * array),
        ("standard", "scale", lambda array: array[1:]),
        ("standard", "shift", lambda array: array * np.nan),
        ("standard", "shift", lambda array: array.astype(np.float32)),
        ("rank", "values", lambda array: array[::-1]),
        ("rank", "scores", lambda array: -array),
        ("rank", "scores", lambda array: array[1:]),
        ("rank", "offsets", lambda array: array[:-1]),
        ("rank", "offsets", lambda array: array + 1),
        ("rank", "offsets", lambda array: np.sort(np.append(array, array[1]))),
        ("rank", "offsets", lambda array: array[:0]),
        ("rank", "offsets", lambda array: array[None]),
    ],
)
def test_arrays_that_are_no_scale_are_refused(kind, name, change):
    arrays = FeatureScale.fit(rows_of(), kind).arrays
    assert FeatureScale.from_arrays(kind, arrays).num_channels == 5
    with pytest.raises(ArtifactError, match=r"of a scale"):
        FeatureScale.from_arrays(kind, arrays | {name: change(arrays[name])})


def test_arrays_of_another_kind_are_refused():
    arrays = FeatureScale.fit(rows_of(), "rank").arrays
    for kind in ("standard", "none", None):
        with pytest.raises(ArtifactError, match="is not a scale"):
            FeatureScale.from_arrays(kind, arrays)


# ---- a classifier ------------------------------------------------------------------------------


def uneven(graph):
    """The graph with columns of different scales."""
    return graph.with_nodes(features=graph.features * np.float32([1e-3, 1, 50, 1e4]))


def learner(kind, **changes):
    return quick(feature_scale=kind, **({"hops": 1, "cache": False} | changes))


def grown(graph):
    """The graph with two more nodes whose values lie far from all others."""
    count = graph.num_nodes
    ends = graph.to_edge_index()
    src, dst = np.append(ends[0], [0, 3, 6, 1]), np.append(ends[1], [count] * 3 + [count + 1])
    x = np.concatenate([graph.features, 1e6 + graph.features[:2]])
    names = np.array([f"node-{at:03d}" for at in range(count + 2)])
    return dhilgt.Graph.from_edges(names[src], names[dst], nodes=names, features=x)


@pytest.fixture(scope="module", params=KINDS)
def trained(request):
    return learner(request.param).fit(uneven(community_graph(ids=True)))


def test_the_model_is_given_the_scaled_features_of_all_hops(trained):
    plain = with_hops(trained.graph_, trained.graph_.features, 1)
    expected = scaled(plain, trained.settings_.feature_scale)
    assert np.array_equal(trained.features_, expected)
    assert trained.model_.config.in_channels == 8


@pytest.mark.parametrize("is_quick", [False, True])
def test_a_saved_classifier_predicts_the_same_bits_on_any_graph(trained, tmp_path, is_quick):
    trained.save(tmp_path / "run")
    read = NodeClassifier.load(tmp_path / "run")
    assert np.array_equal(read.predict_proba(), trained.predict_proba())
    larger = grown(trained.graph_)
    actual = [one.predict_proba(graph=larger, quick=is_quick) for one in (trained, read)]
    assert np.array_equal(*actual)
    copy = pickle.loads(pickle.dumps(read))
    assert np.array_equal(copy.predict_proba(graph=larger, quick=is_quick), actual[0])


@pytest.mark.parametrize("is_quick", [False, True])
def test_another_graph_is_scaled_by_the_statistics_of_the_training_graph(trained, is_quick):
    graph, larger = trained.graph_, grown(trained.graph_)
    kept = FeatureScale.fit(with_hops(graph, graph.features, 1), trained.settings_.feature_scale)
    plain = with_hops(larger, larger.features, 1)
    pipeline = trained._pipelines_of(larger, is_quick)[0]
    assert np.array_equal(pipeline.features, kept.apply(plain))
    anew = FeatureScale.fit(plain, kept.kind).apply(plain)
    assert np.abs(pipeline.features - anew).max() > 0.1


@pytest.mark.parametrize("kind", KINDS)
def test_rows_of_an_array_are_scaled_one_by_one(kind):
    x = rows_of(count=40)
    clf = learner(kind, hops=0).fit(x, np.arange(40) % 2)
    whole = clf.predict_proba(x)
    np.testing.assert_allclose(clf.predict_proba(x[3:4]), whole[3:4], atol=1e-6)


def test_an_explanation_is_of_the_prediction_that_was_made(trained):
    actual = trained.explain("node-007")
    probabilities = trained.predict_proba(["node-007"])[0]
    assert list(actual.probabilities.values()) == pytest.approx(probabilities.tolist(), abs=1e-5)


def test_sparse_features_train_standardised_and_stay_sparse():
    graph = community_graph()
    x = np.where(graph.features > 1, graph.features, 0)
    graph = graph.with_nodes(features=scipy.sparse.csr_array(x))
    clf = learner("standard", hops=0).fit(graph)
    assert scipy.sparse.issparse(clf.features_)
    np.testing.assert_allclose(clf.features_.toarray(), x / x.std(0), rtol=1e-5)


def test_a_column_of_tiny_spread_is_learned_from_on_a_scale_alone():
    labels = np.arange(200) % 2
    x = column(0.5 + 1e-4 * labels)
    graph = dhilgt.Graph.from_edges([0], [1], num_nodes=200, features=x, labels=labels)
    scores = {
        kind: learner(kind, hops=0, epochs=12, size=1).fit(graph).scores_["val"]["accuracy"]
        for kind in FEATURE_SCALES
    }
    assert scores["none"] < 0.7
    assert scores["auto"] == scores["standard"] == scores["rank"] == 1.0


# ---- folders -----------------------------------------------------------------------------------


def test_a_folder_from_before_has_no_scale(tmp_path):
    clf = learner("none").fit(community_graph())
    clf.save(tmp_path / "run")
    assert not (tmp_path / "run" / "feature_scale.safetensors").exists()
    sealed_anew(tmp_path / "run", lambda facts: facts["settings"].pop("feature_scale"))
    read = NodeClassifier.load(tmp_path / "run")
    assert read.settings_.feature_scale == "none"
    assert np.array_equal(read.predict_proba(), clf.predict_proba())


def test_the_statistics_in_the_folder_count_not_those_of_the_graph_in_it(trained, tmp_path):
    trained.save(tmp_path / "run")
    other = FeatureScale.fit(rows_of(width=8), trained.settings_.feature_scale)
    write_scale(tmp_path / "run", other)
    with pytest.raises(ArtifactError, match=r"feature_scale\.safetensors is damaged or of another"):
        NodeClassifier.load(tmp_path / "run")
    sealed_anew(tmp_path / "run")
    read = NodeClassifier.load(tmp_path / "run")
    plain = with_hops(read.graph_, read.graph_.features, 1)
    assert np.array_equal(read.features_, other.apply(plain))


def test_a_scale_of_another_width_is_refused(trained, tmp_path):
    trained.save(tmp_path / "run")
    write_scale(tmp_path / "run", FeatureScale.fit(rows_of(), trained.settings_.feature_scale))
    sealed_anew(tmp_path / "run")
    with pytest.raises(ArtifactError, match="does not fit the model"):
        NodeClassifier.load(tmp_path / "run")


def test_a_folder_without_its_scale_or_with_a_damaged_one_is_refused(trained, tmp_path):
    trained.save(tmp_path / "run")
    file = tmp_path / "run" / "feature_scale.safetensors"
    data = file.read_bytes()
    for damaged in (data[:-1] + bytes([data[-1] ^ 1]), data[: len(data) // 2]):
        file.write_bytes(damaged)
        with pytest.raises(ArtifactError, match=rf"{file.name} is damaged"):
            NodeClassifier.load(tmp_path / "run")
        with pytest.raises(ArtifactError, match=rf"{file.name} is damaged"):
            read_scale(tmp_path / "run")
    file.unlink()
    with pytest.raises(ArtifactError, match=rf"{file.name} is missing"):
        NodeClassifier.load(tmp_path / "run")
    sealed_anew(tmp_path / "run")
    with pytest.raises(ArtifactError, match="do not agree on feature_scale"):
        NodeClassifier.load(tmp_path / "run")


def test_a_classifier_without_a_scale_leaves_none_of_the_one_it_replaces(trained, tmp_path):
    trained.save(tmp_path / "run")
    plain = learner("none").fit(community_graph())
    plain.save(tmp_path / "run", overwrite=True)
    read = NodeClassifier.load(tmp_path / "run")
    assert np.array_equal(read.predict_proba(), plain.predict_proba())


def test_a_resumed_run_ends_like_a_whole_one(tmp_path):
    graph, run = uneven(community_graph()), tmp_path / "run"
    whole = learner("rank", epochs=6, decay="none").fit(graph)
    learner("rank", epochs=3, decay="none").fit(graph, run_dir=run)
    (run / "bundle.json").unlink()
    kept = (run / "feature_scale.safetensors").read_bytes()
    resumed = learner("rank", epochs=6, decay="none").fit(graph, run_dir=run, resume=True)
    assert np.array_equal(resumed.predict_proba(), whole.predict_proba())
    assert (run / "feature_scale.safetensors").read_bytes() == kept


def test_a_resumed_run_keeps_the_statistics_it_began_with(tmp_path):
    graph, run = uneven(community_graph()), tmp_path / "run"
    learner("standard", epochs=2, decay="none").fit(graph, run_dir=run)
    kept = FeatureScale.fit(with_hops(graph, graph.features, 1), "standard")
    clf = learner("standard", epochs=3, decay="none").fit(graph, run_dir=run, resume=True)
    assert np.array_equal(clf.features_, kept.apply(with_hops(graph, graph.features, 1)))
    moved = graph.with_nodes(features=graph.features + 3)
    with pytest.raises(ConfigError, match="began with other features"):
        learner("standard", epochs=4, decay="none").fit(moved, run_dir=run, resume=True)


@pytest.mark.parametrize(("then", "now"), [("none", "rank"), ("rank", "none"), KINDS])
def test_a_run_goes_on_with_its_own_scale_alone(tmp_path, then, now):
    graph = community_graph()
    learner(then).fit(graph, run_dir=tmp_path / "run")
    expected = f"feature_scale = '{now}', but the run in this folder has feature_scale = '{then}'"
    with pytest.raises(ConfigError, match=expected):
        learner(now).fit(graph, run_dir=tmp_path / "run", resume=True)


# ---- other roads -------------------------------------------------------------------------------


def test_an_export_has_the_statistics_beside_it(trained, tmp_path):
    from dhilgt.classifier.serving import export_classifier

    beside = export_classifier(trained, tmp_path / "model.pt2")
    facts = json.loads(beside.read_text())
    assert facts["feature_scale"] == trained.settings_.feature_scale
    arrays = np.load(tmp_path / facts["scale"])
    scale = FeatureScale.from_arrays(facts["feature_scale"], arrays)
    plain = with_hops(trained.graph_, trained.graph_.features, facts["hops"])
    assert np.array_equal(scale.apply(plain[5:9]), trained.features_[5:9])


def test_an_export_without_a_scale_says_so(tmp_path):
    from dhilgt.classifier.serving import export_classifier

    clf = learner("none").fit(community_graph())
    facts = json.loads(export_classifier(clf, tmp_path / "model.pt2").read_text())
    assert facts["feature_scale"] == "none"
    assert "scale" not in facts
    assert not list(tmp_path.glob("*.npz"))


@pytest.mark.full
def test_the_example_serves_a_model_with_a_scale(trained, tmp_path):
    assert_served(trained, tmp_path)


def test_statistics_are_applied_without_torch(tmp_path):
    np.savez(tmp_path / "scale.npz", **FeatureScale.fit(rows_of(), "rank").arrays)
    code = (
        "import sys, numpy\n"
        "from dhilgt.features.scale import FeatureScale\n"
        "scale = FeatureScale.from_arrays('rank', numpy.load(sys.argv[1]))\n"
        "assert scale.apply(numpy.ones((2, 5), numpy.float32)).shape == (2, 5)\n"
        "assert 'torch' not in sys.modules and 'scipy' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "scale.npz")], check=True)


def test_a_plan_counts_the_scaled_copy():
    graph = dhilgt.generate(2000, 6, seed=1, num_features=512, num_classes=3)
    small = {"size": 4, "hidden_channels": 8, "heads": 1, "num_layers": 1, "batch_size": 8}
    plain, more = (
        plan(graph, Settings(**small, feature_scale=kind)).stage("training").ram_bytes
        for kind in ("none", "standard")
    )
    assert more - plain > 0.5 * graph.features.nbytes


def test_a_search_does_not_take_one_scale_for_another():
    from dhilgt.tune.objective import Objective

    graph = uneven(community_graph())
    search = Objective(lambda seed: graph, seeds=[0], cache=None)
    actual = {}
    for kind in (*FEATURE_SCALES, "none"):
        settings = Settings(size=4, feature_scale=kind)
        inputs = search._prepared(settings)
        actual[kind] = search._pipeline(inputs.graph, settings).features
    assert np.array_equal(actual["none"], graph.features)
    assert np.array_equal(actual["rank"], scaled(graph.features, "rank"))
    assert np.array_equal(actual["standard"], scaled(graph.features, "standard"))


def test_commands_train_predict_evaluate_and_explain(tmp_path, monkeypatch):
    monkeypatch.setenv("DHILGT_CACHE", str(tmp_path / "cache"))
    files = Files(tmp_path)
    ok(*files.train(split=files.split), "--feature-scale", "rank")
    clf = NodeClassifier.load(tmp_path / "run")
    assert clf.settings_.feature_scale == "rank"
    assert_commands_agree(clf, tmp_path / "run")


def test_the_space_for_few_dense_columns_brings_them_to_one_scale():
    from dhilgt.tune.space import read_space

    space = read_space(Path(__file__).parents[2] / "docs" / "make" / "spaces" / "table.yaml")
    choices = {one.name: one.choices for one in space.stages[0].parameters}
    assert choices["feature_scale"] == KINDS
