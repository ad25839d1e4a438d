"""Fresh processes: memory of a deduplication, and what a first run of the funnel compiles.

The bar of a memory row is a maximum: its ratio is ``MOST_MB`` over the peak. The ratio of the
cold start is ``MOST_COLD_S`` over the extra CPU time of the first run after an installation, which
compiles the loops; imports take part in both runs and cancel out.
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

MOST_MB, MOST_COLD_S = 450.0, 5.0
ROOT = Path(__file__).resolve().parent.parent


def run_fresh(*arguments: str, cache: str | None = None) -> dict[str, Any]:
    """The last line of JSON that ``python -m <arguments>`` prints."""
    environment = dict(os.environ)
    if cache is not None:
        environment["NUMBA_CACHE_DIR"] = cache
    command = [sys.executable, "-m", *arguments]
    done = subprocess.run(  # noqa: S603 - our own program
        command, cwd=ROOT, env=environment, check=True, stdout=subprocess.PIPE, text=True
    )
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


def process_rows(sizes: Sizes) -> Iterator[Row]:
    """A fresh process that finds duplicates in a file, and a first run of the funnel."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "claims.parquet"
        pl.DataFrame({"claim": synthetic_claims(sizes.claims)}).write_parquet(path)
        run_fresh("perf.one_process", "duplicates", str(path))
        cost = run_fresh("perf.one_process", "duplicates", str(path))
    yield Row(
        "lexical process, peak memory",
        cost["seconds"],
        f"{MOST_MB:.0f} MB",
        None,
        MOST_MB / cost["peak_mb"],
        1.0,
        note=f"{cost['peak_mb']:.0f} MB; {cost['rows']:,} removed",
    )
    with tempfile.TemporaryDirectory() as cache:
        made = run_fresh("perf.one_process", "installation", cache=cache)
        cold, warm = (run_fresh("perf.one_process", "funnel", cache=cache) for _ in range(2))
    extra = cold["cpu_s"] - warm["cpu_s"]
    yield Row(
        "cold start of all stages",
        cold["seconds"],
        "the same, compiled before",
        warm["seconds"],
        MOST_COLD_S / max(extra, 0.1),
        1.0,
        note=f"compiling: {extra:.1f} s, at installation {made['cpu_s']:.1f} s",
    )
