"""The funnel's attrition: how many claims each stage kept and dropped, why, and per source.

``attrition`` is the long ``ATTRITION`` table, ``attrition_wide`` the paper's table "Per-source
training counts". A funnel is also compared with an older one's and with the published files: what a
changed threshold moved is seen by running the stage again in a copy of the data folder.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import polars as pl

from decomposerl.claims.catalogue import DIFFERENCES
from decomposerl.reports.small_figures import bars_markdown, rows_markdown
from decomposerl.reports.tables import frame_markdown, frame_text
from decomposerl.schemas import ATTRITION

STAGES = (
    "claims",
    "rule_filtered",
    "difficulty_band",
    "deduplicated",
    "decontaminated",
    "silver_decomposed",
    "diversity_selected",
    "training_claims",
)
"""The funnel in order; ``claims`` are all sources together."""

WIDE_STAGES = {
    "raw": "claims",
    "rules": "rule_filtered",
    "difficulty": "difficulty_band",
    "deduplicated": "deduplicated",
    "decontaminated": "decontaminated",
    "silver": "silver_decomposed",
    "selected": "diversity_selected",
    "final": "training_claims",
}
"""Column of the wide table to its stage. ``final`` includes claims added for long evidence."""

WIDE_SCHEMA = pl.Schema(
    {"source": pl.String(), "title": pl.String()}
    | dict.fromkeys(("paper_raw", "read", *WIDE_STAGES), pl.Int64())
)
_HEADERS = {
    "title": "Source",
    "paper_raw": "Paper raw",
    "read": "Read",
    "raw": "Raw",
    "rules": "Rules",
    "difficulty": "Diff.",
    "deduplicated": "Dedup.",
    "decontaminated": "Decont.",
    "silver": "Silver",
    "selected": "Selected",
    "final": "Final",
}
TOTAL = "total"
NOTE = (
    "Read: rows of the native files. Paper's columns: Raw = Raw, Diff. = Diff., "
    "Dedup = Silver, Final = Final."
)


@dataclass(frozen=True, slots=True)
class StageFrames:
    """The tables of one stage.

    ``kept`` needs the columns ``source`` and ``label``, ``drops`` also ``step`` and ``reason``;
    both are rows, or counts of rows by these columns (``rows``). ``rejects`` is ``REJECTS`` (only
    the sources reject rows). ``order`` is the position in the funnel, 0 for all sources together.
    """

    stage: str
    order: int
    kept: pl.DataFrame
    drops: pl.DataFrame
    rejects: pl.DataFrame | None = None


def attrition(stages: Sequence[StageFrames]) -> pl.DataFrame:
    """Count every row of every stage once, as ``ATTRITION`` in a stable order.

    A null label counts as ``none``; rejected rows have no label and the step ``reading``. Rejects
    of a whole file (row 0) are not counted.
    """
    parts = [ATTRITION.empty()]
    for stage in stages:
        parts.append(_counted(stage, stage.kept, "kept", pl.lit(""), pl.lit("")))
        parts.append(_counted(stage, stage.drops, "dropped", pl.col("step"), pl.col("reason")))
        if stage.rejects is not None:
            rejected = stage.rejects.filter(pl.col("row") > 0)
            rejects = rejected.with_columns(label=pl.lit(None, dtype=pl.String()))
            parts.append(_counted(stage, rejects, "rejected", pl.lit("reading"), pl.col("reason")))
    keys = ["stage_order", "source", "label", "outcome", "step", "reason"]
    return ATTRITION.conform(pl.concat(parts).sort(keys))


def attrition_wide(
    attrition: pl.DataFrame, paper_raw: Mapping[str, int], titles: Mapping[str, str]
) -> pl.DataFrame:
    """The paper's table: one row per source in the order of ``titles``, then ``total``.

    Columns: ``source``, ``title``, ``paper_raw`` (the paper's count, null where it has
    none), ``read`` (rows of the native files), then the rows kept by the sources
    (``raw``) and by each stage up to ``final``. A stage that has not run is null, not 0.
    """
    seen = attrition["source"].unique().sort().to_list()
    sources = [*titles, *(name for name in seen if name not in titles)]
    columns: dict[str, list[int | None]] = {
        "paper_raw": [paper_raw.get(name) for name in sources],
        "read": [*_per_source(attrition.filter(pl.col("stage") == STAGES[0]), sources)],
    }
    kept = attrition.filter(pl.col("outcome") == "kept")
    # A stage that kept and dropped nothing has no row. It ran nevertheless if a later stage did,
    # or if an earlier one kept nothing.
    latest = max((STAGES.index(stage) for stage in set(attrition["stage"])), default=-1)
    exhausted = False
    for column, stage in WIDE_STAGES.items():
        rows = _per_source(kept.filter(pl.col("stage") == stage), sources)
        ran = exhausted or STAGES.index(stage) <= latest
        exhausted |= ran and stage != "diversity_selected" and not any(rows)
        columns[column] = list(rows) if ran else [None] * len(sources)
    frame = pl.DataFrame(
        {
            "source": sources,
            "title": [titles.get(name, name) for name in sources],
            **columns,
        },
        schema=WIDE_SCHEMA,
    )
    return pl.concat([frame, _total(frame)])


def drops_by_reason(attrition: pl.DataFrame) -> pl.DataFrame:
    """Rows that left: ``stage``, ``step``, ``reason``, one column per source, ``total``.

    In funnel order, the most frequent reason first. Rejected rows have stage ``claims`` and step
    ``reading``.
    """
    left = attrition.filter(pl.col("outcome") != "kept")
    sources = left["source"].unique().sort().to_list()
    counts = [
        pl.col("rows").filter(pl.col("source") == name).sum().cast(pl.Int64()).alias(name)
        for name in sources
    ]
    return (
        left.group_by("stage_order", "stage", "step", "reason")
        .agg(*counts, pl.col("rows").sum().cast(pl.Int64()).alias(TOTAL))
        .sort(["stage_order", TOTAL, "step", "reason"], descending=[False, True, False, False])
        .drop("stage_order")
    )


def attrition_text(wide: pl.DataFrame) -> str:
    """The wide table as aligned text with a note; sources without a row are only named."""
    shown, note = _shown(wide)
    return f"{frame_text(shown, last_is_total=True)}\n\n{note}"


def attrition_markdown(wide: pl.DataFrame) -> str:
    """The wide table as Markdown with a note; sources without a row are only named."""
    shown, note = _shown(wide)
    return f"{frame_markdown(shown)}\n\n{note}"


def _shown(wide: pl.DataFrame) -> tuple[pl.DataFrame, str]:
    empty = (pl.col("read") == 0) & (pl.col("source") != TOTAL)
    without = wide.filter(empty)["title"].to_list() if wide["read"].sum() else []
    named = f" No rows, in the total of the paper's column only: {', '.join(without)}."
    shown = wide.filter(~pl.col("title").is_in(without)).rename(_HEADERS).drop("source")
    return shown, NOTE + named * bool(without)


def attrition_unfolded(wide: pl.DataFrame) -> str:
    """Of the wide table what fits on a page of Dagster's: raw, silver and final rows by source."""
    shown = wide.select("title", "raw", "silver", "final")
    return rows_markdown(["source", *shown.columns[1:]], shown.rows())


def funnel_bars(wide: pl.DataFrame) -> str:
    """The rows that each stage kept, as a small figure."""
    total = wide.row(-1, named=True)
    names = ["read", *WIDE_STAGES]
    rows = [(name, int(total[name] or 0)) for name in names if total[name] is not None]
    return bars_markdown(rows, "rows kept by each stage of the funnel", dark=len(rows))


def _counted(
    stage: StageFrames, rows: pl.DataFrame, outcome: str, step: pl.Expr, reason: pl.Expr
) -> pl.DataFrame:
    count = pl.col("rows").sum() if "rows" in rows.columns else pl.len()
    keys = ["source", pl.col("label").fill_null("none"), step.alias("step"), reason.alias("reason")]
    return (
        rows.group_by(keys)
        .agg(count.cast(pl.Int64()).alias("rows"))
        .select(
            pl.lit(stage.stage).alias("stage"),
            pl.lit(stage.order, dtype=pl.Int64()).alias("stage_order"),
            "source",
            "label",
            pl.lit(outcome).alias("outcome"),
            "step",
            "reason",
            "rows",
        )
    )


def _per_source(rows: pl.DataFrame, sources: Sequence[str]) -> list[int]:
    totals = dict(rows.group_by("source").agg(pl.col("rows").sum()).iter_rows())
    return [int(totals.get(name, 0)) for name in sources]


def _total(wide: pl.DataFrame) -> pl.DataFrame:
    numbers = [name for name, dtype in wide.schema.items() if dtype.is_integer()]
    sums = [
        pl.when(pl.col(name).count() > 0).then(pl.col(name).sum()).alias(name) for name in numbers
    ]
    return wide.select(pl.lit(TOTAL).alias("source"), pl.lit("Total").alias("title"), *sums).cast(
        dict.fromkeys(numbers, pl.Int64())
    )


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
