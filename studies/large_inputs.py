"""A pool of millions of made claims with evidence, written in batches.

``write_pool`` writes ``claims/<source>`` and ``benchmark/<name>`` with their run records through
the project's own writers, as ``studies.paper_inputs`` does for the paper's pool.
``without_evidence`` gives the disk space of a table's evidence back.
"""

import dataclasses
import itertools
import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import polars as pl

from decomposerl.schemas import BENCHMARK_CLAIMS, CLAIMS, DROPS, LABELS, REJECTS
from perf.frames import benchmark_frame, claims_frame
from perf.inputs import synthetic_claims, synthetic_evidence
from resources.store.integrity import run_path
from resources.store.parquet import StageRun, write_parquet
from resources.store.rows import RowsWriter, StoredRows
from resources.store.temporary import aside, put_in_place, replace_file
from studies.paper_plan import COUNTS, PAPER_ROWS, TESTS

BLOCK = 5_000
SENTENCES, MEDIAN_WORDS = 400, 650  # evidence of about 6 KB a row that compresses well


def write_pool(folder: Path, rows: int, seed: int = 7) -> int:
    """Write about ``rows`` claims over the paper's sources; returns how many."""
    evidence = synthetic_evidence(
        rows + len(COUNTS), seed, sentences=SENTENCES, median=MEDIAN_WORDS
    )
    written = 0
    for place, (source, (raw, *_)) in enumerate(COUNTS.items()):
        count = max(round(raw * rows / PAPER_ROWS), 1)
        with RowsWriter(folder / f"claims/{source}.parquet", CLAIMS) as writer:
            for frame in _claims(source, count, [seed, place], evidence):
                writer.add(frame)
            writer.finish()
        _record(folder, f"claims/{source}", count)
        write_parquet(REJECTS.empty(), folder / f"rejects/{source}.parquet")
        written += count
    for place, (name, count) in enumerate(TESTS.items()):
        tests = synthetic_claims(count, seed + 1_000 + place, language=seed)
        frame = BENCHMARK_CLAIMS.conform(benchmark_frame(name, tests))
        write_parquet(frame, folder / f"benchmark/{name}.parquet")
        _record(folder, f"benchmark/{name}", count)
    return written


def _claims(
    source: str, count: int, seed: list[int], evidence: Iterator[list[str]]
) -> Iterator[pl.DataFrame]:
    """``CLAIMS`` of one source, ``BLOCK`` rows at a time."""
    rng = np.random.default_rng([*seed, 40])
    for start in range(0, count, BLOCK):
        size = min(BLOCK, count - start)
        draw = int(rng.integers(2**31))
        texts = synthetic_claims(size, draw, language=seed[0])
        passages = list(itertools.islice(evidence, size))
        labels = np.array(LABELS)[rng.integers(0, 2, size)].tolist()
        numbers = pl.int_range(start, start + size, eager=True).cast(pl.String())
        yield claims_frame(source, texts, passages, labels).with_columns(
            claim_id=f"{source}-" + numbers, native_id=numbers
        )


def _record(folder: Path, key: str, rows: int) -> None:
    """Empty drops and the run record of a loaded corpus."""
    write_parquet(DROPS.empty(), folder / f"drops/{key}.parquet")
    run = StageRun(
        stage=key,
        run_id="made",
        finished_at="",
        seconds=0.0,
        rows_in=rows,
        rows_kept=rows,
        rows_dropped=0,
        rows_rejected=0,
        engine=None,
        engine_calls=0,
        engine_hits=0,
        config="{}",
    )
    text = json.dumps(dataclasses.asdict(run))
    replace_file(run_path(folder, key), lambda path: path.write_text(text, "utf-8"))


def without_evidence(rows: StoredRows) -> None:
    """Write the file again with empty evidence; ids, labels and claims stay for later checks."""
    empty = pl.lit([], dtype=pl.List(pl.String()))
    with aside(rows.path) as temporary, RowsWriter(temporary, rows.table) as writer:
        for batch in rows.batches():
            writer.add(batch.with_columns(evidence=pl.lit(""), passages=empty))
        writer.finish()
        put_in_place(temporary, rows.path)
