"""Removes claims that occur in a test set (paper, "Deduplication and Decontamination").

Three steps compare claims with the claims of all benchmarks (columns ``claim_id``,
``source``, ``claim``): equal wording, similar words, similar meaning. Each drop names the
nearest benchmark claim. Without benchmarks nothing is dropped and no engine is called.
"""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import polars as pl

from decomposerl.funnel.parts import embedded, embeds_in_blocks, joins_in_tasks, slices, text_parts
from decomposerl.funnel.settings import DecontaminationSettings
from decomposerl.funnel.step import ROUNDING, Step, StepDecision, drop_matched, just_below
from decomposerl.kernels.cosine_filter import COSINE, best_cross_cosine, unit_rows
from decomposerl.kernels.cosine_parts import VectorBlocks, best_cross_in_blocks
from decomposerl.kernels.matches import Matches
from decomposerl.kernels.set_join import cross_matches
from decomposerl.kernels.set_parts import cross_matches_in_parts
from decomposerl.kernels.text_scan import normalise_claim
from decomposerl.ports import Embedder, Tasks

EXACT, LEXICAL, SEMANTIC = "exact_match", "lexical_match", "semantic_match"
ROWS_AT_A_TIME = 1_000_000  # claims whose normal forms are in memory
Search = Callable[[pl.Series, list[str]], tuple[Matches, int | None]]
"""From claims and test claims to matches, and how many were decided by less than ``ROUNDING``."""


def exact_match_step(holdouts: pl.DataFrame) -> Step:
    """Drop a claim equal to a benchmark claim up to case, punctuation and spacing."""
    return _step(EXACT, holdouts, 1.0, _equal_claims)


def lexical_match_step(
    settings: DecontaminationSettings, holdouts: pl.DataFrame, tasks: Tasks | None = None
) -> Step:
    """Drop a claim whose word set has Jaccard >= ``jaccard`` with a benchmark claim.

    ``value`` is that Jaccard (under plain ``minhash`` its estimate, which may be below
    the threshold). With ``tasks``, more claims than ``task_memory_mb`` holds are compared part
    by part, with the same result.
    """

    def search(claims: pl.Series, tests: list[str]) -> tuple[Matches, None]:
        if tasks is not None and joins_in_tasks(settings, len(claims) + len(tests), tasks):
            parts = text_parts(claims, settings)
            given = settings.jaccard, tasks
            return cross_matches_in_parts(parts, tests, *given, shingle=settings.shingle), None
        matches = cross_matches(
            claims.to_list(),
            tests,
            settings.jaccard,
            engine=settings.lexical_engine,
            shingle=settings.shingle,
            candidate_budget=settings.candidate_budget,
            num_perm=settings.num_perm,
            threads=settings.threads,
        )
        return matches, None

    return _step(LEXICAL, holdouts, settings.jaccard, search)


def semantic_match_step(
    settings: DecontaminationSettings,
    holdouts: pl.DataFrame,
    embedder: Embedder,
    tasks: Tasks | None = None,
) -> Step:
    """Drop a claim whose cosine with a benchmark claim is at least ``cosine``.

    With ``tasks``, vectors that exceed ``task_memory_mb`` are made and compared block by block,
    with the same result.
    """
    threshold = just_below(settings.cosine)

    def matches_of(claims: pl.Series, tests: list[str]) -> Matches:
        if tasks is not None and embeds_in_blocks(settings, len(claims) + len(tests), tasks):
            made = embedded(pl.Series(tests), settings, embedder)
            right = VectorBlocks.write(tasks.arrays, "tests", made)
            left = embedded(claims, settings, embedder)
            found = best_cross_in_blocks(left, right, threshold, tasks, device=settings.device)
            right.remove()
            return found
        texts = [*claims.to_list(), *tests]
        vectors = unit_rows(embedder.embed(texts), len(texts))
        sides = vectors[: len(claims)], vectors[len(claims) :]
        return best_cross_cosine(
            *sides, threshold, device=settings.device, threads=settings.threads
        )

    def search(claims: pl.Series, tests: list[str]) -> tuple[Matches, int]:
        matches = matches_of(claims, tests)
        close = matches.is_matched & (matches.similarity < settings.cosine + ROUNDING)
        leaks = matches.at_least(settings.cosine)
        return replace(leaks, engine=f"{embedder.engine}; {COSINE}"), int(close.sum())

    return _step(SEMANTIC, holdouts, settings.cosine, search)


def _step(name: str, holdouts: pl.DataFrame, threshold: float, search: Search) -> Step:
    """A step named like its one reason; equal test claims are searched once, as the first."""
    tests = holdouts.select("claim_id", "claim", source="benchmark/" + pl.col("source"))
    tests = tests.unique("claim", keep="first", maintain_order=True)

    def judge(frame: pl.DataFrame) -> StepDecision:
        claims = frame["claim"]
        matches, close = Matches.none(len(claims)), None
        if len(claims) and not tests.is_empty():
            matches, close = search(claims, tests["claim"].to_list())
        return replace(drop_matched(frame, matches, tests, name, threshold), close=close)

    return Step(name, judge, (name,))


def _equal_claims(claims: pl.Series, tests: list[str]) -> tuple[Matches, None]:
    row_of: dict[str, int] = {}
    for row, test in enumerate(tests):
        row_of.setdefault(normalise_claim(test), row)
    texts = (text for part in slices(claims, ROWS_AT_A_TIME) for text in part.to_list())
    found = (row_of.get(normalise_claim(text), -1) for text in texts)
    matched = np.fromiter(found, np.int64, len(claims))
    return Matches(matched, (matched >= 0).astype(np.float64), "normalised text"), None
