"""How the documentation is built: `make docs`."""

import dhilgt

project = "dhilgt"
author = "The dhilgt developers"
copyright = author
version = release = dhilgt.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3
exclude_patterns = ["_build"]

html_theme = "furo"
html_title = f"dhilgt {version}"
html_copy_source = False

default_role = "code"  # docstrings are read as plain text as often as here
autodoc_typehints = "description"
autodoc_typehints_description_target = "documented"
autodoc_member_order = "bysource"
