"""Near-identical wordings (paper, "Deduplication and Decontamination").

Takes claims, gives a step. Keep first: a claim is dropped if an earlier kept claim shares
enough of its words; it names the kept claim that is nearest.
"""

from collections.abc import Sequence

import polars as pl

from decomposerl.funnel.settings import DedupSettings
from decomposerl.funnel.step import Step, StepDecision
from decomposerl.kernels.matches import Matches
from decomposerl.kernels.minhash_join import minhash_duplicates, verified_minhash_duplicates
from decomposerl.kernels.set_join import keep_first_duplicates

DUPLICATE = "lexical_duplicate"


def lexical_duplicates_step(settings: DedupSettings) -> Step:
    """Drop a claim whose word set has Jaccard >= ``jaccard`` with an earlier kept claim.

    ``value`` is that Jaccard (under plain ``minhash`` its estimate, which may lie below
    the threshold).
    """

    def judge(frame: pl.DataFrame) -> StepDecision:
        matches = _duplicates(frame["claim"].to_list(), settings)
        return StepDecision(
            frame,
            drop=pl.Series(matches.is_matched),
            reason=DUPLICATE,
            value=pl.Series(matches.similarity),
            threshold=settings.jaccard,
            matched_claim_id=pl.Series(matches.of(frame["claim_id"].to_list()), dtype=pl.String()),
            matched_source=pl.Series(matches.of(frame["source"].to_list()), dtype=pl.String()),
            engine=matches.engine,
        )

    return Step("lexical_duplicates", judge, (DUPLICATE,))


def _duplicates(texts: Sequence[str], settings: DedupSettings) -> Matches:
    unit, permutations, threads = settings.shingle, settings.num_perm, settings.threads
    if settings.lexical_engine == "minhash":
        return minhash_duplicates(texts, settings.jaccard, permutations, shingle=unit)
    if settings.lexical_engine == "minhash_verified":
        return verified_minhash_duplicates(
            texts, settings.jaccard, permutations, shingle=unit, threads=threads
        )
    return keep_first_duplicates(
        texts,
        settings.jaccard,
        shingle=unit,
        candidate_budget=settings.budget,
        num_perm=permutations,
        threads=threads,
    )
