"""Builds a page database in a process of its own: ``SET DUMP TARGET [LIMIT:NUMBER]``.

``kill:N``: the process kills itself when the N-th line of the dump has been counted.
``memory:BYTES``: its address space may grow by this much, beyond what its imports took.
``file:BYTES``: no file may grow above this size, as on a full disk.
"""

import os
import resource
import signal
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from decomposerl.errors import DecomposeRLError
from resources.corpora.page_build import PAGE_SETS, PageSet, Row, build_pages


def killing(pages: PageSet, at: int) -> PageSet:
    """The same pages; the process is gone when it has made this many rows."""
    made = 0

    def row(page: dict[str, Any]) -> Row | None:
        nonlocal made
        made += 1
        if made == at:
            os.kill(os.getpid(), signal.SIGKILL)
        return pages.row(page)

    return replace(pages, row=row)


def limited(kind: str, size: int) -> None:
    """Limit this process."""
    if kind == "memory":
        size += int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    which = resource.RLIMIT_AS if kind == "memory" else resource.RLIMIT_FSIZE
    resource.setrlimit(which, (size, resource.getrlimit(which)[1]))


def main(name: str, dump: str, target: str, *limits: str) -> int:
    """Build; an error of the project is printed and gives 2."""
    pages = PAGE_SETS[name]
    for kind, size in (limit.split(":") for limit in limits):
        if kind == "kill":
            pages = killing(pages, int(size))
        else:
            limited(kind, int(size))
    try:
        built = build_pages(pages, Path(dump), Path(target))
    except DecomposeRLError as error:
        sys.stdout.write(f"{type(error).__name__}: {error}\n")
        return 2
    sys.stdout.write(f"{built.pages} {built.repeated}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
