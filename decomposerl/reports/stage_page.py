"""One stage's page: what entered, what stayed, what left and why, with a short sample.

Takes the rows that entered, the survivors and the drops of a stage and gives Markdown
blocks and the few numbers worth plotting over time.

Left out deliberately: pictures (``figures.py``) and where the page is shown.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import polars as pl

from decomposerl.reports.escape import markdown_table, one_line, share

SAMPLE_ROWS = 5
SAMPLE_CHARACTERS = 120
GUARD_SHARE = 0.8
GUARD_ROWS = 50


@dataclass(frozen=True, slots=True)
class StagePage:
    """A stage's page: counts, Markdown blocks (``*_md``), and ``numeric`` for plots.

    ``numeric`` holds ``rows_in``, ``rows_kept``, ``rows_dropped``, and as shares in 0..1
    ``share_kept`` and ``supported_share`` (both 0 where there is nothing to divide by).
    ``guard_md`` is empty where no source lost suspiciously much.
    """

    stage: str
    rows_in: int
    rows_kept: int
    rows_dropped: int
    by_reason_md: str
    by_source_md: str
    label_balance_md: str
    sample_md: str
    settings_md: str
    guard_md: str
    numeric: dict[str, float]


def stage_page(
    stage: str,
    rows_in: pl.DataFrame,
    kept: pl.DataFrame,
    drops: pl.DataFrame,
    settings: Mapping[str, object],
) -> StagePage:
    """Build the page of ``stage``.

    ``rows_in`` needs ``claim_id``, ``source``, ``label``; ``kept`` is the stage's frame
    (``claim_id``, ``source``, ``label``, ``claim``, ``evidence``); ``drops`` is ``DROPS``.
    """
    by_source = source_counts(rows_in, kept, drops)
    supported = kept.filter(pl.col("label") == "Supported").height
    return StagePage(
        stage=stage,
        rows_in=rows_in.height,
        rows_kept=kept.height,
        rows_dropped=drops.height,
        by_reason_md=_by_reason(drops, rows_in.height),
        by_source_md=_by_source(by_source),
        label_balance_md=_label_balance(rows_in, kept),
        sample_md=sample(kept),
        settings_md=markdown_table(
            ["setting", "value"], [[name, str(value)] for name, value in settings.items()]
        ),
        guard_md=_guard(stage, by_source),
        numeric={
            "rows_in": float(rows_in.height),
            "rows_kept": float(kept.height),
            "rows_dropped": float(drops.height),
            "share_kept": kept.height / rows_in.height if rows_in.height else 0.0,
            "supported_share": supported / kept.height if kept.height else 0.0,
        },
    )


def source_counts(rows_in: pl.DataFrame, kept: pl.DataFrame, drops: pl.DataFrame) -> pl.DataFrame:
    """Rows per source: ``source``, ``rows_in``, ``kept``, ``dropped``; largest first."""
    parts = {"rows_in": rows_in, "kept": kept, "dropped": drops}
    long = pl.concat(
        [frame.select("source", pl.lit(name).alias("part")) for name, frame in parts.items()]
    )
    counts = [(pl.col("part") == name).sum().cast(pl.Int64()).alias(name) for name in parts]
    return (
        long.group_by("source").agg(*counts).sort(["rows_in", "source"], descending=[True, False])
    )


def sample(kept: pl.DataFrame) -> str:
    """The first rows in ``claim_id`` order (a hash, so a fair draw that never changes)."""
    rows = kept.sort("claim_id").head(SAMPLE_ROWS)
    names = [n for n in ("claim_id", "source", "label", "claim", "evidence") if n in rows.columns]
    shown = rows.select(names).fill_null("–")
    return markdown_table(
        names,
        [[one_line(str(value), SAMPLE_CHARACTERS) for value in row] for row in shown.iter_rows()],
    )


def _by_reason(drops: pl.DataFrame, whole: int) -> str:
    counted = (
        drops.group_by("step", "reason")
        .agg(pl.len().alias("rows"))
        .sort(["rows", "step", "reason"], descending=[True, False, False])
    )
    rows = [[step, reason, n, share(n, whole)] for step, reason, n in counted.iter_rows()]
    return markdown_table(["step", "reason", "rows", "share of rows in"], rows)


def _by_source(counts: pl.DataFrame) -> str:
    rows = [
        [source, entered, kept, dropped, share(kept, entered)]
        for source, entered, kept, dropped in counts.iter_rows()
    ]
    entered, kept, dropped = (int(counts[name].sum()) for name in counts.columns[1:])
    rows.append(["total", entered, kept, dropped, share(kept, entered)])
    return markdown_table(["source", "in", "kept", "dropped", "share kept"], rows)


def _label_balance(rows_in: pl.DataFrame, kept: pl.DataFrame) -> str:
    rows: list[list[object]] = []
    for label in ("Supported", "Refuted"):
        before, after = (f.filter(pl.col("label") == label).height for f in (rows_in, kept))
        rows.append(
            [label, before, share(before, rows_in.height), after, share(after, kept.height)]
        )
    return markdown_table(["label", "in", "share in", "kept", "share kept"], rows)


def _guard(stage: str, counts: pl.DataFrame) -> str:
    struck = counts.filter(
        (pl.col("rows_in") >= GUARD_ROWS) & (pl.col("dropped") > GUARD_SHARE * pl.col("rows_in"))
    )
    rows = [
        [source, entered, dropped, share(dropped, entered)]
        for source, entered, _, dropped in struck.iter_rows()
    ]
    if not rows:
        return ""
    table = markdown_table(["source", "in", "dropped", "share dropped"], rows)
    head = f"**Warning: `{stage}` removed more than {GUARD_SHARE:.0%} of these sources.**"
    return f"{head}\n\n{table}"
