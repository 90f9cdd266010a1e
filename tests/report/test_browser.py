"""The report in a real browser: nothing is reported, nothing sticks out."""

import pytest

from dhilgt.report import render
from tests.report.cases import facts_of, graph_of

pytestmark = pytest.mark.full

LONG = [f"{'w' * 60} a name that goes on and on, number {at}" for at in range(40)]
CASES = {
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


def test_it_prints(browser, tmp_path):
    path = tmp_path / "report.html"
    path.write_text(render(CASES["few"]()), encoding="utf-8")
    browser.get(path.as_uri())
    assert browser.print_page().startswith("JVBERi0")  # %PDF-
