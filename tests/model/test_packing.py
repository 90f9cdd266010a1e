"""Packed rows: outputs and gradients without the padding are those with it."""

import numpy as np
import pytest
import torch

pytest.importorskip("triton", reason="the fused kernels need the package triton")

from dhilgt import TokenLoader, TokenSampler, generate
from dhilgt.labels.hub_labels import HubLabels
from dhilgt.model.kernels.packing import Room, choose_room, pack, packed_rows
from tests.model.cases import batch_of, gradients, model_of

torch.set_num_threads(1)
DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
TOLERANCE = 5e-6  # of sums in another order


def fused_model(**settings):
    return model_of(attention="fused", **settings).to(DEVICE)


def case(rows=4, slots=6, **settings):
    return tuple(part.to(DEVICE) for part in batch_of(rows, slots, **settings))


def off(actual, expected):
    return float((actual - expected).norm() / expected.norm().clamp_min(1e-6))


def answers(model, batch, how, room=None):
    model.packing = how
    grads = gradients(model, batch, room=room)
    with torch.no_grad():
        return model(*batch, room=room), grads


def assert_same(model, batch, room=None):
    expected, wanted_slopes = answers(model, batch, "off")
    actual, grads = answers(model, batch, "on", room)
    assert model.attention_used == "fused"
    assert off(actual, expected) < TOLERANCE
    for name, grad in wanted_slopes.items():
        kept = slice(None)
        if name.endswith("qkv.bias"):  # that of the keys' bias is noise around zero
            third = len(grad) // 3
            kept = torch.cat([torch.arange(third), torch.arange(2 * third, 3 * third)])
        assert off(grads[name][kept], grad[kept]) < 10 * TOLERANCE, name


@pytest.mark.parametrize(
    ("settings", "shape"),
    [
        ({"heads": 2}, {"rows": 3, "padding": 0.5}),
        ({"num_virtual": 0, "readout": "ego", "num_layers": 1}, {"padding": 0.8}),
        ({"spd_bias": False, "num_layers": 1}, {"padding": 1.0}),
        ({"num_layers": 1}, {"padding": 0.0}),
        # Some tokens are longer than a block of keys, most are not.
        ({"num_layers": 1, "heads": 2}, {"rows": 3, "slots": 17, "padding": 0.2, "high": 90}),
    ],
    ids=str,
)
def test_outputs_and_all_gradients_are_those_with_padding(settings, shape):
    assert_same(fused_model(**settings), case(**shape))


@pytest.mark.parametrize("spare", [0, 13])
def test_fillers_take_the_rows_that_are_left_and_change_nothing(spare):
    model, batch = fused_model(num_layers=1), case(padding=0.5)
    model.packing = "on"
    rows = packed_rows(model, batch[1])
    assert_same(model, batch, Room(rows + spare, fillers=3))


def test_a_row_without_nodes_keeps_its_ego():
    model = fused_model(num_layers=1)
    x, index, spd = case(padding=0.5)
    index[1] = -1
    index[2, 0] = -1
    assert_same(model, (x, index, spd))


def test_offsets_count_nodes_egos_and_virtual_nodes():
    model = fused_model(num_virtual=2)
    model.packing = "on"
    index = torch.tensor([[0, 1, -1, 2], [-1, -1, -1, -1], [3, 4, 5, 6]], device=DEVICE)
    assert packed_rows(model, index) == 5 + 3 + 6
    assert pack(model, index, index >= 0).offsets.tolist() == [0, 5, 8, 14]
    actual = pack(model, index, index >= 0, Room(23, fillers=3))
    assert actual.offsets.tolist() == [0, 5, 8, 14, 20, 23, 23]
    assert actual.rows == 23


def test_a_recorded_step_learns_what_the_step_itself_learns():
    # As a CUDA graph runs it: in a larger room, over a larger table of features.
    model = fused_model(train=True, attention_dropout=0.2, heads=2, input_dropout=0.0)
    x, index, spd = case(rows=3, slots=5, padding=0.5)
    model.packing = "on"
    rows, larger = packed_rows(model, index), torch.cat([x, torch.full_like(x, 7.0)])
    actual = []
    for room, features in ((None, x), (None, x), (Room(rows + 4, 2), larger)):
        torch.manual_seed(3)
        actual.append(gradients(model, (features, index, spd), room=room))
    assert all(torch.equal(actual[0][name], actual[1][name]) for name in actual[0])
    # Other programs sum other rows: the same numbers, in another order.
    assert all(
        torch.allclose(actual[0][name], actual[2][name], rtol=1e-4, atol=1e-5) for name in actual[0]
    )


def test_recomputing_gives_the_same_bits():
    model = fused_model(train=True, heads=2)
    batch = case(rows=2, slots=4, padding=0.5)
    model.packing = "on"
    actual = []
    for recompute in (False, True):
        model.recompute = recompute
        torch.manual_seed(3)
        actual.append(gradients(model, batch))
    assert all(torch.equal(actual[0][name], actual[1][name]) for name in actual[0])


def test_rows_are_packed_where_that_saves_an_eighth():
    model = model_of(num_virtual=2)
    index = torch.zeros(10, 8, dtype=torch.int64)
    assert packed_rows(model, index) is None
    index[:, -1] = -1  # 9 of 10 slots are left
    assert packed_rows(model, index) is None
    index[:, -2] = -1
    assert packed_rows(model, index) == 80
    assert packed_rows(model, index, filled=60) == 80
    assert packed_rows(model, index, filled=80) is None
    model.packing = "off"
    assert packed_rows(model, index) is None
    model.packing = "on"
    assert packed_rows(model, torch.zeros(10, 8, dtype=torch.int64)) == 100


def test_a_recorded_step_takes_batches_that_its_fillers_can_fill():
    room = choose_room(20_000, 1024, 36)
    assert room.holds(20_000, 36)
    assert room.holds(room.rows, 36)
    assert not room.holds(room.rows + 1, 36)
    assert room.holds(room.rows - 128 * 36, 36)
    assert not room.holds(room.rows - 128 * 36 - 1, 36)
    assert not room.holds(None, 36)
    assert choose_room(None, 1024, 36).holds(None, 36)
    # No more than all slots, and always enough.
    for rows in range(5, 61):
        some = choose_room(rows, 10, 6)
        assert rows <= some.rows <= 60
        assert some.holds(rows, 6), rows


@pytest.mark.parametrize("resident", [False, True, "features"])
def test_loaders_know_how_many_slots_are_filled(resident):
    graph = generate(60, 3, seed=1, num_features=4)
    sampler = TokenSampler(HubLabels.build(graph, progress=False), size=12, progress=False)
    loader = TokenLoader(
        sampler, graph.features, batch_size=25, shuffle=True, resident=resident, prefetch=0
    )
    for batch in loader:
        index = batch.inputs[1]
        assert batch.filled == int((index >= 0).sum()) < index.numel()
        assert batch.to("cpu").filled == batch.filled
    assert np.all(index[:, 0].numpy() >= 0)


def test_outside_a_room_a_batch_has_exactly_its_rows():
    model, batch = fused_model(), case(padding=0.5)
    model.packing = "on"
    rows = packed_rows(model, batch[1])
    actual = pack(model, batch[1], batch[1] >= 0)
    assert actual.rows == rows == int(actual.offsets[-1])
