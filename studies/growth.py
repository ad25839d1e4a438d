"""How time and memory of each stage grow with the pool, and which limit is reached first.

``python -m studies.growth [--sizes 50000,155506,500000,1500000] [--stages rules,lexical]
[--report docs/results/benchmarks.md]`` measures every stage on every pool in its own process
(``studies.growth_stage``), writes ``studies/growth.json`` after each, and prints Markdown:
seconds, peak memory, growth exponents, and the pool at which a limit would be reached. Engines
and reading of corpora are not measured.
"""

import argparse
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from perf.bench_process import run_fresh
from perf.machine import description
from perf.pages import write_between_markers
from studies.growth_stage import STAGES

RESULTS = Path(__file__).resolve().parent / "growth.json"
SIZES = (50_000, 155_506, 500_000, 1_500_000)
MEMORY_MB, DAY_S = 24_000.0, 86_400.0
LAST = 2  # largest pools: there constant costs no longer hide the growth
SHOWN = 3  # largest pools of the table; all are in ``growth.json``
FAR = 1e12


def main() -> None:
    """Measure, store each result, print the report."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    sizes = ",".join(map(str, SIZES))
    parser.add_argument("--sizes", default=sizes, help="claims in the pools, comma-separated")
    parser.add_argument("--stages", default=",".join(STAGES), help="stages, comma-separated")
    parser.add_argument("--report", type=Path, help="Markdown file with the two markers")
    options = parser.parse_args()
    lines: list[dict[str, Any]] = []
    for size in map(int, options.sizes.split(",")):
        for stage in options.stages.split(","):
            line = {
                "pool": size,
                "stage": stage,
                **run_fresh("studies.growth_stage", stage, str(size)),
            }
            print(json.dumps(line), flush=True)
            lines.append(line)
            RESULTS.write_text(json.dumps(lines, indent=1))
    text = report(lines)
    print(text)
    if options.report:
        write_between_markers(options.report, "growth", text)


def exponent(sizes: Sequence[float], values: Sequence[float]) -> float:
    """Slope of log value over log size by least squares; NaN for one size."""
    x, y = [math.log(size) for size in sizes], [math.log(value) for value in values]
    mean_x, mean_y = sum(x) / len(x), sum(y) / len(y)
    spread = sum((a - mean_x) ** 2 for a in x)
    if not spread:
        return math.nan
    return sum((a - mean_x) * (b - mean_y) for a, b in zip(x, y, strict=True)) / spread


def reached_at(size: float, value: float, slope: float, bound: float) -> float:
    """Pool size at which ``value`` reaches ``bound``, from one point and the exponent."""
    if value >= bound:
        return size
    return size * (bound / value) ** (1 / slope) if slope > 0 else math.inf


def filled_at(sizes: Sequence[float], values: Sequence[float], bound: float) -> float:
    """Pool size at which the straight line through the last two points reaches ``bound``."""
    # Memory is a constant plus a cost per row, so it is linear in rows, not in logarithms.
    if len(sizes) < LAST:
        return math.inf
    per_row = (values[-1] - values[-2]) / (sizes[-1] - sizes[-2])
    if values[-1] >= bound:
        return sizes[-1]
    return sizes[-1] + (bound - values[-1]) / per_row if per_row > 0 else math.inf


def report(lines: Sequence[Mapping[str, Any]]) -> str:
    """The table of all stages, and the first one to reach a limit."""
    pools = sorted({line["pool"] for line in lines})[-SHOWN:]
    heads = " | ".join(f"{pool:,}: s / MB" for pool in pools)
    rows = [
        f"| stage | {heads} | exponent | KB/row | limit at |",
        "| --- |" + " ---: |" * (len(pools) + 3),
    ]
    breaks = []
    for stage in dict.fromkeys(line["stage"] for line in lines):
        runs = sorted((one for one in lines if one["stage"] == stage), key=lambda one: one["pool"])
        sizes, megabytes = ([one[name] for one in runs] for name in ("pool", "peak_mb"))
        last, slope = runs[-1], _slope(runs[-LAST:], "seconds")
        memory = filled_at(sizes, megabytes, MEMORY_MB)
        day = reached_at(last["pool"], last["seconds"], slope, DAY_S)
        what = "memory" if memory < day else "time"
        breaks.append((min(memory, day), stage, what))
        by_pool = {one["pool"]: one for one in runs}
        cells = [_cell(by_pool.get(pool)) for pool in pools]
        rows.append(
            f"| {stage} | {' | '.join(cells)} | {slope:.2f} | {_kb_per_row(sizes, megabytes)} "
            f"| {_pool(min(memory, day))}, {what} |"
        )
    first, stage, what = min(breaks)
    tail = f"First limit, extrapolated: **{stage}**, by {what}, at a pool of {_pool(first)}."
    return "\n".join([*rows, "", tail, "", description()])


def _slope(lines: Sequence[Mapping[str, Any]], name: str) -> float:
    return exponent([line["pool"] for line in lines], [line[name] for line in lines])


def _kb_per_row(sizes: Sequence[float], megabytes: Sequence[float]) -> str:
    if len(sizes) < LAST:
        return ""
    return f"{(megabytes[-1] - megabytes[-2]) / (sizes[-1] - sizes[-2]) * 1e3:.1f}"


def _cell(line: Mapping[str, Any] | None) -> str:
    if line is None:
        return ""
    return f"{line['seconds']:.1f} / {line['peak_mb']:,.0f}"


def _pool(size: float) -> str:
    if not size < FAR:
        return "far off"
    return f"{size / 1e6:,.1f} M" if size < 1e9 else f"{size / 1e9:,.0f} G"  # noqa: PLR2004 - a thousand million


if __name__ == "__main__":
    main()
