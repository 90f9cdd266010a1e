"""Each baseline against what its paper writes, or against another implementation of it."""

import numpy as np
import pytest
import torch

from dhilgt import baselines
from dhilgt.baselines.shared.message_graph import CleanGraph
from tests.baselines.cases import create, small_graph


def whole(model):
    """The inputs of a model for all nodes, and its logits on them."""
    (batch,) = model.inference_batches().iterate()
    inputs = batch.to("cpu").inputs
    with torch.no_grad():
        return inputs, model.eval()(*inputs)


def dense_hat(graph):
    matrix = CleanGraph.of(graph).adjacency("ones").to_dense()
    root = matrix.sum(1) ** -0.5
    return root[:, None] * matrix * root[None, :]


def copied(target, source):
    with torch.no_grad():
        for one, other in zip(target.parameters(), source.parameters(), strict=True):
            one.copy_(other)


def test_gcn_is_its_formula():
    graph = small_graph()
    model = create("gcn", graph, norm="none")
    (x, _, _), logits = whole(model)
    hat, (first, last) = dense_hat(graph), model.layers
    hidden = torch.relu(hat @ x @ first.weight.T + first.bias)
    assert torch.allclose(logits, hat @ hidden @ last.weight.T + last.bias, atol=1e-5)


def test_gcn_with_a_linear_head_leaves_the_features_whole():
    graph = small_graph()
    model = create("gcn", graph, num_layers=1, linear_head=True, dropout=0.9)
    (x, _, _), logits = whole(model)
    conv, head = model.layers
    hidden = torch.relu(dense_hat(graph) @ x @ conv.weight.T + conv.bias)
    assert torch.allclose(logits, head(hidden), atol=1e-5)


def test_sage_averages_neighbours_without_the_node():
    graph = small_graph()
    model = create("sage", graph, num_layers=1)
    (x, _, _), logits = whole(model)
    mean = torch.stack(
        [
            x[list(graph.neighbors(node))].mean(0) if graph.degrees[node] else torch.zeros(12)
            for node in range(80)
        ]
    )
    hidden = torch.relu(model.own[0](x) + mean @ model.others[0].weight.T)
    hidden = hidden / hidden.norm(dim=1, keepdim=True).clamp_min(1e-12)
    assert torch.allclose(logits, model.head(hidden), atol=1e-5)


@pytest.mark.parametrize("layers", [1, 2])
def test_linkx_is_that_of_pyg(layers):
    reference = pytest.importorskip("torch_geometric.nn.models").LINKX
    graph = small_graph(directed=True)
    model = create(
        "linkx", graph, hidden_channels=8, edge_layers=layers, node_layers=layers,
        num_layers=layers, dropout=0.0,
    )  # fmt: skip
    other = reference(80, 12, 8, 3, layers, num_edge_layers=layers, num_node_layers=layers)
    with torch.no_grad():
        other.edge_lin.weight.copy_(model.edge_input.weight)
        other.edge_lin.bias.copy_(model.edge_input.bias)
        if layers > 1:
            copied(other.edge_norm, model.edge_norm)
            copied(other.edge_mlp, model.edge_mlp)
        copied(other.node_mlp, model.node_mlp)
        other.cat_lin1.weight.copy_(model.mix.weight[:, :8])
        other.cat_lin1.bias.copy_(model.mix.bias)
        other.cat_lin2.weight.copy_(model.mix.weight[:, 8:])
        other.cat_lin2.bias.zero_()
        copied(other.final_mlp, model.output)
        (_, x), logits = whole(model)
        # PyG sends along edges: the row of a node is made of those that point at it.
        edges = torch.from_numpy(graph.to_edge_index()).flip(0)
        assert torch.allclose(other.eval()(x, edges), logits, atol=1e-5)


@pytest.mark.parametrize(
    ("heads", "aggregate", "variant"), [(1, "add", "pyg"), (2, "cat", "paper")]
)
def test_sgformer_is_that_of_pyg(heads, aggregate, variant):
    reference = pytest.importorskip("torch_geometric.nn.models").SGFormer
    graph = small_graph()
    model = create("sgformer", graph, heads=heads, aggregate=aggregate, variant=variant)
    s = model.settings
    other = reference(
        12, s.hidden_channels, 3, trans_num_layers=s.attention_layers, trans_num_heads=heads,
        gnn_num_layers=s.graph_layers, graph_weight=s.graph_weight, aggregate=aggregate,
    ).eval()  # fmt: skip
    with torch.no_grad():
        copied(other.trans_conv.fcs, model.attention.input)
        copied(other.trans_conv.attns, model.attention.layers)
        copied(other.trans_conv.bns, model.attention.norms)
        copied(other.graph_conv.fcs, model.convolution.input)
        for one, ours in zip(other.graph_conv.convs, model.convolution.layers, strict=True):
            one.lin.weight.copy_(ours.weight)
            one.bias.copy_(ours.bias)
        copied(other.graph_conv.bns, model.convolution.norms)
        copied(other.fc, model.output)
        (x, _, _), logits = whole(model)
        edges = torch.from_numpy(graph.to_edge_index())
        actual = other(x, edges, torch.zeros(80, dtype=torch.int64))
    assert torch.allclose(actual, torch.log_softmax(logits, -1), atol=1e-5)


def test_sgformer_attention_is_the_all_pair_one():
    from dhilgt.baselines.sgformer import LinearAttention

    torch.manual_seed(0)
    layer, x = LinearAttention(6, 1), torch.randn(20, 6)
    query, key, value = (part(x) for part in (layer.query, layer.key, layer.value))
    query, key = query / query.norm(dim=1)[:, None], key / key.norm(dim=1)[:, None]
    scores = 20 * torch.eye(20) + query @ key.T
    expected = (scores / scores.sum(1, keepdim=True)) @ value
    assert torch.allclose(layer(x), expected, atol=1e-5)


def test_nagphormer_tokens_are_repeated_dense_products():
    graph = small_graph()
    model = create("nagphormer", graph, hops=3, encoding_channels=2)
    (tokens,), _ = whole(model)
    x = tokens[:, 0]
    assert tokens.shape == (80, 4, 14)
    assert np.array_equal(x[:, :12].numpy(), graph.features)
    assert x[:, 12:].norm(dim=0) == pytest.approx([1, 1], abs=1e-4)
    hat = dense_hat(graph)
    for hop in range(4):
        assert torch.allclose(tokens[:, hop], torch.matrix_power(hat, hop) @ x, atol=1e-5)


def test_nagphormer_reads_hops_out_against_the_node_itself():
    graph = small_graph()
    model = create("nagphormer", graph)
    (tokens,), logits = whole(model)
    with torch.no_grad():
        z = model.encoder(model.input(tokens))
        node = 5
        scores = torch.stack([model.score(torch.cat([z[node, 0], z[node, k]])) for k in (1, 2)])
        attention = torch.softmax(scores.flatten(), 0)
        mixed = z[node, 0] + attention[0] * z[node, 1] + attention[1] * z[node, 2]
        expected = model.output(torch.relu(model.narrow(mixed)))
    assert torch.allclose(logits[node], expected, atol=1e-5)


def test_nagphormer_without_hops_or_encoding_is_an_mlp_over_a_node():
    graph = small_graph()
    model = create("nagphormer", graph, hops=0, encoding_channels=0)
    (tokens,), logits = whole(model)
    assert tokens.shape == (80, 1, 12)
    assert torch.isfinite(logits).all()


@pytest.mark.parametrize("name", ["gcn", "sage", "sgformer"])
def test_one_block_of_everything_is_the_whole_graph(name):
    graph = small_graph()
    one, other = create(name, graph), create(name, graph, batch_size=80)
    (first,), (second,) = (m.train_batches(range(40)).iterate() for m in (one, other))
    with torch.no_grad():
        a = one.eval()(*first.to("cpu").inputs)
        b = other.eval()(*second.to("cpu").inputs)
    assert torch.allclose(a, b, atol=1e-6)


def test_linkx_belongs_to_one_graph():
    model = create("linkx", small_graph())
    with pytest.raises(baselines.base.GraphError, match="each of 80 nodes"):
        model.prepare(small_graph(81))
