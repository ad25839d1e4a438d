"""The bench ends in time on any machine: small products where they are slow, a limit a bench."""

import sys
import time
from pathlib import Path

from perf import bench, machine, older_processor
from perf.bench import rows_within

ROW = '{"name": "x", "ours_s": 1.0, "peer": "y", "peer_s": 2.0, "ratio": 2.0}'
HANGS = f"""
echo 'something that a peer says'
echo 'row {ROW}'
sleep 60 & echo $! > "$0"
sleep 60
"""
"""A shell starts in no time, so a short limit is enough on a busy machine too."""


def _ends(process: int) -> bool:
    """Whether a process that was sent SIGKILL ends: the signal arrives some moments later."""
    status = Path(f"/proc/{process}/status")
    for _ in range(1000):
        try:
            if "zombie" in status.read_text():
                return True
        except (FileNotFoundError, ProcessLookupError):
            return True
        time.sleep(0.01)
    return False


def test_a_bench_that_hangs_is_ended_with_all_it_started(tmp_path: Path):
    """What it measured stays, a row says what is missing, and no process is left behind."""
    started, pid_file = time.perf_counter(), tmp_path / "pid"
    found = list(rows_within(["sh", "-c", HANGS, str(pid_file)], "slow", 3.0))
    assert time.perf_counter() - started < 30
    assert [("x", 2.0), ("slow, the rest", None)] == [(row.name, row.ratio) for row in found]
    assert "ended after 3 s; run --only slow" == found[-1].note
    assert found[-1].missed
    assert _ends(int(pid_file.read_text()))


def test_a_bench_that_fails_says_so():
    """Its exit code is not lost."""
    found = list(rows_within([sys.executable, "-c", "raise SystemExit(3)"], "broken", 30.0))
    assert [("broken, the rest", "failed")] == [(row.name, row.note) for row in found]


def test_a_bench_that_is_left_early_is_ended():
    """A reader that stops early leaves no process behind."""
    command = [sys.executable, "-c", f"import time; print('row {ROW}', flush=True); time.sleep(60)"]
    started, rows = time.perf_counter(), rows_within(command, "slow", 60.0)
    next(rows)
    rows.close()  # type: ignore[attr-defined]
    assert time.perf_counter() - started < 30


def test_the_whole_bench_ends_within_a_quarter_of_an_hour():
    """Every limit is below it, with time for the report."""
    assert bench.BENCH_S < bench.TOTAL_S < 15 * 60


def test_a_slow_product_is_timed_on_fewer_columns():
    """A product that takes 20 ms a column is not asked for 8,192 of them."""
    asked: list[int] = []

    def slow(columns: int) -> None:
        asked.append(columns)
        time.sleep(0.0005 * columns)

    product = machine.sized(slow)
    assert [machine.FEW_COLUMNS] * 2 == asked
    assert product.flop < machine.FLOP / 2
    assert machine.FLOP == machine.sized(asked.append).flop


def test_the_class_of_a_machine_is_what_its_products_say():
    """Emulated products in fewer bits make no class of their own."""
    older = machine.Rates({"f32": 63e9, "bf16": 10e9, "int8": 2e9}, 1e10)
    newer = machine.Rates({"f32": 180e9, "bf16": 415e9, "int8": 358e9}, 1e10)
    assert [False, True] == [older.fewer_bits_pay, newer.fewer_bits_pay]
    assert ["perf.bench"] == older_processor.program("perf.bench")
