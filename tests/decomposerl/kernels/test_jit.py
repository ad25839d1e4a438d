"""Machine code is kept on disk, and never outlives the loops that it was made of."""

import importlib.util
from pathlib import Path
from typing import Any

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
    own, loops = index._source_stamp
    index._source_stamp = (own, f"not {loops}")
    assert changed(2) == 4
    assert len(changed.stats.cache_misses) == 1


def test_without_a_folder_for_it_code_is_compiled_in_each_process():
    """Numba refuses to keep the code of a function that has no file; it is compiled anyway."""
    namespace: dict[str, Any] = {}
    exec(compile(SOURCE, "<no file>", "exec"), namespace)  # noqa: S102 - our own text
    double = namespace["double"]
    assert double(2) == 4
    assert "_NullCache" in str(type(double._cache)) or not hasattr(double._cache, "_cache_file")
