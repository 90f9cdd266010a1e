"""A real browser for pages, where Chromium and its driver are installed."""

import contextlib
import shutil

import pytest


@pytest.fixture(scope="module")
def browser():
    selenium = pytest.importorskip(
        "selenium.webdriver", reason="selenium is not installed; make test-full installs it"
    )
    program = shutil.which("chromium") or shutil.which("google-chrome")
    driver = shutil.which("chromedriver")
    if program is None or driver is None:
        pytest.skip(
            "chromium or chromedriver is not here: apt-get install chromium chromium-driver"
        )
    options = selenium.ChromeOptions()
    options.binary_location = program
    for word in ("--headless=new", "--no-sandbox", "--disable-gpu"):
        options.add_argument(word)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    service = selenium.ChromeService(driver)
    with contextlib.closing(_Closing(selenium.Chrome(options=options, service=service))) as found:
        yield found.driver


class _Closing:
    def __init__(self, driver):
        self.driver = driver

    def close(self):
        self.driver.quit()
