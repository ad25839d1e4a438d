"""The funnel of a data folder against that of an older one, and against the published files.

What a changed threshold moved is seen by running the stage again in a copy of the data folder, and
comparing the two.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass

import polars as pl

from decomposerl.claims.catalogue import DIFFERENCES
from decomposerl.reports.attrition import STAGES, TOTAL
from decomposerl.reports.tables import frame_markdown, frame_text

_COUNTS = ("older", "now", "difference", "left", "came")


@dataclass(frozen=True, slots=True)
class FunnelState:
    """The stages that have run: ids and sources of the claims that each kept, and its settings."""

    kept: Mapping[str, pl.DataFrame]
    settings: Mapping[str, Mapping[str, object]]


def against_older(now: FunnelState, older: FunnelState) -> pl.DataFrame:
    """One row per source, and in total, of each stage that has run in both.

    ``older`` and ``now`` are the claims that it kept; ``left`` are those that only the older run
    kept, ``came`` those that only the present one keeps. ``settings`` are the stage's that differ.
    """
    frames = []
    for stage in (stage for stage in STAGES if stage in now.kept and stage in older.kept):
        both = (
            now.kept[stage]
            .with_columns(now=True)
            .join(
                older.kept[stage].with_columns(older=True),
                on=["claim_id", "source"],
                how="full",
                coalesce=True,
            )
        )
        claims = both.with_columns(pl.col("now", "older").fill_null(value=False))
        counts = [
            pl.col("older").sum(),
            pl.col("now").sum(),
            (pl.col("older") & ~pl.col("now")).sum().alias("left"),
            (pl.col("now") & ~pl.col("older")).sum().alias("came"),
        ]
        total = claims.select(pl.lit(TOTAL).alias("source"), *counts)
        rows = pl.concat([claims.group_by("source").agg(counts).sort("source"), total])
        changed = _changed(now.settings.get(stage, {}), older.settings.get(stage, {}))
        frames.append(
            rows.with_columns(pl.exclude("source").cast(pl.Int64)).select(
                pl.lit(stage).alias("stage"),
                "source",
                *_COUNTS[:2],
                (pl.col("now") - pl.col("older")).alias("difference"),
                *_COUNTS[3:],
                pl.lit(changed).alias("settings"),
            )
        )
    columns = {"stage": pl.String(), "source": pl.String(), **dict.fromkeys(_COUNTS, pl.Int64())}
    return pl.concat([pl.DataFrame(schema={**columns, "settings": pl.String()}), *frames])


def against_older_text(compared: pl.DataFrame, *, markdown: bool = False) -> str:
    """The totals and the sources that changed as a table, then the settings that differ."""
    moved = (pl.col("source") == TOTAL) | (pl.col("left") + pl.col("came") > 0)
    shown = compared.filter(moved).drop("settings")
    settings = compared.filter((pl.col("source") == TOTAL) & (pl.col("settings") != ""))
    lines = [f"{stage}: {said}" for stage, said in settings.select("stage", "settings").rows()]
    table = frame_markdown(shown) if markdown else frame_text(shown)
    return "\n".join([table, "", *(lines or ["No setting of these stages differs."])])


def against_published(wide: pl.DataFrame) -> pl.DataFrame:
    """Per source the claims that were read, and those that all its public files give.

    ``published`` is null where it is not known, ``difference`` where one of both is; ``reason``
    says what is known of the files.
    """
    rows = []
    for source, title, raw in wide.filter(pl.col("source") != TOTAL)[
        "source", "title", "raw"
    ].rows():
        known = DIFFERENCES.get(source)
        published = None if known is None else known.rows
        difference = None if published is None or raw is None else raw - published
        rows.append((source, title, raw, published, difference, known.reason if known else ""))
    numbers = dict.fromkeys(("ours", "published", "difference"), pl.Int64())
    schema = {"source": pl.String(), "title": pl.String(), **numbers, "reason": pl.String()}
    return pl.DataFrame(rows, schema=schema, orient="row")


def _changed(now: Mapping[str, object], older: Mapping[str, object]) -> str:
    return ", ".join(
        f"{name} {json.dumps(older.get(name))} → {json.dumps(now.get(name))}"
        for name in sorted({*now, *older})
        if now.get(name) != older.get(name)
    )
