"""Searches from ranges of hubs: the entries of the definition, whatever helps to find them."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dhilgt import Graph, _native, generate
from dhilgt.errors import ArtifactError, ConfigError, MemoryLimitError
from dhilgt.labels.sharding import (
    RankedGraphFiles,
    RestFound,
    forget_rest,
    merge_range,
    merge_with_rest,
    plan_shards,
    read_found,
    search_hubs,
    search_level,
    search_rest,
    settle_levels,
    write_found,
    write_ranked_graph,
    write_top_table,
)
from dhilgt.labels.sharding.slices import opened_shards, slices_of
from dhilgt.labels.sharding.table import mapped_table
from tests.labels.cases import grid, path, random_graph, rows_of
from tests.oracle import canonical_labels

pytestmark = pytest.mark.filterwarnings("ignore:the input was cleaned")

UNLIMITED = 2**64 - 1


def entries_of(folder, shard):
    """{(node, hub, distance)} by rank, from the rows by hub and from the slices by node."""
    (opened,) = opened_shards(folder, [shard], shard.side, shard.first, shard.last)
    n = opened.label_bounds[-1]
    by_hub = set()
    offsets, records = (opened.sections.array(f"holder_{name}") for name in ("offsets", "records"))
    empty = (np.zeros(shard.first + 1, np.uint64), np.empty(0, np.uint8))
    rest = (np.zeros(n - shard.last + 1, np.uint64), np.empty(0, np.uint8))
    bounds = [0, shard.first, shard.last, n]
    native = _native.labels_from_parts(False, bounds, (*empty, offsets, records, *rest))
    for hub in range(shard.first, shard.last):
        nodes, distances = (values.tolist() for values in native.label(hub, 0))
        by_hub |= {(v, hub, d) for v, d in zip(nodes, distances, strict=True) if d > 0}
    by_node = set()
    for part, (begin, end) in enumerate(itertools.pairwise(opened.label_bounds)):
        rows, _ = _native.merge_slices(slices_of([opened], part), begin, end, n, UNLIMITED, None)
        parts = [0, begin, end, n]
        before = (np.zeros(begin + 1, np.uint64), np.empty(0, np.uint8))
        after = (np.zeros(n - end + 1, np.uint64), np.empty(0, np.uint8))
        merged = _native.labels_from_parts(False, parts, (*before, *rows[:2], *after))
        for node in range(begin, end):
            hubs, distances = (values.tolist() for values in merged.label(node, 0))
            by_node |= {(node, h, d) for h, d in zip(hubs, distances, strict=True) if d > 0}
    assert by_hub == by_node
    assert len(by_hub) == shard.num_entries
    assert max((d for *_, d in by_hub), default=0) == shard.max_distance
    return by_hub


def expected_entries(graph, files, side, radius=None):
    """{(node, hub, distance)} by rank, by the definition."""
    order = files.order.astype(np.int64)
    rank = np.argsort(order)
    reached, reaching = canonical_labels(rows_of(graph), order)
    labels = reaching if side == "in" else reached
    return {
        (rank[v], rank[h], distance)
        for v, label in enumerate(labels)
        for h, distance in label.items()
        if h != v and (radius is None or distance <= radius)
    }


def holders_of(folder, shard):
    """The inverted labels in a file, as bytes."""
    (opened,) = opened_shards(folder, [shard], shard.side, shard.first, shard.last)
    return [opened.sections.array(name).tobytes() for name in ("holder_offsets", "holder_records")]


def settled(files, top, found, options):
    """The settled entries of all ranges of nodes."""
    common = {key: options[key] for key in ("label_bounds", "folder")}
    count = len(common["label_bounds"]) - 1
    return [settle_levels(files, top, found, part, **common) for part in range(count)]


def found_by_units(files, top, levels, options):
    """What units find in levels of some parts each, settled or not."""
    found = RestFound()
    for parts, is_settled in levels:
        found = found.with_level(
            [search_level(files, top, found, part, parts, **options) for part in range(parts)]
        )
        if is_settled:
            found = found.with_settled(settled(files, top, found, options))
    return found


@given(seed=st.integers(0, 2**32 - 1), data=st.data())
@settings(max_examples=60, deadline=None)
def test_any_table_width_radius_and_number_of_threads(seed, data, tmp_path_factory):
    folder = tmp_path_factory.mktemp("search")
    graph = random_graph(seed, most_nodes=24)
    n = graph.num_nodes
    order = np.random.default_rng(seed).permutation(n)
    files = write_ranked_graph(graph, order, folder / "graph")
    parts = plan_shards(files, num_ranges=data.draw(st.integers(1, 5))).label_bounds
    radius = data.draw(st.sampled_from([None, 1, 2, 3]))
    num_top = data.draw(st.integers(0, n))
    threads = data.draw(st.integers(1, 2))
    options = {"label_bounds": parts, "folder": folder, "radius": radius, "threads": threads}
    best = [search_hubs(files, 0, num_top, side=side, **options) for side in files.sides if num_top]
    top = write_top_table(files, best, folder)
    assert top.num_hubs == num_top
    rest = search_rest(files, top, **options) if num_top < n else []
    shared = []
    if num_top < n:
        levels = data.draw(st.lists(st.tuples(st.integers(1, 3), st.booleans()), max_size=3))
        state = found_by_units(files, top, levels, options)
        shared = search_rest(files, top, state, **options)
    assert [one.name for one in shared] == [one.name for one in rest]
    assert [one.side for one in rest] == list(files.sides)[: len(rest)]
    for side in files.sides:
        found = {e for one in best if one.side == side for e in entries_of(folder, one)}
        if num_top < n:
            shard = search_hubs(files, num_top, n, side=side, top=top, **options)
            found |= entries_of(folder, shard)
            again = search_hubs(files, num_top, n, side=side, **options)  # at once, without a table
            assert again.name == shard.name  # names hold the hash of the content
            # level by level
            (one,) = (one for one in rest if one.side == side)
            assert holders_of(folder, one) == holders_of(folder, shard)
            shards = [*(one for one in best if one.side == side), shard]
            for part in range(len(parts) - 1):
                merged = merge_with_rest(files, top, state, part, side=side, **options)
                expected = merge_range(folder, shards, part, side=side)
                assert merged.files == expected.files
                assert merged.num_entries == expected.num_entries
                assert merged.max_distance == expected.max_distance
        assert found == expected_entries(graph, files, side, radius)


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("directed", [False, True])
def test_tables_of_both_widths_give_the_same_shard(directed, wide, tmp_path, monkeypatch):
    graph = generate(900, 6, seed=1, num_features=0, directed=directed)
    files = write_ranked_graph(graph, None, tmp_path / "graph")
    options = {"label_bounds": [0, 400, 900], "folder": tmp_path}
    best = [search_hubs(files, 0, 200, side=side, **options) for side in files.sides]
    if wide:
        monkeypatch.setattr(_native, "MOST_SHORT_HUBS", 100)
    top = write_top_table(files, best, tmp_path)
    for side in files.sides:
        plain = search_hubs(files, 200, 900, side=side, **options)
        pruned = search_hubs(files, 200, 900, side=side, top=top, **options)
        assert pruned.name == plain.name
        assert pruned.tests > 0 == plain.tests
        (rest,) = (one for one in search_rest(files, top, **options) if one.side == side)
        assert holders_of(tmp_path, rest) == holders_of(tmp_path, plain)


@pytest.mark.parametrize("simd", ["portable", "avx2", "avx512"])
def test_planes_of_every_width_and_instruction_set_give_the_same_shard(simd, tmp_path):
    names = ["portable", "avx2", "avx512"]
    if names.index(simd) > names.index(_native.simd_supported()):
        pytest.skip(f"the processor has no {simd}")
    graph = generate(1200, 6, seed=1, num_features=0)
    files = write_ranked_graph(graph, None, tmp_path / "graph")
    options = {"side": "in", "label_bounds": [0, 400, 1200], "folder": tmp_path}
    before = _native.simd_level()
    _native.set_simd_level(simd)
    try:
        shards = [
            search_hubs(files, 100, 900, max_memory=max_memory, **options)
            for max_memory in (None, 1_700_000, 900_000, 400_000)
        ]
    finally:
        _native.set_simd_level(before)
    assert len({one.name for one in shards}) == 1
    arcs = [one.arcs for one in shards]
    assert arcs[0] < arcs[1] < arcs[2] < arcs[3]  # the last hub by hub: more arcs are read,
    peaks = [one.peak_bytes for one in shards]
    assert peaks[0] > peaks[1] > peaks[2] > peaks[3]  # with less memory
    assert peaks[3] <= 400_000


@pytest.mark.parametrize("graph", [path(400, seed=1)[0], grid(20, seed=2)[0]])
@pytest.mark.parametrize("num_top", [0, 1, 50])
def test_long_paths_are_searched_hub_by_hub(graph, num_top, tmp_path):
    files = write_ranked_graph(graph, None, tmp_path / "graph")
    options = {"side": "in", "label_bounds": [0, 400], "folder": tmp_path}
    best = [search_hubs(files, 0, num_top, **options)] if num_top else []
    top = write_top_table(files, best, tmp_path)
    shard = search_hubs(files, num_top, 400, top=top, **options)
    assert shard.name == search_hubs(files, num_top, 400, **options).name
    del options["side"]
    (rest,) = search_rest(files, top, **options)
    assert holders_of(tmp_path, rest) == holders_of(tmp_path, shard)
    found = {e for one in (*best, shard) for e in entries_of(tmp_path, one)}
    assert found == expected_entries(graph, files, "in")


def test_the_rest_of_the_hubs_within_a_memory_limit(tmp_path):
    graph = generate(1200, 6, seed=1, num_features=0)
    files = write_ranked_graph(graph, None, tmp_path / "graph")
    options = {"label_bounds": [0, 400, 1200], "folder": tmp_path}
    top = write_top_table(files, [search_hubs(files, 0, 100, side="in", **options)], tmp_path)
    (rest,) = search_rest(files, top, **options)
    (again,) = search_rest(files, top, max_memory=rest.peak_bytes, threads=1, **options)
    assert again.name == rest.name
    assert again.peak_bytes <= rest.peak_bytes
    (many,) = search_rest(files, top, max_memory=2 * rest.peak_bytes, threads=4096, **options)
    assert many.name == rest.name  # with as many threads as have room for their tables
    with pytest.raises(MemoryLimitError, match="hubs 100 to 1199 outgrew the memory limit"):
        search_rest(files, top, max_memory=rest.peak_bytes // 2, **options)


@pytest.fixture
def rest_of_a_graph(tmp_path):
    """A graph of 5,000 nodes, five pieces of which belong to the parts of a level in turn."""
    graph = generate(5000, 4, seed=1, num_features=0, directed=True)
    files = write_ranked_graph(graph, None, tmp_path / "graph")
    options = {"label_bounds": [0, 2000, 5000], "folder": tmp_path}
    best = [search_hubs(files, 0, 100, side=side, **options) for side in files.sides]
    return files, write_top_table(files, best, tmp_path), options


@pytest.mark.parametrize("most_own", [0, 10_000, 10**9])
def test_units_share_the_levels_of_the_rest(rest_of_a_graph, monkeypatch, most_own):
    monkeypatch.setattr(
        "dhilgt.labels.sharding.plan._MOST_OWN", most_own
    )  # settled in a process's own memory
    files, top, options = rest_of_a_graph
    whole = search_rest(files, top, **options)
    found = RestFound()
    for parts, is_settled in ((1, False), (3, True), (2, False), (7, True)):
        level = [search_level(files, top, found, part, parts, **options) for part in range(parts)]
        assert {one.distance for one in level} == {found.distance + 1}
        assert sum(one.num_entries > 0 for one in level) == min(parts, 5)
        # The number of parts divides the work and nothing else, in a process that begins here.
        forget_rest()
        alone = search_level(files, top, found, 0, 1, **{**options, "threads": 2})
        assert alone.num_entries == sum(one.num_entries for one in level)
        assert alone.num_candidates == sum(one.num_candidates for one in level) > 0
        found = found.with_level(level)
        if is_settled:
            found = found.with_settled(settled(files, top, found, options))
    names = [one.name for one in whole]
    assert [one.name for one in search_rest(files, top, found, **options)] == names
    forget_rest()
    assert [one.name for one in search_rest(files, top, found, **options)] == names
    ranges = ((100, 101), (101, 2500), (2500, 5000))
    cut = [one for hubs in ranges for one in search_rest(files, top, found, *hubs, **options)]
    for side, one in zip(files.sides, whole, strict=True):
        pieces = [other for other in cut if other.side == side]
        assert sum(other.num_entries for other in pieces) == one.num_entries
        assert max(other.max_distance for other in pieces) == one.max_distance
        for other in pieces:
            hubs = (other.first, other.last)
            expected = search_hubs(files, *hubs, side=side, top=top, **options)
            assert holders_of(options["folder"], other) == holders_of(options["folder"], expected)


def test_a_process_goes_on_from_the_level_that_it_knows(rest_of_a_graph, monkeypatch):
    files, top, options = rest_of_a_graph
    started = []
    real = _native.rest_of_hubs
    monkeypatch.setattr(_native, "rest_of_hubs", lambda *args: started.append(1) or real(*args))
    forget_rest()
    none = RestFound()
    one = none.with_level([search_level(files, top, none, 0, 1, **options)])
    two = one.with_level([search_level(files, top, one, part, 2, **options) for part in range(2)])
    search_level(files, top, two, 0, 1, **options)
    settled_two = two.with_settled(settled(files, top, two, options))
    third = [search_level(files, top, settled_two, 0, 1, **options)]
    before = len(started)
    # A build that was stopped begins anew in the same process.
    assert search_level(files, top, none, 0, 1, **options).name == one.levels[0].name
    assert len(started) == before + 1
    started.pop()
    search_rest(files, top, settled_two.with_level(third), **options)
    search_rest(files, top, settled_two.with_level(third), 100, 200, **options)
    assert len(started) == 1
    again = search_level(files, top, one, 1, 2, **options)  # another process had died
    assert again.name == two.levels[2].name
    assert len(started) == 2
    search_rest(files, top, one, **{**options, "radius": 1})  # another search
    assert len(started) == 3
    for state, file in ((two, two.levels[1]), (settled_two, settled_two.settled[0])):
        (options["folder"] / file.name).write_bytes(b"other")
        with pytest.raises(ArtifactError, match="is damaged"):
            search_rest(files, top, state, **options)
    forget_rest()


def test_what_is_found_is_read_as_it_was_written(tmp_path):
    found = RestFound(entries=(3, 4), candidates=(5, 6))
    name = write_found(found, tmp_path)
    assert write_found(found, tmp_path) == name
    assert read_found(tmp_path, name) == found
    read_found.cache_clear()
    (tmp_path / name).write_bytes(b"{}")
    with pytest.raises(ArtifactError, match=f"{name} is damaged; remove it"):
        read_found(tmp_path, name)


def test_damaged_levels_never_reach_the_search(rest_of_a_graph):
    files, top, options = rest_of_a_graph
    table = mapped_table(files, top, options["folder"], "in")

    def rest():
        bounds = options["label_bounds"]
        arrays = (*files.forward, *files.backward)
        return _native.rest_of_hubs(*arrays, True, 100, 9, table, bounds, 1, 0, 10**9)

    def finished():
        found = rest()
        found.finish()
        return found

    def words(*values):
        return np.array(values, np.uint32)

    good = (words(300, 400), words(1, 2), words(150, 100, 399))
    rest().add([[good], [good]])
    bad = [
        (words(300), words(1, 2), words(150, 100, 399)),  # other numbers of nodes and counts
        (words(300, 400), words(1, 0), words(150)),  # a node without hubs
        (words(300, 400), words(1, 3), words(150, 100, 399)),  # more hubs than there are
        (words(300, 400), words(1, 1), words(150, 100, 399)),  # fewer
        (words(400, 300), words(1, 2), words(150, 100, 299)),  # nodes that descend
        (words(300, 5000), words(1, 2), words(150, 100, 399)),  # a node that does not exist
        (words(99), words(1), words(98)),  # one of the best
        (words(300), words(2), words(150, 150)),  # a hub twice
        (words(300), words(1), words(300)),  # a hub that does not outrank its node
        (words(300), words(1), words(99)),  # a hub of the table
    ]
    for arrays in bad:
        with pytest.raises(ValueError):
            rest().add([[arrays], []])
    for wrong in (
        lambda: rest().add([[good]]),
        lambda: rest().find(2, 2),
        lambda: rest().holders(100, 200),
        lambda: rest().labels(0, 0, 100),
        lambda: finished().holders(200, 100),
        lambda: finished().holders(200, 5001),
        lambda: finished().labels(2, 0, 100),
        lambda: finished().labels(0, 100, 99),
        lambda: finished().labels(0, 100, 5001),
    ):
        with pytest.raises(ValueError):
            wrong()


def test_damaged_settled_entries_never_reach_the_search(rest_of_a_graph):
    files, top, options = rest_of_a_graph
    table = mapped_table(files, top, options["folder"], "in")
    bounds = options["label_bounds"]
    level = [[], []]

    def settle(first_part, second_part, sides=2):
        arrays = (*files.forward, *files.backward)
        rest = _native.rest_of_hubs(*arrays, True, 100, 9, table, bounds, 1, 0, 10**9)
        rest.settle(1, [[first_part, second_part]] * sides, level)

    def part(num_nodes, hub=150, distance=1):
        starts = np.full(num_nodes + 1, 1, np.uint64)
        starts[0] = 0
        return starts, np.array([distance] + [hub] * 7, np.uint32)

    settle(part(1900), part(3000))
    for wrong in (
        lambda: settle(part(2000), part(3000)),  # nodes of the table are not in it
        lambda: settle(part(1900, hub=5000), part(3000)),  # a hub that does not exist
        lambda: settle(part(1900, distance=0), part(3000)),  # rows are numbered by distance
        lambda: settle(part(1900), (part(3000)[0], np.zeros(16, np.uint32))),
        lambda: settle(part(1900), part(3000), sides=1),
        lambda: _native.settled_rows(None, [(1, [])], 100, 100, 200, 5000, 10**9),
        lambda: _native.settled_rows(None, [], 100, 99, 200, 5000, 10**9),
        lambda: _native.settled_rows(part(50), [], 100, 100, 200, 5000, 10**9),
    ):
        with pytest.raises(ValueError):
            wrong()
    nodes, hubs = np.array([100, 101], np.uint32), np.array([1], np.uint32)
    for counts in ([1], [2, 1]):
        arrays = (nodes, np.array(counts, np.uint32), hubs)
        with pytest.raises(ValueError):
            _native.settled_rows(None, [(1, [arrays])], 100, 100, 200, 5000, 10**9)


def test_the_same_unit_writes_the_same_bytes(tmp_path):
    files = write_ranked_graph(generate(500, 5, seed=1, num_features=0), None, tmp_path / "graph")
    options = {"side": "in", "label_bounds": [0, 100, 500]}
    shards = []
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        shards.append(search_hubs(files, 3, 77, folder=tmp_path / name, **options))
    assert shards[0][3:8] == shards[1][3:8]
    contents = [(tmp_path / n / shards[0].name).read_bytes() for n in ("first", "second")]
    assert contents[0] == contents[1]
    assert len(contents[0]) == shards[0].num_bytes


def test_the_work_of_a_search_is_counted(tmp_path):
    star = Graph.from_edges([0, 0, 0, 0], [1, 2, 3, 4])
    files = write_ranked_graph(star, None, tmp_path / "graph")
    options = {"side": "in", "label_bounds": [0, 5], "folder": tmp_path}
    best = search_hubs(files, 0, 1, **options)
    assert (best.num_entries, best.max_distance) == (4, 1)
    rest = search_hubs(files, 1, 5, top=write_top_table(files, [best], tmp_path), **options)
    # The only neighbour of each is the hub of the table, at which every search ends.
    assert (rest.num_entries, rest.arcs, rest.tests) == (0, 0, 0)


def test_ranked_files_travel_by_path(tmp_path):
    import pickle

    files = write_ranked_graph(path(50)[0], None, tmp_path / "graph")
    sent = pickle.dumps(files)
    assert len(sent) < 500
    back = pickle.loads(sent)
    assert isinstance(back, RankedGraphFiles)
    assert np.array_equal(back.forward[1], files.forward[1])


# ---- what is refused -------------------------------------------------------------------------


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    return write_ranked_graph(path(9)[0], None, tmp_path_factory.mktemp("small") / "graph")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"first": 3, "last": 3}, r"hubs \[3, 3\) are not ranks below 9"),
        ({"last": 10}, r"hubs \[0, 10\)"),
        ({"side": "out"}, "side='out'"),
        ({"radius": 0}, "radius"),
        ({"label_bounds": [0, 8]}, "label_bounds"),
        ({"label_bounds": [0, 5, 3, 9]}, "label_bounds"),
        ({"label_bounds": [9]}, "label_bounds"),
    ],
)
def test_bad_units_are_refused(small, change, words, tmp_path):
    good = {"first": 0, "last": 9, "side": "in", "label_bounds": [0, 9], "folder": tmp_path}
    search_hubs(small, **good)
    with pytest.raises(ConfigError, match=words):
        search_hubs(small, **good | change)


def test_a_unit_that_outgrows_its_memory_says_so(tmp_path):
    files = write_ranked_graph(generate(3000, 6, num_features=0), None, tmp_path / "graph")
    with pytest.raises(MemoryLimitError, match=r"hubs 0 to 511 outgrew.*10 kB allowed"):
        search_hubs(
            files, 0, 512, side="in", label_bounds=[0, 3000], folder=tmp_path, max_memory=10_000
        )
    assert not list(tmp_path.glob("hubs-*"))
