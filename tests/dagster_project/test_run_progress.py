"""What a terminal shows of a run: a line per asset, what went wrong, and what is in progress."""

import io
import re
import sys
import time
from collections.abc import Callable
from pathlib import Path

import dagster as dg
import pytest

from dagster_project.progress_display import ProgressDisplay, rate_text, shown_progress
from dagster_project.run_progress import RunProgress
from dagster_project.terminal import Terminal
from decomposerl.progress import bar
from terminals import Tty

EVIL = "\x1b[2J"


class Slow(dg.Config):
    """How long the asset takes at least, in seconds."""

    seconds: float = 0.0


@dg.asset(key=["claims", "toy"])
def toy(context: dg.AssetExecutionContext, config: Slow) -> dg.MaterializeResult[None]:
    """An asset that logs, with a row count."""
    time.sleep(config.seconds)
    context.log.info("step 1 of 2")
    context.log.warning(f"odd {EVIL}")
    return dg.MaterializeResult(metadata={"dagster/row_count": 1_234})


@dg.asset_check(asset=toy)
def fine() -> dg.AssetCheckResult:
    """A check that passes."""
    return dg.AssetCheckResult(passed=True)


@dg.asset_check(asset=toy)
def guard() -> dg.AssetCheckResult:
    """A check that does not."""
    return dg.AssetCheckResult(passed=False, description="too few rows")


def shown(
    data: Path,
    *,
    tty: bool,
    messages: bool = False,
    slow_s: float = 0.0,
    line_every_s: float = 30.0,
) -> tuple[str, Path]:
    """What a run of the asset and its checks prints, and its log."""
    stream = Tty() if tty else io.StringIO()
    terminal = Terminal(file=stream, force_terminal=tty, color_system=None, width=120)
    with RunProgress(
        data, messages=messages, terminal=terminal, line_every_s=line_every_s
    ) as progress:
        graph = dg.Definitions(
            assets=[toy],
            asset_checks=[fine, guard],
            jobs=[dg.define_asset_job("all")],
            loggers={"console": progress.logger},
        )
        ops = {"claims__toy": {"config": {"seconds": slow_s}}}
        config = {"loggers": {"console": {}}, "ops": ops}
        assert graph.resolve_job_def("all").execute_in_process(config).success
    assert progress.log is not None
    return stream.getvalue(), progress.log


def test_an_asset_is_one_line(tmp_path: Path):
    """Its warnings come before it, a failed check after it; its other messages where wanted.

    A silent step says in the log and, as it is no terminal, on the stream that it runs.
    """
    for messages in (False, True):
        text, log = shown(tmp_path, tty=False, messages=messages)
        lines = text.splitlines()
        assert (["  step 1 of 2"] if messages else []) == lines[:-3]
        assert r"· odd \x1b[2J" == lines[-3]
        assert re.fullmatch(r"✓ claims/toy +1,234 rows +\d+\.\d s", lines[-2])
        assert "· claims/toy: check guard: too few rows" == lines[-1]
        logged = log.read_text("utf-8")
        assert log.parent == tmp_path / "logs"
        assert "step 1 of 2" in logged
        assert "RUN_SUCCESS" in logged
        assert EVIL not in logged
    text, log = shown(tmp_path, tty=False, slow_s=0.6, line_every_s=0.1)
    assert re.search(r"^  claims/toy: 0\.\d s$", text, re.MULTILINE)
    assert re.search(r"INFO claims/toy: 0\.\d s$", log.read_text("utf-8"), re.MULTILINE)


def test_a_terminal_shows_what_is_in_progress(tmp_path: Path):
    """A bar that is removed when the asset's line is printed; nothing of it is left at the end."""
    text, _ = shown(tmp_path, tty=True, slow_s=0.6)
    assert re.search(r"⠋ claims/toy +━+ +0\.\d s", text)
    assert re.search(r"✓ claims/toy +1,234 rows", text)
    assert "" == text.rpartition("\x1b[2K")[2].replace("\x1b[?25h", "").strip()


MARKED = f"{EVIL}evil [red]"
SOON_S = 0.05


class Lost(Tty):
    """A pipe whose reader ends."""

    def isatty(self) -> bool:
        """Never."""
        return False

    def write(self, text: str) -> int:
        """Keep the text, or fail as a pipe without a reader."""
        if self.gone:
            raise BrokenPipeError(32, "Broken pipe")
        return super().write(text)


def until(found: Callable[[], bool]) -> None:
    """Wait until it is so, 10 s at most."""
    end = time.monotonic() + 10
    while not found():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_a_file_gets_a_line_now_and_then():
    """Step and bars in one line, after a silence, with rate and time left; nothing once done."""
    stream, logged = io.StringIO(), []
    with ProgressDisplay(Terminal(file=stream), logged.append, SOON_S) as display:
        display.step("claims/toy")
        with bar(MARKED, 400, "claims", known=100) as shown:
            shown.advance(100, note="$1.20")
            until(lambda: any("$1.20" in line for line in logged))
        display.step("")
        until(lambda: not display._shown)
        quiet = len(logged)
        time.sleep(4 * SOON_S)
        assert quiet + 1 >= len(logged)
    line = next(line for line in logged if "$1.20" in line)
    assert re.match(r"claims/toy: \d+\.\d s; \\x1b\[2Jevil \[red\]: 200 of 400 claims, ", line)
    assert re.search(r" a (second|minute), .* left, \$1\.20$", line)
    assert f"  {line}" in stream.getvalue().splitlines()
    assert "\x1b" not in stream.getvalue()

    logged: list[str] = []
    with ProgressDisplay(Terminal(file=io.StringIO()), logged.append, 0.5) as display:
        display.step("busy")
        for _ in range(10):
            display.said()
            time.sleep(0.06)
        assert [] == logged


def test_a_terminal_gets_bars():
    """Drawn while they are open, without markup, and the cursor is never hidden."""
    stream = Tty()
    terminal = Terminal(file=stream, force_terminal=True, color_system=None, width=120)
    with ProgressDisplay(terminal) as display:
        display.step("claims/toy")
        with bar(MARKED, 400, "claims") as shown:
            shown.advance(100)
            until(lambda: "100 of 400 claims" in stream.getvalue())
        terminal.print("done [red]")
    text = stream.getvalue()
    assert "claims/toy" in text
    assert r"\x1b[2Jevil [red]" in text
    assert "done [red]" in text
    assert "\x1b[2J" not in text
    assert "\x1b[?25l" not in text


def test_lines_take_the_place_of_bars_that_cannot_be_drawn():
    """A pipe whose colours are forced, a terminal that cannot move its cursor; rates have units."""
    for environment, stream in (({"FORCE_COLOR": "1"}, io.StringIO()), ({"TERM": "dumb"}, Tty())):
        with ProgressDisplay(Terminal(file=stream, _environ=environment), None, SOON_S) as display:
            display.step("claims/toy")
            until(lambda stream=stream: "  claims/toy: " in stream.getvalue())
        assert "\x1b[2K" not in stream.getvalue()
    shown = [rate_text(rate) for rate in (1_234.4, 0.5, 0.01)]
    assert ["1,234 a second", "30 a minute", "36 an hour"] == shown


@pytest.mark.parametrize("stream", [Tty(), Lost()], ids=["terminal", "pipe"])
def test_a_stream_that_is_gone_ends_no_work(stream: "Tty | Lost"):
    """After a logout, or where the reader of a pipe has ended; the log goes on."""
    logged: list[str] = []
    with ProgressDisplay(Terminal(file=stream), logged.append, SOON_S) as display:
        display.step("before")
        stream.gone = True
        with bar("work", 3) as shown:
            shown.advance(2)
            until(lambda: any("work: 2 of 3" in line for line in logged))
        display.step("")
    assert not sys.stdout.closed


def test_a_command_prints_beside_its_bars(capsys: pytest.CaptureFixture[str]):
    """Its lines are printable and on the stream of the bars."""
    with shown_progress() as say:
        say(f"✓ {MARKED}")
    shown = capsys.readouterr()
    assert "" == shown.out
    assert "✓ \\x1b[2Jevil [red]\n" == shown.err
