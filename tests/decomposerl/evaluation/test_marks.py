"""Reviewers' marks: their form, which one holds, and agreement with systems and each other."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from decomposerl.errors import EvaluationError
from decomposerl.evaluation.marks import (
    MARK_WORDS,
    MOST_NOTE,
    Mark,
    ReviewerPair,
    holding,
    mark_from,
    on_newest_reply,
    reviewer_pairs,
    system_marks,
)

SPAN = {"where": "answer", "cycle": 0, "start": 3, "end": 9, "text": "Odense"}


def values(**changed: object) -> dict[str, Any]:
    plain = {"claim_id": "c1", "system": "one", "step": None, "rollout": None, "reviewer": "ada"}
    plain |= {"mark": "agree", "note": "", "span": None, "at": "2026-01-02T03:04:05.000+00:00"}
    return plain | changed


def mark(word: str = "agree", reviewer: str = "ada", claim: str = "c1", **changed: object) -> Mark:
    return mark_from(values(mark=word, reviewer=reviewer, claim_id=claim, **changed))


def test_a_mark_reads_back():
    """With its span and its time; the caller's time replaces it."""
    given_values = values(span=SPAN, step=10, rollout=0, note="why")
    one = mark_from(given_values)
    assert given_values == json.loads(json.dumps(one.as_json()))
    assert "now" == mark_from(given_values, "now").at
    assert "" == mark_from(values(note=None) | {"note": ""}).note
    bound = values(of="0a1b2c3d")
    assert bound == mark_from(bound).as_json()
    assert "" == mark_from(values()).of


@pytest.mark.parametrize(
    ("field", "value", "named"),
    [
        ("mark", "yes", "'yes' .*agree, disagree, unclear"),
        ("mark", None, "missing"),
        ("reviewer", " ", ""),
        ("claim_id", "", "empty"),
        ("system", 3, "text"),
        ("step", -1, ""),
        ("rollout", True, ""),
        ("note", "x" * (MOST_NOTE + 1), "10,000"),
        ("note", "\ud800", "half"),
        ("span", 3, "object"),
        ("span", SPAN | {"where": "claim"}, "'where'"),
        ("span", SPAN | {"cycle": None}, "'where'"),
        ("span", SPAN | {"end": 3}, "'start'"),
        ("at", None, "missing"),
        ("of", 3, "text"),
    ],
)
def test_what_is_no_mark_is_refused(field: str, value: object, named: str):
    """The message names the field."""
    with pytest.raises(EvaluationError, match=f"'{field}'.*{named}"):
        mark_from(values(**{field: value}))


def test_the_newest_mark_holds():
    """By time, then by order; of each reviewer, trace, step and rollout; empty withdraws."""
    marks = [
        mark("agree", at="2"),
        mark("disagree", at="1"),
        mark("unclear", "eva", at="1"),
        mark("agree", "eva", at="1"),
        mark("agree", claim="c2", at="1"),
        mark("", claim="c2", at="2"),
        mark("disagree", step=10, rollout=0, at="1"),
    ]
    assert [("ada", None, "agree"), ("eva", None, "agree"), ("ada", 10, "disagree")] == [
        (one.reviewer, one.step, one.mark) for one in holding(marks)
    ]


def test_marks_on_earlier_replies():
    """The reply that was marked last counts, also by a mark that was withdrawn since."""
    marks = [
        mark("agree", at="1", of="a"),
        mark("disagree", "eva", at="2", of="b"),
        mark("unclear", "old", at="1"),
        mark("agree", claim="c2", at="1", of="a"),
        mark("agree", "eva", "c2", at="2", of="b"),
        mark("", "eva", "c2", at="3", of="b"),
    ]
    held, earlier = on_newest_reply(marks)
    assert ["eva", "old"] == [one.reviewer for one in held]
    assert [("ada", "c1"), ("ada", "c2")] == [(one.reviewer, one.claim_id) for one in earlier]
    (one,) = system_marks(held, earlier)
    assert (2, 2, 0, 1) == (one.marks, one.earlier, one.agree, one.disagree)
    (alone,) = system_marks([], earlier)
    assert (0, 2, None) == (alone.marks, alone.earlier, alone.share_agree)
    assert (marks[:1], []) == on_newest_reply(marks[:1])


def test_agreement_with_a_system():
    """Unclear marks count as marks; a system without a mark has no row."""
    marks = [mark("agree"), mark("unclear", "eva"), mark("agree", claim="c2"), mark(system="two")]
    one, two = system_marks(marks)
    assert ("one", 2, 2, 3, 2, 0, 1) == (
        *(one.system, one.reviewers, one.traces, one.marks),
        *(one.agree, one.disagree, one.unclear),
    )
    assert (2 / 3, 1.0) == (one.share_agree, two.share_agree)
    assert [] == system_marks([])


def words_of(first: str, second: str) -> list[Mark]:
    known = {"a": "agree", "d": "disagree", "u": "unclear"}
    pairs = zip(first, second, strict=True)
    return [
        mark(known[word], reviewer, f"c{number}")
        for number, pair in enumerate(pairs)
        for reviewer, word in zip(("ada", "eva"), pair, strict=True)
    ]


def test_kappa_of_two_reviewers():
    """Cohen's own arithmetic: 6 of 10 equal; by chance 0.5 * 0.6 + 0.5 * 0.4."""
    (pair,) = reviewer_pairs(words_of("aaaaaddddd", "aaaadaaddd"))
    assert ReviewerPair("", "ada", "eva", 10, 0.7, pytest.approx((0.7 - 0.5) / 0.5)) == pair


def test_where_kappa_is_undefined():
    """One word for everything agrees by chance alone: null. No common trace: both are null."""
    for first, second, expected in (
        *(("aaa", "aaa", (1.0, None)), ("aaa", "ddd", (0.0, 0.0))),
        ("adu", "adu", (1.0, 1.0)),
    ):
        (pair,) = reviewer_pairs(words_of(first, second))
        assert expected == (pair.agreement, pair.kappa)
    (pair,) = reviewer_pairs([mark(), mark("agree", "eva", "c2")])
    assert (0, None, None) == (pair.traces, pair.agreement, pair.kappa)
    assert [] == list(reviewer_pairs([mark()]))


def test_several_systems_are_compared_together_and_apart():
    """The first row is over all of them."""
    marks = [mark(system=name, reviewer=who) for name in ("one", "two") for who in ("ada", "eva")]
    assert [("", 2), ("one", 1), ("two", 1)] == [
        (pair.system, pair.traces) for pair in reviewer_pairs(marks)
    ]


@given(st.lists(st.tuples(st.sampled_from(MARK_WORDS), st.sampled_from(MARK_WORDS)), min_size=1))
def test_kappa_does_not_depend_on_the_order_of_reviewers(pairs: list[tuple[str, str]]):
    """Symmetric, at most 1, and null only where one word is used alone."""
    first, second = ("".join(word[0] for word in side) for side in zip(*pairs, strict=True))
    (one,), (other,) = (
        list(reviewer_pairs(words_of(*o))) for o in ((first, second), (second, first))
    )
    assert (one.kappa is None) == (len({*first, *second}) == 1)
    if one.kappa is not None:
        assert one.kappa <= 1
        assert one.kappa == pytest.approx(other.kappa)
