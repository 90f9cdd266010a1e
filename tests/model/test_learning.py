"""The model in training, in other precisions and compiled; and what it refuses."""

import numpy as np
import pytest
import torch

import dhilgt
from dhilgt import DHILGT, HubLabels, TokenSampler
from tests.model.cases import batch_of, model_of, sparse_batch

torch.set_num_threads(1)
PATHS = ["reference", "sdpa"]


# ---- training ----------------------------------------------------------------------------------


def test_overfits_twenty_nodes():
    torch.manual_seed(0)
    graph = dhilgt.generate(300, 6, num_classes=4, homophily=0.5, feature_noise=3.0, seed=2)
    labels = HubLabels.build(graph, progress=False, threads=1)
    sampler = TokenSampler(labels, size=16, progress=False, threads=1)
    rows = sampler.rows(np.arange(20))
    distinct, index = np.unique(rows.ids, return_inverse=True)
    index = index.reshape(rows.ids.shape) - int(distinct[0] == -1)
    x = torch.tensor(graph.features[distinct[distinct >= 0]]).float()
    index, spd = torch.from_numpy(index), torch.from_numpy(rows.spd)
    expected = torch.tensor(np.asarray(graph.labels)[:20]).long()
    model = DHILGT(x.shape[1], 32, 4, num_layers=2, heads=4, dropout=0.1)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    for _ in range(80):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(x, index, spd), expected).backward()
        optimizer.step()
    model.eval()
    assert (model(x, index, spd).argmax(1) == expected).all()


RATES = ["dropout", "input_dropout", "bias_dropout", "attention_dropout", "output_dropout"]


@pytest.mark.parametrize("rate", RATES)
def test_each_dropout_acts_in_training_alone(rate):
    rates = dict.fromkeys(RATES, 0.0)
    batch = batch_of()
    still = model_of(**rates, train=True)
    assert torch.equal(still(*batch), still(*batch))
    model = model_of(**{**rates, rate: 0.4}, train=True)
    assert not torch.equal(model(*batch), model(*batch))
    model.eval()
    assert torch.equal(model(*batch), model(*batch))
    assert torch.equal(model(*batch), still.eval()(*batch))


def test_bias_dropout_keeps_the_mean_of_the_bias():
    model = model_of(bias_dropout=0.2, train=True)
    layer = model.layers[0]
    scaled = layer.bias_table()
    model.eval()
    plain = layer.bias_table()
    torch.testing.assert_close(scaled[:256] * 0.8, plain[:256])
    assert (scaled[256] == 0).all()
    assert (scaled[257] == -torch.inf).all()


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("virtual", [0, 2])
@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support")
def test_autocast(path, virtual):
    model = model_of(attention=path, num_virtual=virtual, train=True)
    for sparse in (False, True):
        x, index, spd = sparse_batch(torch.float32)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            out = model(x.to_sparse_csr() if sparse else x, index, spd)
            loss = torch.nn.functional.cross_entropy(out.float(), torch.zeros(5).long())
        loss.backward()
        assert out.isfinite().all()
        for parameter in model.parameters():
            assert parameter.grad.dtype == torch.float32
            assert parameter.grad.isfinite().all()
    model.eval()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        rough = model(x, index, spd).float()
    # bf16 has eight bits: a percent or so of logits of size one
    torch.testing.assert_close(rough, model(x, index, spd), rtol=0.05, atol=0.05)


def test_half_precision_parameters():
    model = model_of(dtype=torch.bfloat16)
    assert model(*batch_of()).dtype == torch.bfloat16


@pytest.mark.parametrize("path", PATHS)
def test_compiles_as_one_graph(path):
    model, batch = model_of(attention=path), batch_of()
    compiled = torch.compile(model, backend="eager", fullgraph=True)
    torch.testing.assert_close(compiled(*batch), model(*batch))


def test_training_compiles_as_one_graph():
    model, batch = model_of(attention_dropout=0.1, train=True), batch_of()
    assert torch.compile(model, backend="eager", fullgraph=True)(*batch).isfinite().all()


@pytest.mark.parametrize("path", ["auto", *PATHS])
def test_shapes_off_the_cpu(path):
    # The meta device computes shapes alone, by the code that other devices than the CPU run.
    model = model_of(attention=path, attention_dropout=0.1, train=True).to("meta")
    out = model(*(part.to("meta") for part in batch_of()))
    assert out.device.type == "meta"
    assert out.shape == (5, 3)
    out.sum().backward()


def test_exports_with_batches_of_any_size():
    model, batch = model_of(), batch_of()
    rows, nodes = torch.export.Dim("rows"), torch.export.Dim("nodes")
    program = torch.export.export(
        model, batch, dynamic_shapes=({0: nodes}, {0: rows}, {0: rows})
    ).module()
    other = batch_of(rows=3, nodes=12, seed=4)
    torch.testing.assert_close(program(*other), model(*other))


# ---- wrong input -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"hidden_channels": 18}, "not a multiple of heads = 4"),
        ({"in_channels": 0}, "in_channels = 0"),
        ({"num_layers": -1}, "num_layers = -1"),
        ({"num_layers": 2.5}, "num_layers = 2.5"),
        ({"heads": True}, "heads = True"),
        ({"num_virtual": -1}, "num_virtual = -1"),
        ({"dropout": 1.0}, "dropout = 1.0"),
        ({"bias_dropout": -0.1}, "bias_dropout = -0.1"),
        ({"input_dropout": "0.1"}, "input_dropout = '0.1'"),
        ({"attention_dropout": float("nan")}, "attention_dropout = nan"),
        ({"output_dropout": 1}, "output_dropout = 1"),
        ({"bias_slope": -1}, "bias_slope = -1; pass a number from 0 up to 100"),
        ({"bias_slope": "steep"}, "bias_slope = 'steep'"),
        ({"bias_slope": 2, "spd_bias": False}, "there is none with spd_bias = False"),
        ({"ffn_channels": 0}, "ffn_channels = 0"),
        ({"readout": "mean"}, '"attention", "ego"'),
        ({"attention": "flash"}, '"auto", "reference", "sdpa"'),
        ({"spd_bias": 1}, "spd_bias = 1"),
        ({"output_layers": 0}, "output_layers = 0"),
    ],
)
def test_wrong_settings(settings, words):
    with pytest.raises(ValueError, match=words):
        model_of(**settings)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda x, i, d: (x[:, :5], i, d), "in_channels = 7"),
        (lambda x, i, d: (x[0], i, d), "x has shape"),
        (lambda x, i, d: (x.to_sparse_coo(), i, d), "to_sparse_csr"),
        (lambda x, i, d: (x, i[0], d), r"index has shape \(6,\)"),
        (lambda x, i, d: (x, i[:, :0], d[:, :0, :0]), "index has shape"),
        (lambda x, i, d: (x, i.float(), d), "index holds torch.float32"),
        (lambda x, i, d: (x, i, d[:, :5]), r"spd has shape \(5, 5, 6\)"),
        (lambda x, i, d: (x, i, d[:4]), "spd has shape"),
        (lambda x, i, d: (x, i, d.long()), "spd holds torch.int64"),
    ],
)
def test_wrong_tensors(change, words):
    with pytest.raises(ValueError, match=words):
        model_of()(*change(*batch_of()))


@pytest.mark.parametrize("wrong", [-2, 9])
def test_index_out_of_range(wrong):
    x, index, spd = batch_of()
    index[1, 1] = wrong
    with pytest.raises(IndexError):
        model_of()(x, index, spd)
