"""On Ctrl-C or SIGTERM, print one sentence and end the process within ``GRACE_S``.

``ends_soon`` guards a command. A thread receives the signal, whatever the main thread does: a
matrix product, a compiler, waiting for workers. The terminal shows one sentence and nothing after
it. The main thread may unwind, which removes temporary files, cancels children and records the run;
after ``GRACE_S``, or at a second signal, the process ends as if killed. That is safe: files are
replaced atomically, replies are stored as they arrive, and watchdogs end children.

``more_time`` extends the grace while a child saves its state. Processes that Dagster's daemon
started are cancelled by Dagster.
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
_ECHO_S = 0.3  # a signal can arrive twice: for the group, and forwarded by a starter
_POLL_S = 0.05
_OUTPUTS = (1, 2)
_reasons_to_wait: list[str] = []
_stopping: list[str] = []


@contextlib.contextmanager
def ends_soon(kept: str = KEPT) -> Iterator[None]:
    """Guard the block; a signal in it ends the process with 128 + its number."""
    guard = start_guard(kept)
    try:
        yield
    finally:
        if guard is not None:
            guard.close()


@contextlib.contextmanager
def more_time(why: str, kept: str = "") -> Iterator[None]:
    """Let the block finish after a first signal; ``why`` is printed if that takes long.

    ``kept`` is the sentence of that signal, by default that of the command.
    """
    _reasons_to_wait.append(why)
    _stopping.append(kept)
    try:
        yield
    finally:
        _reasons_to_wait.remove(why)
        _stopping.remove(kept)


def start_guard(kept: str) -> "Guard | None":
    """A guard that is active until closed.

    None outside the main thread, where Python allows no signal handlers, and where an output is
    closed, because another file may then have its number.
    """
    if threading.current_thread() is not threading.main_thread():
        return None
    try:
        return Guard(kept, {(os.fstat(fd).st_dev, os.fstat(fd).st_ino) for fd in _OUTPUTS})
    except OSError:
        return None


class Guard:
    """Passes signals through a pipe to a separate thread."""

    def __init__(self, kept: str, shown: set[tuple[int, int]]) -> None:
        """Start listening; SIGTERM interrupts as Ctrl-C does, unless it already has a handler.

        ``shown`` are device and inode of the outputs.
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
        # Ctrl-C goes to every process of the group, and each of Dagster's Python children would
        # print a traceback. A child inherits the signals that its starter's thread blocks, so the
        # main thread blocks SIGINT. The guard's thread receives it and wakes the main thread by
        # SIGURG: a main thread that waits would not wake up by SIGINT, for which polars restarts
        # system calls.
        self._mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        self._before = signal.set_wakeup_fd(self._pipe[1], warn_on_full_buffer=False)
        os.register_at_fork(after_in_child=self._forget)
        self._open = True
        threading.Thread(target=self._watch, name="interrupt", daemon=True).start()

    def close(self) -> None:
        """End the process if a signal arrived, else restore the previous handlers."""
        if not self._open:
            return
        if self._arrived():
            os._exit(128 + self._number)
        self._open = False
        signal.set_wakeup_fd(self._before)
        for number, handler in self._handlers.items():
            signal.signal(number, handler)
        signal.pthread_sigmask(signal.SIG_SETMASK, self._mask)
        os.write(self._pipe[1], b"\0")  # wakes the thread, which closes the pipe

    def _interrupt(self, _number: int, _frame: object) -> None:
        """Raise as Python does, but once per signal, and after silencing the terminal."""
        self._arrived()
        if self._interrupted and time.monotonic() < self._noticed_at + _ECHO_S:
            return
        self._interrupted = True
        raise KeyboardInterrupt

    def _watch(self) -> None:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
        while self._open and not self._arrived():
            select.select([self._pipe[0]], [], [])
        if self._open:
            self._end_after_grace()
        for fd in (*self._pipe, self._terminal):
            os.close(fd)

    def _end_after_grace(self) -> None:
        deadline, explained = time.monotonic() + GRACE_S, False
        while (
            self._open
            and (_reasons_to_wait or time.monotonic() < deadline)
            and not self._arrived_again()
        ):
            if _reasons_to_wait:
                deadline = time.monotonic() + GRACE_S
                if not explained and time.monotonic() > self._noticed_at + GRACE_S:
                    explained = self._print(
                        f"{_reasons_to_wait[0]}; interrupt again to end at once"
                    )
            time.sleep(_POLL_S)
        if self._open:
            os._exit(128 + self._number)

    def _arrived(self) -> bool:
        """Whether a signal arrived; the first one silences the terminal."""
        with self._reading:
            for number in self._numbers():
                if not self._number:
                    self._number, self._noticed_at = number, time.monotonic()
                    self._silence()
                    kept = next(filter(None, reversed(_stopping)), self._kept)
                    self._print(f"stopped: {kept}")
                    signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGURG)
            return bool(self._number)

    def _arrived_again(self) -> bool:
        with self._reading:
            return bool(self._numbers()) and time.monotonic() > self._noticed_at + _ECHO_S

    def _numbers(self) -> list[int]:
        try:
            return [number for number in os.read(self._pipe[0], 64) if number in _SIGNALS]
        except BlockingIOError:
            return []

    def _print(self, sentence: str) -> bool:
        start = "\n" if os.isatty(self._terminal) else ""  # after ^C, or a line in progress
        with contextlib.suppress(OSError):
            os.write(self._terminal, f"{start}{sentence}\n".encode())
        return True

    def _silence(self) -> None:
        """Redirect every descriptor of the terminal to nowhere, duplicates included."""
        nowhere = os.open(os.devnull, os.O_WRONLY)
        for fd in sorted(int(path.name) for path in Path("/dev/fd").iterdir()):
            with contextlib.suppress(OSError):
                stat = os.fstat(fd)
                shown = fd > 0 and (stat.st_dev, stat.st_ino) in self._shown
                if fd != self._terminal and (shown or fd in _OUTPUTS):
                    os.dup2(nowhere, fd, inheritable=os.get_inheritable(fd))

    def _forget(self) -> None:
        """Disable the guard in a fork, which has the pipe but not the thread."""
        if self._open:
            self._open = False
            with contextlib.suppress(ValueError):
                signal.set_wakeup_fd(-1)
