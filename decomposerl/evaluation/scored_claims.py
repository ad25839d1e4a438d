"""Claims joined with a system's predictions, and the slices they are scored by.

Claims with the same evidence are resampled together: those of one document, or of the same text
where no document is named. A slice (``SLICES``) exists where claims differ in it. ``states_rating``
is for ClaimDecomp: whether the evidence states the rating in words.
"""

from collections.abc import Iterator
from itertools import pairwise
from typing import Literal

import polars as pl

from decomposerl.errors import EvaluationError
from decomposerl.evaluation.derived import states_rating
from decomposerl.evaluation.intervals import Clusters, clusters_of
from decomposerl.evaluation.metrics import Codes, codes_of
from decomposerl.schemas import VERDICTS

SLICES = ("subset", "hops", "evidence_words", "source", "states_rating")
WORD_BANDS = (200, 500, 1_000, 2_000, 4_000)
"""Lower ends of the bands of evidence length, in white-space separated words."""
SHARED_EVIDENCE = pl.coalesce("document_id", "evidence")
"""Claims with the same value share evidence and are resampled together; null is shared by none."""
BEYOND_CONTEXT = "beyond_context"
"""The note of a claim that did not fit the model's context: what was done with it."""
BeyondContext = Literal["best_sentences", "wrong", "drop"]
"""``best_sentences``: the evidence's sentences nearest to the claim are read. ``wrong``: it counts
as wrong, without a call. ``drop``: claims with more than ``MOST_WORDS`` words of evidence are left
out, as in the authors' code for CoverBench; others that do not fit count as wrong."""
MOST_WORDS = 16_000
DROPPED: BeyondContext = "drop"
_RATED = "claimdecomp"
_SHOWN = 5


def beyond_context() -> pl.Expr:
    """What was done with a claim beyond the context, from the notes of ``PREDICTIONS``, or null."""
    return pl.col("notes").str.json_path_match(f"$.{BEYOND_CONTEXT}")


def without_dropped(predictions: pl.DataFrame) -> pl.DataFrame:
    """The predictions of claims that count."""
    return predictions.filter(beyond_context().ne_missing(DROPPED))


def scored_claims(predictions: pl.DataFrame, claims: pl.DataFrame) -> pl.DataFrame:
    """The labelled claims, each with its prediction, in the order of the claims.

    ``document`` names the evidence that claims share.

    Raises:
        EvaluationError: claims and predictions do not match, or predictions are of several systems.
    """
    for column in ("benchmark", "system", "engine"):
        several = predictions[column].unique().sort().to_list()
        if len(several) > 1:
            raise EvaluationError(f"predictions are of several {column}s: {', '.join(several)}")
    labelled = claims.filter(pl.col("label").is_not_null())
    missing = labelled.join(predictions, on="claim_id", how="anti")["claim_id"]
    unknown = predictions.join(claims, on="claim_id", how="anti")["claim_id"]
    for ids, what in ((missing, "claims have no prediction"), (unknown, "predictions no claim")):
        if len(ids):
            shown = ", ".join(ids.head(_SHOWN))
            raise EvaluationError(f"{len(ids):,} {what}: {shown}{', …' * (len(ids) > _SHOWN)}")
    about = labelled.select(
        "claim_id",
        "label",
        "subset",
        "source",
        hops=pl.col("num_hops").cast(pl.String),
        evidence_words=_word_band(),
        states_rating=_states_rating(),
        document=SHARED_EVIDENCE,
    )
    return about.join(predictions, on="claim_id", how="left", maintain_order="left")


def codes_and_clusters(frame: pl.DataFrame, classes: int = 2) -> tuple[Codes, Codes, Clusters]:
    """Labels, verdicts and clusters of ``scored_claims``, as ``paired.compare`` takes them.

    Raises:
        EvaluationError: a claim has a label beyond the first ``classes`` of ``VERDICTS``.
    """
    labels = codes_of(frame["label"].to_list(), classes)
    verdicts = codes_of(frame["verdict"].to_list(), classes)
    if beyond := int((labels >= classes).sum()):
        known = ", ".join(VERDICTS[:classes])
        raise EvaluationError(
            f"{beyond:,} claims have a label that this test set does not have: it has {known}"
        )
    return labels, verdicts, clusters_of(labels, frame["document"].to_list())


def slices(frame: pl.DataFrame) -> Iterator[tuple[str, str, pl.DataFrame]]:
    """Name, value and claims of each slice; a claim without a value is in no slice of that name."""
    for name in SLICES:
        if frame[name].n_unique() > 1:
            for (value,), rows in frame.drop_nulls(name).group_by(name, maintain_order=True):
                yield name, str(value), rows


def _word_band() -> pl.Expr:
    """The band of evidence length: ``0-199`` to ``4000+``, null without evidence."""
    words = pl.col("evidence").str.count_matches(r"\S+")
    edges = [0, *WORD_BANDS]
    names = [f"{a}-{b - 1}" for a, b in pairwise(edges)] + [f"{edges[-1]}+"]
    return words.cut(WORD_BANDS, labels=names, left_closed=True).cast(pl.String)


def _states_rating() -> pl.Expr:
    """``yes`` or ``no`` for ClaimDecomp, null for other sources."""
    rated = pl.when(pl.col("source") == _RATED).then("evidence")
    return rated.map_elements(lambda text: "yes" if states_rating(text) else "no", pl.String)
