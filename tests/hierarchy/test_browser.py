"""The page of a label graph in a real browser: search, zoom, click, keys, and quiet hostile ids."""

import io

import numpy as np
import pytest

from dhilgt import Graph, HubLabels, generate, plot_hierarchy

pytestmark = pytest.mark.full


@pytest.fixture(scope="module")
def graph():
    return generate(900, 6, seed=4, num_classes=4).named("nine hundred")


@pytest.fixture(scope="module")
def labels(graph):
    return HubLabels.build(graph, progress=False)


@pytest.fixture
def shown(browser, graph, labels, tmp_path):
    path = tmp_path / "page.html"
    plot_hierarchy(graph, path, labels=labels)
    return opened(browser, path)


def opened(browser, path, width=1500):
    browser.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride",
        {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False},
    )
    browser.get(path.as_uri())
    wait(browser, "return document.body.dataset.ready === 'yes'")
    settle(browser)
    return browser


def wait(driver, script):
    from selenium.webdriver.support.ui import WebDriverWait

    WebDriverWait(driver, 60).until(lambda one: one.execute_script(script))


def settle(driver):
    """Waits until what was asked for is painted."""
    driver.execute_async_script(
        "const done = arguments[0]; requestAnimationFrame(() => requestAnimationFrame(done))"
    )


def pixels(driver, name):
    from PIL import Image

    settle(driver)
    with Image.open(io.BytesIO(driver.find_element("id", name).screenshot_as_png)) as image:
        return np.asarray(image.convert("RGB")).astype(int)


def search(driver, text):
    field = driver.find_element("id", "query")
    field.clear()
    field.send_keys(text)
    field.submit()
    settle(driver)


def listed(driver, name):
    return driver.execute_script(
        "return [...document.querySelectorAll(`#${arguments[0]} button`)].map(b => b.textContent)",
        name,
    )


def state(driver, kind):
    at = ["raw", "label"].index(kind)
    return driver.execute_script(f"return hierarchy.views[{at}].shown")


def selected(driver):
    return driver.execute_script("return hierarchy.selected")


def entries(ids, distances, node):
    return {f"{i} · {d}" for i, d in zip(ids, distances, strict=True) if i != node}


def test_both_graphs_are_painted(shown):
    for name in ("raw", "label"):
        result = pixels(shown, name)
        assert 0.005 < (np.ptp(result, axis=2) > 40).mean() < 0.6  # dots in colour
    assert "nine hundred" in shown.title
    assert shown.get_log("browser") == []


def test_search_shows_hubs_holders_and_token(shown, labels):
    hubs, distances = labels.hubs(500)
    search(shown, "500")
    assert selected(shown) == 500
    assert set(listed(shown, "hubs")) == entries(hubs, distances, 500)
    holders = set(listed(shown, "holders"))
    assert holders == entries(*labels.holders(500), 500)
    token = listed(shown, "token")
    assert token[0] == "500 · 0"
    assert set(token[1:]) <= entries(hubs, distances, 500) | holders
    search(shown, "no such node")
    assert shown.find_element("id", "answer").text == "No node has the id no such node."


def test_selection_changes_what_is_painted_and_escape_leaves_it(shown):
    before = pixels(shown, "label")
    search(shown, "500")
    during = pixels(shown, "label")
    lines = (np.abs(during - [31, 111, 209]).sum(axis=2) < 60).sum()
    assert lines > 50  # lines to hubs, in the colour of hubs
    from selenium.webdriver.common.keys import Keys

    shown.find_element("id", "label").send_keys(Keys.ESCAPE)
    assert selected(shown) == -1
    shown.execute_script("document.activeElement.blur()")
    assert (pixels(shown, "label") == before).mean() > 0.99


def test_a_click_selects_the_node_under_it(shown):
    from selenium.webdriver import ActionChains

    canvas = shown.find_element("id", "raw")
    x, y = shown.execute_script(
        "const v = hierarchy.views[0]; return v.at(hierarchy.graphs.byRank[450])"
    )
    middle = canvas.rect["width"] / 2, canvas.rect["height"] / 2
    ActionChains(shown).move_to_element_with_offset(
        canvas, round(x - middle[0]), round(y - middle[1])
    ).click().perform()
    near = shown.execute_script(
        "return hierarchy.views[0].nearest(arguments[0], arguments[1])", round(x), round(y)
    )
    assert selected(shown) == near >= 0
    first = listed(shown, "hubs")[0].split(" · ")[0]
    shown.find_element("css selector", "#hubs button").click()
    assert selected(shown) == int(first)


def test_wheel_buttons_and_keys_zoom_and_drag_pans(shown):
    from selenium.webdriver import ActionChains
    from selenium.webdriver.common.actions.wheel_input import ScrollOrigin

    canvas = shown.find_element("id", "label")
    first, other = state(shown, "label"), state(shown, "raw")
    origin = ScrollOrigin.from_element(canvas)
    ActionChains(shown).scroll_from_origin(origin, 0, -300).perform()
    wait(shown, f"return hierarchy.views[1].shown.scale > {first['scale']}")
    assert state(shown, "raw") == other  # each graph has its own view
    for name in ("closer", "farther", "reset"):
        shown.find_element("id", name).click()
    assert state(shown, "label") == pytest.approx(first)
    canvas.send_keys("+")
    assert state(shown, "label")["scale"] == pytest.approx(1.4 * first["scale"])
    canvas.send_keys("0")
    ActionChains(shown).drag_and_drop_by_offset(canvas, 60, 30).perform()
    moved = state(shown, "label")
    assert moved["x"] - first["x"] == pytest.approx(60, abs=8)
    assert selected(shown) == -1  # to drag is not to click
    canvas.send_keys("n")
    canvas.send_keys("n")
    assert shown.execute_script("return hierarchy.graphs.rank[hierarchy.selected]") == 1


def test_colours_and_positions_can_be_chosen(shown):
    from selenium.webdriver.support.ui import Select

    before = pixels(shown, "label")
    Select(shown.find_element("id", "colors")).select_by_value("rank")
    ranked = pixels(shown, "label")
    assert (ranked != before).mean() > 0.01
    assert "least important" in shown.find_element("id", "legend").text
    Select(shown.find_element("id", "positions")).select_by_value("raw")
    assert (pixels(shown, "label") != ranked).mean() > 0.01
    Select(shown.find_element("id", "highlight")).select_by_value("token")
    search(shown, "500")
    members = shown.execute_script("return hierarchy.members.map(one => one.node)")
    assert [str(one) for one in members] == [
        one.split(" · ")[0] for one in listed(shown, "token")[1:]
    ]


@pytest.mark.parametrize("width", [360, 1500])
def test_nothing_sticks_out_and_hostile_ids_are_harmless(browser, tmp_path, width):
    ids = ["</script><script>document.title='bad'</script>", "<img src=x onerror=alert(1)>", "ann",
           "x" * 300, "__proto__"]  # fmt: skip
    graph = Graph.from_edges(ids[:-1], ids[1:], labels=dict.fromkeys(ids, "<b>bold</b>"))
    plot_hierarchy(graph, tmp_path / "page.html", title="<i>plain</i>")
    page = opened(browser, tmp_path / "page.html", width)
    assert page.title.startswith("<i>plain</i>")
    for one in ids:
        search(page, one)
        heading = page.find_element("css selector", "#details h2")
        assert heading.get_attribute("textContent") == f"Node {one}"
    assert page.execute_script("return document.querySelectorAll('img, b, i').length") == 0
    assert page.execute_script("return document.documentElement.scrollWidth") <= width
    assert page.get_log("browser") == []
