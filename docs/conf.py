"""How the documentation is built: `make docs`."""

import inspect

import dhilgt

project = "dhilgt"
author = "The dhilgt developers"
copyright = author
version = release = dhilgt.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3
exclude_patterns = ["_build", "results/*-table.md"]

html_theme = "furo"
html_title = f"dhilgt {version}"
html_copy_source = False

default_role = "code"  # docstrings are read as plain text as often as here
autodoc_mock_imports = ["torch", "safetensors"]  # large, and not needed to read signatures
autodoc_typehints = "description"
autodoc_typehints_description_target = "documented"
autodoc_member_order = "bysource"


def _keep_properties_plain(app, what, name, obj, options, lines):
    # A colon in the first sentence of a property would be taken for "type: description".
    if what == "property":
        lines[:] = [*(inspect.getdoc(obj) or "").splitlines(), ""]


def setup(app):
    """Called by Sphinx."""
    app.connect("autodoc-process-docstring", _keep_properties_plain, priority=600)
