"""What an installation compiles, and that nothing is left for a first run of the funnel."""

import importlib.util
import json
import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

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

from decomposerl.kernels.ahead_of_time import compile_loops
from perf.one_process import funnel

for run in (compile_loops, funnel):
    with event.install_listener("numba:compile", Compiled()) as compiled:
        run()
    print(json.dumps(compiled.loops))
"""


def test_an_installation_compiles_each_loop_once_and_a_run_none(tmp_path: Path):
    """No loop is compiled again for a literal or another kind of number."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        # With less optimisation the same loops are compiled for the same types, in less time.
        env={**os.environ, "NUMBA_CACHE_DIR": str(tmp_path), "NUMBA_OPT": "1"},
        cwd=ROOT,
        stdout=subprocess.PIPE,
        check=True,
    )
    loops, again = map(json.loads, done.stdout.splitlines()[-2:])
    assert len(loops) > 30
    assert {} == {name: times for name, times in loops.items() if times > 1}
    assert {} == again


SOURCE = """
from decomposerl.kernels.jit import compiled

@compiled
def double(number):
    return 2 * number
"""


def loaded(path: Path) -> Any:  # noqa: ANN401 - a compiled function
    """The compiled function of a module, as a new process would find it."""
    spec = importlib.util.spec_from_file_location("some_loops", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.double


def test_code_is_reused_until_any_loop_changes(tmp_path: Path):
    """The second process compiles nothing; one with other loops does not take the old code."""
    path = tmp_path / "some_loops.py"
    path.write_text(SOURCE, "utf-8")
    first, second, changed = loaded(path), loaded(path), loaded(path)
    assert [4, 4] == [first(2), second(2)]
    assert (1, 0) == (len(first.stats.cache_misses), len(second.stats.cache_misses))
    index = changed._cache._cache_file
    index._version = f"not {index._version}"
    assert changed(2) == 4
    assert len(changed.stats.cache_misses) == 1


def test_code_of_classes_that_are_gone_is_not_read(tmp_path: Path):
    """A stored index that names a renamed class is skipped when the loops have changed."""
    path = tmp_path / "some_loops.py"
    path.write_text(SOURCE, "utf-8")
    first, changed, unchanged = loaded(path), loaded(path), loaded(path)
    assert first(2) == 4
    index = first._cache._cache_file
    stale = b"cno_such_module\nGone\n."  # a pickle of ``no_such_module.Gone``
    Path(index._index_path).write_bytes(pickle.dumps(index._version) + stale)
    changed._cache._cache_file._version = f"not {index._version}"
    assert changed(2) == 4
    Path(index._index_path).write_bytes(pickle.dumps(index._version) + stale)
    with pytest.raises(ModuleNotFoundError, match="no_such_module"):
        unchanged(2)


def test_without_a_folder_for_it_code_is_compiled_in_each_process():
    """Numba refuses to keep the code of a function that has no file; it is compiled anyway."""
    namespace: dict[str, Any] = {}
    exec(compile(SOURCE, "<no file>", "exec"), namespace)  # noqa: S102 - our own text
    double = namespace["double"]
    assert double(2) == 4
    assert "_NullCache" in str(type(double._cache)) or not hasattr(double._cache, "_cache_file")
