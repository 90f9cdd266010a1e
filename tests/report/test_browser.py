"""The report in a real browser: nothing is reported, nothing sticks out."""

from types import SimpleNamespace

import pytest

from dhilgt.classifier.auto.portfolio import GraphFacts, portfolio
from dhilgt.report import render, run_facts
from tests.report.cases import classifier, facts_of, graph_of, record

pytestmark = pytest.mark.full

LONG = [f"{'w' * 60} a name that goes on and on, number {at}" for at in range(40)]


def searched():
    """Facts of a run that tried all candidates there are, and averages three of them."""
    rungs = [
        {"epochs": at, "scores": [0.991, 0.999, 1.0], "losses": [0.4] * 3, "seconds": 100.0}
        for at in (22, 67, 200)
    ]
    tried = [
        {"name": one.name, "about": one.about, "settings": {}, "rungs": rungs, "status": "dropped"}
        for one in portfolio(GraphFacts(1000, 5000, 8, 600, 200, 3, "cuda"))
    ]
    chosen = [{"name": one["name"], "seed": 0, "weight": 1 / 3} for one in tried[-3:]]
    tried[0]["status"] = "reference"
    found = record(candidates=tried, chosen=chosen, rungs=[22, 67, 200], seeds=3)
    clf = classifier()
    clf.search_ = SimpleNamespace(to_dict=lambda: found)
    return run_facts(clf)


CASES = {
    "searched": searched,
    "few": lambda: facts_of(graph_of(300, 3, ["<script>alert(1)</script>", "b", "c"])),
    "many": lambda: facts_of(graph_of(600, 40, LONG), metric="macro_f1"),
    "one": lambda: facts_of(graph_of(60, 1, ["only"]), metric="roc_auc", parts=("train",)),
}


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [320, 380, 1200])
@pytest.mark.parametrize("case", CASES)
def test_page_fits_and_is_quiet(browser, tmp_path, case, width, scheme):
    path = tmp_path / "report.html"
    path.write_text(render(CASES[case]()), encoding="utf-8")
    browser.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride",
        {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": width < 500},
    )
    browser.execute_cdp_cmd(
        "Emulation.setEmulatedMedia",
        {"features": [{"name": "prefers-color-scheme", "value": scheme}]},
    )
    browser.get(path.as_uri())
    for opened in (False, True):
        browser.execute_script(
            "document.querySelectorAll('details').forEach(one => one.open = arguments[0])", opened
        )
        assert browser.execute_script("return document.documentElement.scrollWidth") <= width
    assert browser.get_log("browser") == []
    seen = browser.execute_script("return getComputedStyle(document.body).backgroundColor")
    assert seen == ("rgb(255, 255, 255)" if scheme == "light" else "rgb(20, 23, 27)")


@pytest.mark.parametrize("case", CASES)
def test_words_of_charts_stay_inside(browser, tmp_path, case):
    path = tmp_path / "report.html"
    path.write_text(render(CASES[case]()), encoding="utf-8")
    browser.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride",
        {"width": 1200, "height": 800, "deviceScaleFactor": 1, "mobile": False},
    )
    browser.get(path.as_uri())
    outside = browser.execute_script(
        """
        const result = [];
        for (const svg of document.querySelectorAll('svg')) {
          const all = svg.getBoundingClientRect();
          for (const text of svg.querySelectorAll('text')) {
            const own = text.getBoundingClientRect();
            if (own.left < all.left - 3 || own.right > all.right + 3
                || own.top < all.top - 3 || own.bottom > all.bottom + 3) {
              result.push(svg.getAttribute('class') + ': ' + text.textContent);
            }
          }
        }
        return result;
        """
    )
    assert outside == []


def test_tables_of_a_search_need_no_scrolling_on_a_wide_screen(browser, tmp_path):
    path = tmp_path / "report.html"
    path.write_text(render(searched()), encoding="utf-8")
    browser.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride",
        {"width": 1200, "height": 800, "deviceScaleFactor": 1, "mobile": False},
    )
    browser.get(path.as_uri())
    wider = browser.execute_script(
        """
        return [...document.querySelectorAll('#search .scroll')]
          .filter(one => one.scrollWidth > one.clientWidth).map(one => one.ariaLabel);
        """
    )
    assert wider == []


def test_it_prints(browser, tmp_path):
    path = tmp_path / "report.html"
    path.write_text(render(CASES["few"]()), encoding="utf-8")
    browser.get(path.as_uri())
    assert browser.print_page().startswith("JVBERi0")  # %PDF-
