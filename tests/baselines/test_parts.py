"""The parts that baselines have in common, against slow and obvious versions."""

from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import dhilgt
from dhilgt import baselines
from dhilgt.baselines.loaders import GraphBatch, NodeLoader, PartitionLoader, RowStore
from dhilgt.baselines.settings import Settings, choice, count, counts, number, rate, switch
from dhilgt.baselines.shared.encoder import TokenEncoder, TokenEncoderLayer, draw_small
from dhilgt.baselines.shared.layers import SafeBatchNorm
from dhilgt.baselines.shared.message_graph import CleanGraph
from dhilgt.baselines.shared.sparse import SparseMatrix, segment_softmax
from dhilgt.baselines.shared.spectral import laplacian_vectors
from dhilgt.errors import ConfigError, GraphError
from dhilgt.training.config import TrainConfig
from dhilgt.training.optimizer import build_optimizer
from tests.baselines.cases import Killed, KilledAt, create, same, small_graph, trainer, weights


def dense(graph):
    out = np.zeros((graph.num_nodes, graph.num_nodes))
    for source, target in zip(*graph.to_edge_index(), strict=True):
        out[source, target] = 1
    return out


# ---- the graph ---------------------------------------------------------------------------------


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("loops", [False, True])
def test_a_clean_graph_has_both_directions_and_the_loops_asked_for(directed, loops):
    graph = small_graph(directed=directed)
    expected = np.maximum(dense(graph), dense(graph).T) + loops * np.eye(80)
    clean = CleanGraph.of(graph, self_loops=loops)
    assert np.array_equal(clean.adjacency("ones").to_dense().numpy(), expected)
    for node in range(80):
        row = clean.targets[clean.offsets[node] : clean.offsets[node + 1]]
        assert np.array_equal(row, np.flatnonzero(expected[node]))


def test_adjacency_is_normalised_by_degrees_with_loops():
    clean = CleanGraph.of(small_graph())
    matrix = clean.adjacency("ones").to_dense().double()
    degree = matrix.sum(1)
    symmetric = degree[:, None] ** -0.5 * matrix * degree[None, :] ** -0.5
    assert torch.allclose(clean.adjacency("symmetric").to_dense().double(), symmetric)
    assert torch.allclose(clean.adjacency("row").to_dense().double(), matrix / degree[:, None])
    with pytest.raises(ValueError, match="choose"):
        clean.adjacency("rows")


def test_an_isolated_node_has_an_empty_row_without_its_loop():
    graph = dhilgt.Graph.from_edges([0], [1], num_nodes=3)
    clean = CleanGraph.of(graph, self_loops=False)
    assert clean.adjacency("row").to_dense()[2].tolist() == [0, 0, 0]
    assert (clean.adjacency("row") @ torch.ones(3, 2))[2].tolist() == [0, 0]


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 80))
def test_induced_edges_are_those_among_the_nodes(seed, size):
    clean = CleanGraph.of(small_graph())
    nodes = np.random.default_rng(seed).permutation(80)[:size]
    whole = clean.adjacency("ones").to_dense()
    part = clean.induced(nodes).adjacency("ones").to_dense()
    assert torch.equal(part, whole[nodes][:, nodes])


# ---- products ----------------------------------------------------------------------------------


def random_matrix(rows, columns, seed=0):
    generator = torch.Generator().manual_seed(seed)
    full = torch.randn(rows, columns, generator=generator)
    full[torch.rand(rows, columns, generator=generator) < 0.7] = 0
    full[0] = 0  # an empty row
    where = full.nonzero()
    offsets = torch.zeros(rows + 1, dtype=torch.int64)
    offsets[1:] = torch.bincount(where[:, 0], minlength=rows).cumsum(0)
    return SparseMatrix(offsets, where[:, 1], full[full != 0], columns), full


@pytest.mark.parametrize("shape", [(7, 7), (3, 9), (9, 3), (1, 1)])
@pytest.mark.parametrize("trailing", [(4,), (2, 3)])
def test_products_and_their_gradients_are_those_of_dense_matrices(shape, trailing):
    matrix, full = random_matrix(*shape)
    x = torch.randn(shape[1], *trailing, requires_grad=True)
    weight = torch.randn(shape[0], *trailing)
    actual = matrix @ x
    reference = torch.tensordot(full, x, 1)
    assert torch.allclose(actual, reference, atol=1e-5)
    (gradient,) = torch.autograd.grad((actual * weight).sum(), x)
    (expected,) = torch.autograd.grad((reference * weight).sum(), x)
    assert torch.allclose(gradient, expected, atol=1e-5)
    assert torch.equal(matrix.transposed().to_dense(), full.T)
    assert matrix.transposed().transposed() is matrix


def test_weighted_products_have_gradients_of_weights_and_values():
    for matrix in (random_matrix(6, 8)[0], CleanGraph.of(small_graph()).adjacency()):
        entries, (rows, columns) = len(matrix.columns), matrix.shape
        weights = torch.randn(entries, 2, requires_grad=True)
        x = torch.randn(columns, 2, 3, requires_grad=True)
        outer = torch.randn(rows, 2, 3)
        actual = matrix.weighted(weights, x)
        full = torch.zeros(2, rows, columns).index_put(
            (torch.arange(2)[:, None], matrix.rows(), matrix.columns), weights.T
        )
        reference = torch.einsum("hrc,chf->rhf", full, x)
        assert torch.allclose(actual, reference, atol=1e-4)
        gradients = torch.autograd.grad((actual * outer).sum(), (weights, x))
        expected = torch.autograd.grad((reference * outer).sum(), (weights, x))
        for one, other in zip(gradients, expected, strict=True):
            assert torch.allclose(one, other, atol=1e-4)


def test_segment_softmax_is_softmax_over_each_row():
    matrix, _ = random_matrix(6, 8)
    scores = torch.randn(len(matrix.columns), 2, requires_grad=True)
    actual = segment_softmax(scores, matrix)
    for row in range(6):
        inside = matrix.rows() == row
        assert torch.allclose(actual[inside], torch.softmax(scores[inside], 0), atol=1e-6)
    (gradient,) = torch.autograd.grad((actual**2).sum(), scores)
    expected = sum(
        (torch.softmax(scores[matrix.rows() == row], 0) ** 2).sum() for row in range(1, 6)
    )
    assert torch.allclose(gradient, torch.autograd.grad(expected, scores)[0], atol=1e-6)


def test_what_a_matrix_keeps_while_scoring_serves_training():
    matrix, _ = random_matrix(6, 8)
    with torch.inference_mode():
        scores = torch.zeros(len(matrix.columns), 1)
        matrix.weighted(segment_softmax(scores, matrix), torch.ones(8, 1, 2))
        matrix.transposed()
    scores = torch.zeros(len(matrix.columns), 1, requires_grad=True)
    x = torch.ones(8, 1, 2, requires_grad=True)
    matrix.weighted(segment_softmax(scores, matrix), x).sum().backward()
    assert x.grad.sum() == pytest.approx(2 * (matrix.offsets.diff() > 0).sum().item())


def test_a_product_of_the_wrong_length_is_refused():
    with pytest.raises(ValueError, match="8 columns times one of 7 rows"):
        random_matrix(6, 8)[0] @ torch.ones(7, 1)


# ---- batches -----------------------------------------------------------------------------------


def partition(n, train, block_size, seed=0):
    source = np.arange(n - 1)
    graph = CleanGraph.of(dhilgt.Graph.from_edges(source, source + 1, num_nodes=n))
    return PartitionLoader(
        lambda part, nodes, rows: (part, nodes, rows),
        graph, np.asarray(train), np.zeros(n, np.int64), block_size=block_size, seed=seed,
    )  # fmt: skip


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_blocks_part_the_graph_and_each_has_a_training_node(data):
    n = data.draw(st.integers(2, 40))
    size = data.draw(st.integers(1, n))
    train = data.draw(st.sets(st.integers(0, n - 1), min_size=1))
    loader = partition(n, sorted(train), size, data.draw(st.integers(0, 99)))
    loader.set_epoch(data.draw(st.integers(0, 9)))
    blocks = loader.blocks()
    assert len(blocks) == len(loader)
    nodes = np.concatenate(blocks)
    assert len(set(nodes.tolist())) == len(nodes)
    if len(train) >= -(-n // size):
        assert len(nodes) == n
    for block in blocks:
        assert 1 <= len(block) <= size
        assert train & set(block.tolist())
    assert train <= set(nodes.tolist())


def test_blocks_differ_by_epoch_and_repeat_from_any_batch():
    loader = partition(20, range(12), 5)
    first = [batch.nodes.tolist() for batch in loader.iterate()]
    assert len(first) == 4
    assert sorted(node for nodes in first for node in nodes) == list(range(12))
    assert [batch.nodes.tolist() for batch in loader.iterate(2)] == first[2:]
    loader.set_epoch(1)
    assert [batch.nodes.tolist() for batch in loader.iterate()] != first


def test_a_block_has_the_edges_and_places_of_its_nodes():
    loader = partition(12, range(0, 12, 2), 4)
    for batch in loader.iterate():
        part, nodes, rows = batch.inputs
        assert np.array_equal(nodes[rows], batch.nodes.numpy())
        gaps = np.abs(nodes[part.sources()] - nodes[part.targets])
        assert gaps.max(initial=0) <= 1
        assert (gaps == 1).sum() == 2 * (np.diff(nodes) == 1).sum()


def test_batches_are_drawn_by_seed_epoch_and_number():
    def make(nodes, key):
        return (torch.from_numpy(np.random.default_rng(key).random(2)), torch.from_numpy(nodes))

    loader = NodeLoader(make, np.arange(10), batch_size=4, shuffle=True, seed=3)
    loader.set_epoch(2)
    whole = [[part.tolist() for part in batch.inputs] for batch in loader.iterate()]
    assert [len(nodes) for _, nodes in whole] == [4, 4, 2]
    assert [[part.tolist() for part in batch.inputs] for batch in loader.iterate(1)] == whole[1:]


def test_rows_are_taken_when_they_are_moved():
    store = RowStore(torch.arange(6.0).view(3, 2))
    assert store.rows(np.array([2, 0])).to("cpu").tolist() == [[4, 5], [0, 1]]


class TooLarge:
    def to(self, device, non_blocking=False):
        if torch.device(device).type != "cpu":
            raise torch.OutOfMemoryError("no room")
        return torch.ones(1)


def test_what_does_not_fit_a_device_stays_on_the_host_in_inference_only():
    nodes = torch.arange(1)
    stayed = GraphBatch((TooLarge(),), None, nodes, may_stay=True).to("meta")
    assert stayed.inputs[0].device.type == "cpu"
    with pytest.raises(torch.OutOfMemoryError):
        GraphBatch((TooLarge(),), None, nodes).to("meta")


def test_nodes_that_select_nothing_and_several_processes_are_refused(monkeypatch):
    model = create("mlp", small_graph())
    with pytest.raises(GraphError, match="selects no node"):
        model.train_batches(np.zeros(80, bool))
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(ConfigError, match="one process, not in 2"):
        model.train_batches([1])


# ---- layers ------------------------------------------------------------------------------------


def test_the_encoder_attends_as_its_reference_says():
    torch.manual_seed(0)
    encoder = TokenEncoder(8, num_layers=2, heads=2, ffn=16).eval()
    h, biases = torch.randn(3, 5, 8), [torch.randn(3, 2, 5, 5) for _ in range(2)]
    x = h
    for layer, bias in zip(encoder.layers, biases, strict=True):
        weights, values = layer.attention(x, bias)
        assert torch.allclose(weights.sum(-1), torch.ones(3, 2, 5))
        y = x + layer.projection((weights @ values).transpose(1, 2).reshape(3, 5, 8))
        x = y + layer.ffn_out(torch.nn.functional.gelu(layer.ffn_in(layer.ffn_norm(y))))
    assert torch.allclose(encoder(h, biases), encoder.norm(x), atol=1e-5)
    actual = encoder.last_attention(h, biases).weights
    before = encoder.layers[0](h, biases[0])
    assert torch.equal(actual, encoder.layers[1].attention(before, biases[1]).weights)


def test_the_encoder_begins_with_small_weights_and_needs_whole_heads():
    encoder = TokenEncoder(64, num_layers=4, heads=4, ffn=64)
    draw_small(encoder, 4)
    for layer in encoder.layers:
        assert abs(float(layer.qkv.weight.detach().std()) - 0.01) < 0.001
        assert not layer.qkv.bias.any()
    with pytest.raises(ValueError, match="multiple of heads"):
        TokenEncoderLayer(6, 6, 4, 0.0, 0.0)


def test_batch_norm_takes_one_row_by_what_it_saw_before():
    norm = SafeBatchNorm(3)
    norm(torch.randn(50, 3) + 5)
    row = torch.full((1, 3), 5.0)
    assert torch.equal(norm.train()(row), norm.eval()(row))


def test_eigenvectors_are_those_of_the_laplacian_by_either_solver():
    graph = CleanGraph.of(dhilgt.generate(400, 8, seed=2, num_features=0), self_loops=False)
    actual = laplacian_vectors(graph, 4)
    assert np.array_equal(actual, laplacian_vectors(graph, 4))
    full = graph.adjacency("symmetric").to_dense().double().numpy()
    laplacian = np.eye(400) - full
    values, vectors = np.linalg.eigh(laplacian)
    for at in range(4):
        column = actual[:, at].astype(np.float64)
        assert np.linalg.norm(column) == pytest.approx(1, abs=1e-3)
        assert column @ laplacian @ column == pytest.approx(values[at + 1], abs=1e-3)
    # The space is the same, though vectors of nearly equal values may be turned within it.
    overlap = np.linalg.svd(vectors[:, 1:5].T @ actual, compute_uv=False)
    assert overlap.min() > 0.98


def test_eigenvectors_that_a_graph_does_not_have_are_zero():
    graph = CleanGraph.of(dhilgt.Graph.from_edges([0], [1]), self_loops=False)
    assert laplacian_vectors(graph, 3).shape == (2, 3)
    assert not laplacian_vectors(graph, 3)[:, 1:].any()


# ---- settings ----------------------------------------------------------------------------------


def test_settings_refuse_what_they_cannot_mean():
    @dataclass(frozen=True)
    class Some(Settings):
        layers: int = count(2)
        size: int | None = count(None, optional=True)
        drop: float = rate(0.5)
        weight: float = number(0.5, 0, 1)
        kind: str = choice("a", "b")
        flag: bool = switch(True)
        sizes: tuple[int, ...] = counts((3, 2))

    assert Some(sizes=[1, 2]) == Some.from_dict({"sizes": [1, 2]})
    bad = {
        "layers": [0, True, 1.5, "2", None], "size": [0, "x"], "drop": [1, -0.1, "0.5", None],
        "weight": [2, float("nan"), True], "kind": ["c", None], "flag": [1, None],
        "sizes": [[], [0], 3, [1.5]],
    }  # fmt: skip
    for name, values in bad.items():
        for value in values:
            with pytest.raises(ConfigError, match=name):
                Some(**{name: value})


# ---- training ----------------------------------------------------------------------------------


def test_the_rate_follows_steps_where_steps_are_given():
    model = create("mlp", small_graph())
    worker = trainer(
        model, epochs=8, lr=1.0, warmup_steps=2, decay_steps=6, end_lr=0.5, decay="linear"
    )
    history = worker.fit(model.train_batches(range(10))).history
    assert [line["lr"] for line in history] == pytest.approx(
        [0.5, 1.0, 1.0, 0.875, 0.75, 0.625, 0.5, 0.5]
    )


def test_adam_decays_all_weights_through_the_loss():
    config = TrainConfig(optimizer="adam", weight_decay=0.3)
    optimizer = build_optimizer(torch.nn.Linear(3, 2), config)
    assert type(optimizer) is torch.optim.Adam
    assert [(len(g["params"]), g["weight_decay"]) for g in optimizer.param_groups] == [(2, 0.3)]


class Counting(baselines.registry.system("mlp")):
    """Notes when its epochs begin, in a buffer that training then depends on."""

    def build(self):
        super().build()
        self.register_buffer("noted", torch.zeros(8, dtype=torch.int64))

    def epoch_begins(self, epoch):
        self.noted[epoch] += 1


def counting(graph):
    settings_ = Counting.settings_type(hidden_channels=8, batch_size=10)
    torch.manual_seed(0)
    model = Counting(settings_, baselines.Shape.of(graph))
    model.prepare(graph)
    return model


def test_an_epoch_begins_once_though_it_is_resumed(tmp_path):
    graph = small_graph()
    model = counting(graph)
    loader = KilledAt(model.train_batches(range(30)), 2, 1)
    with pytest.raises(Killed):
        trainer(model, tmp_path / "run", checkpoint_batches=1).fit(loader)
    again = counting(graph)
    worker = trainer(again, tmp_path / "run", resume=True, checkpoint_batches=1)
    worker.fit(again.train_batches(range(30)))
    assert again.noted.tolist() == [1, 1, 1, 1, 0, 0, 0, 0]


class TwoPhases(baselines.registry.system("mlp")):
    """Answers the opposite in its second phase, and hardly learns there."""

    def build(self):
        super().build()
        self.register_buffer("second", torch.tensor(0))

    def phases(self, config):
        slow = replace(config, lr=1e-9)
        return [baselines.Phase("first", config), baselines.Phase("second", slow)]

    def begin_phase(self, name):
        self.second.fill_(int(name == "second"))

    def logits(self, x):
        return -super().logits(x) if self.second else super().logits(x)


def two_phases(graph, folder, **options):
    torch.manual_seed(0)
    model = TwoPhases(TwoPhases.settings_type(hidden_channels=8), baselines.Shape.of(graph))
    model.prepare(graph)
    config = TrainConfig(epochs=3, lr=0.01, warmup_epochs=0, decay="none", **options)
    result = baselines.fit(
        model, range(40), range(40, 80), config, run_dir=folder, device="cpu", resume=True,
        progress=False,
    )  # fmt: skip
    return model, result


def test_phases_follow_each_other_and_the_best_weights_stay(tmp_path):
    graph = small_graph()
    model, result = two_phases(graph, tmp_path / "run")
    assert list(result.phases) == ["first", "second"]
    assert result.epochs == 6
    assert result.phases["second"].best_score < result.phases["first"].best_score
    assert result.best_phase == "first"
    assert int(model.second) == 0
    actual = result.trainer.evaluate(model.inference_batches(range(40, 80)))
    assert actual["accuracy"] == result.best_score
    assert result.stages.to_dict()["epoch"]["times"] == 6
    assert result.stages.to_dict()["precompute"]["times"] == 1
    # A run that is whole gives the same again without training.
    again, repeated = two_phases(graph, tmp_path / "run")
    assert same(weights(again), weights(model))
    assert repeated.best_score == result.best_score


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_inference_that_does_not_fit_the_gpu_runs_on_the_host():
    graph = small_graph()
    model = create("gcn", graph)
    worker = dhilgt.Trainer(model, {"epochs": 2}, device="cuda", progress=False)
    worker.fit(model.train_batches(range(40)), model.inference_batches(range(40, 80)))
    expected = worker.predict(model.inference_batches())[1]
    assert model.inference_device == "cuda:0"
    plain = model.logits

    def narrow(x, *rest):
        if x.is_cuda:
            raise torch.OutOfMemoryError("no room")
        return plain(x, *rest)

    model.logits = narrow
    actual = worker.predict(model.inference_batches())[1]
    assert model.inference_device == "cpu"
    assert np.allclose(actual, expected, atol=1e-4)


def counted(batch_size, **options):
    """Return a loader of ten nodes, and the list of keys of the batches it has made."""
    made = []

    def make(nodes, key):
        made.append(key)
        matrix = SparseMatrix(torch.tensor([0, 1]), torch.zeros(1).long(), torch.ones(1))
        return torch.from_numpy(nodes), matrix, RowStore(torch.eye(10)).rows(nodes)

    labels = np.arange(10) % 3
    return NodeLoader(make, np.arange(10), labels, batch_size=batch_size, **options), made


@pytest.mark.parametrize("batch_size", [None, 4])
def test_fixed_batches_are_made_once(batch_size):
    loader, made = counted(batch_size, fixed=True)
    first = [batch.to("cpu") for batch in loader.iterate()]
    loader.set_epoch(1)
    again = [batch.to("cpu") for batch in loader.iterate()]
    assert len(made) == len(loader) == len(first)
    for one, other in zip(first, again, strict=True):
        assert one.inputs[0] is other.inputs[0]
        assert one.labels is other.labels
        assert one.inputs[2].tolist() == other.inputs[2].tolist()
    assert [len(batch) for batch in loader.iterate(1)] == [len(batch) for batch in first[1:]]


def test_batches_are_made_anew_if_shuffled_drawn_cut_short_or_large(monkeypatch):
    for options in ({"fixed": True, "shuffle": True}, {"fixed": False}):
        loader, made = counted(4, **options)
        for _ in range(2):
            assert len(list(loader.iterate())) == 3
        assert len(made) == 6
    loader, made = counted(4, fixed=True)
    next(iter(loader.iterate()))
    assert [batch.nodes.tolist() for batch in loader.iterate()][2] == [8, 9]
    monkeypatch.setattr("dhilgt.baselines.loaders._KEPT_BYTES", 50)
    loader, made = counted(4, fixed=True)
    for _ in range(2):
        assert len(list(loader.iterate())) == 3
    assert len(made) == 6


def test_batches_made_by_several_threads_are_in_order():
    alone, _ = counted(1, shuffle=True, seed=3)
    together, _ = counted(1, shuffle=True, seed=3, threads=3)
    expected = [batch.nodes.tolist() for batch in alone.iterate()]
    assert [batch.nodes.tolist() for batch in together.iterate()] == expected


def test_heads_too_large_for_one_product_are_multiplied_one_by_one(monkeypatch):
    matrix, _ = random_matrix(6, 8)
    weights, x = torch.randn(len(matrix.columns), 3), torch.randn(8, 3, 2)
    together = matrix.weighted(weights, x)
    monkeypatch.setattr("dhilgt.baselines.shared.sparse._STACKED", 1)
    assert torch.equal(matrix.weighted(weights, x), together)
