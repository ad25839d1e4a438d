"""The lock of an asset between machines: one holder, a name, an end after its holder's death."""

import os
import threading
import time
from pathlib import Path

import pytest

from decomposerl.errors import DecomposeRLError
from object_server import Fault, ObjectServer
from resources.store.lease import Expiry, lease
from resources.store.mirror import mirror_of
from resources.store.run_lock import file_lock, lock_path

BOOT = Path("/proc/sys/kernel/random/boot_id")


def test_an_assets_lock_holds_on_another_machine(machines: tuple[Path, Path]):
    """It names its holder, and is free afterwards; on one machine the file lock says it."""
    one, two = (lock_path(folder, "claims/hover") for folder in machines)
    with file_lock(one, "claims/hover", run="r-1"):
        said = rf"claims/hover is being written by process {os.getpid()} on \S+, run r-1: wait"
        with pytest.raises(DecomposeRLError, match=said), file_lock(two, "claims/hover"):
            pytest.fail("two machines hold it")
    with file_lock(two, "claims/hover"):
        pass


def test_a_dead_holders_lock_expires_and_a_living_ones_does_not(machines: tuple[Path, Path]):
    """A renewed one stays beyond its time; one that another took over is reported."""
    one, two = (lock_path(folder, "x") for folder in machines)
    short, dead = Expiry(1.5, 0.3), Expiry(1.5, 99)
    with lease(one, "x", expiry=short):
        threading.Event().wait(2.5)
        with (
            pytest.raises(DecomposeRLError, match="expires after 2 s"),
            lease(two, "x", expiry=short),
        ):
            pytest.fail("two machines hold it")
    took = lease(two, "x", wait_s=9, expiry=short)
    stalled = lease(one, "x", expiry=Expiry(1.5, 3))
    stalled.__enter__()
    took.__enter__()
    time.sleep(1)
    with pytest.raises(DecomposeRLError, match="another machine took it"):
        stalled.__exit__(None, None, None)
    took.__exit__(None, None, None)
    holding = lease(one, "x", expiry=dead)
    holding.__enter__()
    with lease(one, "x", expiry=short):  # the file lock on this machine says that it is dead
        pass


@pytest.mark.skipif(not BOOT.is_file(), reason="this system has no id of its start")
def test_a_machine_of_the_same_name_is_another_one(machines: tuple[Path, Path]):
    """Copies of one image have one name and one folder; a lock of theirs is not taken over."""
    one, mirror = lock_path(machines[0], "x"), mirror_of(machines[0])
    assert mirror is not None
    with lease(one, "x"):
        held = mirror.bucket.read_small(".locks/x.lock")
    assert held is not None
    other = held.data.replace(BOOT.read_bytes().strip(), b"another")
    mirror.bucket.put_small(".locks/x.lock", other, None)
    with pytest.raises(DecomposeRLError, match="being written"), lease(one, "x"):
        pytest.fail("two machines hold it")


@pytest.mark.parametrize("fault", ["503", "lost"])
def test_a_lock_whose_answer_is_lost_is_taken_once(
    machines: tuple[Path, Path], server: ObjectServer, fault: Fault
):
    """The repeated conditional request is refused, and the holder still knows that it holds.

    So does the holder that renews it.
    """
    one, two = (lock_path(folder, "x") for folder in machines)
    server.fail(fault, "PUT", ".locks/x.lock")
    with lease(one, "x"), pytest.raises(DecomposeRLError, match="being written"), lease(two, "x"):
        pytest.fail("two machines hold it")
    assert {} == server.objects()
    short = Expiry(1.5, 0.3)
    with lease(one, "x", expiry=short):
        server.fail(fault, "PUT", ".locks/x.lock")
        time.sleep(3.5)
        assert not server.faults
        with pytest.raises(DecomposeRLError, match="being written"), lease(two, "x", expiry=short):
            pytest.fail("two machines hold it")
