"""NodeClassifier: from a graph to predictions, and everything that can be wrong on the way."""

import inspect
import os
import pickle
import re
import signal
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse
import torch

import dhilgt
from dhilgt import GraphError, NodeClassifier, TrainingInterrupted, TrainingWarning
from dhilgt.classifier.parameters import UNSET, NotFittedError
from dhilgt.loader import loader
from dhilgt.training.batch_size import CPU_BATCH, auto_batch_size
from tests.classifier.cases import NAMES, QUICK, community_graph, quick

torch.set_num_threads(1)
ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def graph():
    return community_graph()


@pytest.fixture(scope="module")
def fitted(graph):
    return quick(epochs=25).fit(graph)


# ---- parameters --------------------------------------------------------------------------------


def test_the_parameters_are_the_settings_which_the_recipe_decides():
    wanted = {one.name: UNSET for one in fields(dhilgt.Settings)}
    wanted |= {"recipe": "auto", "budget": None, "cache": True, "progress": "auto"}
    found = inspect.signature(NodeClassifier).parameters
    assert {name: one.default for name, one in found.items()} == wanted
    assert {one.kind for one in found.values()} == {inspect.Parameter.KEYWORD_ONLY}
    types = {one.name: one.type for one in fields(dhilgt.Settings)}
    assert {name: found[name].annotation for name in types} == types


def test_parameters_are_kept_as_given_and_checked_at_fit(graph):
    clf = NodeClassifier(heads="many")
    assert clf.get_params()["heads"] == "many"
    with pytest.raises(dhilgt.ConfigError, match="heads = 'many'"):
        clf.fit(graph)
    assert repr(NodeClassifier(size=8, patience=None)) == "NodeClassifier(size=8, patience=None)"


def test_a_recipe_or_budget_that_is_none_is_refused_before_any_work(graph):
    with pytest.raises(dhilgt.ConfigError, match="recipe = 'best'"):
        quick(recipe="best").fit(graph)
    with pytest.raises(dhilgt.ConfigError, match="budget"):
        quick(recipe="auto", budget=0).fit(graph)
    with pytest.raises(dhilgt.ConfigError, match="max_seconds"):
        quick(budget=10).fit(graph)


def test_settings_that_are_not_given_have_their_defaults_in_the_papers_recipe(graph):
    clf = NodeClassifier(recipe="paper", lr=0.5)
    assert clf.size is UNSET
    assert clf._settings() == dhilgt.Settings(lr=0.5, order="degree-id")
    assert NodeClassifier(recipe="paper", order="degree")._settings() == dhilgt.Settings()
    assert repr(clf) == "NodeClassifier(lr=0.5, recipe='paper')"
    assert pickle.loads(pickle.dumps(clf)).get_params() == clf.get_params()


def test_set_params_names_the_nearest():
    clf = NodeClassifier().set_params(epochs=3)
    assert clf.epochs == 3
    with pytest.raises(dhilgt.ConfigError, match="did you mean 'epochs'"):
        clf.set_params(epoch=3)


def test_a_metric_that_is_none_is_refused_before_any_work(graph):
    with pytest.raises(ValueError, match="did you mean 'accuracy'"):
        quick(metric="acuracy").fit(graph)


# ---- learning ----------------------------------------------------------------------------------


def test_it_learns(fitted, graph):
    assert fitted.scores_["val"]["accuracy"] > 0.7
    assert (fitted.predict() == NAMES[graph.labels]).mean() > 0.7


def test_attributes_after_fit(fitted, graph):
    assert fitted.classes_.tolist() == NAMES.tolist()
    assert fitted.n_features_in_ == 4
    assert fitted.graph_.fingerprint == graph.fingerprint
    assert fitted.hub_labels_.distance(0, 3) >= 1
    assert fitted.tokens_.spec.size == 6
    assert not fitted.model_.training
    assert fitted.result_.epochs == 25
    assert {name: len(nodes) for name, nodes in fitted.split_.items()} == {"train": 72, "val": 18}
    assert set(fitted.scores_) == {"train", "val"}
    assert set(fitted.scores_["val"]) == {"loss", "accuracy"}
    assert fitted.settings_ == fitted._settings()
    assert {"labels", "tokens", "epoch", "evaluation"} <= set(fitted.stages_)
    fitted.predict([0])
    assert fitted.stages_["inference"]["seconds"] > 0


def test_the_held_out_nodes_are_of_all_classes_and_apart(fitted, graph):
    train, val = fitted.split_["train"], fitted.split_["val"]
    assert not set(train) & set(val)
    assert np.bincount(graph.labels[val]).tolist() == [6, 6, 6]


def test_the_same_seed_gives_the_same_probabilities_and_another_others(graph):
    first, again, other = (quick(seed=seed).fit(graph).predict_proba() for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)


def test_fit_leaves_the_global_first_weights_to_the_seed_alone(graph):
    torch.manual_seed(1)
    first = quick().fit(graph).predict_proba()
    torch.manual_seed(2)
    np.testing.assert_array_equal(first, quick().fit(graph).predict_proba())


def test_the_same_ids_in_another_order_give_the_same_predictions():
    """A file lists nodes, edges, features and labels in any order."""
    graph = community_graph(60, ids=True)
    mixed = np.random.default_rng(5).permutation(60)
    src, dst = graph.to_edge_index()
    edges = np.random.default_rng(6).permutation(len(src))
    shuffled = dhilgt.Graph.from_edges(
        graph.nodes[dst[edges]],
        graph.nodes[src[edges]],
        nodes=graph.nodes[mixed],
        features=graph.features[mixed],
        labels=NAMES[graph.labels[mixed]],
    )
    ids = graph.nodes[::7]
    np.testing.assert_array_equal(
        quick().fit(graph).predict_proba(ids), quick().fit(shuffled).predict_proba(ids)
    )


@pytest.mark.parametrize(
    "changes",
    [{"fresh": True}, {"copies": 3}, {"fresh": True, "copies": 2}, {"cache": False}, {"hops": 2}],
    ids=str,
)
def test_ways_to_make_tokens_and_features(graph, changes):
    clf = quick(**changes).fit(graph)
    kind = dhilgt.TokenSampler if changes.get("fresh") else dhilgt.Tokens
    assert isinstance(clf.tokens_, kind)
    shares = clf.predict_proba()
    np.testing.assert_allclose(shares.sum(axis=1), 1, atol=1e-5)
    np.testing.assert_array_equal(shares, clf.predict_proba())


def test_without_the_cache_the_result_is_the_same(graph, fitted):
    np.testing.assert_array_equal(
        quick(epochs=25, cache=False).fit(graph).predict_proba(), fitted.predict_proba()
    )


def test_copies_are_averaged(graph):
    clf = quick(copies=2).fit(graph)
    device = torch.device("cpu")
    both = clf._pipeline.loader(np.arange(90), device=device, batch_size=90)
    each = []
    for copy in range(2):
        batch = next(iter(both.with_copy(copy)))
        with torch.no_grad():
            each.append(clf.model_(*batch.inputs).softmax(-1).numpy())
    np.testing.assert_allclose(clf.predict_proba(), np.mean(each, axis=0), atol=1e-6)


def test_sparse_features_stay_sparse(graph):
    sparse = community_graph(features=scipy.sparse.csr_matrix(graph.features))
    clf = quick().fit(sparse)
    np.testing.assert_allclose(clf.predict_proba(), quick().fit(graph).predict_proba(), atol=1e-4)


def test_pyg_data_is_a_graph(graph):
    data_module = pytest.importorskip("torch_geometric.data")
    data = data_module.Data(
        x=torch.tensor(graph.features),
        edge_index=torch.tensor(graph.to_edge_index()),
        y=torch.tensor(graph.labels),
    )
    clf = quick().fit(data)
    assert clf.classes_.tolist() == [0, 1, 2]
    np.testing.assert_array_equal(clf.predict_proba(), quick().fit(graph).predict_proba())


@pytest.mark.full
def test_torchrun_trains_one_classifier(tmp_path):
    code = (
        "import sys\nfrom tests.classifier.cases import community_graph, quick\n"
        "clf = quick(batch_size=16).fit(community_graph(), run_dir=sys.argv[1])\n"
        "shares = clf.predict_proba()\n"
        "assert shares.shape == (90, 3), shares.shape\n"
        "print(f'sum {float(abs(shares).sum())} {len(clf.classes_)}')\n"  # in one write
    )
    script = tmp_path / "fit.py"
    script.write_text(code)
    done = subprocess.run(
        [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2",
         str(script), str(tmp_path / "run")],
        cwd=ROOT, capture_output=True, text=True, timeout=120, check=False,
        env=os.environ | {"OMP_NUM_THREADS": "1", "DHILGT_CACHE": str(tmp_path / "cache"),
                          "PYTHONPATH": f"{ROOT}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    said = re.findall(r"sum (\d+\.\d+) 3", done.stdout)  # two write at once: lines may run together
    assert len(said) == 2
    assert said[0] == said[1]
    assert NodeClassifier.load(tmp_path / "run").predict().shape == (90,)


# ---- classes -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "classes"),
    [
        (lambda group: NAMES[group], ["ash", "birch", "cedar"]),
        (lambda group: np.array([3, 17, 400])[group], [3, 17, 400]),
        (lambda group: group.astype(float) * 2, [0.0, 2.0, 4.0]),
        (lambda group: group > 0, [False, True]),
        (lambda group: np.eye(3)[group], [0, 1, 2]),
        (lambda group: NAMES[group].tolist(), ["ash", "birch", "cedar"]),
    ],
)
def test_classes_come_back_as_they_were_given(graph, make, classes):
    clf = quick().fit(graph, make(np.arange(90) % 3))
    assert clf.classes_.tolist() == classes
    assert set(clf.predict().tolist()) <= set(classes)
    assert type(clf.predict().tolist()[0]) is type(classes[0])


def test_labels_of_the_graph_may_have_gaps():
    clf = quick().fit(community_graph(labels=np.array([5, 8, 90])[np.arange(90) % 3]))
    assert clf.classes_.tolist() == [5, 8, 90]
    assert clf.model_.config.out_channels == 3


def test_y_may_name_some_nodes_only():
    graph = community_graph(ids=True, labels=None)
    known = {f"node-{at:03d}": "even" if at % 2 == 0 else "odd" for at in range(40)}
    clf = quick().fit(graph, known)
    assert clf.classes_.tolist() == ["even", "odd"]
    assert sum(len(nodes) for nodes in clf.split_.values()) == 40
    assert clf.predict_proba().shape == (90, 2)


@pytest.mark.parametrize("missing", [-1, np.nan, None])
def test_unlabelled_nodes_are_predicted_and_not_learned_from(graph, missing):
    y = (np.arange(90) % 3).astype(object)
    y[:30] = missing
    clf = quick().fit(graph, y)
    assert min(np.concatenate(list(clf.split_.values()))) == 30
    assert clf.classes_.tolist() == [0, 1, 2]
    assert len(clf.predict()) == 90


def test_a_class_that_cannot_be_learned_is_told(graph):
    train = np.flatnonzero(graph.labels != 2)
    with pytest.warns(TrainingWarning, match="no training node is of class cedar"):
        clf = quick().fit(graph, train=train[:40], val=train[40:])
    assert clf.predict_proba().shape == (90, 3)


def test_a_single_class_is_predicted_with_a_warning(graph):
    with pytest.warns(TrainingWarning, match="all training nodes are of class ash"):
        clf = quick().fit(graph, ["ash"] * 90)
    assert set(clf.predict()) == {"ash"}


def test_auroc_of_a_single_class_is_undefined_not_zero(graph):
    with pytest.warns(TrainingWarning):
        clf = quick(metric="roc_auc").fit(graph, ["ash"] * 90)
    assert np.isnan(clf.scores_["val"]["roc_auc"])
    assert np.isnan(clf.score())


# ---- the split ---------------------------------------------------------------------------------


def test_masks_of_the_graph_are_the_split():
    masks = {"train": range(40), "val": range(40, 60), "test": range(60, 90)}
    clf = quick().fit(community_graph(masks={name: list(part) for name, part in masks.items()}))
    assert {name: nodes.tolist() for name, nodes in clf.split_.items()} == {
        name: list(part) for name, part in masks.items()
    }
    assert clf.score() == pytest.approx(clf.scores_["test"]["accuracy"])


def test_a_graph_with_training_and_test_masks_validates_on_training_nodes():
    clf = quick().fit(community_graph(masks={"train": list(range(40)), "test": [60, 61, 62]}))
    assert len(clf.split_["val"]) == 8
    assert set(clf.split_["val"]) | set(clf.split_["train"]) == set(range(40))
    assert clf.split_["test"].tolist() == [60, 61, 62]


def test_parts_may_be_named_by_mask_by_index_or_by_id():
    graph = community_graph(ids=True)
    mask = np.arange(90) < 40
    wanted = list(range(40))
    for train in (mask, wanted, graph.nodes[:40], graph.nodes[:40][::-1].tolist()):
        clf = quick(epochs=1).fit(graph, train=train, val=~mask)
        assert clf.split_["train"].tolist() == wanted
        assert clf.split_["val"].tolist() == list(range(40, 90))


def test_no_validation_nodes_turn_early_stopping_off_with_a_warning(graph):
    with pytest.warns(TrainingWarning, match="no validation nodes; early stopping is off"):
        clf = quick().fit(graph, val=[])
    assert set(clf.split_) == {"train"}
    assert clf.result_.best_epoch == 4


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"train": []}, "no training nodes"),
        ({"train": [0, 1, 2], "val": [2, 3]}, "train and val share 1 nodes, the first is 2"),
        ({"train": [0, 1, 1]}, "lists a node twice"),
        ({"train": [0, 900]}, "900 is outside 0 to 89"),
        ({"train": np.arange(90) % 2}, "all 0 or 1"),
        ({"train": np.ones(7, bool)}, "has 7 entries"),
        ({"train": [0.5]}, "pass booleans or indices"),
    ],
)
def test_a_split_that_cannot_be_meant_is_refused(graph, arguments, message):
    with pytest.raises(GraphError, match=message):
        quick().fit(graph, **arguments)


def test_training_on_test_nodes_is_refused():
    graph = community_graph(masks={"train": [0, 1, 2], "test": [3, 4]})
    with pytest.raises(GraphError, match="train and test share 1 nodes"):
        quick().fit(graph, train=[0, 1, 2, 3])


# ---- what is missing or wrong ------------------------------------------------------------------


def test_data_that_cannot_be_learned_from_is_refused_at_once(graph):
    with pytest.raises(GraphError, match="no features"):
        quick().fit(community_graph(features=None))
    with pytest.raises(GraphError, match="no labels; pass y="):
        quick().fit(community_graph(labels=None))
    with pytest.raises(GraphError, match="no training nodes"):
        quick().fit(graph, np.full(90, -1))
    with pytest.raises(GraphError, match=re.escape("y has shape (3,) for 90 nodes")):
        quick().fit(graph, [0, 1, 2])
    with pytest.raises(GraphError, match=r"y\[1\] = 0.5 is not a class"):
        quick().fit(graph, np.linspace(0, 44.5, 90))
    broken = graph.features.copy()
    broken[4, 1] = np.nan
    with pytest.raises(GraphError, match=re.escape("features[4, 1] = nan")):
        community_graph(features=broken)
    with pytest.raises(GraphError, match="NaN"):
        quick().fit(broken, np.arange(90) % 3)


def test_a_labelled_part_with_an_unlabelled_node_is_refused(graph):
    y = np.arange(90) % 3
    y[5] = -1
    with pytest.raises(GraphError, match="train has node 5, which has no label"):
        quick().fit(graph, y, train=[4, 5, 6])


def test_nothing_is_predicted_before_fit():
    for ask in (
        lambda clf: clf.predict(),
        lambda clf: clf.score(),
        lambda clf: clf.save("nowhere"),
        lambda clf: clf.hub_labels_,
        lambda clf: clf.stages_,
    ):
        with pytest.raises(NotFittedError, match="call fit"):
            ask(NodeClassifier())
    assert not hasattr(NodeClassifier(), "tokens_")


def test_a_device_that_is_not_there_is_refused_with_those_that_are(graph):
    with pytest.raises(dhilgt.ConfigError, match="cpu"):
        quick(device="cuda:77").fit(graph)


# ---- predicting --------------------------------------------------------------------------------


def test_nodes_in_any_order_and_more_than_once(fitted):
    everyone = fitted.predict_proba()
    asked = [7, 3, 3, 89, 0]
    np.testing.assert_allclose(fitted.predict_proba(asked), everyone[asked], atol=1e-6)
    np.testing.assert_array_equal(fitted.predict(asked), fitted.predict()[asked])
    mask = np.arange(90) < 5
    np.testing.assert_array_equal(fitted.predict(mask), fitted.predict()[:5])
    assert fitted.predict(4).shape == (1,)
    assert fitted.predict([]).shape == (0,)
    assert fitted.predict_proba([]).shape == (0, 3)


def test_nodes_are_asked_for_by_the_users_ids():
    clf = quick().fit(community_graph(ids=True))
    np.testing.assert_array_equal(clf.predict(["node-007"]), clf.predict()[[7]])
    with pytest.raises(GraphError, match="node-07"):
        clf.predict(["node-07x"])
    np.testing.assert_array_equal(clf.predict(community_graph(ids=True)), clf.predict())


def test_score_is_the_metric_on_the_nodes_asked_for(fitted, graph):
    assert fitted.score() == pytest.approx(fitted.scores_["val"]["accuracy"])
    right = fitted.predict([0, 1, 2, 3]) == NAMES[graph.labels[:4]]
    assert fitted.score([0, 1, 2, 3]) == pytest.approx(right.mean())
    assert fitted.score([0, 1], fitted.predict([0, 1])) == 1.0
    with pytest.raises(GraphError, match="is not among the 3 classes"):
        fitted.score([0], ["oak"])


def test_a_grown_graph_is_predicted_exactly(fitted, graph):
    np.testing.assert_array_equal(fitted.predict_proba(graph=graph), fitted.predict_proba())
    src, dst = graph.to_edge_index()
    grown = dhilgt.Graph.from_edges(
        [*src, 90], [*dst, 0], num_nodes=91, features=np.vstack([graph.features, np.ones((1, 4))])
    )
    shares = fitted.predict_proba([90, 0], graph=grown)
    labels = dhilgt.HubLabels.build(grown, order="degree-id", progress=False)
    tokens = dhilgt.Tokens.build(labels, progress=False, **fitted.settings_.token_options())
    batch = next(iter(dhilgt.TokenLoader(tokens, grown.features, nodes=[90, 0])))
    with torch.no_grad():
        expected = fitted.model_(*batch.inputs).softmax(-1).numpy()
    np.testing.assert_allclose(shares, expected, atol=1e-6)


def test_other_features_are_refused_with_both_numbers(fitted):
    wide = community_graph(features=np.ones((90, 7), np.float32))
    with pytest.raises(GraphError, match="graph has 7 features, but NodeClassifier is expecting 4"):
        fitted.predict(graph=wide)
    with pytest.raises(GraphError, match="pass ids of nodes"):
        fitted.predict(np.ones((2, 4)))


# ---- cache, folders, interruptions -------------------------------------------------------------


def test_a_second_fit_finds_labels_and_tokens(graph, monkeypatch, tmp_path):
    monkeypatch.setenv("DHILGT_CACHE", str(tmp_path))
    first = quick().fit(graph).predict_proba()
    refuse = classmethod(lambda *_, **__: pytest.fail("made again"))
    monkeypatch.setattr(dhilgt.HubLabels, "build", refuse)
    monkeypatch.setattr(dhilgt.Tokens, "build", refuse)
    np.testing.assert_array_equal(quick().fit(graph).predict_proba(), first)


def test_a_cache_that_cannot_be_written_is_no_reason_not_to_train(graph, monkeypatch, tmp_path):
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("DHILGT_CACHE", str(tmp_path / "file"))
    with pytest.warns(dhilgt.GraphWarning, match="the cache is not used"):
        clf = quick().fit(graph)
    assert len(clf.predict()) == 90


def interrupting(monkeypatch, at):
    """Has the loader send SIGINT when training asks for batch number `at`."""
    asked = {"left": at}
    original = loader.TokenLoader.iterate

    def iterate(self, start_batch=0):
        for batch in original(self, start_batch):
            if self.shuffle:
                asked["left"] -= 1
                if asked["left"] == 0:
                    os.kill(os.getpid(), signal.SIGINT)
            yield batch

    monkeypatch.setattr(loader.TokenLoader, "iterate", iterate)


@pytest.mark.parametrize("batch_size", [32, "auto"])
def test_a_stopped_run_goes_on_as_if_it_had_not_been(graph, monkeypatch, tmp_path, batch_size):
    clf = quick(batch_size=batch_size)
    whole = clf.fit(graph).predict_proba()
    with monkeypatch.context() as patch:
        interrupting(patch, at=2)
        with pytest.raises(TrainingInterrupted) as caught:
            quick(batch_size=batch_size).fit(graph, run_dir=tmp_path / "run")
    assert f"fit(graph, run_dir={str(tmp_path / 'run')!r}, resume=True)" in str(caught.value)
    with pytest.raises(dhilgt.ArtifactError, match=r"no bundle.json"):
        NodeClassifier.load(tmp_path / "run")
    resumed = quick(batch_size=batch_size).fit(graph, run_dir=tmp_path / "run", resume=True)
    np.testing.assert_array_equal(resumed.predict_proba(), whole)
    assert resumed.batch_size_ == clf.batch_size_


def test_a_run_is_not_resumed_on_another_graph(graph, tmp_path):
    quick().fit(graph, run_dir=tmp_path / "run")
    src, dst = graph.to_edge_index()
    other = dhilgt.Graph.from_edges(
        [*src, 0], [*dst, 89], num_nodes=90, features=graph.features, labels=graph.labels
    )
    with pytest.raises(dhilgt.ConfigError, match="other edges"):
        quick().fit(other, run_dir=tmp_path / "run", resume=True)


def test_a_folder_in_use_is_refused_before_the_work(graph, monkeypatch, tmp_path):
    (tmp_path / "thesis.txt").write_text("mine")
    monkeypatch.setattr(
        dhilgt.HubLabels, "build", classmethod(lambda *_, **__: pytest.fail("too late"))
    )
    with pytest.raises(dhilgt.ArtifactError, match=r"thesis.txt"):
        quick(cache=False).fit(graph, run_dir=tmp_path)


# ---- the size of a batch -----------------------------------------------------------------------


def test_auto_is_a_fixed_size_on_the_cpu(graph):
    assert quick(batch_size="auto").fit(graph).batch_size_ == 72  # all training nodes
    assert CPU_BATCH == 1024


def test_auto_finds_what_fits_a_device_by_whole_training_steps(fitted, graph):
    """On torch's device without storage, where a model that is told to runs out of memory."""
    device = torch.device("meta")
    model = dhilgt.DHILGT(4, 8, 3, num_layers=1, heads=2).to(device).eval()
    sizes = []

    def refuse(_module, inputs):
        sizes.append(len(inputs[1]))
        assert _module.training
        if sizes[-1] > 40:
            raise MemoryError

    model.register_forward_pre_hook(refuse)
    batches = dhilgt.TokenLoader(
        fitted.tokens_, graph.features, graph.labels, batch_size=8, prefetch=0
    )
    found = auto_batch_size(model, batches, dhilgt.TrainConfig(), device)
    assert 30 <= found <= 40
    assert max(sizes) > 40
    assert not model.training
    assert all(parameter.grad is None for parameter in model.parameters())


# ---- what is shown -----------------------------------------------------------------------------


def test_no_gpu_is_a_line_beside_the_bars_and_not_a_warning(graph, monkeypatch, recwarn):
    said = []
    monkeypatch.setattr(
        "dhilgt.classifier.classifier.progress_note", lambda text, **_: said.append(text)
    )
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    quick().fit(graph)
    assert said == ["split: 72 train, 18 val (val held out of train)",
                    "device: cpu, as no GPU was found"]  # fmt: skip
    assert not [one for one in recwarn if "GPU" in str(one.message)]


def test_nothing_is_printed_without_a_terminal(capfd, graph):
    quick(progress="auto").fit(graph).predict()
    assert capfd.readouterr() == ("", "")


def test_settings_of_the_quick_cases_are_settings():
    assert set(QUICK) - {"progress", "recipe"} <= {one.name for one in fields(dhilgt.Settings)}
