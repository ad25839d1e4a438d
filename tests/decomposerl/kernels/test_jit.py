"""Machine code is kept on disk, and never outlives the loops that it was made of."""

import importlib.util
import pickle
from pathlib import Path
from typing import Any

import pytest

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
