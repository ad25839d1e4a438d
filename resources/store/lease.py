"""The lock of an asset between machines: an object that is created only where there is none.

Its holder renews it; one that was not renewed for two minutes, by this machine's clock and the
server's, may be taken over. The file lock on each machine comes first, so a lease of this machine's
own scratch folder is that of a dead process and is replaced at once.
"""

import json
import os
import socket
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from decomposerl.errors import DecomposeRLError, StorageError
from resources.store.bucket import Bucket, Changed, Held, Version
from resources.store.mirror import mirror_of
from resources.store.temporary import machine

LOCKS = ".locks"
_POLL_S = 1.0


@dataclass(frozen=True, slots=True)
class Expiry:
    """Seconds without a renewal after which a lease may be taken over, and between renewals."""

    after_s: float = 120.0
    renew_s: float = 30.0


_EXPIRY = Expiry()


@contextmanager
def lease(
    file: Path,
    what: str,
    run: str = "",
    wait_s: float = 0.0,
    expiry: Expiry = _EXPIRY,
) -> Iterator[None]:
    """Hold the object of a lock file while ``what`` is written, where its folder mirrors a bucket.

    Raises:
        DecomposeRLError: another machine holds it, or took it over in the meantime.
        StorageError: the bucket cannot be reached.
    """
    mirror = mirror_of(file)
    if mirror is None or file.parent.name != LOCKS:
        yield
        return
    who = {"pid": os.getpid(), "host": socket.gethostname(), "run": run}
    who |= {"machine": f"{machine()} {_boot()} {mirror.folder}"}
    mine = _Lease(mirror.bucket, f"{LOCKS}/{file.name}", what, who, expiry.after_s)
    mine.take(time.monotonic() + wait_s)
    stop = threading.Event()
    renewing = threading.Thread(target=mine.renew_until, args=(stop, expiry.renew_s), daemon=True)
    renewing.start()
    try:
        yield
    finally:
        stop.set()
        renewing.join()
        mine.release()
    if mine.lost:
        raise DecomposeRLError(
            f"the lock of {what} expired and another machine took it: materialize {what} again"
        )


@dataclass(slots=True)
class _Lease:
    """One holder's lease; ``token`` tells it from every other."""

    bucket: Bucket
    key: str
    what: str
    who: dict[str, Any]
    expiry_s: float
    token: str = field(default_factory=lambda: uuid.uuid4().hex)
    version: Version = field(default_factory=dict)
    puts: int = 0
    lost: bool = False

    def take(self, deadline: float) -> None:
        """Create the object, or take an expired one over."""
        expected: Version | None = None
        while not self._put(expected):
            held, expected = self.bucket.read_small(self.key), None
            if held is None:
                continue
            other = _holder(held)
            ours = other.get("machine") == self.who["machine"]
            if ours or (datetime.now(UTC) - held.modified).total_seconds() > self.expiry_s:
                expected = held.version
            elif time.monotonic() > deadline:
                run = f", run {other['run']}" if other.get("run") else ""
                raise DecomposeRLError(
                    f"{self.what} is being written by process {other.get('pid')} on "
                    f"{other.get('host')}{run}: wait for it, or end it; a lock whose process is "
                    f"gone expires after {self.expiry_s:.0f} s"
                )
            else:
                time.sleep(_POLL_S)

    def renew_until(self, stop: threading.Event, every_s: float) -> None:
        """Store the object again and again, so that it does not expire."""
        renewed = time.monotonic()
        while not self.lost and not stop.wait(every_s):
            try:
                self.lost = not self._put(self.version)
                renewed = time.monotonic()
            except StorageError:
                self.lost = time.monotonic() - renewed > self.expiry_s

    def release(self) -> None:
        """Remove the object if it is still this holder's; one that stays expires."""
        try:
            held = self.bucket.read_small(self.key)
            self.lost = held is None or _holder(held).get("token") != self.token
            if not self.lost:
                self.bucket.delete(self.key)
        except StorageError:
            return

    def _put(self, expected: Version | None) -> bool:
        """Whether the object is this holder's now.

        A refusal or an error may follow a request that was stored, so the object decides.
        """
        self.puts += 1  # equal contents would have equal versions
        body = json.dumps(self.who | {"token": self.token, "puts": self.puts}).encode()
        try:
            self.version = self.bucket.put_small(self.key, body, expected)
        except (Changed, StorageError) as error:
            held = self.bucket.read_small(self.key)
            if held is not None and _holder(held).get("token") == self.token:
                self.version = held.version
                return True
            if isinstance(error, StorageError):
                raise
            return False
        return True


def _boot() -> str:
    """The running system's id: machines made from one image have one name."""
    file = Path("/proc/sys/kernel/random/boot_id")
    return file.read_text("ascii").strip() if file.is_file() else ""


def _holder(held: Held) -> dict[str, Any]:
    try:
        who = json.loads(held.data)
    except ValueError:
        return {}
    return who if isinstance(who, dict) else {}
