"""Which claims of a test set are asked and scored, with which predictions, and in which slices.

``evaluation_subset`` has the claims to predict, ``scored_claims`` those with a prediction. Claims
with the same evidence count together: those of one document, or of the same text where no
document is named. A slice (``SLICES``) exists where claims differ in it.

Fact-checkers' articles end with their verdict, and a system that reads "We rate this claim False."
verifies nothing: the slice ``states_rating`` tells ClaimDecomp's claims with such a sentence from
those without. A sentence that gives the verdict away in other words is not recognised.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import polars as pl

from decomposerl.errors import EvaluationError
from decomposerl.kernels.text_scan import sentences
from decomposerl.schemas import LABELS, VERDICTS
from decomposerl.traces.basis import with_basis

HAS_EVIDENCE = pl.col("evidence").fill_null("").str.strip_chars() != ""
SLICES = ("subset", "hops", "evidence_words", "source", "states_rating")
WORD_BANDS = (200, 500, 1_000, 2_000, 4_000)
"""Lower ends of the bands of evidence length, in white-space separated words."""
SHARED_EVIDENCE = pl.coalesce("document_id", "evidence")
"""Claims with the same value share evidence; null is shared by none."""
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
_GRADE = (
    r"(?:(?:mostly|barely|half|partly)[\s-]+(?:true|false)|pants[\s-]+on[\s-]+fire|pants[\s-]fire"
    r"|true|false|full[\s-]flop|half[\s-]flip|no[\s-]flip)"
)
_RATES = r"(?:rate|rates|rated|rating|ruling|rule|ruled|rules)"
# "false" alone is an ordinary word: a rating needs a verb of rating, or the name of the scale.
# A full stop within a sentence is an abbreviation or a number: "We rate Sen. Cruz's claim False."
_RATING = re.compile(
    rf"\b{_RATES}\b.{{0,160}}?\b{_GRADE}\b|\btruth[\s-]?o[\s-]?meter\b"
    rf"|\b{_GRADE}\s+(?:rating|ruling)\b",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class EvaluationSubset:
    """The claims of a test set to predict, in the test set's order.

    ``usable`` counts the claims that can be predicted, ``left_out`` those that cannot, by reason.
    """

    claims: pl.DataFrame
    usable: int
    left_out: dict[str, int]

    @property
    def limited(self) -> bool:
        """Whether the limit left out usable claims."""
        return self.claims.height < self.usable


def classes_of(labels: pl.Series) -> int:
    """How many of ``VERDICTS`` a test set has as labels: 3 with Not Enough Information, else 2.

    A corpus that was read with ``label_rule = keep_middle`` has its middle class as that label.
    """
    return len(VERDICTS) if (labels == VERDICTS[-1]).any() else len(LABELS)


def evaluation_subset(claims: pl.DataFrame, limit: int | None = None) -> EvaluationSubset:
    """The claims of ``BENCHMARK_CLAIMS`` with a label and evidence, at most ``limit`` of them.

    A limited run takes as many of each label, ordered by id. Ids are hashes, so this is a random
    draw that every run repeats, and a larger limit keeps the claims of a smaller one.
    A claim without a label and without evidence counts as without a label.
    """
    labelled = claims.drop_nulls("label")
    usable = chosen = labelled.filter(HAS_EVIDENCE)
    counts = {
        "no_label": claims.height - labelled.height,
        "no_evidence": labelled.height - usable.height,
    }
    if limit is not None:
        first = in_turns(usable.sort("claim_id"), limit).select("claim_id")
        chosen = usable.join(first, on="claim_id", how="semi", maintain_order="left")
    left_out = {reason: count for reason, count in counts.items() if count}
    return EvaluationSubset(chosen, usable.height, left_out)


def in_turns(claims: pl.DataFrame, count: int) -> pl.DataFrame:
    """The first ``count``, of each label in turn; where one has too few, more of the others."""
    numbered = claims.with_columns(_turn=pl.int_range(pl.len()).over("label"))
    label = pl.col("label").cast(pl.Enum(VERDICTS))
    return numbered.sort("_turn", label).head(count).drop("_turn")


def beyond_context() -> pl.Expr:
    """What was done with a claim beyond the context, from the notes of ``PREDICTIONS``, or null."""
    return pl.col("notes").str.json_path_match(f"$.{BEYOND_CONTEXT}")


def without_dropped(predictions: pl.DataFrame) -> pl.DataFrame:
    """The predictions of claims that count."""
    return predictions.filter(beyond_context().ne_missing(DROPPED))


def scored_claims(predictions: pl.DataFrame, claims: pl.DataFrame) -> pl.DataFrame:
    """The labelled claims, each with its prediction, in the order of the claims.

    ``document`` names the evidence that claims share, ``evidence_words`` the band of its length:
    ``0-199`` to ``4000+``. ``states_rating`` is ``yes`` or ``no`` for ClaimDecomp, else null.

    Raises:
        EvaluationError: claims and predictions do not match, or predictions are of several systems.
    """
    for column in ("benchmark", "system", "engine"):
        several = predictions[column].unique().sort().to_list()
        if len(several) > 1:
            raise EvaluationError(f"predictions are of several {column}s: {', '.join(several)}")
    labelled = claims.drop_nulls("label")
    missing = labelled.join(predictions, on="claim_id", how="anti")["claim_id"]
    unknown = predictions.join(claims, on="claim_id", how="anti")["claim_id"]
    for ids, what in ((missing, "claims have no prediction"), (unknown, "predictions no claim")):
        if len(ids):
            shown = ", ".join(ids.head(_SHOWN))
            raise EvaluationError(f"{len(ids):,} {what}: {shown}{', …' * (len(ids) > _SHOWN)}")
    bands = [f"{a}-{b - 1}" for a, b in pairwise((0, *WORD_BANDS))] + [f"{WORD_BANDS[-1]}+"]
    words = pl.col("evidence").str.count_matches(r"\S+")
    rated = pl.when(pl.col("source") == _RATED).then("evidence")
    about = labelled.select(
        "claim_id",
        "label",
        "subset",
        "source",
        hops=pl.col("num_hops").cast(pl.String),
        evidence_words=words.cut(WORD_BANDS, labels=bands, left_closed=True).cast(pl.String),
        states_rating=rated.map_elements(
            lambda text: "yes" if any(map(_RATING.search, sentences(text))) else "no", pl.String
        ),
        document=SHARED_EVIDENCE,
    )
    return about.join(with_basis(predictions), on="claim_id", how="left", maintain_order="left")


def slices(frame: pl.DataFrame) -> Iterator[tuple[str, str, pl.DataFrame]]:
    """Name, value and claims of each slice; a claim without a value is in no slice of that name."""
    for name in SLICES:
        if frame[name].n_unique() > 1:
            for (value,), rows in frame.drop_nulls(name).group_by(name, maintain_order=True):
                yield name, str(value), rows
