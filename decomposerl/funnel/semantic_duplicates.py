"""Paraphrases (paper, "Deduplication and Decontamination")."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import polars as pl

from decomposerl.funnel.parts import embedded, embeds_in_blocks
from decomposerl.funnel.settings import DedupSettings
from decomposerl.funnel.step import ROUNDING, Step, StepDecision, drop_matched, just_below
from decomposerl.kernels.cosine_filter import COSINE, keep_first_cosine, unit_rows
from decomposerl.kernels.cosine_parts import VectorBlocks, keep_first_in_blocks
from decomposerl.kernels.matches import Matches
from decomposerl.ports import Embedder, Tasks

DUPLICATE = "semantic_duplicate"
Search = Callable[[float], Matches]


def semantic_duplicates_step(
    settings: DedupSettings, embedder: Embedder, tasks: Tasks | None = None
) -> Step:
    """Drop a claim whose cosine with an earlier kept claim is at least ``cosine``.

    Greedy in input order: a dropped claim drops no other. With ``tasks``, vectors that exceed
    ``task_memory_mb`` are compared block by block, with the same result.
    """

    def judge(frame: pl.DataFrame) -> StepDecision:
        matches, close = _duplicates(frame["claim"], settings, embedder, tasks)
        named = replace(matches, engine=f"{embedder.engine}; {matches.engine}")
        decision = drop_matched(frame, named, frame, DUPLICATE, settings.cosine)
        return replace(decision, close=close)

    return Step("semantic_duplicates", judge, (DUPLICATE,))


def _duplicates(
    claims: pl.Series, settings: DedupSettings, embedder: Embedder, tasks: Tasks | None
) -> tuple[Matches, int]:
    """The duplicates, and how many were decided by less than ``ROUNDING``."""
    if claims.is_empty():
        return Matches.none(0, COSINE), 0
    if tasks is None or not embeds_in_blocks(settings, len(claims), tasks):
        texts = claims.to_list()
        vectors = unit_rows(embedder.embed(texts), len(texts))
        whole: Search = partial(
            keep_first_cosine, vectors, device=settings.device, threads=settings.threads
        )
        return _exact(whole, settings)
    blocks = VectorBlocks.write(tasks.arrays, "claims", embedded(claims, settings, embedder))
    try:
        search = partial(keep_first_in_blocks, blocks, tasks=tasks, device=settings.device)
        return _exact(search, settings)
    finally:
        blocks.remove()


def _exact(search: Search, settings: DedupSettings) -> tuple[Matches, int]:
    matches = search(just_below(settings.cosine))
    below = int((matches.is_matched & (matches.similarity < settings.cosine)).sum())
    if below:  # a claim removed too early could have removed others
        matches = search(settings.cosine)
    above = matches.is_matched & (matches.similarity < settings.cosine + ROUNDING)
    return replace(matches, engine=COSINE), below + int(above.sum())
