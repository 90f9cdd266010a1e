"""Labels of grown graphs: what quick mode promises, against breadth-first search."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from dhilgt import Graph, GraphError, GraphWarning, HubLabels, Tokens, TokenSampler, generate
from dhilgt.cli.app import app
from dhilgt.labels import grow
from dhilgt.labels.grow import quick_labels
from tests import oracle
from tests.labels.cases import build, label, packed, random_graph, rows_of

pytestmark = pytest.mark.filterwarnings("ignore:the input was cleaned")

FAR = oracle.FAR


def all_pairs(labels):
    """[n, n] distances from labels, FAR without a path."""
    actual = labels.distance_matrix(labels.ids.all)
    return np.where(actual < 0, FAR, actual)


def cut(grown, is_old, drop=()):
    """The graph among old nodes, less some edges; ids are kept."""
    sources, targets = grown.to_edge_index()
    keep = is_old[sources] & is_old[targets]
    dropped = {*drop, *((v, u) for u, v in drop)}
    keep &= np.array([(u, v) not in dropped for u, v in zip(sources, targets, strict=True)], bool)
    return Graph.from_edges(
        grown.ids_of(sources[keep]),
        grown.ids_of(targets[keep]),
        nodes=grown.nodes[is_old],
        directed=grown.directed,
    )


def one_run_distances(grown, is_old):
    """The promise, by definition: paths of new nodes, then old nodes, then new nodes.

    A search over three copies of each node, one for each part of such a path.
    """
    n = grown.num_nodes
    rows = [[] for _ in range(3 * n)]
    for u, neighbors in enumerate(rows_of(grown)):
        for v in neighbors:
            if not is_old[u] and not is_old[v]:
                rows[u].append(v)
                rows[2 * n + u].append(2 * n + v)
            elif not is_old[u]:
                rows[u].append(n + v)
            elif is_old[v]:
                rows[n + u].append(n + v)
            else:
                rows[n + u].append(2 * n + v)
    actual = np.full((n, n), FAR)
    for u in range(n):
        for at, distance in oracle.bfs(rows, n + u if is_old[u] else u).items():
            actual[u, at % n] = min(actual[u, at % n], distance)
    return actual


@st.composite
def growing(draw, *, most_nodes=14):
    """A graph and which of its nodes were there before; at least one."""
    grown = random_graph(draw(st.integers(0, 2**32 - 1)), most_nodes=most_nodes)
    is_old = np.array(
        draw(st.lists(st.booleans(), min_size=grown.num_nodes, max_size=grown.num_nodes))
    )
    is_old[draw(st.integers(0, grown.num_nodes - 1))] = True
    return grown, is_old


@given(growing())
@settings(max_examples=80, deadline=None)
def test_distances_are_those_of_paths_with_one_run_of_old_nodes(case):
    grown, is_old = case
    graph = cut(grown, is_old)
    labels = quick_labels(build(graph), graph, grown)
    assert (all_pairs(labels) == one_run_distances(grown, is_old)).all()


@given(growing())
@settings(max_examples=80, deadline=None)
def test_no_distance_is_too_short_and_old_ones_stay(case):
    grown, is_old = case
    graph = cut(grown, is_old)
    before = build(graph)
    actual = all_pairs(quick_labels(before, graph, grown))
    assert (actual >= oracle.all_distances(rows_of(grown))).all()
    assert (actual[np.ix_(is_old, is_old)] == all_pairs(before)).all()


@given(growing())
@settings(max_examples=80, deadline=None)
def test_without_a_shortcut_labels_are_those_of_a_full_build_in_the_same_order(case):
    grown, is_old = case
    graph = cut(grown, is_old)
    true = oracle.all_distances(rows_of(grown))
    quick = quick_labels(build(graph), graph, grown)
    if (true[np.ix_(is_old, is_old)] == oracle.all_distances(rows_of(graph))).all():
        full = build(grown, order=grown.ids_of(quick.order))
        assert packed(quick.native) == packed(full.native)
        assert (quick.num_entries, quick.max_distance) == (full.num_entries, full.max_distance)
        assert (all_pairs(quick) == true).all()


@given(st.integers(0, 2**32 - 1), st.integers(1, 12))
@settings(max_examples=80, deadline=None)
def test_pendant_trees_are_exact(seed, num_new):
    rng = np.random.default_rng(seed)
    graph = random_graph(seed)
    n = graph.num_nodes
    sources, targets = graph.to_edge_index()
    parents = [
        int(rng.integers(n + i)) for i in range(num_new)
    ]  # an old node or an earlier new one
    grown = Graph.from_edges(
        [*sources.tolist(), *range(n, n + num_new)],
        [*targets.tolist(), *parents],
        num_nodes=n + num_new,
        directed=graph.directed,
    )
    labels = quick_labels(build(graph), graph, grown)
    assert (all_pairs(labels) == oracle.all_distances(rows_of(grown))).all()


@given(growing(most_nodes=12), st.data())
@settings(max_examples=80, deadline=None)
def test_growing_twice_never_gives_too_short_a_distance(case, data):
    grown, is_old = case
    first = is_old & np.array(
        data.draw(st.lists(st.booleans(), min_size=len(is_old), max_size=len(is_old)))
    )
    first[np.flatnonzero(is_old)[0]] = True
    start, middle = cut(grown, first), cut(grown, is_old)
    once = quick_labels(build(start), start, middle)
    twice = quick_labels(once, middle, grown)
    assert (all_pairs(twice) >= oracle.all_distances(rows_of(grown))).all()


@given(growing())
@settings(max_examples=80, deadline=None)
def test_small_batches_and_threads_change_nothing(case):
    grown, is_old = case
    graph = cut(grown, is_old)
    labels = build(graph)
    whole = quick_labels(labels, graph, grown, threads=1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(grow, "_BATCH_ENTRIES", 3)
        pieces = quick_labels(labels, graph, grown, threads=2)
    assert packed(whole.native) == packed(pieces.native)


# ---- what is kept ------------------------------------------------------------------------------


def line(*names, **options):
    return Graph.from_edges(names[:-1], names[1:], **options)


def test_old_nodes_keep_labels_and_new_ones_rank_last_by_degree_then_id():
    graph = line("d", "f", "h", "j")
    grown = Graph.from_edges(
        ["d", "f", "h", "a", "a", "z", "e"], ["f", "h", "j", "d", "e", "j", "h"]
    )
    before = build(graph)
    labels = quick_labels(before, graph, grown)
    assert grown.ids_of(labels.order).tolist() == ["f", "h", "d", "j", "a", "e", "z"]
    for node in "dfhj":
        assert label(labels, node) == label(before, node)
    assert label(labels, "z") == {"z": 0, "j": 1, "h": 2, "f": 3}


def test_a_node_that_joins_two_parts_brings_them_no_nearer_to_each_other():
    graph = Graph.from_edges([0, 2], [1, 3])
    grown = Graph.from_edges([0, 2, 1, 4], [1, 3, 4, 3])
    labels = quick_labels(build(graph), graph, grown)
    assert labels.distance(0, 4) == labels.distance(4, 2) == 2
    assert labels.distance(0, 3) == -1  # 3 in truth: the path leaves the old nodes in between


def test_new_nodes_without_an_edge_have_themselves_alone():
    graph = line(0, 1)
    grown = Graph.from_edges([0], [1], nodes=[0, 1, 2])
    labels = quick_labels(build(graph), graph, grown)
    assert label(labels, 2) == {2: 0}
    assert labels.distance(2, 0) == -1


def test_nothing_new_gives_the_labels_themselves():
    graph = line("a", "b", "c")
    labels = build(graph)
    assert quick_labels(labels, graph, line("a", "b", "c")) is labels
    assert labels.exact


def test_grown_labels_say_so_wherever_they_go(tmp_path):
    graph, grown = line(0, 1, 2), line(0, 1, 2, 3)
    before = build(graph)
    labels = quick_labels(before, graph, grown)
    assert not labels.exact
    assert "grown" in repr(labels)
    labels.save(tmp_path / "labels")
    loaded = HubLabels.load(tmp_path / "labels")
    assert not loaded.exact
    assert loaded.grown_from == before.fingerprint
    assert loaded.graph_fingerprint == grown.fingerprint
    assert loaded.fingerprint == labels.fingerprint
    full = build(grown, order=grown.ids_of(labels.order))
    assert packed(full.native) == packed(labels.native)
    assert full.fingerprint != labels.fingerprint  # quick ones are not promised to be these


def test_inspect_tells_grown_labels_from_exact_ones(tmp_path):
    graph, grown = line(0, 1, 2), line(0, 1, 2, 3)
    before = build(graph)
    quick_labels(before, graph, grown).save(tmp_path / "grown")
    before.save(tmp_path / "before")
    facts = json.loads(inspect(tmp_path / "grown", "--json"))
    assert facts["exact"] is False
    assert facts["grown_from"] == before.fingerprint
    assert "distances may be too long" in " ".join(inspect(tmp_path / "grown").split())
    assert json.loads(inspect(tmp_path / "before", "--json"))["exact"] is True


def inspect(*arguments):
    done = CliRunner().invoke(app, ["inspect", *map(str, arguments)])
    assert done.exit_code == 0, done.output
    return done.stdout


def test_mapped_labels_grow_like_those_in_memory(tmp_path):
    graph, grown = line(*range(6)), line(*range(9))
    labels = build(graph)
    labels.save(tmp_path / "labels")
    mapped = quick_labels(HubLabels.load(tmp_path / "labels"), graph, grown)
    assert packed(mapped.native) == packed(quick_labels(labels, graph, grown).native)


def test_hubs_whose_ranks_take_several_bytes_survive_packing():
    grown = generate(20_000, 6, num_features=0, seed=3)
    is_old = np.ones(grown.num_nodes, bool)
    is_old[np.random.default_rng(0).choice(grown.num_nodes, 40, replace=False)] = False
    graph = cut(grown, is_old)
    labels = quick_labels(build(graph), graph, grown)
    rows = rows_of(grown)
    for node in np.flatnonzero(~is_old)[:3].tolist():
        hubs, distances = labels.hubs(node)
        true = oracle.bfs(rows, node)
        assert all(true[h] <= d for h, d in zip(hubs.tolist(), distances.tolist(), strict=True))
        assert hubs.max() > 1 << 14


# ---- tokens ------------------------------------------------------------------------------------


@pytest.mark.parametrize("fill", [None, "neighbors"])
def test_tokens_of_new_nodes_hold_the_distances_of_the_labels(fill):
    grown = generate(400, 6, num_features=0, seed=2)
    is_old = np.ones(grown.num_nodes, bool)
    is_old[np.random.default_rng(1).choice(grown.num_nodes, 30, replace=False)] = False
    graph = cut(grown, is_old)
    labels = quick_labels(build(graph), graph, grown)
    new = np.flatnonzero(~is_old)
    rows = TokenSampler(labels, size=12, fill=fill, progress=False).rows(new)
    assert (rows.ids[:, 0] == new).all()
    for ids, spd in zip(rows.ids, rows.spd, strict=True):
        real = ids >= 0
        actual = labels.distance_matrix(ids[real])
        assert (spd[np.ix_(real, real)] == np.where(actual < 0, 255, actual)).all()
    assert (rows.ids[:, 1] >= 0).any()


def test_tokens_are_stored_from_grown_labels(tmp_path):
    graph, grown = line(*range(6)), line(*range(9))
    labels = quick_labels(build(graph), graph, grown)
    tokens = Tokens.build(labels, size=4, path=tmp_path / "tokens", progress=False)
    assert tokens.labels_fingerprint == labels.fingerprint
    drawn = TokenSampler(labels, size=4, progress=False).rows([8])
    assert (tokens.rows([8]).ids == drawn.ids).all()


def test_a_classifier_sorts_new_nodes_by_quick_labels():
    pytest.importorskip("torch")
    from dhilgt import NodeClassifier

    grown = generate(300, 6, num_features=8, num_classes=3, seed=4)
    is_old = np.ones(grown.num_nodes, bool)
    is_old[[7, 80, 299]] = False
    sources, targets = grown.to_edge_index()
    keep = is_old[sources] & is_old[targets]
    graph = Graph.from_edges(
        sources[keep],
        targets[keep],
        nodes=np.flatnonzero(is_old),
        features=grown.features[is_old],
        labels=grown.labels[is_old],
    )
    model = NodeClassifier(
        size=8,
        hidden_channels=8,
        num_layers=1,
        epochs=1,
        cache=False,
        progress=False,
        device="cpu",
        recipe="paper",
    ).fit(graph)
    probabilities = model.predict_proba([299, 7, 80], graph=grown, quick=True)
    assert probabilities.shape == (3, 3)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1, rtol=1e-4)
    alone = model.predict_proba([80], graph=grown, quick=True)
    np.testing.assert_allclose(alone[0], probabilities[2], rtol=1e-5)


# ---- errors and warnings -----------------------------------------------------------------------


def test_edges_between_old_nodes_are_counted_and_left_out():
    graph = line(0, 1, 2, 3, 4)
    grown = Graph.from_edges([0, 1, 2, 3, 0, 1, 5], [1, 2, 3, 4, 4, 3, 0])
    with pytest.warns(GraphWarning, match="2 new edges join two old nodes"):
        labels = quick_labels(build(graph), graph, grown)
    assert labels.distance(0, 4) == 4
    assert labels.distance(5, 4) == 5


def test_new_edges_alone_give_labels_that_are_not_exact():
    graph = line("a", "b", "c")
    grown = Graph.from_edges(["a", "b", "c"], ["b", "c", "a"])
    with pytest.warns(GraphWarning, match="1 new edges"):
        labels = quick_labels(build(graph), graph, grown)
    assert not labels.exact
    assert labels.distance("a", "c") == 2


def test_nodes_that_are_gone_are_refused():
    graph, grown = line("a", "b", "c"), line("a", "b", "d")
    with pytest.raises(GraphError, match=r"1 of 3 old nodes.*'c'.*HubLabels\.build"):
        quick_labels(build(graph), graph, grown)


def test_edges_that_are_gone_are_refused():
    graph = line("a", "b", "c", "d")
    grown = Graph.from_edges(["a", "c", "d"], ["b", "d", "e"])
    with pytest.raises(GraphError, match=r"1 old edges.*'b' - 'c'.*HubLabels\.build"):
        quick_labels(build(graph), graph, grown)


def test_a_gone_direction_is_a_gone_edge():
    graph = Graph.from_edges([0, 1], [1, 0], directed=True)
    grown = Graph.from_edges([0, 1], [1, 2], directed=True)
    with pytest.raises(GraphError, match="1 old edges"):
        quick_labels(build(graph), graph, grown)


@pytest.mark.parametrize(
    ("graph", "grown", "message"),
    [
        (line(0, 1), line(0, 1, 2, directed=True), "the old graph is undirected"),
        (line(0, 1), line("0", "1", "2"), "ids of the old graph are integers"),
    ],
)
def test_graphs_of_different_kinds_are_refused(graph, grown, message):
    with pytest.raises(GraphError, match=message):
        quick_labels(build(graph), graph, grown)


def test_labels_of_another_graph_are_refused():
    with pytest.raises(GraphError, match="pass the graph they were made from"):
        quick_labels(build(line(0, 1, 2)), line(0, 1), line(0, 1, 2))
