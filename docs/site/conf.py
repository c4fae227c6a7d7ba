# Sphinx configuration of the documentation site. stage.py makes the sources; build.sh runs both.
import os

project = "charl"
copyright = "the charl authors"
release = version = os.environ["SITE_VERSION"]
html_title = "charl " + release
extensions = ["myst_parser"]
myst_heading_anchors = 4  # headings get GitHub's anchors
html_theme = "furo"
html_static_path = ["static"]
html_css_files = ["charl.css"]
html_show_sphinx = False
html_copy_source = False
highlight_language = "none"
