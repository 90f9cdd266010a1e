"""Models that read out the ego alone: the last layer skips what nothing reads."""

import itertools

import pytest
import torch
import torch.nn.functional as F

from dhilgt import DHILGT
from dhilgt.errors import ConfigError
from dhilgt.model.attention import ego_codes, pair_codes
from tests.model.cases import batch_of, gradients, model_of, sparse_batch
from tests.model.ego_cases import SETTINGS, ego_rows

pytestmark = pytest.mark.filterwarnings("ignore:Sparse CSR tensor support")

DOUBLE = torch.float64


class FullLastLayer(DHILGT):
    """The slow, obvious version: every layer for all slots, then slot 0."""

    def embed(self, x, index, spd, known=None, ego=None, adjacency=None, *, room=None):
        path = self._take_path(x, index, spd, known, ego, adjacency)
        return self.norm(self._encode(x, index, spd, known, path, ego, adjacency)[:, 0])


def full_version_of(model):
    full = FullLastLayer(**model.config.to_dict()).to(DOUBLE)
    full.load_state_dict(model.state_dict())
    return full.train(model.training)


def batch_with(label_inputs, padding):
    x, index, spd = batch_of(dtype=DOUBLE, padding=padding)
    index[1, 2] = index[1, 0]  # a directed row can hold its ego twice
    known = torch.arange(len(x)) % 4
    return (x, index, spd, known) if label_inputs else (x, index, spd)


CASES = list(itertools.product((1, 2, 3), (0, 4), (False, True), (0.0, 0.4)))


@pytest.mark.parametrize(("layers", "virtual", "label_inputs", "padding"), CASES)
def test_the_ego_alone_in_the_last_layer_is_what_the_full_layer_gives(
    layers, virtual, label_inputs, padding
):
    model = model_of(
        dtype=DOUBLE,
        num_layers=layers,
        num_virtual=virtual,
        label_inputs=label_inputs,
        readout="ego",
    )
    full = full_version_of(model)
    batch = batch_with(label_inputs, padding)
    assert torch.allclose(model(*batch), full(*batch), rtol=0, atol=1e-12)
    ours, theirs = gradients(model, batch), gradients(full, batch)
    assert ours.keys() == theirs.keys()
    for name, gradient in ours.items():
        assert torch.allclose(gradient, theirs[name], rtol=0, atol=1e-12), name


@pytest.mark.parametrize("layers", [1, 2])
def test_an_ego_that_is_padding_attends_to_nothing(layers):
    model = model_of(dtype=DOUBLE, num_layers=layers, readout="ego")
    x, index, spd = batch_of(dtype=DOUBLE)
    index[2] = -1
    assert torch.allclose(
        model(x, index, spd), full_version_of(model)(x, index, spd), rtol=0, atol=1e-12
    )


def test_sparse_features_give_what_dense_ones_give():
    model = model_of(dtype=DOUBLE, num_layers=1, readout="ego")
    x, index, spd = sparse_batch()
    assert torch.allclose(model(x.to_sparse_csr(), index, spd), model(x, index, spd), atol=1e-12)


@pytest.mark.parametrize("layers", [0, 1, 2])
def test_what_egos_are_connected_to_counts_as_in_the_full_layer(layers):
    model = model_of(dtype=DOUBLE, num_layers=layers, readout="ego", num_virtual=0, **SETTINGS)
    full = full_version_of(model)
    x, index, spd = batch_of(dtype=DOUBLE)
    index[2] = -1
    batch = (x, index, spd, None, ego_rows(len(index), dtype=DOUBLE))
    assert torch.allclose(model(*batch), full(*batch), rtol=0, atol=1e-12)
    ours, theirs = gradients(model, batch), gradients(full, batch)
    assert all(torch.allclose(ours[name], theirs[name], rtol=0, atol=1e-12) for name in ours)


@pytest.mark.parametrize("spd_bias", [True, False])
def test_without_a_bias_per_distance_nothing_else_changes(spd_bias):
    model = model_of(dtype=DOUBLE, num_layers=2, readout="ego", spd_bias=spd_bias)
    batch = batch_of(dtype=DOUBLE)
    assert torch.allclose(model(*batch), full_version_of(model)(*batch), rtol=0, atol=1e-12)


def test_the_codes_of_the_ego_are_the_first_row_of_those_of_all_pairs():
    _, index, spd = batch_of()
    index[3] = -1
    for virtual in (0, 3):
        all_pairs = pair_codes(spd, index >= 0, virtual).codes
        assert torch.equal(ego_codes(spd, index >= 0, virtual), all_pairs[:, 0])


@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("setting", ["dropout", "bias_dropout", "attention_dropout"])
def test_dropout_draws_the_same_distribution_as_the_full_layer(layers, setting):
    zero = {"dropout": 0.0, "bias_dropout": 0.0, "attention_dropout": 0.0, "input_dropout": 0.0}
    model = model_of(
        dtype=DOUBLE, train=True, num_layers=layers, readout="ego", **{**zero, setting: 0.3}
    )
    batch = batch_of(rows=2, dtype=DOUBLE)
    many = (batch[0], *(part.repeat_interleave(2000, 0) for part in batch[1:]))  # a draw per row

    def moments(module):
        torch.manual_seed(1)
        with torch.no_grad():
            draws = module(*many).view(2, 2000, -1)
        return draws.mean(1), draws.std(1)

    (mean, spread), (full_mean, full_spread) = moments(model), moments(full_version_of(model))
    assert ((mean - full_mean).abs() <= 6 * full_spread / 2000**0.5).all()
    assert torch.allclose(spread, full_spread, rtol=0.15, atol=1e-3)


# ---- no layers -----------------------------------------------------------------------------------


def features_alone(model, x, index):
    """By hand: input layer, norm and output layer of each ego; zeros for an ego that is padding."""
    state = model.state_dict()
    h = x @ state["input.layers.0.weight"].T + state["input.layers.0.bias"]
    h = torch.stack([h[row[0]] if row[0] >= 0 else torch.zeros_like(h[0]) for row in index])
    h = F.layer_norm(h, h.shape[1:], state["norm.weight"], state["norm.bias"])
    return h @ state["output.layers.0.weight"].T + state["output.layers.0.bias"]


@pytest.mark.parametrize("slots", [1, 6])
@pytest.mark.parametrize("sparse", [False, True])
def test_without_layers_only_the_features_of_the_ego_count(slots, sparse):
    model = model_of(dtype=DOUBLE, num_layers=0)
    x, index, spd = sparse_batch() if sparse else batch_of(dtype=DOUBLE)
    index, spd = index[:, :slots], spd[:, :slots, :slots]
    index[2, 0] = -1
    given = x.to_sparse_csr() if sparse else x
    expected = features_alone(model, x, index)
    assert torch.allclose(model(given, index, spd), expected, rtol=0, atol=1e-12)


def test_without_layers_few_nodes_and_many_rows_work_too():
    model = model_of(dtype=DOUBLE, num_layers=0)
    x, index, spd = batch_of(rows=7, nodes=3, dtype=DOUBLE)
    assert torch.allclose(model(x, index, spd), features_alone(model, x, index), atol=1e-12)


def test_without_layers_there_are_no_parameters_of_layers_and_all_have_gradients():
    model = model_of(num_layers=0, readout="attention", num_virtual=4, train=True)
    names = {name.partition(".")[0] for name, _ in model.named_parameters()}
    assert names == {"input", "norm", "output"}
    assert all(gradient is not None for gradient in gradients(model, batch_of()).values())
    assert model.no_weight_decay() == set()


@pytest.mark.parametrize("readout", ["attention", "ego"])
def test_a_model_without_layers_is_saved_and_loaded(tmp_path, readout):
    model = model_of(num_layers=0, readout=readout)
    model.save_pretrained(tmp_path)
    loaded = DHILGT.from_pretrained(tmp_path)
    assert loaded.config == model.config
    assert torch.equal(loaded(*batch_of()), model(*batch_of()))


def test_without_layers_there_is_nothing_to_attend_with():
    model = model_of(num_layers=0, attention="fused")
    model(*batch_of())  # no warning that kernels cannot run
    assert model.attention_used == "reference"
    with pytest.raises(ValueError, match="at least one layer"):
        model.readout_weights(*batch_of())


def test_classes_of_others_need_a_layer():
    with pytest.raises(ConfigError, match=r"label_inputs.*num_layers of 1 or more"):
        model_of(num_layers=0, label_inputs=True)
