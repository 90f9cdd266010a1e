"""Labels from a cluster have the bytes of one machine, whatever the number of nodes."""

import itertools
import json
import sys

import pytest

from dhilgt import Graph, HubLabels, generate
from dhilgt.cluster import labels as cluster_labels
from dhilgt.errors import ArtifactError, ConfigError, DhilgtError, GraphWarning
from dhilgt.labels.sharding import build_sharded
from tests.cluster.conftest import an_extra_node, kept_busy
from tests.cluster.stages import cut_small
from tests.module_cli import command, ended

GRAPHS = {
    "names": Graph.from_edges(["ann", "bob", "cid"], ["bob", "cid", "dan"]),
    "directed": generate(1300, 4, seed=3, num_features=0, directed=True),
}


@pytest.fixture(autouse=True)
def _cut_small(monkeypatch):
    cut_small(monkeypatch, 512)


def bytes_of(folder):
    return {file.name: file.read_bytes() for file in folder.iterdir()}


@pytest.fixture(scope="module")
def expected(tmp_path_factory):
    """The files of the units run one after the other, in one process."""
    found = {}
    with pytest.MonkeyPatch.context() as patch:
        cut_small(patch, 512)
        for name, graph in GRAPHS.items():
            path = tmp_path_factory.mktemp("one") / "labels"
            build_sharded(graph, path, num_ranges=cluster_labels.num_parts(graph.num_nodes))
            found[name] = bytes_of(path)
    return found


@pytest.mark.parametrize("name", GRAPHS)
def test_the_files_are_those_of_one_process(connection, expected, tmp_path, name):
    labels = HubLabels.build(
        GRAPHS[name], cluster="auto", path=tmp_path / "cluster", progress=False
    )
    assert bytes_of(tmp_path / "cluster") == expected[name]
    assert [path.name for path in tmp_path.iterdir()] == ["cluster"]
    labels.gather().save(tmp_path / "gathered")
    HubLabels.build(GRAPHS[name], progress=False).save(tmp_path / "plain")
    assert bytes_of(tmp_path / "gathered") == bytes_of(tmp_path / "plain")


def test_they_do_not_depend_on_the_nodes(cluster, connection, expected, tmp_path):
    apart = {"DHILGT_SEPARATE_NODE": "1", "TMPDIR": str(tmp_path)}
    with kept_busy(connection), an_extra_node(cluster, env_vars=apart):
        HubLabels.build(
            GRAPHS["directed"], cluster="auto", path=tmp_path / "labels", progress=False
        )
    assert bytes_of(tmp_path / "labels") == expected["directed"]
    assert [path.name for path in tmp_path.iterdir()] == ["labels"]


def test_a_radius_is_passed_to_the_searches(connection, tmp_path):
    graph = GRAPHS["directed"]
    options = {"cluster": "auto", "radius": 2, "progress": False}
    cluster_labels.build_labels(graph, tmp_path / "cluster", **options)
    labels = build_sharded(graph, tmp_path / "one", radius=2)
    assert labels.max_distance == 2
    assert bytes_of(tmp_path / "cluster") == bytes_of(tmp_path / "one")


def test_an_order_and_a_limit_are_kept(connection, tmp_path):
    graph = GRAPHS["directed"]
    order = graph.ids_of(range(graph.num_nodes))[::-1]
    options = {"order": order, "max_memory": "100MB", "progress": False}
    labels = HubLabels.build(graph, cluster="auto", path=tmp_path / "labels", **options)
    assert labels.fingerprint == HubLabels.build(graph, **options).fingerprint
    assert labels.order_name == "given"
    with pytest.raises(ConfigError, match=r"no node of the cluster has 1 core and 9 PB"):
        HubLabels.build(
            graph, cluster="auto", path=tmp_path / "other", max_memory=9 * 10**15, progress=False
        )


def test_labels_that_are_there_are_not_replaced(connection, tmp_path):
    options = {"cluster": "auto", "path": tmp_path / "labels", "progress": False}
    HubLabels.build(GRAPHS["names"], **options)
    with pytest.raises(ArtifactError, match="overwrite=True"):
        HubLabels.build(GRAPHS["names"], **options)
    assert HubLabels.build(GRAPHS["directed"], **options, overwrite=True).num_nodes == 1300


def test_arguments_that_do_not_go_together():
    graph = GRAPHS["names"]
    with pytest.raises(ConfigError, match="cluster goes with path"):
        HubLabels.build(graph, cluster="auto")
    with pytest.raises(ConfigError, match="path goes with cluster"):
        HubLabels.build(graph, path="labels")
    with pytest.raises(ConfigError, match="algorithm = 'pll'"):
        HubLabels.build(graph, cluster="auto", path="labels", algorithm="pll")


def test_without_ray_the_way_out_is_one_line(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(DhilgtError, match=r"pip install 'dhilgt\[cluster\]'"):
        HubLabels.build(GRAPHS["names"], cluster="auto", path=tmp_path / "labels")
    assert not list(tmp_path.iterdir())


def test_the_commands(cluster, tmp_path):
    edges = tmp_path / "edges.txt"
    edges.write_text("ann bob\nbob cid\ncid dan\n")
    output = tmp_path / "web.labels"
    printed = command("label", edges, "-o", output, "--cluster", cluster.address, "--json")
    assert json.loads(printed)["entries"] == 8
    assert command("query", output, "ann", "dan").split() == ["3"]
    facts = json.loads(command("inspect", output, "--json"))
    assert (facts["kind"], facts["parts"], facts["verified"]) == ("sharded-labels", 4, True)


def test_an_address_where_nobody_answers_is_refused_before_the_edges_are_read(tmp_path):
    code, _, message = ended(
        "label", tmp_path / "none", "-o", tmp_path / "x", "--cluster", "0.0.0.0:9"
    )
    assert code == 1
    assert "--cluster 0.0.0.0:9: no Ray cluster answers there" in message


def test_a_build_goes_on_with_the_same_order_and_seed_only():
    graph = GRAPHS["names"]
    builds = [
        {"order": None, "seed": 0, "radius": None},
        {"order": "core", "seed": 0, "radius": None},
        {"order": "random", "seed": 0, "radius": None},
        {"order": "random", "seed": 1, "radius": None},
        {"order": ["ann", "bob", "cid", "dan"], "seed": 0, "radius": None},
        {"order": ["dan", "bob", "cid", "ann"], "seed": 0, "radius": None},
        {"order": None, "seed": 0, "radius": 2},
    ]
    about = [cluster_labels._about(graph, **options) for options in builds]
    assert all(one != other for one, other in itertools.combinations(about, 2))
    assert about[0] == cluster_labels._about(graph, "degree", 5, None)  # drawn by no seed


def test_a_limit_on_the_entries_leaves_a_radius(connection, tmp_path):
    graph = GRAPHS["directed"]
    few = HubLabels.build(graph, radius=2, progress=False).num_entries
    with pytest.warns(GraphWarning, match="a radius of"):
        labels = HubLabels.build(
            graph, cluster="auto", path=tmp_path / "labels", max_entries=few, progress=False
        )
    assert labels.radius in (1, 2, 3)  # the number of entries is predicted from some nodes
    labels.gather().save(tmp_path / "gathered")
    HubLabels.build(graph, radius=labels.radius, progress=False).save(tmp_path / "plain")
    assert bytes_of(tmp_path / "gathered") == bytes_of(tmp_path / "plain")


def test_without_a_limit_auto_means_all_hubs(connection, tmp_path):
    labels = HubLabels.build(
        GRAPHS["names"], cluster="auto", path=tmp_path / "labels", radius="auto", progress=False
    )
    assert labels.radius is None
