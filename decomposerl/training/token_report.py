"""Prompt lengths against the token limit: quantiles by source, and the claims that are too long.

TRL truncates no prompt: one that is too long is left out of training, or the run does not start.
"""

from dataclasses import dataclass

import polars as pl

QUANTILES = (0.0, 0.25, 0.5, 0.75, 0.95, 1.0)
_NAMES = tuple(f"q{round(100 * share)}" for share in QUANTILES)
LENGTHS = pl.Schema({"claim_id": pl.String(), "source": pl.String(), "prompt_tokens": pl.Int64()})
BY_SOURCE = pl.Schema(
    {"source": pl.String(), "claims": pl.Int64(), "too_long": pl.Int64()}
    | dict.fromkeys(_NAMES, pl.Int64())
    | {"longest": pl.String()}
)
ALL = "all"


@dataclass(frozen=True, slots=True)
class TokenReport:
    """``by_source`` (``BY_SOURCE``) has a row per source, and the last, ``all``, for all of them.

    ``too_long`` (``LENGTHS``) lists the claims above ``limit``, longest first.
    """

    limit: int
    by_source: pl.DataFrame
    too_long: pl.DataFrame


def token_report(lengths: pl.DataFrame, limit: int) -> TokenReport:
    """The report on ``lengths`` (``LENGTHS``, a row per claim) against ``limit`` tokens.

    Quantiles are lengths that occur (the nearest at or above the share); ``longest`` is the
    claim with the longest prompt, the first by id among equals.
    """
    tokens = pl.col("prompt_tokens")
    ranked = lengths.sort("prompt_tokens", "claim_id", descending=[True, False])
    values = [
        pl.len().cast(pl.Int64).alias("claims"),
        (tokens > limit).sum().cast(pl.Int64).alias("too_long"),
        *(
            tokens.quantile(share, "higher").cast(pl.Int64).alias(name)
            for name, share in zip(_NAMES, QUANTILES, strict=True)
        ),
        pl.col("claim_id").first().alias("longest"),
    ]
    every = ranked.group_by(pl.lit(ALL).alias("source")).agg(values).filter(pl.col("claims") > 0)
    rows = [ranked.group_by("source").agg(values).sort("source"), every]
    return TokenReport(
        limit,
        pl.concat(rows).select(list(BY_SOURCE)),
        ranked.filter(tokens > limit).select(list(LENGTHS)),
    )
