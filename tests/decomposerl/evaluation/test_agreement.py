"""Agreement of judges and rewards; what is a mark."""

import json
import math
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from decomposerl.errors import EvaluationError
from decomposerl.evaluation.marks import MOST_NOTE, mark_from
from decomposerl.evaluation.metrics import Estimate, agreement, reward_agreement


def by_name(found: dict[str, Estimate]) -> dict[str, float | None]:
    return {name: None if math.isnan(one.value) else one.value for name, one in found.items()}


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
    for name in ("agreement", "macro_f1", "kappa"):
        (value, *far), (same, *near) = wide[name][:3], narrow[name][:3]
        assert value == same, name
        assert far[0] < near[0] < value < near[1] < far[1]
    few = agreement(teacher[:290], student[:290], 2, documents[:290])
    assert [False, True, True, False] == [math.isnan(one.low) for one in few.values()]


reward = st.integers(-2, 2)


@given(st.lists(st.tuples(st.integers(0, 3), reward, reward), min_size=2, max_size=24))
def test_pairs_are_counted_as_one_by_one(rows: list[tuple[int, int, int]]):
    """Reversed pairs of each group, and the groups with any other order, by brute force."""
    thirds = [(str(group), t / 3, s / 3) for group, t, s in rows]
    frame = pl.DataFrame(thirds, ["group", "teacher", "student"], orient="row")
    pairs = [
        (group, t1 - t2, s1 - s2)
        for place, (group, t1, s1) in enumerate(rows)
        for other, t2, s2 in rows[:place]
        if group == other
    ]
    ordered = [(t, s) for _, t, s in pairs if t]
    changed = {group for group, t, s in pairs if np.sign(t) != np.sign(s)}
    found = reward_values(frame)

    flipped = sum(t * s < 0 for t, s in ordered)
    assert (flipped / len(ordered) if ordered else None) == found["reversed_pairs"]
    assert len(changed) / len({row[0] for row in rows}) == found["reordered_groups"]
    shift = sum(s - t for _, t, s in rows) / 3 / len(rows)
    assert math.isclose(shift, found["mean_shift"] or 0.0, abs_tol=1e-9)


def test_a_shift_alone_changes_no_order():
    """What GRPO compares is left as it is; ranks are the same, and turned round where it is."""
    teacher = np.random.default_rng(1).random(80)
    groups = [str(n // 8) for n in range(80)]
    for factor, turned in ((2.0, 0.0), (-2.0, 1.0)):
        columns = {"group": groups, "teacher": teacher, "student": teacher * factor + 1}
        found = reward_values(pl.DataFrame(columns))
        assert turned == found["reversed_pairs"] == found["reordered_groups"]
        assert 1 - 2 * turned == pytest.approx(found["rank_correlation"])


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
