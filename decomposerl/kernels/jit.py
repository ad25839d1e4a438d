"""One decorator that compiles a hot loop and keeps the machine code on disk if it can.

Takes a function of arrays and numbers, gives its compiled form. Only the ``*_loops``
modules use it, and they are imported inside functions: a run that needs no loop never
loads the compiler.
"""

import hashlib
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

Function = TypeVar("Function", bound=Callable[..., Any])


def compiled(function: Function) -> Function:
    """``function`` compiled on first call; its machine code is reused by later processes.

    It is compiled anew when any loop of the package has changed, and in each process where
    neither the package folder nor the user's cache folder can be written.
    """
    from numba import njit

    try:
        fast: Any = njit(function, cache=True, nogil=True, no_cfunc_wrapper=True)
    except RuntimeError:  # numba found no folder that it may write to
        fast = njit(function, nogil=True)
    else:
        if hasattr(fast, "_cache"):  # not where numba is switched off
            # numba looks at the function's own file alone, but its code holds other loops too
            index = fast._cache._cache_file  # noqa: SLF001 - there is no public name
            index._source_stamp = (index._source_stamp, _loops_digest())  # noqa: SLF001 - the same
    compiled_function: Function = fast
    return compiled_function


@lru_cache(maxsize=1)
def _loops_digest() -> str:
    """Digest of everything that is compiled, or compiled in as a constant."""
    folder = Path(__file__).parent
    sources = [*sorted(folder.glob("*_loops.py")), folder / "code_points.py"]
    texts = (path.read_bytes() for path in sources if path.is_file())
    return hashlib.sha256(b"\0".join(texts)).hexdigest()


def internal(function: Function) -> Function:
    """``function`` for the calls of other loops alone: Python cannot call what comes out.

    Compiling the way in from Python would take longer than compiling a small loop.
    """
    from numba import njit

    hidden: Function = njit(function, nogil=True, no_cfunc_wrapper=True, no_cpython_wrapper=True)
    return hidden


def inlined(function: Function) -> Function:
    """``function`` for use inside compiled loops, pasted into them before they compile.

    Worth it for small functions that take arrays: a call counts references to each of them.
    """
    from numba import njit

    pasted: Function = njit(function, inline="always")
    return pasted
