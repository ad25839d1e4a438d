"""Ctrl-C and SIGTERM: one sentence on the terminal, and the process is gone within ``GRACE_S``.

``ends_soon`` guards a command. A thread notices the signal, whatever the main thread is in: a
matrix product, a compiler, waiting for workers. The terminal shows one sentence and from then on
nothing else. The main thread may unwind, which removes temporary files, cancels children and
records the run; after ``GRACE_S``, or at a second signal, the process ends as if killed. That is
safe here: files are replaced whole, answers are stored as they come, watchdogs end children.

``held`` asks for more time where a child saves its state; the terminal says so.

Ctrl-C at a terminal goes to every process of the group, and Dagster has Python children there that
would each print a traceback. A child takes over which signals its starter's thread blocks: the main
thread blocks SIGINT, the guard's takes it and wakes the main thread by SIGURG. Without that a
main thread that waits for others would wait on: polars has SIGINT restart system calls.

Left out deliberately: processes that Dagster's daemon started, which are cancelled by Dagster.
"""

import contextlib
import os
import select
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

GRACE_S = 1.5
KEPT = "what was finished is kept; run the same command again to continue"
STAGES_KEPT = "finished stages and cached answers are kept; run the same command again to continue"
_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_ECHO_S = 0.3  # one signal may come twice: to the group, and from a starter that passes it on
_POLL_S = 0.05
_OUTPUTS = (1, 2)
_held: list[str] = []


@contextlib.contextmanager
def ends_soon(kept: str = KEPT) -> Iterator[None]:
    """Guard the block; a signal in it ends the process with 128 + its number."""
    guard = guarded(kept)
    try:
        yield
    finally:
        if guard is not None:
            guard.close()


@contextlib.contextmanager
def held(why: str) -> Iterator[None]:
    """Do not cut the block short at a first signal; ``why`` is said where it takes long."""
    _held.append(why)
    try:
        yield
    finally:
        _held.remove(why)


def guarded(kept: str) -> "Guard | None":
    """A guard until it is closed.

    None outside the main thread, which alone may ask for signals, and where an output is closed,
    whose number any file may then have.
    """
    if threading.current_thread() is not threading.main_thread():
        return None
    try:
        return Guard(kept, {(os.fstat(fd).st_dev, os.fstat(fd).st_ino) for fd in _OUTPUTS})
    except OSError:
        return None


class Guard:
    """Signals on their way through a pipe to a thread of their own."""

    def __init__(self, kept: str, shown: set[tuple[int, int]]) -> None:
        """Listen from now on; SIGTERM interrupts as Ctrl-C does, unless something handles it.

        ``shown`` are device and node of the outputs.
        """
        self._kept, self._number, self._noticed_at = kept, 0, 0.0
        self._interrupted = False
        self._reading = threading.RLock()  # a handler may run while its thread reads
        self._terminal = os.dup(2)
        self._shown = shown
        self._pipe = os.pipe()
        for end in self._pipe:
            os.set_blocking(end, False)
        self._handlers = {signal.SIGURG: signal.signal(signal.SIGURG, lambda *_: None)}
        for number in _SIGNALS:
            if signal.getsignal(number) in {signal.SIG_DFL, signal.default_int_handler}:
                self._handlers[number] = signal.signal(number, self._interrupt)
        self._mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        self._before = signal.set_wakeup_fd(self._pipe[1], warn_on_full_buffer=False)
        os.register_at_fork(after_in_child=self._forget)
        self._open = True
        threading.Thread(target=self._watch, name="interrupt", daemon=True).start()

    def close(self) -> None:
        """End the process where a signal came, else give everything back."""
        if not self._open:
            return
        if self._came():
            os._exit(128 + self._number)
        self._open = False
        signal.set_wakeup_fd(self._before)
        for number, handler in self._handlers.items():
            signal.signal(number, handler)
        signal.pthread_sigmask(signal.SIG_SETMASK, self._mask)
        os.write(self._pipe[1], b"\0")  # wakes the thread, which closes what it reads

    def _interrupt(self, _number: int, _frame: object) -> None:
        """As Python does, but once a signal, and not before the terminal is silent."""
        self._came()
        if self._interrupted and time.monotonic() < self._noticed_at + _ECHO_S:
            return
        self._interrupted = True
        raise KeyboardInterrupt

    def _watch(self) -> None:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
        while self._open and not self._came():
            select.select([self._pipe[0]], [], [])
        if self._open:
            self._see_to_the_end()
        for fd in (*self._pipe, self._terminal):
            os.close(fd)

    def _see_to_the_end(self) -> None:
        deadline, said = time.monotonic() + GRACE_S, False
        while self._open and (_held or time.monotonic() < deadline) and not self._came_again():
            if _held:
                deadline = time.monotonic() + GRACE_S
                if not said and time.monotonic() > self._noticed_at + GRACE_S:
                    said = self._say(f"{_held[0]}; interrupt again to end at once")
            time.sleep(_POLL_S)
        if self._open:
            os._exit(128 + self._number)

    def _came(self) -> bool:
        """Whether a signal came; the first one silences everything else."""
        with self._reading:
            for number in self._numbers():
                if not self._number:
                    self._number, self._noticed_at = number, time.monotonic()
                    self._silence()
                    self._say(f"stopped: {self._kept}")
                    signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGURG)
            return bool(self._number)

    def _came_again(self) -> bool:
        with self._reading:
            return bool(self._numbers()) and time.monotonic() > self._noticed_at + _ECHO_S

    def _numbers(self) -> list[int]:
        try:
            return [number for number in os.read(self._pipe[0], 64) if number in _SIGNALS]
        except BlockingIOError:
            return []

    def _say(self, sentence: str) -> bool:
        start = "\n" if os.isatty(self._terminal) else ""  # after ^C, or a line in progress
        with contextlib.suppress(OSError):
            os.write(self._terminal, f"{start}{sentence}\n".encode())
        return True

    def _silence(self) -> None:
        """Point every way to the terminal elsewhere, copies that were put aside too."""
        nowhere = os.open(os.devnull, os.O_WRONLY)
        for fd in sorted(int(path.name) for path in Path("/dev/fd").iterdir()):
            with contextlib.suppress(OSError):
                found = os.fstat(fd)
                shown = fd > 0 and (found.st_dev, found.st_ino) in self._shown
                if fd != self._terminal and (shown or fd in _OUTPUTS):
                    os.dup2(nowhere, fd, inheritable=os.get_inheritable(fd))

    def _forget(self) -> None:
        """A fork has the pipe and none of the threads: its signals are not this process's."""
        if self._open:
            self._open = False
            with contextlib.suppress(ValueError):
                signal.set_wakeup_fd(-1)
