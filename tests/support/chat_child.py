"""Programs that tests start, to kill them or to run them beside each other.

``python chat_child.py batch <url> <data> <requests>`` asks one batch of the server.
``python chat_child.py write <data>`` stores one reply after the other, and
prints its number then. ``python chat_child.py race <data> <name>`` stores replies under the
same keys as its siblings, then prints what the cache holds.
"""

import signal
import sys
from itertools import count
from pathlib import Path

from chat_parts import TEMPLATE, reply, request, settings
from fault_server import MODEL
from resources.chat.client import ChatClient
from resources.chat.reply_store import REPLIES_FILE, ReplyStore

IN_FLIGHT = 64
RACED_KEYS = [f"{number:064x}" for number in range(200)]


def batch(url: str, data: Path, size: int) -> None:
    """One batch with many calls in flight.

    Ctrl-C interrupts also where the tests run in the background of a shell, which has its
    children ignore it.
    """
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with ChatClient(settings(url, concurrency=IN_FLIGHT, deadline_s=300.0), data) as chat:
        chat.complete([request(number) for number in range(size)])


def write(data: Path) -> None:
    """Never ends."""
    with ReplyStore(data / REPLIES_FILE, MODEL) as cache:
        for number in count():
            cache.put(f"{number:064x}", reply(f"r {number}"), TEMPLATE)
            print(number, flush=True)  # noqa: T201 - the parent reads it


def race(data: Path, name: str) -> None:
    """One line: the texts stored under the raced keys, after all was written."""
    with ReplyStore(data / REPLIES_FILE, MODEL) as cache:
        for key in RACED_KEYS:
            cache.put(key, reply(name), TEMPLATE)
        held = cache.get(RACED_KEYS)
        print(*(held[key].text for key in RACED_KEYS), flush=True)  # noqa: T201 - as above


if __name__ == "__main__":
    what, *arguments = sys.argv[1:]
    if what == "batch":
        batch(arguments[0], Path(arguments[1]), int(arguments[2]))
    elif what == "write":
        write(Path(arguments[0]))
    else:
        race(Path(arguments[0]), arguments[1])
