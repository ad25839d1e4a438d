"""All pairs of near claims that enter stage ``deduplicated``, as a table to look at.

``PAIRS`` holds every pair at least ``pairs_floor`` alike, by words and by meaning, whichever of
the two was kept.
"""

from collections.abc import Sequence

import numpy as np
import polars as pl
from numpy.typing import NDArray

from decomposerl.funnel.settings import DedupSettings
from decomposerl.kernels import cosine_filter, set_join
from decomposerl.kernels.cosine_filter import unit_rows
from decomposerl.kernels.matches import Pairs
from decomposerl.ports import Embedder
from decomposerl.schemas import PAIRS

LEXICAL, SEMANTIC = "lexical", "semantic"


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
    frame: pl.DataFrame, settings: DedupSettings, known: PrecomputedEmbedder, floor: float
) -> pl.DataFrame:
    """``PAIRS`` of ``frame`` (``claim_id``, ``claim``): lexical ones, then semantic ones.

    ``known`` has the vectors of its claims in order. Within a kind, pairs are sorted by the
    later claim, then the earlier one, in input order.
    """
    texts, threads = frame["claim"].to_list(), settings.threads
    if not texts:
        return PAIRS.empty()
    words = set_join.jaccard_pairs(texts, floor, shingle=settings.shingle, threads=threads)
    meaning = cosine_filter.cosine_pairs(
        known.vectors, floor, device=settings.device, threads=threads
    )
    ids = frame["claim_id"]
    return PAIRS.conform(
        pl.concat([_frame(LEXICAL, words, ids, floor), _frame(SEMANTIC, meaning, ids, floor)])
    )


def _frame(kind: str, pairs: Pairs, ids: pl.Series, floor: float) -> pl.DataFrame:
    return pl.DataFrame(
        {"earlier_id": ids[pairs.earlier], "later_id": ids[pairs.later]}
        | {"similarity": pairs.similarity}
    ).select(
        pl.lit(kind).alias("kind"),
        "earlier_id",
        "later_id",
        "similarity",
        pl.lit(floor).alias("floor"),
        pl.lit(pairs.engine).alias("engine"),
    )
