"""The radius of labels on the command line."""

import json
import re

import numpy as np
import pytest

import dhilgt
from tests.cli.test_cli import fails, ok


@pytest.fixture
def line(tmp_path):
    """A path of 12 nodes, as a file of edges."""
    file = tmp_path / "line.csv"
    file.write_text("".join(f"{at},{at + 1}\n" for at in range(11)))
    return file


@pytest.fixture
def near(line, tmp_path):
    order = tmp_path / "order.txt"
    order.write_text("".join(f"{at}\n" for at in (5, *range(5), *range(6, 12))))
    ok("label", line, "-o", tmp_path / "near", "--radius", "2", "--order", order, "--quiet")
    return tmp_path / "near"


def test_label_saves_labels_with_a_radius(line, tmp_path):
    result = ok("label", line, "-o", tmp_path / "out", "--radius", "2")
    assert "radius            2: distances up to it are exact" in result.stdout
    assert dhilgt.HubLabels.load(tmp_path / "out").radius == 2
    facts = json.loads(ok("label", line, "-o", tmp_path / "again", "--json").stdout)
    assert facts["radius"] is None


def test_label_takes_the_largest_radius_of_so_many_entries(line, tmp_path):
    full = dhilgt.HubLabels.build(dhilgt.Graph.read(line), progress=False)
    kept = int(np.cumsum(full.distance_histogram())[1])
    for options in (["--max-entries", kept], ["--max-entries", kept, "--radius", "auto"]):
        result = ok("label", line, "-o", tmp_path / "out", "--overwrite", *options)
        assert "within a radius of 1: about" in result.stderr
        assert dhilgt.HubLabels.load(tmp_path / "out").radius == 1


def test_estimate_shows_every_radius(line):
    text = ok("label", line, "--estimate").stdout
    assert "\n  radius 1: " in text
    facts = json.loads(ok("label", line, "--estimate", "--json").stdout)
    sizes = [one["entries"] for one in facts["by_radius"]]
    assert sizes == sorted(sizes)
    assert sizes[-1] < facts["entries"]
    facts = json.loads(ok("label", line, "--estimate", "--radius", "1", "--json").stdout)
    assert (facts["radius"], facts["entries"]) == (1, sizes[0])


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--radius", "0"], "--radius 0; pass a whole number from 1"),
        (["--radius", "all"], '--radius all; pass a whole number from 1 .* or "auto"'),
        (["--radius", "2", "--max-entries", "9"], "--radius 2 leaves --max-entries 9 nothing"),
    ],
)
def test_values_of_no_use_are_refused_before_the_file_is_read(tmp_path, options, words):
    message = fails("label", tmp_path / "missing.csv", "-o", tmp_path / "out", *options)
    assert re.search(words, message), message


def test_query_tells_bounds_from_distances(near):
    assert ok("query", near, "0", "2").stdout == "2\n"
    assert ok("query", near, "0", "11").stdout == "farther than 2, or no path\n"
    assert ok("query", near, "3", "7").stdout == "at most 4\n"
    assert ok("query", near, "3", "7", "--witness").stdout == "at most 4 through 5\n"
    answer = json.loads(ok("query", near, "0", "11", "--json").stdout)
    assert answer == {"source": 0, "target": 11, "distance": -2, "exact": False}


def test_query_of_many_pairs_has_a_column_exact(near):
    lines = ok("query", near, "--pairs", "-", "--witness", stdin="0 2\n0 11\n").stdout.splitlines()
    assert lines[0] == "source,target,distance,hub,exact"
    assert lines[1].endswith(",1")
    assert lines[2] == "0,11,-2,,0"
    pairs = json.loads(ok("query", near, "--pairs", "-", "--json", stdin="0 2\n").stdout)["pairs"]
    assert pairs[0]["exact"] is True


def test_inspect_shows_the_radius(near, tmp_path):
    assert "radius" in ok("inspect", near).stdout
    facts = json.loads(ok("inspect", near, "--json").stdout)
    assert (facts["radius"], facts["exact"]) == (2, False)
    assert "components" not in facts
    ok("tokens", near, "-o", tmp_path / "tokens", "--size", "4", "--quiet")
    assert "of the labels:" in ok("inspect", tmp_path / "tokens").stdout
    facts = json.loads(ok("inspect", tmp_path / "tokens", "--json").stdout)
    assert facts["radius"] == 2
    assert facts["exact"] <= sum(facts["distances"])
