"""One stage of the funnel on one pool, in this process, with synthetic engines.

``python -m studies.growth_stage STAGE POOL`` prints one line of JSON: rows in and kept, seconds
without those of the engines, and peak memory during the stage. The rows that reach a stage are
the paper's share of the pool. Later stages get one word of evidence per row, which no kernel
reads. Stages that decide row by row are measured from file to file by ``studies.large_run``.
"""

import json
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import polars as pl

from decomposerl.funnel import catalogue, settings
from decomposerl.kernels.set_join import keep_first_duplicates
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
from resources.tokens.word_tokens import WordTokens
from studies.paper_plan import COUNTS

RAW, BAND, SILVER = (sum(row[column] for row in COUNTS.values()) for column in range(3))
DECONTAMINATED = 18_752  # not in the paper; measured on the pool of studies.paper_scale
SELECTED = 5_000
DIMENSIONS, TESTS = 3_072, 50_000
BLOCK, WARM = 20_000, 2_000


@dataclass
class StageCost:
    """Rows and seconds of one stage run."""

    rows_in: int
    rows_kept: int
    seconds: float


def rules(pool: int) -> StageCost:
    """Passages, tokens and overlap, on evidence generated block by block."""
    claims, cost = synthetic_claims(pool), StageCost(pool, 0, 0.0)
    evidence = synthetic_evidence(pool)
    for start in range(0, pool, BLOCK):
        part = claims[start : start + BLOCK]
        passages = [next(evidence) for _ in part]
        frame = claims_frame("pool", part, passages, ["Supported"] * len(part))
        started = time.perf_counter()
        done = catalogue.rule_filter(frame, settings.RuleSettings(), WordTokens(), SameEntities())
        cost.seconds += time.perf_counter() - started
        cost.rows_kept += done.kept.height
    return cost


def deduplicated(pool: int) -> StageCost:
    """Lexical, then semantic duplicates."""
    frame, engine = _reaching(pool, BAND), MadeVectors(DIMENSIONS)
    started = time.perf_counter()
    done = catalogue.deduplicate(frame, settings.DedupSettings(), engine)
    return StageCost(frame.height, done.kept.height, time.perf_counter() - started - engine.seconds)


def decontaminated(pool: int) -> StageCost:
    """All three kinds of leaks against 50,000 test claims, for any pool."""
    frame, engine = _reaching(pool, DECONTAMINATED), MadeVectors(DIMENSIONS)
    tests = benchmark_frame("tests", synthetic_claims(TESTS, seed=8))
    given = settings.DecontaminationSettings()
    started = time.perf_counter()
    done = catalogue.decontaminate(frame, tests, given, engine)
    return StageCost(frame.height, done.kept.height, time.perf_counter() - started - engine.seconds)


def selected(pool: int) -> StageCost:
    """Facility location in every cell, with a budget that grows with the pool."""
    frame, engine = _reaching(pool, SILVER), MadeVectors(DIMENSIONS)
    decomposed = frame.with_columns(
        questions=pl.lit(["Who?", "When?"]), n_star=pl.lit(2, dtype=pl.Int64())
    )
    given = settings.SelectionSettings(budget_per_label=SELECTED * pool // RAW // 2)
    started = time.perf_counter()
    chosen = catalogue.select_diverse(SILVER_DECOMPOSED.conform(decomposed), given, engine)
    return StageCost(
        frame.height, chosen.kept.height, time.perf_counter() - started - engine.seconds
    )


def lexical_pool(pool: int) -> StageCost:
    """Lexical duplicates of the whole pool; the funnel looks for them only in the band."""
    claims = synthetic_claims(pool)
    started = time.perf_counter()
    matches = keep_first_duplicates(
        claims, 0.7, candidate_budget=settings.DedupSettings().candidate_budget
    )
    return StageCost(pool, int((~matches.is_matched).sum()), time.perf_counter() - started)


STAGES: dict[str, Callable[[int], StageCost]] = {
    "rules": rules,
    "deduplicated": deduplicated,
    "decontaminated": decontaminated,
    "selected": selected,
    "lexical_pool": lexical_pool,
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
        "peak_mb": watch.peak_mb(),
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
