"""Paths of the project and of the test helpers, for tests and the programs they start."""

import os
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SUPPORT = ROOT / "tests/support"
PYTHONPATH = os.pathsep.join([str(ROOT), str(SUPPORT)])
