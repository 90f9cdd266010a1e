"""A file is compared with its hash once on a machine, and again once it has changed."""

import errno
import os
import socket
from pathlib import Path

import numpy as np
import pytest

from dhilgt.errors import ArtifactError
from dhilgt.labels.sharding.checked import check_once
from dhilgt.labels.sharding.sections import Sections, write_sections


@pytest.fixture
def parts(tmp_path, monkeypatch):
    """Opens three files anew, as a process that begins does; `.looks` has those compared."""
    files = [
        write_sections(tmp_path, f"part-{number}", {}, {"rows": np.full(1000, number, np.uint32)})
        for number in range(3)
    ]
    looks, check = [], Sections.check
    monkeypatch.setattr(
        Sections, "check", lambda one: (looks.append(one.path.name[:6]), check(one))
    )

    def opened():
        looks.clear()
        return [Sections(tmp_path / file.name, file.sha256) for file in files]

    opened.looks = looks
    return opened


def test_the_second_process_takes_the_word_of_the_first(parts):
    check_once(parts())
    assert sorted(parts.looks) == ["part-0", "part-1", "part-2"]
    check_once(parts())
    assert parts.looks == []


def test_another_machine_looks_itself(parts, monkeypatch):
    check_once(parts())
    monkeypatch.setattr(socket, "gethostname", lambda: "another")
    check_once(parts())
    assert len(parts.looks) == 3


def test_a_file_that_has_changed_is_compared_again(parts):
    check_once(parts())
    path = parts()[1].path
    data = bytearray(path.read_bytes())
    data[-100] ^= 1
    path.write_bytes(data)
    os.utime(path, ns=(1, 1))  # clocks of files may be coarse
    with pytest.raises(ArtifactError, match=f"{path.name} is damaged in its section 'rows'"):
        check_once(parts())
    with pytest.raises(ArtifactError):  # it was not taken for whole
        check_once(parts())


@pytest.mark.parametrize("note", [b"", b"1 2 3\n", b"\xff\xfe"])
def test_a_note_that_says_nothing_is_not_believed(parts, note):
    (first, *_) = parts()
    check_once([first])
    (path,) = first.path.parent.glob(".part-0*")
    path.write_bytes(note)
    check_once(parts())
    assert "part-0" in parts.looks


def test_a_folder_that_cannot_be_written_costs_time_only(parts, monkeypatch):
    def full(*_, **__):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_text", full)
    for _ in range(2):
        check_once(parts())
        assert len(parts.looks) == 3
