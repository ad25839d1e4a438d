"""The page of a stage: what entered, stayed and was dropped and why, with a sample; Markdown."""

from collections.abc import Mapping
from dataclasses import dataclass

import polars as pl

from decomposerl.prompts.verifier import own_prompt_note
from decomposerl.reports.small_figures import bars_markdown, rows_markdown
from decomposerl.reports.stage_tally import StageTally, counts_by
from decomposerl.reports.tables import (
    frame_markdown,
    markdown_table,
    markdown_text,
    one_line,
    share,
)
from decomposerl.schemas import LABELS, VERDICTS

MOST_LEFT = "most left"
"""The metadata that a stage's line on the console repeats: ``StagePage.most_left``."""
SAMPLE_CHARACTERS = 120
GUARD_SHARE = 0.8
LIKENESS_SHARE = 0.5
_LIKENESS = {"deduplicated", "decontaminated"}
_BUDGETED = {"diversity_selected", "training_claims"}
GUARD_ROWS = 50
_SHARES = ("mean_cover", "within_0_5", "within_0_7", "within_0_9")
_MATRIX_MB = 4 / 1e6  # a single-precision cosine


@dataclass(frozen=True, slots=True)
class StagePage:
    """A stage's page: counts, Markdown blocks (``*_md``), and ``numeric`` values for plots.

    ``figure_md`` are bars of the rows in, kept, and dropped by reason; ``by_engine_md`` names the
    engines that gave the values behind the drops.

    ``numeric`` has ``rows_in``, ``rows_kept``, ``rows_dropped``, and as shares in 0..1
    ``share_kept`` and ``supported_share`` (0 without rows). ``struck`` names the sources that lost
    suspiciously many rows, ``guard_md`` shows them; ``close_md`` shows the removals nearest to
    their threshold; ``prompt_md`` warns where MiniCheck was not asked in its own form.
    ``most_left`` names the largest reason where more than half of the rows left, else it is empty.
    """

    stage: str
    rows_in: int
    rows_kept: int
    rows_dropped: int
    figure_md: str
    by_reason_md: str
    by_engine_md: str
    by_source_md: str
    label_balance_md: str
    sample_md: str
    settings_md: str
    struck: tuple[str, ...]
    guard_md: str
    close_md: str
    prompt_md: str
    most_left: str
    numeric: dict[str, float]


def stage_page(
    stage: str,
    tally: StageTally,
    settings: Mapping[str, object],
    *,
    texts: pl.DataFrame | None = None,
    engines: str = "",
) -> StagePage:
    """Build the page of ``stage`` from its tally.

    ``texts`` (``claim_id``, ``claim``) has the claims that ``tally.closest`` names; without it no
    close call is shown.
    """
    by_source = source_counts(tally.entered, tally.kept, tally.dropped)
    struck = struck_sources(stage, by_source)
    rows_in, rows_kept = tally.rows_in, tally.rows_kept
    return StagePage(
        stage=stage,
        rows_in=rows_in,
        rows_kept=rows_kept,
        rows_dropped=tally.rows_dropped,
        figure_md=_figure(rows_in, rows_kept, tally.dropped),
        by_reason_md=_by_reason(tally.dropped, rows_in),
        by_engine_md=_by_engine(tally.dropped),
        by_source_md=_by_source(by_source),
        label_balance_md=_label_balance(tally),
        sample_md=_sample(tally.sample),
        settings_md=markdown_table(
            ["setting", "value"], [[name, str(value)] for name, value in settings.items()]
        ),
        struck=tuple(struck["source"]),
        guard_md=_guard(stage, struck),
        close_md="" if texts is None else close_calls(tally.closest, texts),
        prompt_md=f"**{note}**" if (note := own_prompt_note(engines)) else "",
        most_left=_most_left(tally),
        numeric=_numeric(tally),
    )


def source_counts(rows_in: pl.DataFrame, kept: pl.DataFrame, drops: pl.DataFrame) -> pl.DataFrame:
    """Rows per source: ``source``, ``rows_in``, ``kept``, ``dropped``; largest first.

    Each frame has the rows (``source``), or counts of them (also ``rows``).
    """
    parts = {"rows_in": rows_in, "kept": kept, "dropped": drops}
    long = pl.concat(
        pl.DataFrame(
            {"source": list(counts), "part": name, "rows": list(counts.values())},
            schema={"source": pl.String(), "part": pl.String(), "rows": pl.Int64()},
        )
        for name, frame in parts.items()
        for counts in [counts_by(frame, "source")]
    )
    sums = [pl.col("rows").filter(pl.col("part") == name).sum().alias(name) for name in parts]
    return long.group_by("source").agg(*sums).sort(["rows_in", "source"], descending=[True, False])


def _sample(rows: pl.DataFrame) -> str:
    shown = rows.fill_null("–")
    return markdown_table(
        shown.columns,
        [[one_line(str(value), SAMPLE_CHARACTERS) for value in row] for row in shown.iter_rows()],
    )


def guard_share(stage: str) -> float | None:
    """Share of a source above which removals by ``stage`` are suspicious; None for a budget.

    If likeness to other claims removes more than half of a source, it has matched a template
    rather than copies. Rules may well remove more.
    """
    if stage in _BUDGETED:
        return None
    return LIKENESS_SHARE if stage in _LIKENESS else GUARD_SHARE


def struck_sources(stage: str, counts: pl.DataFrame) -> pl.DataFrame:
    """The rows of ``source_counts`` that lost more than ``guard_share``.

    Sources with fewer than ``GUARD_ROWS`` rows are ignored.
    """
    bound = guard_share(stage)
    if bound is None:
        return counts.clear()
    return counts.filter(
        (pl.col("rows_in") >= GUARD_ROWS) & (pl.col("dropped") > bound * pl.col("rows_in"))
    )


def close_calls(closest: pl.DataFrame, texts: pl.DataFrame) -> str:
    """The removals nearest to their threshold, where a decision may be wrong; one a line.

    ``closest`` is that of ``StageTally``; ``texts`` (``claim_id``, ``claim``) has their claims.
    """
    matched = texts.rename({"claim_id": "matched_claim_id", "claim": "matched"})
    close = closest.join(texts, on="claim_id", how="left", maintain_order="left").join(
        matched, on="matched_claim_id", how="left", maintain_order="left"
    )
    return "\n".join(_close_call(row) for row in close.iter_rows(named=True))


def _close_call(row: Mapping[str, object]) -> str:
    """A line that wraps; a table of whole claims is wider than a page."""
    texts = [row["claim"] or "–", row["matched"] or _match(row)]
    claim, matched = (markdown_text(str(text), SAMPLE_CHARACTERS) for text in texts)
    figures = f"{row['value']:.4g} where {row['threshold']:.4g} decides"
    like = "" if matched == "–" else f" ~ {matched}"
    return f"- **{markdown_text(str(row['reason']))}** {figures}: {claim}{like} `{row['claim_id']}`"


def cells_markdown(cells: pl.DataFrame) -> str:
    """``SELECTION_CELLS`` as a Markdown table, shares with three decimals."""
    rounded = pl.col("objective").round(2), pl.col(_SHARES).round(3)
    return frame_markdown(cells.with_columns(*rounded))


def selection_totals(cells: pl.DataFrame) -> dict[str, int | float]:
    """Totals of ``SELECTION_CELLS`` to plot over runs, 0 without cells.

    ``evaluations_share`` is relative to a greedy without bounds, which computes one gain per claim
    and pick.
    """
    claims, every = pl.col("available"), pl.col("available") * pl.col("selected")
    largest = claims.max().cast(pl.Float64())
    return (
        cells.select(
            objective=pl.col("objective").sum(),
            **{share: (pl.col(share) * claims).sum() / claims.sum() for share in _SHARES},
            evaluations=pl.col("evaluations").sum(),
            evaluations_share=pl.col("evaluations").sum() / every.sum(),
            largest_cell=claims.max(),
            largest_cell_matrix_mb=largest * largest * _MATRIX_MB,
        )
        .fill_nan(0)
        .fill_null(0)
        .select(pl.selectors.float().round(4), pl.selectors.integer())
        .row(0, named=True)
    )


def _numeric(tally: StageTally) -> dict[str, float]:
    supported = counts_by(tally.kept, "label").get("Supported", 0)
    kept, entered = tally.rows_kept, tally.rows_in
    return {
        "rows_in": float(entered),
        "rows_kept": float(kept),
        "rows_dropped": float(tally.rows_dropped),
        "share_kept": kept / entered if entered else 0.0,
        "supported_share": supported / kept if kept else 0.0,
    }


def _match(drop: Mapping[str, object]) -> str:
    """The matched claim by id and source, if its text is not among the rows of the stage."""
    if drop["matched_claim_id"] is None:
        return "–"
    return f"{drop['matched_claim_id']} of {drop['matched_source']}"


def _figure(entered: int, kept: int, drops: pl.DataFrame) -> str:
    reasons = counts_by(drops, "reason")
    dropped = [(reason.replace("_", " "), n) for reason, n in reasons.items()]
    rows = [("rows in", entered), ("kept", kept), *dropped]
    return bars_markdown(rows, f"{entered:,} rows in, {kept:,} kept; dropped by reason", dark=2)


def _most_left(tally: StageTally) -> str:
    if 2 * tally.rows_dropped <= tally.rows_in:
        return ""
    reason, rows = next(iter(counts_by(tally.dropped, "reason").items()))
    return f"{tally.rows_dropped:,} of {tally.rows_in:,} dropped, {rows:,} as {reason}"


def _by_reason(drops: pl.DataFrame, whole: int) -> str:
    rows = [[reason, n, share(n, whole)] for reason, n in counts_by(drops, "reason").items()]
    return markdown_table(["reason", "rows", "share of rows in"], rows) if rows else "none"


def _by_engine(drops: pl.DataFrame) -> str:
    counted = drops.drop_nulls("engine").group_by("engine", "reason").agg(pl.col("rows").sum())
    rows = counted.sort(["engine", "rows", "reason"], descending=[False, True, False])
    lines = [f"{n:,} {reason} by {engine}" for engine, reason, n in rows.iter_rows()]
    return "\n".join(f"- {markdown_text(line)}" for line in lines)


def _by_source(counts: pl.DataFrame) -> str:
    whole = ("total", *(int(counts[name].sum()) for name in counts.columns[1:]))
    rows = [
        [source, entered, kept, share(kept, entered)]
        for source, entered, kept, _ in [whole, *counts.iter_rows()]
    ]
    return rows_markdown(["source", "in", "kept", "share kept"], rows)


def _label_balance(tally: StageTally) -> str:
    before, after = counts_by(tally.entered, "label"), counts_by(tally.kept, "label")
    rows: list[list[object]] = []
    for label in (*LABELS, *(one for one in VERDICTS if one in before and one not in LABELS)):
        entered, kept = before.get(label, 0), after.get(label, 0)
        rows.append([label, share(entered, tally.rows_in), kept, share(kept, tally.rows_kept)])
    return markdown_table(["label", "share of rows in", "kept", "share of kept"], rows)


def _guard(stage: str, struck: pl.DataFrame) -> str:
    if struck.is_empty():
        return ""
    rows = [
        [source, entered, dropped, share(dropped, entered)]
        for source, entered, _, dropped in struck.iter_rows()
    ]
    table = markdown_table(["source", "in", "dropped", "share dropped"], rows)
    head = f"**Warning: `{stage}` removed more than {guard_share(stage):.0%} of these sources.**"
    return f"{head}\n\n{table}"
