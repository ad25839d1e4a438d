"""Near-identical wordings (paper, "Deduplication and Decontamination")."""

import polars as pl

from decomposerl.funnel.parts import joins_in_tasks, text_parts
from decomposerl.funnel.settings import DedupSettings
from decomposerl.funnel.step import Step, StepDecision, drop_matched
from decomposerl.kernels.matches import Matches
from decomposerl.kernels.set_join import keep_first_duplicates
from decomposerl.kernels.set_parts import keep_first_in_parts
from decomposerl.ports import Tasks

DUPLICATE = "lexical_duplicate"


def lexical_duplicates_step(settings: DedupSettings, tasks: Tasks | None = None) -> Step:
    """Drop a claim whose word set has Jaccard >= ``jaccard`` with an earlier kept claim.

    ``value`` is that Jaccard (under plain ``minhash`` its estimate, which may be below
    the threshold); the drop names the nearest kept claim. With ``tasks``, a join that exceeds
    ``task_memory_mb`` is split, with the same result.
    """

    def judge(frame: pl.DataFrame) -> StepDecision:
        matches = _duplicates(frame["claim"], settings, tasks)
        return drop_matched(frame, matches, frame, DUPLICATE, settings.jaccard)

    return Step("lexical_duplicates", judge, (DUPLICATE,))


def _duplicates(claims: pl.Series, settings: DedupSettings, tasks: Tasks | None) -> Matches:
    if tasks is not None and joins_in_tasks(settings, len(claims), tasks):
        parts = text_parts(claims, settings)
        return keep_first_in_parts(parts, settings.jaccard, tasks, shingle=settings.shingle)
    return keep_first_duplicates(
        claims.to_list(),
        settings.jaccard,
        engine=settings.lexical_engine,
        shingle=settings.shingle,
        candidate_budget=settings.candidate_budget,
        num_perm=settings.num_perm,
        threads=settings.threads,
    )
