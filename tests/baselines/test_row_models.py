"""Graphormer and GRPE against sums over all pairs, written as loops."""

import math

import numpy as np
import pytest
import torch

import dhilgt
from dhilgt import baselines
from dhilgt.baselines import grpe
from dhilgt.baselines.grpe import RelativeLayer, Tables, collect, spread
from dhilgt.errors import ConfigError
from tests.baselines.cases import create, lonely_graph, small_graph, trainer, weights
from tests.baselines.cora import accuracy_on_cora
from tests.baselines.test_ego_rows import directed_graph, searched
from tests.real_data import needs_data

both = pytest.mark.parametrize("name", ["graphormer", "grpe"])
NO_PATH = 255


def logits_of(model, nodes=None):
    """Logits of some nodes in one batch, and the inputs they came from."""
    nodes = np.arange(model.graph.num_nodes) if nodes is None else np.asarray(nodes)
    inputs = [part.to("cpu") for part in model._inputs(nodes, (0, 0, 0))]
    with torch.no_grad():
        logits = model.eval()(*inputs)
        return logits, inputs if len(inputs) > 1 else model.gathered(*inputs)


def trained(name, graph, **options):
    """A model whose small initial weights have grown apart."""
    model = create(name, graph, **options)
    with torch.no_grad():
        torch.manual_seed(1)
        for weight in model.parameters():
            weight.add_(0.3 * torch.randn_like(weight))
    return model


def copied(name, graph, source, **options):
    model = create(name, graph, **options)
    model.load_state_dict(weights(source))
    return model


# ---- rows --------------------------------------------------------------------------------------


@both
def test_a_row_of_all_nodes_is_the_full_graph(name):
    graph = dhilgt.generate(60, 10, num_classes=3, num_features=12, seed=1)
    assert (searched(graph) < NO_PATH).all()
    full = trained(name, graph, sampler="full")
    wide = copied(name, graph, full, sampler="khop", size=60)
    assert torch.allclose(logits_of(wide)[0], logits_of(full)[0], atol=1e-4)


@both
def test_a_row_does_not_see_what_its_node_cannot_reach(name):
    graph = lonely_graph()
    full = trained(name, graph, sampler="full")
    wide = copied(name, graph, full, sampler="khop", size=80)
    assert not torch.allclose(logits_of(wide)[0], logits_of(full)[0], atol=1e-2)


@both
def test_empty_slots_change_nothing(name):
    graph = lonely_graph()
    narrow = trained(name, graph, sampler="khop", size=80)
    wide = copied(name, graph, narrow, sampler="khop", size=90)
    assert torch.allclose(logits_of(narrow)[0], logits_of(wide)[0], atol=1e-4)


@both
@pytest.mark.parametrize("sampler", ["full", "khop", "hubs"])
def test_logits_of_a_node_do_not_depend_on_its_batch(name, sampler):
    model = trained(name, small_graph(), sampler=sampler)
    whole, _ = logits_of(model)
    for nodes in ([7], [70, 3, 3, 41]):
        assert torch.allclose(logits_of(model, nodes)[0], whole[nodes], atol=1e-4)


@both
def test_renamed_nodes_have_the_same_logits(name):
    graph = small_graph()
    new = np.random.default_rng(0).permutation(80)  # the new name of each node
    features, labels = np.empty_like(graph.features), np.empty_like(graph.labels)
    features[new], labels[new] = graph.features, graph.labels
    source, target = graph.to_edge_index()
    renamed = dhilgt.Graph.from_edges(
        new[source], new[target], num_nodes=80, features=features, labels=labels
    )
    model = trained(name, graph, sampler="full")
    other = copied(name, renamed, model, sampler="full")
    assert torch.allclose(logits_of(other)[0][new], logits_of(model)[0], atol=1e-4)


@both
@pytest.mark.parametrize("sampler", ["full", "khop", "ppr", "hubs"])
def test_the_codes_a_model_gets_are_distances_of_a_search(name, sampler):
    graph = lonely_graph()
    model = create(name, graph, sampler=sampler, max_distance=3)
    _, (codes, places, outputs, x, *_) = logits_of(model)
    rows = places if sampler == "full" else np.where(model._tables.ids.numpy() < 0, -1, places)
    if sampler != "full":
        assert np.array_equal(x[places[:, 0]], graph.features)
        assert outputs.tolist() == [8 * node for node in range(80)]
    nodes = np.asarray(rows) if sampler == "full" else model._tables.ids.numpy()
    distance = searched(graph)
    for row, own in zip(nodes, codes.numpy(), strict=True):
        real = row >= 0
        expected = distance[np.ix_(row[real], row[real])]
        expected = np.where(expected == NO_PATH, 4, np.minimum(expected, 3))
        assert np.array_equal(own[np.ix_(real, real)], expected)
        assert (own[np.ix_(real, ~real)] == 5).all()


def test_auto_is_full_up_to_a_size():
    graph = small_graph()
    sampler = {"sampler": "auto", "full_nodes": 80}
    assert logits_of(create("graphormer", graph, **sampler))[1][0].shape == (1, 80, 80)
    sampler["full_nodes"] = 79
    assert logits_of(create("graphormer", graph, **sampler))[1][0].shape == (80, 8, 8)


def test_draws_follow_the_seed_and_the_full_graph_has_none():
    graph = small_graph()
    for sampler, same in (("khop", False), ("hubs", False), ("full", True), ("ppr", True)):
        first, second = (
            logits_of(create("graphormer", graph, sampler=sampler, seed=seed))[1][0]
            for seed in (0, 1)
        )
        assert torch.equal(first, second) == same


@both
def test_the_full_graph_trains_and_resumes_as_rows_do(name, tmp_path):
    graph = small_graph()
    model = create(name, graph, sampler="full")
    worker = trainer(model, epochs=4, eval_every=2)
    result = worker.fit(model.train_batches(range(40)), model.inference_batches(range(40, 80)))
    assert len(model.train_batches(range(40))) == 1
    assert result.history[-1]["train_loss"] < result.history[0]["train_loss"]
    model.save(tmp_path)
    loaded = baselines.load(tmp_path, graph)
    assert torch.equal(logits_of(loaded)[0], logits_of(model)[0])


@both
def test_heads_must_divide_the_width(name):
    with pytest.raises(ConfigError, match="not a multiple of heads"):
        create(name, small_graph(), heads=3)


@both
@pytest.mark.parametrize("count", [3, 80])
def test_rows_on_a_device_are_those_of_the_host(name, count):
    model = trained(name, lonely_graph(), sampler="khop")
    nodes = np.random.default_rng(0).permutation(80)[:count]
    expected, (codes, places, outputs, *parts) = logits_of(model, nodes)
    model._residents[torch.device("cpu")] = model._tables  # as on a GPU with room for them
    actual, (own_codes, own_places, own_outputs, *own_parts) = logits_of(model, nodes)
    assert len(own_parts[0]) == min(80, count * 8)  # a shape that the number of nodes decides
    assert torch.equal(own_codes, codes)
    assert torch.equal(own_outputs, outputs)
    for own, part in zip(own_parts, parts, strict=True):
        assert torch.equal(own[own_places], part[places])
    assert torch.allclose(actual, expected, atol=1e-5)
    assert model.is_recordable()


# ---- Graphormer --------------------------------------------------------------------------------


def test_graphormer_adds_embeddings_of_both_degrees():
    graph = directed_graph()
    model = trained("graphormer", graph, max_degree=2)
    x, degrees = model.node_inputs(graph)
    source, target = graph.to_edge_index()
    for node in range(80):
        into = min(2, int((target == node).sum()))
        out = min(2, int((source == node).sum()))
        assert degrees[node].tolist() == [into, out]
        expected = (
            model.input(x[node]) + model.in_degree.weight[into] + model.out_degree.weight[out]
        )
        assert torch.allclose(model.embed(x, degrees)[node], expected, atol=1e-5)


def test_graphormer_attends_with_a_bias_per_distance_and_head():
    graph = lonely_graph()
    model = trained("graphormer", graph, sampler="khop", size=6, num_layers=1, max_distance=3)
    _, (codes, places, _, *parts) = logits_of(model)
    layer = model.encoder.layers[0]
    row = int((codes == 5).any(-1).any(-1).nonzero()[0])  # one with empty slots
    with torch.no_grad():
        h = model.embed(*parts)[places]
        actual = model.encode(h, codes.long())
        query, key, value = layer._heads(h)
        mixed = torch.zeros_like(query[row])
        for head in range(2):
            for i in range(6):
                scores = [
                    float(query[row, head, i] @ key[row, head, j]) / math.sqrt(8)
                    + float(model.distance_bias.weight[int(codes[row, i, j]), head])
                    if codes[row, i, j] < 5
                    else -math.inf
                    for j in range(6)
                ]
                mixed[head, i] = torch.softmax(torch.tensor(scores), 0) @ value[row, head]
        y = h[row] + layer.projection(mixed.transpose(0, 1).flatten(1))
        inner = torch.nn.functional.gelu(layer.ffn_in(layer.ffn_norm(y)))
        expected = model.encoder.norm(y + layer.ffn_out(inner))
    assert torch.allclose(actual[row], expected, atol=1e-4)


# ---- GRPE --------------------------------------------------------------------------------------


@pytest.mark.parametrize("key_of", ["column", "row"])
def test_grpe_adds_encodings_to_scores_and_values(key_of):
    torch.manual_seed(0)
    layer = RelativeLayer(6, 6, 2, 0.0, 0.0)
    h = torch.randn(2, 5, 6)
    codes = torch.randint(0, 5, (2, 5, 5))
    codes[:, torch.arange(5), torch.arange(5)] = 0  # 4 is left out
    tables = Tables(*torch.randn(3, 2, 4, 3))
    with torch.no_grad():
        actual = layer(h, codes, tables, key_of)
        query, key, value = layer._heads(h)
        mixed = torch.zeros(2, 2, 5, 3)
        for b, head, i in np.ndindex(2, 2, 5):
            scores, values = [], []
            for j in range(5):
                code = int(codes[b, i, j])
                if code == 4:
                    continue
                q, k = query[b, head, i], key[b, head, j]
                met = k if key_of == "column" else key[b, head, i]
                score = q @ k + q @ tables.query[head, code] + met @ tables.key[head, code]
                scores.append(score / math.sqrt(3))
                values.append(value[b, head, j] + tables.value[head, code])
            mixed[b, head, i] = torch.softmax(torch.stack(scores), 0) @ torch.stack(values)
        y = h + layer.projection(mixed.transpose(1, 2).flatten(2))
        inner = torch.nn.functional.gelu(layer.ffn_in(layer.ffn_norm(y)))
        expected = y + layer.ffn_out(inner)
    assert torch.allclose(actual, expected, atol=1e-5)


def test_grpe_looks_up_distance_and_edge_as_one():
    model = trained("grpe", small_graph(), max_distance=4)
    tables = model.tables()
    for code, kind in enumerate([0, 1, 2, 2, 2, 2]):  # itself, neighbour, none
        both_rows = model.distances.weight[code] + model.edges.weight[kind]
        for part, table in enumerate(tables):
            for head in range(2):
                expected = both_rows[16 * part + 8 * head : 16 * part + 8 * (head + 1)]
                assert torch.allclose(table[head, code], expected)


def test_spread_and_collect_are_transposes_with_each_others_gradients():
    torch.manual_seed(0)
    codes = torch.randint(0, 3, (2, 4, 5))
    values = torch.randn(2, 3, 4, 3, requires_grad=True)
    pairs = torch.randn(2, 3, 4, 5, requires_grad=True)
    each = codes[:, None].expand(2, 3, 4, 5)
    by_hand = values.gather(-1, each)
    assert torch.equal(spread(values, codes), by_hand)
    ours = torch.autograd.grad((spread(values, codes) * pairs).sum(), [values, pairs])
    theirs = torch.autograd.grad((by_hand * pairs).sum(), [values, pairs])
    for one, other in zip(ours, theirs, strict=True):
        assert torch.allclose(one, other, atol=1e-6)
    sums = torch.zeros(2, 3, 4, 3).scatter_add(-1, each, pairs)
    assert torch.allclose(collect(pairs, codes, 3), sums)
    ours = torch.autograd.grad((collect(pairs, codes, 3) * values).sum(), [values, pairs])
    theirs = torch.autograd.grad((sums * values).sum(), [values, pairs])
    for one, other in zip(ours, theirs, strict=True):
        assert torch.allclose(one, other, atol=1e-6)


def test_the_sums_of_a_gpu_are_those_of_the_cpu():
    torch.manual_seed(0)
    codes, pairs = torch.randint(0, 3, (2, 4, 5)), torch.randn(2, 3, 4, 5)
    assert torch.allclose(grpe._summed_by_code(pairs, codes, 3), collect(pairs, codes, 3))


def test_encodings_in_half_precision_are_summed_in_float32():
    codes = torch.zeros(1, 1, 4096, dtype=torch.int64)
    ones = torch.ones(1, 1, 1, 4096, dtype=torch.bfloat16)
    assert collect(ones, codes, 2).tolist() == [[[[4096.0, 0.0]]]]


@both
@pytest.mark.parametrize("sampler", ["full", "khop"])
def test_gradients_reach_every_weight(name, sampler):
    model = trained(name, lonely_graph(), sampler=sampler, max_distance=2)
    inputs = [part.to("cpu") for part in model._inputs(np.arange(80), (0, 0, 0))]
    model.eval().logits(*inputs).square().sum().backward()
    for part, weight in model.named_parameters():
        assert weight.grad is not None, part
        assert torch.isfinite(weight.grad).all(), part
        assert weight.grad.abs().sum() > 0, part


# ---- real data ---------------------------------------------------------------------------------


@needs_data
@both
def test_rows_of_cora_are_learnt(name):
    recipe = {"lr": 3e-3, "warmup_epochs": 1}
    options = {"sampler": "khop", "size": 8, "hidden_channels": 32, "batch_size": 128}
    assert accuracy_on_cora(name, epochs=5, recipe=recipe, **options) > 0.8
