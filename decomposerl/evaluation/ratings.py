"""Evidence that states the rating in words: fact-checkers' articles end with their verdict.

Takes evidence of ClaimDecomp, gives whether a sentence states the rating, and the claims without
those sentences, which is another test: a system that reads "We rate this claim False." verifies
nothing. Such a sentence speaks of rating or ruling and names a grade of the scale, or names the
scale itself; "false" alone is an ordinary word.

Left out deliberately: headlines and pictures of the scale, which the files do not hold, and
sentences that give the verdict away in other words.
"""

import re

import polars as pl

from decomposerl.claims.claim import claim_id
from decomposerl.kernels.text_scan import sentences
from decomposerl.schemas import BENCHMARK_CLAIMS

_GRADE = (
    r"(?:(?:mostly|barely|half|partly)[\s-]+(?:true|false)|pants[\s-]+on[\s-]+fire|pants[\s-]fire"
    r"|true|false|full[\s-]flop|half[\s-]flip|no[\s-]flip)"
)
_RATES = r"(?:rate|rates|rated|rating|ruling|rule|ruled|rules)"
# A full stop within a sentence is an abbreviation or a number: "We rate Sen. Cruz's claim False."
_STATES = re.compile(
    rf"\b{_RATES}\b.{{0,160}}?\b{_GRADE}\b|\btruth[\s-]?o[\s-]?meter\b"
    rf"|\b{_GRADE}\s+(?:rating|ruling)\b",
    re.IGNORECASE,
)


def states_rating(evidence: str) -> bool:
    """Whether a sentence of the evidence states a rating."""
    return any(_STATES.search(sentence) for sentence in sentences(evidence))


def without_ratings(claims: pl.DataFrame) -> pl.DataFrame:
    """``BENCHMARK_CLAIMS`` whose evidence states no rating, in the same order.

    The sentences that do are gone, with passages of nothing else; a claim whose evidence changed
    has another id, so that no prediction of the one counts for the other.
    """
    rows = []
    for row in claims.iter_rows(named=True):
        passages = [kept for passage in row["passages"] if (kept := _kept(passage))]
        if passages != row["passages"]:
            evidence = "\n".join(passages)
            parts = (row["source"], row["native_id"], row["claim"], evidence)
            row |= {
                "claim_id": claim_id(*parts),
                "passages": passages,
                "evidence": evidence or None,
            }
        rows.append(row)
    return BENCHMARK_CLAIMS.conform(pl.DataFrame(rows, BENCHMARK_CLAIMS.schema))


def _kept(passage: str) -> str:
    """A passage without sentences that state a rating; the very same where there is none."""
    found = sentences(passage)
    kept = [sentence for sentence in found if not _STATES.search(sentence)]
    return passage if len(kept) == len(found) else " ".join(kept)
