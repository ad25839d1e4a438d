"""Agreement of judges, rewards and orders of variants; what is a mark."""

import json
import math
from collections.abc import Sequence
from itertools import permutations
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import kendalltau

from decomposerl.errors import EvaluationError
from decomposerl.evaluation.agreement import Measured, agreement, reward_agreement
from decomposerl.evaluation.marks import MOST_NOTE, mark_from
from decomposerl.training.study_table import rank_agreement


def by_name(found: list[Measured]) -> dict[str, float | None]:
    return {metric: value for metric, value, _, _ in found}


def reward_values(frame: pl.DataFrame) -> dict[str, float | None]:
    return by_name(reward_agreement(frame))


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2)), min_size=2, max_size=40))
def test_metrics_are_those_of_scikit_learn(pairs: list[tuple[int, int]]):
    """Macro-F1 over the classes that occur, kappa, accuracy; kappa of one class is undefined."""
    from sklearn.metrics import accuracy_score, cohen_kappa_score, f1_score

    teacher, student = (np.array(side) for side in zip(*pairs, strict=True))
    found = by_name(agreement(teacher, student, 3, [str(n) for n in range(len(pairs))]))
    assert accuracy_score(teacher, student) == pytest.approx(found["agreement"])
    expected = f1_score(teacher, student, average="macro", zero_division=0)
    assert expected == pytest.approx(found["macro_f1"])
    if len({*teacher, *student}) > 1:
        assert cohen_kappa_score(teacher, student) == pytest.approx(found["kappa"])
    else:
        assert found["kappa"] is None
    assert np.bincount(teacher).max() / len(teacher) == pytest.approx(found["most_common"])


def test_intervals_are_over_documents_and_not_rulings():
    """Ten rulings a document make a wider interval than as many documents.

    Of 29 documents only the shares have one.
    """
    rng = np.random.default_rng(3)
    teacher = rng.integers(0, 2, 400)
    of_document = np.repeat(rng.random(40) < 0.3, 10)  # a document is wrong as a whole
    student = np.where(of_document, 1 - teacher, teacher)
    documents = [str(n // 10) for n in range(400)]
    wide = agreement(teacher, student, 2, documents)
    narrow = agreement(teacher, student, 2, [str(n) for n in range(400)])
    for (name, value, *far), (_, same, *near) in zip(wide[:3], narrow[:3], strict=True):
        assert value == same, name
        assert far[0] < near[0] < value < near[1] < far[1]
    few = agreement(teacher[:290], student[:290], 2, documents[:290])
    assert [False, True, True, False] == [low is None for _, _, low, _ in few]


reward = st.integers(-2, 2)


@given(st.lists(st.tuples(st.integers(0, 3), reward, reward), min_size=2, max_size=24))
def test_pairs_are_counted_as_one_by_one(rows: list[tuple[int, int, int]]):
    """Reversed, tied and split pairs of each group, and the groups with any, by brute force."""
    thirds = [(str(group), t / 3, s / 3) for group, t, s in rows]
    frame = pl.DataFrame(thirds, ["group", "teacher", "student"], orient="row")
    groups: dict[int, list[tuple[int, int]]] = {}
    for group, teacher, student in rows:
        groups.setdefault(group, []).append((teacher, student))
    ordered, equal, flipped, tied, split = [], [], 0, 0, 0
    changed = set()
    for name, members in groups.items():
        pairs = [(a, b) for i, a in enumerate(members) for b in members[i + 1 :]]
        for (t1, s1), (t2, s2) in pairs:
            (ordered if t1 != t2 else equal).append(1)
            cases = ((t1 - t2) * (s1 - s2) < 0, t1 != t2 and s1 == s2, t1 == t2 and s1 != s2)
            flipped, tied, split = flipped + cases[0], tied + cases[1], split + cases[2]
            changed |= {name} if any(cases) else set()
    found = reward_values(frame)

    def share(part: float, whole: int) -> float | None:
        return part / whole if whole else None

    assert share(flipped, len(ordered)) == found["reversed_pairs"]
    assert share(tied, len(ordered)) == found["tied_pairs"]
    assert share(split, len(equal)) == found["split_pairs"]
    assert len(changed) / len(groups) == pytest.approx(found["reordered_groups"])
    shift = sum(s - t for _, t, s in rows) / 3 / len(rows)
    assert math.isclose(shift, found["mean_shift"] or 0.0, abs_tol=1e-9)


def test_a_shift_alone_changes_no_order():
    """What GRPO compares is left as it is; ranks are the same, the mean is not."""
    rng = np.random.default_rng(1)
    teacher = rng.random(80)
    groups = [str(n // 8) for n in range(80)]
    frame = pl.DataFrame({"group": groups, "teacher": teacher, "student": teacher * 2 + 1})
    found = reward_values(frame)
    assert (0.0, 0.0) == (found["reversed_pairs"], found["reordered_groups"])
    assert 1.0 == pytest.approx(found["rank_correlation"])
    assert 1 + teacher.mean() == pytest.approx(found["mean_shift"])
    upside_down = reward_values(frame.with_columns(student=-pl.col("student")))
    assert (1.0, 1.0) == (upside_down["reversed_pairs"], upside_down["reordered_groups"])


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


SPAN = {"where": "answer", "cycle": 0, "start": 3, "end": 9, "text": "Odense"}


def mark_values(**changed: object) -> dict[str, Any]:
    plain = {"claim_id": "c1", "system": "one", "step": None, "rollout": None, "reviewer": "ada"}
    plain |= {"mark": "agree", "note": "", "span": None, "at": "2026-01-02T03:04:05.000+00:00"}
    return plain | changed


def test_a_mark_reads_back():
    """With its span and its time; the caller's time replaces it."""
    given_values = mark_values(span=SPAN, step=10, rollout=0, note="why")
    one = mark_from(given_values)
    assert given_values == json.loads(json.dumps(one.as_json()))
    assert "now" == mark_from(given_values, "now").at
    assert "" == mark_from(mark_values(note=None) | {"note": ""}).note
    bound = mark_values(of="0a1b2c3d")
    assert bound == mark_from(bound).as_json()
    assert "" == mark_from(mark_values()).of


NO_MARKS: list[tuple[str, object]] = [
    *(("mark", value) for value in ("yes", None, ["agree"])),
    *(("reviewer", " "), ("claim_id", ""), ("system", 3), ("step", -1), ("rollout", True)),
    *(("note", "x" * (MOST_NOTE + 1)), ("note", "\ud800"), ("at", None), ("of", 3)),
    *(("span", value) for value in (3, SPAN | {"where": "claim"}, SPAN | {"cycle": None})),
    *(("span", SPAN | {"end": value}) for value in (3, 4.5, "9")),
]


@pytest.mark.parametrize(("field", "value"), NO_MARKS)
def test_what_is_no_mark_is_refused(field: str, value: object):
    """The message names the field; so does that of a field that is absent."""
    with pytest.raises(EvaluationError, match=f"'{field}'"):
        mark_from(mark_values(**{field: value}))
    absent = {name: value for name, value in mark_values().items() if name != field}
    if field in {"claim_id", "system", "reviewer", "mark", "at"}:
        with pytest.raises(EvaluationError, match=f"'{field}'"):
            mark_from(absent)
    else:
        assert mark_from(mark_values()) == mark_from(absent)
