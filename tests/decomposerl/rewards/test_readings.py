"""Readings that do not exist are refused, and diversity agrees with its formula read aloud."""

from dataclasses import fields

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from decomposerl.errors import ConfigError
from decomposerl.rewards.diversity import diversity
from decomposerl.rewards.reward import RewardCase
from decomposerl.rewards.settings import RewardSettings
from reward_parts import PLAIN, rollout, signals, unit, values, vectors
from strategies import LAW

traces = st.lists(st.lists(vectors, max_size=5), min_size=1, max_size=6)


def case_of(rows: list[tuple[float, ...]]) -> RewardCase:
    return RewardCase(rollout(len(rows)), signals(len(rows)), unit(*rows) if rows else None)


def by_hand(rows: list[tuple[float, ...]]) -> float:
    """The formula as a double loop over pairs."""
    if len(rows) < 2:
        return -1.0
    units = [np.array(row) / np.linalg.norm(row) for row in rows]
    nearest = [max(float(units[i] @ units[j]) for j in range(i)) for i in range(1, len(rows))]
    return -sum(nearest) / len(rows)


@LAW
@given(traces)
def test_diversity_is_its_formula(group: list[list[tuple[float, ...]]]):
    """Traces of any lengths read at once score what each scores by the double loop."""
    found = values(diversity([case_of(rows) for rows in group], PLAIN))
    assert [by_hand(rows) for rows in group] == pytest.approx(found, abs=1e-6)


@LAW
@given(traces)
def test_diversity_of_a_trace_does_not_depend_on_its_group(group: list[list[tuple[float, ...]]]):
    """Alone or beside others, the score is the very same number."""
    cases = [case_of(rows) for rows in group]
    assert [diversity([case], PLAIN)[0] for case in cases] == diversity(cases, PLAIN)


@pytest.mark.parametrize("odd", [np.nan, np.inf])
def test_a_vector_that_is_not_finite_is_an_error(odd: float):
    """A value that is not a number would make every mean of the batch one that is not."""
    broken = np.array([[1.0, 0.0], [odd, 0.0]], dtype=np.float32)
    with pytest.raises(ValueError, match="not finite"):
        diversity([RewardCase(rollout(2), signals(2), broken)], PLAIN)


@pytest.mark.parametrize(
    "name", [field.name for field in fields(RewardSettings) if field.name != "weights"]
)
def test_an_unknown_reading_is_refused(name: str):
    """It would silently count as the other reading; the message lists what there is."""
    with pytest.raises(ConfigError, match=f"'{name}' is 'max'; it must be one of"):
        RewardSettings(**{name: "max"})
