"""Message passing below the layers: its equations, its gradients, what it refuses, its export."""

import numpy as np
import pytest
import torch

from dhilgt import DHILGT
from dhilgt.errors import ConfigError
from dhilgt.model.export import export_onnx, export_program
from dhilgt.model.messages import GraphNorm
from dhilgt.model.sparse_product import symmetric_product
from tests.model.cases import batch_of, gradients, model_of
from tests.model.ego_cases import SETTINGS, ego_rows

pytestmark = pytest.mark.filterwarnings("ignore:Sparse CSR tensor support")
torch.set_num_threads(1)
NODES = 9
LAYERS = [0, 1, 2]


def weights(num_nodes=NODES, seed=0, dtype=torch.float32):
    """A random symmetric matrix, mostly zeros; the last node has no edge."""
    draw = torch.Generator().manual_seed(seed)
    full = torch.rand(num_nodes, num_nodes, generator=draw, dtype=torch.float64).triu(1)
    full[full < 0.6] = 0
    full[:, -1] = 0
    return (full + full.T).to(dtype)


def messenger(num_layers=0, rounds=2, **settings):
    return model_of(num_layers=num_layers, message_layers=rounds, **settings)


def inputs_of(dtype=torch.float32, **options):
    """Features of all nodes, rows of node indices, and the weights of the edges."""
    return (*batch_of(nodes=NODES, dtype=dtype, **options), None, None)


def by_hand(model, x, adjacency):
    """The representations after all rounds, node by node."""
    state = {name: value.double().numpy() for name, value in model.state_dict().items()}
    x, adjacency = x.double().numpy(), adjacency.double().numpy()
    h = np.maximum(x @ state["input.layers.0.weight"].T + state["input.layers.0.bias"], 0)
    for number in range(model.config.message_layers):
        name = f"messages.rounds.{number}."
        out = np.empty_like(h)
        for node in range(len(h)):
            received = np.zeros(h.shape[1])
            for other in np.flatnonzero(adjacency[node]):
                received += adjacency[node, other] * h[other]
            out[node] = state[name + "own.weight"] @ h[node]
            out[node] += state[name + "neighbors.weight"] @ received
        mean, deviation = out.mean(0), np.sqrt(out.var(0) + 1e-5)
        out = (out - mean) / deviation * state[name + "norm.weight"] + state[name + "norm.bias"]
        h = np.maximum(out, 0)
    return h


def with_rows(model, rows):
    """The same model without messages, whose input layer passes `rows` on as they are."""
    config = model.config.to_dict() | {"message_layers": 0, "in_channels": rows.shape[1]}
    plain = DHILGT(**config).to(rows.dtype)
    state = {n: v for n, v in model.state_dict().items() if not n.startswith("messages.")}
    width = rows.shape[1]
    state["input.layers.0.weight"] = torch.eye(width, dtype=rows.dtype)
    state["input.layers.0.bias"] = torch.zeros(width, dtype=rows.dtype)
    plain.load_state_dict(state)
    return plain.eval()


@pytest.mark.parametrize("num_layers", LAYERS)
@pytest.mark.parametrize("readout", ["ego", "attention"])
def test_the_layers_take_what_the_rounds_make_of_all_nodes(num_layers, readout):
    model = messenger(num_layers, rounds=3, readout=readout, dtype=torch.float64)
    x, index, spd, *_ = inputs_of(torch.float64)
    adjacency = weights(dtype=torch.float64)
    rows = torch.from_numpy(by_hand(model, x, adjacency))
    with torch.no_grad():
        expected = with_rows(model, rows)(rows, index, spd)
        actual = model(x, index, spd, None, None, adjacency.to_sparse_csr())
    torch.testing.assert_close(actual, expected)


def test_sparse_features_give_the_same():
    model = messenger()
    x, *rest = inputs_of()
    x[torch.rand(x.shape, generator=torch.Generator().manual_seed(1)) < 0.6] = 0
    adjacency = weights().to_sparse_csr()
    with torch.no_grad():
        torch.testing.assert_close(
            model(x.to_sparse_csr(), *rest, adjacency), model(x, *rest, adjacency)
        )


def test_nodes_may_be_numbered_in_any_order():
    model = messenger(1)
    x, index, spd, *_ = inputs_of()
    order = torch.randperm(NODES, generator=torch.Generator().manual_seed(3))
    place = torch.argsort(order)
    renamed = torch.where(index < 0, index, place[index.clamp(min=0)])
    full = weights()
    with torch.no_grad():
        torch.testing.assert_close(
            model(x[order], renamed, spd, None, None, full[order][:, order].to_sparse_csr()),
            model(x, index, spd, None, None, full.to_sparse_csr()),
        )


def test_the_products_gradient_is_that_of_the_dense_product():
    full = weights(dtype=torch.float64)
    table = torch.randn(NODES, 3, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(
        lambda one: symmetric_product(full.to_sparse_csr(), one), (table,)
    )
    torch.testing.assert_close(symmetric_product(full.to_sparse_csr(), table), full @ table)


def test_gradients_flow_to_nodes_that_no_row_names():
    model = messenger(rounds=2, dtype=torch.float64)
    x = batch_of(nodes=NODES, dtype=torch.float64)[0].requires_grad_()
    adjacency = torch.zeros(NODES, NODES, dtype=torch.float64)
    for node in range(NODES - 1):  # a path
        adjacency[node, node + 1] = adjacency[node + 1, node] = 0.5
    index, spd = torch.tensor([[0]]), torch.zeros(1, 1, 1, dtype=torch.uint8)
    model(x, index, spd, None, None, adjacency.to_sparse_csr()).sum().backward()
    assert x.grad[2].abs().max() > 0
    found = gradients(model, (x.detach(), index, spd, None, None, adjacency.to_sparse_csr()))
    assert all(grad.abs().max() > 0 for name, grad in found.items() if "messages" in name)


def test_evaluation_uses_the_statistics_of_the_graph_at_hand():
    trained, fresh = messenger(train=True, dropout=0.0, input_dropout=0.0), messenger()
    inputs = (*inputs_of(), weights().to_sparse_csr())
    for _ in range(3):
        trained(*inputs)
    with torch.no_grad():
        torch.testing.assert_close(trained(*inputs), fresh(*inputs))


@pytest.mark.parametrize("rows", [1, 2, 7])
def test_the_norm_is_the_same_in_training_and_evaluation(rows):
    norm = GraphNorm(3).double()
    torch.nn.init.normal_(norm.weight)
    h = torch.randn(rows, 3, dtype=torch.float64)
    torch.testing.assert_close(norm.train()(h), norm.eval()(h))


def test_statistics_that_are_held_are_those_of_the_graph_until_training_goes_on():
    model, adjacency = messenger(), weights().to_sparse_csr()
    x, index, spd, *_ = inputs = inputs_of()
    alone = x[-1:], index.new_zeros(1, 1), spd.new_zeros(1, 1, 1)  # it has no edge
    edge = torch.zeros(1, 1).to_sparse_csr()
    egos = index.new_full((1, 1), NODES - 1)
    with torch.no_grad():
        before = model(*inputs, adjacency)
        expected = model(x, egos, alone[2], None, None, adjacency)
        assert not torch.allclose(model(*alone, None, None, edge), expected)
        model.hold_statistics(x, adjacency)
        torch.testing.assert_close(model(*inputs, adjacency), before)
        torch.testing.assert_close(model(*alone, None, None, edge), expected)
        model.train()
        model.eval()
        assert not torch.allclose(model(*alone, None, None, edge), expected)


def test_half_precision_sums_in_full():
    model = messenger()
    inputs = (*inputs_of(), weights().to_sparse_csr())
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        actual = model(*inputs).float()
    with torch.no_grad():
        torch.testing.assert_close(actual, model(*inputs), atol=0.05, rtol=0.05)


def test_a_saved_model_is_the_same_and_one_without_messages_has_no_trace(tmp_path):
    model, inputs = messenger(1), (*inputs_of(), weights().to_sparse_csr())
    model.save_pretrained(tmp_path / "model")
    read = DHILGT.from_pretrained(tmp_path / "model")
    with torch.no_grad():
        torch.testing.assert_close(read(*inputs), model(*inputs))
    assert "message" not in str(model_of().config.to_dict())


def test_anew_is_as_at_first():
    model = messenger()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.fill_(7.0)
    model.reset_parameters()
    state = model.state_dict()
    norms = [value for name, value in state.items() if "messages" in name and "norm" in name]
    assert torch.cat([value.flatten().float() for value in norms]).unique().tolist() == [0, 1]
    assert not any(bool((value == 7).any()) for value in state.values())


@pytest.mark.parametrize(
    ("adjacency", "message"),
    [
        (None, "pass adjacency"),
        (5, r"shape \(5, 5\); x of 9 rows needs \(9, 9\)"),
        ("dense", r"to_sparse_csr\(\)"),
    ],
)
def test_a_wrong_matrix_is_refused(adjacency, message):
    if adjacency == "dense":
        adjacency = weights()
    elif adjacency is not None:
        adjacency = weights(adjacency).to_sparse_csr()
    with pytest.raises(ValueError, match=message):
        messenger()(*inputs_of(), adjacency)


def test_a_matrix_that_nothing_reads_is_refused():
    with pytest.raises(ValueError, match="message_layers=0"):
        model_of()(*inputs_of(), weights().to_sparse_csr())


def test_known_classes_and_messages_exclude_each_other():
    with pytest.raises(ConfigError, match="pass a node's own class back"):
        model_of(label_inputs=True, message_layers=1)


# ---- exports -----------------------------------------------------------------------------------

EDGES = ["edge_offsets", "edge_columns", "edge_weights"]
CASES = [
    pytest.param(1, SETTINGS, id="with rows of egos"),
    pytest.param(0, {}, id="alone"),
]


def cases(own):
    """Inputs of the model and the arrays that its export takes, for graphs of several sizes."""
    for seed, (rows, slots, nodes) in enumerate([(1, 1, 2), (17, 6, 40), (4, 2, 9)]):
        batch, full = batch_of(rows, slots, nodes, seed=seed), weights(nodes, seed).to_sparse_csr()
        ego = ego_rows(rows, seed) if own else None
        parts = [] if ego is None else [ego.crow_indices(), ego.col_indices(), ego.values()]
        edges = [full.crow_indices(), full.col_indices(), full.values()]
        yield (*batch, None, ego, full), (*batch, *parts, *edges)


def assert_same(model, own, run):
    for inputs, arrays in cases(own):
        with torch.no_grad():
            torch.testing.assert_close(run(*arrays), model(*inputs), atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize(("num_layers", "own"), CASES)
def test_a_program_gives_the_same_logits(tmp_path, num_layers, own):
    model = messenger(num_layers, **own)
    export_program(model, tmp_path / "model.pt2")
    assert_same(model, own, torch.export.load(tmp_path / "model.pt2").module())


@pytest.mark.parametrize(("num_layers", "own"), CASES)
def test_an_onnx_file_gives_the_same_logits_and_names_its_inputs(tmp_path, num_layers, own):
    onnxruntime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    model = messenger(num_layers, **own)
    export_onnx(model, tmp_path / "model.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "model.onnx")
    names = [one.name for one in session.get_inputs()]
    assert names[-3:] == EDGES
    assert len(names) == (9 if own else 6)

    def run(*arrays):
        feeds = {name: array.numpy() for name, array in zip(names, arrays, strict=True)}
        return torch.from_numpy(session.run(["logits"], feeds)[0])

    assert_same(model, own, run)
