"""Wide features along their main directions: the numbers, and what is kept of them with a model."""

import json
import pickle

import numpy as np
import pytest
import scipy.sparse
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

import dhilgt
from dhilgt import ArtifactError, ConfigError, GraphError, NodeClassifier
from dhilgt.classifier.pipeline import Pipeline
from dhilgt.classifier.planning import plan
from dhilgt.classifier.projection_file import read_projection, write_projection
from dhilgt.classifier.serving import export_classifier
from dhilgt.features import projection as module
from dhilgt.features.from_graph import HOP_KINDS, num_copies, with_hops
from dhilgt.features.projection import Projection, projected_width
from dhilgt.features.scale import FeatureScale
from dhilgt.model.export import WRITERS
from dhilgt.settings.settings import Settings
from dhilgt.store.exports import read_export
from tests.classifier.cases import community_graph, quick, sealed_anew
from tests.classifier.serving_cases import assert_served

torch.set_num_threads(1)
FILE = "projection.safetensors"

any_features = arrays(
    np.float32,
    array_shapes(min_dims=2, max_dims=2, min_side=2, max_side=12),
    elements=st.floats(width=32, allow_nan=False, allow_infinity=False),
)


def rows_of(seed=0, count=60, width=12, rank=None):
    """Rows whose directions differ in size, of full rank or of a given one."""
    rng = np.random.default_rng(seed)
    inner = min(count, width) if rank is None else rank
    left = np.linalg.qr(rng.normal(size=(count, inner)))[0]
    right = np.linalg.qr(rng.normal(size=(width, inner)))[0]
    return (left * 2.0 ** -np.arange(inner) @ right.T).astype(np.float32)


def sparse_rows(seed=0, count=80, width=30):
    rng = np.random.default_rng(seed)
    x = rng.integers(1, 4, (count, width)) * (rng.random((count, width)) < 0.1)
    return scipy.sparse.csr_array(x.astype(np.float32))


def directions(projection):
    """The right singular vectors, as columns, and the one factor of all of them."""
    weights = projection.weights.astype(np.float64)
    factor = np.linalg.norm(weights[:, 0])
    return weights / factor, factor


def assert_alike(one, other):
    """Both keep the same directions, on the same axes."""
    (found, factor), (expected, other_factor) = directions(one), directions(other)
    np.testing.assert_allclose(found @ found.T, expected @ expected.T, atol=1e-3)
    np.testing.assert_allclose(found, expected, atol=1e-2)
    assert factor == pytest.approx(other_factor, rel=1e-4)


# ---- the numbers -------------------------------------------------------------------------------


def test_the_columns_span_the_first_right_singular_vectors():
    x = rows_of()
    _, sizes, right = np.linalg.svd(x.astype(np.float64), full_matrices=False)
    projection = Projection.fit(x, 4)
    found, factor = directions(projection)
    np.testing.assert_allclose(found.T @ found, np.eye(4), atol=1e-6)
    np.testing.assert_allclose(found @ found.T, right[:4].T @ right[:4], atol=1e-5)
    z = projection.apply(x)
    assert z.dtype == np.float32
    columns = np.linalg.norm(z, axis=0)
    assert (np.diff(columns) <= 1e-5).all()
    assert np.square(columns / factor).sum() == pytest.approx(np.square(sizes[:4]).sum(), rel=1e-5)


def test_the_axes_are_those_along_which_rows_have_few_large_numbers():
    rng = np.random.default_rng(0)
    topics = np.linalg.qr(rng.normal(size=(30, 5)))[0]
    shares = rng.normal(size=(1000, 5)) * (rng.random((1000, 5)) < 0.15)
    x = (shares @ topics.T).astype(np.float32)
    found, _ = directions(Projection.fit(x, 5))
    match = np.abs(found.T @ topics)
    assert match.max(axis=0).min() > 0.95
    assert match.max(axis=1).min() > 0.95


@pytest.mark.parametrize("make", [np.asarray, scipy.sparse.csr_array])
def test_words_lose_no_more_than_with_an_exact_decomposition(make):
    x = sparse_rows(count=300, width=120).toarray()
    sizes = np.linalg.svd(x, compute_uv=False)
    found, _ = directions(Projection.fit(make(x), 20))
    kept = np.square(x @ found).sum()
    assert kept > 0.99 * np.square(sizes[:20]).sum()


@given(rank=st.integers(1, 5), seed=st.integers(0, 9), count=st.sampled_from([6, 40]))
def test_nothing_is_lost_where_the_rank_is_no_larger(rank, seed, count):
    x = rows_of(seed, count=count, rank=rank)
    projection = Projection.fit(x, 5)
    z, (_, factor) = projection.apply(x), directions(projection)
    np.testing.assert_allclose(z @ z.T / factor**2, x @ x.T, atol=1e-5)
    assert not z[:, rank:].any()  # exactly: these would be noise in other graphs
    assert not projection.weights[:, rank:].any()


def test_all_numbers_together_have_a_root_mean_square_of_1():
    for x in (rows_of(), 1e6 * rows_of(), sparse_rows(), rows_of(rank=2)):
        z = Projection.fit(x, 5).apply(x).astype(np.float64)
        assert np.sqrt(np.square(z).mean()) == pytest.approx(1, rel=1e-4)


def test_features_of_zeros_stay_zeros():
    for x in (np.zeros((7, 5), np.float32), scipy.sparse.csr_array((7, 5), dtype=np.float32)):
        projection = Projection.fit(x, 2)
        assert not projection.weights.any()
        assert not projection.apply(x).any()


@given(x=any_features, channels=st.integers(1, 11))
def test_finite_features_have_finite_directions(x, channels):
    assume(channels < x.shape[1])
    before = x.copy()
    x.flags.writeable = False
    projection = Projection.fit(x, channels)
    assert projection.weights.shape == (x.shape[1], channels)
    assert np.array_equal(x, before)
    assert np.isfinite(projection.weights).all()
    assert np.isfinite(projection.apply(x)).all()


@pytest.mark.parametrize("make", [np.asarray, scipy.sparse.csr_array])
def test_the_same_features_and_seed_give_the_same_bits(make):
    x = sparse_rows(count=200, width=90).toarray()
    first, again = (Projection.fit(make(x), 16, seed=3).weights for _ in range(2))
    assert np.array_equal(first, again)
    signs = first[np.abs(first).argmax(axis=0), np.arange(16)]
    assert (signs > 0).all()


def test_another_seed_finds_the_same_directions():
    x = rows_of()
    first, other = (Projection.fit(x, 4, seed) for seed in (0, 1))
    assert_alike(first, other)


@pytest.mark.parametrize(
    "make", [scipy.sparse.csr_array, scipy.sparse.csr_matrix, scipy.sparse.coo_array]
)
def test_sparse_features_are_projected_as_dense_ones(make):
    x = rows_of()
    x[np.abs(x) < 0.05] = 0
    dense, sparse = Projection.fit(x, 3), Projection.fit(make(x), 3)
    assert_alike(sparse, dense)
    np.testing.assert_allclose(sparse.apply(make(x)), sparse.apply(x), rtol=1e-4, atol=1e-5)


def test_blocks_do_not_show_in_the_result(monkeypatch):
    kinds = rows_of(), sparse_rows()
    whole = [Projection.fit(x, 4) for x in kinds]
    monkeypatch.setattr(module, "_BLOCK", 70)
    monkeypatch.setattr(module, "_TOGETHER", 3)
    for x, expected in zip(kinds, whole, strict=True):
        actual = Projection.fit(x, 4)
        assert_alike(actual, expected)
        np.testing.assert_allclose(actual.apply(x), expected.apply(x), rtol=1e-2, atol=1e-2)


def test_of_an_array_with_many_rows_drawn_ones_are_enough(monkeypatch):
    x = rows_of(count=400)
    whole, _ = directions(Projection.fit(x, 2))
    monkeypatch.setattr(module, "_MOST_ROWS", 200)
    drawn, _ = directions(Projection.fit(x, 2))
    assert np.linalg.svd(whole.T @ drawn, compute_uv=False).min() > 0.9
    assert not np.array_equal(whole, drawn)


# ---- refusals ----------------------------------------------------------------------------------


def test_what_cannot_be_projected_is_refused_with_the_way_out():
    for channels in (0, 12, 13):
        with pytest.raises(ConfigError, match=f"12 columns .* to {channels}; .* from 1 to 11"):
            Projection.fit(rows_of(), channels)
    with pytest.raises(GraphError, match="without a row"):
        Projection.fit(np.zeros((0, 3), np.float32), 2)
    with pytest.raises(ConfigError, match="4 columns, the projection was fitted on 12"):
        Projection.fit(rows_of(), 2).apply(rows_of(width=4))
    for bad in (np.nan, np.inf, -np.inf):
        x = rows_of()
        x[7, 3] = bad
        for make in (np.asarray, scipy.sparse.csr_array):
            with pytest.raises(GraphError, match="not finite"):
                Projection.fit(make(x), 2)


@pytest.mark.parametrize(
    "change",
    [
        lambda array: array * np.nan,
        lambda array: array.astype(np.float64),
        lambda array: array[:, 0],
        lambda array: array.T,
        lambda array: array[:, :0],
    ],
)
def test_arrays_that_are_no_projection_are_refused(change):
    kept = Projection.fit(rows_of(), 2).arrays
    assert np.array_equal(Projection.from_arrays(kept).weights, kept["weights"])
    with pytest.raises(ArtifactError, match="of a projection"):
        Projection.from_arrays({"weights": change(kept["weights"])})
    with pytest.raises(ArtifactError, match="of a projection"):
        Projection.from_arrays(kept | {"more": kept["weights"]})


# ---- features with their hops ------------------------------------------------------------------


def wide(graph, width=20, *, sparse=False):
    """The graph with features of many columns, which follow the classes."""
    rng = np.random.default_rng(4)
    x = graph.features @ rng.normal(size=(graph.features.shape[1], width))
    x += rng.normal(size=x.shape)
    x[np.abs(x) < np.quantile(np.abs(x), 0.7)] = 0
    x = x.astype(np.float32)
    return graph.with_nodes(features=scipy.sparse.csr_array(x) if sparse else x)


def pipeline_of(graph, **settings):
    return Pipeline(graph, Settings(**settings), cache=None, progress=False)


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("kind", HOP_KINDS)
def test_averages_are_those_of_the_projected_features(kind, sparse):
    graph = wide(community_graph(), sparse=sparse)
    pipeline = pipeline_of(graph, hops=2, hop_kind=kind, hop_restart=0.1, hop_channels=6)
    z = Projection.fit(graph.features, 6).apply(graph.features)
    assert np.array_equal(pipeline.features, with_hops(graph, z, 2, kind, 0.1))
    assert pipeline.num_channels == pipeline.features.shape[1] == 6 * num_copies(2, kind)


def test_averages_of_a_low_rank_keep_all_that_exact_ones_have():
    graph = community_graph()
    x = rows_of(count=graph.num_nodes, width=20, rank=5)
    graph = graph.with_nodes(features=x)
    exact = with_hops(graph, x, 2, "smooth").astype(np.float64)
    pipeline = pipeline_of(graph, hops=2, hop_kind="smooth", hop_channels=8)
    _, factor = directions(pipeline.projection)
    actual = pipeline.features.astype(np.float64) / factor
    np.testing.assert_allclose(actual @ actual.T, exact @ exact.T, atol=1e-6)


@pytest.mark.parametrize("directed", [False, True])
def test_nodes_without_edges_and_directed_edges_are_as_ever(directed):
    x = rows_of(count=5, width=6)
    graph = dhilgt.Graph.from_edges([0, 1, 1], [1, 2, 3], num_nodes=5, directed=directed)
    graph = graph.with_nodes(features=x)
    found = pipeline_of(graph, hops=1, hop_channels=3).features
    z, averages = found[:, :3], found[:, 3:]
    assert not averages[4].any()
    assert averages[3].any() != directed
    np.testing.assert_allclose(averages[1], z[[2, 3]].mean(0) if directed else z[[0, 2, 3]].mean(0),
                               rtol=1e-5, atol=1e-6)  # fmt: skip


def test_without_hops_the_features_are_projected_alone():
    graph = wide(community_graph(), sparse=True)
    for scale in ("auto", "none"):
        pipeline = pipeline_of(graph, hop_channels=6, feature_scale=scale)
        assert (
            pipeline.features.shape
            == (graph.num_nodes, 6)
            == (graph.num_nodes, pipeline.num_channels)
        )


@pytest.mark.parametrize("channels", [None, 20, 500])
def test_features_that_are_no_wider_stay_as_they_are(channels):
    graph = wide(community_graph(), sparse=True)
    pipeline = pipeline_of(graph, hop_channels=channels, feature_scale="none")
    assert pipeline.features is graph.features
    assert pipeline.projection is None
    assert pipeline.num_channels == projected_width(20, channels) == 20


def test_columns_are_scaled_before_the_projection_where_they_need_it():
    graph = wide(community_graph())
    x = graph.features * np.where(np.arange(20) == 3, 1e4, 1).astype(np.float32)
    graph = graph.with_nodes(features=x)
    scaled = FeatureScale.fit(x, "auto").apply(x)
    actual = pipeline_of(graph, hops=1, hop_channels=6).features
    expected = with_hops(graph, Projection.fit(scaled, 6).apply(scaled), 1)
    assert np.array_equal(actual, expected)


@pytest.mark.parametrize("kind", ["standard", "rank"])
def test_the_other_scales_come_after_the_averages(kind):
    graph = wide(community_graph())
    plain = pipeline_of(graph, hops=1, hop_channels=6, feature_scale="none").features
    actual = pipeline_of(graph, hops=1, hop_channels=6, feature_scale=kind).features
    assert np.array_equal(actual, FeatureScale.fit(plain, kind).apply(plain))


def test_the_features_do_not_depend_on_the_seed():
    graph = wide(community_graph())
    first, other = (pipeline_of(graph, hop_channels=6, seed=seed).features for seed in (0, 7))
    assert np.array_equal(first, other)


# ---- a classifier ------------------------------------------------------------------------------


def learner(**changes):
    return quick(**({"hops": 1, "hop_channels": 6, "cache": False} | changes))


def grown(graph):
    """The graph with two more nodes whose values lie far from all others."""
    count = graph.num_nodes
    ends = graph.to_edge_index()
    src, dst = np.append(ends[0], [0, 3, 6, 1]), np.append(ends[1], [count] * 3 + [count + 1])
    x = scipy.sparse.vstack([graph.features, 50 * graph.features[:2]], format="csr")
    names = np.array([f"node-{at:03d}" for at in range(count + 2)])
    return dhilgt.Graph.from_edges(names[src], names[dst], nodes=names, features=x)


@pytest.fixture(scope="module")
def trained():
    return learner().fit(wide(community_graph(ids=True), sparse=True))


def test_the_model_is_given_projected_features(trained):
    assert trained.model_.config.in_channels == 12
    assert trained.n_features_in_ == 20
    assert trained.features_.shape == (trained.graph_.num_nodes, 12)


@pytest.mark.parametrize("is_quick", [False, True])
def test_another_graph_is_projected_by_the_directions_of_the_training_graph(trained, is_quick):
    larger = grown(trained.graph_)
    z = trained._pipeline.projection.apply(larger.features)
    actual = trained._pipelines_of(larger, is_quick)[0].features
    assert np.array_equal(actual, with_hops(larger, z, 1))
    anew = Projection.fit(larger.features, 6).apply(larger.features)
    assert np.abs(actual[:, :6] - anew).max() > 0.1


@pytest.mark.parametrize("is_quick", [False, True])
def test_a_saved_classifier_predicts_the_same_bits_on_any_graph(trained, tmp_path, is_quick):
    trained.save(tmp_path / "run")
    read = NodeClassifier.load(tmp_path / "run")
    assert np.array_equal(read._pipeline.projection.weights, trained._pipeline.projection.weights)
    assert np.array_equal(read.predict_proba(), trained.predict_proba())
    larger = grown(trained.graph_)
    actual = [one.predict_proba(graph=larger, quick=is_quick) for one in (trained, read)]
    assert np.array_equal(*actual)
    copy = pickle.loads(pickle.dumps(read))
    assert np.array_equal(copy.predict_proba(graph=larger, quick=is_quick), actual[0])


def test_rows_of_an_array_are_projected_one_by_one():
    x = rows_of(count=40)
    clf = learner(hops=0).fit(x, np.arange(40) % 2)
    assert clf.model_.config.in_channels == 6
    whole = clf.predict_proba(x)
    np.testing.assert_allclose(clf.predict_proba(x[3:4]), whole[3:4], atol=1e-6)


def test_an_explanation_is_of_the_prediction_that_was_made(trained):
    actual = trained.explain("node-007")
    probabilities = trained.predict_proba(["node-007"])[0]
    assert list(actual.probabilities.values()) == pytest.approx(probabilities.tolist(), abs=1e-5)


# ---- folders -----------------------------------------------------------------------------------


def test_a_classifier_saved_over_another_leaves_no_projection_behind(trained, tmp_path):
    trained.save(tmp_path / "run")
    plain = learner(hop_channels=None).fit(trained.graph_)
    plain.save(tmp_path / "run", overwrite=True)
    assert not (tmp_path / "run" / FILE).exists()
    read = NodeClassifier.load(tmp_path / "run")
    assert np.array_equal(read.predict_proba(), plain.predict_proba())


def test_a_projection_of_another_run_is_refused_by_name(trained, tmp_path):
    trained.save(tmp_path / "run")
    write_projection(tmp_path / "run", Projection.fit(rows_of(width=20), 6))
    with pytest.raises(ArtifactError, match=r"projection\.safetensors is damaged or of another"):
        NodeClassifier.load(tmp_path / "run")


def _missing(folder):
    (folder / FILE).unlink()


def _narrower(folder):
    write_projection(folder, Projection.fit(rows_of(width=20), 5))


def _of_fewer_columns(folder):
    write_projection(folder, Projection.fit(rows_of(width=19), 6))


@pytest.mark.parametrize("fault", [_missing, _narrower, _of_fewer_columns])
def test_a_folder_whose_projection_does_not_fit_is_refused(trained, tmp_path, fault):
    trained.save(tmp_path / "run")
    fault(tmp_path / "run")
    sealed_anew(tmp_path / "run", lambda facts: None)
    with pytest.raises(ArtifactError, match="do not agree on hop_channels"):
        NodeClassifier.load(tmp_path / "run")


@pytest.mark.parametrize("change", [lambda b: b[:-1], lambda b: b[:-9] + b"\xff" + b[-8:]])
def test_a_damaged_file_is_refused_by_name(trained, tmp_path, change):
    trained.save(tmp_path / "run")
    file = tmp_path / "run" / FILE
    file.write_bytes(change(file.read_bytes()))
    with pytest.raises(ArtifactError, match=r"projection\.safetensors is damaged"):
        read_projection(tmp_path / "run")


def test_a_resumed_run_goes_on_with_its_own_directions(tmp_path, monkeypatch):
    graph, run = wide(community_graph()), tmp_path / "run"
    whole = learner(epochs=2, decay="none").fit(graph)
    learner(epochs=1, decay="none").fit(graph, run_dir=run)
    (run / "bundle.json").unlink()
    kept = (run / FILE).read_bytes()
    monkeypatch.setattr(Projection, "fit", None)
    clf = learner(epochs=2, decay="none").fit(graph, run_dir=run, resume=True)
    assert (run / FILE).read_bytes() == kept
    assert np.array_equal(clf.predict_proba(), whole.predict_proba())


def test_a_run_is_not_resumed_with_another_number_of_columns(tmp_path):
    graph, run = wide(community_graph()), tmp_path / "run"
    learner(epochs=1).fit(graph, run_dir=run)
    for now in (5, None):
        with pytest.raises(ConfigError, match=rf"hop_channels.*{now}.*has .*6"):
            learner(epochs=2, hop_channels=now).fit(graph, run_dir=run, resume=True)
    (run / FILE).unlink()
    with pytest.raises(ArtifactError, match=r"projection\.safetensors is missing"):
        learner(epochs=2).fit(graph, run_dir=run, resume=True)


# ---- served ------------------------------------------------------------------------------------


def test_an_export_has_the_projection_beside_it(trained, tmp_path, monkeypatch):
    monkeypatch.setitem(WRITERS, ".pt2", lambda models, file: file.write_bytes(b"a model"))
    facts = json.loads(export_classifier(trained, tmp_path / "model.pt2").read_text())
    assert facts["projection"] == "model.pt2.projection.npz"
    kept = Projection.from_arrays(read_export(tmp_path / "model.pt2").projection)
    assert np.array_equal(kept.weights, trained._pipeline.projection.weights)
    (tmp_path / facts["projection"]).write_bytes(b"another")
    with pytest.raises(ArtifactError, match=r"projection\.npz is damaged or of another export"):
        read_export(tmp_path / "model.pt2")


def test_an_export_without_a_projection_has_no_file_of_one(tmp_path, monkeypatch):
    monkeypatch.setitem(WRITERS, ".pt2", lambda models, file: file.write_bytes(b"a model"))
    export_classifier(learner(hop_channels=None).fit(community_graph()), tmp_path / "model.pt2")
    assert read_export(tmp_path / "model.pt2").projection is None
    assert sorted(file.name for file in tmp_path.iterdir()) == ["model.pt2", "model.pt2.json"]


@pytest.mark.full
def test_the_example_serves_a_model_with_a_projection(trained, tmp_path):
    assert_served(trained, tmp_path)


# ---- the plan ----------------------------------------------------------------------------------


def test_a_plan_counts_the_projected_columns():
    graph = wide(community_graph(), width=400)
    small = {"size": 4, "hidden_channels": 8, "num_layers": 1, "heads": 2}
    exact, narrow = (
        plan(graph, Settings(**small, hops=3, hop_channels=channels)) for channels in (None, 4)
    )
    assert exact.num_parameters - narrow.num_parameters == 8 * 4 * (400 - 4)
