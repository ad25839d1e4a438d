"""What a terminal shows of a run: one line per asset, what went wrong, and what is in progress."""

import io
import re
import time
from pathlib import Path

import dagster as dg
import pytest

from dagster_project.run_progress import RunProgress
from dagster_project.terminal import Terminal
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


@pytest.mark.parametrize("messages", [False, True])
def test_an_asset_is_one_line(messages: bool, tmp_path: Path):  # noqa: FBT001 - parametrized
    """Its warnings come before it, a failed check after it; its other messages where wanted."""
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


def test_a_terminal_shows_what_is_in_progress(tmp_path: Path):
    """A bar that is removed when the asset's line is printed; nothing of it is left at the end."""
    text, _ = shown(tmp_path, tty=True, slow_s=0.6)
    assert re.search(r"⠋ claims/toy +━+ +0\.\d s", text)
    assert re.search(r"✓ claims/toy +1,234 rows", text)
    assert "" == text.rpartition("\x1b[2K")[2].replace("\x1b[?25h", "").strip()


def test_a_silent_step_logs_that_it_runs(tmp_path: Path):
    """In the log and, as it is no terminal, on the stream."""
    text, log = shown(tmp_path, tty=False, slow_s=0.6, line_every_s=0.1)
    assert re.search(r"^  claims/toy: 0\.\d s$", text, re.MULTILINE)
    assert re.search(r"INFO claims/toy: 0\.\d s$", log.read_text("utf-8"), re.MULTILINE)
