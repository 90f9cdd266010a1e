"""`input_activation`: ReLU and dropout after the sum of all inputs, before the layers."""

import pytest
import torch
import torch.nn.functional as F

from dhilgt.model.dhilgt import DHILGT
from tests.model.cases import batch_of, gradients, model_of
from tests.model.ego_cases import SETTINGS, ego_rows

pytestmark = pytest.mark.filterwarnings("ignore:Sparse CSR tensor support")
DOUBLE = torch.float64


def test_without_layers_a_residual_layer_follows():
    model = model_of(dtype=DOUBLE, num_layers=0, input_activation=True, **SETTINGS)
    x, index, spd = batch_of(rows=3, slots=5, nodes=6, dtype=DOUBLE)
    ego = ego_rows(3, dtype=DOUBLE)
    h = F.relu(model.input(x)[index[:, 0]] + model.ego_input(ego))  # [B, F]
    h = h + F.relu(h @ model.residual.weight.T + model.residual.bias)
    expected = model.output(model.norm(h))
    assert torch.allclose(model(x, index, spd, None, ego), expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("readout", ["ego", "attention"])
def test_layers_see_inputs_that_are_not_negative(readout, monkeypatch):
    model = model_of(dtype=DOUBLE, num_layers=1, input_activation=True, readout=readout)
    plain = model_of(dtype=DOUBLE, num_layers=1, readout=readout)
    plain.load_state_dict(model.state_dict())
    batch = batch_of(dtype=DOUBLE)
    assert not torch.allclose(model(*batch), plain(*batch))
    # The same as a model whose input MLP ends with ReLU.
    monkeypatch.setattr(
        plain.input, "forward", lambda x: F.relu(type(plain.input).forward(plain.input, x))
    )
    assert torch.allclose(model(*batch), plain(*batch), rtol=0, atol=1e-12)


def test_dropout_is_part_of_it_in_training_alone():
    model = model_of(num_layers=0, input_activation=True, dropout=0.5)
    batch = batch_of()
    assert torch.equal(model(*batch), model(*batch))
    model.train()
    assert not torch.equal(model(*batch), model(*batch))


def test_every_parameter_learns():
    model = model_of(dtype=DOUBLE, num_layers=0, input_activation=True)
    found = gradients(model, batch_of(dtype=DOUBLE))
    assert all(gradient.any() for gradient in found.values())


def test_models_without_it_are_saved_as_before(tmp_path):
    plain, active = model_of(), model_of(num_layers=0, input_activation=True)
    assert "input_activation" not in plain.config.to_dict()
    active.save_pretrained(tmp_path)
    batch = batch_of()
    assert torch.equal(DHILGT.from_pretrained(tmp_path)(*batch), active(*batch))
