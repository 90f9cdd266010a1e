"""Files of units that are damaged, missing or do not belong together are refused by name."""

import errno
import json

import numpy as np
import pytest

from dhilgt import HubLabels, generate
from dhilgt.errors import ArtifactError
from dhilgt.labels.sharding import (
    HubShard,
    LabelPart,
    TopTable,
    build_sharded,
    finish,
    merge_holders,
    merge_range,
    search_hubs,
    write_ranked_graph,
    write_top_table,
)
from dhilgt.store import files as store_files
from dhilgt.store.target import BuildLock
from tests.labels.cases import build

N = 400
BOUNDS = (0, 150, N)
HUBS = (0, 100, N)


class Work:
    """A build, up to its shards."""

    def __init__(self, folder):
        self.folder = folder
        self.graph = generate(N, 5, seed=7, num_features=0)
        self.files = write_ranked_graph(self.graph, None, folder / "graph")
        self.shards = [self.search(first, last) for first, last in ((0, 100), (100, N))]

    def search(self, first, last, **options):
        options = {"side": "in", "label_bounds": BOUNDS, "folder": self.folder} | options
        return search_hubs(self.files, first, last, **options)

    def parts(self):
        merged = [merge_range(self.folder, self.shards, part, side="in") for part in (0, 1)]
        return merged + [
            merge_holders(self.folder, self.shards, part, side="in", holder_bounds=HUBS)
            for part in (0, 1)
        ]


@pytest.fixture
def work(tmp_path):
    return Work(tmp_path)


def change(path, position):
    data = bytearray(path.read_bytes())
    data[position] ^= 0x40
    path.write_bytes(data)


def test_a_finished_build_is_the_labels(work, tmp_path):
    finish(tmp_path / "labels", work.files, work.parts(), folder=tmp_path)
    labels = HubLabels.load(tmp_path / "labels", verify=True)
    nodes = np.arange(0, N, 3)
    expected = build(work.graph).distance_matrix(nodes)
    assert np.array_equal(labels.distance_matrix(nodes), expected)


def test_results_of_units_survive_json(work):
    (part, *_), top = work.parts(), write_top_table(work.files, work.shards[:1], work.folder)
    for kind, value in ((LabelPart, part), (TopTable, top)):
        assert kind.from_json(json.loads(json.dumps(value.to_json()))) == value
    shard = work.shards[0]
    assert HubShard(**json.loads(json.dumps(shard._asdict()))) == shard


@pytest.mark.parametrize("what", ["missing", "shorter", "longer", "first line", "slice"])
def test_a_damaged_shard_is_refused(work, what):
    path = work.folder / work.shards[1].name
    data = path.read_bytes()
    if what == "missing":
        path.unlink()
    elif what == "shorter":
        path.write_bytes(data[:-64])
    elif what == "longer":
        path.write_bytes(data + bytes(64))
    else:
        change(path, 40 if what == "first line" else len(data) - 100)
    with pytest.raises(ArtifactError, match=path.name):
        merge_range(work.folder, work.shards, 1, side="in")


def test_only_the_slice_that_is_read_is_checked(work):
    path = work.folder / work.shards[1].name
    change(path, len(path.read_bytes()) - 100)  # of the last part
    merge_range(work.folder, work.shards, 0, side="in")
    merge_holders(work.folder, work.shards, 1, side="in", holder_bounds=HUBS)


def test_hubs_must_be_in_one_shard_each(work):
    best, rest = work.shards
    with pytest.raises(ArtifactError, match="hub 0 of side 'in' is in no shard"):
        merge_range(work.folder, [rest], 0, side="in")
    with pytest.raises(ArtifactError, match="hub 100 of side 'in' is in no shard"):
        merge_range(work.folder, [best], 0, side="in")
    with pytest.raises(ArtifactError, match="hub 50 of side 'in' is in two shards"):
        merge_range(work.folder, [best, work.search(50, N)], 0, side="in")
    with pytest.raises(ArtifactError, match="hub 100 of side 'in' is in no shard"):
        merge_holders(work.folder, [best], 1, side="in", holder_bounds=HUBS)
    with pytest.raises(ArtifactError, match="no shards of side 'in'"):
        merge_range(work.folder, [], 0, side="in")


@pytest.mark.parametrize("options", [{"radius": 2}, {"label_bounds": (0, 140, N)}])
def test_shards_of_another_build_are_refused(work, options):
    other = work.search(100, N, **options)
    with pytest.raises(ArtifactError, match=other.name):
        merge_range(work.folder, [work.shards[0], other], 0, side="in")


def test_a_shard_under_another_name_is_refused(work):
    rest = work.shards[1]
    named = rest._replace(first=0, last=100)
    with pytest.raises(ArtifactError, match=rf"{rest.name} holds hubs \[100, 400\)"):
        merge_range(work.folder, [named, rest], 0, side="in")


def test_a_damaged_table_is_refused(work):
    top = write_top_table(work.files, work.shards[:1], work.folder)
    path = work.folder / top.parts[1].name
    change(path, path.stat().st_size - 200)
    with pytest.raises(ArtifactError, match=path.name):
        work.search(100, N, top=top)


def test_a_table_of_another_graph_is_refused(work, tmp_path):
    top = write_top_table(work.files, work.shards[:1], work.folder)
    other = write_ranked_graph(work.graph, "core", tmp_path / "other")
    with pytest.raises(
        ArtifactError, match=f"{top.parts[0].name} was made from another graph or order"
    ):
        search_hubs(other, 100, N, side="in", label_bounds=BOUNDS, folder=work.folder, top=top)


@pytest.mark.parametrize("left_out", range(4))
def test_a_missing_part_is_named(work, tmp_path, left_out):
    parts = work.parts()
    lost = parts.pop(left_out)
    words = f"the {lost.kind} of side 'in' from rank {lost.first} are missing"
    with pytest.raises(ArtifactError, match=words):
        finish(tmp_path / "labels", work.files, parts, folder=tmp_path)
    assert not (tmp_path / "labels").exists()


def test_a_part_that_is_cut_short_is_named(work, tmp_path):
    parts = work.parts()
    path = tmp_path / parts[0].files[1].file
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(ArtifactError, match=path.name):
        finish(tmp_path / "labels", work.files, parts, folder=tmp_path)
    assert not (tmp_path / "labels").exists()


@pytest.mark.parametrize("damage", [False, True])
def test_parts_are_copied_where_the_disk_has_no_links(work, tmp_path, damage, monkeypatch):
    def refuse(source, target):
        raise OSError(errno.EPERM, "no links")

    monkeypatch.setattr(store_files.ops, "link", refuse)
    parts = work.parts()
    if damage:
        path = tmp_path / parts[0].files[1].file
        change(path, path.stat().st_size - 1)
        with pytest.raises(ArtifactError, match=f"{path.name} is damaged"):
            finish(tmp_path / "labels", work.files, parts, folder=tmp_path)
        return
    finish(tmp_path / "labels", work.files, parts, folder=tmp_path)
    HubLabels.load(tmp_path / "labels", verify=True)


@pytest.mark.parametrize("name", ["in_records_00001", "in_holder_offsets_00000"])
def test_a_damaged_part_of_the_artifact_is_named(name, tmp_path):
    build_sharded(generate(N, 5, seed=7, num_features=0), tmp_path / "labels", num_ranges=3)
    path = tmp_path / "labels" / f"{name}.npy"
    change(path, path.stat().st_size - 1)
    with pytest.raises(ArtifactError, match=path.name):
        HubLabels.load(tmp_path / "labels")


def test_labels_not_in_parts_have_no_rows_to_read(tmp_path):
    labels = build(generate(50, 3, num_features=0))
    assert not labels.is_sharded
    assert labels.num_parts == 1
    assert labels.gather() is labels
    with pytest.raises(ValueError, match="not in parts"):
        labels.packed_rows(np.arange(3), "in")


def test_what_is_there_is_not_replaced_unasked(tmp_path):
    graph = generate(50, 3, num_features=0)
    build_sharded(graph, tmp_path / "labels", num_ranges=2)
    with pytest.raises(ArtifactError, match="labels exists"):
        build_sharded(graph, tmp_path / "labels")
    assert [one.name for one in tmp_path.iterdir()] == ["labels"]
    assert build_sharded(graph, tmp_path / "labels", num_ranges=5, overwrite=True).num_parts == 5


def test_a_second_builder_is_refused(tmp_path):
    (tmp_path / "labels.partial").mkdir()
    lock = BuildLock(tmp_path / "labels.partial")
    with pytest.raises(ArtifactError, match="is being built by process"):
        build_sharded(generate(50, 3, num_features=0), tmp_path / "labels")
    lock.release()
