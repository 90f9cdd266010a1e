"""PolyFormer against dense polynomials of matrices, and attention written as loops."""

import math

import numpy as np
import pytest
import scipy.sparse
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import dhilgt
from dhilgt import baselines
from dhilgt.baselines.polyformer import bases, model, published
from dhilgt.baselines.polyformer.bases import basis_matrix, terms, token_rows
from dhilgt.baselines.polyformer.model import PolyAttention
from dhilgt.errors import ConfigError, MemoryLimitError
from dhilgt.training.optimizer import build_optimizer
from tests.baselines.cases import create, lonely_graph, small_graph, trainer, weights
from tests.baselines.cora import accuracy_on_cora
from tests.baselines.test_models import dense_hat, whole
from tests.real_data import needs_data

BASES = ("monomial", "chebyshev", "bernstein")
every_basis = pytest.mark.parametrize("basis", BASES)


def dense_laplacian(graph):
    """I - D^-1/2 A D^-1/2; a node without an edge has 1 on the diagonal."""
    adjacency = np.zeros((graph.num_nodes, graph.num_nodes))
    source, target = graph.to_edge_index()
    adjacency[source, target] = adjacency[target, source] = 1
    np.fill_diagonal(adjacency, 0)
    root = np.maximum(adjacency.sum(1), 1) ** -0.5
    return np.eye(graph.num_nodes) - root[:, None] * adjacency * root[None, :]


def dense_polynomial(graph, basis, k, order):
    """The polynomial of order k, by its definition."""
    if basis == "monomial":
        return np.linalg.matrix_power(dense_hat(graph).double().numpy(), k)
    laplacian = dense_laplacian(graph)
    values, vectors = np.linalg.eigh(laplacian)
    if basis == "chebyshev":
        return vectors @ np.diag(np.cos(k * np.arccos(np.clip(values - 1, -1, 1)))) @ vectors.T
    low = np.linalg.matrix_power(2 * np.eye(len(laplacian)) - laplacian, order - k)
    return math.comb(order, k) / 2**order * low @ np.linalg.matrix_power(laplacian, k)


# ---- tokens ------------------------------------------------------------------------------------


@every_basis
@pytest.mark.parametrize("order", [0, 1, 2, 7])
def test_tokens_are_dense_polynomials(basis, order):
    graph = lonely_graph()
    tokens = token_rows(basis, basis_matrix(graph, basis), graph.features, order)
    assert tokens.shape == (80, order + 1, 12)
    for k in range(order + 1):
        expected = dense_polynomial(graph, basis, k, order) @ graph.features
        assert np.allclose(tokens[:, k].numpy(), expected, atol=1e-5)


@every_basis
def test_edges_count_in_both_directions(basis):
    edges = {"num_nodes": 4, "features": np.eye(4)}
    one_way = dhilgt.Graph.from_edges([0, 1, 2], [1, 2, 0], directed=True, **edges)
    both = dhilgt.Graph.from_edges([0, 1, 2], [1, 2, 0], **edges)
    first, second = (
        token_rows(basis, basis_matrix(graph, basis), graph.features, 3)
        for graph in (one_way, both)
    )
    assert torch.equal(first, second)


@every_basis
@pytest.mark.parametrize("columns", [1, 5, 12])
def test_sparse_features_are_read_some_columns_at_a_time(basis, columns, monkeypatch):
    graph = small_graph()
    matrix = basis_matrix(graph, basis)
    expected = token_rows(basis, matrix, graph.features, 3)
    monkeypatch.setattr(bases, "_BLOCK", columns * 80)
    sparse = scipy.sparse.csr_matrix(graph.features)
    for features in (graph.features, sparse):
        assert torch.allclose(token_rows(basis, matrix, features, 3), expected, atol=1e-6)


graphs = st.builds(
    dhilgt.generate,
    st.integers(20, 40),
    st.integers(2, 5),
    seed=st.integers(0, 1000),
    num_classes=st.just(1),
    homophily=st.just(1),
    num_features=st.just(3),
)


def found_terms(basis, graph, order):
    x = torch.from_numpy(np.array(graph.features, np.float32))
    return x, terms(basis, basis_matrix(graph, basis), x, order)


@settings(max_examples=15, deadline=None)
@given(graphs, st.integers(1, 12))
def test_bernstein_polynomials_add_up_to_one_and_keep_lines(graph, order):
    x, found = found_terms("bernstein", graph, order)
    assert torch.allclose(sum(found), x, atol=1e-5)
    line = sum(k / order * term for k, term in enumerate(found))
    expected = dense_laplacian(graph) / 2 @ x.double().numpy()
    assert np.allclose(line.numpy(), expected, atol=1e-5)


@settings(max_examples=15, deadline=None)
@given(graphs, st.integers(2, 12))
def test_chebyshev_polynomials_multiply_by_adding_orders(graph, order):
    x, found = found_terms("chebyshev", graph, order)
    half = order // 2
    # 2 T_h T_h = T_2h + T_0
    twice = terms("chebyshev", basis_matrix(graph, "chebyshev"), found[half], half)[half]
    assert torch.allclose(2 * twice, found[2 * half] + x, atol=1e-4)
    assert all(term.norm() <= x.norm() * (1 + 1e-4) for term in found)


# ---- attention ---------------------------------------------------------------------------------


def attention(order=3, heads=2, width=6, **options):
    torch.manual_seed(0)
    layer = PolyAttention(width, order, heads=heads, inner=5, falloff=1.4, **options)
    with torch.no_grad():
        layer.order_weight.copy_(torch.rand_like(layer.order_weight) + 0.5)
    return layer.eval()


def attention_by_loops(layer, x):
    """One node, one head, one pair of orders at a time."""
    orders, width = x.shape[1], x.shape[2]
    size = width // layer.heads
    out = torch.zeros_like(x)
    for node in range(len(x)):
        own = []
        for k in range(orders):
            inner = torch.relu(x[node, k] @ layer.first.weight[k] + layer.first.bias[k, 0])
            own.append(inner @ layer.second.weight[k] + layer.second.bias[k, 0])
        for head in range(layer.heads):
            part = slice(head * size, (head + 1) * size)
            for i in range(orders):
                for k in range(orders):
                    query, key = layer.query(own[i])[part], layer.key(own[k])[part]
                    score = torch.tanh(query @ key / math.sqrt(size))
                    factor = layer.order_weight[head, k] / (k + 1) ** 1.4
                    out[node, i, part] += score * factor * x[node, k, part]
    return out


@pytest.mark.parametrize("heads", [1, 2, 3])
def test_attention_is_the_one_written_as_loops(heads):
    layer = attention(heads=heads)
    x = torch.randn(5, 4, 6)
    with torch.no_grad():
        assert torch.allclose(layer(x), attention_by_loops(layer, x), atol=1e-5)


def test_attention_has_the_gradients_of_finite_differences():
    layer = attention().double()
    x = torch.randn(2, 4, 6, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(layer, x)
    names, values = zip(*layer.named_parameters(), strict=True)
    fixed = x.detach()
    assert torch.autograd.gradcheck(
        lambda *some: torch.func.functional_call(
            layer, dict(zip(names, some, strict=True)), (fixed,)
        ),
        values,
    )


# ---- the model ---------------------------------------------------------------------------------


def test_the_head_reads_the_sum_of_all_orders():
    poly = create("polyformer", small_graph(), num_layers=2)
    (tokens,), logits = whole(poly)
    with torch.no_grad():
        h = poly.input(tokens)
        for block in poly.blocks:
            h = h + block.attention(block.attention_norm(h))
            inner = torch.nn.functional.gelu(block.ffn_in(block.ffn_norm(h)))
            h = h + block.ffn_out(inner)
        summed = h[:, 0] + h[:, 1] + h[:, 2] + h[:, 3]
        expected = poly.output(torch.relu(poly.inner(summed)))
    assert torch.allclose(logits, expected, atol=1e-5)


@every_basis
@pytest.mark.parametrize("propagation", ["features", "hidden"])
def test_renumbered_nodes_have_the_same_logits(basis, propagation):
    graph = small_graph()
    order = np.random.default_rng(0).permutation(80)  # new number of each node
    source, target = graph.to_edge_index()
    features, labels = np.empty_like(graph.features), np.empty_like(graph.labels)
    features[order], labels[order] = graph.features, graph.labels
    other = dhilgt.Graph.from_edges(
        order[source], order[target], num_nodes=80, features=features, labels=labels
    )
    options = {"basis": basis, "propagation": propagation}
    first, second = (whole(create("polyformer", one, **options))[1] for one in (graph, other))
    assert torch.allclose(first, second[torch.from_numpy(order)], atol=1e-5)


@pytest.mark.parametrize("propagation", ["features", "hidden"])
def test_a_node_does_not_depend_on_its_batch(propagation):
    poly = create("polyformer", small_graph(), propagation=propagation, batch_size=7)
    (alone,) = poly.inference_batches([5]).iterate()
    everything = list(poly.inference_batches().iterate())
    assert len(everything) == (12 if propagation == "features" else 1)
    with torch.no_grad():
        logits = torch.cat([poly.eval()(*batch.to("cpu").inputs) for batch in everything])
        assert torch.allclose(poly(*alone.to("cpu").inputs)[0], logits[5], atol=1e-5)


@every_basis
@pytest.mark.parametrize("as_sparse", [False, True])
def test_polynomials_before_and_after_the_first_layer_are_the_same(basis, as_sparse):
    graph = lonely_graph()
    if as_sparse:
        graph = graph.with_data(features=scipy.sparse.csr_matrix(graph.features))
    nodes = np.flatnonzero(graph.labels >= 0)[:20]
    results = []
    for propagation in ("features", "hidden"):
        poly = create("polyformer", graph, basis=basis, propagation=propagation).eval()
        (batch,) = poly.train_batches(nodes).iterate()
        inputs = batch.to("cpu").inputs
        # Forward of the training path, without dropout.
        logits = poly.logits(*inputs)
        torch.nn.functional.cross_entropy(logits, torch.from_numpy(graph.labels[nodes])).backward()
        results.append((logits.detach(), {name: p.grad for name, p in poly.named_parameters()}))
    (first, gradients), (second, others) = results
    assert torch.allclose(first, second, atol=1e-5)
    assert gradients.keys() == others.keys()
    for name, gradient in gradients.items():
        assert gradient.abs().max() > 0, name
        assert torch.allclose(gradient, others[name], atol=1e-5), name


def test_wide_features_are_propagated_after_the_first_layer(monkeypatch):
    graph = small_graph()  # 12 features
    assert create("polyformer", graph, hidden_channels=2).propagates_features
    narrow = {"hidden_channels": 1, "heads": 1}
    assert not create("polyformer", graph, **narrow).propagates_features
    assert create("polyformer", graph, **narrow, propagation="features").propagates_features
    assert not create("polyformer", graph, propagation="hidden").propagates_features
    monkeypatch.setattr(model, "_MOST_BYTES", 4 * 80 * 4 * 1 - 1)
    assert create("polyformer", graph, **narrow).propagates_features


def test_tokens_that_do_not_fit_are_refused_with_a_way_out(monkeypatch):
    monkeypatch.setattr(model, "available_bytes", lambda: 4 * 80 * 4 * 12 - 1)
    with pytest.raises(MemoryLimitError, match=r'12 features take .* pass propagation="hidden"'):
        create("polyformer", small_graph())
    create("polyformer", small_graph(), propagation="hidden")


def test_every_basis_is_a_variant():
    variants = baselines.describe("polyformer")["variants"]
    assert {settings.get("basis", "monomial") for settings in variants.values()} == set(BASES)
    with pytest.raises(ConfigError, match="hermite"):
        create("polyformer", small_graph(), basis="hermite")
    with pytest.raises(ConfigError, match="multiple of heads"):
        create("polyformer", small_graph(), heads=3)


def test_published_settings_of_a_graph_have_both_learning_rates():
    poly = baselines.create("polyformer", small_graph(), variant="squirrel")
    rest, attention = build_optimizer(poly, poly.train_config("squirrel")).param_groups
    assert (rest["lr"], rest["weight_decay"]) == (1e-4, 0)
    assert (attention["lr"], attention["weight_decay"]) == (pytest.approx(1e-3), 1e-7)
    assert baselines.describe("polyformer")["variant_recipes"].keys() == published.models().keys()


def test_the_attention_learns_at_a_rate_of_its_own():
    poly = create("polyformer", small_graph(), attention_rate=0.2, attention_decay=0.5)
    config = poly.train_config(lr=0.1, weight_decay=0.3)
    rest, attention = build_optimizer(poly, config).param_groups
    assert (rest["lr"], rest["weight_decay"]) == (0.1, 0.3)
    assert (attention["lr"], attention["weight_decay"]) == (pytest.approx(0.02), 0.5)
    own = {id(p) for name, p in poly.named_parameters() if ".attention." in name}
    assert {id(p) for p in attention["params"]} == own
    assert len(own) + len(rest["params"]) == len(list(poly.parameters()))


def test_an_attention_with_a_tiny_rate_stays_as_it_was():
    poly = create("polyformer", small_graph(), attention_rate=1e-12)
    before = weights(poly)
    worker = trainer(poly, epochs=2, optimizer="adam", warmup_epochs=1)
    worker.fit(poly.train_batches(range(40)))
    moved = {
        name
        for name, tensor in weights(poly).items()
        if name != "begun" and not torch.allclose(tensor, before[name], rtol=0, atol=1e-9)
    }
    assert moved == {name for name, _ in poly.named_parameters() if ".attention." not in name}


@needs_data
def test_scores_on_cora():
    score = accuracy_on_cora("polyformer", epochs=20, recipe={"lr": 5e-3}, order=4)
    assert score >= 0.83
