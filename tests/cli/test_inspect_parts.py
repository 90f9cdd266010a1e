"""`dhilgt inspect` and `dhilgt query` on labels in parts."""

import json

from dhilgt import generate
from dhilgt.labels.sharding import build_sharded
from tests.cli.cases import ok
from tests.labels.cases import build


def test_labels_in_parts_are_described_as_the_plain_ones(tmp_path):
    graph = generate(200, 4, seed=1, num_features=0)
    build_sharded(graph, tmp_path / "parts", num_ranges=3)
    build(graph).save(tmp_path / "plain")
    parts, plain = (
        json.loads(ok("inspect", tmp_path / name, "--verify", "--json").stdout)
        for name in ("parts", "plain")
    )
    assert (parts["kind"], parts["parts"]) == ("sharded-labels", 3)
    for key in ("fingerprint", "entries", "entries_per_node", "distance_histogram", "components"):
        assert parts[key] == plain[key]
    assert "parts" in ok("inspect", tmp_path / "parts").stdout


def test_labels_in_parts_are_asked_as_the_plain_ones(tmp_path):
    graph = generate(200, 4, seed=1, num_features=0)
    labels = build_sharded(graph, tmp_path / "parts", num_ranges=3)
    answer = ok("query", tmp_path / "parts", "3", "77").stdout
    assert str(labels.distance(3, 77)) in answer
