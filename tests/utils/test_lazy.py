"""Names of a package are imported on first use, and a missing extra is named."""

import subprocess
import sys

import pytest

from dhilgt.utils.lazy import lazy_names


@pytest.fixture
def module(tmp_path, monkeypatch):
    """A function that makes a module of some text, importable by its name."""
    monkeypatch.syspath_prepend(tmp_path)

    def make(name, text):
        (tmp_path / f"{name}.py").write_text(text)
        return name

    yield make
    for path in tmp_path.glob("*.py"):
        sys.modules.pop(path.stem, None)


def test_a_name_is_found_in_its_module_which_is_imported_then(module):
    get = lazy_names("demo", {"answer": module("lazy_answer", "answer = 42\n")})
    assert "lazy_answer" not in sys.modules
    assert get("answer") == 42
    assert "lazy_answer" in sys.modules


def test_a_name_that_ends_the_path_of_its_module_is_the_module():
    import os.path

    assert lazy_names("demo", {"path": "os.path"})("path") is os.path


def test_an_unknown_name_is_an_attribute_error_of_the_package():
    with pytest.raises(AttributeError, match="module 'demo' has no attribute 'other'"):
        lazy_names("demo", {"sqrt": "math"})("other")


@pytest.mark.parametrize("extra", ["torch", "safetensors"])
def test_a_missing_extra_says_how_to_install_it(module, monkeypatch, extra):
    monkeypatch.setitem(sys.modules, extra, None)  # as if it were not installed
    name = module("lazy_extra", f"import {extra}\nTrainer = 1\n")
    with pytest.raises(ImportError, match=rf"dhilgt.Trainer needs {extra}.*'dhilgt\[train\]'"):
        lazy_names("dhilgt", {"Trainer": name})("Trainer")


def test_any_other_missing_module_is_an_error_of_its_own(module):
    name = module("lazy_broken", "import there_is_no_such_module\n")
    with pytest.raises(ModuleNotFoundError, match="there_is_no_such_module"):
        lazy_names("demo", {"thing": name})("thing")


def test_the_package_imports_no_torch_before_it_is_needed():
    script = "import sys, dhilgt; dhilgt.Graph, dhilgt.HubLabels; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout == "False\n", done.stderr
