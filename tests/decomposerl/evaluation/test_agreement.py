"""Agreement of two judges, and of the rewards that they give, against other programs."""

import math

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from decomposerl.evaluation.agreement import Measured, agreement, macro_f1, reward_agreement


def by_name(found: list[Measured]) -> dict[str, float | None]:
    return {one.metric: one.value for one in found}


def values(frame: pl.DataFrame) -> dict[str, float | None]:
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


def test_intervals_resample_documents_and_not_rulings():
    """Ten rulings a document make a wider interval than as many documents; 29 make none."""
    rng = np.random.default_rng(3)
    teacher = rng.integers(0, 2, 400)
    of_document = np.repeat(rng.random(40) < 0.3, 10)  # a document is wrong as a whole
    student = np.where(of_document, 1 - teacher, teacher)
    documents = [str(n // 10) for n in range(400)]
    (wide, *_), (narrow, *_) = (
        agreement(teacher, student, 2, names) for names in (documents, [str(n) for n in range(400)])
    )
    assert wide.value == narrow.value
    assert wide.low is not None
    assert wide.high is not None
    assert narrow.low is not None
    assert narrow.high is not None
    assert wide.low < narrow.low < (wide.value or 0) < narrow.high < wide.high
    few = agreement(teacher[:290], student[:290], 2, documents[:290])
    assert (None, None) == (few[0].low, few[0].high)


def test_a_class_that_nobody_gives_is_no_part_of_macro_f1():
    """A table of two used classes among three has their mean."""
    table = np.array([[3, 1, 0], [1, 3, 0], [0, 0, 0]])
    assert 0.75 == pytest.approx(float(macro_f1(table)))


REWARDS = st.lists(
    st.tuples(st.integers(0, 3), st.integers(-2, 2), st.integers(-2, 2)), min_size=2, max_size=24
)


@given(REWARDS)
def test_pairs_are_counted_as_one_by_one(rows: list[tuple[int, int, int]]):
    """Reversed, tied and split pairs of each group, and the groups with any, by brute force."""
    frame = pl.DataFrame(
        [(str(group), t / 3, s / 3) for group, t, s in rows],
        schema={"group": pl.String(), "teacher": pl.Float64(), "student": pl.Float64()},
        orient="row",
    )
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
    found = values(frame)

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
    found = values(frame)
    assert (0.0, 0.0) == (found["reversed_pairs"], found["reordered_groups"])
    assert 1.0 == pytest.approx(found["rank_correlation"])
    assert 1 + teacher.mean() == pytest.approx(found["mean_shift"])
    upside_down = values(frame.with_columns(student=-pl.col("student")))
    assert (1.0, 1.0) == (upside_down["reversed_pairs"], upside_down["reordered_groups"])
