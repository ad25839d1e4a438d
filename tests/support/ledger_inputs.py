"""What the ledger's rows are made from, and the commands that some of them run."""

import json
import os
import re
import shlex
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Any

from typer.testing import CliRunner, Result

from dagster_project.cli import app
from project import SUPPORT

INPUTS: dict[str, dict[str, Any]] = json.loads((SUPPORT / "ledger_inputs.json").read_text("utf-8"))
"""Awkward texts, calls, replies and rows, by the module that uses them."""
_KEPT = ("PATH", "HOME", "HF_HUB_OFFLINE", "OMP_NUM_THREADS")
_PLAIN = {"COLUMNS": "2000", "NO_COLOR": "1", "TERM": "dumb", "HF_HUB_OFFLINE": "1"}
_FOLDERS = {"DAGSTER_HOME": "history", "DECOMPOSERL_DATA": "data"}


@contextmanager
def plain_environment(**variables: str) -> Iterator[None]:
    """No variable of this shell but what programs need; what the block sets is undone."""
    before = dict(os.environ)
    kept = {name: before[name] for name in _KEPT if name in before}
    try:
        os.environ.clear()
        os.environ.update(kept | _PLAIN | variables)
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def call(line: str, codes: Collection[int] = (0,)) -> Result:
    """Run a shell line in this process: variables, then a command that ends with such a code."""
    words = shlex.split(line)
    given = dict(word.split("=", 1) for word in words if re.match(r"[A-Z_]+=", word))
    with plain_environment(**(_FOLDERS | given)):
        done = CliRunner().invoke(app, words[len(given) :])
    if done.exit_code not in codes:
        raise AssertionError(f"{line}: {done.output}")
    return done
