"""Progress: what a watcher sees of the bars of this process, and of another one."""

import json
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest

from decomposerl.progress import Bar, Mirror, bar, plain_bars, watched


def seen(bars: Sequence[Bar]) -> list[tuple[str, int]]:
    return [(one.what, one.done) for one in bars]


def test_a_watcher_sees_every_change():
    """Opening, moving and closing, outermost first; nothing after the block.

    A step whose results are all stored appears nowhere, and may still be advanced.
    """
    looks: list[list[tuple[str, int]]] = []
    with watched(lambda bars: looks.append(seen(bars))):
        with bar("stored", 3, known=3) as stored:
            stored.advance(0)
        assert [] == [look for look in looks if look]
        looks.clear()
        with bar("outer", 4, known=1) as outer, bar("inner", 2) as inner:
            inner.advance(2)
            outer.move(4)
        assert [] == looks[-1]
    with bar("unseen", 1) as unseen:
        unseen.advance()
    assert [
        [("outer", 1)],
        [("outer", 1), ("inner", 0)],
        [("outer", 1), ("inner", 2)],
        [("outer", 4), ("inner", 2)],
        [("outer", 4)],
        [],
    ] == looks


def test_the_last_watcher_alone_sees_and_errors_close_bars():
    """A watcher within another one replaces it, until its block ends."""
    outer: list[int] = []
    inner: list[int] = []
    with watched(lambda bars: outer.append(len(bars))):
        with (
            pytest.raises(ValueError, match="broken"),
            watched(lambda bars: inner.append(len(bars))),
            bar("one", 2),
        ):
            raise ValueError("broken")
        assert ([], [1, 0]) == (outer, inner)
        with bar("two", 2):
            pass
    assert [1, 0] == outer


def test_threads_lose_no_count():
    """Advances of several threads add up."""
    with bar("shared", 4_000) as shared, ThreadPoolExecutor(4) as pool:
        for _ in range(4_000):
            pool.submit(shared.advance)
    assert 4_000 == shared.done


def test_bars_of_another_process_are_mirrored():
    """They pass through JSON; what is missing from a message is closed, the end closes all."""
    sent: list[str] = []
    with watched(lambda bars: sent.append(json.dumps(plain_bars(bars)))):
        with bar("training", 9, "steps") as steps, bar("held out", 5) as traces:
            traces.advance(3, note="slow")
        steps.move(9)
    looks: list[list[tuple[str, int]]] = []
    with watched(lambda bars: looks.append(seen(bars))), Mirror() as mirror:
        for message in sent[1:3]:
            mirror.show(json.loads(message))
        assert ("training", 0) == looks[-1][0]
        assert ("held out", 3) == looks[-1][1]
        mirror.show(json.loads(sent[3]))
        assert [("training", 0)] == looks[-1]
    assert [] == looks[-1]
