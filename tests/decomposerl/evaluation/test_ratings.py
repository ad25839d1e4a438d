"""Sentences that state the rating are found and taken out, and no others."""

import polars as pl

from decomposerl.evaluation.derived import states_rating, without_ratings
from decomposerl.schemas import BENCHMARK_CLAIMS
from strategies import example_row, frame_of

STATED = (
    "We rate this claim False.",
    "We rate the statement Mostly True.",
    "That's ridiculous, so we rate it Pants on Fire!",
    "On balance, PolitiFact rated a similar statement Half-True last year.",
    "His statement gets a Barely True rating.",
    "Our ruling: this is mostly false.",
    "That earns it a spot on the Truth-O-Meter.",
    "We rate Sen. Cruz's statement False.",
    "We rate Gov. Scott's claim Mostly False.",
    "We rate the claim by U.S. Rep. Doe Half True.",
    "So we rate Dr. Oz's claim Pants on Fire!",
    "We rate Donald J. Trump's claim False.",
    "We rate the claim that GDP fell 2.5 percent False.",
    "We rate this a No Flip.",
    "We rate Rep. Doe's change of mind a Half Flip.",
    "That is a Full Flop ruling.",
)
NOT_STATED = (
    "It is false that the rate fell.",
    "The unemployment rate was 5 percent in May.",
    "The court ruled in 1973.",
    "Interest rates rose. The claim is true of Ohio.",
    "Sen. Cruz's rating fell. Mr. Doe said that is false.",
    "A true account of the vote was never published.",
)


def test_a_rating_is_seen_and_other_sentences_state_none():
    """In any letter case, among others; a rate, a court's ruling, "true" and "false" are none."""
    around = "Taxes rose in 2009. {} The end came later."
    assert [] == [one for one in STATED if not states_rating(one)]
    assert [] == [one for one in STATED if not states_rating(around.format(one.upper()))]
    assert [] == [one for one in NOT_STATED if states_rating(one)]


def claims(*passages: list[str]) -> pl.DataFrame:
    rows = [example_row(passages=found, evidence="\n".join(found)) for found in passages]
    return frame_of(BENCHMARK_CLAIMS, rows)


def test_claims_lose_these_sentences_and_their_ids():
    """The rest of a passage stays, an emptied passage goes, an untouched claim is the same."""
    before = claims(
        ["Taxes rose  in 2009.", "They fell in 2010. We rate this claim False."],
        ["Taxes rose.  They fell."],
        ["We rate it True."],
    )
    after = without_ratings(before)
    assert [["Taxes rose  in 2009.", "They fell in 2010."], ["Taxes rose.  They fell."], []] == (
        after["passages"].to_list()
    )
    assert ["Taxes rose  in 2009.\nThey fell in 2010.", "Taxes rose.  They fell.", None] == (
        after["evidence"].to_list()
    )
    same = [a == b for a, b in zip(before["claim_id"], after["claim_id"], strict=True)]
    assert [False, True, False] == same
    assert before["native_id"].equals(after["native_id"])
    assert without_ratings(after).equals(after)
    assert without_ratings(BENCHMARK_CLAIMS.empty()).equals(BENCHMARK_CLAIMS.empty())
