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
    lines = [
        _line(str(name), group, limit)
        for (name,), group in lengths.sort("source", "claim_id").group_by(
            "source", maintain_order=True
        )
    ]
    every = [_line(ALL, lengths, limit)] if lengths.height else []
    too_long = lengths.filter(pl.col("prompt_tokens") > limit)
    return TokenReport(
        limit,
        pl.DataFrame([*lines, *every], schema=BY_SOURCE),
        too_long.sort("prompt_tokens", "claim_id", descending=[True, False]).select(list(LENGTHS)),
    )


def _line(name: str, group: pl.DataFrame, limit: int) -> dict[str, object]:
    tokens = group["prompt_tokens"]
    longest = group.sort("prompt_tokens", "claim_id", descending=[True, False])["claim_id"][0]
    return {
        "source": name,
        "claims": group.height,
        "too_long": int((tokens > limit).sum()),
        **{
            column: int(tokens.quantile(share, "higher") or 0)
            for column, share in zip(_NAMES, QUANTILES, strict=True)
        },
        "longest": longest,
    }
