"""The table of a study: what differs, what both intervals must show, and the paper's order."""

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import permutations
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import kendalltau

from decomposerl.evaluation.paired_seeds import SeedDifference, compare_means, mean_over_seeds
from decomposerl.evaluation.published import ABLATIONS, ablation_of, domain_means
from decomposerl.rewards.catalogue import REWARDS
from decomposerl.training.studies import STUDIES, finished_part, studied
from decomposerl.training.study_table import (
    ACCURACY,
    ALL_VARIANTS,
    GREEDY,
    SAMPLED,
    TAUS,
    UNTRAINED,
    rank_agreement,
    study_table,
)
from study_outcomes import CLAIMS, outcomes, study_named

REWARDS_STUDY = study_named("rewards")


@pytest.fixture(scope="module")
def joint() -> pl.DataFrame:
    """The table where a variant loses a third of its verdicts and of its reward."""
    return study_table(
        REWARDS_STUDY, outcomes(REWARDS_STUDY, {"without joint quality": 0.35}), "rules"
    )


def one(table: pl.DataFrame, variant: str, measure: str, **more: Any) -> dict[str, Any]:  # noqa: ANN401
    against = more.pop("against", REWARDS_STUDY.against.title)
    chosen = table.filter(
        pl.col("variant") == variant,
        pl.col("measure") == measure,
        pl.col("against").eq_missing(against),
        **({"split": SAMPLED} | more),
    )
    assert 1 == chosen.height
    return chosen.row(0, named=True)


def test_what_a_variant_loses_is_found_and_nothing_else(joint: pl.DataFrame):
    """A variant that loses a third of its verdicts and of its reward differs in both; others not.

    The differences are those of the seeds' means, and the intervals hold them.
    """
    table = joint
    for measure in (ACCURACY, "joint"):
        lost = one(table, "without joint quality", measure)
        full = one(table, REWARDS_STUDY.against.title, measure, against=None)
        assert lost["resolved"]
        assert lost["p_holm"] < 0.01
        assert lost["difference"] == pytest.approx(lost["mean"] - full["mean"])
        assert lost["claims_low"] < lost["difference"] < lost["claims_high"] < 0
        assert lost["seeds_low"] < lost["difference"] < lost["seeds_high"] < 0
        assert abs(lost["before"] - full["before"]) < abs(lost["difference"]) / 3
    assert one(table, "without joint quality", "joint")["own_measure"]
    kept = one(table, "without coverage", "coverage")
    assert (True, False) == (kept["own_measure"], kept["resolved"])
    assert kept["p_holm"] > 0.05
    assert {"rules"} == set(table["engine"])
    assert (5, CLAIMS, 30) == tuple(table.select("seeds", "claims", "steps").row(0))


def test_each_variant_is_compared_with_its_own_start(joint: pl.DataFrame):
    """What training moved, in accuracy and in the sum; a start that is kept is no difference."""
    table = joint.filter(against=UNTRAINED)
    assert {(ACCURACY, GREEDY), (ACCURACY, SAMPLED), ("total", SAMPLED)} == {
        *table.select("measure", "split").unique().rows()
    }
    assert {variant.title for variant in REWARDS_STUDY.variants} == {*table["variant"]}
    lost = one(table, "without joint quality", ACCURACY, against=UNTRAINED, split=GREEDY)
    assert lost["resolved"]
    assert lost["difference"] == pytest.approx(lost["mean"] - lost["before"])
    assert lost["claims_high"] < 0
    assert lost["p"] <= lost["p_holm"] < 0.05
    assert not one(table, "without coverage", ACCURACY, against=UNTRAINED)["resolved"]
    assert not table["own_measure"].any()


def test_every_pair_is_compared_in_accuracy_and_has_the_papers_order():
    """Each pair of printed runs once: the sign beside the paper's, or not resolved; null for a tie.

    Without coverage and without necessity have the same mean in domain, so no order there.
    """
    made = outcomes(REWARDS_STUDY, {"without necessity": 0.5, "without joint quality": 0.3})
    table = study_table(REWARDS_STUDY, made, "rules").filter(measure=ACCURACY, split=GREEDY)
    pairs = table.filter(pl.col("against") != UNTRAINED).select("variant", "against").rows()
    names = [variant.title for variant in REWARDS_STUDY.variants]
    assert {frozenset(pair) for pair in pairs} == {
        frozenset((a, b)) for a in names for b in names if a != b
    }
    assert len(pairs) == len(names) * (len(names) - 1) // 2
    own = {"split": GREEDY}
    lost = one(table, "without necessity", ACCURACY, **own)
    assert ("same", "same") == (lost["order_in_domain"], lost["order_out_of_domain"])
    tie = one(table, "without coverage", ACCURACY, against="without necessity", **own)
    assert (None, "same") == (tie["order_in_domain"], tie["order_out_of_domain"])
    other = one(table, "without joint quality", ACCURACY, against="without necessity", **own)
    assert "opposite" == other["order_in_domain"]
    quiet = one(table, "without diversity", ACCURACY, **own)
    assert "not resolved" == quiet["order_in_domain"]
    alone = one(table, "without format", ACCURACY, **own)
    assert (None, None) == (alone["order_in_domain"], alone["paper_in_domain"])


def test_the_order_of_all_variants_is_compared_with_the_papers():
    """Kendall's tau over the paper's six runs: 1 where accuracies fall as its own do out of domain.

    A study of fewer than four of its runs has none.
    """
    falls = {"without necessity": 0.9, "without coverage": 0.7, "without diversity": 0.5,
             "without joint quality": 0.35, "without question count": 0.2}  # fmt: skip
    table = study_table(REWARDS_STUDY, outcomes(REWARDS_STUDY, falls), "rules")
    taus = {row["measure"]: row for row in table.filter(variant=ALL_VARIANTS).to_dicts()}
    assert {*TAUS.values()} == set(taus)
    outside = taus["tau_out_of_domain"]
    assert 1.0 == outside["mean"]
    assert outside["p"] == pytest.approx(2 / math.factorial(6))
    inside = taus["tau_in_domain"]
    assert inside["low"] <= inside["mean"] <= inside["high"]
    assert inside["mean"] < 0.5
    epochs = study_named("epochs")
    short = study_table(epochs, outcomes(epochs, {}, seeds=(42, 1)), "rules")
    assert ALL_VARIANTS not in set(short["variant"])


def test_the_part_that_is_trained_is_the_most_that_can_be_compared():
    """The first variant is in it; a variant with few seeds takes none from the others."""
    study = study_named("supervision")
    titles = [variant.title for variant in study.variants]
    for seeds, expected in {
        (5, 5, 5): (3, 5),
        (5, 5, 2): (2, 5),
        (5, 5, 4): (3, 4),
        (5, 4, 4): (3, 4),
        (5, 2, 0): (2, 2),
        (2, 5, 5): (3, 2),
        (5, 0, 0): (0, 0),
        (0, 5, 5): (0, 0),
    }.items():
        done = {
            title: [42, 1, 2, 3, 4][:count] for title, count in zip(titles, seeds, strict=False)
        }
        part, common = finished_part(study, done)
        assert expected == (len(part.variants), len(common)), seeds
        assert all({*common} <= {*done[one.title]} for one in part.variants)
        assert not part.variants or study.against == part.against


def test_one_seed_has_no_interval_over_seeds_and_resolves_nothing():
    """However large the difference, training once says nothing of training again."""
    made = outcomes(REWARDS_STUDY, {"without joint quality": 0.6}, seeds=(42,))
    lost = one(study_table(REWARDS_STUDY, made, "rules"), "without joint quality", ACCURACY)
    assert lost["claims_high"] < 0
    assert (None, None, None, False) == (
        lost["seeds_low"], lost["p"], lost["p_holm"], lost["resolved"]
    )  # fmt: skip


def test_claims_and_seeds_that_a_variant_lacks_are_left_out_of_all():
    """Else variants would be compared on different claims."""
    made = outcomes(REWARDS_STUDY, {})
    first = REWARDS_STUDY.variants[1].title
    short = made.filter(
        ~(pl.col("variant").eq(first) & (pl.col("claim_id").eq("c007") | pl.col("seed").eq(3)))
    )
    table = study_table(REWARDS_STUDY, short, "rules")
    assert (4, CLAIMS - 1) == tuple(table.select("seeds", "claims").row(0))
    whole = made.filter(pl.col("claim_id") != "c007", pl.col("seed") != 3)
    assert table.equals(study_table(REWARDS_STUDY, whole, "rules"))
    with pytest.raises(ValueError, match="without necessity"):
        study_table(REWARDS_STUDY, made.filter(pl.col("variant") != first), "rules")


def test_a_reward_without_a_value_is_left_out_pair_by_pair():
    """A failed ruling of one recipe takes no claim from another measure."""
    values = np.array([[0.2, 0.4, np.nan], [0.1, 0.3, 0.5]])
    others = np.array([[0.1, np.nan, 0.2], [0.1, 0.1, 0.1]])
    found = compare_means(values, others, ["a", "b", "c"])
    assert found.difference == pytest.approx(np.mean([0.1, 0.0, 0.2, 0.4]))
    nothing = compare_means(values * np.nan, others, ["a", "b", "c"])
    assert math.isnan(nothing.difference)
    assert not nothing.resolved


def test_documents_without_a_value_do_not_narrow_an_interval():
    """A label's recall is that of its claims alone: all others add no degree of freedom."""
    rng = np.random.default_rng(3)
    values, others = rng.random((3, 4)), rng.random((3, 4))
    alone = compare_means(values, others, list("abcd"))
    nothing = np.full((3, 60), np.nan)
    documents = [*"abcd", *(f"e{n}" for n in range(60))]
    padded = compare_means(np.hstack([values, nothing]), np.hstack([others, nothing]), documents)
    assert alone == padded
    seeds = compare_means(np.vstack([values, np.full(4, np.nan)]), rng.random((4, 4)), list("abcd"))
    assert not math.isnan(seeds.p), "a seed without a value is none"


def test_the_interval_over_seeds_is_students():
    """Of 1, 2, 3: mean 2, half-width 4.303 times 1 / sqrt(3); a NaN is no value."""
    assert math.isnan(mean_over_seeds(np.array([2.0, 2.0]))[1][0]), "equal seeds show no spread"
    mean, (low, high) = mean_over_seeds(np.array([1.0, 2.0, np.nan, 3.0]))
    assert 2.0 == mean
    assert [2 - 4.3026527 / 3**0.5, 2 + 4.3026527 / 3**0.5] == pytest.approx([low, high])


def test_an_order_shows_only_if_both_intervals_do():
    """Over claims and over seeds; a tie of the paper has no order."""
    above, wide, none = (1.0, 3.0), (-1.0, 5.0), (math.nan, math.nan)
    for claims, seeds, published, order in (
        (above, above, 2.0, "same"),
        (above, above, -0.1, "opposite"),
        (wide, above, 2.0, "not resolved"),
        (above, wide, 2.0, "not resolved"),
        (above, none, 2.0, "not resolved"),
        (above, above, 0.0, None),
    ):
        assert order == SeedDifference(2.0, claims, seeds, 0.01).order(published)


def test_the_paper_stands_beside_ours_in_the_accuracy_alone():
    """Both means of each printed run, in every study of the paper."""
    for study in STUDIES:
        table = study_table(study, outcomes(study, {}, seeds=(42, 1)), "rules")
        printed = ablation_of(study.name)
        for variant in study.variants:
            ours = table.filter(variant=variant.title)
            means = ours.filter(measure=ACCURACY).select("paper_in_domain", "paper_out_of_domain")
            row = printed.get(variant.paper)
            expected = (None, None) if row is None else domain_means(row)
            assert {expected} == set(means.rows())
            assert 0 == ours.filter(pl.col("measure") != ACCURACY)["paper_in_domain"].count()
    assert {row.table for row in ABLATIONS} <= {study.name for study in STUDIES}


def test_each_reward_of_the_paper_is_removed_once_and_named_as_what_it_moves():
    """Five as in the paper, and the two that it does not remove."""
    removed = {variant.moves: variant for variant in REWARDS_STUDY.variants[1:]}
    assert {reward.name for reward in REWARDS if reward.weight} == set(removed)
    assert {"format", "verification"} == {name for name, one in removed.items() if not one.paper}


def test_shorter_runs_have_names_of_their_own():
    """So a miniature never takes the place of a finished run; half a budget stays half."""
    half = study_named("epochs").variants[1]
    (whole,) = studied(half, 1)
    assert ("tiny_one_epoch", 15) == (whole.name, whole.optimization.steps)
    first, second = studied(half, 2, steps=8, claims=16)
    assert "tiny_one_epoch-steps_4-claims_16" == first.name
    assert "tiny_one_epoch-seed_1-steps_4-claims_16" == second.name
    assert (4, 16, 1) == (second.optimization.steps, second.held_out.claims, second.seed)
    assert [whole] == [*studied(half, 1, steps=30, claims=128)]
    assert replace(whole, name=first.name).digest != first.digest


RNG = np.random.default_rng
SCORES = st.lists(st.integers(0, 5), min_size=4, max_size=6)


@given(ours=SCORES, data=st.data())
def test_tau_and_p_are_those_of_all_orders(ours: list[int], data: st.DataObject):
    """tau-b as scipy has it, ties included; p by counting every order of our values."""
    theirs = data.draw(st.lists(st.integers(0, 5), min_size=len(ours), max_size=len(ours)))
    found = rank_agreement(np.array([ours], dtype=float), theirs, RNG(0))
    expected = kendalltau(ours, theirs).statistic
    assert found.tau == pytest.approx(expected, nan_ok=True)
    if math.isnan(expected):
        assert math.isnan(found.p)
        return
    assert found.p == pytest.approx(counted_p(ours, theirs))


def counted_p(ours: list[int], theirs: list[int]) -> float:
    """Twice the share of orders of the rarer side, at most 1."""
    pairs = [(a, b) for a in range(len(ours)) for b in range(a)]

    def agreeing(order: Sequence[int]) -> int:
        return sum(np.sign((order[a] - order[b]) * (theirs[a] - theirs[b])) for a, b in pairs)

    every = [agreeing(order) for order in permutations(ours)]
    here = agreeing(ours)
    tails = [sum(one >= here for one in every), sum(one <= here for one in every)]
    return min(1.0, 2 * min(tails) / len(every))


def test_the_same_order_in_every_seed_is_certain_and_one_seed_is_not():
    """Five variants in order: tau 1, p two of 120 orders; a single seed has no interval."""
    order = np.arange(5.0)
    every = np.stack([order, order * 2, order + 3])
    sure = rank_agreement(every, [1, 2, 3, 4, 5], RNG(0))
    assert (1.0, (1.0, 1.0)) == (sure.tau, sure.over_seeds)
    assert sure.p == pytest.approx(2 / 120)
    assert -1.0 == rank_agreement(every, [5, 4, 3, 2, 1], RNG(0)).tau
    assert np.isnan(rank_agreement(every[:1], [1, 2, 3, 4, 5], RNG(0)).over_seeds).all()


def test_seeds_that_disagree_widen_the_interval():
    """The interval holds tau, and covers the orders of single seeds."""
    rng = RNG(1)
    values = np.arange(5.0) + 6 * rng.standard_normal((5, 5))
    found = rank_agreement(values, [1, 2, 3, 4, 5], RNG(0))
    low, high = found.over_seeds
    assert low < found.tau < high
    assert found.over_seeds == rank_agreement(values, [1, 2, 3, 4, 5], RNG(0)).over_seeds
