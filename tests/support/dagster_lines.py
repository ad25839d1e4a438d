"""Runs ``dagster`` command lines one after another in one process.

Starting a process for each takes longer than most of the lines. As a program it reads a list of
lists of words from standard input, as JSON, and ends at the first that fails.
"""

import json
import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence

from dagster._cli import main

from project import ROOT

MODULE = "dagster_project.definitions"


def run_lines(lines: Sequence[str], environment: Mapping[str, str]) -> None:
    """Run lines that start with the program in a process with that environment; all succeed."""
    done = subprocess.run(
        [sys.executable, __file__],
        cwd=ROOT,
        env={"PYTHONPATH": str(ROOT), **environment},
        input=json.dumps([shlex.split(line)[1:] for line in lines]),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert 0 == done.returncode, done.stdout[-3_000:]


def status(words: Sequence[str]) -> int | str | None:
    """Exit status of one command line, which loads the project's definitions anew."""
    sys.argv[:] = ["dagster", *words]
    sys.modules.pop(MODULE, None)
    try:
        main()
    except SystemExit as ended:
        return ended.code
    return None


if __name__ == "__main__":
    for line in json.load(sys.stdin):
        if failed := status(line):
            sys.exit(f"{shlex.join(line)}: status {failed}")
