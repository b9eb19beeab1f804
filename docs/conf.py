"""The documentation: Sphinx, since the API reference comes from numpydoc docstrings and the gallery is executed."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

import biasgp

sys.path.insert(0, str(Path(__file__).parent))
import symbols

project, author = "biasgp", "the biasgp developers"
release = version = biasgp.__version__
extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx_gallery.gen_gallery",
]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
exclude_patterns = ["_build", "_templates", "examples"]
myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 4
# What sphinx-gallery is told cannot be kept between builds; a link that leads nowhere is a warning, hence an error.
suppress_warnings = ["config.cache"]
html_theme = "pydata_sphinx_theme"
html_title = f"biasgp {release}"
html_theme_options = {"show_prev_next": False}
html_static_path = ["_static"]
html_css_files, html_js_files = ["site.css"], ["site.js"]
html_sourcelink_suffix = ""
numpydoc_show_class_members = False
autodoc_typehints = "none"
templates_path = ["_templates"]
autosummary_context = {"paper": symbols.paper()}
sphinx_gallery_conf = {
    "examples_dirs": "examples",
    "gallery_dirs": "gallery",
    "filename_pattern": r"/plot_",
    "abort_on_example_error": True,
    "min_reported_time": 5,
    "show_memory": False,
    "copyfile_regex": r".*\.csv",
    "reset_modules": ("matplotlib",),
}
warnings.filterwarnings("ignore", category=biasgp.BiasGPWarning)
