"""Labels on disk: what is saved comes back, and damage never comes back as labels or a crash."""

import json
import shutil

import numpy as np
import pytest

from dhilgt import ArtifactError, Graph, HubLabels, TokenSampler, _native, generate
from dhilgt.store import checksums
from dhilgt.store.artifact import ArtifactWriter
from tests.labels.cases import ALGORITHMS, build, label, packed, random_graph

pytestmark = pytest.mark.filterwarnings("ignore:the input was cleaned")


def contents(folder):
    return {file.name: file.read_bytes() for file in sorted(folder.iterdir())}


GRAPHS = {
    "indices": Graph.from_edges([0, 1, 2], [1, 2, 3], num_nodes=6),
    "numbers": Graph.from_edges([-(2**63), 40, 7], [40, 2**63 - 1, 40]),
    "names": Graph.from_edges(["ann", "-", "日本"], ["bob", "ann", "zoé 🙂"]),
    "directed": Graph.from_edges(["a", "b", "c"], ["b", "c", "a"], directed=True),
    "one": Graph.from_edges([], [], num_nodes=1),
    "generated": generate(3000, 6, seed=1),
}


@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize("mmap", [True, False])
@pytest.mark.parametrize("verify", [True, False])
def test_what_is_saved_comes_back(name, mmap, verify, tmp_path):
    labels = build(GRAPHS[name])
    labels.save(tmp_path / "labels")
    actual = HubLabels.load(tmp_path / "labels", mmap=mmap, verify=verify)
    assert repr(actual) == repr(labels)
    assert actual.fingerprint == labels.fingerprint
    assert actual.graph_fingerprint == labels.graph_fingerprint == GRAPHS[name].fingerprint
    ids = GRAPHS[name].nodes[:200].tolist()
    assert actual.ids.all[:200].tolist() == ids
    for side in ("in", "out"):
        assert [label(actual, v, side) for v in ids] == [label(labels, v, side) for v in ids]
    assert np.array_equal(actual.distance_matrix(ids), labels.distance_matrix(ids))
    assert np.array_equal(actual.distance_histogram(), labels.distance_histogram())
    assert actual.witness(ids[0], ids[-1]) == labels.witness(ids[0], ids[-1])
    assert actual.holders(ids[0])[0].tolist() == labels.holders(ids[0])[0].tolist()
    assert packed(actual.native) == packed(labels.native)


def test_loaded_labels_can_be_saved_again(tmp_path):
    build(GRAPHS["names"]).save(tmp_path / "one")
    HubLabels.load(tmp_path / "one").save(tmp_path / "two")
    assert contents(tmp_path / "one") == contents(tmp_path / "two")


@pytest.mark.parametrize("directed", [False, True])
def test_saves_are_byte_identical_however_the_labels_were_made(directed, tmp_path):
    graph = generate(1500, 4, seed=2, directed=directed)
    saved = []
    for threads in (1, 2, 7):
        for algorithm in ALGORITHMS:
            folder = tmp_path / f"{algorithm}{threads}"
            build(graph, algorithm=algorithm, threads=threads).save(folder, threads=threads)
            saved.append(contents(folder))
    assert all(each == saved[0] for each in saved)


def test_the_disk_holds_little_more_than_a_byte_an_entry(tmp_path):
    labels = build(GRAPHS["generated"])
    labels.save(tmp_path / "labels")
    size = sum(map(len, contents(tmp_path / "labels").values()))
    assert size < 1.6 * labels.num_entries + 20 * labels.num_nodes


def test_saving_does_not_replace_unasked(tmp_path):
    labels = build(GRAPHS["names"])
    labels.save(tmp_path / "labels")
    before = contents(tmp_path / "labels")
    with pytest.raises(ArtifactError, match="overwrite"):
        build(GRAPHS["indices"]).save(tmp_path / "labels")
    assert contents(tmp_path / "labels") == before
    build(GRAPHS["indices"]).save(tmp_path / "labels", overwrite=True)
    assert HubLabels.load(tmp_path / "labels").num_nodes == 6


# ---- what is not labels ------------------------------------------------------------------------


def test_other_artifacts_are_refused(tmp_path):
    with ArtifactWriter(tmp_path / "tokens", kind="tokens", format_version=1) as writer:
        writer.write_array("order", np.arange(3))
    with pytest.raises(ArtifactError, match="tokens"):
        HubLabels.load(tmp_path / "tokens")
    with pytest.raises(ArtifactError, match="nothing"):
        HubLabels.load(tmp_path / "nothing")


def test_a_newer_format_is_refused(tmp_path):
    with ArtifactWriter(tmp_path / "labels", kind="labels", format_version=2) as writer:
        writer.write_array("order", np.arange(3))
    with pytest.raises(ArtifactError, match="format"):
        HubLabels.load(tmp_path / "labels")


def rewritten(source, target, *, params=None, arrays=None):
    """The labels at ``source`` written anew, checksums right, contents changed."""
    manifest = json.loads((source / "manifest.json").read_text())
    kept = {file.stem: np.load(file) for file in source.glob("*.npy")}
    kept.update(arrays or {})
    with ArtifactWriter(
        target,
        kind="labels",
        format_version=1,
        params={**manifest["params"], **(params or {})},
        fingerprint=manifest["fingerprint"],
    ) as writer:
        for name, array in kept.items():
            if array is not None:
                writer.write_array(name, array)
    return target


@pytest.mark.parametrize(
    "change",
    [
        {"params": {"num_nodes": 5}},
        {"params": {"num_nodes": -1}},
        {"params": {"num_nodes": "4"}},
        {"params": {"num_nodes": True}},
        {"params": {"num_entries": None}},
        {"params": {"max_distance": 1.5}},
        {"params": {"directed": True}},
        {"arrays": {"order": np.array([0, 1, 2, 2], np.uint32)}},
        {"arrays": {"order": np.array([0, 1, 2, 4], np.uint32)}},
        {"arrays": {"order": np.array([0, 1, 2], np.uint32)}},
        {"arrays": {"order": np.array([0, 1, 2, 3], np.int64)}},
        {"arrays": {"order": None}},
        {"arrays": {"in_offsets": np.zeros(4, np.uint64)}},
        {"arrays": {"in_offsets": np.zeros(5, np.int64)}},
        {"arrays": {"in_offsets": None}},
        {"arrays": {"in_records": np.zeros(9, np.uint16)}},
        {"arrays": {"in_records": np.zeros((3, 3), np.uint8)}},
        {"arrays": {"in_records": None}},
        {"arrays": {"ids_text": np.frombuffer(b"\xff\xfe", np.uint8)}},
        {"arrays": {"ids_ends": np.array([1, 2, 3, 99], np.uint64)}},
        {"arrays": {"ids_ends": np.array([3, 2, 1, 4], np.uint64)}},
        {"arrays": {"ids_ends": None}},
        {"arrays": {"ids": np.array([1, 1, 2, 3])}},
        {"arrays": {"ids": np.arange(3)}},
    ],
    ids=str,
)
@pytest.mark.parametrize("mmap", [True, False])
def test_parts_that_do_not_fit_together_are_refused(change, mmap, tmp_path):
    build(Graph.from_edges(["a", "b", "c"], ["b", "c", "d"])).save(tmp_path / "good")
    bad = rewritten(tmp_path / "good", tmp_path / "bad", **change)
    with pytest.raises(ArtifactError):
        HubLabels.load(bad, verify=True, mmap=mmap)


# ---- damage ------------------------------------------------------------------------------------


def use(labels):
    """Asks everything; any answer will do."""
    ids = labels.ids.all[:20]
    labels.distance_matrix(ids)
    labels.distances(ids, ids[::-1])
    labels.distance_histogram()
    for node in ids[:5]:
        for side in ("in", "out"):
            labels.hubs(node, side=side)
            labels.holders(node, side=side)
        labels.witness(node, ids[-1])
    labels.label_graph()
    repr(labels), labels.fingerprint


def damaged(data, rng):
    kind = rng.integers(4)
    at = int(rng.integers(len(data)))
    if kind == 0:
        return data[:at]
    if kind == 1:
        return data[:at] + rng.bytes(8) + data[at + 8 :]
    flipped = bytearray(data)
    flipped[at] ^= 1 << int(rng.integers(8)) if kind == 2 else 0xFF
    return bytes(flipped)


@pytest.mark.parametrize("name", ["names", "numbers", "directed", "generated"])
def test_damage_is_refused_however_labels_are_opened(name, tmp_path):
    graph = generate(150, 3, seed=3) if name == "generated" else GRAPHS[name]
    build(graph).save(tmp_path / "good")
    whole = contents(tmp_path / "good")
    rng = np.random.default_rng(sum(map(ord, name)))
    for trial in range(150):
        file = sorted(whole)[trial % len(whole)]
        data = damaged(whole[file], rng)
        if data == whole[file]:
            continue
        shutil.rmtree(tmp_path / "bad", ignore_errors=True)
        shutil.copytree(tmp_path / "good", tmp_path / "bad")
        (tmp_path / "bad" / file).write_bytes(data)
        with pytest.raises(ArtifactError, match=file):
            HubLabels.load(tmp_path / "bad", mmap=bool(trial % 2), verify=trial % 3 == 0)


def test_a_file_of_another_build_of_the_same_graph_is_refused(tmp_path):
    """The order of another build changed nearly every distance, without a word."""
    graph = generate(200, 4, seed=3)
    HubLabels.build(graph, progress=False).save(tmp_path / "labels")
    HubLabels.build(graph, order="random", progress=False).save(tmp_path / "other")
    shutil.copy(tmp_path / "other" / "order.npy", tmp_path / "labels" / "order.npy")
    with pytest.raises(ArtifactError, match=r"order\.npy is damaged"):
        HubLabels.load(tmp_path / "labels")


@pytest.mark.parametrize("mmap", [True, False])
def test_large_labels_are_checked_whole_before_tokens_are_drawn_from_them(
    mmap, tmp_path, monkeypatch
):
    build(GRAPHS["generated"]).save(tmp_path / "labels")
    file = tmp_path / "labels" / "in_records.npy"
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    file.write_bytes(data)
    monkeypatch.setattr(checksums, "WHOLE_BYTES", 100)  # written without sums of blocks
    with pytest.raises(ArtifactError, match=r"in_records\.npy is damaged"):
        TokenSampler(HubLabels.load(tmp_path / "labels", mmap=mmap), progress=False)


def test_damaged_records_with_right_checksums_are_refused_or_harmless(tmp_path):
    # Not what a disk does but what a stranger may: the checks behind the checksums.
    graph = random_graph(5, most_nodes=60, directed=True)
    build(graph).save(tmp_path / "good")
    whole = {file.stem: np.load(file) for file in (tmp_path / "good").glob("*.npy")}
    rng = np.random.default_rng(7)
    refused = 0
    for trial in range(300):
        name = ("in_records", "in_offsets", "out_records", "out_offsets")[trial % 4]
        array = whole[name].copy()
        array[rng.integers(len(array))] = rng.integers(256) if trial % 8 < 4 else array.max() + 1
        arrays = {**whole, name: array}
        sides = [
            arrays[f"{side}_{part}"] for side in ("in", "out") for part in ("offsets", "records")
        ]
        native = _native.labels_from_packed(True, graph.num_nodes, tuple(sides))
        order, ids = whole["order"], graph.ids
        try:
            use(HubLabels(native, order, ids, graph.fingerprint, (1, 1)))
        except ArtifactError:
            refused += 1
    assert refused > 50


@pytest.mark.parametrize(
    ("offsets", "records", "message"),
    [
        ([0, 99, 99], [0, 0], "offsets run outside the data"),
        ([2, 0, 0], [0, 0], "offsets run outside the data"),
        ([2**63, 2**64 - 1, 0], [0, 0], "offsets run outside the data"),
        ([0, 0, 1], [0], "record is cut short"),
        ([0, 1, 2], [0x80, 0], "record is cut short"),
        ([0, 5, 6], [0xFF] * 5 + [0], "number does not fit 32 bits"),
        ([0, 4, 5], [1, 1, 1, 2, 0], "hub is not a node"),
        ([0, 4, 5], [1, 2, 1, 1, 0], "distances do not ascend"),
        ([0, 3, 4], [1, 1, 0, 0], "an empty segment"),
        ([0, 2, 3], [0, 0, 0], "bytes left over"),
    ],
)
def test_each_damage_of_a_record_is_named(offsets, records, message):
    native = _native.labels_from_packed(
        False, 2, (np.array(offsets, np.uint64), np.array(records, np.uint8))
    )
    with pytest.raises(ArtifactError, match=f"label of rank 0: .*{message}"):
        native.label(0, 0)
    for ask in (
        lambda: native.ask(0, 1),
        lambda: native.ask(0, 1),  # the same again, not an answer from what was left behind
        lambda: native.ask(1, 0),
        lambda: native.histogram(),
        lambda: native.unpack(2, 2**40),
    ):
        with pytest.raises(ArtifactError, match=r"label of rank [01]: "):
            ask()


def test_arrays_of_the_wrong_kind_never_reach_the_core():
    offsets, records = np.zeros(3, np.uint64), np.zeros(2, np.uint8)
    with pytest.raises(ValueError, match="one item more"):
        _native.labels_from_packed(False, 3, (offsets, records))
    for bad in ((offsets.astype(np.int64), records), (offsets, records.astype(np.int8)), ()):
        with pytest.raises((TypeError, RuntimeError, IndexError)):
            _native.labels_from_packed(False, 2, bad)
