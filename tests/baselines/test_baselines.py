"""What holds for every registered baseline."""

import numpy as np
import pytest
import torch

import dhilgt
from dhilgt import baselines
from dhilgt.errors import ArtifactError, ConfigError, GraphError, TrainingError
from tests.baselines.cases import (
    Killed,
    KilledAt,
    create,
    has_setting,
    lonely_graph,
    same,
    small_graph,
    split,
    trainer,
    weights,
)

every_system = pytest.mark.parametrize("name", baselines.names())
in_batches = [name for name in baselines.names() if has_setting(name, "batch_size")]


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@every_system
def test_learns_twenty_nodes_by_heart(name):
    graph = small_graph()
    model = create(name, graph, learns_by_heart=True)
    nodes = np.arange(20)
    worker = trainer(model, epochs=150, eval_every=10)
    worker.fit(model.train_batches(nodes), model.inference_batches(nodes))
    assert worker.evaluate(model.inference_batches(nodes))["accuracy"] >= 0.95


@every_system
@pytest.mark.parametrize("classes", [2, 40])
@pytest.mark.filterwarnings("ignore:no training node is of class")
def test_takes_two_classes_and_many(name, classes):
    graph = dhilgt.generate(
        120, 2, num_classes=classes, num_features=8, homophily=0.1, seed=2, num_communities=classes
    )
    model = create(name, graph)
    worker = trainer(model, epochs=2)
    worker.fit(model.train_batches(range(100)))
    nodes, probabilities = worker.predict(model.inference_batches())
    assert nodes.tolist() == list(range(120))
    assert probabilities.shape == (120, classes)
    assert np.allclose(probabilities.sum(1), 1, atol=1e-5)


@every_system
def test_takes_nodes_without_label_or_edge(name):
    graph = lonely_graph()
    assert (graph.degrees == 0).sum() >= 16
    model = create(name, graph)
    train, rest = split(graph)
    worker = trainer(model, epochs=3)
    result = worker.fit(model.train_batches(train), model.inference_batches(rest))
    assert np.isfinite([line["train_loss"] for line in result.history]).all()
    nodes, probabilities = worker.predict(model.inference_batches())
    assert len(nodes) == graph.num_nodes
    assert np.isfinite(probabilities).all()


@every_system
def test_refuses_to_train_on_or_score_nodes_without_label(name):
    graph = lonely_graph()
    model = create(name, graph)
    with pytest.raises(GraphError, match="no label"):
        model.train_batches([0, 1, 2])
    with pytest.raises(TrainingError, match="use predict"):
        trainer(model).evaluate(model.inference_batches([0, 1, 2]))


@every_system
def test_takes_a_batch_of_one(name):
    model = create(name, small_graph())
    worker = trainer(model, epochs=2)
    with pytest.warns(dhilgt.TrainingWarning, match="all training nodes are of class"):
        worker.fit(model.train_batches([7]))
    assert worker.predict(model.inference_batches([7]))[1].shape == (1, 3)


@pytest.mark.parametrize("name", in_batches)
def test_takes_a_last_batch_of_one(name):
    model = create(name, small_graph(81), batch_size=20)
    worker = trainer(model, epochs=2)
    worker.fit(model.train_batches(range(81)))
    assert worker.predict(model.inference_batches())[1].shape == (81, 3)


@every_system
def test_a_saved_model_predicts_the_same(name, tmp_path):
    graph = small_graph()
    model = create(name, graph)
    worker = trainer(model)
    worker.fit(model.train_batches(range(40)))
    model.save(tmp_path / "model")
    files = {path.name for path in (tmp_path / "model").iterdir()}
    assert files == {"config.json", "model.safetensors"}
    loaded = baselines.load(tmp_path / "model", graph)
    assert type(loaded) is type(model)
    assert loaded.settings == model.settings
    assert same(weights(loaded), weights(model))
    expected = worker.predict(model.inference_batches())[1]
    actual = trainer(loaded).predict(loaded.inference_batches())[1]
    assert np.array_equal(actual, expected)


def fitted(name, graph, folder=None, *, killed_at=None, resume=False, batch_size=None, **changes):
    options = {} if batch_size is None else {"batch_size": batch_size}
    model = create(name, graph, **options)
    train, rest = split(graph)
    loader = model.train_batches(train, seed=5)
    if killed_at is not None:
        loader = KilledAt(loader, *killed_at)
    worker = trainer(model, folder, resume=resume, **changes)
    worker.fit(loader, model.inference_batches(rest))
    return weights(model), worker.predict(model.inference_batches())[1]


@every_system
def test_a_killed_run_ends_as_a_whole_one(name, tmp_path):
    graph = small_graph()
    whole, expected = fitted(name, graph)
    with pytest.raises(Killed):
        fitted(name, graph, tmp_path / "run", killed_at=(2, 0))
    resumed, actual = fitted(name, graph, tmp_path / "run", resume=True)
    assert same(resumed, whole)
    assert np.array_equal(actual, expected)


@pytest.mark.parametrize("name", in_batches)
def test_a_run_killed_inside_an_epoch_ends_as_a_whole_one(name, tmp_path):
    graph = small_graph()
    whole, expected = fitted(name, graph, batch_size=15)
    options = {"batch_size": 15, "checkpoint_batches": 1}
    with pytest.raises(Killed):
        fitted(name, graph, tmp_path / "run", killed_at=(2, 1), **options)
    resumed, actual = fitted(name, graph, tmp_path / "run", resume=True, **options)
    assert same(resumed, whole)
    assert np.array_equal(actual, expected)


@every_system
def test_a_paused_run_frees_its_steps_and_ends_as_a_whole_one(name):
    graph = small_graph()
    whole, _ = fitted(name, graph)
    model = create(name, graph)
    train, rest = split(graph)
    worker = trainer(model)
    loaders = model.train_batches(train, seed=5), model.inference_batches(rest)
    for until in (1, worker.config.epochs):
        worker.advance(*loaders, until=until)
        worker.release()
    worker.end(*loaders)
    assert same(weights(model), whole)


@every_system
def test_the_same_run_twice_gives_the_same_weights(name):
    graph = small_graph()
    first, second = fitted(name, graph), fitted(name, graph)
    assert same(first[0], second[0])
    assert np.array_equal(first[1], second[1])


@every_system
def test_trains_in_mixed_precision_and_scores_before_training(name):
    model = create(name, small_graph())
    worker = trainer(model, epochs=2, precision="bf16")
    assert 0 <= worker.evaluate(model.inference_batches(range(40)))["accuracy"] <= 1
    result = worker.fit(model.train_batches(range(40)), model.inference_batches(range(40, 80)))
    assert np.isfinite([line["train_loss"] for line in result.history]).all()


@every_system
def test_another_seed_gives_other_weights(name):
    graph = small_graph()
    first, second = create(name, graph), create(name, graph, seed=1)
    assert not same(weights(first), weights(second))


@every_system
def test_preparing_is_timed_and_where_it_ran_is_told(name):
    model = create(name, small_graph())
    assert model.stages.to_dict()["precompute"]["times"] == 1
    assert model.inference_device is None
    worker = trainer(model, epochs=2)
    result = worker.fit(model.train_batches(range(40)), model.inference_batches(range(40, 60)))
    assert set(result.seconds) == {"epoch", "evaluation"}
    assert model.inference_device == "cpu"


@every_system
def test_describes_itself(name):
    about = baselines.describe(name)
    assert about["name"] == name
    assert about["title"]
    assert about["source"]
    assert about["batches"] in {"graph", "blocks", "tokens", "samples", "nodes"}
    assert "paper" in about["variants"]
    assert set(about["variant_recipes"]) <= set(about["variants"])
    for variant in about["variants"]:
        model = baselines.create(name, small_graph(40), variant=variant)
        assert model.train_config(variant).epochs >= 1


@every_system
def test_refuses_unknown_settings_and_other_graphs(name, tmp_path):
    graph = small_graph()
    with pytest.raises(ConfigError, match="is not a setting"):
        create(name, graph, no_such_setting=1)
    with pytest.raises(ConfigError, match="has no variant 'papre'"):
        create(name, graph, variant="papre")
    model = create(name, graph)
    model.save(tmp_path)
    with pytest.raises(GraphError, match="12 and 3"):
        baselines.load(tmp_path, small_graph(classes=4))


# ---- the registry ------------------------------------------------------------------------------


def test_an_unknown_name_is_answered_with_the_nearest():
    with pytest.raises(ConfigError, match="did you mean 'nagphormer'"):
        baselines.create("NAGformer", small_graph())
    with pytest.raises(ConfigError, match=r"known: .*gcn"):
        baselines.describe("???")


def test_a_graph_needs_features_and_labels():
    bare = dhilgt.Graph.from_edges([0], [1], num_nodes=2)
    with pytest.raises(GraphError, match="no features"):
        baselines.create("gcn", bare)
    dumb = dhilgt.Graph.from_edges([0], [1], num_nodes=2, features=np.ones((2, 3)))
    with pytest.raises(GraphError, match="no labels"):
        baselines.create("gcn", dumb)


def test_a_damaged_folder_is_refused(tmp_path):
    graph = small_graph()
    create("gcn", graph).save(tmp_path)
    text = (tmp_path / "config.json").read_text(encoding="utf-8")
    (tmp_path / "config.json").write_text(text.replace("gcn", "cgn"), encoding="utf-8")
    with pytest.raises(ArtifactError, match="did you mean 'gcn'"):
        baselines.load(tmp_path, graph)
    (tmp_path / "config.json").write_text(text.replace("32", "31"), encoding="utf-8")
    with pytest.raises(ArtifactError, match="does not belong"):
        baselines.load(tmp_path, graph)
