"""Whole processes: memory of a deduplication, and what compiling costs a first run.

Takes sizes, gives rows. A row about memory has its bar as most megabytes: its ratio is that
bound over the peak. A row about a cold start holds ten seconds over what the first run took
longer, in processor time: compiling is one thread's work.

Left out deliberately: the time to import; it is in both runs.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl

from perf.inputs import synthetic_claims
from perf.sizes import Sizes
from perf.timing import Row

MOST_MB, MOST_COLD_S = 450.0, 10.0
ROOT = Path(__file__).resolve().parent.parent


def run_fresh(*arguments: str, cache: str | None = None) -> dict[str, Any]:
    """What ``python -m perf.<arguments>`` prints as its last line of JSON."""
    environment = dict(os.environ)
    if cache is not None:
        environment["NUMBA_CACHE_DIR"] = cache
    command = [sys.executable, "-m", *arguments]
    done = subprocess.run(  # noqa: S603 - our own program
        command, cwd=ROOT, env=environment, check=True, stdout=subprocess.PIPE, text=True
    )
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def process_rows(sizes: Sizes) -> Iterator[Row]:
    """A fresh process that reads claims and finds duplicates, and a first run of the funnel."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "claims.parquet"
        pl.DataFrame({"claim": synthetic_claims(sizes.claims)}).write_parquet(path)
        run_fresh("perf.one_process", "duplicates", str(path))
        found = run_fresh("perf.one_process", "duplicates", str(path))
    yield Row(
        "lexical process, peak memory",
        found["seconds"],
        f"{MOST_MB:.0f} MB",
        None,
        MOST_MB / found["peak_mb"],
        1.0,
        note=f"{found['peak_mb']:.0f} MB; start, imports, Parquet and {found['rows']:,} removals "
        "in the time given",
    )
    with tempfile.TemporaryDirectory() as cache:
        cold, warm = (run_fresh("perf.one_process", "funnel", cache=cache) for _ in range(2))
    extra = cold["cpu_s"] - warm["cpu_s"]
    yield Row(
        "cold start of all stages",
        cold["seconds"],
        "the same, compiled before",
        warm["seconds"],
        MOST_COLD_S / max(extra, 1e-9),
        1.0,
        note=f"compiling costs {extra:.1f} s of one core, once; the ratio is {MOST_COLD_S:.0f} s "
        "over that",
    )
