"""Paraphrases (paper, "Deduplication and Decontamination")."""

from dataclasses import replace
from functools import partial

import polars as pl

from decomposerl.funnel.settings import DedupSettings
from decomposerl.funnel.step import ROUNDING, Step, StepDecision, drop_matched, just_below
from decomposerl.kernels.cosine_filter import COSINE, keep_first_cosine, unit_rows
from decomposerl.kernels.matches import Matches
from decomposerl.ports import Embedder

DUPLICATE = "semantic_duplicate"


def semantic_duplicates_step(settings: DedupSettings, embedder: Embedder) -> Step:
    """Drop a claim whose cosine with an earlier kept claim is at least ``cosine``.

    Greedy in input order: a dropped claim drops no other.
    """

    def judge(frame: pl.DataFrame) -> StepDecision:
        matches, close = _duplicates(frame["claim"].to_list(), settings, embedder)
        named = replace(matches, engine=f"{embedder.engine}; {COSINE}")
        decision = drop_matched(frame, named, frame, DUPLICATE, settings.cosine)
        return replace(decision, close=close)

    return Step("semantic_duplicates", judge, (DUPLICATE,))


def _duplicates(
    texts: list[str], settings: DedupSettings, embedder: Embedder
) -> tuple[Matches, int]:
    """The duplicates, and how many claims were decided by less than ``ROUNDING``."""
    if not texts:
        return Matches.none(0), 0
    vectors = unit_rows(embedder.embed(texts), len(texts))
    search = partial(keep_first_cosine, vectors, device=settings.device, threads=settings.threads)
    matches = search(just_below(settings.cosine))
    below = int((matches.is_matched & (matches.similarity < settings.cosine)).sum())
    if below:  # a claim removed too early could have removed others
        matches = search(settings.cosine)
    above = matches.is_matched & (matches.similarity < settings.cosine + ROUNDING)
    return matches, below + int(above.sum())
