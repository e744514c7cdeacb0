"""How Sphinx makes the site of docs/: `make docs` writes it to docs/_build/html, to be read offline."""

from __future__ import annotations

import sys
from importlib.metadata import version as installed
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "_ext"))

project = "Activated Gradients"
author = "The Activated Gradients contributors"
project_copyright = author
version = release = installed("activated-gradients")

extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx_copybutton"]
extensions += ["accessibility", "commands", "docstrings", "links"]  # docs/_ext
exclude_patterns = ["_build", "_ext", "_static"]

# Pages read alike here and on a code host: plain Markdown, anchors as hosts make them.
myst_heading_anchors = 4
smartquotes_action = "qe"  # not dashes: --quick is an option

# Notebooks are kept without outputs and run when the site is built; one that fails, fails the build.
nb_execution_mode = "force"
nb_execution_raise_on_error = True
nb_execution_timeout = 120  # seconds for a cell, on a machine that is busy with other things too
nb_merge_streams = True

# Not "members": True, which would overrule the lists that pages give.
autodoc_default_options = {"member-order": "bysource"}
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
# Signatures of what needs a framework are shown without it.
autodoc_mock_imports = ["accelerate", "jax", "keras", "lightning", "optax", "transformers"]
napoleon_google_docstring = True
napoleon_numpy_docstring = False
napoleon_use_param = False  # "params, lr, momentum: as in torch" stays one line
napoleon_use_rtype = False
napoleon_use_ivar = True  # attributes as a list, not a heading each

# A reference to a name of ours must resolve. Not so types of signatures, which autodoc writes as classes by
# the module that holds them, and names of torch, whose pages are not fetched.
nitpicky = True
nitpick_ignore_regex = [(r"py:.*", r"(?!gaf\.).*"), (r"py:class", r"gaf\.\w+\..*")]

html_theme = "furo"
html_title = "Activated Gradients"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sphinx = False
html_copy_source = False
html_theme_options = {"navigation_with_keys": True}
copybutton_exclude = ".linenos, .gp"
