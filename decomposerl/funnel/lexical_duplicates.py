"""Near-identical wordings (paper, "Deduplication and Decontamination")."""

import polars as pl

from decomposerl.funnel.settings import DedupSettings
from decomposerl.funnel.step import Step, StepDecision, drop_matched
from decomposerl.kernels.set_join import keep_first_duplicates

DUPLICATE = "lexical_duplicate"


def lexical_duplicates_step(settings: DedupSettings) -> Step:
    """Drop a claim whose word set has Jaccard >= ``jaccard`` with an earlier kept claim.

    ``value`` is that Jaccard (under plain ``minhash`` its estimate, which may be below
    the threshold); the drop names the nearest kept claim.
    """

    def judge(frame: pl.DataFrame) -> StepDecision:
        matches = keep_first_duplicates(
            frame["claim"].to_list(),
            settings.jaccard,
            engine=settings.lexical_engine,
            shingle=settings.shingle,
            candidate_budget=settings.candidate_budget,
            num_perm=settings.num_perm,
            threads=settings.threads,
        )
        return drop_matched(frame, matches, frame, DUPLICATE, settings.jaccard)

    return Step("lexical_duplicates", judge, (DUPLICATE,))
