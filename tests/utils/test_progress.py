"""The bar is seen by people only and never disturbs the work."""

import io
import sys

import pytest

from dhilgt.utils.progress import Progress, count_text, progress_bar


class Terminal(io.StringIO):
    def isatty(self):
        return True


class Broken(Terminal):
    def write(self, text):
        raise OSError("the terminal went away")


def run(**options):
    with progress_bar("labels", unit="hubs", **options) as update:
        for done in range(11):
            update(done, 10, note="[pass] 1")


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch):
    for name in ("FORCE_COLOR", "TTY_COMPATIBLE", "NO_COLOR", "TTY_INTERACTIVE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")


@pytest.mark.parametrize("enabled", [True, "auto", False])
@pytest.mark.parametrize("colour", [None, "1"])
def test_nothing_is_written_to_a_log(enabled, colour, capfd, monkeypatch):
    if colour:
        monkeypatch.setenv("FORCE_COLOR", colour)
    run(enabled=enabled)
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("enabled", [True, "auto"])
def test_a_terminal_shows_what_counts(enabled, capsys, monkeypatch):
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    run(enabled=enabled)
    for part in ("labels", "10/10", "hubs", "[pass] 1", "0:00:00"):
        assert part in terminal.getvalue()
    assert capsys.readouterr().out == ""


def test_a_terminal_stays_quiet_when_told(monkeypatch):
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    run(enabled=False)
    assert terminal.getvalue() == ""


def test_the_bar_can_be_forced_into_a_log(monkeypatch):
    log = io.StringIO()
    monkeypatch.setattr(sys, "stderr", log)
    run(force=True)
    assert "10/10" in log.getvalue()


def test_a_broken_terminal_does_not_stop_the_work(monkeypatch):
    monkeypatch.setattr(sys, "stderr", Broken())
    run(enabled=True)


def test_a_missing_stream_does_not_stop_the_work(monkeypatch):
    monkeypatch.setattr(sys, "stderr", None)
    run(enabled=True)


def test_nonsense_does_not_stop_the_work(monkeypatch):
    monkeypatch.setattr(sys, "stderr", Terminal())
    with progress_bar("x") as update:
        update("three", object(), note=7)
        update(1, 2)


def test_without_the_library_there_is_silence(monkeypatch):
    for name in ("rich", "rich.console", "rich.progress"):
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.setattr(sys, "stderr", Terminal())
    run(enabled=True)


def test_a_bar_inside_a_bar_is_harmless(monkeypatch):
    monkeypatch.setattr(sys, "stderr", Terminal())
    with progress_bar("outer") as outer:
        outer(1, 2)
        run(enabled=True)
        outer(2, 2)


def test_errors_of_the_work_pass_through(monkeypatch):
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)

    def work():
        with progress_bar("labels") as update:
            update(1, 2)
            raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        work()
    # The cursor is given back.
    assert terminal.getvalue().rstrip("\n").endswith("\x1b[?25h")


def test_calls_outside_the_block_do_nothing():
    display = Progress("x")
    display.update(1, 2)
    display.stop()
    display.stop()
    display.update(2, 2)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ((0, None, None, "hubs"), "0 hubs"),
        ((1200, 5000, 340.2, "hubs"), "1,200/5,000 hubs  340 hubs/s"),
        ((1, 3, 0.25, "shards"), "1/3 shards  0.25 shards/s"),
        ((10**7, 10**8, 1234567.8, "nodes"), "10,000,000/100,000,000 nodes  1,234,568 nodes/s"),
    ],
)
def test_the_numbers_beside_the_bar(arguments, text):
    assert count_text(*arguments) == text
