"""The model: its equations, its masks, its switches."""

import math
import subprocess
import sys

import numpy as np
import pytest
import torch

import dhilgt
from dhilgt import DHILGT
from tests.model.cases import batch_of, gradients, model_of, sparse_batch

torch.set_num_threads(1)
PATHS = ["reference", "sdpa"]


# ---- the equations -----------------------------------------------------------------------------


def norm(h, module):
    mean, var = h.mean(-1, keepdims=True), h.var(-1, keepdims=True)
    return (h - mean) / np.sqrt(var + 1e-5) * module["weight"] + module["bias"]


def linear(h, module):
    return h @ module["weight"].T + module["bias"]


def gelu(h):
    return 0.5 * h * (1 + np.vectorize(math.erf)(h / math.sqrt(2)))


def softmax(scores):
    scores = np.exp(scores - scores.max())
    return scores / scores.sum()


def by_hand(model, x, index, spd):
    """The whole model with one loop per row, head and query; padding is left out, not masked."""
    state = {name: value.numpy() for name, value in model.state_dict().items()}

    def part(name):
        return {
            key.removeprefix(name + "."): value
            for key, value in state.items()
            if key.startswith(name + ".")
        }

    config, logits = model.config, []
    heads, m = config.heads, config.num_virtual
    d = config.hidden_channels // heads
    for row, distances in zip(index.numpy(), spd.numpy(), strict=True):
        slots = np.flatnonzero(row >= 0)
        n = len(slots)
        h = linear(x.numpy()[row[slots]], part("input.layers.0"))
        h = np.concatenate([h, state["virtual"]])
        for number in range(config.num_layers):
            layer = f"layers.{number}"
            own = part(layer)
            qkv = linear(norm(h, part(f"{layer}.attention_norm")), part(f"{layer}.qkv"))
            query, key, value = np.split(qkv, 3, axis=1)
            mixed = np.zeros_like(h)
            for head in range(heads):
                at = slice(head * d, (head + 1) * d)
                for u in range(n + m):
                    scores = np.empty(n + m)
                    for w in range(n + m):
                        if u < n and w < n:
                            bias = own["spd_bias"][distances[slots[u], slots[w]], head]
                        elif u < n:
                            bias = own["to_virtual_bias"][w - n, head]
                        elif w < n:
                            bias = own["from_virtual_bias"][u - n, head]
                        else:
                            bias = own["virtual_bias"][u - n, w - n, head]
                        scores[w] = query[u, at] @ key[w, at] / math.sqrt(d) + bias
                    mixed[u, at] = softmax(scores) @ value[:, at]
            h = h + linear(mixed, part(f"{layer}.projection"))
            inner = gelu(linear(norm(h, part(f"{layer}.ffn_norm")), part(f"{layer}.ffn_in")))
            h = h + linear(inner, part(f"{layer}.ffn_out"))
        h = norm(h, part("norm"))[:n]
        # The literal readout, with an arbitrary half of W_E for the ego: it makes no difference.
        w_e = np.concatenate([np.linspace(-3, 5, h.shape[1]), state["readout.score.weight"][0]])
        alpha = softmax(np.array([np.concatenate([h[0], h[u]]) @ w_e for u in range(n)]))
        logits.append(linear(h[0] + alpha @ h, part("output.layers.0")))
    return np.stack(logits)


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("layers", [1, 3])
def test_equals_numpy(path, layers):
    model = model_of(dtype=torch.float64, num_layers=layers, ffn_channels=10, attention=path)
    batch = batch_of(dtype=torch.float64)
    actual = model(*batch).detach().numpy()
    np.testing.assert_allclose(actual, by_hand(model, *batch), rtol=1e-10, atol=1e-10)


def test_deeper_mlps_have_gelu_between_layers():
    model = model_of(dtype=torch.float64, input_layers=2, output_layers=3)
    x, index, spd = batch_of(dtype=torch.float64)
    one, two = model.input.layers
    h = two(torch.nn.functional.gelu(one(x)))
    torch.testing.assert_close(model.input(x), h)
    assert [tuple(layer.weight.shape) for layer in model.output.layers] == [
        (16, 16), (16, 16), (3, 16),
    ]  # fmt: skip
    assert model(x, index, spd).shape == (5, 3)


# tight in float64; in float32 two layers of sums differ in the last digits
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-11), (torch.float32, 1e-4)])
@pytest.mark.parametrize("settings", [{}, {"num_virtual": 0}, {"spd_bias": False}])
def test_paths_agree(dtype, tolerance, settings):
    batch = batch_of(dtype=dtype)
    one = model_of(dtype=dtype, attention="reference", **settings)
    two = model_of(dtype=dtype, attention="sdpa", **settings)
    torch.testing.assert_close(two(*batch), one(*batch), rtol=tolerance, atol=tolerance)
    grads, other = gradients(one, batch), gradients(two, batch)
    for name, grad in grads.items():
        torch.testing.assert_close(other[name], grad, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("path", PATHS)
def test_gradcheck(path):
    model = model_of(
        dtype=torch.float64, hidden_channels=4, heads=2, num_layers=1, num_virtual=1, attention=path
    )
    x, index, spd = batch_of(rows=2, slots=3, nodes=3, dtype=torch.float64, padding=0.5)
    names = [name for name, _ in model.named_parameters()]
    parameters = [parameter.detach().clone().requires_grad_() for parameter in model.parameters()]
    x.requires_grad_()

    def run(x, *values):
        state = dict(zip(names, values, strict=True))
        return torch.func.functional_call(model, state, (x, index, spd))

    assert torch.autograd.gradcheck(run, (x, *parameters))


# ---- shapes ------------------------------------------------------------------------------------


@pytest.mark.parametrize("rows", [1, 4])
@pytest.mark.parametrize("slots", [1, 2, 64])
@pytest.mark.parametrize("classes", [1, 2, 349])
@pytest.mark.parametrize("virtual", [0, 4])
def test_shapes(rows, slots, classes, virtual):
    model = model_of(out_channels=classes, num_virtual=virtual)
    batch = batch_of(rows, slots)
    assert model(*batch).shape == (rows, classes)
    assert model.embed(*batch).shape == (rows, 16)
    assert model.readout_weights(*batch).shape == (rows, slots)
    assert all(grad.isfinite().all() for grad in gradients(model, batch).values())


def test_no_rows():
    x, index, spd = batch_of()
    assert model_of()(x, index[:0], spd[:0]).shape == (0, 3)


def test_index_types_agree():
    model, (x, index, spd) = model_of(), batch_of()
    assert torch.equal(model(x, index.int(), spd), model(x, index, spd))


def test_every_parameter_learns():
    model, batch = model_of(dtype=torch.float64), batch_of(dtype=torch.float64)
    still = {name for name, grad in gradients(model, batch).items() if (grad == 0).all()}
    # what virtual nodes see in the last layer is not read
    assert still == {"layers.1.from_virtual_bias", "layers.1.virtual_bias"}


def test_reset_parameters_gives_a_new_model():
    torch.manual_seed(3)
    fresh = DHILGT(7, 16, 3, num_layers=2, heads=4, num_virtual=2).state_dict()
    model = model_of()
    assert not any(torch.equal(value, fresh[name]) for name, value in model.state_dict().items())
    torch.manual_seed(3)
    model.reset_parameters()
    assert all(torch.equal(value, fresh[name]) for name, value in model.state_dict().items())


# ---- masks and symmetries ----------------------------------------------------------------------


@pytest.mark.parametrize("path", PATHS)
def test_what_spd_says_of_padding_changes_nothing(path):
    model = model_of(attention=path)
    x, index, spd = batch_of()
    hidden = (index == -1)[:, None, :] | (index == -1)[:, :, None]
    assert hidden.any()
    noise = torch.where(hidden, torch.randint(0, 256, spd.shape).to(torch.uint8), spd)
    assert not torch.equal(noise, spd)
    assert torch.equal(model(x, index, noise), model(x, index, spd))
    one, two = gradients(model, (x, index, spd)), gradients(model, (x, index, noise))
    assert all(torch.equal(one[name], two[name]) for name in one)


def test_more_padding_changes_nothing():
    model = model_of(dtype=torch.float64)
    x, index, spd = batch_of(dtype=torch.float64)
    wide = torch.full((5, 10), -1)
    wide[:, :6] = index
    far = torch.full((5, 10, 10), 17, dtype=torch.uint8)
    far[:, :6, :6] = spd
    torch.testing.assert_close(model(x, wide, far), model(x, index, spd))


def test_features_of_other_nodes_do_not_reach_padding():
    # Padding must not borrow row 0 of x, not even multiplied by zero.
    model = model_of()
    x, index, spd = batch_of()
    index[index == 0] = 1
    x[0] = float("nan")
    assert model(x, index, spd).isfinite().all()
    assert all(grad.isfinite().all() for grad in gradients(model, (x, index, spd)).values() if
               grad.shape != (16, 7))  # fmt: skip


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("virtual", [0, 2])
def test_rows_of_padding_except_the_ego(path, virtual):
    model = model_of(attention=path, num_virtual=virtual)
    x, index, spd = batch_of()
    index[:, 1:] = -1
    out = model(x, index, spd)
    torch.testing.assert_close(out, model(x, index[:, :1], spd[:, :1, :1]))
    assert all(grad.isfinite().all() for grad in gradients(model, (x, index, spd)).values())


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("virtual", [0, 2])
def test_rows_of_padding_alone_are_finite(path, virtual):
    model = model_of(attention=path, num_virtual=virtual)
    x, index, spd = batch_of()
    index[2] = -1
    assert model(x, index, spd).isfinite().all()
    assert (model.readout_weights(x, index, spd)[2] == 0).all()
    assert all(grad.isfinite().all() for grad in gradients(model, (x, index, spd)).values())


@pytest.mark.parametrize("path", PATHS)
def test_order_of_members_does_not_matter(path):
    model = model_of(dtype=torch.float64, attention=path)
    x, index, spd = batch_of(dtype=torch.float64, slots=8)
    order = torch.cat([torch.zeros(1, dtype=torch.int64), 1 + torch.randperm(7)])
    moved = model(x, index[:, order], spd[:, order][:, :, order])
    torch.testing.assert_close(moved, model(x, index, spd), rtol=1e-11, atol=1e-11)
    other = model(x, index[:, order], spd)  # the distances left where they were
    assert not torch.allclose(other, model(x, index, spd))


def test_the_ego_is_not_just_any_member():
    model = model_of(dtype=torch.float64)
    x, index, spd = batch_of(dtype=torch.float64, padding=0)
    order = torch.tensor([1, 0, 2, 3, 4, 5])
    moved = model(x, index[:, order], spd[:, order][:, :, order])
    assert not torch.allclose(moved, model(x, index, spd))


def test_rows_do_not_see_each_other():
    model = model_of(dtype=torch.float64)
    x, index, spd = batch_of(dtype=torch.float64)
    whole = model(x, index, spd)
    alone = torch.cat([model(x, index[i : i + 1], spd[i : i + 1]) for i in range(5)])
    torch.testing.assert_close(whole, alone)


def test_no_path_is_not_padding():
    model = model_of(dtype=torch.float64)
    x, index, spd = batch_of(dtype=torch.float64, padding=0)
    spd[:, -1, :-1] = spd[:, :-1, -1] = 255
    seen = model(x, index, spd)
    without = index.clone()
    without[:, -1] = -1
    assert not torch.allclose(seen, model(x, without, spd))
    with torch.no_grad():
        for layer in model.layers:
            layer.spd_bias[255] += 1
    assert not torch.allclose(seen, model(x, index, spd))


def test_each_distance_has_an_entry_of_its_own():
    model = model_of(dtype=torch.float64)
    x, index, spd = batch_of(dtype=torch.float64, padding=0)
    spd[:, 0, 1], spd[:, 0, 2], spd[:, 0, 3] = 253, 254, 255
    grad = gradients(model, (x, index, spd))["layers.0.spd_bias"]
    used = torch.zeros(256, dtype=torch.bool)
    used[spd.long().unique()] = True
    assert ((grad != 0).any(1) == used).all()


def test_distances_are_read_from_query_to_key():
    model = model_of(dtype=torch.float64)
    x, index, spd = batch_of(dtype=torch.float64, padding=0)
    spd[:, 0, 1] = 9
    spd[:, 1, 0] = 3
    assert not torch.allclose(model(x, index, spd), model(x, index, spd.transpose(1, 2)))


# ---- switches ----------------------------------------------------------------------------------


def names_of(**settings):
    return {name for name, _ in model_of(**settings).named_parameters()}


def test_switches_take_their_parameters_away():
    full = names_of()
    assert full - names_of(readout="ego") == {"readout.score.weight"}
    assert full - names_of(spd_bias=False) == {"layers.0.spd_bias", "layers.1.spd_bias"}
    gone = {"virtual"} | {
        f"layers.{i}.{name}"
        for i in range(2)
        for name in ("to_virtual_bias", "from_virtual_bias", "virtual_bias")
    }
    assert full - names_of(num_virtual=0) == gone


def test_a_slope_lets_the_bias_fall_with_distance_from_a_node():
    model = DHILGT(7, 16, 3, num_layers=2, heads=4, num_virtual=2, bias_slope=1.5)
    for layer in model.layers:
        assert torch.equal(
            layer.spd_bias[:4], torch.tensor([0, -1.5, -3, -4.5])[:, None].expand(4, 4)
        )
        assert (layer.to_virtual_bias == -1.5).all()  # as of neighbours
        assert not layer.from_virtual_bias.any()
        assert not layer.virtual_bias.any()


def test_with_a_steep_slope_a_node_begins_by_seeing_itself_alone():
    x, index, spd = batch_of()
    alone = torch.full_like(index, -1)
    alone[:, 0] = index[:, 0]
    for grad, same in ((60, True), (0, False)):
        torch.manual_seed(0)
        model = DHILGT(7, 16, 3, heads=4, readout="ego", bias_slope=grad).eval()
        actual, expected = model(x, index, spd), model(x, alone, spd)
        assert torch.allclose(actual, expected, atol=1e-5) == same


def test_without_spd_bias_distances_do_not_matter():
    x, index, spd = batch_of()
    other = torch.randint_like(spd, 0, 255)
    model = model_of(spd_bias=False)
    assert torch.equal(model(x, index, spd), model(x, index, other))
    assert not torch.allclose(model_of()(x, index, spd), model_of()(x, index, other))


def test_ego_readout_is_the_ego():
    model, batch = model_of(readout="ego"), batch_of()
    normed = model.norm(model._encode(*batch, None, "reference"))
    torch.testing.assert_close(model.embed(*batch), normed[:, 0])
    with pytest.raises(ValueError, match="readout"):
        model.readout_weights(*batch)


def test_readout_weights():
    model, batch = model_of(dtype=torch.float64), batch_of(dtype=torch.float64)
    alpha = model.readout_weights(*batch)
    torch.testing.assert_close(alpha.sum(1), torch.ones(5, dtype=torch.float64))
    assert ((alpha == 0) == (batch[1] == -1)).all()
    normed = model.norm(model._encode(*batch, None, "reference"))
    torch.testing.assert_close(
        model.embed(*batch), normed[:, 0] + torch.einsum("bs,bsf->bf", alpha, normed)
    )
    torch.testing.assert_close(model(*batch), model.output(model.embed(*batch)))


@pytest.mark.parametrize("name", ["to_virtual_bias", "from_virtual_bias", "virtual_bias"])
def test_virtual_nodes_have_biases_of_their_own(name):
    model, batch = model_of(dtype=torch.float64), batch_of(dtype=torch.float64)
    before = model(*batch)
    with torch.no_grad():
        getattr(model.layers[0], name)[0] += torch.randn(4, dtype=torch.float64)
    assert not torch.allclose(model(*batch), before)


def test_settings_set_widths():
    model = model_of(ffn_channels=40, num_layers=3)
    assert len(model.layers) == 3
    assert model.layers[0].ffn_in.weight.shape == (40, 16)
    assert model_of().layers[0].ffn_in.weight.shape == (16, 16)


# ---- features ----------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support")
@pytest.mark.parametrize("layers", [1, 2])
def test_sparse_features_are_as_dense_ones(layers):
    model = model_of(dtype=torch.float64, input_layers=layers)
    x, index, spd = sparse_batch()
    sparse = x.to_sparse_csr()
    torch.testing.assert_close(model(sparse, index, spd), model(x, index, spd))
    one, two = gradients(model, (x, index, spd)), gradients(model, (sparse, index, spd))
    for name in one:
        torch.testing.assert_close(two[name], one[name])


@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support")
def test_sparse_features_are_never_made_dense():
    # Ten million channels: dense, the features alone would take 40 GB.
    n, width = 1000, 10_000_000
    columns = torch.arange(n) * 9_000
    x = torch.sparse_csr_tensor(
        torch.arange(n + 1), columns, torch.ones(n), (n, width), check_invariants=True
    )
    model = DHILGT(width, 2, 2, num_layers=1, heads=1)
    index = torch.arange(n).view(-1, 10)
    out = model(x, index, torch.ones(100, 10, 10, dtype=torch.uint8))
    assert out.isfinite().all()


@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support")
def test_input_dropout_of_sparse_features_drops_stored_ones():
    torch.manual_seed(0)
    model = model_of(input_dropout=0.25, train=True)
    x = torch.ones(4000, 7).to_sparse_csr()
    with torch.no_grad():
        model.input.layers[0].bias.zero_()
        model.input.layers[0].weight.zero_()
        model.input.layers[0].weight[:7] = torch.eye(7)
        kept = model.input(x)[:, :7]
    torch.testing.assert_close(kept.unique(), torch.tensor([0, 4 / 3]))
    assert abs((kept == 0).double().mean() - 0.25) < 0.02


def test_projection_per_distinct_node_is_projection_per_slot():
    model = model_of(dtype=torch.float64)
    x, index, spd = batch_of(dtype=torch.float64)
    slots = x[index.clamp_min(0)].flatten(0, 1)  # features once per slot
    each = torch.arange(index.numel()).view(index.shape).masked_fill(index == -1, -1)
    torch.testing.assert_close(model(slots, each, spd), model(x, index, spd))
    one, two = gradients(model, (x, index, spd)), gradients(model, (slots, each, spd))
    for name in one:
        torch.testing.assert_close(two[name], one[name])


@pytest.mark.parametrize("dtype", [torch.uint8, torch.float16, torch.float64, torch.bool])
def test_features_of_any_type(dtype):
    x, index, spd = batch_of()
    x = (x > 0).to(dtype)
    model = model_of()
    assert torch.equal(model(x, index, spd), model(x.float(), index, spd))


# ---- imports -----------------------------------------------------------------------------------


def python(code):
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.strip()


def test_torch_is_imported_when_the_model_is_asked_for():
    assert python("import dhilgt, sys; print('torch' in sys.modules, 'DHILGT' in dir(dhilgt))") == (
        "False True"
    )
    assert python("import dhilgt; print(dhilgt.DHILGT.__name__)") == "DHILGT"
    with pytest.raises(AttributeError, match="DHILG"):
        dhilgt.DHILG  # noqa: B018


@pytest.mark.parametrize("package", ["torch", "safetensors"])
def test_what_is_missing_is_said(package):
    code = (
        f"import sys; sys.modules[{package!r}] = None\nimport dhilgt\n"
        "try: dhilgt.DHILGT\nexcept ImportError as error: print(error)"
    )
    assert python(code) == (
        f"dhilgt.DHILGT needs {package}; install it with pip install 'dhilgt[train]'"
    )


def test_tables_that_are_looked_up_do_not_decay():
    model = DHILGT(4, 16, 3, num_layers=2)
    tables = {name for name, part in model.named_parameters() if "bias" in name and part.ndim > 1}
    assert model.no_weight_decay() == tables | {"virtual"}
    assert len(tables) == 2 * 4  # distances, to, from and among virtual nodes
