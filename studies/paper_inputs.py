"""The paper's pool on disk: claims, test claims and recorded answers of every engine.

``python -m studies.paper_inputs FOLDER ROWS`` writes ``claims/<source>`` and
``benchmark/<name>`` with their run records, the replay tables in ``made_answers/`` and
``plan.parquet``, all through the project's own writers. Native corpus files are not written.
"""

import dataclasses
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from decomposerl.kernels.text_scan import words
from decomposerl.schemas import DROPS, LABELS, REJECTS
from perf.frames import benchmark_frame, claims_frame
from perf.inputs import (
    Random,
    Vectors,
    clustered_vectors,
    neighbours,
    replaced_positions,
    synthetic_claims,
    synthetic_evidence,
    vocabulary,
)
from resources.store.integrity import run_path
from resources.store.parquet import StageRun, write_parquet
from resources.store.temporary import replace_file
from studies import replay
from studies.paper_plan import COUNTS, TESTS, PoolPlan, plan_pool

DIMENSIONS = 3_072
UNLIKE: dict[str, Any] = {"copied": 0.0, "covered": 0.5}  # only the plan makes claims similar
TIGHTNESS = (1.0, 1.6)  # no two claims of a cluster reach 0.70 unless planted
ENOUGH_WORDS, SHORT_SENTENCES = 160, 5
NEAR, BELOW = (0.74, 0.95), (0.45, 0.62)
PARAPHRASED, SEMANTIC_BELOW, LEAKED = (0.72, 0.97), (0.50, 0.66), (0.92, 0.98)


def write_inputs(folder: Path, rows: int, seed: int = 7) -> None:
    """Write all inputs of the funnel for a pool of ``rows`` claims."""
    plan = plan_pool(rows, seed)
    rng = np.random.default_rng([seed, 21])
    claims = synthetic_claims(len(plan.fates), seed, **UNLIKE)
    tests = synthetic_claims(len(plan.tests), seed + 1, **UNLIKE)
    _plant_texts(rng, plan, claims, tests)
    passages = _passages(plan, claims, seed)
    labels = np.array(LABELS)[rng.integers(0, 2, len(claims))]
    _write_pool(folder, plan, (claims, tests), passages, labels.tolist())
    _record_answers(folder / "made_answers", plan, claims, passages, labels)
    vectors = _vectors(rng, plan, seed)
    texts = [(claims[row],) for row in plan.in_band.tolist()] + [(test,) for test in tests]
    replay.record(folder / "made_answers", replay.ReplayEmbedder, texts, vectors)
    _write_plan(folder, plan, claims, tests)


def _plant_texts(rng: Random, plan: PoolPlan, claims: list[str], tests: list[str]) -> None:
    """Replace the texts of planted duplicates, lookalikes and leaks, in place."""
    spare = vocabulary().tolist()
    bounds = {"near_duplicate": NEAR, "near_leak": NEAR, "lexical_lookalike": BELOW}
    for row, (fate, partner) in enumerate(zip(plan.fates, plan.partners.tolist(), strict=True)):
        if fate == "exact_duplicate":
            claims[row] = claims[partner].rstrip(".").upper()
        elif fate == "exact_leak":
            tests[partner] = f"  {claims[row].rstrip('.').title()}!"
        elif fate == "near_leak":
            tests[partner] = _reworded(rng, claims[row], spare, rng.uniform(*bounds[fate]))
        elif fate in bounds:
            claims[row] = _reworded(rng, claims[partner], spare, rng.uniform(*bounds[fate]))


def _reworded(rng: Random, claim: str, spare: Sequence[str], jaccard: float) -> str:
    """``claim`` with words exchanged to get about this Jaccard."""
    different = list(dict.fromkeys(words(claim)))
    gone = replaced_positions(rng, len(different), jaccard).tolist()
    exchanged = {different[index]: spare[int(rng.integers(len(spare)))] for index in gone}
    return " ".join(exchanged.get(word, word) for word in words(claim)).capitalize() + "."


def _passages(plan: PoolPlan, claims: Sequence[str], seed: int) -> list[list[str]]:
    """Evidence of each claim, long enough unless its fate is "short"."""
    evidence_of: list[list[str]] = []
    more = ["Nothing."] * ENOUGH_WORDS
    for row, passages in enumerate(synthetic_evidence(len(claims), seed)):
        if plan.fates[row] == "short":
            evidence_of.append([". ".join(passages[0].split(". ")[:SHORT_SENTENCES])])
            continue
        long = sum(len(passage.split()) for passage in passages) >= ENOUGH_WORDS
        more = passages if long else more
        evidence = passages if long else passages + more
        evidence_of.append([claims[row], *evidence] if plan.fates[row] == "copied" else evidence)
    return evidence_of


def _vectors(rng: Random, plan: PoolPlan, seed: int) -> Vectors:
    """Vectors of the rows in the band, followed by all test claims."""
    band = plan.in_band
    index_of = np.full(len(plan.fates), -1)
    index_of[band] = np.arange(len(band))
    total = len(band) + len(plan.tests)
    vectors = clustered_vectors(total, DIMENSIONS, seed, spread=TIGHTNESS)
    for fate in ("exact_duplicate", "near_duplicate"):
        rows = plan.rows(fate)
        vectors[index_of[rows]] = vectors[index_of[plan.partners[rows]]]
    for fate, bounds in (("paraphrase", PARAPHRASED), ("semantic_lookalike", SEMANTIC_BELOW)):
        rows = plan.rows(fate)
        originals = vectors[index_of[plan.partners[rows]]]
        vectors[index_of[rows]] = neighbours(rng, originals, rng.uniform(*bounds, len(rows)))
    rows = plan.rows("paraphrase_leak")
    near = neighbours(rng, vectors[index_of[rows]], rng.uniform(*LEAKED, len(rows)))
    vectors[len(band) + plan.partners[rows]] = near
    return vectors


def _record_answers(
    folder: Path,
    plan: PoolPlan,
    claims: Sequence[str],
    passages: Sequence[Sequence[str]],
    labels: np.ndarray,
) -> None:
    """Record entities, support probabilities and questions of every claim."""
    rng = np.random.default_rng(22)
    named = [["Ann"] if fate == "unnamed" else ["Ann", "Bob"] for fate in plan.fates]
    replay.record(folder, replay.ReplayEntities, [(c,) for c in claims], pl.Series(named))
    aligned = rng.uniform(0.3, 0.8, len(claims))
    aligned[np.isin(plan.fates, ["easy", "unnamed", "short", "copied"])] = 0.9
    aligned[plan.rows("mislabelled")] = 0.1
    support = np.where(labels == LABELS[0], aligned, 1 - aligned)
    pairs = [("\n".join(row), claim) for row, claim in zip(passages, claims, strict=True)]
    replay.record(folder, replay.ReplayVerifier, pairs, pl.Series(support))
    band = plan.in_band.tolist()
    questions = [
        [f"Who did part {n}?" for n in range(1 if plan.fates[row] == "unasked" else 2 + row % 4)]
        for row in band
    ]
    replay.record(
        folder, replay.ReplayDecomposer, [pairs[row] for row in band], pl.Series(questions)
    )


def _write_pool(
    folder: Path,
    plan: PoolPlan,
    both: tuple[Sequence[str], Sequence[str]],
    passages: Sequence[Sequence[str]],
    labels: Sequence[str],
) -> None:
    claims, tests = both
    for source in COUNTS:
        rows = np.flatnonzero(plan.sources == source).tolist()
        texts = [claims[row] for row in rows]
        evidence = [passages[row] for row in rows]
        frame = claims_frame(source, texts, evidence, [labels[row] for row in rows])
        _write(folder, f"claims/{source}", frame)
        write_parquet(REJECTS.empty(), folder / f"rejects/{source}.parquet")
    for name in TESTS:
        rows = np.flatnonzero(plan.tests == name).tolist()
        _write(folder, f"benchmark/{name}", benchmark_frame(name, [tests[row] for row in rows]))


def _write(folder: Path, key: str, frame: pl.DataFrame) -> None:
    """Write a frame with empty drops and the run record of a loaded corpus."""
    write_parquet(frame, folder / f"{key}.parquet")
    write_parquet(DROPS.empty(), folder / f"drops/{key}.parquet")
    run = StageRun(
        stage=key,
        run_id="synthetic",
        finished_at="",
        seconds=0.0,
        rows_in=frame.height,
        rows_kept=frame.height,
        rows_dropped=0,
        rows_rejected=0,
        engine=None,
        engine_calls=0,
        engine_hits=0,
        config="{}",
    )
    record = json.dumps(dataclasses.asdict(run))
    replace_file(run_path(folder, key), lambda path: path.write_text(record, "utf-8"))


def _write_plan(folder: Path, plan: PoolPlan, claims: Sequence[str], tests: Sequence[str]) -> None:
    """Write each planted claim with its partner's text and their Jaccard."""
    numbers = np.concatenate([np.arange((plan.sources == source).sum()) for source in COUNTS])
    ids = [f"{source}-train-{row}" for source, row in zip(plan.sources, numbers, strict=True)]
    other = [
        None if partner < 0 else tests[partner] if fate.endswith("leak") else claims[partner]
        for fate, partner in zip(plan.fates, plan.partners.tolist(), strict=True)
    ]
    jaccard = [
        None if text is None else _jaccard(claim, text)
        for claim, text in zip(claims, other, strict=True)
    ]
    columns = {"claim_id": ids, "fate": plan.fates.tolist(), "partner": other, "jaccard": jaccard}
    write_parquet(
        pl.DataFrame(columns, schema_overrides={"jaccard": pl.Float64}), folder / "plan.parquet"
    )


def _jaccard(left: str, right: str) -> float:
    a, b = frozenset(words(left)), frozenset(words(right))
    return len(a & b) / max(len(a | b), 1)


def main() -> None:
    """Write the pool given by the arguments and print the seconds."""
    started = time.perf_counter()
    write_inputs(Path(sys.argv[1]), int(sys.argv[2]))
    print(json.dumps({"seconds": time.perf_counter() - started}))


if __name__ == "__main__":
    main()
