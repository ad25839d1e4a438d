"""Mean reward by kind of trace and reward, as a frame and as Markdown."""

from collections.abc import Sequence

import polars as pl

from decomposerl.reports.tables import count, markdown_table, one_line

MEANS = pl.Schema(
    {
        "kind": pl.String(),
        "reward": pl.String(),
        "n": pl.Int64(),
        "nulls": pl.Int64(),
        "mean": pl.Float64(),
    }
)
"""``n`` traces have a value, ``nulls`` have none, ``mean`` is over the ``n``, null for 0."""
NOTE = "Null: traces without a value; they take no part in the mean."
_NONE = "–"


def mean_rewards(
    values: pl.DataFrame, rewards: Sequence[str], kinds: Sequence[str] | None = None
) -> pl.DataFrame:
    """The means as ``MEANS``: a row for each kind and reward, also where there is no trace.

    ``values`` needs the columns ``kind``, ``reward`` and ``value`` (null where there is none),
    one row a trace and reward. Where it has a column ``question``, rows with one are about a
    question of a trace and are left out. ``rewards`` is the catalogue's order; ``kinds``
    orders the rows, by default as they first appear.

    Raises:
        ValueError: a reward or kind in ``values`` is in neither order.
    """
    if "question" in values.columns:
        values = values.filter(pl.col("question").is_null())
    order = values["kind"].unique(maintain_order=True).to_list() if kinds is None else list(kinds)
    _demand_known("reward", values, rewards)
    _demand_known("kind", values, order)
    frame = pl.DataFrame({"kind": order}, schema={"kind": pl.String()}).join(
        pl.DataFrame({"reward": list(rewards)}, schema={"reward": pl.String()}), how="cross"
    )
    value = pl.col("value").cast(pl.Float64())
    found = values.group_by("kind", "reward").agg(
        n=value.count().cast(pl.Int64()),
        nulls=value.null_count().cast(pl.Int64()),
        mean=value.mean(),
    )
    means = frame.join(found, on=["kind", "reward"], how="left", maintain_order="left")
    return means.with_columns(pl.col("n", "nulls").fill_null(0)).select(list(MEANS))


def reward_markdown(means: pl.DataFrame) -> str:
    """``MEANS`` as a Markdown table, a line a kind and a column a reward, with its note."""
    headers, *rows = _cells(means)
    return f"{markdown_table(headers, rows)}\n\n{NOTE}"


def _demand_known(column: str, values: pl.DataFrame, known: Sequence[str]) -> None:
    unknown = sorted(set(values[column].to_list()) - set(known), key=str)
    if unknown:
        raise ValueError(f"values of an unknown {column}: {', '.join(map(repr, unknown))}")


def _cells(means: pl.DataFrame) -> list[list[str]]:
    """Header and rows as text: kind, traces, one mean a reward."""
    rewards = means["reward"].unique(maintain_order=True).to_list()
    rows = [["kind", "traces", *map(one_line, rewards)]]
    for (kind,), part in means.group_by("kind", maintain_order=True):
        by_reward = {row["reward"]: row for row in part.iter_rows(named=True)}
        traces = max(row["n"] + row["nulls"] for row in by_reward.values())
        means_of = [_mean(**by_reward[reward]) for reward in rewards]
        rows.append([one_line(str(kind)), count(traces), *means_of])
    return rows


def _mean(n: int, nulls: int, mean: float | None, **_names: str) -> str:
    """A mean to two places, with the traces that have none; a dash where no trace has one."""
    text = _NONE if mean is None or n == 0 else f"{mean:z.2f}"
    return f"{text}, {nulls} null" if nulls else text
