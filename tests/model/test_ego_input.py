"""What an ego is connected to reaches its own slot, and only that."""

import pytest
import torch
from torch.autograd import gradcheck

from dhilgt import DHILGT, ConfigError
from dhilgt.model import sparse_product as products
from dhilgt.model.ego_input import EgoInput
from dhilgt.model.sparse_product import grouped_product, sparse_product
from tests.model.cases import batch_of, gradients, model_of
from tests.model.ego_cases import CHANNELS, GROUPS, SETTINGS, ego_rows

pytestmark = pytest.mark.filterwarnings("ignore:Sparse CSR tensor support")


# ---- the product ---------------------------------------------------------------------------------


@pytest.fixture(params=["host", "bags"])
def way(request, monkeypatch):
    """Both ways to compute the product."""
    if request.param == "bags":
        monkeypatch.setattr(products, "_on_host", lambda *_: False)
    return request.param


@pytest.mark.parametrize("width", [1, 4])
@pytest.mark.parametrize("egos", [0, 1, 5])
def test_the_product_and_its_gradient_are_those_of_dense_matrices(way, egos, width):
    rows = ego_rows(egos, dtype=torch.float64)
    table = torch.randn(CHANNELS, width, dtype=torch.float64, requires_grad=True)
    actual = sparse_product(rows, 2 * rows.values(), table)
    expected = 2 * rows.to_dense() @ table
    torch.testing.assert_close(actual, expected)
    mix = torch.randn_like(expected)
    (one,) = torch.autograd.grad((actual * mix).sum(), table)
    (two,) = torch.autograd.grad((expected * mix).sum(), table)
    torch.testing.assert_close(one, two)


@pytest.mark.parametrize("egos", [0, 1, 5])
def test_sums_over_groups_are_those_of_dense_matrices(way, egos):
    rows = ego_rows(egos, dtype=torch.float64)
    table = torch.randn(CHANNELS, 4, dtype=torch.float64, requires_grad=True)
    scale = torch.randn(GROUPS, dtype=torch.float64, requires_grad=True)
    actual = grouped_product(rows, 2 * rows.values(), table, scale)
    dense = 2 * rows.to_dense().view(egos, GROUPS, CHANNELS)
    expected = torch.einsum("k,bkt,tf->bf", scale, dense, table)
    torch.testing.assert_close(actual, expected)
    mix = torch.randn_like(expected)
    one = torch.autograd.grad((actual * mix).sum(), (table, scale))
    two = torch.autograd.grad((expected * mix).sum(), (table, scale))
    torch.testing.assert_close(one, two)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_product_has_the_type_of_its_table(way, dtype):
    rows = ego_rows(5, dtype=dtype)
    table = torch.randn(CHANNELS, 4, dtype=dtype, requires_grad=True)
    product = sparse_product(rows, rows.values(), table)
    product.sum().backward()
    assert product.dtype == table.grad.dtype == dtype
    torch.testing.assert_close(product, rows.to_dense() @ table, rtol=2e-2, atol=2e-2)


def test_the_values_of_a_product_can_have_gradients():
    rows, table = ego_rows(4, dtype=torch.float64), torch.randn(CHANNELS, 2, dtype=torch.float64)
    values = rows.values().clone().requires_grad_()
    assert gradcheck(lambda values: sparse_product(rows, values, table), (values,))


def test_gradients_that_are_one_number_repeated(way):
    rows = ego_rows(5, dtype=torch.float64)
    table = torch.randn(CHANNELS, 4, dtype=torch.float64, requires_grad=True)
    sparse_product(rows, rows.values(), table).sum().backward()  # its gradient has no strides
    expected = rows.to_dense().sum(0)[:, None].expand(-1, 4)
    torch.testing.assert_close(table.grad, expected)


# ---- the input -----------------------------------------------------------------------------------


def test_a_vector_is_the_sum_of_the_scaled_rows_of_its_ego():
    layer = EgoInput(CHANNELS, 8, GROUPS, 0.5).double().eval()
    rows = ego_rows(5, dtype=torch.float64)
    with torch.no_grad():
        layer.scale.copy_(torch.tensor([2.0, -1.0, 0.5]))
    dense = rows.to_dense().view(5, GROUPS, CHANNELS)
    expected = sum(layer.scale[k] * (dense[:, k] @ layer.weight) for k in range(GROUPS))
    torch.testing.assert_close(layer(rows), expected)
    assert not layer(rows)[0].any()  # the first ego has no entries


def test_gradients_of_the_table_and_the_scales():
    layer, rows = EgoInput(CHANNELS, 4, GROUPS, 0.0).double(), ego_rows(4, dtype=torch.float64)

    def run(weight, scale):
        state = {"weight": weight, "scale": scale}
        return torch.func.functional_call(layer, state, (rows,))

    inputs = tuple(p.detach().clone().requires_grad_() for p in (layer.weight, layer.scale))
    assert gradcheck(run, inputs)


def test_dropout_is_on_entries():
    layer = EgoInput(CHANNELS, 1, GROUPS, 0.25).train()
    with torch.no_grad():
        layer.weight.fill_(1.0)
    ones = torch.ones(400 * GROUPS, CHANNELS).to_sparse_csr()
    torch.manual_seed(0)
    kept = layer(ones).detach() * 0.75  # of an ego's entries, the number that is left
    torch.testing.assert_close(kept, kept.round())
    assert len(kept.round().unique()) > 5
    assert abs(float(kept.mean()) / (GROUPS * CHANNELS) - 0.75) < 0.02
    assert torch.equal(layer.eval()(ones), torch.full((400, 1), float(GROUPS * CHANNELS)))


@pytest.mark.parametrize("count", [1, 100])
def test_a_row_has_the_size_of_one_vector_however_long_it_is(count):
    torch.manual_seed(0)
    layer = EgoInput(500, 64, 1, 0.0)
    rows = torch.zeros(5, 500)
    for row in range(5):
        rows[row, row * count : (row + 1) * count] = count**-0.5
    norms = layer(rows.to_sparse_csr()).norm(dim=1) / layer.weight.norm(dim=1).mean()
    assert ((norms > 0.6) & (norms < 1.4)).all()


# ---- in the model --------------------------------------------------------------------------------


@pytest.mark.parametrize("label_inputs", [False, True])
@pytest.mark.parametrize("readout", ["attention", "ego"])
def test_the_rows_are_added_to_the_first_slot_alone(readout, label_inputs):
    """The same as a node for each ego alone, whose features are moved by the ego's vector."""
    settings = {"dtype": torch.float64, "readout": readout, "label_inputs": label_inputs}
    model = model_of(**settings, **SETTINGS)
    plain = model_of(**settings, in_channels=16)  # takes the output of the input layer as features
    state = {k: v for k, v in model.state_dict().items() if not k.startswith("ego_input.")}
    state["input.layers.0.weight"] = torch.eye(16, dtype=torch.float64)
    state["input.layers.0.bias"] = torch.zeros(16, dtype=torch.float64)
    plain.load_state_dict(state)
    x, index, spd = batch_of(dtype=torch.float64)
    index[1, 3] = index[1, 0]  # directed rows can hold the ego twice; the second one is plain
    rows = ego_rows(len(index), dtype=torch.float64, seed=1)
    known = torch.arange(len(x)) % 4
    h = model.input(x)
    h = torch.cat([h, h[index[:, 0]] + model.ego_input(rows)])
    moved = index.clone()
    moved[:, 0] = len(x) + torch.arange(len(index))
    actual = model(x, index, spd, known if label_inputs else None, rows)
    for row, ego in enumerate(index[:, 0].tolist()):
        one = slice(row, row + 1)
        seen = torch.cat([known, torch.zeros_like(index[:, 0])])
        seen[ego] = 0  # an ego never sees its own class
        expected = plain(h, moved[one], spd[one], seen if label_inputs else None)
        torch.testing.assert_close(actual[one], expected)


@pytest.mark.parametrize("path", ["reference", "sdpa"])
def test_egos_do_not_see_the_rows_of_others(path):
    model = model_of(attention=path, dtype=torch.float64, **SETTINGS)
    batch, rows = batch_of(dtype=torch.float64), ego_rows(5, dtype=torch.float64, seed=2)
    other = rows.to_dense()
    other[2 * GROUPS : 3 * GROUPS] += 1
    before, after = model(*batch, None, rows), model(*batch, None, other.to_sparse_csr())
    changed = (before - after).abs().amax(1) > 1e-9
    assert changed.tolist() == [False, False, True, False, False]


def test_the_order_of_a_batch_does_not_matter():
    model = model_of(dtype=torch.float64, **SETTINGS)
    (x, index, spd), rows = batch_of(dtype=torch.float64), ego_rows(5, dtype=torch.float64, seed=2)
    order = torch.tensor([3, 0, 4, 1, 2])
    shuffled = rows.to_dense().view(5, GROUPS, CHANNELS)[order].flatten(0, 1).to_sparse_csr()
    actual = model(x, index[order], spd[order], None, shuffled)
    torch.testing.assert_close(actual, model(x, index, spd, None, rows)[order])


def test_a_model_with_empty_rows_is_the_model_without():
    model, batch = model_of(dtype=torch.float64, **SETTINGS), batch_of(dtype=torch.float64)
    plain = model_of(dtype=torch.float64)
    state = {k: v for k, v in model.state_dict().items() if not k.startswith("ego_input.")}
    plain.load_state_dict(state)
    empty = torch.zeros(5 * GROUPS, CHANNELS, dtype=torch.float64).to_sparse_csr()
    assert torch.equal(model(*batch, None, empty), plain(*batch))


def test_no_egos_and_egos_of_padding():
    model = model_of(**SETTINGS)
    x, index, spd = batch_of()
    assert model(x, index[:0], spd[:0], None, ego_rows(0)).shape == (0, 3)
    index[1] = -1
    assert torch.isfinite(model(x, index, spd, None, ego_rows(5))).all()


def test_table_and_scales_learn_and_the_table_decays():
    model = model_of(**SETTINGS)
    grads = gradients(model, (*batch_of(), None, ego_rows(5)))
    assert grads["ego_input.weight"].abs().sum(1).gt(0).all()
    assert grads["ego_input.scale"].all()
    assert not any(name.startswith("ego_input") for name in model.no_weight_decay())


def test_other_parameters_begin_as_without():
    torch.manual_seed(3)
    plain = DHILGT(4, 16, 2).state_dict()
    torch.manual_seed(3)
    other = DHILGT(4, 16, 2, ego_channels=5, ego_groups=2)
    state = other.state_dict()
    assert all(torch.equal(plain[name], state[name]) for name in plain)
    assert state.keys() - plain.keys() == {"ego_input.weight", "ego_input.scale"}
    before = other.ego_input.weight.detach().clone()
    other.reset_parameters()
    assert not torch.equal(other.ego_input.weight, before)


def test_a_saved_model_comes_back(tmp_path):
    model = model_of(**SETTINGS)
    model.save_pretrained(tmp_path)
    loaded, batch = DHILGT.from_pretrained(tmp_path), (*batch_of(), None, ego_rows(5))
    assert loaded.config == model.config
    assert torch.equal(loaded(*batch), model(*batch))


def test_autocast_leaves_the_rows_in_the_precision_of_the_table():
    model = model_of(**SETTINGS)
    rows = ego_rows(5)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        vectors = model.ego_input(rows)
        logits = model(*batch_of(), None, rows)
    assert torch.equal(vectors, model.ego_input(rows))
    logits.float().sum().backward()
    assert model.ego_input.weight.grad.dtype == torch.float32
    torch.testing.assert_close(logits.float(), model(*batch_of(), None, rows), rtol=0.1, atol=0.1)


def test_the_host_adds_in_one_order():
    """Whatever the number of threads: the gradient repeats to the last bit."""
    layer, rows = EgoInput(CHANNELS, 16, GROUPS, 0.0), ego_rows(300)
    threads, grads = torch.get_num_threads(), []
    try:
        for count in (1, 2):
            torch.set_num_threads(count)
            layer.zero_grad()
            layer(rows).square().sum().backward()
            grads.append(layer.weight.grad.clone())
    finally:
        torch.set_num_threads(threads)
    assert torch.equal(*grads)


@pytest.mark.parametrize(
    ("settings", "ego", "said"),
    [
        ({}, ego_rows(5), "ego is given, but the model has ego_channels=0"),
        (SETTINGS, None, "the model has ego_channels=11; pass ego, a CSR tensor of 3 rows"),
        (SETTINGS, ego_rows(4), r"ego has shape \(12, 11\); 5 egos with ego_groups=3 need \(15, 1"),
        (SETTINGS, ego_rows(5).to_dense(), "ego has layout torch.strided; pass ego.to_sparse_csr"),
    ],
)
def test_what_does_not_fit_is_refused(settings, ego, said):
    with pytest.raises(ValueError, match=said):
        model_of(**settings)(*batch_of(), None, ego)


@pytest.mark.parametrize("settings", [{"ego_channels": 5}, {"ego_groups": 2}])
def test_columns_and_groups_come_together(settings):
    with pytest.raises(ConfigError, match=r"ego_channels.*ego_groups.*set both, or neither"):
        DHILGT(4, 16, 2, **settings)
