"""The documentation's builder: every page is plain Markdown, which GitHub shows as well.

``make docs`` builds ``docs/_build``; a warning is an error. ``_toc.yml`` has the pages' order.
"""

project = "DecomposeRL"
author = "The DecomposeRL project contributors"
project_copyright = author
extensions = ["myst_parser", "sphinx_external_toc", "sphinx_copybutton"]
exclude_patterns = ["_build", "examples"]
html_theme = "furo"
html_title = "DecomposeRL"
html_copy_source = False
html_show_sourcelink = False

external_toc_path = "_toc.yml"
myst_enable_extensions = ["tasklist"]
myst_heading_anchors = 4
copybutton_exclude = ".linenos, .gp"
linkcheck_anchors = False
linkcheck_timeout = 20
