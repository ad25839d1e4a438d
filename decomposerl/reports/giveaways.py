"""Tokens of the evidence that give the label away, such as a verdict that was written into it.

Each token is a one-token classifier: "evidence that has it has this label". The unit is an
evidence text with a label, counted once, as further claims about it are no new observations. Of N
units K have the label, n the token, k both. Were token and label independent, k would be
hypergeometric, and Fisher's exact one-sided p its upper tail. Hoeffding's bound of that tail
(1963, theorems 1 and 4) needs no sum:

    P(X >= k) <= exp(-n D),  D = KL(k/n, K/N) = k/n ln(kN/nK) + (1 - k/n) ln((1 - k/n)/(1 - K/N))

With T tokens and L labels a token stands out where T L exp(-n D) <= ``ALPHA`` (Bonferroni): if no
token depends on the label, a corpus is warned of with probability ``ALPHA`` at most, however the
tokens depend on each other. In large corpora topics stand out too, so a giveaway also has to
decide: it finds ``LEAST_REACH`` of the label's units, and the label is right in ``LEAST_RIGHT`` of
those it finds, both labels weighing the same.
"""

import math
from collections.abc import Iterable, Mapping

import polars as pl

from decomposerl.schemas import VERDICTS

ALPHA = 0.01
LEAST_REACH, LEAST_RIGHT = 0.05, 0.75
READ = ["label", "evidence"]
"""The columns of claims that are read."""
_ALONE = r"\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}"  # no spaces
_WORD = rf"[{_ALONE}]|[\p{{L}}\p{{M}}\p{{N}}--[{_ALONE}]]+"
_SHOWN, _CHARACTERS = 5, 30
_UNIT = pl.struct("label", "evidence").hash()


def giveaways(batches: Iterable[pl.DataFrame]) -> pl.DataFrame:
    """The tokens that give a label away, the furthest-reaching first; empty where none does.

    ``batches`` are claims (``READ``). ``token`` is in lower case; of the ``units`` with it,
    ``right`` have ``label``; ``reach`` is its share of the label's units, ``share`` the weighted
    share that is right, 0..1.
    """
    seen = pl.Series(dtype=pl.UInt64())
    counts = pl.DataFrame(schema={"token": pl.String(), "label": pl.String(), "right": pl.UInt32()})
    whole = dict.fromkeys(VERDICTS, 0)
    for batch in batches:
        units = batch.drop_nulls(["label", "evidence"]).with_columns(unit=_UNIT)
        units = units.unique("unit", keep="first", maintain_order=True)
        units = units.filter(~pl.col("unit").is_in(seen.implode()))
        seen = pl.concat([seen, units["unit"]])
        for label, rows in units["label"].value_counts().rows():
            whole[label] += rows
        tokens = pl.col("evidence").str.to_lowercase().str.extract_all(_WORD).list.unique()
        words = (
            units.select("label", token=tokens)
            .explode("token", empty_as_null=False)
            .group_by("token", "label")
        )
        counts = pl.concat([counts, words.agg(right=pl.len()).select(counts.columns)])
        counts = counts.group_by("token", "label").agg(pl.col("right").sum())
    return _standing_out(counts, {label: rows for label, rows in whole.items() if rows})


def giveaways_text(found: pl.DataFrame) -> str:
    """What ``giveaways`` found as a phrase, a few tokens; empty where it found none."""
    said = [
        f"'{row['token'][:_CHARACTERS]}' in {row['units']:,} texts, {row['right']:,} of them "
        f"{row['label']} ({row['reach']:.0%} of these)"
        for row in found.head(_SHOWN).iter_rows(named=True)
    ]
    more = [f"{found.height - _SHOWN:,} more"] if found.height > _SHOWN else []
    return f"tokens of the evidence give the label away: {'; '.join(said + more)}" if said else ""


def _standing_out(counts: pl.DataFrame, whole: Mapping[str, int]) -> pl.DataFrame:
    total, tests = sum(whole.values()), counts["token"].n_unique() * len(whole)
    of_label = pl.col("label").replace_strict(whole, default=0, return_dtype=pl.Int64())
    judged = counts.with_columns(
        units=pl.col("right").sum().over("token"), base=of_label / total, of_label=of_label
    ).filter(pl.col("base") < 1)
    right, base = pl.col("right") / pl.col("units"), pl.col("base")
    wrong = (pl.col("units") - pl.col("right")) / (total - pl.col("of_label"))
    rest = pl.when(right < 1).then((1 - right) * ((1 - right) / (1 - base)).log()).otherwise(0.0)
    exponent = pl.col("units") * (right * (right / base).log() + rest)
    return (
        judged.filter(right > base, exponent >= math.log(max(tests, 1) / ALPHA))
        .with_columns(reach=pl.col("right") / pl.col("of_label"), wrong=wrong)
        .with_columns(share=pl.col("reach") / (pl.col("reach") + pl.col("wrong")))
        .filter(pl.col("reach") >= LEAST_REACH, pl.col("share") >= LEAST_RIGHT)
        .sort("reach", "token", descending=[True, False])
        .select("token", "label", "units", "right", "reach", "share")
    )
