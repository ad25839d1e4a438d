"""``pip install`` with its progress: ``python dagster_project/installing.py LOG pip-arguments``.

Runs before anything is installed, so it needs the standard library only. A terminal gets one line
that is redrawn, a file or pipe one every 30 s: packages collected, then packages installed with the
rate and the time left. pip's own lines go to LOG; if pip fails, its last ones are printed.
"""

import re
import subprocess
import sys
import sysconfig
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

LINE_EVERY_S = 30.0
_REDRAWN_S = 1.0
_LAST_LINES = 15
_SIZE = re.compile(r"^\s*Downloading .* \(([\d.]+) (kB|MB|GB)")
_COLLECTED = re.compile(r"^\s*(?:Collecting|Obtaining) ")
_INSTALLING = re.compile(r"^Installing collected packages: (.*)")
_MB = {"kB": 1e-3, "MB": 1.0, "GB": 1e3}
_MINUTE_S = 60


@dataclass
class Installation:
    """How far it is, by what pip printed and by what lies in ``folder``, its site-packages."""

    folder: Path
    started: float = field(default_factory=time.monotonic)
    collected: int = 0
    megabytes: float = 0.0
    total: int = 0
    before: int = 0
    since: float = 0.0

    def read(self, line: str) -> None:
        """Take a line of pip's."""
        if _COLLECTED.match(line):
            self.collected += 1
        elif size := _SIZE.match(line):
            self.megabytes += float(size[1]) * _MB[size[2]]
        elif names := _INSTALLING.match(line):
            self.total, self.before = len(names[1].split(",")), self._present()
            self.since = time.monotonic()

    def line(self) -> str:
        """The progress in words."""
        now = time.monotonic()
        spent = f"{_duration(now - self.started)}"
        if not self.total:
            return f"  collecting: {self.collected:,} packages, {self.megabytes:,.0f} MB, {spent}"
        done = min(max(self._present() - self.before, 0), self.total)
        facts = [f"{done:,} of {self.total:,} packages", spent]
        if done > 0:
            rate = done / (now - self.since)
            left = _duration((self.total - done) / rate)
            facts += [f"{rate:,.1f} a second", f"{left} left"]
        return f"  installing: {', '.join(facts)}"

    def _present(self) -> int:
        return sum(1 for _ in self.folder.glob("*.dist-info"))


def main(words: list[str]) -> int:
    """Install; pip's exit status."""
    log, arguments = Path(words[0]), words[1:]
    log.parent.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "pip", "install", "--progress-bar", "off", *arguments]
    return run(command, log, Installation(Path(sysconfig.get_path("purelib"))))


def run(
    command: list[str], log: Path, progress: Installation, every_s: float = LINE_EVERY_S
) -> int:
    """Run pip, show its progress and keep its lines; its exit status."""
    end = threading.Event()
    shown = threading.Thread(target=_show, args=(progress, end, every_s), daemon=True)
    with (
        log.open("w", encoding="utf-8") as kept,
        subprocess.Popen(  # noqa: S603 - the arguments are the Makefile's
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
        ) as pip,
    ):
        shown.start()
        try:
            _keep(pip.stdout or (), kept.write, progress)
        finally:
            end.set()
            shown.join()
    if pip.returncode:
        last = log.read_text("utf-8").splitlines()[-_LAST_LINES:]
        sys.stderr.write("\n".join([*last, f"pip failed; all of its output is in {log}", ""]))
    return pip.returncode


def _keep(lines: Iterable[str], write: Callable[[str], object], progress: Installation) -> None:
    for line in lines:
        write(line)
        progress.read(line)


def _show(progress: Installation, end: threading.Event, every_s: float) -> None:
    tty = sys.stdout.isatty()
    while not end.wait(_REDRAWN_S if tty else every_s):
        sys.stdout.write(f"\r\x1b[2K{progress.line()}" if tty else f"{progress.line()}\n")
        sys.stdout.flush()
    sys.stdout.write("\r\x1b[2K" if tty else "")
    sys.stdout.flush()


def _duration(seconds: float) -> str:
    whole = round(seconds)
    return f"{whole} s" if whole < _MINUTE_S else f"{whole // _MINUTE_S} min {whole % _MINUTE_S} s"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
