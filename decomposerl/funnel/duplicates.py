"""Near-identical wordings and paraphrases (paper, "Deduplication and Decontamination").

Both steps are greedy in input order: a claim leaves if it is too near to an earlier kept one, and
a dropped claim drops no other. With ``keep_contrastive``, claims of different labels are no
duplicates. ``duplicate_pairs`` are all near pairs, as a table to look at.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
import polars as pl
from numpy.typing import NDArray

from decomposerl.funnel.parts import embedded, embeds_in_blocks, joins_in_tasks, text_parts
from decomposerl.funnel.settings import DedupSettings
from decomposerl.funnel.step import ROUNDING, Step, StepDecision, drop_matched, just_below
from decomposerl.kernels import cosine_filter, set_join
from decomposerl.kernels.cosine_filter import COSINE, keep_first_cosine, unit_rows
from decomposerl.kernels.cosine_parts import VectorBlocks, keep_first_in_blocks
from decomposerl.kernels.matches import Matches, Pairs
from decomposerl.kernels.set_parts import keep_first_in_parts
from decomposerl.ports import Embedder, Tasks
from decomposerl.schemas import PAIRS

LEXICAL, SEMANTIC = "lexical_duplicate", "semantic_duplicate"


def lexical_duplicates_step(settings: DedupSettings, tasks: Tasks | None = None) -> Step:
    """Drop a claim whose word set has Jaccard >= ``jaccard`` with an earlier kept claim.

    ``value`` is that Jaccard (under plain ``minhash`` its estimate, which may be below
    the threshold); the drop names the nearest kept claim. With ``tasks``, a join that exceeds
    ``task_memory_mb`` is split, with the same result.
    """

    def judge(frame: pl.DataFrame) -> StepDecision:
        matches, _ = _matched(frame, settings, lambda texts: (_alike(texts, settings, tasks), 0))
        return drop_matched(frame, matches, frame, LEXICAL, settings.jaccard)

    return Step("lexical_duplicates", judge, (LEXICAL,))


def semantic_duplicates_step(
    settings: DedupSettings, embedder: Embedder, tasks: Tasks | None = None
) -> Step:
    """Drop a claim whose cosine with an earlier kept claim is at least ``cosine``.

    With ``tasks``, vectors that exceed ``task_memory_mb`` are compared block by block, with the
    same result.
    """

    def judge(frame: pl.DataFrame) -> StepDecision:
        matches, close = _matched(
            frame, settings, lambda texts: _paraphrases(texts, settings, embedder, tasks)
        )
        named = replace(matches, engine=f"{embedder.engine}; {matches.engine}")
        decision = drop_matched(frame, named, frame, SEMANTIC, settings.cosine)
        return replace(decision, close=close)

    return Step("semantic_duplicates", judge, (SEMANTIC,))


def opposite_twins(claims: pl.DataFrame, drops: pl.DataFrame) -> int:
    """How many dropped claims have another label than the claim that was kept in their place.

    ``claims`` (``claim_id``, ``label``) are those that entered. Contrastive corpora pair one claim
    with two evidences, of which each label needs one; the steps compare claims alone.
    """
    twins = claims.select(matched_claim_id="claim_id", twin="label")
    return drops.join(twins, on="matched_claim_id").filter(pl.col("label") != pl.col("twin")).height


def _matched(
    frame: pl.DataFrame,
    settings: DedupSettings,
    search: Callable[[pl.Series], tuple[Matches, int]],
) -> tuple[Matches, int]:
    """The matches of ``search`` among all claims, or among those of each label, and its count."""
    if frame.is_empty() or not settings.keep_contrastive:
        return search(frame["claim"])
    whole, close = Matches.none(frame.height), 0
    for label in frame["label"].unique(maintain_order=True):
        rows = np.flatnonzero((frame["label"] == label).to_numpy())
        part, decided = search(frame["claim"].gather(rows))
        whole.matched[rows] = np.where(part.is_matched, rows[part.matched], -1)
        whole.similarity[rows] = part.similarity
        whole, close = replace(whole, engine=part.engine), close + decided
    return whole, close


def _alike(claims: pl.Series, settings: DedupSettings, tasks: Tasks | None) -> Matches:
    if tasks is not None and joins_in_tasks(settings, len(claims), tasks):
        parts = text_parts(claims, settings)
        return keep_first_in_parts(parts, settings.jaccard, tasks, shingle=settings.shingle)
    return set_join.keep_first_duplicates(
        claims.to_list(),
        settings.jaccard,
        engine=settings.lexical_engine,
        shingle=settings.shingle,
        candidate_budget=settings.candidate_budget,
        num_perm=settings.num_perm,
        threads=settings.threads,
    )


def _paraphrases(
    claims: pl.Series, settings: DedupSettings, embedder: Embedder, tasks: Tasks | None
) -> tuple[Matches, int]:
    """The duplicates, and how many were decided by less than ``ROUNDING``."""
    if claims.is_empty():
        return Matches.none(0, COSINE), 0
    if tasks is None or not embeds_in_blocks(settings, len(claims), tasks):
        texts = claims.to_list()
        vectors = unit_rows(embedder.embed(texts), len(texts))
        return _exact(
            partial(keep_first_cosine, vectors, device=settings.device, threads=settings.threads),
            settings,
        )
    blocks = VectorBlocks.write(tasks.arrays, "claims", embedded(claims, settings, embedder))
    try:
        search = partial(keep_first_in_blocks, blocks, tasks=tasks, device=settings.device)
        return _exact(search, settings)
    finally:
        blocks.remove()


def _exact(search: Callable[[float], Matches], settings: DedupSettings) -> tuple[Matches, int]:
    matches = search(just_below(settings.cosine))
    below = int((matches.is_matched & (matches.similarity < settings.cosine)).sum())
    if below:  # a claim removed too early could have removed others
        matches = search(settings.cosine)
    above = matches.is_matched & (matches.similarity < settings.cosine + ROUNDING)
    return replace(matches, engine=COSINE), below + int(above.sum())


class PrecomputedEmbedder:
    """An ``Embedder`` that embeds all texts once and then looks vectors up."""

    def __init__(self, embedder: Embedder, texts: Sequence[str]) -> None:
        """Embed ``texts``; ``embed`` accepts no others."""
        self.engine = embedder.engine
        self._row_of = {text: row for row, text in enumerate(texts)}
        self.vectors = np.empty((0, 1), np.float32)
        if texts:
            self.vectors = unit_rows(embedder.embed(texts), len(texts))

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """The vectors of these texts, shape (n, d)."""
        return self.vectors[[self._row_of[text] for text in texts]]


def duplicate_pairs(
    frame: pl.DataFrame, settings: DedupSettings, known: PrecomputedEmbedder
) -> pl.DataFrame:
    """``PAIRS`` of ``frame`` (``claim_id``, ``label``, ``claim``) at least ``pairs_floor`` alike.

    All of them, whichever claim was kept; with ``keep_contrastive`` those of one label.
    Lexical ones come first. Within a kind, pairs are sorted by the later claim, then the earlier
    one, in input order. ``known`` has the vectors of the claims in order.
    """
    texts, threads, floor = frame["claim"].to_list(), settings.threads, settings.pairs_floor
    if not texts or floor is None:
        return PAIRS.empty()
    words = set_join.jaccard_pairs(texts, floor, shingle=settings.shingle, threads=threads)
    meaning = cosine_filter.cosine_pairs(
        known.vectors, floor, device=settings.device, threads=threads
    )
    kinds = {"lexical": words, "semantic": meaning}
    every = pl.concat(_named(kind, pairs, frame, floor) for kind, pairs in kinds.items())
    same = pl.lit(not settings.keep_contrastive) | pl.col("same_label")
    return PAIRS.conform(every.filter(same).drop("same_label"))


def _named(kind: str, pairs: Pairs, frame: pl.DataFrame, floor: float) -> pl.DataFrame:
    earlier, later = (frame[rows] for rows in (pairs.earlier, pairs.later))
    return pl.DataFrame(
        {"earlier_id": earlier["claim_id"], "later_id": later["claim_id"]}
        | {"similarity": pairs.similarity, "same_label": earlier["label"] == later["label"]}
    ).select(
        pl.lit(kind).alias("kind"),
        pl.all(),
        pl.lit(floor).alias("floor"),
        pl.lit(pairs.engine).alias("engine"),
    )
