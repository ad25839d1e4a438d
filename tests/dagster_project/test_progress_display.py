"""What is in progress: bars on a terminal, lines in a file, and their words."""

import io
import re
import sys
import time
from collections.abc import Callable

import pytest

from dagster_project.progress_display import ProgressDisplay, rate_text, shown_progress
from dagster_project.terminal import Terminal
from decomposerl.progress import bar
from terminals import Tty

EVIL = "\x1b[2Jevil [red]"
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


@pytest.mark.parametrize(
    ("rate", "text"),
    [(1_234.4, "1,234 a second"), (0.5, "30 a minute"), (0.01, "36 an hour")],
)
def test_a_rate_has_a_unit_that_fits(rate: float, text: str):
    """No rate is shown as zero."""
    assert text == rate_text(rate)


def test_a_file_gets_a_line_now_and_then():
    """Step and bars in one line, with count, rate and time left; nothing once they are done."""
    stream, logged = io.StringIO(), []
    with ProgressDisplay(Terminal(file=stream), logged.append, SOON_S) as display:
        display.step("claims/toy")
        with bar(EVIL, 400, "claims", known=100) as shown:
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


def test_what_was_printed_delays_the_next_line():
    """A line comes after a silence, and not beside other output."""
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
        with bar(EVIL, 400, "claims") as shown:
            shown.advance(100)
            until(lambda: "100 of 400 claims" in stream.getvalue())
        terminal.print("done [red]")
    text = stream.getvalue()
    assert "claims/toy" in text
    assert r"\x1b[2Jevil [red]" in text
    assert "done [red]" in text
    assert "\x1b[2J" not in text
    assert "\x1b[?25l" not in text


@pytest.mark.parametrize("environment", [{"FORCE_COLOR": "1"}, {"TERM": "dumb"}])
def test_lines_take_the_place_of_bars_that_cannot_be_drawn(environment: dict[str, str]):
    """A pipe whose colours are forced, and a terminal that cannot move its cursor."""
    stream = Tty() if "TERM" in environment else io.StringIO()
    with ProgressDisplay(Terminal(file=stream, _environ=environment), None, SOON_S) as display:
        display.step("claims/toy")
        until(lambda: "  claims/toy: " in stream.getvalue())
    assert "\x1b[2K" not in stream.getvalue()


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
        say(f"✓ {EVIL}")
    shown = capsys.readouterr()
    assert "" == shown.out
    assert "✓ \\x1b[2Jevil [red]\n" == shown.err
