"""A guarded program for tests of interrupts: ``python interrupt_child.py WHAT``.

Prints ``ready`` when it is in the middle of ``WHAT``.
"""

import os
import signal
import subprocess
import sys
import threading
import time

from decomposerl.kernels.threads import Team
from resources.process.interrupt import ends_soon, more_time


def say(words: str) -> None:
    """At once."""
    sys.stdout.write(f"{words}\n")
    sys.stdout.flush()


def sleeping() -> None:
    """The main thread waits and would say much when it ends."""
    copy = os.dup(2)
    try:
        say("ready")
        time.sleep(60)
    finally:
        say("this is not shown")
        os.write(copy, b"nor is this\n")


def team() -> None:
    """Workers are at tasks that take far too long."""
    with Team(2) as workers:
        say("ready")
        workers.run([lambda: time.sleep(60)] * 8)


def deaf() -> None:
    """The main thread swallows every interrupt."""
    say("ready")
    while True:
        try:
            time.sleep(60)
        except KeyboardInterrupt:
            continue


def compiled() -> None:
    """The main thread is in one long call that no signal can end."""
    threading.Timer(0.5, lambda: say("ready")).start()
    sum(len(os.urandom(1 << 28)) for _ in range(1_000))


def saving() -> None:
    """A child takes longer than the grace to save its state."""
    try:
        say("ready")
        time.sleep(60)
    finally:
        with more_time("the child is saving"):
            time.sleep(float(sys.argv[2]))


def serving() -> None:
    """Ends by itself, and says what its signal means."""
    with more_time("it is busy", "what is under way is finished"):
        sleeping()


def family() -> None:
    """Python children in the same group, as Dagster has them."""
    for _ in range(2):
        subprocess.Popen([sys.executable, "-c", "import time; time.sleep(4)"])
    time.sleep(1)
    sleeping()


def unharmed() -> None:
    """No signal comes: handlers are given back, twice over."""
    say("ready")


if __name__ == "__main__":
    # A shell has its background jobs ignore Ctrl-C, and children inherit that from the tests.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    what = globals()[sys.argv[1]]
    with ends_soon("all is kept"):
        what()
    with ends_soon("all is kept"):
        say("again")
