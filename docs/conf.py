"""How the site is built: `make docs`. Pages are Markdown (MyST), docstrings plain text, warnings errors, the network not needed."""

from __future__ import annotations

import os
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE / "_ext")]
os.environ["PYTHONPATH"] = os.pathsep.join([str(HERE.parent), *filter(None, [os.environ.get("PYTHONPATH")])])

from dmft.version import __version__  # noqa: E402

project, author, copyright = "learning-dmft", "The learning-dmft developers", "2026, the learning-dmft developers"
version = release = __version__
extensions = ["sphinx.ext.autodoc", "myst_nb", "plain_docstrings", "equation_labels", "gallery_page", "command_page", "mathml"]
exclude_patterns = ["_build", "_ext", "_templates", "gallery/data", "conda"]
source_suffix = {".md": "myst-nb", ".ipynb": "myst-nb"}
myst_enable_extensions = ["attrs_inline", "colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3
suppress_warnings = ["myst.header", "myst.xref_missing"]     # pages may begin with a picture, and name READMEs beside docs
smartquotes = False                         # primes of formulas and options such as --set stay as they are
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
autodoc_class_signature = "mixed"
python_use_unqualified_type_names = True

# Notebooks are executed when they change.
nb_execution_mode = os.environ.get("DOCS_NOTEBOOKS", "cache")
nb_execution_timeout = 600
nb_execution_raise_on_error = True
nb_execution_show_tb = True
nb_execution_cache_path = str(HERE / "_build" / "notebooks")
nb_merge_streams = True

html_math_renderer = "mathml"
html_theme = "pydata_sphinx_theme"
html_title = "learning-dmft"
html_static_path = ["_static"]
templates_path = ["_templates"]
html_sidebars = {"**": ["all-pages"]}
highlight_language = "text"                 # of indented blocks, which are formulas
html_css_files = ["site.css"]
html_show_sourcelink = False
html_theme_options = {
    "show_toc_level": 2,
    "navbar_center": [],
    "footer_start": ["copyright"],
    "footer_end": [],
    "secondary_sidebar_items": {"**": ["page-toc"], "index": []},
    "pygments_light_style": "tango",
    "pygments_dark_style": "monokai",
}
html_context = {"default_mode": "auto"}
