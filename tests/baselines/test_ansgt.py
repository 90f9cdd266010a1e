"""ANS-GT against what its paper writes: proximities, draws, coarsening, bandit, votes."""

import contextlib
import hashlib

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import dhilgt
from dhilgt.baselines.ansgt.coarsen import coarsen
from dhilgt.baselines.ansgt.model import ANSGT, bandit_move, update_is_due, votes
from dhilgt.baselines.ansgt.proximity import _best, powers, proximities
from dhilgt.baselines.ansgt.resident import Resident
from dhilgt.baselines.ansgt.row_table import RowTable
from dhilgt.baselines.shared import recorded_steps
from dhilgt.baselines.shared.message_graph import CleanGraph, dense_features
from dhilgt.errors import ConfigError
from dhilgt.model.kernels.cuda_graphs import PlainRequest, StepGraphs
from tests.baselines.cases import create, lonely_graph, same, small_graph, trainer, weights
from tests.baselines.cora import accuracy_on_cora
from tests.real_data import needs_data


def hat_of(graph):
    return CleanGraph.of(graph).adjacency("symmetric")


def row_probabilities(scores):
    scores = scores.copy()
    np.fill_diagonal(scores, 0)
    scores = np.maximum(scores, 0)
    return scores / (scores.sum(1, keepdims=True) + 1e-5)


def dense(table):
    """All values of a table, [n, n, K]."""
    rows, columns = np.indices((table.num_nodes, table.num_nodes))
    return table.lookup(rows, columns)


def unit(x):
    return x / np.maximum(np.linalg.norm(x, axis=1, keepdims=True), 1e-12)


# ---- tables ------------------------------------------------------------------------------------


def oracle(graph, restart=0.15):
    hat = hat_of(graph).to_dense().double().numpy()
    rank = restart * np.linalg.inv(np.eye(len(hat)) - (1 - restart) * hat)
    x = unit(np.asarray(graph.features, np.float64))
    return [row_probabilities(part) for part in (rank, hat, hat @ hat, x @ x.T)]


def test_proximities_are_the_four_matrices():
    graph = small_graph()
    table = proximities(
        hat_of(graph), dense_features(graph), restart=0.15, exact_nodes=80, candidates=5
    )
    for kind, expected in enumerate(oracle(graph)):
        assert np.allclose(dense(table)[..., kind], expected, atol=1e-5)


def test_on_a_large_graph_the_best_of_each_row_are_there():
    graph = small_graph()
    options = {"restart": 0.15, "exact_nodes": 0}
    x = dense_features(graph)
    whole = dense(proximities(hat_of(graph), x, candidates=80, **options))
    _, one, two, cosine = oracle(graph)
    for kind, expected in enumerate([one, two, cosine], 1):
        assert np.allclose(whole[..., kind], expected, atol=1e-4)
    hat = hat_of(graph).to_dense().double().numpy()
    rank = 0.15 * np.eye(80)
    for _ in range(5):
        rank = 0.15 * np.eye(80) + 0.85 * rank @ hat
    assert np.allclose(whole[..., 0], row_probabilities(rank), atol=1e-4)
    few = dense(proximities(hat_of(graph), x, candidates=6, **options))
    assert ((few > 0).sum(1) <= 6).all()
    for row in range(80):
        best = np.sort(cosine[row])[-6:]
        assert np.allclose(np.sort(few[row, :, 3])[-6:], best / best.sum(), atol=1e-3)


def test_powers_are_those_of_the_matrix():
    graph = small_graph()
    hat = hat_of(graph).to_dense()
    expected = torch.stack([torch.matrix_power(hat, k) for k in (1, 2, 3)], -1).numpy()
    for exact in (0, 80):
        table = powers(hat_of(graph), 3, exact_nodes=exact, candidates=80)
        assert np.allclose(dense(table), expected, atol=1e-5)


def test_pairs_that_a_table_does_not_have_are_zero():
    from scipy import sparse

    table = RowTable.union([sparse.csr_array(([2.0], ([1], [2])), shape=(3, 3))])
    actual = table.lookup(np.array([1, 1, 0, 2]), np.array([2, 1, 0, 2]))
    assert actual.flatten().tolist() == [2, 0, 0, 0]
    empty = RowTable.union([sparse.csr_array((3, 3))])
    assert empty.lookup(np.array([0]), np.array([1])).tolist() == [[0]]
    assert empty.draw(np.array([0]), np.ones(1), 2, [0]).tolist() == [[-1, -1]]


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 10**6), st.integers(1, 9))
def test_draws_are_different_nodes_of_positive_weight_and_all_of_them_where_few(seed, size):
    rng = np.random.default_rng(seed)
    matrices = rng.random((2, 7, 7)) * (rng.random((2, 7, 7)) < 0.3)
    table, mixture = RowTable.full(matrices), np.array([1.0, 0.0])
    actual = table.draw(np.arange(7), mixture, size, [seed])
    for row in range(7):
        there = actual[row][actual[row] >= 0]
        possible = np.flatnonzero(matrices[0, row])
        assert len(np.unique(there)) == len(there) == min(size, len(possible))
        assert np.isin(there, possible).all()
        assert (actual[row][len(there) :] == -1).all()


@pytest.mark.parametrize("full", [True, False])
def test_draws_follow_the_mixture(full):
    from scipy import sparse

    first, second = np.zeros((3, 3)), np.zeros((3, 3))
    first[0] = [0, 1, 0]
    second[0] = [0, 0.25, 0.75]
    make = RowTable.full if full else RowTable.union
    parts = [first, second] if full else [sparse.csr_array(first), sparse.csr_array(second)]
    actual = make(parts).draw(np.zeros(20000, np.int64), np.array([0.2, 0.8]), 1, [3])
    assert (actual == 1).mean() == pytest.approx(0.2 + 0.8 * 0.25, abs=0.015)


def draw_plainly(table, rows, mixture, size, seed):
    """The draws of a single block, by a partition of the indices of all times."""
    rng = np.random.default_rng([*seed, 0])
    weights = table.values @ np.asarray(mixture, np.float32)
    lengths = np.diff(table.offsets)[rows]
    width = max(size, lengths.max())
    inside = np.arange(width) < lengths[:, None]
    at = np.where(inside, table.offsets[rows][:, None] + np.arange(width), 0)
    weight = np.where(inside, weights[at], 0)
    times = np.full(weight.shape, np.inf, np.float32)
    drawn = rng.standard_exponential(weight.shape, dtype=np.float32)
    np.divide(drawn, weight, out=times, where=weight > 0)
    first = np.argpartition(times, size - 1, axis=1)[:, :size]
    order = np.argsort(np.take_along_axis(times, first, 1), axis=1, kind="stable")
    first = np.take_along_axis(first, order, 1)
    entries = np.take_along_axis(at, first, 1)
    nodes = (entries if table.keys is None else table.keys[entries]) % table.num_nodes
    return np.where(np.isinf(np.take_along_axis(times, first, 1)), -1, nodes)


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 10**6), st.integers(1, 6), st.booleans())
def test_draws_are_those_of_a_plain_partition(seed, size, full):
    from scipy import sparse

    rng = np.random.default_rng(seed)
    matrices = rng.random((2, 9, 9)) * (rng.random((2, 9, 9)) < 0.5)
    matrices[0, 3, 4] = 1  # at least one entry
    table = RowTable.full(matrices) if full else RowTable.union(map(sparse.csr_array, matrices))
    rows = np.repeat(rng.permutation(9), rng.integers(1, 4))
    mixture = np.array([0.7, 0.3])
    actual = table.draw(rows, mixture, size, [seed])
    assert np.array_equal(actual, draw_plainly(table, rows, mixture, size, [seed]))


def test_draws_of_several_blocks_do_not_depend_on_threads(monkeypatch):
    monkeypatch.setattr("dhilgt.baselines.ansgt.row_table._BLOCK", 64)
    table = RowTable.full(np.random.default_rng(1).random((1, 20, 20)))
    found = []
    for threads in (1, 3):
        monkeypatch.setattr(torch, "get_num_threads", lambda threads=threads: threads)
        found.append(table.draw(np.arange(20), np.ones(1), 5, [2]))
    assert np.array_equal(*found)


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 10**6), st.integers(1, 8))
def test_the_best_of_rows_are_those_of_a_plain_partition_also_among_equals(seed, size):
    from scipy import sparse

    rng = np.random.default_rng(seed)
    dense_ = rng.integers(0, 4, (150, 30)).astype(np.float32) * (rng.random((150, 30)) < 0.6)
    matrix = sparse.csr_array(dense_)
    actual = _best(matrix, size)
    lengths = np.diff(matrix.indptr)
    for row in range(150):
        there = slice(matrix.indptr[row], matrix.indptr[row + 1])
        columns, values = matrix.indices[there], matrix.data[there]
        if lengths[row] > size:
            padded = np.full(lengths.max(), np.inf, np.float32)
            padded[: len(values)] = -values
            kept = np.sort(np.argpartition(padded, size - 1)[:size])
            columns, values = columns[kept], values[kept]
        there = slice(actual.indptr[row], actual.indptr[row + 1])
        assert np.array_equal(actual.indices[there], columns)
        assert np.array_equal(actual.data[there], values)


def test_a_union_of_tables_has_the_pairs_of_any():
    from scipy import sparse

    rng = np.random.default_rng(4)
    parts = rng.random((3, 8, 8)) * (rng.random((3, 8, 8)) < 0.3)
    table = RowTable.union(map(sparse.csr_array, parts))
    assert np.allclose(dense(table), np.moveaxis(parts, 0, -1))
    assert len(table.values) == (parts > 0).any(0).sum()


# ---- coarsening --------------------------------------------------------------------------------


def parts_hang_together(clean, member_of):
    reached = np.arange(clean.num_nodes)
    sources = clean.sources()
    inside = member_of[sources] == member_of[clean.targets]
    for _ in range(clean.num_nodes):
        before = reached.copy()
        np.minimum.at(reached, sources[inside], reached[clean.targets[inside]])
        if np.array_equal(before, reached):
            break
    return len(np.unique(reached)) == len(np.unique(member_of))


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("keep", [0.5, 0.1])
def test_super_nodes_are_connected_and_as_many_as_asked_for(keep, seed):
    clean = CleanGraph.of(small_graph(300), self_loops=False)
    coarse = coarsen(clean, keep, seed)
    alone = int((clean.degrees == 0).sum())
    assert len(coarse.sizes) <= keep * 300 + alone + 10
    assert len(coarse.sizes) >= round(keep * 300)
    assert coarse.sizes.sum() == 300
    assert np.array_equal(np.bincount(coarse.member_of), coarse.sizes)
    assert parts_hang_together(clean, coarse.member_of)


def test_a_star_and_lonely_nodes_are_coarsened_as_far_as_edges_go():
    star = dhilgt.Graph.from_edges([0] * 50, range(1, 51), num_nodes=54)
    coarse = coarsen(CleanGraph.of(star, self_loops=False), 0.02)
    assert sorted(coarse.sizes.tolist()) == [1, 1, 1, 51]
    assert coarsen(CleanGraph.of(star, self_loops=False), 1.0).sizes.max() == 1


def test_the_small_graph_is_the_contracted_matrix():
    graph = small_graph()
    clean = CleanGraph.of(graph, self_loops=False)
    coarse = coarsen(clean, 0.2)
    member = (
        np.eye(len(coarse.sizes))[coarse.member_of]
        * coarse.sizes[coarse.member_of][:, None] ** -0.5
    )
    matrix = member.T @ clean.adjacency("ones").to_dense().numpy() @ member
    matrix = matrix + np.eye(len(matrix))
    root = matrix.sum(1) ** -0.5
    actual = coarse.adjacency.to_dense().numpy()
    assert np.allclose(actual, root[:, None] * matrix * root[None, :], atol=1e-5)
    x = dense_features(graph)
    means = [x[coarse.member_of == c].mean(0) for c in range(len(coarse.sizes))]
    assert torch.allclose(coarse.means(x), torch.stack(means), atol=1e-5)


def test_neighbours_in_one_community_merge_before_those_in_two():
    left = [(u, v) for u in range(8) for v in range(u)]
    edges = np.array([*left, *[(u + 8, v + 8) for u, v in left], (0, 8)])
    clean = CleanGraph.of(dhilgt.Graph.from_edges(*edges.T), self_loops=False)
    coarse = coarsen(clean, 2 / 16)
    assert len(set(coarse.member_of[:8])) == len(set(coarse.member_of[8:])) == 1


# ---- sequences ---------------------------------------------------------------------------------


def test_a_sequence_is_the_node_sampled_nodes_its_super_node_and_others():
    model = create("ansgt", small_graph(), super_nodes=2)
    actual = model.sequences()
    coarse = model._coarse
    assert actual.shape == (80, 3, 1 + 5 + 1 + 2)
    assert (actual[..., 0] == np.arange(80)[:, None]).all()
    sampled = actual[..., 1:6]
    assert ((sampled >= -1) & (sampled < 80)).all()
    assert (sampled != np.arange(80)[:, None, None]).all()
    assert (actual[..., 6] == 80 + coarse.member_of[:, None]).all()
    others = actual[..., 7:]
    assert (others != actual[..., 6:7]).all()
    assert others.max() < 80 + len(coarse.sizes)
    assert not np.array_equal(actual[:, 0], actual[:, 1])  # sequences of a node differ


def digest(*arrays):
    found = hashlib.sha256()
    for array in arrays:
        found.update(np.ascontiguousarray(array, np.int64).tobytes())
    return found.hexdigest()[:16]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, "7d00fe0a7e2767f7"),
        ({"exact_nodes": 0, "candidates": 400}, "6b66d8420a51cbc6"),
        ({"exact_nodes": 0, "candidates": 400, "seed": 3}, "7442c8cc91805236"),
        ({"super_nodes": 0, "first": "ppr"}, "fc1770a46e1b8db7"),
    ],
)
def test_sequences_of_a_seed_stay_the_same(changes, expected):
    # Recorded before drawing was made faster.
    model = create("ansgt", small_graph(400), **changes)
    first = model.sequences()
    model.mixture.copy_(torch.tensor([0.4, 0.3, 0.2, 0.1]))
    model.draws.add_(1)
    assert digest(first, model.sequences()) == expected


@pytest.mark.parametrize("exact_nodes", [0, 80])
@pytest.mark.parametrize("changes", [{}, {"coarsening": False, "super_nodes": 0}])
def test_tables_on_a_device_give_the_inputs_that_the_host_makes(exact_nodes, changes):
    graph = lonely_graph()
    model = create("ansgt", graph, exact_nodes=exact_nodes, first="ppr", **changes).eval()
    tokens = model.sequences()
    assert (tokens == -1).any()
    resident = Resident(model._tables, (80 * 3, tokens.shape[-1]), torch.device("cpu"))
    resident.put(tokens)
    which = torch.arange(240).view(80, 3)
    host = [part.to("cpu") for part in model.batch_inputs(which.numpy())]
    x, places, missing, bias = resident.inputs(which)
    assert torch.equal(x[places], host[0][host[1]])
    assert torch.equal(missing, host[2])
    assert torch.equal(bias, host[3])
    with torch.no_grad():
        expected = model(*host)
        assert torch.allclose(model(which), expected, atol=1e-6)
        model._residents[torch.device("cpu")] = resident
        assert torch.allclose(model(which), expected, atol=1e-6)


def test_sequences_drawn_again_take_the_place_of_the_former_ones():
    model = create("ansgt", small_graph())
    first = model.sequences()
    resident = Resident(model._tables, (80 * 3, first.shape[-1]), torch.device("cpu"))
    model._residents[torch.device("cpu")] = resident
    model.ready_for_batches()
    address = resident._tokens.data_ptr()
    model.draws.add_(1)
    model.ready_for_batches()
    assert not np.array_equal(model.sequences(), first)
    assert np.array_equal(resident._tokens.numpy(), model.sequences().reshape(240, -1))
    assert resident._tokens.data_ptr() == address


class NeverRecorded:
    """Stands for the graphs of a GPU: the step is taken at once, nothing is recorded."""

    def __init__(self, model, *rest):
        self.model, self.calls = model, 0

    def __call__(self, *inputs):
        self.calls += 1
        return self.model(*inputs)


def test_a_replayed_step_reads_the_numbers_of_its_batch(monkeypatch):
    class Replayed:
        """A graph that does nothing: its result stays that of the recording."""

        def replay(self):
            pass

    monkeypatch.setattr(torch.cuda, "CUDAGraph", Replayed)
    monkeypatch.setattr(StepGraphs, "_warm_up", lambda *_: None)
    monkeypatch.setattr(StepGraphs, "_recording", lambda *_: contextlib.nullcontext())
    model = create("ansgt", small_graph()).train()
    optimizer = torch.optim.AdamW(model.parameters())
    graphs = StepGraphs(model, optimizer, None, contextlib.nullcontext, PlainRequest)
    seen = []
    model._gathered = lambda which, gather=model._gathered: (seen.append(which), gather(which))[1]
    labels = torch.zeros(4, dtype=torch.int64)
    for start in (0, 8):
        which = torch.arange(start, start + 4)[:, None]
        assert torch.isfinite(graphs.step((which,), labels))
        assert torch.equal(seen[0], which)  # the tensor that the recorded kernels read
    assert len(seen) == 1
    graphs.step((torch.arange(3)[:, None],), labels[:3])  # a last batch of another shape
    assert len(seen) == 2


def test_steps_are_recorded_anew_when_the_tables_are_others(monkeypatch):
    monkeypatch.setattr(recorded_steps, "ForwardGraphs", NeverRecorded)
    graph = small_graph()
    model = create("ansgt", graph).eval()
    steps = model.step_runner(model, contextlib.nullcontext, True)
    batch = next(model.inference_batches(range(9)).iterate())
    with torch.no_grad():
        steps.logits(batch.to("cpu"))
    assert steps._forward_graphs is None  # there is no GPU
    monkeypatch.setattr(recorded_steps, "_is_on_gpu", lambda batch: True)
    found = []
    for _ in range(2):
        tables = Resident(model._tables, (240, 8), torch.device("cpu"))
        tables.put(model.sequences())
        model._residents[torch.device("cpu")] = tables
        (batch,) = model.inference_batches(range(9)).iterate()
        assert [part.shape for part in batch.inputs] == [(9, 3)]
        for _ in range(2):
            with torch.no_grad():
                steps.logits(batch)
        found.append(steps._forward_graphs)
    assert [graphs.calls for graphs in found] == [2, 2]
    assert found[0] is not found[1]


def test_biases_are_powers_between_nodes_or_between_their_super_nodes():
    graph = small_graph()
    model = create("ansgt", graph)
    tokens = model.sequences()[7, 0]
    assert (tokens >= 0).all()
    actual = model.pair_biases(tokens)
    fine = hat_of(graph).to_dense()
    coarse = model._coarse.adjacency.to_dense()
    inside = [model._coarse.member_of[t] if t < 80 else t - 80 for t in tokens]
    for power in (1, 2, 3):
        of_nodes = torch.matrix_power(fine, power)
        of_supers = torch.matrix_power(coarse, power)
        for i in range(8):
            for j in range(8):
                real = i < 6 and j < 6
                expected = (
                    of_nodes[tokens[i], tokens[j]] if real else of_supers[inside[i], inside[j]]
                )
                assert actual[i, j, power - 1] == pytest.approx(float(expected), abs=1e-5)


def test_without_coarsening_there_are_only_nodes():
    graph = small_graph()
    model = create("ansgt", graph, coarsening=False, super_nodes=0)
    assert model.sequences().shape == (80, 3, 6)
    (batch,) = model.inference_batches(range(9)).iterate()
    assert batch.inputs[3].shape == (9, 3, 6, 6, 3)
    with pytest.raises(ConfigError, match="without coarsening"):
        create("ansgt", graph, coarsening=False)


def test_what_is_missing_has_no_say():
    graph = lonely_graph()
    model = create("ansgt", graph, first="ppr").eval()
    alone = int(np.flatnonzero(graph.degrees == 0)[0])
    tokens = model.sequences()[[alone]]
    assert (tokens[..., 1:6] == -1).all()
    x, places, missing, bias = (part.to("cpu") for part in model._inputs(tokens))
    with torch.no_grad():
        actual = model(x, places, missing, bias)
        elsewhere, absent = places.clone(), missing[..., None, :] | missing[..., None]
        elsewhere[missing] = len(x) - 1
        changed = torch.where(absent[..., None], 5.0, bias)
        assert torch.allclose(model(x, elsewhere, missing, changed), actual, atol=1e-6)
        short = ~missing[0, 0]
        shorter = bias[:, :, short][:, :, :, short]
        assert torch.allclose(
            model(x, places[..., short], missing[..., short], shorter), actual, atol=1e-5
        )


def test_training_has_an_example_for_each_sequence():
    graph = small_graph()
    model = create("ansgt", graph, batch_size=4)
    batch = next(iter(model.train_batches(range(10), seed=1).iterate()))
    assert len(batch) == 12
    nodes = batch.nodes.numpy()
    assert np.array_equal(nodes, np.repeat(nodes[::3], 3))
    assert np.array_equal(batch.labels.numpy(), graph.labels[nodes])
    x, places, _, _ = batch.to("cpu").inputs
    assert places.shape == (12, 1, 8)
    features = dense_features(graph)
    for row in range(12):
        expected = model.sequences()[nodes[row], row % 3, :6]
        assert torch.equal(x[places[row, 0, :6]], features[np.maximum(expected, 0)])


def test_the_majority_wins_and_the_mean_decides_between_equals():
    sure, weak = [5.0, 0.0, 0.0], [0.0, 0.1, 0.0]
    logits = torch.tensor([[sure, weak, weak], [weak, sure, sure]])
    assert votes(logits).argmax(1).tolist() == [1, 0]
    assert votes(logits, "mean").argmax(1).tolist() == [0, 0]
    tie = torch.tensor([[weak, sure], [[0.0, 0.0, 9.0], weak]])
    assert votes(tie).argmax(1).tolist() == [0, 2]
    assert torch.isfinite(votes(100 * logits)).all()
    assert votes(logits).exp().sum(1).tolist() == pytest.approx([1, 1])


# ---- the bandit --------------------------------------------------------------------------------


def test_a_move_of_the_bandit_worked_out_by_hand():
    before, mixture, reward = np.array([1.0, 3.0]), np.array([0.4, 0.6]), np.array([0.5, 0.0])
    grown = before * np.exp(2 * (reward + 0.01 / mixture))
    weights_, actual = bandit_move(before, mixture, reward, 0.05)
    assert actual == pytest.approx(0.9 * grown / grown.sum() + 0.05, rel=1e-5)
    assert weights_[0] / weights_[1] == pytest.approx(grown[0] / grown[1], rel=1e-5)


def test_no_arm_of_the_bandit_ever_dies():
    weights_, mixture = np.ones(4), np.full(4, 0.25)
    for _ in range(1000):
        weights_, mixture = bandit_move(weights_, mixture, np.array([3.0, 0, 0, 0]), 0.05)
    assert mixture == pytest.approx([0.85, 0.05, 0.05, 0.05], abs=1e-5)
    assert np.isfinite(weights_).all()
    _, actual = bandit_move(np.ones(4), np.array([1.0, 0, 0, 0]), np.zeros(4), 0.05)
    assert np.isfinite(actual).all()


def test_rewards_are_attention_shared_out_by_who_proposed_a_node():
    graph = small_graph()
    model = create("ansgt", graph).eval()
    nodes = np.array([2, 30, 31])
    tokens = model.sequences()[nodes, :1]
    expected = []
    with torch.no_grad():
        inputs = [part.to("cpu") for part in model._inputs(tokens)]
        h, biases = model._embedded(*inputs)
        layer = model.encoder.layers[1]
        h = model.encoder.layers[0](h, biases[0])
        query, key, value = layer._heads(h)
        scores = query @ key.transpose(-1, -2) / 8**0.5 + biases[1]
        attention = torch.softmax(scores, -1)
    near = oracle(graph)
    for row, node in enumerate(nodes):
        for place in range(1, 6):
            other = tokens[row, 0, place]
            score = float((attention[row, :, 0, place] * value[row, :, place].norm(dim=-1)).mean())
            s = np.array([part[node, other] for part in near])
            expected.append(score * s / (s.mean() + 1e-5))
    assert model.rewards(nodes) == pytest.approx(np.mean(expected, 0), rel=1e-3)


def test_the_bandit_moves_every_period_and_draws_anew():
    graph = small_graph()
    model = create("ansgt", graph, period=2)
    first = model.sequences().copy()
    trainer(model, epochs=2).fit(model.train_batches(range(40)))
    assert int(model.draws) == 0
    assert np.array_equal(model.sequences(), first)
    trainer(model, epochs=5).fit(model.train_batches(range(40)))
    assert int(model.draws) == 2
    assert float(model.mixture.sum()) == pytest.approx(1, abs=1e-5)
    assert not np.array_equal(model.sequences(), first)


@given(st.integers(3, 3000))
def test_the_bandit_moves_at_least_twice_in_a_run_of_any_length(epochs):
    due = [epoch for epoch in range(epochs) if update_is_due(epoch, 0.1, epochs)]
    assert 2 <= len(due) <= 9
    if epochs >= 10:
        assert len(due) == 9
        assert np.abs(np.diff([0, *due, epochs]) - epochs / 10).max() < 1


def test_the_period_of_the_paper_is_100_of_1000_epochs():
    default = dhilgt.baselines.describe("ansgt")["settings"]["period"]
    config = ANSGT.train_config()
    due = [epoch for epoch in range(1000) if update_is_due(epoch, default, config.epochs)]
    assert due == list(range(100, 1000, 100))
    assert [epoch for epoch in range(9) if update_is_due(epoch, 3, 1000)] == [3, 6]
    assert not any(update_is_due(epoch, None, 10) for epoch in range(10))


def test_a_short_run_has_its_updates_and_its_warm_up():
    model = create("ansgt", small_graph(), period=0.1)
    config = model.train_config(epochs=5)
    dhilgt.baselines.fit(model, range(40), None, config, device="cpu", progress=False)
    assert int(model.draws) == 4
    assert config.warmup_epochs == pytest.approx(0.5)


def test_the_released_settings_draw_by_pagerank_and_never_move():
    graph = small_graph()
    model = create("ansgt", graph, variant="released", super_nodes=0, period=None)
    assert model.mixture.tolist() == [1, 0, 0, 0]
    before = model.mixture.clone(), model.sequences().copy()
    trainer(model, epochs=5).fit(model.train_batches(range(40)))
    assert torch.equal(model.mixture, before[0])
    assert np.array_equal(model.sequences(), before[1])


def test_sequences_follow_from_what_is_saved(tmp_path):
    graph = small_graph()
    model = create("ansgt", graph, period=1)
    trainer(model, epochs=4).fit(model.train_batches(range(40)))
    model.save(tmp_path)
    loaded = dhilgt.baselines.load(tmp_path, graph)
    assert same(weights(loaded), weights(model))
    assert int(loaded.draws) == 3
    assert np.array_equal(loaded.sequences(), model.sequences())


# ---- a real graph ------------------------------------------------------------------------------


@pytest.mark.full
@needs_data
@pytest.mark.parametrize("variant", ["paper", "released"])
def test_beats_the_mlp_on_cora(variant):
    mlp = accuracy_on_cora("mlp", epochs=60)
    period = {"period": 3} if variant == "paper" else {}
    actual = accuracy_on_cora(
        "ansgt", variant=variant, epochs=8, recipe={"lr": 2e-3, "warmup_epochs": 1},
        hidden_channels=64, ffn_channels=64, num_layers=2, sequences=2, **period,
    )  # fmt: skip
    assert actual > mlp + 0.05
