"""Stands in for ``pip install -e ".[...]"``: fails for an extra that the project does not have."""

import re
import sys
import tomllib

from project import ROOT

EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"][
    "optional-dependencies"
]
NAMED = re.fullmatch(r"\.\[([\w,]+)\]", sys.argv[-1])
sys.exit(NAMED is None or not set(NAMED[1].split(",")) <= set(EXTRAS))
