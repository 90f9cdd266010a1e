"""The examples of the documentation do what they say.

Blocks marked `pycon` and `console` are run, those of a page in order, in a folder of their own;
what is printed must match, `...` standing for anything. Docstring examples are run as they are.
"""

import doctest
import os
import pkgutil
import re
import shlex
import subprocess
import sys
import warnings
from importlib import import_module
from pathlib import Path

import pytest
import typer.main
from typer.testing import CliRunner

import dhilgt
from dhilgt.cli.app import app

ROOT = Path(__file__).parent.parent
PAGES = [
    ROOT / "README.md",
    *(page for page in sorted((ROOT / "docs").rglob("*.md")) if "_build" not in page.parts),
]
BLOCK = re.compile(r"^```(pycon|console)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
MODULES = sorted(
    module.name
    for module in pkgutil.walk_packages(dhilgt.__path__, "dhilgt.")
    if module.name != "dhilgt._native"
)


def run_python(text, names, page):
    test = doctest.DocTestParser().get_doctest(text, names, page, page, 0)
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS, verbose=False)
    said = []
    runner.run(test, out=said.append, clear_globs=False)
    names.update(test.globs)
    assert runner.failures == 0, "".join(said)


def printed(command):
    """What a command prints. A plain `dhilgt ...` runs in this process, which has torch loaded."""
    if command.startswith("dhilgt ") and not re.search(r"[|<>&;$`*]|--jobs", command):
        arguments = shlex.split(command)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(sys, "argv", arguments)
            return CliRunner().invoke(app, arguments[1:], prog_name="dhilgt").output
    environment = dict(os.environ)
    environment["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{environment['PATH']}"
    return subprocess.run(
        ["bash", "-c", command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        text=True, env=environment, check=False,
    ).stdout  # fmt: skip


def run_shell(text):
    for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        command, _, expected = part.partition("\n")
        found = printed(command)
        same = doctest.OutputChecker().check_output(expected, found, doctest.ELLIPSIS)
        assert same, f"$ {command}\nexpected:\n{expected}\nfound:\n{found}"


# The first starts a cluster. Of the last five, each trains with the default, which tries several
# models.
HEAVY = (
    "concepts/cluster.md",
    "commands/bench.md", "commands/demo.md", "commands/report.md", "tutorials/gpu-box.md",
    "tutorials/cluster.md",
    "README.md", "docs/index.md", "tutorials/csv-files.md", "tutorials/notebook.md",
    "tutorials/pyg.md",
)  # fmt: skip


def page_cases():
    """The pages; those that start many processes or train long are left to the full run."""
    for page in PAGES:
        heavy = [pytest.mark.full] if str(page).endswith(HEAVY) else []
        yield pytest.param(page, id=str(page.relative_to(ROOT)), marks=heavy)


@pytest.mark.parametrize("page", list(page_cases()))
def test_examples_of_pages(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = {}
    with warnings.catch_warnings():  # an example may change the filters
        run_blocks(page, names)


def run_blocks(page, names):
    for language, text in BLOCK.findall(page.read_text(encoding="utf-8")):
        if language == "pycon":
            run_python(text, names, page.name)
        else:
            run_shell(text)


@pytest.mark.parametrize("name", MODULES)
def test_examples_of_docstrings(name):
    result = doctest.testmod(import_module(name))
    assert result.failed == 0


@pytest.mark.parametrize("name", typer.main.get_command(app).commands)
def test_every_option_is_on_its_page(name):
    page = (ROOT / "docs" / "commands" / f"{name}.md").read_text(encoding="utf-8")
    command = typer.main.get_command(app).commands[name]
    options = [
        option
        for part in (command, *getattr(command, "commands", {}).values())
        for parameter in part.params
        for option in (*parameter.opts, *parameter.secondary_opts)
        if option.startswith("--") and option != "--help"
    ]
    assert options
    assert [option for option in options if f"`{option}" not in page] == []


def test_pages_link_to_pages_that_exist():
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        for link in re.findall(r"\]\((?!https?:)([^)#]+)", text):
            assert (page.parent / link).exists(), f"{page}: {link}"
