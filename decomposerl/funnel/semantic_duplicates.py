"""Paraphrases (paper, "Deduplication and Decontamination").

Takes claims and an ``Embedder``, gives a step. Greedy in input order: a claim is dropped if
its cosine to an earlier kept claim is high enough; a dropped claim drops nobody.

Left out deliberately: the search (``kernels.cosine_filter``) and the vectors (a port).
"""

import polars as pl

from decomposerl.funnel.settings import DedupSettings
from decomposerl.funnel.step import Judgement, Step
from decomposerl.kernels.cosine_filter import COSINE, keep_first_cosine, unit_rows
from decomposerl.kernels.matches import Matches
from decomposerl.ports import Embedder

DUPLICATE = "semantic_duplicate"


def semantic_duplicates_step(settings: DedupSettings, embedder: Embedder) -> Step:
    """Drop a claim whose cosine with an earlier kept claim is at least ``cosine``."""

    def judge(frame: pl.DataFrame) -> Judgement:
        matches = _duplicates(frame["claim"].to_list(), settings, embedder)
        return Judgement(
            frame,
            drop=pl.Series(matches.found),
            reason=DUPLICATE,
            value=pl.Series(matches.similarity),
            threshold=settings.cosine,
            matched_claim_id=pl.Series(matches.of(frame["claim_id"].to_list()), dtype=pl.String()),
            matched_source=pl.Series(matches.of(frame["source"].to_list()), dtype=pl.String()),
            engine=f"{embedder.engine}; {COSINE}",
        )

    return Step("semantic_duplicates", judge, (DUPLICATE,))


def _duplicates(texts: list[str], settings: DedupSettings, embedder: Embedder) -> Matches:
    if not texts:
        return Matches.none(0)
    vectors = unit_rows(embedder.embed(texts), len(texts))
    return keep_first_cosine(
        vectors, settings.cosine, device=settings.device, threads=settings.threads
    )
