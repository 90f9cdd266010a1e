"""Every raw format on small files: as published, cut short, replaced by a web page."""

import numpy as np
import pytest

from dhilgt import Graph, datasets
from dhilgt.errors import DatasetError
from tests.datasets import cases as dataset_cases


def load(name, root, split=None, **options):
    return datasets.load(name, root, split, download=False, verify=False, **options)


def edges(graph):
    return sorted(map(tuple, graph.to_edge_index().T.tolist()))


def dense(graph):
    x = graph.features
    return x.toarray() if hasattr(x, "toarray") else x


# ---- what is read ------------------------------------------------------------------------------


def test_planetoid_puts_test_rows_where_the_index_says(tmp_path):
    dataset_cases.planetoid(tmp_path)
    graph = load("cora", tmp_path)
    words = np.eye(8, dtype=np.float32)
    words[5] = 0
    assert np.array_equal(dense(graph), words)
    assert graph.labels.tolist() == [0, 1, 2, 0, 1, -1, 0, 1]


def test_planetoid_keeps_nodes_in_the_gap_of_the_test_index(tmp_path):
    dataset_cases.planetoid(tmp_path)
    graph = load("cora", tmp_path, "random")
    assert graph.num_nodes == 8
    assert edges(graph) == [(0, 1), (0, 2), (1, 0), (2, 0), (2, 3), (3, 2), (4, 7), (6, 7), (7, 4),
                            (7, 6)]  # fmt: skip
    assert (graph.cleaning.self_loops, graph.cleaning.duplicates) == (1, 1)
    assert not any(mask[5] for mask in graph.masks.values())


def test_planetoid_has_its_public_split(tmp_path):
    dataset_cases.planetoid(tmp_path)
    masks = load("cora", tmp_path, "official").masks
    actual = {part: np.flatnonzero(mask).tolist() for part, mask in masks.items()}
    assert actual == {"train": [0, 1], "val": [2, 3], "test": [4, 6, 7]}


def test_isolated_nodes_go_on_request_and_the_others_keep_their_numbers(tmp_path):
    dataset_cases.planetoid(tmp_path)
    graph = load("cora", tmp_path, "official", drop_isolated=True)
    assert graph.nodes.tolist() == [0, 1, 2, 3, 4, 6, 7]
    assert graph.neighbors(7).tolist() == [4, 6]
    assert graph.labels.tolist() == [0, 1, 2, 0, 1, 0, 1]
    assert np.argmax(dense(graph), axis=1).tolist() == [0, 1, 2, 3, 4, 6, 7]
    assert np.flatnonzero(graph.masks["test"]).tolist() == [4, 5, 6]


@pytest.mark.parametrize(
    ("test_index", "message"),
    [((7, 4, 4), "2 different nodes"), ((7, 4, 1), "node 1, which is among the first 4")],
)
def test_planetoid_files_that_do_not_belong_together_are_refused(tmp_path, test_index, message):
    dataset_cases.planetoid(tmp_path, test_index=test_index)
    with pytest.raises(DatasetError, match=message):
        load("cora", tmp_path)


def test_planetoid_refuses_an_edge_to_a_node_without_row(tmp_path):
    dataset_cases.planetoid(tmp_path, test_index=(4, 6, 5))
    with pytest.raises(DatasetError, match="names node 7, but there are rows for 7 nodes"):
        load("cora", tmp_path)


def test_yandex(tmp_path):
    dataset_cases.yandex(tmp_path)
    graph = load("tolokers", tmp_path, "official", seed=4)  # 4 modulo 3 splits is 1
    assert edges(graph) == [(0, 1), (1, 0), (1, 2), (2, 1), (2, 3), (3, 2), (3, 4), (4, 3)]
    assert dense(graph)[4].tolist() == [8, 9]
    assert graph.labels.tolist() == [0, 1, 0, 1, 1]
    assert np.flatnonzero(graph.masks["test"]).tolist() == [1]
    assert np.flatnonzero(graph.masks["val"]).tolist() == [2]


def test_directed_variants_keep_the_direction(tmp_path):
    dataset_cases.yandex(tmp_path, "chameleon", "chameleon_filtered_directed.npz")
    graph = load("chameleon-directed", tmp_path)
    assert graph.directed
    assert edges(graph) == [(0, 1), (1, 2), (2, 3), (3, 4)]
    assert datasets.statistics(graph).edges == 8  # counted as papers do


def test_gnn_benchmark(tmp_path):
    dataset_cases.gnn_benchmark(tmp_path)
    graph = load("physics", tmp_path)
    assert edges(graph) == [(0, 1), (1, 0), (2, 3), (3, 2)]
    assert dense(graph).tolist() == [[0, 2, 0], [1, 0, 0], [0, 0, 0], [3, 0, 5]]
    assert graph.labels.tolist() == [0, 1, 1, 2]


def test_facebook100_has_a_column_per_value_and_unlabelled_people(tmp_path):
    dataset_cases.facebook100(tmp_path)
    graph = load("penn94", tmp_path, "random")
    assert graph.labels.tolist() == [0, 1, -1, 1, 0]
    # Values: status 1 2, major 10 11 12, second major 0 3, dorm 5 6, year 0 2005 2006, school 7 8 9
    assert graph.features.shape == (5, 15)
    assert np.flatnonzero(dense(graph)[3]).tolist() == [0, 4, 6, 7, 10, 14]
    assert (dense(graph).sum(axis=1) == 6).all()
    assert sum(int(mask.sum()) for mask in graph.masks.values()) == 4


def test_official_splits_of_linkx(tmp_path):
    dataset_cases.facebook100(tmp_path)
    path = tmp_path / "penn94/raw/fb100-Penn94-splits.npy"
    dataset_cases.linkx_splits(path, [([0], [1], [3, 4]), ([3, 4], [0], [1])])
    masks = load("penn94", tmp_path, "official", seed=3).masks
    actual = {part: np.flatnonzero(mask).tolist() for part, mask in masks.items()}
    assert actual == {"train": [3, 4], "val": [0], "test": [1]}


def test_genius(tmp_path):
    dataset_cases.genius(tmp_path)
    graph = load("genius", tmp_path)
    assert edges(graph) == [(0, 1), (0, 2), (1, 0), (1, 2), (2, 0), (2, 1)]
    assert dense(graph)[3].tolist() == [6, 7]
    assert graph.labels.tolist() == [0, 1, 1, 0]


def test_twitch_orders_streamers_by_number_and_standardises(tmp_path):
    dataset_cases.twitch(tmp_path)
    graph = load("twitch-gamer", tmp_path)
    assert graph.labels.tolist() == [0, 1, 1]
    assert edges(graph) == [(0, 1), (1, 0), (1, 2), (2, 1)]
    views, created, updated, language = dense(graph)[:, [0, 2, 3, 5]].T
    assert views == pytest.approx([1.5**0.5, -(1.5**0.5), 0], abs=1e-6)
    dates = np.array([20160104, 20160102, 20170506])
    assert created == pytest.approx((dates - dates.mean()) / dates.std(), abs=1e-6)
    assert updated.tolist() == [0, 0, 0]  # a constant stays finite
    assert language[1] == language[2] != language[0]


@pytest.mark.parametrize("folder", ["ogbn_arxiv", "ogbn-arxiv", "extra/ogbn_arxiv"])
def test_ogb_tables(tmp_path, folder):
    dataset_cases.arxiv(tmp_path, folder)
    graph = load("ogbn-arxiv", tmp_path, "paper")
    assert edges(graph) == [(0, 1), (1, 0), (1, 2), (2, 1), (2, 3), (3, 2)]
    assert graph.labels.tolist() == [0, -1, 1, 0]
    assert dense(graph)[3].tolist() == pytest.approx([-3.5, 0.4])
    assert [np.flatnonzero(m).tolist() for m in graph.masks.values()] == [[0], [2], [3]]


def test_ogb_without_features(tmp_path):
    home = dataset_cases.arxiv(tmp_path)
    (home / "raw/node-feat.csv.gz").unlink()
    assert load("ogbn-arxiv", tmp_path, features=False).features is None
    with pytest.raises(DatasetError, match=r"needs the file node-feat\.csv\.gz"):
        load("ogbn-arxiv", tmp_path)


def test_papers_and_citations_of_mag(tmp_path):
    dataset_cases.mag(tmp_path)
    graph = load("ogbn-mag", tmp_path, "paper")
    assert edges(graph) == [(0, 1), (1, 0), (1, 2), (2, 1)]
    assert graph.labels.tolist() == [5, 7, 5]
    assert dense(graph).tolist() == [[1, 2], [3, 4], [5, 6]]


def test_ogb_arrays(tmp_path):
    raw = tmp_path / "ogbn_mag/raw"
    raw.mkdir(parents=True)
    np.savez(raw / "data.npz", edge_index=[[0, 1], [1, 2]], node_feat=np.eye(3))
    np.savez(raw / "node-label.npz", node_label=np.array([[1.0], [np.nan], [0.0]]))
    graph = load("ogbn-mag", tmp_path)
    assert edges(graph) == [(0, 1), (1, 0), (1, 2), (2, 1)]
    assert graph.labels.tolist() == [1, -1, 0]


def test_arxiv_like_has_the_real_graph_and_generated_features(tmp_path):
    home = dataset_cases.arxiv(tmp_path)
    (home / "raw/node-feat.csv.gz").unlink()
    graph = load("arxiv-like", tmp_path, "paper")
    assert graph.features.shape == (4, 128)
    assert edges(graph) == [(0, 1), (1, 0), (1, 2), (2, 1), (2, 3), (3, 2)]
    assert "generated stand-in" in repr(graph)


# ---- what is refused ---------------------------------------------------------------------------

CASES = {
    "cora": (dataset_cases.planetoid, "cora/raw/ind.cora.allx"),
    "tolokers": (dataset_cases.yandex, "tolokers/raw/tolokers.npz"),
    "physics": (dataset_cases.gnn_benchmark, "physics/raw/ms_academic_phy.npz"),
    "penn94": (dataset_cases.facebook100, "penn94/raw/Penn94.mat"),
    "genius": (dataset_cases.genius, "genius/raw/genius.mat"),
    "twitch-gamer": (dataset_cases.twitch, "twitch-gamer/raw/large_twitch_features.csv"),
    "ogbn-arxiv": (dataset_cases.arxiv, "ogbn_arxiv/raw/node-feat.csv.gz"),
    "ogbn-mag": (
        dataset_cases.mag,
        "ogbn_mag/raw/relations/paper___cites___paper/edge.csv.gz",
    ),
}


@pytest.fixture(params=CASES)
def case(request, tmp_path):
    make, path = CASES[request.param]
    make(tmp_path)
    assert isinstance(load(request.param, tmp_path), Graph)  # it is whole to begin with
    return request.param, tmp_path, tmp_path / path


def test_a_file_cut_short_is_refused_by_name(case):
    name, root, path = case
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) * 2 // 3])
    with pytest.raises(DatasetError, match="fetch") as caught:
        load(name, root)
    assert path.name in str(caught.value)


@pytest.mark.parametrize("page", [b"<!DOCTYPE html><title>404</title>", b"\n <html>sign in</html>"])
def test_a_web_page_is_refused_by_name(case, page):
    name, root, path = case
    path.write_bytes(page)
    with pytest.raises(DatasetError, match="web page") as caught:
        load(name, root)
    assert path.name in str(caught.value)


def test_an_empty_file_is_refused_by_name(case):
    name, root, path = case
    path.write_bytes(b"")
    with pytest.raises(DatasetError, match="is empty") as caught:
        load(name, root)
    assert path.name in str(caught.value)


def test_a_file_of_another_kind_is_refused_by_name(case):
    name, root, path = case
    path.write_bytes(b"\x7fELF" + bytes(range(256)) * 20)
    with pytest.raises(DatasetError, match="cannot be read as") as caught:
        load(name, root)
    assert path.name in str(caught.value)


def test_a_missing_file_says_which_from_where_and_where_to_put_it(case):
    name, root, path = case
    path.unlink()
    with pytest.raises(DatasetError) as caught:
        load(name, root)
    message = str(caught.value)
    assert f"needs the file {path.name}" in message
    assert "https://" in message
    assert str(path) in message


def test_content_is_compared_with_the_record(tmp_path):
    path = dataset_cases.yandex(tmp_path)
    with pytest.raises(DatasetError, match="not the file that was published") as caught:
        datasets.load("tolokers", tmp_path, download=False)
    assert str(path) in str(caught.value)
    assert "1,329,769" in str(caught.value)


def test_an_edge_outside_the_graph_is_refused(tmp_path):
    home = dataset_cases.arxiv(tmp_path)
    dataset_cases.compressed(home / "raw/edge.csv.gz", "0,1\n1,9\n")
    with pytest.raises(DatasetError, match="make no graph"):
        load("ogbn-arxiv", tmp_path)


@pytest.mark.parametrize("rows", ["0\n0\n", "0\n1\n9\n"])
def test_streamers_must_be_numbered_without_gap_or_repeat(tmp_path, rows):
    folder = dataset_cases.twitch(tmp_path)
    head = (folder / "large_twitch_features.csv").read_text().splitlines()[0]
    lines = [f"1,0,1,2016-01-01,2018-01-01,{row},0,EN,0" for row in rows.split()]
    (folder / "large_twitch_features.csv").write_text("\n".join([head, *lines]))
    with pytest.raises(DatasetError, match=r"twice|numbered 0 to"):
        load("twitch-gamer", tmp_path)
