"""Tokens kept: the same rows as drawn ones, on disk whole or not at all, and damage is named."""

import hashlib
import json
import multiprocessing
import os
import pickle
import random
import shutil
import signal
import time

import numpy as np
import pytest

from dhilgt import ArtifactError, GraphError, HubLabels, Tokens, TokenSampler
from dhilgt.store import checksums
from dhilgt.store.files import canonical_json
from dhilgt.tokens import store as tokens_store
from dhilgt.tokens.sampler import unpack_distances
from dhilgt.tokens.stats import token_stats
from dhilgt.tokens.store import from_nibbles, to_nibbles
from tests.tokens.cases import (
    contents,
    generated,
    generated_labels,
    labels_of,
    landmark_path,
    path_graph,
)

fork = multiprocessing.get_context("fork")
SPEC = {"size": 10, "out_exponent": -0.5, "in_exponent": 1.0, "seed": 4}


def build(labels, path=None, **options):
    return Tokens.build(labels, path=path, **{**SPEC, "progress": False, **options})


@pytest.fixture
def small_shards(monkeypatch):
    """Shards of 64 rows, so that a small set has several; forked children see it too."""
    monkeypatch.setattr(tokens_store, "_SHARD_ROWS", 64)


def assert_same_rows(actual, expected):
    for one, other in zip(actual, expected, strict=True):
        np.testing.assert_array_equal(one, other)


# ---- the same rows -----------------------------------------------------------------------------


@pytest.mark.usefixtures("small_shards")
@pytest.mark.parametrize("directed", [False, True], ids=["undirected", "directed"])
@pytest.mark.parametrize(
    "options", [{}, {"spill": True}, {"fill": "neighbors", "num_in": 2}, {"size": 1}], ids=str
)
def test_stored_rows_are_drawn_rows(tmp_path, directed, options):
    labels = generated_labels(directed)
    drawn = TokenSampler(labels, **{**SPEC, **options}, progress=False)
    in_memory = build(labels, copies=3, **options)
    on_disk = build(labels, tmp_path / "tokens", copies=3, **options)
    reopened = Tokens.load(tmp_path / "tokens", verify=True)
    batch = np.random.default_rng(1).integers(0, 400, 300)
    for copy in range(3):
        expected, packed = drawn.rows(batch, copy), drawn.packed_rows(batch, copy)
        for kept in (in_memory, on_disk, reopened):
            assert_same_rows(kept.rows(batch, copy), expected)
            assert_same_rows(kept.packed_rows(batch, copy), packed)
    assert len(reopened) == 1200
    assert len(list(reopened.each_shard())) == 19
    assert reopened.spec == drawn.spec
    assert reopened.directed == directed
    assert reopened.labels_fingerprint == labels.fingerprint
    assert reopened.graph_fingerprint == labels.graph_fingerprint


@pytest.mark.usefixtures("small_shards")
@pytest.mark.parametrize("directed", [False, True], ids=["undirected", "directed"])
def test_the_store_is_the_same_for_any_number_of_threads(tmp_path, directed):
    for threads in (1, 2, 3, 7):
        build(generated_labels(directed), tmp_path / str(threads), copies=2, threads=threads)
    for threads in (2, 3, 7):
        assert contents(tmp_path / str(threads)) == contents(tmp_path / "1")


@pytest.mark.usefixtures("small_shards")
@pytest.mark.parametrize("on_disk", [False, True], ids=["in memory", "on disk"])
def test_some_nodes_only(tmp_path, on_disk):
    labels = generated_labels()
    drawn = TokenSampler(labels, **SPEC, progress=False)
    listed = np.random.default_rng(2).permutation(400)[:150]
    mask = np.zeros(400, bool)
    mask[listed] = True
    for name, nodes in (("list", listed), ("mask", mask)):
        kept = build(labels, tmp_path / name if on_disk else None, nodes=nodes, copies=2)
        assert len(kept) == 300
        assert set(kept.nodes.tolist()) == set(listed.tolist())
        assert_same_rows(kept.rows(listed[::-1], 1), drawn.rows(listed[::-1], 1))
        missing = int(np.flatnonzero(~mask)[0])
        with pytest.raises(GraphError, match=rf"node {missing} has no row.*150 of 400"):
            kept.rows([missing])


@pytest.mark.parametrize("on_disk", [False, True], ids=["in memory", "on disk"])
def test_no_nodes_at_all(tmp_path, on_disk):
    kept = build(generated_labels(), tmp_path / "tokens" if on_disk else None, nodes=[])
    assert len(kept) == 0
    assert kept.rows([]).spd.shape == (0, 10, 10)
    with pytest.raises(GraphError, match="has no row"):
        kept.rows([0])


def test_copies_beyond_those_kept_are_refused():
    kept = build(generated_labels(), copies=2)
    for copy in (2, -1, 0.0, True):
        with pytest.raises(ValueError, match=r"copy = .* from 0 to 1"):
            kept.rows([0], copy)


def test_a_copy_for_another_process_maps_the_same_files(tmp_path):
    kept = build(generated_labels(), tmp_path / "tokens")
    sent = pickle.dumps(kept)
    assert len(sent) < 1000
    assert_same_rows(pickle.loads(sent).rows(range(400)), kept.rows(range(400)))
    in_memory = pickle.loads(pickle.dumps(build(generated_labels())))
    assert_same_rows(in_memory.rows(range(400)), kept.rows(range(400)))


def read_in_child(tokens, expected):
    actual = tokens.rows(range(400))
    os._exit(0 if actual.spd.tobytes() == expected else 1)


def test_workers_read_at_the_same_time(tmp_path):
    kept = build(generated_labels(), tmp_path / "tokens")
    expected = kept.rows(range(400)).spd.tobytes()
    workers = [fork.Process(target=read_in_child, args=(kept, expected)) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
        assert worker.exitcode == 0


# ---- size on disk ------------------------------------------------------------------------------


@pytest.mark.parametrize(("bits", "most"), [(8, 640), (4, 400)])
def test_bytes_of_a_row(bits, most):
    kept = build(generated_labels(), size=32, bits=bits)
    assert kept.nbytes / len(kept) <= most


def test_shards_are_bounded_in_bytes_and_number(monkeypatch):
    def layout(num_nodes, **spec):
        return tokens_store.TokenLayout(
            spec=tokens_store.TokenSpec(**spec),
            copies=1,
            bits=8,
            directed=True,
            num_nodes=num_nodes,
            num_egos=num_nodes,
            graph_fingerprint="",
            labels_fingerprint="",
        )

    assert layout(10**6).shard_rows == 32_768
    large = layout(10**5, size=1024)
    assert large.shard_rows * large.row_bytes <= 64 << 20
    assert layout(4 * 10**9).num_shards <= 4096
    assert layout(0).num_shards == 0


# ---- four bits ---------------------------------------------------------------------------------


@pytest.mark.parametrize("pairs", [0, 1, 2, 3, 45, 66])
def test_four_bits_keep_distances_to_13(pairs):
    codes = np.random.default_rng(pairs).integers(0, 256, (50, pairs)).astype(np.uint8)
    codes[:20] = np.minimum(codes[:20], 20)
    codes[codes == 17] = 255
    expected = np.where(codes == 255, 255, np.where(codes >= 14, 254, codes))
    stored = to_nibbles(codes)
    assert stored.shape == (50, (pairs + 1) // 2)
    np.testing.assert_array_equal(from_nibbles(stored, pairs), expected)


@pytest.mark.parametrize("size", [2, 3, 4, 6, 7, 40])
@pytest.mark.parametrize("on_disk", [False, True], ids=["in memory", "on disk"])
def test_a_four_bit_store_differs_beyond_13_only(tmp_path, size, on_disk):
    labels = landmark_path(60)
    spec = {"size": size, "in_exponent": 1.0}
    exact = build(labels, **spec).rows(range(60))
    path = tmp_path / "tokens" if on_disk else None
    kept = build(labels, path, bits=4, **spec).rows(range(60))
    np.testing.assert_array_equal(kept.ids, exact.ids)
    expected = np.where(exact.spd == 255, 255, np.where(exact.spd >= 14, 254, exact.spd))
    np.testing.assert_array_equal(kept.spd, expected)
    assert (kept.spd == 254).any()


def test_four_bits_on_a_directed_graph():
    labels = generated_labels(directed=True)
    exact, kept = build(labels).rows(range(400)), build(labels, bits=4).rows(range(400))
    near = exact.spd <= 13
    np.testing.assert_array_equal(kept.spd[near], exact.spd[near])
    np.testing.assert_array_equal(kept.spd == 255, exact.spd == 255)


# ---- interrupted builds ------------------------------------------------------------------------


def leftovers(folder):
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.usefixtures("small_shards")
@pytest.mark.parametrize("nodes", [None, list(range(399, -1, -1))], ids=["all", "listed"])
def test_a_build_killed_at_twenty_random_moments_ends_the_same(tmp_path, nodes):
    labels = generated_labels()
    options = {"copies": 8, "nodes": nodes, "threads": 2}
    start = time.monotonic()
    build(labels, tmp_path / "whole", **options)
    longest = time.monotonic() - start
    expected = contents(tmp_path / "whole")
    assert len(expected) > 150
    randomness = random.Random(7)
    path, kills, finished = tmp_path / "tokens", 0, 0

    def child():
        build(labels, path, resume=True, **options)
        os._exit(0)

    while kills < 20:
        process = fork.Process(target=child)
        process.start()
        time.sleep(randomness.uniform(0, longest / 4))
        process.kill()
        process.join()
        assert process.exitcode in (0, -signal.SIGKILL)
        kills += process.exitcode == -signal.SIGKILL
        if process.exitcode == 0:
            assert contents(path) == expected
            path.rename(tmp_path / f"done-{finished}")
            finished += 1
    build(labels, path, resume=True, **options)
    assert contents(path) == expected
    assert not [name for name in leftovers(tmp_path) if "partial" in name or name.startswith(".")]


class Stop(Exception):
    """Ends a build after some shards."""


def stop_after(monkeypatch, shards, labels, path, **options):
    """An unfinished build with some whole shards."""
    written = []
    original = tokens_store.Shard.write

    def write(shard, writer):
        if len(written) == shards:
            raise Stop
        written.append(shard)
        original(shard, writer)

    with monkeypatch.context() as patch:
        patch.setattr(tokens_store.Shard, "write", write)
        with pytest.raises(Stop):
            build(labels, path, **options)


@pytest.mark.usefixtures("small_shards")
def test_whole_shards_are_not_made_again(tmp_path, monkeypatch):
    labels, path = generated_labels(), tmp_path / "tokens"
    stop_after(monkeypatch, 4, labels, path)
    with pytest.raises(ArtifactError, match="unfinished build"):
        build(labels, path)
    made = []
    original = tokens_store.ShardPlace.draw
    monkeypatch.setattr(
        tokens_store.ShardPlace,
        "draw",
        lambda place, *rest: (made.append(place.number), original(place, *rest))[1],
    )
    build(labels, path, resume=True)
    assert made == [4, 5, 6]
    build(labels, path, resume=True)
    assert made == [4, 5, 6]


@pytest.mark.usefixtures("small_shards")
@pytest.mark.parametrize("complete", [False, True], ids=["unfinished", "complete"])
@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ({}, {"seed": 5}, r"seed.*4.*seed.*5"),
        ({}, {"size": 11}, r"size.*10.*size.*11"),
        ({}, {"in_exponent": 2.0}, r"in_exponent.*1\.0.*in_exponent.*2\.0"),
        ({}, {"copies": 2}, r"copies.*1.*copies.*2"),
        ({}, {"bits": 4}, r"bits.*8.*bits.*4"),
        ({}, {"spill": True}, r"spill.*False.*spill.*True|spill.*false.*spill.*true"),
        ({}, {"nodes": list(range(399, -1, -1))}, "nodes_fingerprint"),
        ({"nodes": list(range(399, -1, -1))}, {}, "nodes_fingerprint"),
        ({"nodes": list(range(200))}, {"nodes": list(range(1, 201))}, "nodes_fingerprint"),
    ],
    ids=str,
)
def test_a_build_does_not_continue_one_of_other_settings(
    tmp_path, monkeypatch, complete, before, after, message
):
    labels, path = generated_labels(), tmp_path / "tokens"
    if complete:
        build(labels, path, **before)
    else:
        stop_after(monkeypatch, 2, labels, path, **before)
    with pytest.raises(ArtifactError, match=message):
        build(labels, path, resume=True, **after)
    # Nothing was lost, and nobody holds the lock.
    build(labels, path, resume=True, **before)
    Tokens.load(path, verify=True)


@pytest.mark.usefixtures("small_shards")
def test_a_build_does_not_continue_one_of_another_graph_or_order(tmp_path, monkeypatch):
    """Row 37 of the bad inputs: both fingerprints are named."""
    labels, path = generated_labels(), tmp_path / "tokens"
    stop_after(monkeypatch, 2, labels, path)
    other = labels_of(path_graph(400))
    with pytest.raises(ArtifactError, match=labels.graph_fingerprint) as refusal:
        build(other, path, resume=True)
    assert other.graph_fingerprint in str(refusal.value)
    same = path_graph(400)
    ranked = [HubLabels.build(same, order=order, progress=False) for order in (None, range(400))]
    build(ranked[0], tmp_path / "ranked")
    with pytest.raises(ArtifactError, match=ranked[0].fingerprint[:20]) as refusal:
        build(ranked[1], tmp_path / "ranked", resume=True)
    assert ranked[1].fingerprint[:20] in str(refusal.value)


def test_tokens_of_another_graph_are_told_apart(tmp_path):
    """Row 37 of the bad inputs, for those who bring a graph and tokens together."""
    build(generated_labels(), tmp_path / "tokens")
    tokens = Tokens.load(tmp_path / "tokens")
    own, other = generated(False), path_graph(400)
    tokens.check_fingerprint(own.fingerprint)
    with pytest.raises(ArtifactError, match=rf"tokens.*{own.fingerprint}.*{other.fingerprint}"):
        tokens.check_fingerprint(other.fingerprint)


# ---- targets that cannot be written ------------------------------------------------------------


@pytest.fixture
def no_work(monkeypatch):
    """Fails if the heavy part begins."""

    def begin(*_, **__):
        raise AssertionError("the work began")

    monkeypatch.setattr("dhilgt.tokens.tokens.TokenSampler", begin)


@pytest.mark.usefixtures("no_work")
def test_bad_targets_are_refused_before_work_starts(tmp_path, monkeypatch):
    """Row 44 of the bad inputs."""
    labels = generated_labels()
    (tmp_path / "file").write_text("mine")
    with pytest.raises(ArtifactError, match="file"):
        build(labels, tmp_path / "file")
    with pytest.raises(ArtifactError, match="file"):
        build(labels, tmp_path / "file" / "tokens")
    assert (tmp_path / "file").read_text() == "mine"
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("mine")
    for overwrite in (False, True):
        with pytest.raises(ArtifactError, match="mine"):
            build(labels, tmp_path / "mine", overwrite=overwrite)
    assert (tmp_path / "mine" / "thesis.txt").read_text() == "mine"
    monkeypatch.setattr("dhilgt.store.files.ops.free_bytes", lambda folder: 1000, raising=True)
    with pytest.raises(ArtifactError, match=r"1 kB"):
        build(labels, tmp_path / "tokens")
    assert leftovers(tmp_path) == ["file", "mine"]


def test_older_tokens_are_replaced_only_when_asked(tmp_path):
    labels, path = generated_labels(), tmp_path / "tokens"
    build(labels, path)
    before = contents(path)
    with pytest.raises(ArtifactError, match="exists"):
        build(labels, path, seed=9)
    assert contents(path) == before
    build(labels, path, seed=9, overwrite=True)
    assert Tokens.load(path).spec.seed == 9


# ---- damage ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def pristine(tmp_path_factory):
    """A store of three shards with a list of nodes."""
    path = tmp_path_factory.mktemp("pristine") / "tokens"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tokens_store, "_SHARD_ROWS", 64)
        build(generated_labels(), path, nodes=np.arange(150))
    return path


@pytest.fixture
def store(pristine, tmp_path):
    return shutil.copytree(pristine, tmp_path / "tokens")


FILES = [f"{kind}-{number:05}.npy" for kind in ("ids", "spd", "parts") for number in range(3)]
FILES.append("nodes.npy")


def test_the_files_of_a_store(pristine):
    assert leftovers(pristine) == sorted([*FILES, "manifest.json"])


@pytest.mark.parametrize("file", FILES)
def test_truncated_longer_and_missing_files_are_named(store, file):
    whole = (store / file).read_bytes()
    for damaged in [whole[: len(whole) * k // 8] for k in range(8)] + [whole + b"\0"]:
        (store / file).write_bytes(damaged)
        with pytest.raises(ArtifactError, match=rf"{file}.*expected {len(whole)} bytes"):
            Tokens.load(store)
    (store / file).unlink()
    with pytest.raises(ArtifactError, match=rf"{file} is missing"):
        Tokens.load(store)


@pytest.mark.parametrize("file", FILES)
def test_flipped_bytes_are_named(store, file):
    whole = (store / file).read_bytes()
    places = random.Random(file)
    for _ in range(16):
        damaged = bytearray(whole)
        damaged[places.randrange(len(whole))] ^= 1 << places.randrange(8)
        (store / file).write_bytes(damaged)
        for verify in (False, True):
            with pytest.raises(ArtifactError, match=file):
                Tokens.load(store, verify=verify)
    (store / file).write_bytes(whole)
    Tokens.load(store)


@pytest.mark.parametrize("kind", ["ids", "spd", "parts"])
def test_shards_of_a_large_store_are_checked_when_they_are_used(store, monkeypatch, kind):
    monkeypatch.setattr(checksums, "WHOLE_BYTES", 1000)
    expected = Tokens.load(store).rows(np.arange(60))
    file = store / f"{kind}-00001.npy"
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    file.write_bytes(data)
    kept = Tokens.load(store)
    np.testing.assert_array_equal(kept.rows(np.arange(60)).spd, expected.spd)  # of the first shard
    for _ in range(2):
        with pytest.raises(ArtifactError, match=file.name):
            kept.rows([100])
    with pytest.raises(ArtifactError, match=file.name):
        token_stats(kept)
    with pytest.raises(ArtifactError, match=file.name):
        Tokens.load(store, verify=True)


@pytest.mark.parametrize("kind", ["ids", "spd", "parts"])
def test_swapped_shards_are_named(store, kind):
    first, second, last = (store / f"{kind}-{number:05}.npy" for number in range(3))
    first.rename(store / "x")
    second.rename(first)
    (store / "x").rename(second)
    with pytest.raises(ArtifactError, match=first.name):
        Tokens.load(store)
    first.write_bytes(last.read_bytes())
    with pytest.raises(ArtifactError, match=first.name):
        Tokens.load(store)


def test_folders_of_something_else_are_refused(tmp_path):
    generated_labels().save(tmp_path / "labels")
    with pytest.raises(ArtifactError, match="holds 'labels', not 'tokens'"):
        Tokens.load(tmp_path / "labels")
    with pytest.raises(ArtifactError, match="nothing"):
        Tokens.load(tmp_path / "nothing")
    (tmp_path / "empty").mkdir()
    with pytest.raises(ArtifactError, match="empty"):
        Tokens.load(tmp_path / "empty")


def sign(store, change):
    """Changes the manifest as someone would who knows how to make it look right."""
    manifest = json.loads((store / "manifest.json").read_text())
    change(manifest)
    del manifest["sha256"]
    manifest["sha256"] = hashlib.sha256(canonical_json(manifest)).hexdigest()
    text = json.dumps(manifest, indent=1, sort_keys=True, ensure_ascii=False)
    (store / "manifest.json").write_text(text + "\n")


def test_newer_and_older_formats_are_refused(store):
    """Row 38 of the bad inputs."""
    key = next(key for key in json.loads((store / "manifest.json").read_text()) if "format" in key)
    for number, message in (
        (3, "reads up to 2"),
        (10**30, "reads up to 2"),
        (0, "format"),
        (-1, "format"),
        ("1", "manifest"),
    ):
        sign(store, lambda manifest, number=number: manifest.update({key: number}))
        with pytest.raises(ArtifactError, match=message):
            Tokens.load(store)


@pytest.mark.parametrize("text", ["", "{", "[]", "null", "\x00" * 100, "[" * 100_000])
def test_manifests_that_are_none_are_named(store, text):
    """Row 40 of the bad inputs."""
    (store / "manifest.json").write_text(text)
    with pytest.raises(ArtifactError, match=r"manifest\.json"):
        Tokens.load(store)


EVIL = [0, -1, 1, 2**31, 2**63, 10**30, 1.5, "64", None, True, [], {}, float("1e300")]


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    "name",
    [
        "size",
        "num_out",
        "num_in",
        "copies",
        "bits",
        "num_nodes",
        "num_egos",
        "shard_rows",
        "directed",
        "nodes_fingerprint",
        "labels_fingerprint",
        "seed",
        "out_exponent",
        "spill",
        "fill",
    ],
)
def test_settings_that_do_not_fit_the_files_never_crash(store, name):
    """Either refused with the folder named, or harmless: every row can be read."""
    right = json.loads((store / "manifest.json").read_text())["params"][name]
    refused = []
    for value in EVIL:
        sign(store, lambda manifest, value=value: manifest["params"].update({name: value}))
        try:
            kept = Tokens.load(store)
            rows = kept.rows(np.arange(150))
        except ArtifactError as error:
            refused.append(str(error))
        else:
            assert rows.ids.shape == (150, 10)
    assert len(refused) >= 9
    assert all(str(store) in message for message in refused)
    sign(store, lambda manifest: manifest["params"].pop(name))
    with pytest.raises(ArtifactError, match=rf"manifest\.json.*'{name}' is missing"):
        Tokens.load(store)
    sign(store, lambda manifest: manifest["params"].update({name: right}))
    Tokens.load(store)


@pytest.mark.timeout(20)
def test_a_layout_of_endless_shards_is_refused_at_once(store):
    def change(manifest):
        manifest["params"].update(
            num_nodes=2**32, num_egos=2**32, copies=2**20, shard_rows=1, nodes_fingerprint=None
        )

    sign(store, change)
    with pytest.raises(ArtifactError, match="shards expected, 3 there"):
        Tokens.load(store)


@pytest.mark.parametrize("value", [-2, 400, 2**31 - 1, -(2**31)])
def test_ids_of_no_node_are_not_handed_out(store, value):
    """An id beyond the graph would read features out of bounds, whoever signed it."""
    file = store / "ids-00001.npy"
    ids = np.load(file)
    ids[3, 2] = value
    np.save(file, ids)
    signed = hashlib.sha256(file.read_bytes()).hexdigest()
    sign(store, lambda manifest: manifest["files"][file.name].update(sha256=signed))
    kept = Tokens.load(store)
    kept.rows(np.arange(60))
    with pytest.raises(ArtifactError, match=rf"ids-00001\.npy is damaged.*-1 to 399.*{value}"):
        kept.rows(np.arange(150))


@pytest.mark.parametrize("nodes", [[-1], [400], [0, 0]], ids=str)
def test_lists_of_nodes_that_are_none_are_refused(store, nodes):
    actual = np.load(store / "nodes.npy")
    actual[: len(nodes)] = nodes
    np.save(store / "nodes.npy", actual)
    with pytest.raises(ArtifactError, match=r"nodes\.npy"):
        Tokens.load(store)


def test_every_distance_code_can_be_unpacked():
    """Whatever bytes a damaged store holds, a square comes out."""
    ids = np.arange(8, dtype=np.int32).reshape(2, 4)
    packed = np.arange(12, dtype=np.uint8).reshape(2, 6) * 23
    square = unpack_distances(ids, packed, directed=False)
    assert (square == square.transpose(0, 2, 1)).all()
