"""The results page of label graphs shows what the committed lines say."""

from pathlib import Path

import pytest
from docs.make import hierarchy

from tests.real_data import needs_data

RESULTS = Path(__file__).parents[2] / "docs" / "results"
LINES = hierarchy.lines_of(RESULTS / "hierarchy.jsonl")


def test_the_table_is_made_from_the_lines():
    shown = (RESULTS / "hierarchy-table.md").read_text(encoding="utf-8")
    assert shown == hierarchy.table(LINES)
    assert [line["name"] for line in LINES] == list(hierarchy.GRAPHS)


def test_what_the_page_says_of_the_numbers_holds():
    page = (RESULTS / "hierarchy.md").read_text(encoding="utf-8")
    for name in hierarchy.DRAWN:
        picture = RESULTS / f"hierarchy-{name}.png"
        assert f"]({picture.name})" in page
        assert picture.stat().st_size < 400_000
    for line in LINES:
        raw, label = line["raw"], line["label"]
        assert line["kept"] == 1.0
        assert label["edges"] > 2 * raw["edges"]
        assert label["homophily"] < raw["homophily"]
        assert label["modularity"] < raw["modularity"]
        assert (label["homophily"] > label["chance"]) == (line["name"] in (
            "cora", "citeseer", "pubmed", "physics"
        ))  # fmt: skip
        assert (label["clustering"] < raw["clustering"]) == (
            line["name"] in ("tolokers", "physics")
        )


def test_near_hubs_share_the_class_more_often_on_homophilous_graphs():
    for line in LINES:
        if line["name"] in ("cora", "citeseer", "pubmed", "physics"):
            fractions = [one["homophily"] for one in line["distances"][:5]]
            assert fractions == sorted(fractions, reverse=True), line["name"]


@pytest.mark.full
@needs_data
@pytest.mark.parametrize("name", ["chameleon", "cora"])
def test_the_lines_are_what_is_computed_now(name):
    kept = next(line for line in LINES if line["name"] == name)
    assert hierarchy.measured(name) == kept
