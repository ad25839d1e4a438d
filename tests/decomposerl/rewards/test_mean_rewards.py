"""The table of mean rewards: means over what has a value, and nothing hidden."""

import math
import random

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mean_rewards import MEANS, NOTE, mean_rewards, reward_markdown

REWARDS = ("format", "joint", "verification")
SCHEMA = {"kind": pl.String(), "reward": pl.String(), "value": pl.Float64()}


def frame(*rows: tuple[str, str, float | None]) -> pl.DataFrame:
    return pl.DataFrame(rows, schema=SCHEMA, orient="row")


TWO_KINDS = frame(
    ("good", "joint", 1.0),
    ("good", "format", 1.0),
    ("good", "verification", None),
    ("good", "format", 0.5),
    ("good", "joint", None),
    ("good", "verification", None),
    ("bad", "joint", -0.004),
    ("bad", "format", 0.125),
)


def test_means_by_hand():
    """A null takes no part in a mean and is counted; a pair without a row has none."""
    expected = pl.DataFrame(
        [
            ("good", "format", 2, 0, 0.75),
            ("good", "joint", 1, 1, 1.0),
            ("good", "verification", 0, 2, None),
            ("bad", "format", 1, 0, 0.125),
            ("bad", "joint", 1, 0, -0.004),
            ("bad", "verification", 0, 0, None),
        ],
        schema=MEANS,
        orient="row",
    )
    assert expected.equals(mean_rewards(TWO_KINDS, REWARDS))


def test_orders_are_the_callers():
    """Columns follow the catalogue and rows the kinds, also for a kind without a trace."""
    means = mean_rewards(TWO_KINDS, REWARDS[::-1], ["none", "bad", "good"])
    assert ["none", "bad", "good"] == means["kind"].unique(maintain_order=True).to_list()
    assert list(REWARDS[::-1]) * 3 == means["reward"].to_list()
    assert [0, 0, 0] == means.filter(kind="none")["n"].to_list()


def test_rows_of_questions_are_left_out():
    """The long table of rewards also holds one row a question; the trace's own row counts."""
    asked = TWO_KINDS.with_columns(question=pl.lit(0, pl.Int64()), value=pl.lit(-1.0))
    whole = TWO_KINDS.with_columns(question=pl.lit(None, pl.Int64()))
    means = mean_rewards(pl.concat([asked, whole]), REWARDS)
    assert mean_rewards(TWO_KINDS, REWARDS).equals(means)


@pytest.mark.parametrize(
    ("rewards", "kinds", "message"),
    [
        (REWARDS[:1], None, "unknown reward: 'joint', 'verification'"),
        (REWARDS, ["good"], "unknown kind: 'bad'"),
    ],
)
def test_nothing_is_left_out_in_silence(
    rewards: tuple[str, ...], kinds: list[str] | None, message: str
):
    """A reward or kind that the table has no place for is an error."""
    with pytest.raises(ValueError, match=message):
        mean_rewards(TWO_KINDS, rewards, kinds)


def test_markdown():
    """Two places, nulls counted, a dash where there is no value, no negative zero."""
    expected = (
        "| kind | traces | format | joint | verification |\n"
        "| --- | --- | --- | --- | --- |\n"
        "| good | 2 | 0.75 | 1.00, 1 null | –, 2 null |\n"
        "| bad | 1 | 0.12 | 0.00 | – |\n"
        f"\n{NOTE}"
    )
    assert expected == reward_markdown(mean_rewards(TWO_KINDS, REWARDS))


def test_names_cannot_break_the_table():
    """A kind's name is shown on one line, inside its cell."""
    means = mean_rewards(frame(("a|b\nc", "joint", 1.0)), ["joint"])
    assert "| a\\|b c | 1 | 1.00 |" in reward_markdown(means)


def test_no_trace():
    """No row gives an empty table, not an error."""
    means = mean_rewards(frame(), REWARDS)
    assert MEANS == means.schema
    assert 0 == means.height
    assert reward_markdown(means).startswith("| kind | traces |")


@given(
    st.lists(
        st.tuples(
            st.sampled_from("abc"),
            st.sampled_from(REWARDS),
            st.none() | st.floats(-1, 1, allow_nan=False),
        )
    ),
    st.randoms(),
)
def test_every_row_counts_once(rows: list[tuple[str, str, float | None]], shuffle: random.Random):
    """Values and nulls add up to the rows, means to the sum, in any order of rows."""
    means = mean_rewards(frame(*rows), REWARDS, ["a", "b", "c"])
    assert len(rows) == means["n"].sum() + means["nulls"].sum()
    total = (means["n"] * means["mean"]).sum()
    assert math.isclose(sum(v for _, _, v in rows if v is not None), total, abs_tol=1e-9)
    again = list(rows)
    shuffle.shuffle(again)
    other = mean_rewards(frame(*again), REWARDS, ["a", "b", "c"])
    assert means.drop("mean").equals(other.drop("mean"))
