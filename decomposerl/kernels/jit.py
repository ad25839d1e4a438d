"""Decorators that compile hot loops and keep the machine code on disk where possible.

Only the ``*_loops`` modules use them, and they are imported inside functions: a run that needs
no loop never loads the compiler.
"""

import hashlib
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar, cast

Function = TypeVar("Function", bound=Callable[..., Any])


def compiled(function: Function) -> Function:
    """``function`` compiled on first call; later processes reuse its machine code.

    It is compiled again when any loop of the package has changed, and in each process where
    neither the package folder nor the user's cache folder is writable.
    """
    from numba import njit

    # nogil and no parallel loops: ``threads.Team`` runs several loops at once, so that no team of
    # OpenMP threads ever spins beside another process.
    try:
        fast: Any = njit(function, cache=True, nogil=True, no_cfunc_wrapper=True)
    except RuntimeError:  # numba has no folder that it may write to
        fast = njit(function, nogil=True)
    else:
        if hasattr(fast, "_cache"):  # absent where numba is switched off
            # numba compares the time stamp of the function's own file only, but the machine code
            # holds other loops too. The digest is put into the version, because an index of
            # another version is skipped unread: one that names a class which no longer exists
            # could not be read.
            index = fast._cache._cache_file  # noqa: SLF001 - there is no public name
            index._version = f"{index._version} {_loops_digest()}"  # noqa: SLF001 - the same
    return cast("Function", fast)


@lru_cache(maxsize=1)
def _loops_digest() -> str:
    """Digest of all sources that are compiled, or compiled in as constants."""
    folder = Path(__file__).parent
    sources = [*sorted(folder.glob("*_loops.py")), folder / "code_points.py"]
    texts = (path.read_bytes() for path in sources if path.is_file())
    return hashlib.sha256(b"\0".join(texts)).hexdigest()


def internal(function: Function) -> Function:
    """``function`` compiled for calls from other loops only; Python cannot call it."""
    from numba import njit

    # The wrapper for calls from Python would take longer to compile than a small loop.
    hidden: Function = njit(function, nogil=True, no_cfunc_wrapper=True, no_cpython_wrapper=True)
    return hidden


def inlined(function: Function) -> Function:
    """``function`` pasted into the compiled loops that call it, before they compile."""
    from numba import njit

    # A call counts references to each array argument, which small functions cannot afford.
    pasted: Function = njit(function, inline="always")
    return pasted
