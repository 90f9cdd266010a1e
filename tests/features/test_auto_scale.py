"""The default scale: which columns are scaled, which are left to the last bit, what is kept."""

import json
import pickle

import numpy as np
import pytest
import scipy.sparse
import scipy.stats
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

import dhilgt
from dhilgt import ArtifactError, ConfigError, GraphError, NodeClassifier
from dhilgt.benchmark.running.contenders import resolved
from dhilgt.benchmark.running.grid import Cell
from dhilgt.benchmark.running.recipe import Recipe
from dhilgt.classifier.planning import plan
from dhilgt.features.column_statistics import column_sizes
from dhilgt.features.from_graph import with_hops
from dhilgt.features.scale import FeatureScale
from dhilgt.settings.recipes import recipe
from dhilgt.settings.settings import Settings
from tests.classifier.cases import community_graph, quick, sealed_anew
from tests.classifier.serving_cases import assert_served
from tests.cli.cases import Files, assert_commands_agree, ok

torch.set_num_threads(1)
SCALE_FILE = "feature_scale.safetensors"

any_features = arrays(
    np.float32,
    array_shapes(min_dims=2, max_dims=2, min_side=1, max_side=12),
    elements=st.floats(width=32, allow_nan=False, allow_infinity=False),
)


def rng():
    return np.random.default_rng(0)


def fitted(*columns):
    x = np.stack(columns, axis=1).astype(np.float32)
    return x, FeatureScale.fit(x, "auto")


def standardised(column):
    wide = column.astype(np.float32).astype(np.float64)
    return (wide - wide.mean()) / wide.std()


# ---- the rule ----------------------------------------------------------------------------------

LEFT = {
    "words that occur or not": rng().random(3000) < 0.01,
    "words counted": rng().poisson(2, 3000),
    "weights of words": rng().exponential(0.05, 3000),
    "an embedding": rng().normal(0, 3, 3000),
    "standardised": standardised(rng().normal(40, 9, 3000)),
    "standardised, with tails": standardised(rng().lognormal(0, 1.5, 3000)),
    "one value": np.full(3000, 7.0),
    "a word that occurs once": np.arange(3000) == 17,
    "nothing": np.zeros(3000),
}
STANDARDISED = {
    "years": rng().integers(1950, 2024, 3000),
    "codes": rng().integers(10_000, 99_999, 3000),
    "ages": rng().normal(40, 15, 3000),
    "days since 1970": rng().integers(9_000, 20_000, 3000),
    "a rate that hardly moves": 0.5 + 1e-5 * rng().normal(size=3000),
    "tiny": 1e-6 * rng().random(3000),
}
RANKED = {
    "amounts": rng().lognormal(8, 2.5, 3000),
    "years, 9999 for not known": np.where(rng().random(3000) < 0.05, 9999, STANDARDISED["years"]),
    "seldom, and then large": np.where(np.arange(3000) % 1000 == 0, 25_000, 0),
}


@pytest.mark.parametrize("name", LEFT)
def test_columns_that_a_model_learns_from_are_left_to_the_last_bit(name):
    x, scale = fitted(LEFT[name])
    assert scale.columns.tolist() == []
    assert scale.apply(x) is x
    assert scale.summary() == ""


@pytest.mark.parametrize("name", STANDARDISED)
def test_columns_of_large_or_tiny_numbers_are_standardised(name):
    x, scale = fitted(STANDARDISED[name])
    np.testing.assert_allclose(scale.apply(x)[:, 0], standardised(x[:, 0]), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", RANKED)
def test_columns_that_division_would_press_together_get_normal_scores(name):
    x, scale = fitted(RANKED[name][:1001])  # all of them are kept
    expected = scipy.stats.norm.ppf((scipy.stats.rankdata(x[:, 0]) - 0.5) / len(x))
    actual = scale.apply(x)[:, 0]
    np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-6)
    assert np.abs(actual).max() < 5


def test_a_large_column_of_one_value_becomes_zero():
    x, scale = fitted(np.full(37, 2024.1))
    assert not scale.apply(x).any()


def test_each_column_of_a_table_is_judged_alone():
    named = {**LEFT, **STANDARDISED, **RANKED}
    x, scale = fitted(*named.values())
    names = list(named)
    changed = [names[at] for at in scale.columns]
    assert changed == [*STANDARDISED, *RANKED]
    actual = scale.apply(x)
    left = [at for at, name in enumerate(names) if name in LEFT]
    assert actual[:, left].tobytes() == x[:, left].tobytes()
    assert scale.summary(names).startswith("9 of 18 columns scaled (years, codes, ages, ")
    assert scale.summary(names).endswith(", 1 more)")
    assert scale.summary().startswith("9 of 18 columns scaled (9, 10, 11, ")


@settings(deadline=None)
@given(x=any_features, other=any_features)
def test_finite_features_stay_finite_and_what_is_kept_gives_the_same(x, other):
    x.flags.writeable = False
    width = min(x.shape[1], other.shape[1])
    scale = FeatureScale.fit(x[:, :width], "auto")
    again = FeatureScale.from_arrays("auto", scale.arrays)
    for rows in (x[:, :width], other[:, :width]):
        actual = scale.apply(rows)
        assert actual.dtype == np.float32
        assert np.isfinite(actual).all()
        assert np.array_equal(again.apply(rows), actual)


@settings(deadline=None)
@given(x=any_features)
def test_sizes_of_columns_are_those_of_the_plain_formulas(x):
    sizes = column_sizes(x)
    assert np.array_equal(sizes.low, x.min(axis=0))
    assert np.array_equal(sizes.high, x.max(axis=0))
    exact = np.sqrt((x.astype(np.float64) ** 2).mean(axis=0))
    small = exact < 1e18  # the square of a larger one is infinite as float32
    np.testing.assert_allclose(sizes.typical[small], exact[small], rtol=1e-4, atol=1e-18)


@pytest.mark.parametrize("width", [1, 3, 600])
def test_sizes_do_not_depend_on_how_rows_are_taken(width):
    x = rng().normal(size=(70_001 // width + 1, width)).astype(np.float32)
    for rows in (x, np.asfortranarray(x), x[::-1]):
        sizes = column_sizes(rows)
        assert np.array_equal(sizes.high, x.max(axis=0))
        np.testing.assert_allclose(sizes.typical, np.sqrt((x**2).mean(axis=0)), rtol=1e-5)


# ---- sparse features ---------------------------------------------------------------------------


def test_sparse_columns_are_divided_by_the_typical_size_of_their_values():
    x = np.zeros((400, 4), np.float32)
    x[::2, 0] = 1  # words
    x[::3, 1] = rng().integers(1990, 2020, 134)
    x[5, 2] = -40_000
    x[::4, 3] = 1e-5
    actual = FeatureScale.fit(scipy.sparse.csr_array(x), "auto").apply(scipy.sparse.csr_array(x))
    assert scipy.sparse.issparse(actual)
    dense = actual.toarray()
    assert dense[:, 0].tobytes() == x[:, 0].tobytes()
    np.testing.assert_allclose(dense[::3, 1], 1, atol=0.02)
    assert dense[5, 2] == -1
    np.testing.assert_allclose(dense[::4, 3], 1, rtol=1e-6)
    assert (dense != 0).sum() == (x != 0).sum()


def test_sparse_words_are_returned_as_they_are():
    words = scipy.sparse.csr_array((rng().random((50, 20)) < 0.1).astype(np.float32))
    assert FeatureScale.fit(words, "auto").apply(words) is words


# ---- refusals ----------------------------------------------------------------------------------


def test_values_that_are_not_finite_are_refused_by_column():
    for make in (np.asarray, scipy.sparse.csr_array):
        x = rng().normal(size=(60, 5)).astype(np.float32)
        x[7, 3] = np.nan
        with pytest.raises(GraphError, match="column 3 of the features"):
            FeatureScale.fit(make(x), "auto")


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("scale", lambda array: 0 * array),
        ("scale", lambda array: array[1:]),
        ("shift", lambda array: array + 1),  # of a ranked column too
        ("shift", lambda array: array * np.nan),
        ("values", lambda array: array[::-1]),
        ("scores", lambda array: -array),
        ("offsets", lambda array: array + 1),
        ("offsets", lambda array: np.append(array, array[-1])),
    ],
)
def test_arrays_that_are_no_scale_are_refused(name, change):
    _, scale = fitted(STANDARDISED["years"], LEFT["an embedding"], RANKED["amounts"])
    assert FeatureScale.from_arrays("auto", scale.arrays).num_channels == 3
    with pytest.raises(ArtifactError, match=r"of a scale"):
        FeatureScale.from_arrays("auto", scale.arrays | {name: change(scale.arrays[name])})


# ---- a classifier ------------------------------------------------------------------------------


def table_graph(num_nodes=160):
    """Two classes that follow from a year and a code; edges say nothing."""
    draw = np.random.default_rng(5)
    year = draw.integers(1960, 2020, num_nodes)
    code = draw.integers(10_000, 90_000, num_nodes)
    classes = np.where((year - 1990) / 17 + (code - 50_000) / 23_000 > 0, "late", "early")
    src = np.arange(num_nodes)
    other = (src + draw.integers(1, num_nodes, num_nodes)) % num_nodes
    x = np.stack([year, code, draw.random(num_nodes)], axis=1)
    return dhilgt.Graph.from_edges(src, other, num_nodes=num_nodes, features=x, labels=classes)


LEARNER = {"size": 4, "epochs": 12, "lr": 0.05, "readout": "ego", "cache": False}


def test_years_and_codes_are_learned_from_by_default():
    graph = table_graph()
    scores = {
        kind: quick(**LEARNER, **kind_of).fit(graph).scores_["val"]["accuracy"]
        for kind, kind_of in (("default", {}), ("none", {"feature_scale": "none"}))
    }
    assert scores["none"] < 0.7  # about as good as one class for all
    assert scores["default"] > 0.9


def test_the_command_learns_from_them_and_says_what_it_scaled(tmp_path, monkeypatch):
    monkeypatch.setenv("DHILGT_CACHE", str(tmp_path / "cache"))
    graph = table_graph()
    edges = graph.to_edge_index().T
    (tmp_path / "e.csv").write_text("".join(f"n{u},n{v}\n" for u, v in edges.tolist() if u < v))
    rows = enumerate(graph.features.tolist())
    lines = [f"n{node},{','.join(f'{value:g}' for value in row)}\n" for node, row in rows]
    (tmp_path / "x.csv").write_text("id,year,code,noise\n" + "".join(lines))
    classes = [graph.class_names[label] for label in graph.labels]
    lines = [f"n{node},{name}\n" for node, name in enumerate(classes)]
    (tmp_path / "y.csv").write_text("id,label\n" + "".join(lines))
    made = ok(
        "train", "--edges", tmp_path / "e.csv", "--features", tmp_path / "x.csv", "--labels",
        tmp_path / "y.csv", "--recipe", "paper", "-o", tmp_path / "run", "--size", 4,
        "--hidden-channels", 8, "--num-layers", 1, "--heads", 2, "--epochs", 12, "--lr", 0.05,
        "--warmup-epochs", 0, "--readout", "ego", "--batch-size", 32,
    )  # fmt: skip
    assert "2 of 3 columns scaled (" in made.stdout
    out = tmp_path / "p.csv"
    ok("predict", tmp_path / "run", "-o", out)
    predicted = [line.split(",")[:2] for line in out.read_text().splitlines()[1:]]
    right = sum(classes[int(node[1:])] == name for node, name in predicted)
    assert right > 0.9 * len(classes)


def uneven(graph):
    """The graph with a column of years and one of amounts."""
    amounts = np.random.default_rng(2).lognormal(8, 2.5, graph.num_nodes)
    x = graph.features.copy()
    x[:, 2] = 1990 + 10 * x[:, 2]
    x[:, 3] = amounts
    return graph.with_nodes(features=x.astype(np.float32))


def learner(**changes):
    return quick(**({"hops": 1, "cache": False} | changes))


@pytest.fixture(scope="module")
def trained():
    return learner().fit(uneven(community_graph(ids=True)))


def test_hops_are_averages_of_scaled_features(trained):
    graph = trained.graph_
    scale = FeatureScale.fit(graph.features, "auto")
    assert scale.columns.tolist() == [2, 3]
    assert np.array_equal(trained.features_, with_hops(graph, scale.apply(graph.features), 1))
    assert trained.features_[:, [0, 1]].tobytes() == graph.features[:, [0, 1]].tobytes()


def test_the_scale_is_kept_for_other_graphs_and_by_folders(trained, tmp_path):
    trained.save(tmp_path / "run")
    read = NodeClassifier.load(tmp_path / "run")
    assert np.array_equal(read.predict_proba(), trained.predict_proba())
    moved = trained.graph_.with_nodes(features=trained.graph_.features + np.float32(3))
    scale = FeatureScale.fit(trained.graph_.features, "auto")
    for clf in (trained, read, pickle.loads(pickle.dumps(read))):
        pipeline = clf._pipelines_of(moved, False)[0]
        assert np.array_equal(pipeline.features[:, :4], scale.apply(moved.features))


def test_features_that_need_no_scale_stay_the_graphs_own_and_write_nothing(tmp_path):
    graph = community_graph()
    clf = learner(hops=0).fit(graph, run_dir=tmp_path / "run")
    assert clf.features_ is clf.graph_.features
    assert not (tmp_path / "run" / SCALE_FILE).exists()
    plain = learner(hops=0, feature_scale="none").fit(graph)
    assert np.array_equal(clf.predict_proba(), plain.predict_proba())
    # Large values in another graph do not bring a scale that training did not have.
    read = NodeClassifier.load(tmp_path / "run")
    larger = graph.with_nodes(features=graph.features * 1000)
    assert read._pipelines_of(larger, False)[0].features is larger.features
    resumed = learner(hops=0).fit(graph, run_dir=tmp_path / "run", resume=True)
    assert np.array_equal(resumed.predict_proba(), clf.predict_proba())


def test_a_folder_that_lost_its_scale_is_refused(trained, tmp_path):
    trained.save(tmp_path / "run")
    (tmp_path / "run" / SCALE_FILE).unlink()
    with pytest.raises(ArtifactError, match=f"{SCALE_FILE} is missing"):
        NodeClassifier.load(tmp_path / "run")
    sealed_anew(tmp_path / "run")
    with pytest.raises(ArtifactError, match=r"2 columns .* were scaled in training"):
        NodeClassifier.load(tmp_path / "run")


def test_a_folder_without_the_setting_is_read_as_it_was_trained(tmp_path):
    clf = learner(feature_scale="none").fit(uneven(community_graph()))
    clf.save(tmp_path / "run")

    def forget(facts):
        del facts["settings"]["feature_scale"], facts["scaled_columns"]

    sealed_anew(tmp_path / "run", forget)
    read = NodeClassifier.load(tmp_path / "run")
    assert read.settings_.feature_scale == "none"
    assert np.array_equal(read.predict_proba(), clf.predict_proba())


def test_a_run_that_began_without_a_scale_does_not_go_on_with_one(tmp_path):
    graph, run = uneven(community_graph()), tmp_path / "run"
    learner(feature_scale="none").fit(graph, run_dir=run)
    with pytest.raises(ConfigError, match=r"'auto', but the run in this folder has .* 'none'"):
        learner().fit(graph, run_dir=run, resume=True)
    learner(feature_scale="none").fit(graph, run_dir=run, resume=True)


def test_a_resumed_run_ends_like_a_whole_one(tmp_path):
    graph, run = uneven(community_graph()), tmp_path / "run"
    whole = learner(epochs=4, decay="none").fit(graph)
    learner(epochs=2, decay="none").fit(graph, run_dir=run)
    (run / "bundle.json").unlink()
    resumed = learner(epochs=4, decay="none").fit(graph, run_dir=run, resume=True)
    assert np.array_equal(resumed.predict_proba(), whole.predict_proba())


# ---- other roads -------------------------------------------------------------------------------


def test_recipes_and_comparisons_give_every_system_the_features_as_they_are():
    for name, data in (("paper", None), ("paper", "physics"), ("best", "physics")):
        assert Settings.from_dict(recipe(name, data)).feature_scale == "none"
    assert Settings.from_dict(recipe("best", "tolokers")).feature_scale == "rank"
    for name in ("paper", "best"):
        changes = Recipe(name).changes("dhilgt", "cora")
        assert "feature_scale" not in changes.model  # recorded lines stay comparable
        cell = Cell("dhilgt", "cora", 0, changes=changes)
        assert resolved(cell, "accuracy").model["feature_scale"] == "none"


def test_a_plan_counts_the_copy_only_where_there_is_one():
    graph = dhilgt.generate(2000, 6, seed=1, num_features=512, num_classes=3)
    small = {"size": 4, "hidden_channels": 8, "heads": 1, "num_layers": 1, "batch_size": 8}
    years = graph.with_nodes(features=graph.features + np.float32(2000))
    plain, more = (
        plan(one, Settings(**small)).stage("training").ram_bytes for one in (graph, years)
    )
    assert more - plain > 0.5 * graph.features.nbytes


def test_an_export_names_the_scale_it_needs(trained, tmp_path, monkeypatch):
    from dhilgt.classifier.serving import WRITERS, export_classifier

    monkeypatch.setitem(WRITERS, ".pt2", lambda models, file: file.write_bytes(b"a model"))
    facts = json.loads(export_classifier(trained, tmp_path / "model.pt2").read_text())
    scale = FeatureScale.from_arrays(facts["feature_scale"], np.load(tmp_path / facts["scale"]))
    assert np.array_equal(
        with_hops(trained.graph_, scale.apply(trained.graph_.features), facts["hops"]),
        trained.features_,
    )
    plain = learner().fit(community_graph())
    facts = json.loads(export_classifier(plain, tmp_path / "plain.pt2").read_text())
    assert facts["feature_scale"] == "none"
    assert "scale" not in facts


@pytest.mark.full
def test_the_example_serves_a_model_with_a_scale(trained, tmp_path):
    assert_served(trained, tmp_path)


def test_commands_train_predict_evaluate_and_explain(tmp_path, monkeypatch):
    monkeypatch.setenv("DHILGT_CACHE", str(tmp_path / "cache"))
    files = Files(tmp_path)
    text = files.features.read_text().splitlines()
    lines = [text[0], *(f"{row}{at % 10}e4" for at, row in enumerate(text[1:]))]
    files.write("x.csv", "\n".join(lines) + "\n")
    ok(*files.train(split=files.split))
    assert (tmp_path / "run" / SCALE_FILE).exists()
    assert_commands_agree(NodeClassifier.load(tmp_path / "run"), tmp_path / "run")
