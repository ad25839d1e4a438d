"""Paraphrases (paper, "Deduplication and Decontamination").

Takes claims and an ``Embedder``, gives a step. Greedy in input order: a claim is dropped if
its cosine to an earlier kept claim is high enough; a dropped claim drops nobody.
"""

from functools import partial

import polars as pl

from decomposerl.funnel.settings import DedupSettings
from decomposerl.funnel.step import ROUNDING, Step, StepDecision, just_below
from decomposerl.kernels.cosine_filter import COSINE, keep_first_cosine, unit_rows
from decomposerl.kernels.matches import Matches
from decomposerl.ports import Embedder

DUPLICATE = "semantic_duplicate"


def semantic_duplicates_step(settings: DedupSettings, embedder: Embedder) -> Step:
    """Drop a claim whose cosine with an earlier kept claim is at least ``cosine``."""

    def judge(frame: pl.DataFrame) -> StepDecision:
        matches, close = _duplicates(frame["claim"].to_list(), settings, embedder)
        return StepDecision(
            frame,
            drop=pl.Series(matches.is_matched),
            reason=DUPLICATE,
            value=pl.Series(matches.similarity),
            threshold=settings.cosine,
            matched_claim_id=pl.Series(matches.of(frame["claim_id"].to_list()), dtype=pl.String()),
            matched_source=pl.Series(matches.of(frame["source"].to_list()), dtype=pl.String()),
            engine=f"{embedder.engine}; {COSINE}",
            close=close,
        )

    return Step("semantic_duplicates", judge, (DUPLICATE,))


def _duplicates(
    texts: list[str], settings: DedupSettings, embedder: Embedder
) -> tuple[Matches, int]:
    """The duplicates, and how many claims were decided by less than ``ROUNDING``."""
    if not texts:
        return Matches.none(0), 0
    vectors = unit_rows(embedder.embed(texts), len(texts))
    search = partial(keep_first_cosine, vectors, device=settings.device, threads=settings.threads)
    found = search(just_below(settings.cosine))
    below = int((found.is_matched & (found.similarity < settings.cosine)).sum())
    if below:  # a claim removed too early could have removed others
        found = search(settings.cosine)
    above = found.is_matched & (found.similarity < settings.cosine + ROUNDING)
    return found, below + int(above.sum())
