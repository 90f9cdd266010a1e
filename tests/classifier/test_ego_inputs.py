"""Neighbours, hubs and classes nearby as inputs: from a graph to predictions, files and reasons."""

import json

import numpy as np
import pytest
import torch

import dhilgt
from dhilgt.classifier.pipeline import Pipeline
from dhilgt.classifier.planning import long_run, plan
from dhilgt.classifier.serving import export_classifier
from dhilgt.errors import ArtifactError, ConfigError, MemoryLimitError
from dhilgt.features.ego_vocabulary import EgoVocabulary
from dhilgt.labels.hub_labels import HubLabels
from dhilgt.loader.loader import TokenLoader
from dhilgt.model.dhilgt import DHILGT
from dhilgt.model.export import WRITERS
from dhilgt.settings.settings import Settings
from dhilgt.store.exports import read_export
from dhilgt.tokens.single import SingleRows
from tests.classifier.cases import community_graph, quick, sealed_anew
from tests.classifier.serving_cases import assert_served
from tests.cli.cases import Files, assert_commands_agree, ok

KINDS = ("neighbor_inputs", "hub_inputs", "class_inputs")
ALL = dict.fromkeys(KINDS, True)


def split_of(num_nodes=90):
    part = np.arange(num_nodes) % 9
    return {"train": part < 5, "val": (part == 5) | (part == 6), "test": part > 6}


def trained(graph=None, run_dir=None, resume=False, **changes):
    graph = community_graph(masks=split_of()) if graph is None else graph
    options = ALL | {"cache": False} | changes
    return quick(**options).fit(graph, run_dir=run_dir, resume=resume)


@pytest.fixture(scope="module")
def clf():
    return trained(community_graph(ids=True, masks=split_of()))


# ---- what a kind of input is worth ---------------------------------------------------------------


def blind(directed=False):
    """Groups that only edges tell apart."""
    graph = community_graph(150, masks=split_of(150))
    ends = graph.to_edge_index()
    ends = ends[:, ends[0] < ends[1]] if directed else ends
    return dhilgt.Graph.from_edges(
        *ends, num_nodes=150, directed=directed, features=np.ones((150, 1), np.float32),
        labels=graph.labels, masks=graph.masks,
    )  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("directed", [False, True])
def test_groups_that_only_edges_tell_apart_are_learned_from_each_kind_alone(kind, directed):
    found = quick(
        num_layers=0, epochs=40, hidden_channels=16, input_dropout=0.0, dropout=0.0,
        cache=False, **{kind: True},
    ).fit(blind(directed))  # fmt: skip
    assert found.scores_["test"]["accuracy"] > 0.55  # by chance 0.33


def test_without_edges_there_is_nothing_to_add():
    graph = dhilgt.Graph.from_edges(
        [], [], num_nodes=30, features=np.eye(30, dtype=np.float32), labels=np.arange(30) % 2
    )
    plain = quick(num_layers=0, cache=False).fit(graph)
    found = trained(graph, num_layers=0, class_inputs=False)
    assert found.model_.config == plain.model_.config
    assert np.array_equal(found.predict_proba(), plain.predict_proba())
    joined = dhilgt.Graph.from_edges([0], [1], num_nodes=30, features=graph.features)
    assert found.predict_proba(graph=joined).shape == (30, 2)


def test_isolated_nodes_are_predicted_from_their_features():
    whole = community_graph(masks=split_of())
    ends = whole.to_edge_index()
    ends = ends[:, (ends < 80).all(0)]
    graph = dhilgt.Graph.from_edges(
        *ends, num_nodes=90, features=whole.features, labels=whole.labels, masks=whole.masks
    )
    assert np.isfinite(trained(graph).predict_proba([85, 89])).all()


def test_the_class_of_a_training_node_does_not_reach_its_own_prediction():
    clf = trained(num_layers=0)
    node = int(np.flatnonzero(split_of()["train"])[0])
    before = clf.predict_proba()
    known = clf._pipeline._known_classes().copy()
    known[node] = (known[node] + 1) % 3
    other = Pipeline(clf.graph_, clf.settings_, cache=None, progress=False, known=known)
    after = other.probabilities(clf.model_, np.arange(90), torch.device("cpu"), 90)
    assert np.array_equal(before[node], after[node])
    assert (before != after).any()


def test_classes_of_validation_and_test_nodes_never_enter():
    graph = community_graph(masks=split_of())
    labels = graph.labels.copy()
    rest = np.flatnonzero(~split_of()["train"])
    labels[rest] = np.random.default_rng(0).permutation(labels[rest])
    # Validation nodes choose the best epoch; of one epoch there is no choice.
    first, second = (trained(one, epochs=1) for one in (graph, graph.with_nodes(labels=labels)))
    assert np.array_equal(first.predict_proba(), second.predict_proba())


@pytest.mark.parametrize("kind", KINDS)
def test_a_setting_that_is_off_changes_nothing(kind):
    clf = trained(**dict.fromkeys(KINDS, False))
    assert clf._pipeline.vocabulary is clf._pipeline.ego is None
    assert "ego" not in str(clf.model_.config.to_dict())
    assert getattr(trained(**{kind: False}).settings_, kind) is False


def test_the_table_has_at_most_the_rows_asked_for(clf):
    small = trained(table_rows=7)
    vocabulary = small._pipeline.vocabulary
    assert len(vocabulary.neighbors) == len(vocabulary.hubs) == 7
    assert small.model_.config.ego_channels == vocabulary.num_channels == 20
    assert clf._pipeline.vocabulary.num_channels > 20


def test_a_table_that_does_not_fit_is_refused_in_words(monkeypatch):
    def refuse(self, *args, **options):
        raise MemoryError("Unable to allocate 7.11 PiB")

    monkeypatch.setattr(DHILGT, "__init__", refuse)
    with pytest.raises(MemoryLimitError, match=r"learned vectors of 8 numbers.*lower.*table_rows"):
        trained()


# ---- a model without layers ----------------------------------------------------------------------


@pytest.fixture
def no_labels(monkeypatch):
    def refuse(*args, **options):
        raise AssertionError("labels are not needed")

    monkeypatch.setattr(HubLabels, "build", refuse)


@pytest.mark.usefixtures("no_labels")
def test_no_labels_are_built_where_nothing_reads_them(tmp_path):
    clf = trained(num_layers=0, hub_inputs=False, copies=3, fresh=True)
    assert isinstance(clf.tokens_, SingleRows)
    clf.save(tmp_path / "run")
    read = dhilgt.NodeClassifier.load(tmp_path / "run")
    assert np.array_equal(read.predict_proba(), clf.predict_proba())
    larger = clf.graph_with(([90], [0]), clf.graph_.features[:1])
    for is_quick in (False, True):
        assert clf.predict_proba(graph=larger, quick=is_quick).shape == (91, 3)
    assert [one.kind for one in clf.explain(3).members] == ["ego"]
    found = plan(clf.graph_, clf.settings_)
    assert found.stage("labels").seconds == found.stage("tokens").seconds == 0
    assert long_run(clf.graph_, clf.settings_) is None


def test_hubs_need_labels_but_no_tokens():
    clf = trained(num_layers=0)
    assert isinstance(clf.tokens_, SingleRows)
    assert clf.hub_labels_.num_nodes == 90


def test_rows_of_one_slot_are_those_of_a_sampler():
    graph = community_graph()
    sampler = dhilgt.TokenSampler(HubLabels.build(graph, progress=False), size=1)
    single = SingleRows(graph)
    for copy in (0, 3):
        for one, other in zip(
            single.packed_rows([5, 2], copy), sampler.packed_rows([5, 2], copy), strict=True
        ):
            assert one.dtype == other.dtype
            assert np.array_equal(one, other)
    for one, other in zip(single.rows([5, 2]), sampler.rows([5, 2]), strict=True):
        assert np.array_equal(one, other)
    with pytest.raises(dhilgt.GraphError, match="indices run from 0 to 89"):
        single.rows([90])


@pytest.mark.parametrize("resident", [False, True])
def test_a_loader_takes_rows_of_one_slot(resident):
    graph = community_graph()
    loader = TokenLoader(SingleRows(graph), graph.features, batch_size=40, resident=resident)
    batches = [batch.inputs for batch in loader]
    assert [tuple(index.shape) for _, index, _ in batches] == [(40, 1), (40, 1), (10, 1)]
    x, index, spd = batches[1]
    assert np.array_equal(x[index[:, 0]].numpy(), graph.features[40:80])
    assert spd.shape == (40, 1, 1)
    assert not spd.any()


def test_classes_in_tokens_need_a_model_that_reads_tokens():
    with pytest.raises(ConfigError, match="label_inputs"):
        Settings(num_layers=0, label_inputs=True)


# ---- another graph -------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore::dhilgt.errors.GraphWarning")
@pytest.mark.parametrize("ids", [False, True])
@pytest.mark.parametrize("is_quick", [False, True])
def test_new_nodes_see_the_old_ones_they_are_joined_to(ids, is_quick):
    graph = community_graph(ids=ids, masks=split_of())
    clf = trained(graph)
    old = ["node-000", "node-003"] if ids else [0, 3]
    new = ["zoe", "zed"] if ids else [90, 91]
    larger = clf.graph_with(([*new, new[0]], [*old, new[1]]), graph.features[:2], nodes=new)
    (pipeline,) = clf._pipelines_of(larger, is_quick)
    vocabulary, groups = pipeline.vocabulary, len(pipeline.vocabulary.groups)
    for node, expected in zip(new, old, strict=True):
        row = pipeline.ego[[int(larger.index_of(node)) * groups]]
        seen = larger.ids_of(vocabulary.neighbors[row.indices]).tolist()
        assert seen == [expected]  # not each other: the table knows neither
    assert clf.predict_proba(new, graph=larger, quick=is_quick).shape == (2, 3)


def test_a_graph_of_strangers_has_no_known_neighbours():
    clf = trained()
    strangers = clf.graph_.with_nodes(features=clf.graph_.features + 1)
    (pipeline,) = clf._pipelines_of(strangers, False)
    assert pipeline.ego.shape[1] == clf.model_.config.ego_channels
    assert not pipeline.ego.nnz
    assert np.isfinite(clf.predict_proba(graph=strangers)).all()


# ---- files ---------------------------------------------------------------------------------------


def test_a_saved_classifier_predicts_the_same(clf, tmp_path):
    clf.save(tmp_path / "run")
    read = dhilgt.NodeClassifier.load(tmp_path / "run")
    assert np.array_equal(read.predict_proba(), clf.predict_proba())


@pytest.mark.parametrize("change", [{"class_inputs": False}, {"table_rows": 5}])
def test_a_model_that_does_not_fit_its_graph_is_refused(clf, tmp_path, change):
    clf.save(tmp_path / "run")
    sealed_anew(tmp_path / "run", lambda facts: facts["settings"].update(change))
    with pytest.raises(ArtifactError, match="does not fit the neighbours, hubs and classes"):
        dhilgt.NodeClassifier.load(tmp_path / "run")


def test_columns_that_were_ranked_in_another_way_are_refused(clf, tmp_path):
    """The labels are not built at loading, so that the order of the hubs is not known then."""
    clf.save(tmp_path / "run")
    sealed_anew(tmp_path / "run", lambda facts: facts["settings"].update(order="random"))
    read = dhilgt.NodeClassifier.load(tmp_path / "run")
    with pytest.raises(ArtifactError, match="ranked in another way"):
        read.predict_proba()


def test_a_resumed_run_ends_like_a_whole_one(tmp_path):
    whole = trained(epochs=4, decay="none")
    trained(epochs=2, decay="none", run_dir=tmp_path / "run")
    (tmp_path / "run" / "bundle.json").unlink()
    resumed = trained(epochs=4, decay="none", run_dir=tmp_path / "run", resume=True)
    for name, value in whole.model_.state_dict().items():
        assert torch.equal(resumed.model_.state_dict()[name], value), name
    (tmp_path / "run" / "bundle.json").unlink()
    with pytest.raises(ConfigError, match="hub_inputs"):
        trained(epochs=6, decay="none", run_dir=tmp_path / "run", resume=True, hub_inputs=False)


def test_an_export_has_the_rows_beside_it(clf, tmp_path, monkeypatch):
    monkeypatch.setitem(WRITERS, ".onnx", lambda models, file: file.write_bytes(b"model"))
    export_classifier(clf, tmp_path / "model.onnx")
    export = read_export(tmp_path / "model.onnx")
    rows = clf._pipeline.ego
    assert export.facts["ego_rows"] == list(clf._pipeline.vocabulary.groups)
    for name, array in (("offsets", rows.indptr), ("columns", rows.indices), ("values", rows.data)):
        np.testing.assert_array_equal(export.ego[name], array)
    (tmp_path / "model.onnx.ego.npz").write_bytes(b"other")
    with pytest.raises(ArtifactError, match=r"model\.onnx\.ego\.npz is damaged or of another"):
        read_export(tmp_path / "model.onnx")


@pytest.mark.full
@pytest.mark.parametrize("num_layers", [1, 0])
def test_the_example_serves_it(tmp_path, num_layers):
    graph = community_graph(ids=True, masks=split_of())
    assert_served(trained(graph, num_layers=num_layers), tmp_path)


# ---- reasons -------------------------------------------------------------------------------------


@pytest.mark.parametrize("copies", [1, 2])
def test_an_effect_is_that_of_leaving_a_connection_out(copies):
    clf = trained(copies=copies)
    found = clf.explain(4)
    shares = clf.predict_proba([4])[0]
    assert list(found.probabilities.values()) == pytest.approx(shares.tolist(), abs=1e-5)
    vocabulary, groups = clf._pipeline.vocabulary, len(clf._pipeline.vocabulary.groups)
    tables = [
        (found.neighbors, vocabulary.neighbors, 0, "neighbors"),
        (found.hubs, vocabulary.hubs, vocabulary.first_hub, "hubs"),
    ]
    for ones, table, first, kind in tables:
        assert ones
        for one in ones:
            column = first + table.tolist().index(one.name)
            assert all(name.startswith(kind) for name in one.rows)
            assert one.label == clf.classes_[clf.graph_.labels[one.name]]
            assert one.effect == pytest.approx(_without(clf, 4, column, groups), abs=1e-5)
    for one in found.classes:
        (row,) = one.rows  # a class has a column for each number of steps
        steps = vocabulary.groups.index(row) - vocabulary.groups.index("classes at 1")
        column = vocabulary.first_class + 3 * steps + clf.classes_.tolist().index(one.name)
        assert one.effect == pytest.approx(_without(clf, 4, column, groups), abs=1e-5)
    for ones in (found.neighbors, found.hubs, found.classes):
        sizes = [abs(one.effect) for one in ones]
        assert sizes == sorted(sizes, reverse=True)


def _without(clf, node, column, groups):
    """How much the prediction falls without a column, by predicting anew."""
    rows = clf._pipeline.ego.copy()
    own = slice(*rows.indptr[[node * groups, (node + 1) * groups]])
    here = rows.indices[own] == column
    assert here.any()
    rows.data[own][here] = 0
    before = clf.predict_proba([node])[0]
    other = Pipeline(clf.graph_, clf.settings_, cache=None, progress=False, ego=rows)
    after = other.probabilities(clf.model_, np.array([node]), torch.device("cpu"), 1)[0]
    return before[before.argmax()] - after[before.argmax()]


def test_the_estimate_by_gradient_finds_the_largest_effect(monkeypatch):
    clf = trained()
    whole = clf.explain(4)
    monkeypatch.setattr("dhilgt.classifier.connections.MOST_TRIED", 5)
    few = clf.explain(4)
    assert len([*few.neighbors, *few.hubs, *few.classes]) == 5
    largest = max([*whole.neighbors, *whole.hubs, *whole.classes], key=lambda one: abs(one.effect))
    assert largest.name in [one.name for one in [*few.neighbors, *few.hubs, *few.classes]]


def test_the_table_the_values_and_the_page_name_the_connections(clf, tmp_path):
    found = clf.explain("node-004")
    first = max([*found.neighbors, *found.hubs, *found.classes], key=lambda one: abs(one.effect))
    head, line = found.table(3).split("\n\n")[-1].splitlines()[:2]
    assert head.split() == ["input", "row", "class", "effect"]
    assert line.startswith(str(first.name))
    values = json.loads(json.dumps(found.to_dict()))
    assert [one["name"] for one in values["hubs"]] == [one.name for one in found.hubs]
    found.save(tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    assert "Inputs of the node itself" in page
    assert first.rows[0] in page


def test_a_node_without_connections_is_explained_too():
    graph = dhilgt.Graph.from_edges(
        np.arange(20), (np.arange(20) + 1) % 20, num_nodes=24,
        features=np.eye(24, dtype=np.float32), labels=np.arange(24) % 2,
    )  # fmt: skip
    found = trained(graph).explain(22)
    assert found.neighbors == found.hubs == found.classes == ()
    assert "no neighbours or hubs known" in found.table()


def test_without_such_inputs_an_explanation_is_what_it_was():
    found = trained(**dict.fromkeys(KINDS, False)).explain(4)
    assert "neighbors" not in found.to_dict()
    assert "input" not in found.table()


# ---- plans and commands --------------------------------------------------------------------------


def test_the_plan_counts_vectors_and_rows():
    graph = dhilgt.generate(3000, 8, seed=1, num_features=8, num_classes=4)
    options = {"size": 4, "hidden_channels": 8, "heads": 2, "num_layers": 1, "epochs": 1}
    without, found = plan(graph, Settings(**options)), plan(graph, Settings(**options, **ALL))
    labels = HubLabels.build(graph, progress=False)
    vocabulary = EgoVocabulary.of(graph, labels, neighbors=True, hubs=True, num_classes=4)
    more = found.num_parameters - without.num_parameters - len(vocabulary.groups)
    assert vocabulary.num_channels <= more // 8 <= 1.5 * vocabulary.num_channels
    stage = found.stage("inputs")
    assert "at most 512 neighbours and 64 hubs per distance" in stage.sure
    assert "vectors with gradient and moments" in stage.sure
    assert found.ram_bytes > without.ram_bytes
    assert [one.name for one in without.stages] == ["labels", "tokens", "training", "prediction"]


@pytest.mark.parametrize("layers", [1, 0])
def test_commands_train_predict_evaluate_and_explain(tmp_path, monkeypatch, layers):
    monkeypatch.setenv("DHILGT_CACHE", str(tmp_path / "cache"))
    files = Files(tmp_path)
    inputs = ["--neighbor-inputs", "--hub-inputs", "--class-inputs", "--table-rows", 40]
    inputs += ["--num-layers", layers]
    costs = json.loads(ok(*files.train(), *inputs, "--dry-run", "--json").stdout)
    assert "inputs" in [stage["name"] for stage in costs["stages"]]
    ok(*files.train(split=files.split), *inputs)
    clf = dhilgt.NodeClassifier.load(tmp_path / "run")
    assert clf.model_.config.ego_channels == 86
    assert_commands_agree(clf, tmp_path / "run")
    shown = json.loads(ok("explain", tmp_path / "run", "n07", "--json").stdout)
    assert {"neighbors", "hubs", "classes"} <= shown.keys()
