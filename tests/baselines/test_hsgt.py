"""HSGT and its parts: clusters, near pairs, sampled levels, and the model against plain loops."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import dhilgt
import dhilgt.baselines.hsgt.coarsen as coarsening
import dhilgt.baselines.shared.pairs as pairing
import dhilgt.baselines.shared.sparse as products
from dhilgt.baselines.hsgt.coarsen import coarsen, pooled
from dhilgt.baselines.hsgt.hierarchy import hierarchy, level_sizes, sampled_levels, spread
from dhilgt.baselines.shared.message_graph import CleanGraph
from dhilgt.baselines.shared.pairs import PairAttention, near_pairs, pair_scores
from dhilgt.baselines.shared.sparse import SparseMatrix
from dhilgt.errors import ConfigError, MemoryLimitError
from tests.baselines.cases import create, lonely_graph, small_graph, trainer
from tests.real_data import needs_data

NO_DROPOUT = {"dropout": 0.0, "input_dropout": 0.0, "attention_dropout": 0.0}
pytestmark = pytest.mark.filterwarnings("ignore:the input was cleaned")


def bare(graph):
    return CleanGraph.of(graph, self_loops=False)


def from_pairs(pairs, n):
    source, target = zip(*pairs, strict=True) if pairs else ((), ())
    return bare(dhilgt.Graph.from_edges(source, target, num_nodes=n))


@st.composite
def graphs(draw, most=24):
    n = draw(st.integers(1, most))
    node = st.integers(0, n - 1)
    pairs = draw(st.lists(st.tuples(node, node).filter(lambda p: p[0] != p[1]), max_size=3 * n))
    return from_pairs(pairs if n > 1 else [], n)


def dense(graph):
    return graph.adjacency("ones").to_dense().bool().numpy()


def distances_of(graph):
    """Hops between all nodes by repeated products; a large number where there is no path."""
    reached, actual = np.eye(graph.num_nodes, dtype=bool), np.full([graph.num_nodes] * 2, 999)
    for hop in range(graph.num_nodes):
        actual[reached & (actual == 999)] = hop
        reached = reached @ (dense(graph) | np.eye(graph.num_nodes, dtype=bool))
    return actual


# ---- clusters ----------------------------------------------------------------------------------


@given(graphs(), st.data())
def test_there_are_as_many_clusters_as_asked_and_none_is_empty(graph, data):
    count = data.draw(st.integers(1, graph.num_nodes))
    clusters = coarsen(graph, count)
    assert clusters.shape == (graph.num_nodes,)
    assert sorted(set(clusters.tolist())) == list(range(count))
    assert np.array_equal(coarsen(graph, count), clusters)


def test_as_many_clusters_as_nodes_changes_nothing():
    graph = bare(small_graph())
    assert coarsen(graph, 80).tolist() == list(range(80))


@pytest.mark.parametrize("count", [0, 81])
def test_an_impossible_number_of_clusters_is_refused(count):
    with pytest.raises(ConfigError, match="ask for 1 to 80"):
        coarsen(bare(small_graph()), count)


def test_a_heavy_edge_is_merged_before_light_ones():
    # 0 and 3 are each tied to 1 and 2 by a single edge; 1 and 2 are bundles with four between them.
    sources = np.array([0, 1, 1, 2, 2, 3])
    targets = np.array([1, 0, 2, 1, 3, 2])
    weights = np.array([1.0, 1.0, 4.0, 4.0, 1.0, 1.0])
    graph = coarsening._Weighted(sources, targets, weights, np.ones(4))
    assert coarsening._mutual_pairs(sources, targets, weights, graph.sizes, 9.0)[1:3].tolist() == [
        2,
        1,
    ]
    merged = graph.merged(np.array([0, 1, 1, 0]))
    assert merged.weights.tolist() == [2.0, 2.0]
    assert merged.sizes.tolist() == [2.0, 2.0]


def test_communities_stay_together():
    graph = dhilgt.generate(2000, 12, num_classes=4, homophily=0.95, num_features=1, seed=1)
    clean = bare(graph)
    clusters = coarsen(clean, 100)
    kept = (clusters[clean.sources()] == clusters[clean.targets]).mean()
    other = np.random.default_rng(0).permutation(clusters)
    by_chance = (other[clean.sources()] == other[clean.targets]).mean()
    assert kept > 8 * by_chance
    sizes = np.bincount(clusters)
    assert sizes.max() <= 1.5 * 20


def test_leaves_of_a_star_are_merged_with_each_other():
    star = from_pairs([(0, leaf) for leaf in range(1, 65)], 65)
    sizes = np.bincount(coarsen(star, 8))
    assert sizes.max() <= 1.5 * 65 / 8


def test_components_and_lone_nodes_share_clusters_evenly():
    pairs = [(i, i + 1) for i in range(0, 39)]  # a path of 40, and 60 nodes alone
    sizes = np.bincount(coarsen(from_pairs(pairs, 100), 10))
    assert sizes.max() <= 20


def test_a_path_needs_few_rounds(monkeypatch):
    rounds = []
    original = coarsening._partners
    monkeypatch.setattr(coarsening, "_partners", lambda *a: rounds.append(1) or original(*a))
    coarsen(from_pairs([(i, i + 1) for i in range(9999)], 10_000), 100)
    assert len(rounds) <= 12  # 2^7 nodes a cluster take 7 halvings at the least


@given(graphs(), st.data())
def test_pooled_edges_are_those_that_cross(graph, data):
    count = data.draw(st.integers(1, graph.num_nodes))
    clusters = coarsen(graph, count)
    member = np.eye(count, dtype=int)[clusters]
    expected = member.T @ dense(graph) @ member > 0
    np.fill_diagonal(expected, False)
    assert np.array_equal(dense(pooled(graph, clusters, count)), expected)


# ---- near pairs and attention over them --------------------------------------------------------


@given(graphs(12), st.integers(0, 4))
def test_near_pairs_are_those_within_reach(graph, most):
    pairs = near_pairs(graph, most)
    actual = np.full([graph.num_nodes] * 2, 999)
    rows = np.repeat(np.arange(graph.num_nodes), np.diff(pairs.offsets))
    actual[rows, pairs.columns] = pairs.distances
    expected = distances_of(graph)
    expected[expected > most] = 999
    assert np.array_equal(actual, expected)
    assert np.array_equal(np.lexsort((pairs.columns, rows)), np.arange(len(rows)))


def test_near_pairs_do_not_depend_on_the_pieces_they_are_searched_in(monkeypatch):
    graph = bare(small_graph())
    whole = near_pairs(graph, 3)
    monkeypatch.setattr(pairing, "_STEPS", 50)
    for one, other in zip(near_pairs(graph, 3), whole, strict=True):
        assert np.array_equal(one, other)


def test_too_many_near_pairs_are_refused(monkeypatch):
    monkeypatch.setattr(pairing, "available_bytes", lambda: 1000)
    monkeypatch.setattr(pairing, "_FEW_BYTES", 0)
    for most in (1, 2):
        with pytest.raises(MemoryLimitError, match="smaller max_distance"):
            near_pairs(bare(small_graph()), most)


def sparse_of(mask):
    offsets = np.concatenate([[0], np.cumsum(mask.sum(1))])
    return SparseMatrix.from_numpy(offsets, np.nonzero(mask)[1], np.ones(mask.sum()), mask.shape[1])


def test_pair_scores_and_their_gradients_are_the_dense_ones(monkeypatch):
    monkeypatch.setitem(products._GATHERED, "cpu", 56)
    torch.manual_seed(0)
    mask = np.random.default_rng(0).random((6, 9)) < 0.5
    query = torch.randn(6, 2, 4, requires_grad=True)
    key = torch.randn(9, 2, 4, requires_grad=True)
    actual = pair_scores(query, key, sparse_of(mask))
    expected = torch.einsum("ihd,jhd->ijh", query, key)[torch.from_numpy(mask)]
    assert torch.allclose(actual, expected, atol=1e-6)
    weights = torch.randn_like(actual)
    ours = torch.autograd.grad((actual * weights).sum(), (query, key))
    theirs = torch.autograd.grad((expected * weights).sum(), (query, key))
    assert all(torch.allclose(a, b, atol=1e-5) for a, b in zip(ours, theirs, strict=True))


def dense_layer(layer, x, others, mask, bias):
    """What a `PairAttention` does, with all pairs and -inf where there is none."""
    seen = layer.attention_norm(others)
    query = layer.query(layer.attention_norm(x)).unflatten(1, (layer.heads, -1))
    key, value = layer.key_value(seen).unflatten(1, (2, layer.heads, -1)).unbind(1)
    scores = torch.einsum("ihd,jhd->ijh", query, key) / query.shape[-1] ** 0.5 + bias
    scores = scores.masked_fill(~mask[:, :, None], -torch.inf)
    attention = torch.nan_to_num(torch.softmax(scores, 1))  # rows without pairs: 0
    mixed = torch.einsum("ijh,jhd->ihd", attention, value).flatten(1)
    y = x + layer.projection(mixed)
    return y + layer.ffn_out(torch.nn.functional.gelu(layer.ffn_in(layer.ffn_norm(y))))


def test_pair_attention_is_masked_attention():
    torch.manual_seed(0)
    layer = PairAttention(8, 2, 16)
    mask = np.random.default_rng(1).random((5, 7)) < 0.5
    mask[2] = False  # attends to nobody
    x, others, bias = torch.randn(5, 8), torch.randn(7, 8), torch.randn(5, 7, 2)
    expected = dense_layer(layer, x, others, torch.from_numpy(mask), bias)
    actual = layer(x, others, sparse_of(mask), bias[torch.from_numpy(mask)])
    assert torch.allclose(actual, expected, atol=1e-5)


# ---- levels and samples ------------------------------------------------------------------------


def test_a_level_has_the_mean_features_of_its_children():
    graph = small_graph()
    below, middle, top = hierarchy(bare(graph), torch.tensor(graph.features), (4, 5))
    assert [level.graph.num_nodes for level in (below, middle, top)] == level_sizes(80, (4, 5))
    for lower, upper in ((below, middle), (middle, top)):
        for node in range(upper.graph.num_nodes):
            mean = lower.x.host[lower.parents == node].mean(0)
            assert torch.allclose(upper.x.host[node], mean, atol=1e-6)
            children = upper.children[upper.child_offsets[node] : upper.child_offsets[node + 1]]
            assert children.tolist() == np.flatnonzero(lower.parents == node).tolist()


@given(graphs(), st.data())
def test_a_spread_takes_no_more_neighbours_than_asked(graph, data):
    nodes = np.array(data.draw(st.lists(st.integers(0, graph.num_nodes - 1), min_size=1)))
    most = data.draw(st.integers(1, 3))
    seen = spread(graph, nodes, (most,), np.random.default_rng(0))
    assert set(nodes) <= set(seen)
    assert np.array_equal(seen, np.unique(seen))
    new = np.setdiff1d(seen, nodes)
    assert len(new) <= most * len(np.unique(nodes))
    assert all(dense(graph)[node, np.unique(nodes)].any() for node in new)
    everyone = spread(graph, nodes, (graph.num_nodes,), np.random.default_rng(0))
    assert set(everyone) == set(nodes) | set(np.flatnonzero(dense(graph)[nodes].any(0)))


def test_a_sample_has_the_ancestors_of_all_its_nodes_and_their_places():
    graph = small_graph()
    levels = hierarchy(bare(graph), torch.tensor(graph.features), (4, 3))
    nodes = np.array([40, 3, 77])
    parts, places = sampled_levels(levels, nodes, (2,), 1, 2, np.random.default_rng(0))
    climbing = nodes
    for number, (part, level) in enumerate(zip(parts, levels, strict=True)):
        assert part.nodes[places[:, number]].tolist() == climbing.tolist()
        assert part.degrees.tolist() == level.graph.degrees[part.nodes].tolist()
        expected = near_pairs(level.graph.induced(part.nodes.numpy()), 2)
        assert part.distances.tolist() == expected.distances.tolist()
        if number:
            inside = part.places >= 0
            assert (part.children[inside] == parts[number - 1].nodes[part.places[inside]]).all()
            # All that the level below has is somebody's child here.
            assert inside.sum() == len(parts[number - 1].nodes)
        if level.parents is not None:
            climbing = level.parents[climbing]


# ---- the model ---------------------------------------------------------------------------------


def whole(model):
    (batch,) = model.inference_batches().iterate()
    inputs = batch.to("cpu").inputs
    with torch.no_grad():
        return inputs, model.eval()(*inputs)


@pytest.mark.parametrize("most", [1, 3])
def test_hsgt_is_masked_attention_within_and_between_levels(most):
    model = create("hsgt", small_graph(), max_distance=most, num_layers=2)
    with torch.no_grad():
        for block in model.horizontal:
            block.bias.weight.normal_()
    inputs, logits = whole(model)
    embeddings = []
    with torch.no_grad():
        for number, (level, part) in enumerate(zip(model.levels, inputs[:-1], strict=True)):
            h = model.input(part.x) + model.degree.weight[level.graph.degrees]
            if number:
                parents = torch.from_numpy(model.levels[number - 1].parents)
                family = parents[None, :] == torch.arange(len(h))[:, None]
                h = dense_layer(model.vertical[number - 1].layer, h, embeddings[-1], family, 0.0)
            block = model.horizontal[number]
            hops = torch.from_numpy(distances_of(level.graph))
            table = block.bias.weight.unflatten(1, (2, -1))  # [distances, layers, heads]
            for place, layer in enumerate(block.layers):
                bias = table[hops.clamp(max=most), place]
                h = dense_layer(layer, h, h, hops <= most, bias)
            embeddings.append(block.norm(h))
        node, rows = 11, []
        for level, h in zip(model.levels, embeddings, strict=True):
            rows.append(h[node])
            node = 0 if level.parents is None else level.parents[node]
        read = model.readout
        query = read.query(rows[0]).view(read.heads, -1)
        key, value = read.key_value(torch.stack(rows)).unflatten(1, (2, read.heads, -1)).unbind(1)
        scores = (key * query).sum(-1) / query.shape[-1] ** 0.5  # [levels, H]
        mixed = (torch.softmax(scores, 0)[..., None] * value).sum(0).flatten()
        expected = read.output(read.norm(rows[0] + read.projection(mixed)))
    assert torch.allclose(logits[11], expected, atol=1e-4)


def test_a_sample_of_everything_is_the_whole_graph():
    graph = small_graph()
    model = create("hsgt", graph, batch_size=80, fanouts=(80,), upper_fanout=80, **NO_DROPOUT)
    _, expected = whole(model)
    (batch,) = model.train_batches(np.arange(80)).iterate()
    with torch.no_grad():
        actual = model.train()(*batch.to("cpu").inputs)
    assert torch.allclose(actual, expected[batch.nodes], atol=1e-5)
    assert not model.known_0.any()  # nothing is missing, so nothing is remembered


def first_sample(model, nodes):
    (batch,) = model.train_batches(nodes).iterate()
    return batch.to("cpu").inputs


def test_children_outside_a_batch_are_read_from_history_without_gradient():
    graph = small_graph()
    settings = {
        "fanouts": (1,),
        "upper_fanout": 1,
        "dropout": 0.0,
        "input_dropout": 0.0,
        "attention_dropout": 0.0,
    }
    model = create("hsgt", graph, **settings).train()
    inputs = first_sample(model, [5, 6])
    assert (inputs[1].places < 0).any()
    model.eval()(*inputs)
    assert not model.known_0.any()  # only training is remembered
    before = model.train()(*inputs).detach()
    assert model.known_0.nonzero().flatten().tolist() == inputs[0].nodes.tolist()
    again = model(*inputs).detach()
    assert torch.allclose(before, again, atol=1e-6)  # its own nodes are not read from the table
    outside = inputs[1].children[inputs[1].places < 0]
    model.known_0[outside] = True
    model.history_0[outside] = torch.randn(len(outside), 16)
    after = model(*inputs)
    assert not torch.allclose(after, before, atol=1e-4)
    assert not model.history_0.requires_grad
    after.sum().backward()
    # What is remembered is what the level gave.
    with torch.no_grad():
        part = inputs[0]
        h = model.input(part.x) + model.degree(part.degrees)
        h = model.horizontal[0](h, part.pairs, part.distances)
    assert torch.allclose(model.history_0[part.nodes], h, atol=1e-6)


def test_a_child_read_from_history_is_as_one_that_is_there():
    model = create("hsgt", small_graph(), fanouts=(1,))
    inputs, _ = whole(model)
    with torch.no_grad():
        all_of_level = inputs[0]
        h = model.input(all_of_level.x) + model.degree(all_of_level.degrees)
        z = model.horizontal[0](h, all_of_level.pairs, all_of_level.distances)
        model.history_0.copy_(z)
        model.known_0.fill_(True)
        below, above, *_ = first_sample(model, [9])
        rows, family = model._children(1, above, z[below.nodes], False)
    for row, node in enumerate(above.nodes):
        actual = rows[family.columns[family.offsets[row] : family.offsets[row + 1]]]
        assert torch.equal(actual, z[model.levels[0].parents == int(node)])


def test_scores_do_not_depend_on_history():
    model = create("hsgt", small_graph())
    _, before = whole(model)
    model.history_0.normal_()
    model.known_0.fill_(True)
    known = model.known_0.clone()
    _, after = whole(model)
    assert torch.equal(before, after)
    assert torch.equal(model.known_0, known)


def test_a_graph_without_edges_and_one_node_have_their_levels():
    lonely = dhilgt.Graph.from_edges(
        [], [], num_nodes=9, features=np.eye(9), labels=np.arange(9) % 3
    )
    model = create("hsgt", lonely, batch_size=4)
    worker = trainer(model, epochs=2)
    worker.fit(model.train_batches(range(9)))
    assert worker.predict(model.inference_batches())[1].shape == (9, 3)
    assert [level.graph.num_nodes for level in model.levels] == [9, 3, 1]
    assert all(len(level.graph.targets) == 0 for level in model.levels)


def test_unlinked_nodes_get_finite_scores_at_any_distance():
    model = create("hsgt", lonely_graph(), max_distance=0)
    _, logits = whole(model)
    assert torch.isfinite(logits).all()


def test_width_must_be_a_multiple_of_heads():
    with pytest.raises(ConfigError, match="not a multiple of heads = 3"):
        create("hsgt", small_graph(), heads=3)


@pytest.mark.full
@needs_data
def test_beats_the_mlp_on_cora():
    graph = dhilgt.datasets.load("cora", split="official")
    scores = {}
    for name, options in (("mlp", {}), ("hsgt", {"hidden_channels": 64})):
        model = dhilgt.baselines.create(name, graph, **options)
        config = model.train_config(epochs=40)
        train, val, test = (graph.masks[part] for part in ("train", "val", "test"))
        result = dhilgt.baselines.fit(model, train, val, config, device="cpu", progress=False)
        scores[name] = result.trainer.evaluate(model.inference_batches(test))["accuracy"]
    assert scores["hsgt"] > scores["mlp"] + 0.1
