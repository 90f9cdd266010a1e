"""Known classes as inputs: a row sees those of training nodes, never its own ego's."""

import json

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import dhilgt
from dhilgt.errors import GraphError
from dhilgt.features.known_classes import carried_over, training_classes
from dhilgt.settings.settings import Settings
from dhilgt.training.state import TrainResult
from tests.classifier.cases import community_graph, quick, sealed_anew
from tests.classifier.serving_cases import assert_served
from tests.cli.cases import Files, assert_commands_agree, ok
from tests.model.cases import batch_of, gradients, model_of

CLASSES = 3


def seeing(**changes):
    """A model that sees classes and makes much of them."""
    model = model_of(label_inputs=True, **changes)
    with torch.no_grad():
        model.label_input.weight.normal_()
    return model


def known_of(x, seed=1):
    draw = torch.Generator().manual_seed(seed)
    return torch.randint(0, CLASSES + 1, (len(x),), generator=draw, dtype=torch.int32)


def learner(**changes):
    return quick(label_inputs=True, cache=False, **changes)


# ---- the model ---------------------------------------------------------------------------------


@given(seed=st.integers(0, 10_000), other=st.integers(0, CLASSES))
def test_no_row_depends_on_the_class_of_its_ego(seed, other):
    x, index, spd = batch_of(seed=seed)  # few nodes: the ego often stands in its row twice
    model, known = seeing(), known_of(x, seed)
    with torch.no_grad():
        found = model(x, index, spd, known)
        for row, ego in enumerate(index[:, 0].tolist()):
            changed = known.clone()
            changed[ego] = other
            assert torch.equal(model(x, index, spd, changed)[row], found[row])


def test_every_other_node_of_a_row_is_seen_and_no_node_outside_of_it():
    x, index, spd = batch_of(rows=1, slots=5, nodes=8, padding=0.0)
    index[0] = torch.arange(5)
    model, known = seeing(), torch.zeros(8, dtype=torch.int64)
    with torch.no_grad():
        found = model(x, index, spd, known)
        for node in range(8):
            changed = known.clone()
            changed[node] = 2
            same = torch.equal(model(x, index, spd, changed), found)
            assert same == (node in (0, 5, 6, 7)), node


def test_a_class_adds_its_vector_to_a_node_and_nothing_to_others():
    model = seeing()
    h, index = torch.randn(3, 16), torch.tensor([[0, 1, -1, 0, 2]])
    rows, at = model.label_input(h, index, torch.tensor([1, 3, 0]))
    slots = torch.where(at[..., None] < 0, torch.zeros(()), rows[at])[0]
    assert torch.equal(slots[[0, 3]], h[[0, 0]])
    assert torch.equal(slots[1], h[1] + model.label_input.weight[2])
    assert torch.equal(slots[4], h[2])
    assert not slots[2].any()


def test_training_hides_the_given_share_and_prediction_hides_none():
    part = seeing(label_dropout=0.3).label_input
    h, index = torch.zeros(20_000, 16), torch.tensor([[0, 1]])
    known = torch.ones(len(h), dtype=torch.int32)

    def share():
        return float(part(h, index, known)[0][len(h) :].any(1).float().mean())

    assert share() == 1
    part.train()
    assert share() == pytest.approx(0.7, abs=0.02)


def test_a_node_is_hidden_in_all_rows_of_a_batch_or_in_none():
    model = seeing(label_dropout=0.5, train=True)
    index = torch.tensor([[0, 2], [1, 2]])
    for _ in range(20):
        rows, at = model.label_input(torch.zeros(3, 16), index, torch.tensor([1, 1, 1]))
        assert torch.equal(rows[at[0, 1]], rows[at[1, 1]])


def test_gradients_reach_the_vectors_of_classes_in_sight_alone():
    x, index, spd = batch_of()
    known = torch.full((len(x),), 2)
    slope = gradients(seeing(), (x, index, spd, known))["label_input.weight"]
    assert slope[1].abs().max() > 0
    assert not slope[[0, 2]].any()


def test_every_parameter_has_a_gradient_where_nothing_is_known():
    # Processes that train together wait for the gradients of all parameters.
    x, index, spd = batch_of()
    slopes = gradients(seeing(train=True), (x, index, spd, torch.zeros(len(x), dtype=torch.int64)))
    assert not slopes["label_input.weight"].any()


def test_without_the_option_the_model_is_what_it_was(tmp_path):
    model = model_of()
    assert not any("label" in name for name in model.state_dict())
    assert not any("label" in name for name in model.config.to_dict())
    torch.manual_seed(0)
    plain = dhilgt.DHILGT(5, 16, 3).state_dict()
    torch.manual_seed(0)
    both = dhilgt.DHILGT(5, 16, 3, label_inputs=True).state_dict()
    assert all(torch.equal(both[name], value) for name, value in plain.items())
    model.save_pretrained(tmp_path)
    assert "label" not in (tmp_path / "config.json").read_text()


def test_a_model_that_sees_classes_is_saved_and_read(tmp_path):
    x, index, spd = batch_of()
    model, known = seeing(label_dropout=0.2), known_of(x)
    model.save_pretrained(tmp_path)
    read = dhilgt.DHILGT.from_pretrained(tmp_path)
    assert read.config == model.config
    assert torch.equal(read(x, index, spd, known), model(x, index, spd, known))


def test_class_vectors_do_not_decay():
    assert "label_input.weight" in seeing().no_weight_decay()


@pytest.mark.parametrize(
    ("settings", "known", "message"),
    [
        ({}, torch.zeros(9, dtype=torch.int32), "label_inputs=False; leave it out"),
        ({"label_inputs": True}, None, "pass known"),
        ({"label_inputs": True}, torch.zeros(4, dtype=torch.int32), r"shape \(4,\).*needs \(9,\)"),
        ({"label_inputs": True}, torch.zeros(9), "known holds torch.float32"),
    ],
)
def test_what_does_not_fit_is_refused(settings, known, message):
    with pytest.raises(ValueError, match=message):
        model_of(**settings)(*batch_of(), known)


@pytest.mark.parametrize("bad", [1, "yes", None])
def test_the_switch_is_true_or_false(bad):
    with pytest.raises(dhilgt.ConfigError, match=r"label_inputs = .*; pass True or False"):
        Settings(label_inputs=bad)


# ---- batches -----------------------------------------------------------------------------------


@pytest.mark.parametrize("resident", [False, "features", True])
@pytest.mark.parametrize("batch_size", [20, 200])  # the larger one is made once and kept
def test_batches_carry_the_classes_of_their_distinct_nodes(resident, batch_size):
    graph = dhilgt.generate(60, 5, seed=2, num_features=1)
    features = np.arange(60, dtype=np.float32)[:, None]  # tells which node a row of x is
    known = np.where(np.arange(60) % 2, np.arange(60) % 5, -1)
    sampler = dhilgt.TokenSampler(dhilgt.HubLabels.build(graph, progress=False), size=6)
    loader = dhilgt.TokenLoader(
        sampler, features, batch_size=batch_size, shuffle=True, resident=resident, known=known
    )
    for batch in loader:
        x, *_, codes = batch.to("cpu").inputs
        assert codes.dtype == torch.int32
        assert codes.tolist() == (known[x[:, 0].int().numpy()] + 1).tolist()
        assert len(batch.tensors()) == 5


@pytest.mark.parametrize(
    ("known", "message"), [(["a", "b"], "known holds names"), ([1, 2, 3], "has 3 entries")]
)
def test_a_loader_refuses_other_classes(known, message):
    graph = dhilgt.Graph.from_edges([0], [1], features=np.ones((2, 1), np.float32))
    sampler = dhilgt.TokenSampler(dhilgt.HubLabels.build(graph, progress=False), size=2)
    with pytest.raises(GraphError, match=message):
        dhilgt.TokenLoader(sampler, graph.features, known=known)


# ---- from a graph to predictions ---------------------------------------------------------------


def split_of(num_nodes=90):
    part = np.arange(num_nodes) % 9
    return {"train": part < 5, "val": (part == 5) | (part == 6), "test": part > 6}


def trained(graph=None, run_dir=None, resume=False, **changes):
    graph = community_graph(masks=split_of()) if graph is None else graph
    return learner(**changes).fit(graph, run_dir=run_dir, resume=resume)


def same_weights(first, second):
    one, other = first.model_.state_dict(), second.model_.state_dict()
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


def test_training_nodes_alone_are_seen():
    clf = trained()
    train = split_of()["train"]
    known = clf._pipeline.known
    assert (known[train] == clf.graph_.labels[train]).all()
    assert (known[~train] == -1).all()


def test_classes_of_validation_and_test_nodes_never_enter():
    graph = community_graph(masks=split_of())
    labels = graph.labels.copy()
    rest = np.flatnonzero(~split_of()["train"])
    labels[rest] = np.random.default_rng(0).permutation(labels[rest])
    other = graph.with_nodes(labels=labels)
    # Validation nodes choose the best epoch; of one epoch there is no choice.
    first, second = (trained(one, epochs=1) for one in (graph, other))
    assert same_weights(first, second)
    assert np.array_equal(first.predict_proba(), second.predict_proba())
    losses = [[line["train_loss"] for line in clf.result_.history] for clf in (first, second)]
    assert losses[0] == losses[1]


def test_a_prediction_follows_the_classes_of_neighbours_but_not_the_nodes_own():
    clf = trained()
    with torch.no_grad():
        clf.model_.label_input.weight.normal_()
    node = int(np.flatnonzero(split_of()["train"])[0])
    before = clf.predict_proba()
    clf._pipeline.known[node] = (clf._pipeline.known[node] + 1) % 3
    after = clf.predict_proba()
    assert np.array_equal(before[node], after[node])
    rows, _ = clf.tokens_.rows(np.arange(90))
    holders = (rows == node).any(1) & (np.arange(90) != node)
    assert holders.any()
    changed = (before != after).any(1)
    assert changed[holders].all()
    assert not changed[~holders].any()


def test_a_saved_classifier_predicts_the_same(tmp_path):
    clf = trained()
    clf.save(tmp_path / "run")
    read = dhilgt.NodeClassifier.load(tmp_path / "run")
    assert read.settings_.label_inputs
    assert np.array_equal(read.predict_proba(), clf.predict_proba())


def test_a_folder_whose_parts_disagree_is_refused(tmp_path):
    trained().save(tmp_path / "run")
    sealed_anew(tmp_path / "run", lambda facts: facts["settings"].update(label_inputs=False))
    with pytest.raises(dhilgt.ArtifactError, match="do not agree on label_inputs"):
        dhilgt.NodeClassifier.load(tmp_path / "run")


def test_a_resumed_run_ends_like_a_whole_one(tmp_path):
    whole = trained(epochs=6, decay="none")
    trained(epochs=3, decay="none", run_dir=tmp_path / "run")
    (tmp_path / "run" / "bundle.json").unlink()
    resumed = trained(epochs=6, decay="none", run_dir=tmp_path / "run", resume=True)
    assert same_weights(whole, resumed)
    assert isinstance(resumed.result_, TrainResult)
    assert resumed.result_.epochs == 6


def test_an_explanation_is_of_the_prediction_that_was_made():
    clf = trained(copies=2)
    node = 7
    found = clf.explain(node)
    shares = clf.predict_proba([node])[0]
    assert list(found.probabilities.values()) == pytest.approx(shares.tolist(), abs=1e-5)


def test_a_class_that_can_be_told_by_neighbours_alone_is_learned_from_their_classes():
    graph = community_graph(150, masks=split_of(150))
    blind = graph.with_nodes(features=np.ones((150, 1), np.float32))
    changes = {"epochs": 60, "hidden_channels": 16, "copies": 2, "size": 12}
    scores = {
        name: quick(cache=False, label_inputs=name, **changes)
        .fit(blind)
        .scores_["test"]["accuracy"]
        for name in (False, True)
    }
    assert scores[False] < 0.6 < 0.8 < scores[True]


# ---- another graph -----------------------------------------------------------------------------


def grown(graph, ids):
    """The graph with one more node, joined to three."""
    count = graph.num_nodes
    ends = graph.to_edge_index()
    src = np.append(ends[0], [0, 3, 6])
    dst = np.append(ends[1], [count] * 3)
    x = np.concatenate([graph.features, graph.features[:1]])
    if not ids:
        return dhilgt.Graph.from_edges(src, dst, num_nodes=count + 1, features=x)
    names = np.array([f"node-{at:03d}" for at in range(count + 1)])
    return dhilgt.Graph.from_edges(names[src], names[dst], nodes=names, features=x)


@pytest.mark.filterwarnings("ignore::dhilgt.errors.GraphWarning")
@pytest.mark.parametrize("ids", [False, True])
@pytest.mark.parametrize("is_quick", [False, True])
def test_old_nodes_of_a_grown_graph_keep_their_classes_and_new_ones_have_none(ids, is_quick):
    graph = community_graph(ids=ids, masks=split_of())
    clf = trained(graph)
    larger = grown(graph, ids)
    pipeline = clf._pipelines_of(larger, is_quick)[0]
    assert pipeline.known[:-1].tolist() == clf._pipeline.known.tolist()
    assert pipeline.known[-1] == -1
    assert clf.predict_proba(graph=larger, quick=is_quick).shape == (91, 3)


def test_an_unrelated_graph_with_numbers_for_ids_is_not_taken_for_a_grown_one():
    graph = community_graph(masks=split_of())
    clf = trained(graph)
    other = graph.with_nodes(features=graph.features + 1)
    assert (carried_over(clf.graph_, other) == -1).all()
    named = community_graph(ids=True)
    assert (carried_over(clf.graph_, named) == -1).all()


def test_sparse_features_are_compared_row_by_row():
    sparse = pytest.importorskip("scipy.sparse")
    graph = community_graph(masks=split_of())
    graph = graph.with_nodes(labels=np.arange(90) % 3, features=sparse.csr_array(graph.features))
    changed = graph.features.toarray()
    changed[0] += 1
    other = graph.with_nodes(features=sparse.csr_array(changed))
    found, wanted = carried_over(graph, other), training_classes(graph)
    assert found[0] == -1 != wanted[0]
    assert found[1:].tolist() == wanted[1:].tolist()


def test_a_graph_without_training_nodes_is_refused():
    with pytest.raises(GraphError, match="lacks a mask of training nodes"):
        training_classes(community_graph())


# ---- other roads -------------------------------------------------------------------------------


def test_rows_of_features_without_edges_need_no_classes():
    rng = np.random.default_rng(0)
    rows, y = rng.normal(size=(40, 3)), np.arange(40) % 2
    clf = learner().fit(rows, y)
    plain = clf.predict_proba(rows)
    assert np.allclose(plain, clf.predict_proba(), atol=1e-6)


@pytest.mark.parametrize("ending", [".pt2", pytest.param(".onnx", marks=pytest.mark.full)])
def test_an_exported_model_takes_the_classes_as_a_fourth_input(tmp_path, ending):
    if ending == ".onnx":
        pytest.importorskip("onnxscript")
        runtime = pytest.importorskip("onnxruntime")
    from dhilgt.classifier.serving import export_classifier
    from dhilgt.model.export import input_names

    clf = trained()
    with torch.no_grad():
        clf.model_.label_input.weight.normal_()
    file = tmp_path / f"model{ending}"
    export_classifier(clf, file)
    known = np.load(tmp_path / f"model{ending}.known.npy")
    assert known.tolist() == (clf._pipeline.known + 1).tolist()
    loader = clf._pipeline.loader(np.arange(90), device=torch.device("cpu"), batch_size=90)
    batch = next(iter(loader))
    x, index, spd, codes = batch.inputs
    with torch.no_grad():
        wanted = clf.model_(*batch.inputs)
    assert input_names(clf.model_) == ("x", "index", "spd", "known")
    if ending == ".pt2":
        found = torch.export.load(file).module()(x, index, spd, codes.long())
    else:
        session = runtime.InferenceSession(file)
        feed = zip(input_names(clf.model_), (x, index, spd, codes.long()), strict=True)
        found = torch.from_numpy(session.run(None, {n: part.numpy() for n, part in feed})[0])
    torch.testing.assert_close(found, wanted, atol=1e-4, rtol=1e-4)


@pytest.mark.full
def test_the_example_serves_a_model_that_sees_classes_and_has_another_order(tmp_path):
    clf = trained(community_graph(ids=True, masks=split_of()), order="random", seed=3)
    with torch.no_grad():
        clf.model_.label_input.weight.normal_()
    assert_served(clf, tmp_path)


def test_commands_train_predict_evaluate_and_explain(tmp_path, monkeypatch):
    monkeypatch.setenv("DHILGT_CACHE", str(tmp_path / "cache"))
    files = Files(tmp_path)
    flags = ["--label-inputs", "--label-dropout", "0.3", "--order", "closeness"]
    plain = json.loads(ok(*files.train(), "--dry-run", "--json").stdout)
    more = json.loads(ok(*files.train(), *flags, "--dry-run", "--json").stdout)
    wider = more["num_parameters"] - plain["num_parameters"]
    ok(*files.train(split=files.split), *flags)
    clf = dhilgt.NodeClassifier.load(tmp_path / "run")
    assert (clf.settings_.label_inputs, clf.settings_.label_dropout) == (True, 0.3)
    assert wider == clf.model_.label_input.weight.numel() == 3 * clf.settings_.hidden_channels
    assert_commands_agree(clf, tmp_path / "run")
