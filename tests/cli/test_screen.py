"""What a person sees in a terminal of 80 columns: no broken lines, nothing cut off."""

import sys

import pytest
import typer.main

from dhilgt.cli import shell
from dhilgt.cli.app import app
from tests.cli.cases import run


def commands(command=None, path=()):
    command = command or typer.main.get_command(app)
    below = getattr(command, "commands", {})
    return [path, *(found for name, one in below.items() for found in commands(one, (*path, name)))]


@pytest.mark.parametrize("path", commands(), ids=" ".join)
def test_help_fits_80_columns(path):
    lines = run(*path, "--help").stdout.splitlines()
    assert lines
    assert [line for line in lines if len(line) > 80] == []


@pytest.mark.parametrize("group", [(), ("datasets",), ("bench",), ("plot",)])
def test_no_summary_of_a_command_is_cut_off(group):
    text = run(*group, "--help").stdout
    listed = text.partition("Commands:\n")[2].partition("\n\n")[0]
    assert listed.strip()
    assert "..." not in listed


def test_what_people_use_first_is_listed_first():
    names = list(typer.main.get_command(app).commands)
    assert names[:3] == ["train", "predict", "evaluate"]


def test_long_values_of_a_table_are_folded_in_a_terminal_only(monkeypatch, capsys):
    words = " ".join(["value"] * 30)
    shell.print_table([("short", "1"), ("settings", words)])
    assert capsys.readouterr().out.splitlines() == ["short     1", f"settings  {words}"]
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    shell.print_table([("short", "1"), ("settings", words)])
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80
    assert " ".join(line[10:] for line in lines[1:]) == words
    assert all(line.startswith(" " * 10) for line in lines[2:])


def test_a_long_last_column_is_folded_in_a_terminal(monkeypatch, capsys):
    rows = [("stage", "how sure"), ("labels", "within a factor of five; " * 5), ("all", "yes")]
    shell.print_columns(rows)
    assert len(capsys.readouterr().out.splitlines()) == 3
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    shell.print_columns(rows)
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 60
    assert [line for line in lines if not line.startswith(" ")][1:] == [lines[1], "all     yes"]
