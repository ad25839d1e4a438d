"""How many rows will reach each engine and how long they are, from the Parquet on disk.

A stage that has not run counts as keeping every row of the one before, so the estimate is an upper
bound. Lengths are white-space words times 1.3, as in the embedded token counter.
"""

from pathlib import Path

import polars as pl

from decomposerl.reports.cost import Workload
from decomposerl.training.estimate import ClaimFacts
from resources.store.integrity import scan_parquet

_TOKENS_A_WORD = 1.3
_STAGES = ("rule_filtered", "difficulty_band", "decontaminated")


def measured_workload(data: Path) -> Workload | None:
    """The workload of the claims in ``data``; None where there are none."""
    claims = sorted((data / "claims").glob("*.parquet"))
    rows = sum(map(_rows, claims))
    if not rows:
        return None
    kept = [rows]
    for stage in _STAGES:
        file = data / f"{stage}.parquet"
        kept.append(_rows(file) if file.is_file() else kept[-1])
    benchmarks = sum(_rows(file) for file in (data / "benchmark").glob("*.parquet"))
    words = [pl.col(name).str.count_matches(r"\S+").mean() for name in ("claim", "evidence")]
    claim, evidence = scan_parquet(*claims).select(words).collect().row(0)
    return Workload(
        entities=rows,
        verifier=kept[1],
        embedder=kept[2] + benchmarks,
        decomposer=kept[3],
        claim_tokens=_TOKENS_A_WORD * (claim or 0.0),
        evidence_tokens=_TOKENS_A_WORD * (evidence or 0.0),
        measured=True,
    )


def claim_facts(file: Path) -> ClaimFacts | None:
    """Rows, mean n* and mean lengths of a set of training claims; None if absent or empty."""
    if not file.is_file():
        return None
    words = [pl.col(name).str.count_matches(r"\S+").mean() for name in ("evidence", "claim")]
    named = {"rows": pl.len(), "questions": pl.col("n_star").mean()}
    facts = scan_parquet(file).select(**named, evidence=words[0], claim=words[1]).collect()
    rows, questions, evidence, claim = facts.row(0)
    if not rows:
        return None
    return ClaimFacts(rows, questions, _TOKENS_A_WORD * evidence, _TOKENS_A_WORD * claim)


def _rows(file: Path) -> int:
    return int(scan_parquet(file).select(pl.len()).collect().item())
