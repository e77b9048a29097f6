"""The site: `make site` builds it from these pages, with warnings as errors."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "_site"))

from bitgrove.version import __version__

project = "bitgrove"
author = "the bitgrove developers"
copyright = author
version = release = __version__

extensions = [
    "myst_nb",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx_copybutton",
    "docstrings",
    "repository_links",
]
exclude_patterns = ["_site", "**.ipynb_checkpoints"]
root_doc = "index"

# Markdown: the same pages are read on the site and in the repository.
myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 4
nb_execution_mode = "off"  # notebooks hold their outputs; tests/docs runs them again

# The reference is made from docstrings.
autodoc_typehints = "none"
autodoc_member_order = "bysource"
numpydoc_show_class_members = False
default_role = "code"

# The theme of NumPy, pandas and scikit-learn. Nothing is loaded from elsewhere.
html_theme = "pydata_sphinx_theme"
html_title = "bitgrove"
html_static_path = ["_site/static"]
html_css_files = ["site.css"]
html_js_files = ["parameters.js"]
html_copy_source = False
html_show_sphinx = False
html_sidebars = {"index": [], "install": [], "start": []}
html_theme_options = {
    "logo": {
        "text": "bitgrove",
        "image_light": "_static/mark.svg",
        "image_dark": "_static/mark.svg",
    },
    "header_links_before_dropdown": 7,
    "navbar_align": "left",
    "navbar_end": ["theme-switcher"],
    "navigation_with_keys": False,
    "show_prev_next": True,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "pygments_light_style": "tango",
    "pygments_dark_style": "github-dark",
}
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True
