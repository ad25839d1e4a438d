"""Kendall's tau between our order of variants and a published one."""

import math
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import kendalltau

from decomposerl.evaluation.rank_agreement import rank_agreement

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

    def agreement(order: tuple[int, ...]) -> int:
        return sum(
            int(np.sign(order[a] - order[b]) * np.sign(theirs[a] - theirs[b])) for a, b in pairs
        )

    every = [agreement(order) for order in permutations(ours)]
    here = agreement(tuple(ours))
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
    (low, high) = rank_agreement(every[:1], [1, 2, 3, 4, 5], RNG(0)).over_seeds
    assert math.isnan(low)
    assert math.isnan(high)


def test_seeds_that_disagree_widen_the_interval():
    """The interval holds tau, and covers the orders of single seeds."""
    rng = RNG(1)
    values = np.arange(5.0) + 6 * rng.standard_normal((5, 5))
    found = rank_agreement(values, [1, 2, 3, 4, 5], RNG(0))
    low, high = found.over_seeds
    assert low < found.tau < high
    assert found.over_seeds == rank_agreement(values, [1, 2, 3, 4, 5], RNG(0)).over_seeds
