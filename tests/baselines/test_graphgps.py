"""GraphGPS against its equations, written the slow way."""

import math
from dataclasses import fields

import numpy as np
import pytest
import torch

from dhilgt import baselines
from dhilgt.baselines.graphgps import attention, encodings, model
from dhilgt.baselines.graphgps.attention import (
    GlobalAttention,
    exact_attention,
    favor_attention,
    orthogonal_directions,
)
from dhilgt.baselines.graphgps.encodings import LaplacianEncoder, laplacian_pairs, walk_returns
from dhilgt.baselines.graphgps.messages import GatedConv, MeanConv
from dhilgt.baselines.graphgps.model import GPSLayer, GraphGPSSettings
from dhilgt.baselines.shared.message_graph import CleanGraph
from dhilgt.errors import ConfigError
from dhilgt.graph.graph import Graph
from tests.baselines.cases import create, lonely_graph, small_graph, trainer
from tests.baselines.cora import accuracy_on_cora
from tests.real_data import needs_data


def logits_of(gps):
    (batch,) = gps.inference_batches().iterate()
    with torch.no_grad():
        return gps.eval()(*batch.to("cpu").inputs)


def heads(*shape, size=1.0, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return [size * torch.randn(*shape, generator=generator) for _ in range(3)]


# ---- message passing ---------------------------------------------------------------------------


def test_a_gated_convolution_is_its_formula():
    graph = lonely_graph()
    torch.manual_seed(0)
    conv, h = GatedConv(6).eval(), torch.randn(80, 6)
    adjacency = CleanGraph.of(graph, self_loops=False).adjacency("ones")
    with torch.no_grad():
        actual = conv(h, adjacency)
        for node in range(80):
            above, below = torch.zeros(6), torch.zeros(6)
            for other in graph.neighbors(node):
                gate = torch.sigmoid(conv.gate_target(h[node]) + conv.gate_source(h[other]))
                above += gate * conv.others(h[other])
                below += gate
            mixed = conv.own(h[node]) + above / (below + 1e-6)
            expected = torch.relu(mixed / math.sqrt(1 + conv.norm.eps))
            assert torch.allclose(actual[node], expected, atol=1e-5)


def test_a_gated_convolution_has_the_gradients_of_its_formula():
    clean = CleanGraph.of(lonely_graph(), self_loops=False)
    adjacency, h = clean.adjacency("ones"), torch.randn(80, 6)
    conv = GatedConv(6)
    mask = adjacency.to_dense()[..., None]  # [n, n, 1]

    def plain(h):
        gates = mask * torch.sigmoid(conv.gate_target(h)[:, None] + conv.gate_source(h)[None])
        mixed = (gates * conv.others(h)[None]).sum(1) / (gates.sum(1) + 1e-6)
        return torch.relu(conv.norm(conv.own(h) + mixed))

    found = []
    for make in (plain, lambda h: conv(h, adjacency)):
        x = h.clone().requires_grad_()
        out = make(x)
        weights = (x, *conv.parameters())
        found.append([out, *torch.autograd.grad((out * torch.sin(h)).sum(), weights)])
    for one, other in zip(*found, strict=True):
        assert torch.allclose(one, other, atol=1e-4)


def test_sage_averages_neighbours_beside_the_node():
    graph = lonely_graph()
    conv, h = MeanConv(6), torch.randn(80, 6)
    actual = conv(h, CleanGraph.of(graph, self_loops=False).adjacency("row"))
    for node in range(80):
        near = list(graph.neighbors(node))
        mean = h[near].mean(0) if near else torch.zeros(6)
        expected = conv.own(h[node]) + conv.others.weight @ mean
        assert torch.allclose(actual[node], expected, atol=1e-5)


# ---- attention ---------------------------------------------------------------------------------


def slow_attention(query, key, value):
    out = torch.zeros_like(value)
    for head in range(query.shape[0]):
        for i in range(query.shape[1]):
            scores = [float(query[head, i] @ k) / math.sqrt(query.shape[2]) for k in key[head]]
            powers = [math.exp(score) for score in scores]
            for weight, row in zip(powers, value[head], strict=True):
                out[head, i] += weight / sum(powers) * row
    return out


def test_exact_attention_is_softmax_over_all_nodes():
    query, key, value = heads(2, 9, 4)
    expected = slow_attention(query, key, value)
    assert torch.allclose(exact_attention(query, key, value), expected, atol=1e-5)


def test_attention_in_parts_is_that_of_all_at_once(monkeypatch):
    # Dropout that drops nothing: each part would draw a mask of its own.
    monkeypatch.setattr(attention, "dropout", lambda h, p, training=True: h)
    found = []
    for pairs in (1 << 26, 70):  # all, or 3 queries of 2 heads over 10 nodes
        monkeypatch.setattr(attention, "_PAIRS", pairs)
        inputs = [part.requires_grad_() for part in heads(2, 10, 4)]
        mixed = exact_attention(*inputs, p=0.5)
        mixed.square().sum().backward()
        found.append([mixed, *(part.grad for part in inputs)])
    for one, other in zip(*found, strict=True):
        assert torch.allclose(one, other, atol=1e-5)


def test_attention_in_parts_draws_the_same_mask_again_for_the_gradient(monkeypatch):
    monkeypatch.setattr(attention, "_PAIRS", 50)
    query, key, value = heads(1, 10, 4)
    value.requires_grad_()
    torch.manual_seed(0)
    mixed = exact_attention(query, key, value, p=0.5)
    (gradient,) = torch.autograd.grad(mixed.sum(), value)
    # The output is linear in the values: with the mask of the forward pass, this is exact.
    assert (gradient * value).sum().item() == pytest.approx(mixed.sum().item(), abs=1e-4)


def test_half_of_the_weights_are_dropped():
    query, key, _ = heads(1, 40, 4)
    torch.manual_seed(0)
    weights = exact_attention(query, key, torch.eye(40)[None], p=0.5)
    whole = exact_attention(query, key, torch.eye(40)[None])
    assert 0.4 < float((weights == 0).float().mean()) < 0.6
    kept = weights != 0
    assert torch.allclose(weights[kept], 2 * whole[kept], atol=1e-5)


def test_random_features_approach_exact_attention_as_they_grow():
    query, key, value = heads(2, 30, 8, size=0.4)
    expected = slow_attention(query, key, value)
    errors = []
    for count in (16, 256, 4096):
        torch.manual_seed(1)
        draws = [
            favor_attention(query, key, value, orthogonal_directions(count, 8)) for _ in range(4)
        ]
        errors.append(float(torch.stack([(d - expected).square().mean() for d in draws]).mean()))
    # The variance falls with the number of features.
    assert errors[1] < errors[0] / 6
    assert errors[2] < errors[1] / 6
    assert math.sqrt(errors[2]) < 0.003


def test_random_features_stay_finite_for_large_queries_and_keys():
    query, key, value = heads(1, 20, 8, size=50.0)
    mixed = favor_attention(query, key, value, orthogonal_directions(16, 8))
    assert torch.isfinite(mixed).all()
    assert mixed.abs().max() <= value.abs().max() + 1e-3


def test_directions_are_orthogonal_in_blocks_and_as_long_as_gaussian_ones():
    torch.manual_seed(0)
    directions = orthogonal_directions(4000, 8)
    assert directions.shape == (4000, 8)
    block = directions[:8] @ directions[:8].T
    assert torch.allclose(block, torch.diag(block.diagonal()), atol=1e-4)
    assert directions.square().sum(1).mean().item() == pytest.approx(8, rel=0.05)
    for first in range(8):  # in each place of a block, no direction is more likely than another
        assert directions[first::8].mean(0).abs().max() < 4 / math.sqrt(500)


def test_large_graphs_get_random_features_unless_told_otherwise(monkeypatch):
    monkeypatch.setattr(model, "EXACT_NODES", 50)
    found = {
        (size, kind): create("graphgps", small_graph(size), attention=kind).layers[0].attention
        for size in (50, 80)
        for kind in ("auto", "exact", "performer")
    }
    exact = {key for key, layer in found.items() if layer.directions is None}
    assert exact == {(50, "auto"), (50, "exact"), (80, "exact")}
    assert found[80, "auto"].directions.shape == (int(8 * math.log(8)), 8)


def test_a_loaded_model_has_the_directions_it_was_trained_with(tmp_path):
    graph = small_graph()
    gps = create("graphgps", graph, attention="performer", seed=3)
    gps.save(tmp_path)
    assert torch.equal(logits_of(baselines.load(tmp_path, graph)), logits_of(gps))


# ---- a layer and the model ---------------------------------------------------------------------


@pytest.mark.parametrize(("kind", "norm"), [("gcn", "batch"), ("sage", "batch"), ("gcn", "none")])
def test_a_layer_is_that_of_pyg(kind, norm):
    pyg = pytest.importorskip("torch_geometric.nn")
    settings = GraphGPSSettings(hidden_channels=8, heads=2, local=kind, norm=norm)
    layer = GPSLayer(settings, None).eval()
    conv = pyg.GCNConv(8, 8) if kind == "gcn" else pyg.SAGEConv(8, 8)
    other = pyg.GPSConv(
        8, conv, heads=2, act="gelu", norm="batch_norm" if norm == "batch" else None
    ).eval()
    local = {
        "gcn": lambda: (conv.lin.weight.copy_(layer.local.weight),
                        conv.bias.copy_(layer.local.bias.normal_())),
        "sage": lambda: (conv.lin_l.weight.copy_(layer.local.others.weight),
                         conv.lin_l.bias.copy_(layer.local.own.bias),
                         conv.lin_r.weight.copy_(layer.local.own.weight)),
    }  # fmt: skip
    with torch.no_grad():
        local[kind]()
        other.attn.in_proj_weight.copy_(layer.attention.qkv.weight)
        other.attn.in_proj_bias.copy_(layer.attention.qkv.bias.normal_())
        other.attn.out_proj.load_state_dict(layer.attention.output.state_dict())
        other.mlp[0].load_state_dict(layer.inner.state_dict())
        other.mlp[3].load_state_dict(layer.outer.state_dict())
        graph, h = small_graph(), torch.randn(80, 8)
        clean = CleanGraph.of(graph, self_loops=kind == "gcn")
        actual = layer(h, clean.adjacency("symmetric" if kind == "gcn" else "row"))
        expected = other(h, torch.from_numpy(graph.to_edge_index()))
    assert torch.allclose(actual, expected, atol=1e-5)


def test_the_model_starts_with_features_beside_positions():
    gps = create("graphgps", small_graph(), num_layers=1)
    x = gps.inference_batches().iterate().__next__().to("cpu").inputs[0]
    gps.eval()
    seen = []
    gps.layers[0].register_forward_pre_hook(lambda layer, inputs: seen.append(inputs[0]))
    logits_of(gps)
    assert x.shape == (80, 12 + 2 * 4)
    with torch.no_grad():
        assert torch.allclose(seen[0][:, :12], gps.input(x[:, :12]), atol=1e-6)
        assert torch.allclose(seen[0][:, 12:], gps.encoder(x[:, 12:]), atol=1e-6)


def renamed(graph, order):
    """The graph in which node i is what was node order[i]."""
    place = np.argsort(order)
    source, target = graph.to_edge_index()
    return Graph.from_edges(
        place[source], place[target], num_nodes=len(order), features=graph.features[order],
        labels=graph.labels[order],
    )  # fmt: skip


@pytest.mark.parametrize("kind", ["gcn", "sage", "gated"])
@pytest.mark.parametrize("far", ["exact", "performer"])
@pytest.mark.parametrize("encoding", ["none", "random-walk"])
def test_the_order_of_the_nodes_does_not_matter(kind, far, encoding):
    graph = small_graph()
    order = np.random.default_rng(0).permutation(80)
    options = {"local": kind, "attention": far, "encoding": encoding, "norm": "batch"}
    one, other = (create("graphgps", g, **options) for g in (graph, renamed(graph, order)))
    assert torch.allclose(logits_of(one)[order], logits_of(other), atol=1e-4)


@pytest.mark.parametrize(
    "options",
    [
        {"local": "gcn"},
        {"local": "sage", "norm": "layer", "attention": "performer"},
        {"local": "gated", "norm": "batch", "encoding": "random-walk"},
        {"encoding": "none"},
    ],
)
def test_every_weight_gets_a_gradient(options):
    gps = create("graphgps", small_graph(), learns_by_heart=True, **options).train()
    (batch,) = gps.train_batches(range(80)).iterate()
    logits = gps(*batch.to("cpu").inputs)
    torch.nn.functional.cross_entropy(logits, batch.labels).backward()
    without = [
        name for name, weight in gps.named_parameters()
        if weight.grad is None or not weight.grad.abs().sum() > 0
    ]  # fmt: skip
    assert without == []


@pytest.mark.parametrize("kind", ["sage", "gated"])
def test_trains_in_mixed_precision(kind):
    gps = create(
        "graphgps", small_graph(), local=kind, attention="performer", encoding="random-walk"
    )
    result = trainer(gps, epochs=2, precision="bf16").fit(gps.train_batches(range(40)))
    assert np.isfinite([line["train_loss"] for line in result.history]).all()


# ---- positions ---------------------------------------------------------------------------------


def test_pairs_are_eigenvectors_and_eigenvalues_of_the_laplacian():
    clean = CleanGraph.of(small_graph(), self_loops=False)
    laplacian = np.eye(80) - clean.adjacency("symmetric").to_dense().numpy()
    pairs = laplacian_pairs(clean, 5)
    assert pairs.shape == (80, 5, 2)
    expected = np.sort(np.linalg.eigvalsh(laplacian))[1:6]
    assert pairs[0, :, 1] == pytest.approx(expected, abs=1e-4)
    for vector, value in zip(pairs[..., 0].T, pairs[0, :, 1], strict=True):
        assert np.linalg.norm(vector) == pytest.approx(1, abs=1e-4)
        assert np.allclose(laplacian @ vector, value * vector, atol=1e-3)


def test_a_graph_with_fewer_eigenvectors_has_zeros():
    path = CleanGraph.of(Graph.from_edges([0, 1], [1, 2]), self_loops=False)
    assert not laplacian_pairs(path, 4)[:, 2:].any()


@pytest.mark.parametrize("steps", [1, 2, 5, 6])
@pytest.mark.parametrize("bytes_at_a_time", [1, 7 * 4 * 80, 1 << 26])
def test_returns_are_the_diagonals_of_powers(steps, bytes_at_a_time, monkeypatch):
    monkeypatch.setattr(encodings, "_BLOCK_BYTES", bytes_at_a_time)
    clean = CleanGraph.of(lonely_graph(), self_loops=False)
    walk = clean.adjacency("row").to_dense().numpy().astype(np.float64)
    expected = [np.diag(np.linalg.matrix_power(walk, step)) for step in range(1, steps + 1)]
    assert np.allclose(walk_returns(clean, steps), np.stack(expected, 1), atol=1e-5)


def test_signs_of_eigenvectors_are_drawn_in_training_alone():
    torch.manual_seed(0)
    encoder = LaplacianEncoder(4, 2)
    pairs = torch.randn(10, 4)
    flips = [torch.tensor([a, 1, b, 1]) for a in (1.0, -1.0) for b in (1.0, -1.0)]
    encoder.eval()
    allowed = [encoder(pairs * flip) for flip in flips]
    assert torch.equal(encoder(pairs), allowed[0])
    encoder.train()
    drawn = [encoder(pairs) for _ in range(60)]
    found = [next(i for i, one in enumerate(allowed) if torch.allclose(one, d)) for d in drawn]
    assert set(found) == {0, 1, 2, 3}


# ---- batches -----------------------------------------------------------------------------------


def test_blocks_hold_all_nodes_with_their_own_positions():
    gps = create("graphgps", small_graph(), batch_size=25)
    loader = gps.train_batches(range(40))
    loader.set_epoch(1)
    blocks = loader.blocks()
    assert sorted(np.concatenate(blocks)) == list(range(80))
    whole = gps.inference_batches().iterate().__next__().to("cpu").inputs[0]
    for block, batch in zip(blocks, loader.iterate(), strict=True):
        assert torch.equal(batch.to("cpu").inputs[0], whole[torch.from_numpy(block)])


def test_one_block_of_everything_is_the_whole_graph():
    graph = small_graph()
    one, other = create("graphgps", graph), create("graphgps", graph, batch_size=80)
    (first,), (second,) = (m.train_batches(range(40)).iterate() for m in (one, other))
    with torch.no_grad():
        a = one.eval()(*first.to("cpu").inputs)
        b = other.eval()(*second.to("cpu").inputs)
    assert torch.allclose(a, b, atol=1e-5)


# ---- settings ----------------------------------------------------------------------------------

# For each setting, another value, and the settings that it matters with.
OTHERS = {
    "hidden_channels": (32, {}),
    "num_layers": (3, {}),
    "heads": (4, {}),
    "dropout": (0.7, {}),
    "attention_dropout": (0.1, {}),
    "local": ("sage", {}),
    "attention": ("performer", {}),
    "random_features": (5, {"attention": "performer"}),
    "norm": ("layer", {}),
    "encoding": ("random-walk", {}),
    "encoding_channels": (6, {}),
    "frequencies": (3, {}),
    "walk_steps": (7, {"encoding": "random-walk"}),
    "batch_size": (30, {}),
}


def trace(**settings):
    """What a model is and does in its first training step: shapes, batches, logits."""
    gps = create("graphgps", small_graph(), **settings).train()
    loader = gps.train_batches(range(40))
    torch.manual_seed(0)
    first = gps(*next(iter(loader.iterate())).to("cpu").inputs)
    shapes = [tuple(tensor.shape) for tensor in gps.state_dict().values()]
    return shapes, len(loader), first.tolist()


def test_the_same_settings_do_the_same():
    assert trace() == trace()
    assert OTHERS.keys() == {field.name for field in fields(GraphGPSSettings)}


@pytest.mark.parametrize("name", OTHERS)
def test_every_setting_is_read(name):
    value, around = OTHERS[name]
    assert trace(**around) != trace(**around | {name: value})


def test_dropout_of_weights_and_of_random_features_are_both_read():
    for far in ("exact", "performer"):
        one, other = (trace(attention=far, attention_dropout=p) for p in (0.0, 0.9))
        assert one[0] == other[0]
        assert one[2] != other[2]


def test_heads_and_positions_need_room():
    with pytest.raises(ConfigError, match="not a multiple of heads = 3"):
        create("graphgps", small_graph(), heads=3)
    with pytest.raises(ConfigError, match="encoding_channels = 16 leave no room"):
        create("graphgps", small_graph(), encoding_channels=16)
    create("graphgps", small_graph(), encoding_channels=16, encoding="none")


def test_attention_takes_heads_of_width_one():
    assert GlobalAttention(3, 3, 0.0, 2)(torch.ones(4, 3)).shape == (4, 3)
    gps = create("graphgps", small_graph(), heads=16, attention="performer")
    result = trainer(gps, epochs=2).fit(gps.train_batches(range(40)))
    assert np.isfinite([line["train_loss"] for line in result.history]).all()


@pytest.mark.full
@needs_data
@pytest.mark.parametrize("changes", [{}, {"local": "gated"}, {"variant": "batch-norm"}])
def test_beats_the_mlp_on_cora(changes):
    mlp = accuracy_on_cora("mlp", epochs=60)
    # The rate of the paper is for 200 epochs.
    recipe = {"lr": 5e-3, "warmup_epochs": 3}
    actual = accuracy_on_cora(
        "graphgps", epochs=30, recipe=recipe, attention="performer", **changes
    )
    assert actual > mlp + 0.05
