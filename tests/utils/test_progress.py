"""The bar is seen by people only and never disturbs the work."""

import gzip
import io
import re
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from dhilgt import Graph, HubLabels, TokenSampler
from dhilgt.readers.files import opened
from dhilgt.training.display import TrainDisplay
from dhilgt.utils.memory import format_bytes
from dhilgt.utils.progress import Progress, count_text, fitted_line, progress_bar, rate_text


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
        ((0, None, "hubs"), "0 hubs"),
        ((1200, 5000, "hubs"), "1,200/5,000 hubs"),
        ((89_000, None, "bytes"), "89kB"),
        ((89_000, 2_300_000, "bytes"), "89kB/2.3MB"),
    ],
)
def test_the_numbers_beside_the_bar(arguments, text):
    assert count_text(*arguments) == text


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ((340.2, "hubs"), "340 hubs/s"),
        ((0.25, "shards"), "0.25 shards/s"),
        ((1234567.8, "nodes"), "1,234,568 nodes/s"),
        ((2_500_000.0, "bytes"), "2.5 MB/s"),
    ],
)
def test_the_speed_beside_the_bar(arguments, text):
    assert rate_text(*arguments) == text


# ---- the width of the terminal -----------------------------------------------------------------


def columns(line):
    texts = (line.title, line.count, line.clock)
    return sum(map(cell_len, texts)) + 3 + line.bar + sum(cell_len(one) + 2 for one in line.extras)


TRAINING = ("epoch 12/500", "accuracy 0.8431", "best 0.8502 (epoch 9)", "loss 0.4312", "9 nodes/s")


@given(
    width=st.integers(40, 200),
    title=st.sampled_from(["labels", "training on cuda:0", "reading 節点の辺の一覧.csv", "x" * 90]),
    done=st.integers(0, 999_999),
    extras=st.lists(st.sampled_from(TRAINING), unique=True),
)
def test_bar_count_and_time_fit_every_width(width, title, done, extras):
    count = count_text(done, 999_999, "entries")
    clock = "0:12:34 left"
    line = fitted_line(width, title=title, count=count, clock=clock, extras=extras)
    assert columns(line) <= width
    assert line.bar >= 10
    assert line.count.startswith(f"{done:,}/999,999")
    assert line.clock.startswith("0:12:34")
    assert list(line.extras) == extras[: len(line.extras)]
    if width == 200 and len(title) < 50:
        assert (line.title, line.count, line.clock) == (title, count, clock)
        assert list(line.extras) == extras


def last_frame(terminal):
    """The line that stays on the screen, without the codes of the terminal."""
    plain = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", terminal.getvalue())
    return [line for line in re.split(r"[\r\n]+", plain) if line.strip()][-1]


@pytest.mark.parametrize("width", [80, 60, 40])
def test_a_narrow_terminal_shows_bar_count_and_time_in_one_line(width, monkeypatch):
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("COLUMNS", str(width))
    display = TrainDisplay("training on cpu", epochs=300)
    display.start()
    display.epoch(100)
    display.step(done=400, total=1200, nodes=64, loss=lambda: 0.7)
    line = {"val_score": 0.8431, "metric": "accuracy", "train_loss": 0.61, "val_loss": 0.5}
    display.scored(line, "0.8502 (epoch 9)")
    display.stop()
    shown = last_frame(terminal)
    assert len(shown.rstrip()) <= width
    assert "…" not in shown
    assert re.search(r"training.* [━╸╺]{10,} 400/1,200.* -:--:--", shown)
    assert ("epoch 100/300" in shown) is (width > 40)
    assert ("accuracy 0.8431" in shown) is (width > 60)


# ---- quick stages ------------------------------------------------------------------------------


def test_a_stage_that_ends_between_two_updates_shows_its_last_count(monkeypatch):
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    with progress_bar("labels", unit="entries") as update:
        for done in range(1, 7):
            update(done)
    assert "6/6 entries" in last_frame(terminal)


def test_a_stage_that_reports_nothing_is_done(monkeypatch):
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    with progress_bar("holders", unit="nodes"):
        pass
    assert "done" in last_frame(terminal)
    assert "0 nodes" not in last_frame(terminal)


def test_a_stage_that_fails_keeps_the_count_it_reached(monkeypatch):
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)

    def work():
        with progress_bar("labels", unit="entries") as update:
            update(1, 9)
            update(4, 9)
            raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        work()
    assert "4/9 entries" in last_frame(terminal)


def test_labels_of_a_small_graph_show_their_entries(monkeypatch):
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    labels = HubLabels.build(Graph.from_edges([0, 1, 2], [1, 2, 3]))
    assert f"{labels.num_entries}/{labels.num_entries} entries" in last_frame(terminal)
    TokenSampler(labels, size=4)
    assert "4/4 nodes" in last_frame(terminal)


# ---- reading -----------------------------------------------------------------------------------


@pytest.mark.parametrize("packed", [False, True])
def test_reading_shows_the_bytes_and_changes_none(packed, tmp_path, monkeypatch):
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    content = b"a,b\n" * 5000
    file = tmp_path / "edges.csv"
    file.write_bytes(gzip.compress(content) if packed else content)
    with opened(file, True) as stream:
        assert stream.read(3) == b"a,b"
        stream.seek(0)
        assert stream.readline() == b"a,b\n"
        assert stream.read() == content[4:]
    size = format_bytes(file.stat().st_size).replace(" ", "")
    assert f"{size}/{size}" in last_frame(terminal)
    assert "reading edges.csv" in last_frame(terminal)
