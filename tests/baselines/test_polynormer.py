"""Polynormer against dense versions and PyG's model, and its two phases of training."""

from contextlib import nullcontext

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from dhilgt import baselines
from dhilgt.baselines.base import Shape
from dhilgt.baselines.polynormer import (
    EdgeAttention,
    GlobalLayer,
    LocalLayer,
    Polynormer,
    PolynormerSettings,
)
from dhilgt.baselines.shared import recorded_steps
from dhilgt.baselines.shared.message_graph import CleanGraph
from dhilgt.errors import ConfigError
from dhilgt.training.config import TrainConfig
from dhilgt.training.state import host_copy
from tests.baselines.cases import (
    Killed,
    KilledAt,
    create,
    same,
    small_graph,
    split,
    trainer,
    weights,
)
from tests.baselines.test_models import copied, whole
from tests.real_data import needs_data


def layer_norm(norm, x):
    return torch.layer_norm(x, x.shape[1:], norm.weight, norm.bias)


# ---- layers ------------------------------------------------------------------------------------


def attended_by_nodes(layer, x, graph):
    """Attention along edges, one node and head at a time."""
    width = layer.weight.shape[0] // layer.heads
    out = []
    for head in range(layer.heads):
        part = slice(head * width, (head + 1) * width)
        moved = x @ layer.weight[part].T
        rows = []
        for node in range(graph.num_nodes):
            seen = [node, *graph.neighbors(node)]
            scores = moved[seen] @ layer.source[head] + moved[node] @ layer.target[head]
            attention = torch.softmax(torch.where(scores > 0, scores, 0.2 * scores), 0)
            rows.append(attention @ moved[seen])
        out.append(torch.stack(rows))
    return torch.cat(out, 1)


@pytest.mark.parametrize("heads", [1, 2])
def test_local_attention_is_a_softmax_over_neighbours_and_the_node(heads):
    torch.manual_seed(0)
    graph, x = small_graph(), torch.randn(80, 5)
    layer = EdgeAttention(5, 6, heads)
    with torch.no_grad():
        actual = layer(x, CleanGraph.of(graph).adjacency("ones"))
        assert torch.allclose(actual, attended_by_nodes(layer, x, graph), atol=1e-5)


@pytest.mark.parametrize("relu", [False, True])
def test_a_local_layer_multiplies_by_a_map_of_its_input(relu):
    torch.manual_seed(0)
    graph, x, beta = small_graph(), torch.randn(80, 5), torch.rand(6)
    layer = LocalLayer(5, PolynormerSettings(hidden_channels=6, relu=relu, dropout=0.0))
    bend = torch.relu if relu else (lambda z: z)
    with torch.no_grad():
        factor = bend(layer.factor(x))
        y = bend(attended_by_nodes(layer.neighbours, x, graph) + layer.own(x))
        expected = (1 - beta) * layer_norm(layer.norm, factor * y) + beta * y
        actual = layer(x, CleanGraph.of(graph).adjacency("ones"), beta)
    assert torch.allclose(actual, expected, atol=1e-5)


@pytest.mark.parametrize("heads", [1, 3])
@pytest.mark.parametrize("shared_keys", [True, False])
def test_global_attention_is_the_sum_over_all_pairs(heads, shared_keys):
    torch.manual_seed(0)
    layer, x, beta = GlobalLayer(6, heads, shared_keys), torch.randn(30, 6), torch.rand(6)
    with torch.no_grad():
        key = torch.sigmoid(layer.key(x))
        query = key if shared_keys else torch.sigmoid(layer.query(x))
        mixed = []
        for part in np.split(np.arange(6), heads):
            pairs = query[:, part] @ key[:, part].T  # [n, n]
            attention = pairs / pairs.sum(1, keepdim=True)
            mixed.append(attention @ layer.value(x)[:, part])
        expected = layer_norm(layer.norm, torch.cat(mixed, 1)) * (layer.factor(x) + beta)
        assert torch.allclose(layer(x, beta), expected, atol=1e-5)


def test_all_layers_count_for_the_local_head():
    model = create("polynormer", small_graph(), local_layers=3)
    (x, adjacency, _), logits = whole(model)
    with torch.no_grad():
        h, total = model.input(x), 0
        for layer, beta in zip(model.local_layers, model.local_beta(), strict=True):
            h = layer(h, adjacency, beta)
            total = total + h
        assert torch.allclose(logits, model.local_head(total), atol=1e-5)


def test_gates_are_drawn_within_bounds_or_start_at_beta():
    graph = small_graph()
    drawn = create("polynormer", graph).local_beta()
    assert drawn.shape == (2, 16)
    assert ((drawn > 0) & (drawn < 1)).all()
    assert drawn.std() > 0
    told = create("polynormer", graph, beta=0.3)
    assert torch.equal(told.local_beta(), torch.full((2, 16), 0.3))
    assert told.local_beta.values.requires_grad
    fixed = create("polynormer", graph, beta=0.3, trained_beta=False)
    trainer(fixed).fit(fixed.train_batches(range(40)))
    assert torch.equal(fixed.local_beta(), torch.full((2, 16), 0.3))


def test_width_is_that_of_all_heads():
    graph = small_graph()
    assert create("polynormer", graph, hidden_channels=24, heads=8).mix.weight.shape == (24, 24)
    with pytest.raises(ConfigError, match="not a multiple of heads = 3"):
        create("polynormer", graph, hidden_channels=16, heads=3)
    with pytest.raises(ConfigError, match="never trained"):
        create("polynormer", graph, beta=-1, trained_beta=False)


# ---- PyG ---------------------------------------------------------------------------------------


def pyg_twin(model):
    """PyG's model with the weights of ours."""
    reference = pytest.importorskip("torch_geometric.nn.models").Polynormer
    s = model.settings
    attends = s.local == "attention"
    other = reference(
        12, s.hidden_channels // s.heads, 3, local_layers=s.local_layers, heads=s.heads,
        global_layers=s.global_layers, beta=s.beta, qk_shared=s.shared_keys, pre_ln=s.pre_norm,
        post_bn=s.batch_norm, local_attn=attends,
    ).eval()  # fmt: skip
    with torch.no_grad():
        for at, ours in enumerate(model.local_layers):
            copied(other.h_lins[at], ours.factor)
            copied(other.lins[at], ours.own)
            copied(other.lns[at], ours.norm)
            if s.pre_norm:
                copied(other.pre_lns[at], ours.pre_norm)
            if s.batch_norm:
                copied(other.post_bns[at], ours.batch_norm)
            conv = other.local_convs[at]
            conv.lin.weight.copy_(ours.neighbours.weight)
            if attends:
                conv.att_src.copy_(ours.neighbours.source[None])
                conv.att_dst.copy_(ours.neighbours.target[None])
            else:
                conv.bias.copy_(ours.neighbours.bias)
        copied(other.pred_local, model.local_head)
        copied(other.ln, model.norm)
        copied(other.pred_global, model.global_head)
        if s.heads == 1:  # with more, PyG's global layers do not fit the width of its local ones
            for one, ours in zip(other.global_attn, model.global_layers, strict=True):
                copied(one.h_lins, ours.factor)
                if not s.shared_keys:
                    one.q.weight.copy_(ours.query.weight)
                one.k.weight.copy_(ours.key.weight)
                one.v.weight.copy_(ours.value.weight)
                copied(one.lns, ours.norm)
                copied(one.lin_out, model.mix)
    return other


@pytest.mark.parametrize(
    ("phase", "changes"),
    [
        ("local", {"local": "convolution"}),
        ("local", {"local": "attention", "heads": 2, "pre_norm": True}),
        ("global", {"local": "convolution"}),
        ("global", {"local": "attention", "shared_keys": False, "batch_norm": False}),
    ],
)
def test_is_that_of_pyg(phase, changes):
    graph = small_graph()
    options = {"hidden_channels": 8, "heads": 1, "local_layers": 2} | changes
    model = create("polynormer", graph, variant="large-global", **options)
    torch.manual_seed(1)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim == 1:  # norms that still are 1 and 0 would hide a slip
                parameter.add_(torch.randn(parameter.shape), alpha=0.2)
    other = pyg_twin(model)
    other._global = phase == "global"
    model.begin_phase(phase)
    (x, adjacency, _), logits = whole(model)
    edges = torch.from_numpy(graph.to_edge_index())
    if model.settings.local == "attention":  # takes edges as they are; convolutions add the loops
        edges = torch.stack([adjacency.columns, adjacency.rows()])
    with torch.no_grad():
        actual = other(x, edges, torch.zeros(80, dtype=torch.int64))
    assert torch.allclose(actual, torch.log_softmax(logits, -1), atol=1e-4)


# ---- phases ------------------------------------------------------------------------------------


@given(st.integers(1, 5000), st.floats(0, 1))
@settings(max_examples=40, deadline=None)
def test_phases_share_all_epochs(epochs, fraction):
    options = PolynormerSettings(hidden_channels=2, local_layers=1, local_share=fraction)
    model = Polynormer(options, Shape(3, 2, 4))
    phases = model.phases(TrainConfig(epochs=epochs, lr=0.5))
    assert sum(phase.config.epochs for phase in phases) == epochs
    assert [phase.name for phase in phases] in (["local", "global"], ["local"], ["global"])
    assert all(phase.config.lr == 0.5 for phase in phases)
    if 0 < fraction < 1 and epochs > 1:
        assert len(phases) == 2


def test_the_published_lengths_can_be_written_as_fractions():
    graph = small_graph(20)
    for near, far in [(100, 1500), (100, 800), (200, 1000), (1000, 1000)]:
        model = create("polynormer", graph, local_share=near / (near + far))
        lengths = [phase.config.epochs for phase in model.phases(TrainConfig(epochs=near + far))]
        assert lengths == [near, far]


def test_the_released_settings_for_large_graphs_have_no_global_phase():
    graph = small_graph(40)
    names = {}
    for variant in ("paper", "large", "large-global"):
        model = baselines.create("polynormer", graph, variant=variant)
        phases = model.phases(model.train_config(variant))
        names[variant] = [(phase.name, phase.config.epochs) for phase in phases]
    assert names["paper"] == [("local", 1000), ("global", 1000)]
    assert names["large"] == [("local", 2000)]
    assert names["large-global"] == [("local", 2000), ("global", 2000)]


def run(model, epochs=8, folder=None, **options):
    train, rest = split(model.graph)
    config = model.train_config(epochs=epochs, lr=0.01)
    return baselines.fit(
        model, train, rest, config, run_dir=folder, device="cpu", progress=False, **options
    )


GLOBAL_PARTS = ("norm.", "global_layers.", "global_beta.", "mix.", "global_head.")


def test_the_local_phase_leaves_the_global_part_as_drawn():
    model = create("polynormer", small_graph(), local_share=1.0)
    before = weights(model)
    run(model)
    for name, tensor in weights(model).items():
        if name.startswith(GLOBAL_PARTS):
            assert torch.equal(tensor, before[name]), name
        elif name.startswith("local_head."):
            assert not torch.equal(tensor, before[name]), name


def test_the_global_phase_goes_on_from_the_best_local_weights(monkeypatch):
    model = create("polynormer", small_graph())
    seen = {}
    begin = type(model).begin_phase

    def spy(self, name):
        begin(self, name)
        seen[name] = weights(self)

    monkeypatch.setattr(type(model), "begin_phase", spy)
    result = run(model)
    alone = create("polynormer", small_graph(), local_share=1.0)
    alone_result = run(alone, epochs=4)
    assert result.phases["local"].best_epoch == alone_result.phases["local"].best_epoch
    best_local = weights(alone) | {"is_global": torch.tensor(True)}
    # The number of the epoch last begun is counted anew.
    best_local["begun"] = seen["global"]["begun"]
    assert same(seen["global"], best_local)


def test_a_phase_trains_the_head_it_is_for():
    model = create("polynormer", small_graph(), local_share=0.0)
    before = weights(model)
    result = run(model)
    after = weights(model)
    assert list(result.phases) == ["global"]
    assert torch.equal(after["local_head.weight"], before["local_head.weight"])
    for name in after:
        if name.startswith(GLOBAL_PARTS) and name.endswith("weight"):
            assert not torch.equal(after[name], before[name]), name
    with pytest.raises(ValueError, match="phase 'globe'"):
        model.begin_phase("globe")


def test_a_saved_model_knows_which_head_was_best(tmp_path):
    graph = small_graph()
    for best in ("local", "global"):
        model = create("polynormer", graph, local_share=1.0 if best == "local" else 0.0)
        result = run(model, epochs=3)
        assert result.best_phase == best
        expected = result.trainer.predict(model.inference_batches())[1]
        model.save(tmp_path / best)
        loaded = baselines.load(tmp_path / best, graph)
        assert bool(loaded.is_global) is (best == "global")
        actual = trainer(loaded).predict(loaded.inference_batches())[1]
        assert np.array_equal(actual, expected)


def test_the_weights_of_the_better_phase_are_kept():
    model = create("polynormer", small_graph())
    result = run(model, epochs=20)
    scores = {name: phase.best_score for name, phase in result.phases.items()}
    assert result.best_score == max(scores.values()) == scores[result.best_phase]
    assert bool(model.is_global) is (result.best_phase == "global")
    _, rest = split(model.graph)
    actual = result.trainer.evaluate(model.inference_batches(rest))["accuracy"]
    assert actual == pytest.approx(result.best_score)


@pytest.mark.parametrize("phase", ["local", "global"])
def test_a_run_killed_in_either_phase_ends_as_a_whole_one(phase, tmp_path, monkeypatch):
    graph = small_graph()
    expected = create("polynormer", graph)
    run(expected)
    model = create("polynormer", graph)
    make = type(model).train_batches

    def killing(self, nodes, *, seed=0):
        loader = make(self, nodes, seed=seed)
        there = bool(self.is_global) is (phase == "global")
        return KilledAt(loader, 2) if there else loader

    with monkeypatch.context() as patch:
        patch.setattr(type(model), "train_batches", killing)
        with pytest.raises(Killed):
            run(model, folder=tmp_path)
    resumed = create("polynormer", graph)
    run(resumed, folder=tmp_path, resume=True)
    assert same(weights(resumed), weights(expected))


@pytest.mark.parametrize("variant", baselines.describe("polynormer")["variants"])
@pytest.mark.parametrize("phase", ["local", "global"])
def test_every_variant_learns(variant, phase):
    graph = small_graph()
    still = {"dropout": 0.0, "input_dropout": 0.0, "global_dropout": 0.0}
    model = create("polynormer", graph, variant=variant, **still)
    model.begin_phase(phase)
    history = trainer(model, epochs=40).fit(model.train_batches(range(40))).history
    assert history[-1]["train_loss"] < 0.7 * history[0]["train_loss"]


@pytest.mark.parametrize("phase", ["local", "global"])
def test_one_block_of_everything_is_the_whole_graph(phase):
    graph = small_graph()
    one, other = create("polynormer", graph), create("polynormer", graph, batch_size=80)
    actual = []
    for model in (one, other):
        model.begin_phase(phase)
        (batch,) = model.train_batches(range(40)).iterate()
        with torch.no_grad():
            actual.append(model.eval()(*batch.to("cpu").inputs))
    assert torch.allclose(actual[0], actual[1], atol=1e-5)


@pytest.mark.parametrize("variant", ["paper", "large-global"])
def test_the_global_phase_trains_in_mixed_precision(variant):
    model = create("polynormer", small_graph(), variant=variant)
    model.begin_phase("global")
    worker = trainer(model, epochs=2, precision="bf16")
    result = worker.fit(model.train_batches(range(40)), model.inference_batches(range(40, 80)))
    assert np.isfinite([line["train_loss"] for line in result.history]).all()


@needs_data
@pytest.mark.full
def test_beats_the_mlp_on_chameleon():
    from tests.baselines.real import mean_on_chameleon

    mlp = mean_on_chameleon("mlp", epochs=60)
    small = {"hidden_channels": 64, "local_layers": 3}
    assert mean_on_chameleon("polynormer", epochs=60, **small) > mlp + 0.01


class Replayed:
    """Stands for recorded evaluations: whatever comes later, it does what its first call did."""

    def __init__(self, model, context, request):
        self.model, self.phase = model, None

    def __call__(self, *inputs):
        now = self.model.branch()
        self.phase = self.phase or now
        self.model.begin_phase(self.phase)
        logits = self.model(*inputs)
        self.model.begin_phase(now)
        return logits


def test_recorded_steps_of_a_phase_are_not_replayed_with_weights_of_another(monkeypatch):
    """The best epoch may be one of the first phase, whose weights are loaded after the second."""
    monkeypatch.setattr(recorded_steps, "ForwardGraphs", Replayed)
    monkeypatch.setattr(recorded_steps, "_is_on_gpu", lambda batch: True)
    model = create("polynormer", small_graph(40)).eval()
    (batch,) = model.inference_batches(range(10)).iterate()
    batch = batch.to("cpu")
    steps = recorded_steps.RecordedSteps(model, model, nullcontext, record=True)
    found = {}
    for phase in ("local", "global"):
        model.begin_phase(phase)
        found[phase] = steps.logits(batch), host_copy(model)
    assert not torch.allclose(found["local"][0], found["global"][0])
    model.load_state_dict(found["local"][1])
    assert torch.equal(steps.logits(batch), found["local"][0])
