"""Sizes as people write them, and the memory a process may still take."""

import os
import subprocess
import sys

import pytest

from dhilgt.errors import MemoryLimitError
from dhilgt.utils import memory
from dhilgt.utils.memory import available_bytes, format_bytes, parse_size

GB = 10**9


def machine(tmp_path, *, available_kb=8_000_000, group_lines=(), files=None):
    """A made-up machine: its /proc and its control groups."""
    proc, groups = tmp_path / "proc", tmp_path / "cgroup"
    (proc / "self").mkdir(parents=True)
    groups.mkdir()
    if available_kb is not None:
        meminfo = f"MemTotal:  16000000 kB\nMemFree: 1 kB\nMemAvailable:   {available_kb} kB\n"
        (proc / "meminfo").write_text(meminfo)
    (proc / "self" / "cgroup").write_text("".join(line + "\n" for line in group_lines))
    for name, text in (files or {}).items():
        path = groups / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return proc, groups


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("4GB", 4 * GB),
        ("4 gb", 4 * GB),
        ("4G", 4 * GB),
        ("512MiB", 512 * 2**20),
        ("512mib", 512 * 2**20),
        ("1.5KiB", 1536),
        (".5k", 500),
        ("2TB", 2 * 10**12),
        ("1PiB", 2**50),
        ("123", 123),
        ("123B", 123),
        (" 7 ", 7),
        (4096, 4096),
        ("9007199254740993", 9007199254740993),
    ],
)
def test_sizes_are_read(text, size):
    assert parse_size(text) == size


@pytest.mark.parametrize(
    "bad",
    [
        *("", "GB", "4XB", "4iB", "-1GB", "1e9", "nan", "inf", "4 G B", "٤GB", "0", "0.0001B"),
        *(0, -5, True, 1.5, None),
    ],
)
def test_what_is_not_a_size_is_refused(bad):
    with pytest.raises(ValueError, match=r"size"):
        parse_size(bad)


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1 kB"),
        (1_500_000_000, "1.5 GB"),
        (12_340_000, "12.3 MB"),
        (999_949, "1 MB"),
        (123_456_789, "123 MB"),
        (999_999, "1 MB"),
        (100_000, "100 kB"),
        (7 * 10**18, "7000 PB"),
        (-2000, "-2 kB"),
    ],
)
def test_sizes_are_shown(size, text):
    assert format_bytes(size) == text


def test_this_machine_has_memory():
    assert available_bytes() > 0


def test_without_limits_the_machine_decides(tmp_path):
    assert available_bytes(*machine(tmp_path)) == 8_000_000 * 1024


def test_a_version_2_group_limits(tmp_path):
    files = {
        "job/memory.max": "3000\n",
        "job/memory.current": "1000\n",
        "job/memory.stat": "anon 700\ninactive_file 200\n",
    }
    assert available_bytes(*machine(tmp_path, group_lines=["0::/job"], files=files)) == 2200


def test_the_tightest_group_above_counts(tmp_path):
    files = {
        "a/memory.max": "5000",
        "a/memory.current": "4500",
        "a/b/memory.max": "max",
        "a/b/memory.current": "100",
        "a/b/c/memory.max": "9000",
        "a/b/c/memory.current": "100",
    }
    assert available_bytes(*machine(tmp_path, group_lines=["0::/a/b/c"], files=files)) == 500


def test_a_version_1_group_limits(tmp_path):
    files = {
        "memory/job/memory.limit_in_bytes": "10000",
        "memory/job/memory.usage_in_bytes": "4000",
        "memory/job/memory.stat": "inactive_file 1\ntotal_inactive_file 500\n",
    }
    lines = ["12:cpu,cpuacct:/x", "5:memory:/job", "0::/"]
    assert available_bytes(*machine(tmp_path, group_lines=lines, files=files)) == 6500


@pytest.mark.parametrize("group", ["/docker/4f5e6d", "/../../other", "/"])
def test_a_container_finds_its_limit_at_the_mount(tmp_path, group):
    files = {"memory.max": "700", "memory.current": "300"}
    assert available_bytes(*machine(tmp_path, group_lines=[f"0::{group}"], files=files)) == 400


def test_a_group_over_its_limit_has_nothing_left(tmp_path):
    files = {"memory.max": "700", "memory.current": "900"}
    assert available_bytes(*machine(tmp_path, group_lines=["0::/"], files=files)) == 0


def test_garbage_in_the_system_files_is_no_limit(tmp_path):
    files = {"memory.max": "²\n", "memory.current": "", "memory.stat": "\n\nx\n"}
    proc, groups = machine(tmp_path, group_lines=["", "::", "0::/", "zzz"], files=files)
    assert available_bytes(proc, groups) == 8_000_000 * 1024


def test_a_system_without_proc_still_answers(tmp_path):
    answer = available_bytes(tmp_path / "none", tmp_path / "none")
    assert answer is None or answer > 0


def test_a_system_that_tells_nothing_gives_none(tmp_path, monkeypatch):
    def refuse(name):
        raise ValueError(name)

    monkeypatch.setitem(sys.modules, "psutil", None)
    monkeypatch.setattr(os, "sysconf", refuse)
    monkeypatch.setattr(memory, "_address_space_headroom", lambda proc: iter(()))
    assert available_bytes(tmp_path / "none", tmp_path / "none") is None


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="address space limits of Linux")
def test_the_address_space_limit_counts():
    script = (
        "import resource; from dhilgt.utils.memory import available_bytes\n"
        "resource.setrlimit(resource.RLIMIT_AS, (900_000_000, resource.RLIM_INFINITY))\n"
        "print(available_bytes())"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert 0 < int(done.stdout) < 900_000_000, done.stderr


# ---- memory that the system refuses -------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "refused"),
    [
        (MemoryError(), ""),
        (MemoryError("std::bad_alloc"), ""),
        (MemoryError("Unable to allocate 7.45 GiB for an array with shape (9,)"), "8 GB"),
        (MemoryError("Unable to allocate 800. bytes for an array"), "800 B"),
        (MemoryError("malloc of size 5000000 failed"), "5 MB"),
        (RuntimeError("can't allocate memory: you tried to allocate 3200 bytes"), "3.2 kB"),
        (RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0"), "2.15 GB"),
    ],
)
def test_memory_errors_say_what_was_made_and_what_needs_less(error, refused):
    asked = f": {refused} more were asked for" if refused else ""
    with pytest.raises(MemoryLimitError) as caught, memory.memory_for("a batch", "lower it"):
        raise error
    assert str(caught.value) == f"there is not enough memory for a batch{asked}; lower it"


@pytest.mark.parametrize("error", [RuntimeError("no such node"), MemoryLimitError("too large")])
def test_other_errors_stay_as_they_are(error):
    with pytest.raises(type(error)) as caught, memory.memory_for("a batch", "lower it"):
        raise error
    assert caught.value is error
