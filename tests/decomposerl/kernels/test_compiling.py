"""What an installation compiles, and that nothing is left for a first run of the funnel."""

import json
import os
import subprocess
import sys
from pathlib import Path

from project import ROOT

PROGRAM = """
import collections, json, sys
from numba.core import event

class Compiled(event.Listener):
    def __init__(self):
        self.loops = collections.Counter()
    def on_start(self, found):
        function = found.data["dispatcher"].py_func
        if function.__module__.startswith("decomposerl."):
            self.loops[f"{function.__module__}.{function.__qualname__}"] += 1
    def on_end(self, found):
        pass

with event.install_listener("numba:compile", Compiled()) as compiled:
    if sys.argv[1] == "installation":
        from decomposerl.kernels.ahead_of_time import compile_loops as run
    else:
        from perf.one_process import funnel as run
    run()
print(json.dumps(compiled.loops))
"""


def _compiled(what: str, cache: Path) -> dict[str, int]:
    """How often each loop was compiled."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, what],
        # With less optimisation the same loops are compiled for the same types, in less time; with
        # none at all numba keeps no machine code.
        env={**os.environ, "NUMBA_CACHE_DIR": str(cache), "NUMBA_OPT": "1"},
        cwd=ROOT,
        stdout=subprocess.PIPE,
        check=True,
    )
    loops: dict[str, int] = json.loads(done.stdout.splitlines()[-1])
    return loops


def test_an_installation_compiles_each_loop_once_and_a_run_none(tmp_path: Path):
    """No loop is compiled again for a literal or another kind of number."""
    loops = _compiled("installation", tmp_path)
    assert len(loops) > 30
    assert {} == {name: times for name, times in loops.items() if times > 1}
    assert {} == _compiled("first run", tmp_path)
