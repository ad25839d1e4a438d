"""One stage of the funnel on one pool, in this process, with synthetic engines.

``python -m studies.growth_stage STAGE POOL`` prints one line of JSON: rows in and kept, seconds
and core-seconds without those of the engines, and peak memory during the stage. The rows that
reach a stage are the paper's share of the pool. Later stages get one word of evidence per row,
which no kernel reads. Stages that decide row by row are measured from file to file by
``studies.large_run``. Stages ``*_tasks`` split their searches into tasks of ``TASK_MB``, one after
the other, so that the peak is that of one task and of what the step itself holds.
"""

import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl

from decomposerl.funnel import catalogue, settings
from decomposerl.funnel.duplicates import lexical_duplicates_step
from decomposerl.kernels.set_join import keep_first_duplicates
from decomposerl.ports import Tasks
from decomposerl.schemas import SILVER_DECOMPOSED
from perf.frames import (
    MadeVectors,
    SameEntities,
    band_frame,
    benchmark_frame,
    claims_frame,
)
from perf.inputs import synthetic_claims, synthetic_evidence
from perf.memory_watch import MemoryWatch
from resources.mapper.pools import InProcessMapper
from resources.store.stage_writer import shared_tasks
from resources.tokens.word_tokens import WordTokens
from studies.paper_plan import COUNTS

RAW, BAND, SILVER = (sum(row[column] for row in COUNTS.values()) for column in range(3))
DECONTAMINATED = 18_752  # not in the paper; measured on the pool of studies.paper_scale
SELECTED = 5_000
DIMENSIONS, TESTS = 3_072, 50_000
BLOCK, WARM = 20_000, 2_000
TASK_MB, EXACT_CELL = 1_000, 5_000
WARM_MB, WARM_JOIN_MB = 20, 1  # of a task in the warm-up run, which is split too


@dataclass
class StageCost:
    """Rows, seconds and core-seconds of one stage run."""

    rows_in: int
    rows_kept: int
    seconds: float
    cpu_seconds: float


class Clock:
    """Seconds and core-seconds from its creation on."""

    def __init__(self) -> None:
        """Start."""
        self._started, self._cpu = time.perf_counter(), time.process_time()

    def cost(self, rows: int, kept: int, engine: MadeVectors | None = None) -> StageCost:
        """The cost until now, less what ``engine`` took."""
        seconds, cpu = time.perf_counter() - self._started, time.process_time() - self._cpu
        if engine is not None:
            seconds, cpu = seconds - engine.seconds, cpu - engine.cpu_seconds
        return StageCost(rows, kept, seconds, cpu)


def rules(pool: int) -> StageCost:
    """Passages, tokens and overlap, on evidence generated block by block."""
    claims, cost = synthetic_claims(pool), StageCost(pool, 0, 0.0, 0.0)
    evidence = synthetic_evidence(pool)
    for start in range(0, pool, BLOCK):
        part = claims[start : start + BLOCK]
        passages = [next(evidence) for _ in part]
        frame = claims_frame("pool", part, passages, ["Supported"] * len(part))
        clock = Clock()
        done = catalogue.rule_filter(frame, settings.RuleSettings(), WordTokens(), SameEntities())
        here = clock.cost(len(part), done.kept.height)
        cost.seconds += here.seconds
        cost.cpu_seconds += here.cpu_seconds
        cost.rows_kept += here.rows_kept
    return cost


def deduplicated(pool: int, tasks: Tasks | None = None, memory: int = TASK_MB * 1_000) -> StageCost:
    """Lexical, then semantic duplicates."""
    frame, engine = _reaching(pool, BAND), MadeVectors(DIMENSIONS)
    given = settings.DedupSettings(task_memory_mb=memory)
    clock = Clock()
    done = catalogue.deduplicate(frame, given, engine, tasks)
    return clock.cost(frame.height, done.kept.height, engine)


def decontaminated(
    pool: int, tasks: Tasks | None = None, memory: int = TASK_MB * 1_000
) -> StageCost:
    """All three kinds of leaks against 50,000 test claims, for any pool."""
    frame, engine = _reaching(pool, DECONTAMINATED), MadeVectors(DIMENSIONS)
    tests = benchmark_frame("tests", synthetic_claims(TESTS, seed=8))
    given = settings.DecontaminationSettings(task_memory_mb=memory)
    clock = Clock()
    done = catalogue.decontaminate(frame, tests, given, engine, tasks)
    return clock.cost(frame.height, done.kept.height, engine)


def selected(pool: int, tasks: Tasks | None = None, memory: int = TASK_MB * 1_000) -> StageCost:
    """Facility location in every cell, with a budget that grows with the pool."""
    frame, engine = _reaching(pool, SILVER), MadeVectors(DIMENSIONS)
    decomposed = frame.with_columns(
        questions=pl.lit(["Who?", "When?"]), n_star=pl.lit(2, dtype=pl.Int64())
    )
    given = settings.SelectionSettings(
        budget_per_label=SELECTED * pool // RAW // 2, task_memory_mb=memory, exact_cell=EXACT_CELL
    )
    clock = Clock()
    rows = SILVER_DECOMPOSED.conform(decomposed)
    chosen = catalogue.select_diverse(rows, given, engine, tasks)
    return clock.cost(frame.height, chosen.kept.height, engine)


def lexical_pool(pool: int) -> StageCost:
    """Lexical duplicates of the whole pool; the funnel looks for them only in the band."""
    claims = synthetic_claims(pool)
    clock = Clock()
    matches = keep_first_duplicates(
        claims, 0.7, candidate_budget=settings.DedupSettings().candidate_budget
    )
    return clock.cost(pool, int((~matches.is_matched).sum()))


def lexical_pool_tasks(pool: int) -> StageCost:
    """The same, exact, in tasks."""
    claims = pl.DataFrame({"claim": synthetic_claims(pool)})
    given = settings.DedupSettings(task_memory_mb=_memory(pool, WARM_JOIN_MB))
    with _tasks() as tasks:
        clock = Clock()
        judged = lexical_duplicates_step(given, tasks).judge(
            claims.with_columns(claim_id=pl.int_range(pool), source=pl.lit("pool"))
        )
        return clock.cost(pool, int((~judged.drop).sum()))


def _in_tasks(stage: Callable[[int, Tasks, int], StageCost]) -> Callable[[int], StageCost]:
    def run(pool: int) -> StageCost:
        with _tasks() as tasks:
            return stage(pool, tasks, _memory(pool))

    return run


@contextmanager
def _tasks() -> Iterator[Tasks]:
    with (
        tempfile.TemporaryDirectory() as folder,
        shared_tasks(InProcessMapper(), Path(folder)) as tasks,
    ):
        yield tasks


def _memory(pool: int, warm: int = WARM_MB) -> int:
    return TASK_MB if pool > WARM else warm


STAGES: dict[str, Callable[[int], StageCost]] = {
    "rules": rules,
    "deduplicated": deduplicated,
    "decontaminated": decontaminated,
    "selected": selected,
    "lexical_pool": lexical_pool,
    "deduplicated_tasks": _in_tasks(deduplicated),
    "decontaminated_tasks": _in_tasks(decontaminated),
    "selected_tasks": _in_tasks(selected),
    "lexical_pool_tasks": lexical_pool_tasks,
}


def _reaching(pool: int, paper_rows: int) -> pl.DataFrame:
    """Rows of a pool that reach a stage, with the source shares of the paper's band."""
    rows = pool * paper_rows // RAW
    shares = np.array([band for _, band, _ in COUNTS.values()], float)
    drawn = np.random.default_rng(7).choice(len(shares), rows, p=shares / shares.sum())
    sources = np.array(list(COUNTS))[np.sort(drawn)]
    return band_frame(synthetic_claims(rows), sources.tolist())


def main() -> None:
    """Run one stage after a small warm-up run, and print its cost."""
    stage, pool = sys.argv[1], int(sys.argv[2])
    STAGES[stage](WARM)
    with MemoryWatch() as watch:
        cost = STAGES[stage](pool)
    result = {
        "rows_in": cost.rows_in,
        "rows_kept": cost.rows_kept,
        "seconds": cost.seconds,
        "cpu_seconds": cost.cpu_seconds,
        "peak_mb": watch.peak_mb(),
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
