"""Test sets derived from another one: today ClaimDecomp without the sentences that state a rating.

Fact-checkers' articles end with their verdict, and a system that reads "We rate this claim False."
verifies nothing. A derived test set is predicted and scored under its own name and enters no mean.

Headlines and pictures of the rating scale are not in the files, and a sentence that gives the
verdict away in other words is not recognised.
"""

import re
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass

import polars as pl

from decomposerl.claims.claim import claim_id
from decomposerl.kernels.text_scan import sentences
from decomposerl.schemas import BENCHMARK_CLAIMS

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


def states_rating(evidence: str) -> bool:
    """Whether a sentence of the evidence states a rating."""
    return any(_RATING.search(sentence) for sentence in sentences(evidence))


def without_ratings(claims: pl.DataFrame) -> pl.DataFrame:
    """``BENCHMARK_CLAIMS`` without the sentences that state a rating, in the same order.

    Passages that consist of such sentences alone are removed. A claim whose evidence changed gets
    another id, so that predictions of the one never count for the other.
    """
    rows = []
    for row in claims.iter_rows(named=True):
        passages = [kept for passage in row["passages"] if (kept := _without_ratings(passage))]
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


def _without_ratings(passage: str) -> str:
    """The passage without sentences that state a rating; unchanged where there is none."""
    every = sentences(passage)
    kept = [sentence for sentence in every if not _RATING.search(sentence)]
    return passage if len(kept) == len(every) else " ".join(kept)


@dataclass(frozen=True, slots=True)
class DerivedTestSet:
    """A derived test set: its name, display title, base test set, and how claims are derived.

    ``claims`` may change evidence and claim ids; native ids and the texts of claims stay.
    """

    name: str
    title: str
    base: str
    claims: Callable[[pl.DataFrame], pl.DataFrame]


DERIVED = (
    DerivedTestSet(
        "claimdecomp_without_ratings",
        "ClaimDecomp without ratings",
        "claimdecomp",
        without_ratings,
    ),
)


def derived_ids(
    derived: DerivedTestSet, base: pl.DataFrame, chosen: Collection[str]
) -> frozenset[str]:
    """The claim ids that ``chosen`` claims of the base test set have in the derived one."""
    same = base.filter(pl.col("claim_id").is_in(list(chosen))).select("native_id", "claim")
    found = derived.claims(base).join(same, on=same.columns, how="semi")
    return frozenset(found["claim_id"])


def derived_from(benchmarks: Iterable[str]) -> dict[str, DerivedTestSet]:
    """By name, the derived sets whose base is in ``benchmarks`` and whose own name is not."""
    names = set(benchmarks)
    return {one.name: one for one in DERIVED if one.base in names and one.name not in names}
