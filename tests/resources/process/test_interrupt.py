"""Ctrl-C and SIGTERM end a guarded program soon, with one sentence, whatever it is doing."""

import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from decomposerl.kernels.threads import Team
from project import ROOT, SUPPORT
from resources.corpora.bundled_sample import fingerprint
from resources.process.interrupt import GRACE_S, STAGES_KEPT, ends_soon, start_guard
from sample import Sample
from toy_corpus import write_sample

CHILD = SUPPORT / "interrupt_child.py"
STOPPED = "stopped: all is kept"
MOST_S = GRACE_S + 6  # a busy machine's; alone it is GRACE_S and a little


class Started:
    """A program in a group of its own that says ``ready``."""

    def __init__(self, *words: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, str(CHILD), *words],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,  # a buffer would take lines that communicate() then misses
            start_new_session=True,
        )
        assert self._process.stdout is not None
        assert b"ready\n" == self._process.stdout.readline()
        self._at = 0.0

    def tell(self, number: int = signal.SIGINT) -> None:
        """Signal the whole group, as a terminal does."""
        self._at = time.monotonic()
        os.killpg(self._process.pid, number)

    def end(self) -> tuple[int, str, str, float]:
        """Exit status, both outputs, and the seconds since the signal."""
        out, err = self._process.communicate(timeout=60)
        seconds = time.monotonic() - self._at
        return self._process.returncode, out.decode(), err.decode(), seconds


@pytest.mark.parametrize(
    ("what", "number"),
    [(what, signal.SIGINT) for what in ("sleeping", "team", "deaf", "compiled", "family")]
    + [("sleeping", signal.SIGTERM)],
)
def test_a_signal_ends_it_with_one_sentence(what: str, number: int):
    """Asleep, at workers, in an endless call, beside children: nothing else is said."""
    child = Started(what)
    child.tell(number)
    status, out, err, seconds = child.end()
    assert (128 + number, "", f"{STOPPED}\n") == (status, out, err)
    assert seconds < MOST_S


def test_saving_is_waited_for_and_said():
    """Longer than the grace, to its end, with a sentence on why; a server has its own."""
    child = Started("saving", str(GRACE_S + 1))
    child.tell()
    status, _, err, seconds = child.end()
    assert seconds > GRACE_S + 0.9
    assert 128 + signal.SIGINT == status
    assert STOPPED == err.splitlines()[0]
    assert err.splitlines()[1].startswith("the child is saving; ")
    serving = Started("serving")  # nothing is continued by running it again
    serving.tell()
    status, _, err, _ = serving.end()
    assert (128 + signal.SIGINT, "stopped: what is under way is finished\n") == (status, err)


def test_a_second_signal_ends_it_at_once():
    """Even what is being saved."""
    child = Started("saving", "60")
    child.tell()
    time.sleep(1)
    child.tell()
    status, _, _, seconds = child.end()
    assert (128 + signal.SIGINT, True) == (status, seconds < MOST_S)


def test_without_a_signal_nothing_changes():
    """The program ends as it would; a second guard works as the first."""
    child = Started("unharmed")
    status, out, err, _ = child.end()
    assert (0, "again\n", "") == (status, out, err)


def test_a_guard_gives_back_what_it_took():
    """Handlers, the blocked signal and the wake-up; in another thread there is no guard."""
    held = [signal.SIGTERM, signal.SIGURG, signal.SIGINT]
    before = [signal.getsignal(number) for number in held]
    with ends_soon():
        assert signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, [])
    assert before == [signal.getsignal(number) for number in held]
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, [])
    assert -1 == signal.set_wakeup_fd(-1)
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(start_guard, "all").result() is None


@pytest.mark.parametrize("closed", [1, 2])
def test_a_closed_output_is_no_error(closed: int):
    """``2>&-``: the command runs, unguarded."""
    script = (
        "import sys\nfrom resources.process.interrupt import start_guard\n"
        "sys.exit(start_guard('') is not None)"
    )
    shell = ["/bin/sh", "-c", f'exec "$@" {closed}>&-', "sh", sys.executable, "-c", script]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    assert 0 == subprocess.run(shell, cwd=ROOT, env=environment, check=False).returncode


def test_a_team_does_not_wait_for_tasks_when_it_is_interrupted():
    """Tasks at work go on unread, those that wait never start; an error still waits for all."""
    go, done = threading.Event(), []

    def task() -> None:
        go.wait(60)
        done.append(1)

    team = Team(2).__enter__()
    assert team._pool is not None
    futures = [team._pool.submit(task) for _ in range(6)]
    team.__exit__(KeyboardInterrupt, KeyboardInterrupt(), None)
    assert [] == done
    go.set()
    assert 4 == sum(future.cancelled() for future in futures)
    team = Team(2).__enter__()
    assert team._pool is not None
    futures = [team._pool.submit(task) for _ in range(2)]
    team.__exit__(ValueError, ValueError(), None)
    assert all(future.done() for future in futures)


MASKS = {"captured": ("SigCgt", signal.SIGTERM), "loading": ("SigBlk", signal.SIGINT)}


@pytest.mark.parametrize("when", [*MASKS, "running"])
def test_dagsters_own_command_ends_soon_too(sample: Sample, tmp_path: Path, when: str):
    """While it loads, where Dagster keeps signals, and in a step: no traceback, no log is left."""
    write_sample(sample, tmp_path / "data" / "sample" / fingerprint())
    home = tmp_path / "home"
    home.mkdir()
    (home / "dagster.yaml").write_text((ROOT / "dagster.yaml").read_text("utf-8"), "utf-8")
    every = 'group:"sources" or group:"benchmarks" or key:"rule_filtered"'
    chosen = every if when == "running" else 'key:"claims/hover"'
    words = ["asset", "materialize", "-m", "dagster_project.definitions", "--select", chosen]
    log = tmp_path / "log"
    environment = {k: v for k, v in os.environ.items() if not k.startswith("DECOMPOSERL")}
    environment |= {"DECOMPOSERL_DATA": str(tmp_path / "data"), "DAGSTER_HOME": str(home)}
    environment["TMPDIR"] = str(tmp_path)
    with log.open("wb") as stream:
        process = subprocess.Popen(
            [sys.executable, "-m", "dagster", *words],
            cwd=ROOT,
            env=environment,
            stdout=stream,
            stderr=stream,
            start_new_session=True,
        )
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and not _reached(process.pid, log, when):
        assert process.poll() is None, log.read_text("utf-8")
        time.sleep(0.05)
    before, at = log.stat().st_size, time.monotonic()
    os.killpg(process.pid, signal.SIGINT)
    assert 128 + signal.SIGINT == process.wait(60)
    assert time.monotonic() - at < (MOST_S if when != "captured" else 60)
    assert [] == list(tmp_path.glob("decomposerl-*.log"))
    said = log.read_bytes()[before:].decode().splitlines()
    assert f"stopped: {STAGES_KEPT}" == said[-1]
    assert [] == [line for line in said if "Traceback" in line or "rror" in line]


def _reached(process: int, log: Path, when: str) -> bool:
    if when not in MASKS:
        return "claims/wice: " in log.read_text("utf-8")
    status, (mask, number) = Path(f"/proc/{process}/status"), MASKS[when]
    if not status.exists():
        pytest.skip("this system has no /proc")
    found = next(line for line in status.read_text().splitlines() if line.startswith(mask))
    return bool(int(found.split()[1], 16) & 1 << (number - 1))
