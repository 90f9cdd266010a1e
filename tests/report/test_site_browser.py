"""The page of results in a real browser: it fits, it is quiet, its tables can be sorted."""

import pytest

from dhilgt.benchmark import Results
from dhilgt.report.site import write_site
from dhilgt.store.files import canonical_json
from tests.benchmark.cases import line

pytestmark = pytest.mark.full


@pytest.fixture
def page(tmp_path):
    (tmp_path / "paper").mkdir()
    with Results(tmp_path / "paper" / "main.jsonl").open(resume=False) as results:
        for system, score in (("gcn", 0.5), ("mlp", 0.25), ("sage", 0.75)):
            for data in ("chameleon", "squirrel", "tolokers"):
                results.add(line(system, data, 0, score))
    lines = [
        {"name": "w" * 70, "value": 10, "<script>alert(1)</script>": 1},
        {"name": "a", "value": 9.5},
        {"name": "b", "value": None},
    ]
    text = b"".join(canonical_json(one) + b"\n" for one in lines)
    (tmp_path / "other.jsonl").write_bytes(text)
    return write_site(tmp_path, tmp_path / "site")


def opened(browser, page, width):
    browser.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride",
        {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": width < 500},
    )
    browser.get(page.as_uri())


@pytest.mark.parametrize("width", [320, 390, 1200])
def test_it_fits_and_is_quiet(browser, page, width):
    opened(browser, page, width)
    assert browser.execute_script("return document.documentElement.scrollWidth") <= width
    assert browser.get_log("browser") == []


def column(browser, table, at):
    return browser.execute_script(
        "return [...document.querySelectorAll('main table')[arguments[0]].tBodies[0].rows]"
        ".map(row => row.cells[arguments[1]].textContent)",
        table, at,
    )  # fmt: skip


def press(browser, table, at):
    """Sorts by a column with the keyboard; gives what the head says of it."""
    return browser.execute_script(
        "const table = document.querySelectorAll('main table')[arguments[0]];"
        "const cell = table.tHead.rows[table.tHead.rows.length - 1].cells[arguments[1]];"
        "const button = cell.querySelector('button'); button.focus();"
        "if (document.activeElement !== button) return 'not in reach'; button.click();"
        "return cell.getAttribute('aria-sort')",
        table, at,
    )  # fmt: skip


def test_a_plain_table_is_sorted_by_numbers_and_by_words(browser, page):
    opened(browser, page, 1200)
    last = browser.execute_script("return document.querySelectorAll('main table').length") - 2
    values = column(browser, last, 1)
    assert sorted(values) == ["10", "9.5", "–"]
    assert press(browser, last, 1) == "ascending"
    assert column(browser, last, 1) == ["9.5", "10", "–"]
    assert press(browser, last, 1) == "descending"
    assert column(browser, last, 1) == ["10", "9.5", "–"]  # what is no number stays last
    assert press(browser, last, 0) == "ascending"
    assert [name[0] for name in column(browser, last, 0)] == ["a", "b", "w"]


def test_a_table_of_the_paper_is_sorted_by_score(browser, page):
    opened(browser, page, 1200)
    summary, systems = 0, 1
    assert "chameleon, Acc" in column(browser, summary, 0)

    def ours():
        return [name for name in column(browser, systems, 0) if name in ("GCN", "MLP", "GraphSAGE")]

    assert ours() == ["GCN", "GraphSAGE", "MLP"]
    assert press(browser, systems, 5) == "ascending"  # the score on the third graph
    assert ours() == ["MLP", "GCN", "GraphSAGE"]


def test_what_scrolls_is_within_reach_of_the_keyboard(browser, page):
    opened(browser, page, 390)
    missed = browser.execute_script(
        "return [...document.querySelectorAll('main div')].filter(one => "
        "one.scrollWidth > one.clientWidth && one.tabIndex !== 0).length"
    )
    assert missed == 0
    unnamed = "return [...document.images].filter(one => !one.alt).length"
    assert browser.execute_script(unnamed) == 0
