"""``make bench``: every kernel next to its peers, in one table.

``python -m perf.bench [--only NAME] [--quick] [--strict] [--report docs/results/benchmarks.md]``
prints each row as soon as it is measured and writes all rows to ``perf/results.json``: a list
of ``{name, ours_s, peer, peer_s, ratio, bar, limit_s, note, busy_ours_s, busy_ratio}``.

Each bench runs in its own process, which is killed after ``BENCH_S`` seconds or when the whole
run has used ``TOTAL_S``. Rows measured before that are kept, and one row says that the rest is
missing. The whole funnel is measured by ``studies.paper_scale`` and ``studies.growth``.
"""

import argparse
import dataclasses
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path

from perf import (
    bench_chat,
    bench_cosine,
    bench_embedding,
    bench_lexical,
    bench_process,
    bench_rewards,
    bench_rules,
    bench_selection,
    machine,
    peers,
)
from perf.busy import load_beside
from perf.older_processor import program
from perf.pages import write_between_markers
from perf.sizes import PAPER, QUICK, Sizes
from perf.timing import Row

TOTAL_S, BENCH_S = 870.0, 300.0
ROW = "row "  # prefix of a row on a child's standard output, where peers print too
RESULTS = Path(__file__).resolve().parent / "results.json"
BENCHES: dict[str, Callable[[Sizes], Iterator[Row]]] = {
    "lexical": bench_lexical.lexical_rows,
    "lexical_leaks": bench_lexical.lexical_leak_rows,
    "minhash": bench_lexical.minhash_rows,
    "split": bench_lexical.split_rows,
    "process": bench_process.process_rows,
    "semantic": bench_cosine.semantic_rows,
    "semantic_long": bench_cosine.semantic_long_rows,
    "sequential": bench_cosine.sequential_rows,
    "semantic_leaks": bench_cosine.semantic_leak_rows,
    "cell": bench_selection.cell_rows,
    "large_cell": bench_selection.large_cell_rows,
    "overlap": bench_rules.overlap_rows,
    "tokens": bench_rules.token_rows,
    "embedding": bench_embedding.embedding_rows,
    "chat": bench_chat.chat_rows,
    "rewards": bench_rewards.reward_rows,
}
HEADS = ("what", "seconds", "peer", "ratio", "note")


def main() -> None:
    """Run, print and write; with ``--strict`` a missed bar gives exit code 1."""
    options = _options()
    if options.rows_of:
        for row in BENCHES[options.rows_of](QUICK if options.quick else PAPER):
            print(ROW + json.dumps(dataclasses.asdict(row)), flush=True)
        return
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # ends the child too, like Ctrl-C
    missing = peers.missing()
    if missing:
        sys.exit(f"not installed: {', '.join(missing)}. Run: .venv/bin/pip install -e '.[bench]'")
    started = time.perf_counter()
    print(f"{machine.description()}; {_rates()}")
    rows: list[Row] = []
    for name in options.only or BENCHES:
        left_s = max(TOTAL_S + started - time.perf_counter(), 0.0)
        command = [sys.executable, "-m", *program("perf.bench"), "--rows-of", name]
        command += ["--quick"] if options.quick else []
        for row in rows_within(command, name, min(left_s, BENCH_S)):
            print(line_of(row), flush=True)
            rows.append(row)
            RESULTS.write_text(json.dumps([dataclasses.asdict(one) for one in rows], indent=1))
    text = report(rows)
    print(f"\n{text}")
    if options.report:
        part = "bench avx2" if machine.is_older() else "bench"
        write_between_markers(options.report, part, text)
    if options.strict and any(row.missed for row in rows):
        sys.exit(1)


def rows_within(command: Sequence[str], name: str, limit_s: float) -> Iterator[Row]:
    """Rows that ``command`` prints; after ``limit_s`` its process group is killed."""
    with subprocess.Popen(  # noqa: S603 - our own program
        command, stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as child:
        stop = partial(os.killpg, child.pid, signal.SIGKILL)
        clock = threading.Timer(limit_s, stop)
        clock.start()
        try:
            for line in child.stdout or ():
                if line.startswith(ROW):
                    yield Row(**json.loads(line.removeprefix(ROW)))
            if child.wait() != 0:
                late = f"ended after {limit_s:.0f} s; run --only {name}"
                ended = late if child.returncode < 0 else "failed"
                yield Row(f"{name}, the rest", None, "", None, None, 1.0, note=ended)
        finally:
            clock.cancel()
            if child.poll() is None:
                stop()


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", action="append", choices=list(BENCHES), help="run only these")
    parser.add_argument(
        "--quick", action="store_true", help="small sizes, to test the bench itself"
    )
    parser.add_argument("--strict", action="store_true", help="exit with 1 if a bar is missed")
    parser.add_argument("--rows-of", choices=list(BENCHES), help=argparse.SUPPRESS)
    parser.add_argument("--report", type=Path, help="Markdown file with the two markers")
    return parser.parse_args()


def report(rows: Iterable[Row]) -> str:
    """The table and a description of the machine, as Markdown."""
    every = list(rows)
    barred = [row for row in every if row.bar is not None]
    missed = [row.name for row in barred if row.missed]
    busy = load_beside()
    return "\n".join(
        [
            f"{machine.description()}; {_rates()}"
            + ("." if busy is None else f"; load average at the end {busy:.1f}."),
            "",
            f"{len(barred) - len(missed)} of {len(barred)} bars met"
            + (f"; missed: {', '.join(missed)}." if missed else "."),
            "",
            "| " + " | ".join(HEADS) + " |",
            "| --- | ---: | --- | ---: | --- |",
            *(line_of(row) for row in every),
        ]
    )


def _rates() -> str:
    # The first call measures; it is made before anything else is timed.
    measured = machine.rates()
    products = ", ".join(f"{kind} {rate / 1e9:,.0f}" for kind, rate in measured.products.items())
    return f"products in GFLOP/s: {products}; memory read at {measured.read_bytes / 1e9:.0f} GB/s"


def line_of(row: Row) -> str:
    """One row of the Markdown table; the other figures are in ``perf/results.json``."""
    ratio = [
        _number(row.ratio) + (f" **missed** {_number(row.bar)}" if row.missed else ""),
        "" if row.busy_ratio is None else f"busy {_number(row.busy_ratio)}",
    ]
    cells = [row.name, _number(row.ours_s), row.peer, ", ".join(filter(None, ratio)), row.note]
    return "| " + " | ".join(cells) + " |"


def _number(value: float | None, decimals: int = 2) -> str:
    if value is None:
        return ""
    return f"{value:,.{decimals}f}" if abs(value) >= 1 else f"{value:.{decimals}g}"


if __name__ == "__main__":
    main()
