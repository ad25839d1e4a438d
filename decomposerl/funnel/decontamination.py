"""Claims that stand in a test set leave (paper, "Deduplication and Decontamination").

Takes claims and the claims of all benchmarks (columns ``claim_id``, ``source``, ``claim``),
gives three steps: the same wording, nearly the same words, the same meaning. Each names the
benchmark claim that is nearest. Without benchmarks nothing is dropped and no engine called.
"""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import polars as pl

from decomposerl.funnel.settings import DecontaminationSettings
from decomposerl.funnel.step import ROUNDING, Step, StepDecision, just_below
from decomposerl.kernels.cosine_filter import COSINE, best_cross_cosine, unit_rows
from decomposerl.kernels.matches import Matches
from decomposerl.kernels.minhash_join import minhash_matches, verified_minhash_matches
from decomposerl.kernels.set_join import cross_matches
from decomposerl.kernels.text_scan import normalise_claim
from decomposerl.ports import Embedder

EXACT, LEXICAL, SEMANTIC = "exact_match", "lexical_match", "semantic_match"
Search = Callable[[list[str], list[str]], tuple[Matches, int | None]]
"""Claims and test claims to matches, and how many were decided by less than ``ROUNDING``."""


def exact_match_step(holdouts: pl.DataFrame) -> Step:
    """Drop a claim equal to a benchmark claim up to case, punctuation and spacing."""
    return _step(EXACT, holdouts, 1.0, _same)


def lexical_match_step(settings: DecontaminationSettings, holdouts: pl.DataFrame) -> Step:
    """Drop a claim whose word set has Jaccard >= ``jaccard`` with a benchmark claim.

    ``value`` is that Jaccard (under plain ``minhash`` its estimate, which may lie below
    the threshold).
    """

    def matches(claims: list[str], tests: list[str]) -> Matches:
        least, unit, permutations = settings.jaccard, settings.shingle, settings.num_perm
        if settings.lexical_engine == "minhash":
            return minhash_matches(claims, tests, least, permutations, shingle=unit)
        if settings.lexical_engine == "minhash_verified":
            return verified_minhash_matches(
                claims, tests, least, permutations, shingle=unit, threads=settings.threads
            )
        return cross_matches(
            claims,
            tests,
            least,
            shingle=unit,
            candidate_budget=settings.budget,
            num_perm=permutations,
            threads=settings.threads,
        )

    return _step(LEXICAL, holdouts, settings.jaccard, lambda *texts: (matches(*texts), None))


def semantic_match_step(
    settings: DecontaminationSettings, holdouts: pl.DataFrame, embedder: Embedder
) -> Step:
    """Drop a claim whose cosine with a benchmark claim is at least ``cosine``."""

    def search(claims: list[str], tests: list[str]) -> tuple[Matches, int]:
        texts = [*claims, *tests]
        vectors = unit_rows(embedder.embed(texts), len(texts))
        found = best_cross_cosine(
            vectors[: len(claims)],
            vectors[len(claims) :],
            just_below(settings.cosine),
            device=settings.device,
            threads=settings.threads,
        )
        close = found.is_matched & (found.similarity < settings.cosine + ROUNDING)
        leaks = found.at_least(settings.cosine)
        return replace(leaks, engine=f"{embedder.engine}; {COSINE}"), int(close.sum())

    return _step(SEMANTIC, holdouts, settings.cosine, search)


def _step(name: str, holdouts: pl.DataFrame, threshold: float, search: Search) -> Step:
    """A step named like its one reason; equal test claims are searched once, as the first."""
    tests = holdouts.select("claim_id", "source", "claim").unique(
        "claim", keep="first", maintain_order=True
    )
    sources = ("benchmark/" + tests["source"]).to_list()

    def judge(frame: pl.DataFrame) -> StepDecision:
        claims = frame["claim"].to_list()
        anything = bool(claims) and not tests.is_empty()
        found, close = Matches.none(len(claims)), None
        if anything:
            found, close = search(claims, tests["claim"].to_list())
        return StepDecision(
            frame,
            drop=pl.Series(found.is_matched),
            reason=name,
            value=pl.Series(found.similarity),
            threshold=threshold,
            matched_claim_id=pl.Series(found.of(tests["claim_id"].to_list()), dtype=pl.String()),
            matched_source=pl.Series(found.of(sources), dtype=pl.String()),
            engine=found.engine,
            close=close,
        )

    return Step(name, judge, (name,))


def _same(claims: list[str], tests: list[str]) -> tuple[Matches, None]:
    places: dict[str, int] = {}
    for place, test in enumerate(tests):
        places.setdefault(normalise_claim(test), place)
    matched = np.array([places.get(normalise_claim(claim), -1) for claim in claims], np.int64)
    return Matches(matched, (matched >= 0).astype(np.float64), "normalised text"), None
