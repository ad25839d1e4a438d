"""The cost of a fresh process, for the bench's memory and cold-start rows.

``python -m perf.one_process duplicates claims.parquet`` reads claims and finds duplicates;
``python -m perf.one_process funnel`` runs every stage on a few rows, and ``installation``
compiles what they need. Each prints one line of JSON: rows, seconds since this module was loaded,
CPU seconds and peak memory.
"""

import json
import sys
import time
from collections.abc import Callable

STARTED = time.perf_counter()
ROWS, DIMENSIONS = 300, 64


def duplicates(path: str) -> int:
    """Number of duplicates in a Parquet file with a ``claim`` column."""
    import polars as pl

    from decomposerl.kernels.set_join import keep_first_duplicates

    claims = pl.read_parquet(path, columns=["claim"])["claim"].to_list()
    return int(keep_first_duplicates(claims, 0.7).is_matched.sum())


def funnel() -> int:
    """Rows of a small pool that pass every stage with default settings."""
    from decomposerl.funnel import catalogue, settings
    from perf.frames import (
        MadeVectors,
        SameEntities,
        SameProbability,
        SameQuestions,
        benchmark_frame,
        claims_frame,
    )
    from perf.inputs import synthetic_claims, synthetic_evidence
    from resources.tokens.word_tokens import WordTokens

    claims = synthetic_claims(2 * ROWS)
    vectors = MadeVectors(DIMENSIONS)
    labels = ["Supported", "Refuted"] * (ROWS // 2)
    frame = claims_frame("pool", claims[:ROWS], list(synthetic_evidence(ROWS)), labels)
    tests = benchmark_frame("tests", claims[ROWS:])
    frame = catalogue.rule_filter(frame, settings.RuleSettings(), WordTokens(), SameEntities()).kept
    frame = catalogue.difficulty_band(frame, settings.DifficultySettings(), SameProbability()).kept
    frame = catalogue.deduplicate(frame, settings.DedupSettings(), vectors).kept
    frame = catalogue.decontaminate(frame, tests, settings.DecontaminationSettings(), vectors).kept
    frame = catalogue.silver_decompose(frame, settings.SilverSettings(), SameQuestions()).kept
    few = settings.SelectionSettings(budget_per_label=ROWS // 10)
    return catalogue.select_diverse(frame, few, vectors).kept.height


def installation() -> int:
    """Compile the loops as an installation does; no rows."""
    from decomposerl.kernels.ahead_of_time import compile_loops

    compile_loops()
    return 0


def main() -> None:
    """Run the program named by the first argument and print its cost."""
    programs: dict[str, Callable[..., int]] = {
        "duplicates": duplicates,
        "funnel": funnel,
        "installation": installation,
    }
    rows = programs[sys.argv[1]](*sys.argv[2:])
    cost = {"rows": rows, "seconds": time.perf_counter() - STARTED, "cpu_s": time.process_time()}
    from perf.machine import peak_mb

    print(json.dumps({**cost, "peak_mb": peak_mb()}))


if __name__ == "__main__":
    main()
