"""DIFFormer against sums over all pairs of nodes."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import dhilgt
from dhilgt import baselines
from dhilgt.baselines import difformer
from dhilgt.baselines.difformer import DiffusionAttention
from tests.baselines.cases import create, small_graph, trainer
from tests.baselines.test_models import dense_hat, whole
from tests.real_data import needs_data


def attention(kernel="simple", *, row_norm=True, heads=1, value_weight=False, width=6, seed=0):
    torch.manual_seed(seed)
    return DiffusionAttention(width, heads, kernel, row_norm, value_weight)


def pair_weights(layer, h):
    """The weights w_ij of each head, [H, n, n], by their definition."""
    width = h.shape[1]
    out = []
    query, key = layer.query(h), layer.key(h)
    for head in range(layer.heads):
        q = query[:, head * width : (head + 1) * width]
        k = key[:, head * width : (head + 1) * width]
        if layer.kernel == "sigmoid":
            out.append(torch.sigmoid(q @ k.T))
        elif layer.row_norm:
            out.append(1 + (q / q.norm(dim=1, keepdim=True)) @ (k / k.norm(dim=1, keepdim=True)).T)
        else:
            out.append(1 + (q @ k.T) / (query.norm() * key.norm()))
    return torch.stack(out)


def mixed_by_pairs(layer, h):
    width = h.shape[1]
    attention = pair_weights(layer, h)
    attention = attention / attention.sum(-1, keepdim=True)
    total = 0
    for head in range(layer.heads):
        value = h
        if layer.value is not None:
            value = layer.value(h)[:, head * width : (head + 1) * width]
        total = total + attention[head] @ value
    return total / layer.heads


every_kernel = pytest.mark.parametrize(
    ("kernel", "row_norm"), [("simple", True), ("simple", False), ("sigmoid", True)]
)


@every_kernel
@pytest.mark.parametrize("heads", [1, 3])
@pytest.mark.parametrize("value_weight", [False, True])
def test_attention_is_the_sum_over_all_pairs(kernel, row_norm, heads, value_weight):
    layer = attention(kernel, row_norm=row_norm, heads=heads, value_weight=value_weight)
    h = torch.randn(25, 6)
    with torch.no_grad():
        assert torch.allclose(layer(h)[0], mixed_by_pairs(layer, h), atol=1e-5)


@every_kernel
@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10**6), n=st.integers(1, 30))
def test_attention_gives_means_of_values(kernel, row_norm, seed, n):
    """Weights are not negative and sum to 1 in each row, so no channel leaves its range."""
    layer = attention(kernel, row_norm=row_norm, seed=seed)
    h = torch.randn(n, 6)
    with torch.no_grad():
        mixed, values = layer(h)
    assert torch.equal(values, h)
    assert (mixed <= h.amax(0) + 1e-4).all()
    assert (mixed >= h.amin(0) - 1e-4).all()


def test_the_two_ways_to_normalise_are_different_models():
    """Scaled as a whole, weights are equal to within a few parts of n: a mean over all nodes."""
    h = torch.randn(400, 6)
    with torch.no_grad():
        by_row = pair_weights(attention(), h)
        as_one = pair_weights(attention(row_norm=False), h)
    assert (as_one - 1).abs().max() < 10 / 400
    assert (by_row - 1).abs().max() > 0.5


def test_keys_that_all_point_away_give_numbers():
    layer = attention(width=1)
    with torch.no_grad():
        layer.query.weight.fill_(1)
        layer.key.weight.fill_(-1)
        layer.query.bias.zero_()
        layer.key.bias.zero_()
    h = torch.ones(4, 1, requires_grad=True)
    mixed, _ = layer(h)
    mixed.sum().backward()
    assert torch.isfinite(mixed).all()
    assert torch.isfinite(h.grad).all()


def test_sigmoid_weights_that_all_vanish_give_numbers():
    layer = attention("sigmoid", width=1)
    with torch.no_grad():
        layer.query.weight.fill_(100)
        layer.key.weight.fill_(-100)
    h = torch.ones(4, 1, requires_grad=True)
    mixed, _ = layer(h)
    mixed.sum().backward()
    assert torch.isfinite(mixed).all()
    assert torch.isfinite(h.grad).all()


def test_sigmoid_attention_in_pieces_is_that_at_once(monkeypatch):
    layer, h = attention("sigmoid", heads=2, value_weight=True), torch.randn(23, 6)

    def actual():
        layer.zero_grad()
        mixed, _ = layer(h)
        mixed.square().sum().backward()
        with torch.no_grad():
            unlearning, _ = layer(h)
        return [mixed, unlearning, *(parameter.grad.clone() for parameter in layer.parameters())]

    at_once = actual()
    sizes = []
    plain = difformer._sigmoid_mix
    monkeypatch.setattr(difformer, "_PAIRS", 23 * 2 * 5)
    monkeypatch.setattr(
        difformer, "_sigmoid_mix", lambda q, k, v: sizes.append(len(q)) or plain(q, k, v)
    )
    in_pieces = actual()
    assert set(sizes) == {5, 3}
    for one, other in zip(at_once, in_pieces, strict=True):
        assert torch.allclose(one, other, atol=1e-5)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"residual": False, "layer_norm": False, "graph_weight": 0.7},
        {"source": True, "alpha": 0.25, "heads": 2, "value_weight": True},
        {"use_graph": False},
    ],
)
def test_the_model_is_its_formula(changes):
    graph = small_graph()
    model = create("difformer", graph, **changes)
    s = model.settings
    (x, _, _), logits = whole(model)
    hat = dense_hat(graph)

    def norm(number, h):
        return torch.layer_norm(
            h, h.shape[1:], model.norms[number].weight, model.norms[number].bias
        ) if s.layer_norm else h  # fmt: skip

    with torch.no_grad():
        first = h = torch.relu(norm(0, model.input(x)))
        for number, layer in enumerate(model.layers):
            far = mixed_by_pairs(layer, h)
            value = h
            if s.value_weight:
                value = layer.value(h).view(80, s.heads, -1).mean(1)
            near = hat @ value
            if not s.use_graph:
                step = far
            elif s.graph_weight:
                step = (1 - s.graph_weight) * far + s.graph_weight * near
            else:
                step = far + near
            if s.source:
                step = step + first
            if s.residual:
                step = s.alpha * step + (1 - s.alpha) * h
            h = norm(number + 1, step)
        assert torch.allclose(logits, model.output(h), atol=1e-4)


def test_without_the_graph_term_edges_do_not_matter():
    graph = small_graph()
    bare = dhilgt.Graph.from_edges(
        [0], [1], num_nodes=80, features=graph.features, labels=graph.labels
    )
    far, near = ({"use_graph": False}, {"use_graph": True})
    assert torch.equal(
        whole(create("difformer", graph, **far))[1], whole(create("difformer", bare, **far))[1]
    )
    assert not torch.allclose(
        whole(create("difformer", graph, **near))[1], whole(create("difformer", bare, **near))[1]
    )


def test_one_block_of_everything_is_the_whole_graph():
    graph = small_graph()
    one, other = create("difformer", graph), create("difformer", graph, batch_size=80)
    (first,), (second,) = (m.train_batches(range(40)).iterate() for m in (one, other))
    with torch.no_grad():
        a = one.eval()(*first.to("cpu").inputs)
        b = other.eval()(*second.to("cpu").inputs)
    assert torch.allclose(a, b, atol=1e-6)


@pytest.mark.parametrize("variant", baselines.describe("difformer")["variants"])
def test_every_variant_learns(variant):
    graph = small_graph()
    model = create("difformer", graph, variant=variant, dropout=0.0)
    history = trainer(model, epochs=30).fit(model.train_batches(range(40))).history
    assert history[-1]["train_loss"] < 0.7 * history[0]["train_loss"]


def test_the_variants_say_how_queries_are_scaled():
    variants = baselines.describe("difformer")["variants"]
    graph = small_graph(40)
    row_norm = {
        name: baselines.create("difformer", graph, variant=name).settings.row_norm
        for name in variants
    }
    assert row_norm["rows"] is True
    assert row_norm["paper"] is False  # as in the code of the published figures
    assert variants["released"] == variants["paper"]
    assert row_norm["heterophily"] is False


@pytest.mark.parametrize("variant", ["paper", "rows", "sigmoid"])
def test_trains_in_mixed_precision(variant):
    model = create("difformer", small_graph(), variant=variant)
    worker = trainer(model, epochs=2, precision="bf16")
    result = worker.fit(model.train_batches(range(40)), model.inference_batches(range(40, 80)))
    assert all(math.isfinite(line["train_loss"]) for line in result.history)


@needs_data
@pytest.mark.full
def test_beats_the_mlp_on_chameleon():
    from tests.baselines.real import mean_on_chameleon

    mlp = mean_on_chameleon("mlp", epochs=60)
    assert mean_on_chameleon("difformer", variant="heterophily", epochs=60) > mlp + 0.01
