"""Batches: the right features, labels and distances, the same ones however they are made."""

import itertools
import subprocess
import sys

import numpy as np
import pytest
import scipy.sparse
import torch

import dhilgt
from dhilgt import TokenBatch, TokenLoader, Tokens, TokenSampler, averaged_logits
from dhilgt.errors import GraphError, MemoryLimitError
from dhilgt.loader.collate import Distinct, distinct_on_device, unpack_triangles
from dhilgt.loader.feature_rows import is_mapped
from dhilgt.tokens.sampler import unpack_distances
from dhilgt.utils.devices import choose_device
from tests.loader.cases import plain
from tests.tokens.cases import generated_labels

NODES, SIZE, CHANNELS = 400, 12, 7


@pytest.fixture(scope="module")
def sampler():
    return TokenSampler(generated_labels(), size=SIZE, progress=False, seed=3)


@pytest.fixture(scope="module")
def tokens():
    return Tokens.build(generated_labels(), size=SIZE, copies=3, seed=3, progress=False)


@pytest.fixture(scope="module")
def directed():
    return Tokens.build(generated_labels(True), size=SIZE, seed=3, progress=False)


@pytest.fixture(scope="module")
def features():
    return np.random.default_rng(0).normal(size=(NODES, CHANNELS)).astype(np.float32)


@pytest.fixture(scope="module")
def sparse(features):
    return scipy.sparse.csr_array(np.where(features > 0.8, features, 0))


@pytest.fixture(scope="module")
def classes():
    return np.random.default_rng(1).integers(0, 4, NODES)


def all_of(loader):
    return [plain(batch) for batch in loader]


# ---- what is in a batch ------------------------------------------------------------------------


@pytest.mark.parametrize("resident", [False, True])
@pytest.mark.parametrize("source", ["tokens", "sampler", "directed"])
def test_batches_hold_what_tokens_and_features_say(request, source, resident, features, classes):
    rows_of = request.getfixturevalue(source)
    loader = TokenLoader(rows_of, features, classes, batch_size=64, resident=resident)
    seen = []
    for batch in loader:
        x, index, spd = batch.inputs
        nodes = batch.nodes.numpy()
        rows = rows_of.rows(nodes)
        assert ((index == -1).numpy() == (rows.ids == -1)).all()
        real = rows.ids >= 0
        assert (x[index].numpy()[real] == features[rows.ids[real]]).all()
        assert (spd.numpy() == rows.spd).all()
        assert (x[index[:, 0]].numpy() == features[nodes]).all()
        assert (batch.labels.numpy() == classes[nodes]).all()
        assert len(x) == np.unique(rows.ids[real]).size  # every distinct node once
        assert (x.dtype, index.dtype, spd.dtype) == (torch.float32, torch.int64, torch.uint8)
        assert batch.labels.dtype == batch.nodes.dtype == torch.int64
        assert len(batch) == len(nodes)
        seen += nodes.tolist()
    assert seen == list(range(NODES))
    assert (np.asarray(rows.ids) == -1).any()  # padding was met


@pytest.mark.parametrize("kind", ["dense", "sparse"])
@pytest.mark.parametrize("fresh", [False, True])
def test_the_same_batches_however_they_are_made(
    kind, fresh, tokens, sampler, features, sparse, classes
):
    values = features if kind == "dense" else sparse
    settings = {"batch_size": 60, "shuffle": True, "seed": 5}
    actual = []
    for source in [sampler] if fresh else [tokens, sampler]:
        for resident in (False, True, "auto"):
            for prefetch in (0, 1, 5):
                loader = TokenLoader(
                    source, values, classes, **settings,
                    resident=resident, prefetch=prefetch, fresh=fresh,
                )  # fmt: skip
                loader.set_epoch(2)
                actual.append(all_of(loader))
    assert all(other == actual[0] for other in actual)


def test_sparse_features_stay_sparse_and_say_the_same(tokens, sparse):
    expected = all_of(TokenLoader(tokens, sparse.toarray(), batch_size=90))
    tensor = torch.from_numpy(sparse.toarray())
    shuffled = sparse.tocoo()
    order = np.random.default_rng(0).permutation(shuffled.nnz)
    halves = scipy.sparse.coo_array(  # every entry twice, half of it each time, in any order
        (
            np.tile(shuffled.data[order] / 2, 2),
            (np.tile(shuffled.row[order], 2), np.tile(shuffled.col[order], 2)),
        ),
        shape=sparse.shape,
    )
    by_row = np.argsort(halves.row, kind="stable")
    offsets = np.concatenate([[0], np.cumsum(np.bincount(halves.row, minlength=NODES))])
    untidy = scipy.sparse.csr_array(
        (halves.data[by_row], halves.col[by_row], offsets), shape=sparse.shape
    )
    for values in (
        sparse, sparse.tocsc(), scipy.sparse.csr_matrix(sparse), halves, untidy,
        tensor.to_sparse_csr(), tensor.to_sparse(),
    ):  # fmt: skip
        for resident in (False, True):
            loader = TokenLoader(tokens, values, batch_size=90, resident=resident)
            first = next(iter(loader)).inputs[0]
            assert first.layout == torch.sparse_csr
            assert len(first.values()) == int((first.to_dense() != 0).sum())  # each entry once
            assert all_of(loader) == expected
    x = next(iter(loader)).inputs[0]
    weight = torch.randn(CHANNELS, 3, requires_grad=True)
    (x @ weight).sum().backward()
    assert weight.grad is not None


@pytest.mark.parametrize("kind", ["bool", "int32", "float16", "float64", "list", "tensor", "bf16"])
def test_features_of_other_types_become_float32(kind, tokens, features):
    raw = features.round()
    values = {
        "list": raw.tolist(),
        "tensor": torch.from_numpy(raw),
        "bf16": torch.from_numpy(raw).bfloat16(),
    }.get(kind)
    if values is None:
        values = raw.astype(kind)
        raw = values.astype(np.float32)
    expected = all_of(TokenLoader(tokens, raw, batch_size=128))
    assert all_of(TokenLoader(tokens, values, batch_size=128)) == expected


def test_one_ego_and_one_slot(features):
    alone = Tokens.build(generated_labels(), size=1, progress=False)
    for resident in (False, True):
        loader = TokenLoader(alone, features, nodes=[7], batch_size=1, resident=resident)
        (batch,) = loader
        x, index, spd = batch.inputs
        assert (x.numpy() == features[7]).all()
        assert (index.tolist(), spd.tolist()) == ([[0]], [[[0]]])
        assert batch.labels is None


def test_batches_move(tokens, sparse, classes):
    batch = next(iter(TokenLoader(tokens, sparse, classes, batch_size=8)))
    again = batch.to("cpu", non_blocking=True)
    assert isinstance(again, TokenBatch)
    assert plain(again) == plain(batch)
    assert len(batch.tensors()) == 7  # three of the sparse features, index, spd, labels, nodes
    assert batch.to("meta").nodes.device.type == "meta"


# ---- the pieces --------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(5))
def test_distinct_nodes_are_found_as_numpy_finds_them(seed):
    rng = np.random.default_rng(seed)
    distinct = Distinct(50)
    for low in (-1, 0, -1):  # the table is used again
        ids = rng.integers(low, 50, (rng.integers(1, 30), 6)).astype(np.int32)
        members, index = distinct(ids)
        expected = np.unique(ids[ids >= 0])
        assert members.tolist() == expected.tolist()
        assert (index[ids < 0] == -1).all()
        assert (members[index[ids >= 0]] == ids[ids >= 0]).all()
        on_device = distinct_on_device(torch.from_numpy(ids))
        assert on_device[0].tolist() == expected.tolist()
        assert (on_device[1].numpy() == index).all()
    members, index = distinct(np.full((2, 3), -1, np.int32))
    assert members.size == 0
    assert (index == -1).all()


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("size", [1, 2, 5, 32, 70])
def test_triangles_are_unpacked_as_the_native_core_does(size, directed):
    rng = np.random.default_rng(size)
    pairs = size * (size - 1) // 2 * (2 if directed else 1)
    packed = rng.integers(0, 256, (9, pairs)).astype(np.uint8)
    ids = np.tile(np.arange(size, dtype=np.int32), (9, 1))
    later, earlier = np.tril_indices(size, -1)
    for row in range(9):
        ids[row, max(1, size - row) :] = -1
        beside = np.tile((ids[row, later] < 0) | (ids[row, earlier] < 0), 1 + directed)
        packed[row, beside] = 255  # as rows have it
    expected = unpack_distances(ids, packed, directed)
    actual = unpack_triangles(torch.from_numpy(packed), torch.from_numpy(ids < 0), directed)
    assert (actual.numpy() == expected).all()


# ---- the order ---------------------------------------------------------------------------------


def egos(loader):
    return [node for batch in loader for node in batch.nodes.tolist()]


def test_every_epoch_has_its_order_and_every_ego_once(tokens, features):
    loader = TokenLoader(tokens, features, batch_size=64, shuffle=True, seed=1)
    orders = []
    for epoch in range(4):
        loader.set_epoch(epoch)
        orders.append(egos(loader))
        assert sorted(orders[-1]) == list(range(NODES))
        assert egos(loader) == orders[-1]  # again, without another epoch
    assert len({tuple(order) for order in orders}) == 4
    other = TokenLoader(tokens, features, batch_size=64, shuffle=True, seed=2)
    assert egos(other) not in orders
    loader.set_epoch(0)
    assert egos(loader) == orders[0]


def test_shuffling_is_uniform(tokens, features):
    loader = TokenLoader(tokens, features, nodes=[3, 5, 8], batch_size=3, shuffle=True, prefetch=0)
    counts = {}
    for epoch in range(1200):
        loader.set_epoch(epoch)
        order = tuple(loader._nodes[loader._order()].tolist())
        counts[order] = counts.get(order, 0) + 1
    assert len(counts) == 6
    squares = sum((count - 200) ** 2 / 200 for count in counts.values())
    assert squares < 25.7  # chi-square with 5 degrees of freedom, one in ten thousand


def test_the_order_is_that_of_when_iteration_began(tokens, features):
    loader = TokenLoader(tokens, features, batch_size=64, shuffle=True, prefetch=0)
    expected = egos(loader)
    begun = loader.iterate()
    loader.set_epoch(1)
    assert egos(begun) == expected


@pytest.mark.parametrize("prefetch", [0, 2])
@pytest.mark.parametrize("fresh", [False, True])
def test_an_epoch_can_begin_anywhere(sampler, features, prefetch, fresh):
    loader = TokenLoader(
        sampler, features, batch_size=64, shuffle=True, prefetch=prefetch, fresh=fresh
    )
    loader.set_epoch(3)
    whole = all_of(loader)
    assert len(whole) == len(loader) == 7
    for start in range(8):
        assert all_of(loader.iterate(start_batch=start)) == whole[start:]
    for wrong in (-1, 8, 1.5):
        with pytest.raises(ValueError, match="start_batch"):
            loader.iterate(start_batch=wrong)


@pytest.mark.parametrize("count", [1, 2, 5, 24, 25, 26, 400])
@pytest.mark.parametrize("world", [1, 2, 3, 4, 5])
def test_processes_share_every_epoch_exactly(tokens, features, world, count):
    nodes = np.random.default_rng(0).permutation(NODES)[:count]
    settings = {"nodes": nodes, "shuffle": True, "seed": 4, "prefetch": 0}
    alone = TokenLoader(tokens, features, batch_size=5 * world, **settings)
    shares = [
        TokenLoader(tokens, features, batch_size=5, rank=rank, world_size=world, **settings)
        for rank in range(world)
    ]
    batches = [[batch.nodes.tolist() for batch in share] for share in shares]
    assert [len(one) for one in batches] == [len(share) for share in shares]
    assert max(map(len, batches)) - min(map(len, batches)) <= 1
    flat = sorted(node for one in batches for batch in one for node in batch)
    assert flat == sorted(nodes.tolist())
    assert all(share.num_nodes == count for share in shares)
    # Step by step, all processes together take what one alone takes at the same global batch.
    for step, batch in enumerate(alone):
        parts = [one[step] if step < len(one) else [] for one in batches]
        assert list(itertools.chain(*parts)) == batch.nodes.tolist()
        assert shares[0].total(step) == len(batch)
        assert max(map(len, parts)) - min(map(len, parts)) <= 1
    assert shares[0].total(len(alone)) == 0


def test_the_environment_names_the_process(tokens, features, monkeypatch):
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "4")
    loader = TokenLoader(tokens, features)
    assert (loader.rank, loader.world_size) == (1, 4)
    monkeypatch.setenv("RANK", "4")
    with pytest.raises(ValueError, match="rank = 4"):
        TokenLoader(tokens, features)
    monkeypatch.setenv("RANK", "one")
    with pytest.raises(ValueError, match="RANK and WORLD_SIZE must be whole numbers"):
        TokenLoader(tokens, features)
    assert TokenLoader(tokens, features, rank=0, world_size=1).world_size == 1
    with pytest.raises(ValueError, match="pass both or neither"):
        TokenLoader(tokens, features, rank=0)


def test_torch_distributed_names_the_process(tokens, features, monkeypatch):
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setattr(torch.distributed, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.distributed, "get_rank", lambda: 2)
    monkeypatch.setattr(torch.distributed, "get_world_size", lambda: 3)
    loader = TokenLoader(tokens, features)
    assert (loader.rank, loader.world_size) == (2, 3)


@pytest.mark.parametrize("world", [1, 2, 3])
def test_dropping_the_last_batch(tokens, features, world):
    loaders = [
        TokenLoader(tokens, features, batch_size=64, drop_last=True, rank=r, world_size=world)
        for r in range(world)
    ]
    sizes = [[len(batch) for batch in loader] for loader in loaders]
    assert sizes == [[64] * (400 // (64 * world))] * world
    assert loaders[0].num_nodes == 400 // (64 * world) * 64 * world
    with pytest.raises(ValueError, match="drop_last leaves no batch"):
        TokenLoader(tokens, features, batch_size=401, drop_last=True)


def test_another_batch_size(tokens, features):
    loader = TokenLoader(tokens, features, batch_size=64, shuffle=True)
    other = loader.with_batch_size(100)
    assert (len(loader), len(other)) == (7, 4)
    assert egos(other) == egos(loader)


# ---- fresh rows and copies ---------------------------------------------------------------------


@pytest.mark.parametrize("resident", [False, True])
def test_fresh_draws_another_copy_each_epoch(sampler, features, resident):
    loader = TokenLoader(sampler, features, batch_size=NODES, fresh=True, resident=resident)
    for epoch in (0, 1, 7):
        loader.set_epoch(epoch)
        (batch,) = loader
        rows = sampler.rows(np.arange(NODES), epoch)
        assert (batch.inputs[2].numpy() == rows.spd).all()
        real = rows.ids >= 0
        actual = batch.inputs[0][batch.inputs[1]].numpy()
        assert (actual[real] == features[rows.ids[real]]).all()


@pytest.mark.parametrize("resident", [False, True])
@pytest.mark.parametrize("source", ["tokens", "sampler"])
def test_copies_take_turns_in_training_and_come_together_in_inference(
    request, source, resident, features
):
    rows_of = request.getfixturevalue(source)
    loader = TokenLoader(rows_of, features, batch_size=150, copies=3, resident=resident)
    each = [all_of(loader.with_copy(copy)) for copy in range(3)]
    assert each[0] != each[1] != each[2] != each[0]
    for epoch in range(5):
        loader.set_epoch(epoch)
        assert all_of(loader) == each[epoch % 3]
    groups = [[plain(batch) for batch in group] for group in loader.iterate_copies()]
    assert groups == [list(group) for group in zip(*each, strict=True)]
    tail = [[plain(batch) for batch in group] for group in loader.iterate_copies(2)]
    assert tail == groups[2:]
    assert [len(g) for g in loader.with_copy(1).iterate_copies()] == [1, 1, 1]


def test_probabilities_are_averaged_over_copies(tokens, features):
    weight = torch.randn(CHANNELS, 4, generator=torch.Generator().manual_seed(0))

    def model(x, index, spd):
        assert not torch.is_grad_enabled()
        return (x @ weight)[index].mean(1)

    loader = TokenLoader(tokens, features, batch_size=150, copies=3)
    with torch.no_grad():
        each = [
            torch.cat([model(*b.inputs).softmax(-1) for b in loader.with_copy(c)]) for c in range(3)
        ]
    actual = list(averaged_logits(model, loader))
    assert [len(batch) for batch, _ in actual] == [150, 150, 100]
    averaged = torch.cat([logits for _, logits in actual])
    torch.testing.assert_close(averaged.softmax(-1), sum(each) / 3)
    torch.testing.assert_close(averaged.exp().sum(-1), torch.ones(NODES))
    single = TokenLoader(tokens, features, batch_size=NODES)
    (pair,) = averaged_logits(model, single)
    with torch.no_grad():
        assert (pair[1] == model(*pair[0].inputs)).all()
    assert torch.is_grad_enabled()


# ---- files that are not read as a whole --------------------------------------------------------


def test_mapped_features_are_read_row_by_row(tokens, features, tmp_path):
    path = tmp_path / "features.npy"
    raw = features.copy()
    rows = tokens.rows([0, 1, 2])
    unused = np.setdiff1d(np.arange(NODES), rows.ids)[0]
    raw[unused, 4] = np.nan  # found only by reading every row
    np.save(path, raw)
    mapped = np.load(path, mmap_mode="r")
    assert is_mapped(mapped)
    assert is_mapped(mapped[:, :3].view(np.ndarray))
    assert not is_mapped(raw)
    for prefetch in (0, 2):
        loader = TokenLoader(tokens, mapped, nodes=[0, 1, 2], prefetch=prefetch)
        (batch,) = loader
        real = rows.ids >= 0
        x, index, _ = batch.inputs
        assert (x[index].numpy()[real] == features[rows.ids[real]]).all()
        bad = TokenLoader(tokens, mapped, nodes=[unused], prefetch=prefetch)
        with pytest.raises(GraphError, match=rf"features\[{unused}, 4\] = nan"):
            list(bad)
    with pytest.raises(GraphError, match=rf"features\[{unused}, 4\] = nan"):
        TokenLoader(tokens, mapped, resident=True)
    with pytest.raises(GraphError, match=rf"features\[{unused}, 4\] = nan .*1 NaN"):
        TokenLoader(tokens, raw)
    with pytest.raises(GraphError, match="features has 399 rows, but the graph has 400"):
        TokenLoader(tokens, mapped[1:])
    half = np.load(path, mmap_mode="r").view()
    half = half.astype(np.float16)
    np.save(tmp_path / "half.npy", half)
    loader = TokenLoader(tokens, np.load(tmp_path / "half.npy", mmap_mode="r"), nodes=[0])
    assert next(iter(loader)).inputs[0].dtype == torch.float32


def test_stored_tokens_on_disk(tokens, features, tmp_path):
    Tokens.build(
        generated_labels(), size=SIZE, copies=3, seed=3, progress=False, path=tmp_path / "t"
    )
    expected = all_of(TokenLoader(tokens, features, batch_size=77))
    assert all_of(TokenLoader(Tokens.load(tmp_path / "t"), features, batch_size=77)) == expected


def test_tokens_of_some_nodes(features):
    some = Tokens.build(generated_labels(), size=SIZE, nodes=[9, 4, 30], progress=False)
    assert egos(TokenLoader(some, features)) == [9, 4, 30]
    assert egos(TokenLoader(some, features, nodes=[30, 9], resident=True)) == [30, 9]
    with pytest.raises(GraphError, match="node 5 has no row: these tokens cover 3 of 400"):
        TokenLoader(some, features, nodes=[4, 5])


# ---- GPUs --------------------------------------------------------------------------------------


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
@pytest.mark.parametrize("kind", ["dense", "sparse"])
@pytest.mark.parametrize("source", ["tokens", "sampler"])
def test_a_gpu_gets_the_same_batches(request, source, kind, features, sparse, classes):
    rows_of = request.getfixturevalue(source)
    values = features if kind == "dense" else sparse
    settings = {"batch_size": 60, "shuffle": True, "copies": 3}
    expected = all_of(TokenLoader(rows_of, values, classes, **settings))
    for resident in (True, False, "auto"):
        for prefetch in (0, 3):
            loader = TokenLoader(
                rows_of, values, classes, **settings,
                device="cuda", resident=resident, prefetch=prefetch,
            )  # fmt: skip
            assert loader.resident == (resident is not False)
            batch = next(iter(loader))
            assert all(tensor.is_cuda for tensor in batch.tensors())
            for _ in range(3):  # while a stream is busy, too
                torch.randn(2000, 2000, device="cuda") @ torch.randn(2000, 2000, device="cuda")
                assert all_of(loader) == expected


# ---- refusals ----------------------------------------------------------------------------------


def with_value(features, value):
    out = features.copy()
    out[17, 2] = value
    return out


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda f, y: {"features": f[:-1]}, "features has 399 rows, but the graph has 400"),
        (lambda f, y: {"features": f[:, 0]}, r"features has shape \(400,\)"),
        (lambda f, y: {"features": with_value(f, np.nan)}, r"features\[17, 2\] = nan"),
        (lambda f, y: {"features": with_value(f, np.inf)}, r"features\[17, 2\] = inf"),
        (
            lambda f, y: {"features": torch.from_numpy(with_value(f, np.nan)).to_sparse_csr()},
            r"features\[17, 2\] = nan",
        ),
        (
            lambda f, y: {"features": scipy.sparse.csr_array(with_value(f, np.nan))},
            r"features\[17, 2\] = nan",
        ),
        (
            lambda f, y: {"features": torch.from_numpy(f[1:]).to_sparse_csr()},
            r"features has shape \(399, 7\), but the graph has 400",
        ),
        (lambda f, y: {"features": np.full((400, 2), "a")}, "pass numbers"),
        (lambda f, y: {"labels": y[:-1]}, "labels has 399 entries"),
        (lambda f, y: {"labels": np.where(np.arange(400) == 8, -1, y)}, "node 8, which has no lab"),
        (lambda f, y: {"labels": np.where(np.arange(400) == 8, -2, y)}, r"labels\[8\] = -2"),
        (lambda f, y: {"labels": y + 0.5}, r"labels\[0\] = .* is not a class number"),
        (lambda f, y: {"nodes": np.zeros(400, bool)}, "nodes selects no node"),
        (lambda f, y: {"nodes": []}, "nodes selects no node"),
        (lambda f, y: {"nodes": np.ones(399, bool)}, "nodes has 399 entries"),
        (lambda f, y: {"nodes": np.arange(400) % 2}, "nodes has 400 entries that are all 0 or 1"),
        (lambda f, y: {"nodes": [1, 400]}, r"nodes\[1\] = 400 is outside 0 to 399"),
        (lambda f, y: {"nodes": [-1]}, r"nodes\[0\] = -1 is outside"),
        (lambda f, y: {"nodes": [3, 4, 3]}, "nodes lists a node twice"),
        (lambda f, y: {"nodes": [0.5]}, "nodes holds float64"),
        (lambda f, y: {"nodes": np.ones((400, 2), bool)}, r"nodes has shape \(400, 2\)"),
        (lambda f, y: {"batch_size": 0}, "batch_size = 0"),
        (lambda f, y: {"batch_size": 1.5}, "batch_size = 1.5"),
        (lambda f, y: {"batch_size": True}, "batch_size = True"),
        (lambda f, y: {"seed": -1}, "seed = -1"),
        (lambda f, y: {"prefetch": -1}, "prefetch = -1"),
        (lambda f, y: {"copies": 0}, "copies = 0"),
        (lambda f, y: {"copies": 4}, "copies = 4, but 3 are stored"),
        (lambda f, y: {"fresh": True}, "pass a TokenSampler, or store several copies"),
        (lambda f, y: {"resident": "yes"}, "resident = 'yes'"),
        (lambda f, y: {"device": "cuda:99"}, "is not available; use cpu"),
        (lambda f, y: {"device": "quantum"}, "device = 'quantum'"),
        (lambda f, y: {"rank": 2, "world_size": 2}, "rank = 2"),
    ],
)
def test_bad_input_is_refused(tokens, features, classes, change, said):
    arguments = {"features": features, "labels": classes, **change(features, classes)}
    with pytest.raises(ValueError, match=said):
        TokenLoader(tokens, arguments.pop("features"), arguments.pop("labels"), **arguments)


def test_other_refusals(tokens, features, monkeypatch):
    with pytest.raises(TypeError, match="tokens is a list"):
        TokenLoader([1], features)
    loader = TokenLoader(tokens, features)
    with pytest.raises(ValueError, match="epoch = -1"):
        loader.set_epoch(-1)
    with pytest.raises(ValueError, match="copy = 3"):
        loader.with_copy(3)
    with pytest.raises(ValueError, match="batch_size = 0"):
        loader.with_batch_size(0)
    monkeypatch.setattr("dhilgt.utils.devices.available_bytes", lambda: 1000)
    with pytest.raises(MemoryLimitError, match="pass resident=False"):
        TokenLoader(tokens, features, resident=True)
    with pytest.raises(AttributeError, match="no attribute 'Nonsense'"):
        dhilgt.Nonsense  # noqa: B018
    assert "TokenLoader" in dir(dhilgt)


def test_unlabelled_nodes_may_be_around_but_not_chosen(tokens, features, classes):
    partly = np.where(np.arange(NODES) < 300, classes, -1)
    loader = TokenLoader(tokens, features, partly, nodes=partly >= 0)
    assert loader.num_nodes == 300
    assert loader.num_classes == 4
    names = np.array(list("dbca"))[classes]
    named = TokenLoader(tokens, features, names)
    assert named.class_names == ("a", "b", "c", "d")
    assert named.num_classes == 4
    assert TokenLoader(tokens, features).num_classes == 0
    assert loader.num_channels == CHANNELS


def test_masks_and_tensors_choose_nodes(tokens, features):
    mask = np.arange(NODES) % 7 == 0
    expected = np.flatnonzero(mask).tolist()
    for nodes in (mask, torch.from_numpy(mask), expected, torch.tensor(expected)):
        assert egos(TokenLoader(tokens, features, nodes=nodes)) == expected
    assert egos(TokenLoader(tokens, features, nodes=expected[::-1])) == expected[::-1]


def test_devices():
    assert choose_device("cpu") == torch.device("cpu")
    assert choose_device("auto").type == ("cuda" if torch.cuda.is_available() else "cpu")


def test_it_says_what_it_is(tokens, sampler, features):
    assert repr(TokenLoader(tokens, features, batch_size=64)) == (
        "TokenLoader(400 nodes, 7 batches of 64, stored tokens, device=cpu, resident=False)"
    )
    assert "sampler tokens" in repr(TokenLoader(sampler, features))


def test_the_package_does_not_import_torch():
    code = "import sys, dhilgt; assert 'torch' not in sys.modules; dhilgt.TokenLoader"
    subprocess.run([sys.executable, "-c", code + "; assert 'torch' in sys.modules"], check=True)
