"""The datasets as a whole: what is on record, and the real files where they are at hand."""

import os
import re
import subprocess
import sys

import numpy as np
import pytest

import dhilgt
from dhilgt import Graph, datasets, metrics
from dhilgt.datasets.files import Files
from dhilgt.errors import DatasetError
from tests.datasets import cases as dataset_cases

# Nodes, edges, features, classes as the paper prints them (citeseer without isolated nodes).
PAPER = {
    "chameleon": (890, 17_708, 2_325, 5),
    "squirrel": (2_223, 93_996, 2_089, 5),
    "tolokers": (11_758, 1_038_000, 10, 2),
    "penn94": (41_554, 2_724_458, 4_814, 2),
    "genius": (421_961, 1_845_736, 12, 2),
    "twitch-gamer": (168_114, 13_595_114, 7, 2),
    "cora": (2_708, 10_556, 1_433, 7),
    "citeseer": (3_279, 9_104, 3_703, 6),
    "pubmed": (19_717, 88_648, 500, 3),
    "physics": (34_493, 495_924, 8_415, 5),
    "ogbn-arxiv": (169_343, 2_315_598, 128, 40),
    "ogbn-mag": (736_389, 10_792_672, 128, 349),
}

# Components, nodes of the largest, isolated, unlabelled, homophily, counted once by other means.
SHAPE = {
    "chameleon": (1, 890, 0, 0, 0.236),
    "chameleon-directed": (1, 890, 0, 0, 0.236),
    "squirrel": (1, 2_223, 0, 0, 0.207),
    "squirrel-directed": (1, 2_223, 0, 0, 0.207),
    "tolokers": (1, 11_758, 0, 0, 0.595),
    "cora": (78, 2_485, 0, 0, 0.810),
    "citeseer": (438, 2_120, 48, 15, 0.738),
    "pubmed": (1, 19_717, 0, 0, 0.802),
    "physics": (1, 34_493, 0, 0, 0.931),
    "ogbn-arxiv": (1, 169_343, 0, 0, 0.654),
    "actor": (1, 7_600, 0, 0, 0.217),
    "photo": (136, 7_487, 115, 0, 0.827),
    "reed98": (1, 962, 0, 97, 0.522),
    "amherst41": (1, 2_235, 0, 203, 0.531),
    "cornell5": (17, 18_621, 0, 1_838, 0.546),
}

# Self-loops (repeated ones too) and other repeats in the files.
CLEANED = {
    "cora": (0, 302),
    "citeseer": (248, 112),
    "pubmed": (6, 22),
    "physics": (0, 0),
    "photo": (1, 0),
    "chameleon-directed": (50, 0),
    "squirrel-directed": (140, 0),
    "ogbn-arxiv": (0, 0),
}

# Sizes of the first official split.
OFFICIAL = {
    "cora": (140, 500, 1_000),
    "citeseer": (120, 500, 1_000),
    "pubmed": (60, 500, 1_000),
    "tolokers": (5_879, 2_939, 2_940),
    "ogbn-arxiv": (90_941, 29_799, 48_603),
}


def real(name, *needed):
    """Skips the test where the files of a dataset are not at hand."""
    if not os.environ.get("DHILGT_DATA"):
        pytest.skip("DHILGT_DATA names no folder of raw data")
    files = Files(datasets.info(name))
    for file in datasets.info(name).files:
        if file.needed_for in ("graph", *needed) and files.find(file.path) is None:
            pytest.skip(f"DHILGT_DATA has no {file.name} of {name}")


def load(name, split=None, **options):
    with_features = all(
        Files(datasets.info(name)).find(file.path) is not None
        for file in datasets.info(name).files
        if file.needed_for == "features"
    )
    return datasets.load(name, None, split, download=False, features=with_features, **options)


# ---- on record ---------------------------------------------------------------------------------


def test_the_twelve_graphs_of_the_paper_are_there_with_its_numbers():
    actual = [name for name in datasets.names() if datasets.info(name).in_paper]
    assert sorted(actual) == sorted(PAPER)
    for name, numbers in PAPER.items():
        facts = datasets.info(name).facts
        nodes = 3_327 if name == "citeseer" else numbers[0]  # kept unless asked otherwise
        assert (facts.nodes, facts.edges, facts.features, facts.classes) == (nodes, *numbers[1:])


@pytest.mark.parametrize("name", datasets.names())
def test_an_entry_is_complete(name):
    about = datasets.info(name)
    assert about.name == name
    assert about.about
    assert about.source
    assert about.licence
    assert about.citation
    assert all(value for value in (about.facts.nodes, about.facts.edges, about.facts.classes))
    assert set(about.metrics) <= set(metrics.METRICS)
    assert about.loss == "cross_entropy"
    for file in about.files:
        assert file.url is not None or about.archive is not None
        assert file.url is None or re.match(r"https://(github\.com|snap\.stanford\.edu)/", file.url)
        assert all(re.fullmatch("[0-9a-f]{64}", h) for h in (file.sha256, *file.repacked) if h)
        assert file.path.startswith(("raw/", "split/"))
    assert bool(about.files) == bool(about.folders)


def test_metrics_belong_to_the_dataset():
    auc = {name for name in datasets.names() if datasets.info(name).metric == "roc_auc"}
    assert auc == {"tolokers", "minesweeper", "questions"}
    assert datasets.info("genius").metrics == ("accuracy", "roc_auc")
    assert datasets.info("cora").metrics == ("accuracy",)


def test_the_paper_split_is_official_on_ogb_graphs_only():
    official = {n for n in datasets.names() if datasets.info(n).paper_split == "official"}
    assert official == {"ogbn-arxiv", "ogbn-mag", "arxiv-like"}


def test_a_wrong_name_gets_the_nearest():
    with pytest.raises(DatasetError, match="did you mean 'chameleon'"):
        datasets.info("chamaleon")
    assert datasets.info("OGBN_Arxiv").name == "ogbn-arxiv"


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ("amazon-photo", "photo"), ("AmazonPhoto", "photo"), ("Amazon_Computers", "computers"),
        ("ogbn_arxiv", "ogbn-arxiv"), ("arxiv", "ogbn-arxiv"), ("CiteSeer", "citeseer"),
        ("Planetoid/Cora", "cora"), ("coauthor-physics", "physics"), ("CS", "coauthor-cs"),
        ("Coauthor CS", "coauthor-cs"), ("Roman-empire", "roman-empire"),
        ("amazon_ratings", "amazon-ratings"), ("twitch_gamers", "twitch-gamer"),
        ("LINKX/Penn94", "penn94"), ("arxiv-like", "arxiv-like"),
    ],
)  # fmt: skip
def test_names_of_publishers_find_their_dataset(written, name):
    assert datasets.info(written).name == name


def test_no_name_stands_for_another_dataset():
    for name in datasets.names():
        assert datasets.info(name).name == name
    with pytest.raises(DatasetError, match="did you mean 'chameleon'"):
        datasets.info("WikipediaNetwork/chameleon")  # not the filtered graph


def test_looking_at_datasets_needs_nothing_but_numpy():
    code = (
        "import sys, dhilgt; dhilgt.datasets.info('cora'); dhilgt.datasets.names();"
        "bad = {'torch', 'scipy', 'pooch', 'requests'} & set(sys.modules); assert not bad, bad"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize(
    ("package", "name", "make"),
    [
        ("scipy", "physics", dataset_cases.gnn_benchmark),
        ("scipy", "genius", dataset_cases.genius),
        ("pooch", "tolokers", None),
    ],
)
def test_a_package_that_is_missing_is_named_with_its_extra(
    tmp_path, monkeypatch, package, name, make
):
    if make is not None:
        make(tmp_path)
    for module in [m for m in sys.modules if m.split(".")[0] == package]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(DatasetError, match=re.escape("pip install 'dhilgt[data]'")):
        datasets.load(name, tmp_path, verify=False)


# ---- to PyG ------------------------------------------------------------------------------------


@pytest.mark.parametrize("sparse", [False, True])
def test_a_graph_goes_to_pyg_and_back(tmp_path, sparse):
    dataset_cases.planetoid(tmp_path)
    graph = datasets.load("cora", tmp_path, "official", verify=False, download=False)
    data = graph.to_pyg(sparse=sparse)
    data.validate(raise_on_error=True)
    assert data.x.is_sparse == sparse
    assert data.train_mask.sum() == 2
    back = Graph.from_pyg(data)
    assert back.fingerprint == graph.fingerprint
    assert np.array_equal(back.labels, graph.labels)
    dense = back.features.toarray() if sparse else back.features
    assert np.array_equal(dense, graph.features.toarray())
    assert datasets.split_hash(back.masks) == datasets.split_hash(graph.masks)


def test_a_bare_graph_goes_to_pyg():
    data = Graph.from_edges([0], [2], num_nodes=4).to_pyg()
    assert (data.num_nodes, data.x, data.y) == (4, None, None)
    assert data.edge_index.tolist() == [[0, 2], [2, 0]]


# ---- a name to show ----------------------------------------------------------------------------


def test_a_name_is_shown_and_changes_nothing_else():
    graph = dhilgt.generate(50, 4, seed=1)
    named = graph.named("toy")
    assert (graph.name, named.name) == (None, "toy")
    assert repr(named).startswith("Graph(toy, nodes=50, ")
    assert named.fingerprint == graph.fingerprint
    assert named.targets is graph.targets


# ---- real files --------------------------------------------------------------------------------


@pytest.mark.parametrize("name", sorted({*PAPER, *SHAPE}))
def test_statistics_of_real_files(name):
    real(name)
    about, actual = datasets.info(name), datasets.statistics(load(name))
    facts = about.facts
    assert (actual.nodes, actual.edges, actual.classes) == (facts.nodes, facts.edges, facts.classes)
    assert actual.features in (facts.features, None)
    components, largest, isolated, unlabelled, homophily = SHAPE[name]
    assert (actual.components, actual.largest_component) == (components, largest)
    assert (actual.isolated, actual.unlabelled) == (isolated, unlabelled)
    assert actual.homophily == pytest.approx(homophily, abs=0.0006)


def test_citeseer_without_isolated_nodes_has_the_size_of_the_paper():
    real("citeseer")
    actual = datasets.statistics(load("citeseer", drop_isolated=True))
    assert (actual.nodes, actual.edges, actual.features, actual.classes) == PAPER["citeseer"]
    assert (actual.isolated, actual.components) == (0, 390)


@pytest.mark.parametrize("name", CLEANED)
def test_what_is_cleaned_in_real_files(name):
    real(name)
    cleaning = load(name).cleaning
    assert (cleaning.self_loops, cleaning.duplicates) == CLEANED[name]


@pytest.mark.parametrize("name", OFFICIAL)
def test_official_splits_of_real_files(name):
    real(name, "official")
    masks = load(name, "official").masks
    assert tuple(int(mask.sum()) for mask in masks.values()) == OFFICIAL[name]


@pytest.mark.parametrize(
    ("name", "sizes"),
    [("penn94", (19_407, 9_703, 9_705)), ("twitch-gamer", (84_057, 42_028, 42_029))],
)
def test_official_split_files_of_linkx(name, sizes):
    from dhilgt.datasets.readers.linkx_splits import linkx_splits

    if not os.environ.get("DHILGT_DATA"):
        pytest.skip("DHILGT_DATA names no folder of raw data")
    files = Files(datasets.info(name), download=False)
    if files.find(datasets.info(name).files[-1].path) is None:
        pytest.skip(f"DHILGT_DATA has no splits of {name}")
    splits = linkx_splits(files)
    assert len(splits) == datasets.info(name).official_splits
    assert tuple(len(nodes) for nodes in splits[0].values()) == sizes
    for split in splits:
        together = np.concatenate(list(split.values()))
        assert len(np.unique(together)) == len(together) == sum(sizes)
        assert together.max() < datasets.info(name).facts.nodes


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("chameleon", "4da59596b1a8aacb"),
        ("cora", "2c0a3313f0909bf0"),
        ("citeseer", "bd6e69215d6fbb2e"),
        ("cornell5", "a43843d9f60c55aa"),
        ("ogbn-arxiv", "2fd6bc744f5d8f79"),
    ],
)
def test_paper_splits_of_real_files_are_pinned(name, expected):
    real(name, "official")
    graph = load(name, "paper")
    assert datasets.split_hash(graph.masks) == expected
    assert graph.name == name


def test_masks_of_yandex_are_read_by_number():
    real("tolokers")
    first, again = (load("tolokers", "official", seed=seed).masks for seed in (0, 10))
    other = load("tolokers", "official", seed=1).masks
    assert datasets.split_hash(first) == datasets.split_hash(again) != datasets.split_hash(other)


def test_cora_is_what_pyg_reads():
    """The rows of the features, the classes and the public split, through another reader."""
    from torch_geometric.io import read_planetoid_data

    real("cora")
    folder = Files(datasets.info("cora")).home / "raw"
    try:
        theirs = read_planetoid_data(str(folder), "cora")
    except Exception as error:  # its unpickling depends on the versions of NumPy and SciPy
        pytest.skip(f"PyG cannot read the files here ({error})")
    ours = datasets.load("cora", split="official", download=False).to_pyg()
    assert np.array_equal(ours.x, theirs.x)
    assert np.array_equal(ours.y, theirs.y)
    assert np.array_equal(ours.edge_index, theirs.edge_index.flip(0))  # theirs is by target
    for part in ("train_mask", "val_mask", "test_mask"):
        assert np.array_equal(ours[part], theirs[part])
