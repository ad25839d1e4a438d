"""What a first run of the funnel compiles: each loop of the package once."""

import json
import os
import subprocess
import sys
from pathlib import Path

from project import ROOT

PROGRAM = """
import collections, json
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
    from perf.one_process import funnel
    funnel()
print(json.dumps(compiled.loops))
"""


def test_a_first_run_compiles_each_loop_once(tmp_path: Path):
    """No loop is compiled again for a literal or another kind of number."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        # Without optimisation the same loops are compiled for the same types, in less time.
        env={**os.environ, "NUMBA_CACHE_DIR": str(tmp_path), "NUMBA_OPT": "0"},
        cwd=ROOT,
        stdout=subprocess.PIPE,
        check=True,
    )
    loops: dict[str, int] = json.loads(done.stdout.splitlines()[-1])
    assert len(loops) > 30
    assert {} == {name: times for name, times in loops.items() if times > 1}
