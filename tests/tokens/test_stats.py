"""The report on tokens against slow, obvious counting."""

import json

import numpy as np
import pytest

from dhilgt import ArtifactError, Tokens
from dhilgt.tokens import stats as token_stats_module
from dhilgt.tokens import store as tokens_store
from dhilgt.tokens.stats import token_stats
from tests.tokens.cases import generated_labels, labels_of, landmark_path, path_graph


def slowly(tokens):
    """Counts every slot and every pair by itself."""
    filled = 0
    counts = {}
    hubs, holders = [], []
    seen = set(), set()
    for copy in range(tokens.copies):
        ids, spd = tokens.rows(tokens.nodes, copy)
        parts = tokens.packed_rows(tokens.nodes, copy).parts
        for row, square, (num_hubs, num_holders) in zip(ids, spd, parts.tolist(), strict=True):
            members = [int(node) for node in row if node >= 0]
            filled += len(members)
            hubs.append(num_hubs)
            holders.append(num_holders)
            seen[0].update(members[1 : 1 + num_hubs])
            seen[1].update(members[1 + num_hubs : 1 + num_hubs + num_holders])
            for i in range(len(members)):
                for j in range(len(members)):
                    if i != j and (tokens.directed or i < j):
                        code = int(square[i, j])
                        counts[code] = counts.get(code, 0) + 1
    return filled, counts, hubs, holders, seen


@pytest.mark.parametrize("directed", [False, True], ids=["undirected", "directed"])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"copies": 3, "nodes": [5, 3, 399]},
        {"spill": True},
        {"fill": "neighbors", "num_in": 1, "num_out": 2},
        {"bits": 4},
        {"size": 1},
        {"size": 40, "num_in": 0},
    ],
    ids=str,
)
def test_the_report_is_what_counting_gives(tmp_path, monkeypatch, directed, options):
    monkeypatch.setattr(tokens_store, "_SHARD_ROWS", 150)
    monkeypatch.setattr(token_stats_module, "_BYTES_AT_ONCE", 3000)
    tokens = Tokens.build(
        generated_labels(directed),
        path=tmp_path / "tokens",
        progress=False,
        **{"size": 8, "in_exponent": 1.0, **options},
    )
    stats = token_stats(tokens)
    filled, counts, hubs, holders, seen = slowly(tokens)
    rows, size = len(tokens), tokens.spec.size
    assert (stats.rows, stats.size) == (rows, size)
    assert stats.fill_rate == pytest.approx(filled / (rows * size))
    assert stats.padding == pytest.approx(1 - filled / (rows * size))
    for part, numbers, nodes in ((stats.hubs, hubs, seen[0]), (stats.holders, holders, seen[1])):
        assert part.mean == pytest.approx(np.mean(numbers))
        assert (part.least, part.most) == (min(numbers), max(numbers))
        assert part.covered == len(nodes)
    extra = filled - rows - sum(hubs) - sum(holders)
    assert stats.neighbors == pytest.approx(extra / rows)
    assert (extra > 0) == (options.get("fill") is not None)
    exact = {d: count for d, count in enumerate(stats.distances) if count}
    assert exact == {d: count for d, count in counts.items() if d < 254}
    assert stats.far == counts.get(254, 0)
    assert stats.unreachable == counts.get(255, 0)
    assert json.loads(json.dumps(stats.to_dict())) == stats.to_dict()
    assert str(size) in str(stats)


def test_far_pairs_are_counted():
    tokens = Tokens.build(landmark_path(400), size=64, in_exponent=4.0, progress=False)
    stats = token_stats(tokens)
    assert stats.far == slowly(tokens)[1][254] > 0
    assert len(stats.distances) == 254
    assert "far: " in str(stats)


def test_no_rows_at_all():
    stats = token_stats(Tokens.build(labels_of(path_graph(5)), nodes=[], progress=False))
    assert stats.rows == 0
    assert stats.fill_rate == stats.padding == 0
    assert stats.distances == ()
    assert "no pairs" in str(stats)


def test_the_text_of_a_report():
    stats = token_stats(Tokens.build(labels_of(path_graph(4)), size=4, progress=False))
    assert str(stats).splitlines() == [
        "rows         4 (4 of 4 nodes, 1 each), 4 slots, 104 B",
        "filled       62.5% of the slots, 37.5% padding",
        "hubs         1.0 a row (0 to 2), 2 distinct nodes",
        "holders      0.5 a row (0 to 1), 2 distinct nodes",
        "distances    1: 75.0%, 2: 25.0%",
    ]


def test_damaged_ids_are_named(tmp_path):
    tokens = Tokens.build(labels_of(path_graph(4)), path=tmp_path / "tokens", progress=False)
    file = tmp_path / "tokens" / "ids-00000.npy"
    ids = np.load(file)
    ids[0, 0] = 77
    np.save(file, ids)
    del tokens
    with pytest.raises(ArtifactError, match=r"ids-00000\.npy is damaged"):
        token_stats(Tokens.load(tmp_path / "tokens"))
