"""One decorator that compiles a hot loop and keeps the machine code on disk if it can.

Takes a function of arrays and numbers, gives its compiled form. Only the ``*_loops``
modules use it, and they are imported inside functions: a run that needs no loop never
loads the compiler.

Left out deliberately: parallel loops. A compiled loop releases the interpreter lock, and
``threads.Team`` runs several at once; no OpenMP team ever spins beside another process.
"""

from collections.abc import Callable
from typing import Any, TypeVar

Function = TypeVar("Function", bound=Callable[..., Any])


def compiled(function: Function) -> Function:
    """``function`` compiled on first call; its machine code is reused by later processes.

    Where neither the package folder nor the user's cache folder can be written, it is
    compiled anew in each process.
    """
    from numba import njit

    try:
        fast: Function = njit(function, cache=True, nogil=True)
    except RuntimeError:  # numba found no folder that it may write to
        fast = njit(function, nogil=True)
    return fast


def inlined(function: Function) -> Function:
    """``function`` for use inside compiled loops, pasted into them before they compile.

    Worth it for small functions that take arrays: a call counts references to each of them.
    """
    from numba import njit

    pasted: Function = njit(function, inline="always")
    return pasted
