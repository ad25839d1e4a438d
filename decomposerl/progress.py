"""How far the long steps of this process are.

A long step opens a ``bar`` and advances it; ``watched`` passes all open bars to a function. Without
a watcher nothing is shown. Any thread may open and move bars.
"""

import contextlib
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Self


@dataclass(slots=True, eq=False)
class Bar:
    """``done`` of ``total`` units; ``note`` is a short fact beside them, such as money spent.

    ``known`` units were done before it opened, so they say nothing of its rate.
    """

    what: str
    total: int
    unit: str = "items"
    known: int = 0
    note: str = ""
    done: int = field(default=-1)

    def __post_init__(self) -> None:
        """What was known is done."""
        self.done = max(self.done, self.known)

    def advance(self, count: int = 1, note: str = "") -> None:
        """``count`` more are done."""
        with _LOCK:
            self.done, self.note = self.done + count, note or self.note
        _show()

    def move(self, done: int) -> None:
        """``done`` are done in all."""
        with _LOCK:
            self.done = done
        _show()


Watcher = Callable[[Sequence[Bar]], None]
"""Receives the open bars, outermost first, whenever one opens, moves or closes."""
_LOCK = threading.Lock()
_bars: list[Bar] = []
_watchers: list[Watcher] = []


@contextlib.contextmanager
def bar(what: str, total: int, unit: str = "items", known: int = 0) -> Iterator[Bar]:
    """A bar that is open during the block; where all is done already it is never shown."""
    one = Bar(what, total, unit, known)
    shown = [one] if one.done < total else []
    _change(shown, [])
    try:
        yield one
    finally:
        _change([], shown)


@contextlib.contextmanager
def watched(watcher: Watcher) -> Iterator[None]:
    """Show the bars of this process to ``watcher`` during the block, and to no other."""
    _watchers.append(watcher)
    try:
        yield
    finally:
        _watchers.remove(watcher)


def plain_bars(bars: Sequence[Bar]) -> list[dict[str, Any]]:
    """The bars as JSON values, for ``Mirror.show`` in another process."""
    with _LOCK:
        return [asdict(one) for one in bars]


class Mirror:
    """The bars of another process, shown as bars of this one until the block ends."""

    def __init__(self) -> None:
        """None yet."""
        self._own: dict[tuple[str, int], Bar] = {}

    def show(self, bars: Sequence[Mapping[str, Any]]) -> None:
        """These are open there now, as ``plain_bars`` has them."""
        before, self._own = self._own, {}
        for place, values in enumerate(bars):
            given = Bar(**values)
            key = given.what, place
            one = self._own[key] = before.pop(key, given)
            one.done, one.total, one.note = given.done, given.total, given.note
        _change([one for one in self._own.values() if one not in _bars], list(before.values()))

    def __enter__(self) -> Self:
        """Itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing is open there any more."""
        self.show([])


def _change(opened: Sequence[Bar], closed: Sequence[Bar]) -> None:
    with _LOCK:
        _bars.extend(opened)
        for one in closed:
            _bars.remove(one)
    _show()


def _show() -> None:
    for watcher in _watchers[-1:]:
        with _LOCK:
            bars = list(_bars)
        watcher(bars)
