"""The fused kernels on a GPU: real sizes, CUDA graphs, a trained model."""

import contextlib

import numpy as np
import pytest
import torch

pytest.importorskip("triton", reason="the fused kernels need the package triton")
if not torch.cuda.is_available():
    pytest.skip("there is no GPU", allow_module_level=True)

from dhilgt import TokenLoader, TokenSampler, generate
from dhilgt.errors import TrainingWarning
from dhilgt.labels.hub_labels import HubLabels
from dhilgt.loader.batch import TokenBatch
from dhilgt.loader.loader import _batch_stream
from dhilgt.model import attention
from dhilgt.model.kernels.cuda_graphs import ForwardGraphs, StepGraphs, recording_stream
from dhilgt.training.config import TrainConfig
from dhilgt.training.optimizer import build_optimizer
from dhilgt.training.trainer import Trainer
from tests.model.cases import batch_of, gradients, model_of

CUDA = torch.device("cuda")


def off(actual, exact):
    return float((actual.double() - exact).norm() / exact.norm().clamp_min(1e-30))


def on_gpu(batch):
    return tuple(part.to(CUDA) for part in batch)


@pytest.mark.parametrize("slots", [1, 5, 12, 16, 31, 32, 33, 60, 64])
@pytest.mark.parametrize(("precision", "tolerance"), [("fp32", 5e-5), ("bf16", 6e-2)])
@pytest.mark.parametrize("packing", ["off", "on"])
def test_values_and_gradients_at_real_sizes(slots, precision, tolerance, packing):
    settings = {"hidden_channels": 128, "heads": 8, "num_virtual": 4, "num_layers": 2}
    exact = model_of(dtype=torch.float64, attention="reference", **settings).to(CUDA)
    ours = model_of(attention="fused", **settings)
    ours.load_state_dict(exact.state_dict())
    ours = ours.to(CUDA)
    ours.packing = packing
    x, index, spd = on_gpu(batch_of(64, slots, 300, dtype=torch.float64, high=90))
    mix = torch.randn(64, 3, generator=torch.Generator().manual_seed(5), dtype=torch.float64)
    mix = mix.to(CUDA)
    (exact(x, index, spd) * mix).sum().backward()
    with torch.autocast("cuda", dtype=torch.bfloat16, enabled=precision == "bf16"):
        actual = ours(x.float(), index, spd)
    (actual.double() * mix).sum().backward()
    assert ours.attention_used == "fused"
    assert off(actual.detach(), exact(x, index, spd).detach()) < tolerance
    expected = torch.cat([p.grad.flatten() for p in exact.parameters()])
    assert off(torch.cat([p.grad.flatten() for p in ours.parameters()]), expected) < tolerance


def test_repeats_bit_for_bit():
    model = model_of(hidden_channels=128, heads=8, attention_dropout=0.1, train=True).to(CUDA)
    batch = on_gpu(batch_of(512, 32, 300, high=90))
    actual = []
    for _ in range(2):
        torch.manual_seed(3)
        actual.append({name: grad.cpu() for name, grad in gradients(model, batch).items()})
    assert model.attention_used == "fused"
    assert all(torch.equal(actual[0][name], actual[1][name]) for name in actual[0])


@pytest.mark.parametrize("clip_norm", [None, 0.5])
def test_a_recorded_step_is_the_step_itself(clip_norm):
    batches = [on_gpu(batch_of(40, 12, nodes, seed=nodes)) for nodes in (90, 60, 110, 300, 75)]
    labels = torch.arange(40, device=CUDA) % 3
    weights = []
    for recorded in (False, True):
        # Which features PyTorch's dropout drops depends on the size of their table.
        model = model_of(train=True, input_dropout=0.0).to(CUDA)
        optimizer = build_optimizer(model, TrainConfig(lr=1e-2))
        graphs = StepGraphs(
            model, optimizer, clip_norm, lambda: torch.autocast("cuda", enabled=False)
        )
        torch.manual_seed(4)
        for number, batch in enumerate(batches):
            if recorded and number:
                assert graphs.step(batch, labels) is not None
                continue
            optimizer.zero_grad(set_to_none=True)
            torch.nn.functional.cross_entropy(model(*batch), labels).backward()
            if clip_norm is not None:
                torch.nn.utils.clip_grad_norm_(model.parameters(), clip_norm)
            optimizer.step()
        weights.append(torch.cat([p.detach().flatten() for p in model.parameters()]))
    # A larger table of features changes the order of some sums, and Adam makes steps of full size
    # out of gradients that are noise: those of the keys' biases.
    assert off(weights[1], weights[0].double()) < 2e-3


@pytest.mark.parametrize("sparse", [False, True])
def test_recorded_logits_are_the_models_own(sparse):
    model = model_of().to(CUDA)
    forward = ForwardGraphs(model, contextlib.nullcontext)
    for number, nodes in enumerate((90, 60, 100, 300, 75)):
        x, index, spd = on_gpu(batch_of(40, 12, nodes, seed=nodes))
        x = x.relu().to_sparse_csr() if sparse else x
        with torch.inference_mode():
            expected = model(x, index, spd)
        torch.testing.assert_close(forward(x, index, spd), expected, rtol=1e-5, atol=1e-5)
        assert bool(forward._held) == (number > 0)
    with torch.no_grad():
        model.output.layers[0].bias += 1.0
    with torch.inference_mode():
        expected = model(x, index, spd)
    torch.testing.assert_close(forward(x, index, spd), expected, rtol=1e-5, atol=1e-5)


def test_a_recorded_step_of_sparse_features_is_the_step_itself():
    weights = []
    for recorded in (False, True):
        model = model_of(train=True, input_dropout=0.0).to(CUDA)
        optimizer = build_optimizer(model, TrainConfig(lr=1e-2))
        graphs = StepGraphs(model, optimizer, None, contextlib.nullcontext)
        torch.manual_seed(4)
        for number, nodes in enumerate((90, 60, 95, 300, 75)):
            x, index, spd = on_gpu(batch_of(40, 12, nodes, seed=nodes))
            x, labels = x.relu().to_sparse_csr(), torch.arange(40, device=CUDA) % 3
            if recorded and number:
                assert graphs.step((x, index, spd), labels) is not None
                continue
            optimizer.zero_grad(set_to_none=True)
            torch.nn.functional.cross_entropy(model(x, index, spd), labels).backward()
            optimizer.step()
        weights.append(torch.cat([p.detach().flatten() for p in model.parameters()]))
    assert off(weights[1], weights[0].double()) < 2e-3


class LooksAtTheBatch(torch.nn.Module):
    """Waits for the device in its forward pass, which no recording survives."""

    def __init__(self):
        super().__init__()
        self.inner = model_of(train=True, dropout=0.3)

    def forward(self, x, index, spd):
        assert float(x.sum()) == float(x.sum())
        return self.inner(x, index, spd)


def test_a_step_that_cannot_be_recorded_is_taken_kernel_by_kernel():
    model = LooksAtTheBatch().to(CUDA).train()
    optimizer = build_optimizer(model, TrainConfig(lr=1e-2))
    graphs = StepGraphs(model, optimizer, None, contextlib.nullcontext)
    batch, labels = on_gpu(batch_of(40, 12, 90, seed=1)), torch.arange(40, device=CUDA) % 3
    stream = torch.cuda.current_stream()
    torch.manual_seed(7)
    expected = torch.rand(5, device=CUDA)
    torch.manual_seed(7)
    with pytest.warns(TrainingWarning, match="not recorded"):
        assert graphs.step(batch, labels) is None
    assert torch.equal(torch.rand(5, device=CUDA), expected)  # as if nothing had been tried
    assert torch.cuda.current_stream() == stream
    torch.nn.functional.cross_entropy(model(*batch), labels).backward()
    optimizer.step()
    assert all(bool(torch.isfinite(p).all()) for p in model.parameters())
    # Memory is handed out as before: what another stream has used comes back.
    reserved = []
    for _ in range(3):
        held = torch.empty(1 << 26, device=CUDA)
        held.record_stream(torch.cuda.Stream())
        del held
        torch.cuda.synchronize()
        reserved.append(torch.cuda.memory_reserved())
    assert reserved[1] == reserved[2]


def test_batches_are_never_made_on_the_stream_of_a_recording():
    others = {_batch_stream(CUDA).cuda_stream}
    others |= {torch.cuda.Stream(CUDA).cuda_stream for _ in range(70)}  # more than PyTorch has
    assert recording_stream(CUDA).cuda_stream not in others


class OneBatch:
    """A loader of one batch whose labels follow from the egos' features."""

    def __init__(self):
        x, index, spd = batch_of(400, 8, 400, seed=2)
        index[:, 0] = torch.arange(400)
        self.batch = TokenBatch((x, index, spd), (x[:, 0] > 0).long(), torch.arange(400))
        self.num_nodes = 400

    def __len__(self):
        return 1

    def set_epoch(self, epoch):
        pass

    def iterate(self, start_batch=0):
        return iter([self.batch][start_batch:])


@pytest.mark.parametrize("cuda_graph", ["auto", "off"])
def test_training_reaches_the_score_of_the_reference(cuda_graph):
    scores = {}
    for path in ("reference", "auto"):
        model = model_of(attention=path, out_channels=2, dropout=0.1)
        config = TrainConfig(epochs=60, lr=5e-3, warmup_epochs=0, cuda_graph=cuda_graph)
        result = Trainer(model, config, device="cuda", progress=False).fit(OneBatch(), OneBatch())
        assert result.attention == ("fused" if path == "auto" else path)
        scores[path] = result.best_score
    assert scores["auto"] > 0.9
    assert abs(scores["auto"] - scores["reference"]) < 0.05


def trained_score(path, seed, graph, sampler):
    """The test accuracy of a small model after some epochs."""
    order = np.random.default_rng(seed).permutation(graph.num_nodes)
    model = model_of(seed, attention=path, in_channels=16, out_channels=4, dropout=0.3)
    model.reset_parameters()
    loaders = [
        TokenLoader(
            sampler,
            graph.features,
            graph.labels,
            nodes=np.sort(part),
            batch_size=400,
            shuffle=number == 0,
            seed=seed,
            device="cuda",
        )
        for number, part in enumerate(np.split(order, [1200, 1600]))
    ]
    config = TrainConfig(epochs=40, lr=3e-3, warmup_epochs=2, seed=seed)
    trainer = Trainer(model, config, device="cuda", progress=False)
    assert trainer.fit(*loaders[:2]).attention == ("fused" if path == "fused" else path)
    nodes, actual = trainer.predict(loaders[2])
    return float((actual.argmax(1) == graph.labels[nodes]).mean())


def test_models_trained_either_way_are_as_good():
    # Means over five seeds. A score of 2,400 nodes is known to 0.01 at best, and other dropout is
    # as another seed: twice the error of the difference of two means of five, or 0.02.
    graph = generate(4000, 8, seed=3, num_features=16, num_classes=4)
    labels = HubLabels.build(graph, progress=False)
    sampler = TokenSampler(labels, size=24, progress=False)
    scores = {
        path: np.array([trained_score(path, seed, graph, sampler) for seed in range(5)])
        for path in ("reference", "fused")
    }
    apart = abs(scores["fused"].mean() - scores["reference"].mean())
    error = np.sqrt(sum(one.var(ddof=1) / 5 for one in scores.values()))
    print({path: (one.mean(), one.std(ddof=1)) for path, one in scores.items()})
    assert scores["reference"].mean() > 0.4  # a quarter by chance
    assert apart < max(0.02, 2 * error), scores


def test_a_run_that_was_cut_off_ends_with_the_same_bits(tmp_path):
    # Recorded steps have room for rows by what came before, and the order of sums follows from it.
    graph = generate(900, 8, seed=3, num_features=16, num_classes=4)
    sampler = TokenSampler(HubLabels.build(graph, progress=False), size=12, progress=False)

    def run(folder, **more):
        loaders = [
            TokenLoader(sampler, graph.features, graph.labels, nodes=nodes, batch_size=150,
                        shuffle=nodes[0] == 0, device="cuda")
            for nodes in (np.arange(700), np.arange(700, 900))
        ]  # fmt: skip
        model = model_of(in_channels=16, out_channels=4, dropout=0.3, input_dropout=0.2)
        config = TrainConfig(epochs=6, lr=3e-3, warmup_epochs=1, cuda_graph="off")
        return Trainer(model, config, folder, "cuda", progress=False, **more), loaders

    whole, loaders = run(tmp_path / "whole")
    whole.fit(*loaders)
    cut, loaders = run(tmp_path / "cut")
    end_epoch, ended = cut._end_epoch, []

    def dying(*arguments):
        ended.append(1)
        if len(ended) == 4:
            raise KeyboardInterrupt
        return end_epoch(*arguments)

    cut._end_epoch = dying
    with pytest.raises(KeyboardInterrupt):
        cut.fit(*loaders)
    again, loaders = run(tmp_path / "cut", resume=True)
    again.fit(*loaders)
    first, second = (one.model.state_dict() for one in (whole, again))
    assert all(torch.equal(first[name], second[name]) for name in first)


def test_a_row_that_does_not_fit_takes_sdpa():
    attention._warn_once.cache_clear()
    model = model_of(num_virtual=2).to(CUDA)
    with pytest.warns(attention.TrainingWarning, match="more than the 128"):
        model(*on_gpu(batch_of(2, 130, 20)))
    assert model.attention_used == "sdpa"
