"""Scores for a reader: of a system on a test set, given predictions, leaderboard and comparison.

Run metadata is plain data by name; tables are aligned text or Markdown. Every row of the
leaderboard names its engine by a number with the name below. The paper's scores are always marked
as such and apart from ours. An empty cell is a dash.
"""

import tomllib
from collections.abc import Collection, Mapping
from functools import partial
from importlib.resources import files
from textwrap import fill

import polars as pl

from decomposerl.evaluation.leaderboard import (
    EDITED,
    FURTHER,
    ONE_LABEL,
    OTHERS,
    columns_of,
    wide_leaderboard,
)
from decomposerl.evaluation.metrics import Unread
from decomposerl.evaluation.published import CARDS, MEAN_IN, MEAN_OUT, MEANS, TABLE_TITLES
from decomposerl.evaluation.scored_claims import EvaluationSubset, beyond_context
from decomposerl.evaluation.systems import System
from decomposerl.prompts.verifier import own_prompt_note
from decomposerl.reports.tables import frame_markdown, frame_text
from decomposerl.schemas import BASES

NOTES: Mapping[str, str] = tomllib.loads(
    files(__package__).joinpath("leaderboard_notes.toml").read_text("utf-8")
)
MEAN_TITLES = {MEAN_IN: "Avg in", MEAN_OUT: "Avg out"}
WIDTH = 100
_EVEN = 0.5  # points by which both sides of an interval may differ and still be shown as ±
_HEAD = ["System", "Protocol", "Engine"]
_TEXTS = [*_HEAD, "shown"]
_Number = int | float | str
_SHOWN = ("balanced_accuracy", "recall_supported", "recall_refuted", "macro_f1", "parse_rate")
GROUP_METRICS = ("balanced_accuracy", "f1_supported", "macro_f1", "accuracy", "auroc")
_UNREAD = {
    "opposite": "counted as wrong, as the opposite of their label",
    "class": "counted as wrong, as a separate verdict",
    "leave-out": "left out",
}


def prediction_facts(
    system: System, subset: EvaluationSubset, predictions: pl.DataFrame, calls: pl.DataFrame
) -> dict[str, _Number]:
    """Counts and shares; tokens and money only where the engine counts them."""
    facts: dict[str, _Number] = {
        "system": system.reader_title,
        "protocol": system.protocol,
        "claims that could be asked": subset.usable,
        **{f"left out: {why}": count for why, count in subset.left_out.items()},
    }
    noted = {"beyond_the_context": beyond_context()}
    for values in predictions.select("parse_status", "verdict", "basis", **noted):
        counts = values.fill_null("none").value_counts().sort(values.name)
        facts |= {f"{values.name.replace('_', ' ')}: {name}": n for name, n in counts.iter_rows()}
    if predictions.height:
        facts["calls a claim"] = calls.height / predictions.height
        facts["questions a claim"] = float(predictions["questions"].sum()) / predictions.height
    sums = calls.select("prompt_tokens", "completion_tokens", "dollars").sum().row(0, named=True)
    return facts | {name.replace("_", " "): total for name, total in sums.items() if total}


def verdicts_markdown(predictions: pl.DataFrame, claims: pl.DataFrame) -> str:
    """Claims of each label by what became of them: right, wrong, or no verdict read.

    ``claims`` has ``claim_id`` and ``label``.
    """
    rows = predictions.join(claims.select("claim_id", "label"), on="claim_id")
    right, unread = pl.col("verdict") == pl.col("label"), pl.col("verdict").is_null()
    counts = {"right": right.sum(), "wrong": (~right).sum(), "unread": unread.sum()}
    return frame_markdown(rows.group_by("label").agg(**counts).sort("label", descending=True))


def scores_markdown(scores: pl.DataFrame) -> str:
    """The metrics over all claims with 95 % intervals, then balanced accuracy by slice."""
    whole, balanced = pl.col("slice") == "all", pl.col("metric") == "balanced_accuracy"
    shown = scores.filter(whole | balanced).sort(~whole, maintain_order=True)
    names = ["metric", "slice", "value", "score", "low", "high", "rows"]
    return frame_markdown(shown.select(names).rename({"rows": "claims"}))


def score_facts(scores: pl.DataFrame) -> dict[str, float]:
    """The metrics to plot over runs."""
    whole = scores.filter(pl.col("slice") == "all", pl.col("metric").is_in(_SHOWN))
    return dict(whole.drop_nulls("score").select("metric", pl.col("score").round(2)).iter_rows())


def reliability_markdown(reliability: pl.DataFrame) -> str:
    """The bins of a reliability diagram in percent: confidence, and share of right verdicts."""
    percent = pl.col("low", "high", "confidence", "right") * 100
    return frame_markdown(reliability.select("reading", "rows", percent))


def formatted(numbers: str | pl.Expr, form: str = "{:.1f}") -> pl.Expr:
    """Numbers, or those of a column, as text by a form; null stays null."""
    numbers = pl.col(numbers) if isinstance(numbers, str) else numbers
    return numbers.map_elements(form.format, pl.String)


def metrics_text(frame: pl.DataFrame, unread: Unread, classes: Mapping[str, int]) -> str:
    """Metrics in percent with 95 % intervals; groups in a separate table, their mean last.

    Below them the number of claims by label, and of those without a verdict, with what these count
    as. ``classes`` are the claims of each class where there are more than Supported and Refuted.
    """
    score, low, high = (
        formatted(name, "{:.2f}").str.pad_start(6) for name in ("score", "low", "high")
    )
    shown = frame.with_columns(
        score=score.fill_null("undefined"),
        interval=pl.format("{} – {}", low, high).fill_null(""),
    )
    total = shown.filter(kind="total")
    pages = [frame_text(total.select("metric", "score", "interval"))]
    groups = shown.filter(pl.col("kind") != "total", pl.col("metric").is_in(GROUP_METRICS))
    if groups.height:
        cells = groups.with_columns(shown=pl.format("{}  {}", "score", "interval"))
        wide = cells.pivot("metric", index=["kind", "group", "claims"], values="shown")
        names = [name for name in GROUP_METRICS if name in wide.columns]
        text = wide.select("group", "claims", pl.col(names).fill_null(""))
        pages.append(frame_text(text, last_is_total=True))
    claims, supported, without = total["claims", "supported", "without_verdict"].row(0)
    sizes = classes or {"supported": supported, "not": claims - supported}
    counted = ", ".join(f"{size:,} {name}" for name, size in sizes.items())
    counts_as = _UNREAD["class" if classes and unread == "opposite" else unread]
    said = f"{claims:,} claims: {counted}; {without:,} without a verdict, {counts_as}"
    return "\n\n".join([*pages, said])


def leaderboard_page(
    board: pl.DataFrame,
    titles: Mapping[str, str],
    *,
    markdown: bool = False,
    everything: bool = False,
    only: Collection[str] = (),
) -> str:
    """Each table as aligned text or Markdown; without ``everything`` only the systems that ran.

    ``only`` are the test sets or means to show; empty: all. The paper's scores are on a separate
    line below ours.
    """
    # Each system on each test set once: a row of the paper may be in both tables.
    own = board.filter(~pl.col("benchmark").is_in(list(MEANS)))
    own = own.unique(["system", "benchmark"], keep="first", maintain_order=True)
    about_cells = _cells_note(own, titles)
    rows = wide_leaderboard(board).select("table", "place", "engine", "limited", "ranked")
    rows = rows if everything else rows.drop_nulls("engine")
    if rows.is_empty():
        return "\n\n".join(filter(None, [NOTES["nothing"], about_cells]))
    names = rows.select("engine").drop_nulls().unique(maintain_order=True)
    engines = names.select(
        pl.format("[{}]", pl.int_range(1, pl.len() + 1)).alias(""), Engine="engine"
    )
    table_of = frame_markdown if markdown else frame_text
    filled = partial(fill, width=10_000 if markdown else WIDTH, break_on_hyphens=False)
    cells = board.drop("engine", "ranked").join(rows, on=["table", "place"], maintain_order="left")
    lines = _lines(cells.filter(pl.col("benchmark").is_in(list(only or columns_of(board)))))
    marks = pl.col("Engine").replace(names["engine"], engines[""])
    pages = []
    for (number,), part in lines.with_columns(marks).group_by("table", maintain_order=True):
        ordered = part.sort(~pl.col("ranked"), "place", "line")
        wide = ordered.pivot("benchmark", index=["place", "line", *_HEAD], values="shown")
        columns = [name for name in columns_of(board) if name in wide.columns]
        shown = wide.select(*_HEAD, *columns).rename({**titles, **MEAN_TITLES}, strict=False)
        title = FURTHER if number == OTHERS else TABLE_TITLES[int(str(number))]
        pages += [f"**{title}**" if markdown else title, table_of(shown)]
    rests = _basis(own)
    pages += [filled(NOTES["basis"]), table_of(rests)] if rests.height else []
    pages += [table_of(engines)] if engines.height else []
    seeds = NOTES["seeds"] if (cells["seeds"] > 1).any() else ""
    notes = [NOTES["cells"], seeds, own_prompt_note(" ".join(names["engine"])), about_cells]
    return "\n\n".join([*pages, filled(" ".join(filter(None, notes)))])


def _lines(cells: pl.DataFrame) -> pl.DataFrame:
    """What is shown of each cell: ours, then the paper's line and its card's where there is one.

    Columns without a figure in their table are left out.
    """
    scores = [
        (family, *score) for family, card in CARDS.items() for score in card["scores"].items()
    ]
    cards = pl.DataFrame(scores, ["family", "benchmark", "card"], orient="row")
    cells = cells.join(cards, on=["family", "benchmark"], how="left", maintain_order="left")
    star, keys = _star(pl.col("limited") | ~pl.col("ranked")), ["table", "place", "ranked"]
    ours = [pl.col("title") + star, pl.col("protocol"), pl.col("engine"), _shown()]
    printed = {
        source: [pl.lit(f"↳ {source}"), pl.lit(""), pl.lit(f"the {source}'s"), formatted(source)]
        for source in ("paper", "card")
    }
    parts = [
        cells.select(
            *keys, "benchmark", pl.lit(line).alias("line"), *map(pl.Expr.alias, texts, _TEXTS)
        )
        for line, texts in enumerate((ours, *printed.values()))
    ]
    figures = pl.col("shown").count()
    kept = (pl.col("line") == 0) | (figures.over("table", "place", "line") > 0)
    return pl.concat(parts).filter(kept).filter(figures.over("table", "benchmark") > 0)


def _star(which: pl.Expr) -> pl.Expr:
    return pl.when(which).then(pl.lit(" *")).otherwise(pl.lit(""))


def _shown() -> pl.Expr:
    """Our score with half its interval, or with both bounds: an uneven interval, or a spread."""
    score, low, high = pl.col("score"), pl.col("low"), pl.col("high")
    numbers = [formatted(name) for name in ("score", "low", "high")]
    uneven = ((high - score) - (score - low)).abs() > _EVEN
    shown = (
        pl.when(uneven | (pl.col("seeds") > 1))
        .then(pl.format("{} [{}, {}]", *numbers))
        .otherwise(pl.format("{}±{}", numbers[0], formatted((high - low) / 2)))
    )
    counted = pl.when(~pl.col("ranked") | pl.col("benchmark").is_in(list(MEANS)))
    claims = pl.format(", n {}", formatted("rows", "{:,}"))
    return pl.coalesce(shown, numbers[0]) + counted.then(claims).otherwise(pl.lit(""))


def _basis(cells: pl.DataFrame) -> pl.DataFrame:
    """By system: verdicts with a basis, the share of silent ones, and of right ones by basis."""
    counts = [name for basis in BASES for name in (basis, f"{basis}_right")]
    sums = cells.group_by("title", "system").agg(pl.col(counts).sum())
    rests = sums.with_columns(verdicts=pl.sum_horizontal(BASES)).filter(pl.col("verdicts") > 0)
    shares = {"silent": ("silent", "verdicts")}
    shares |= {f"right, {basis}": (f"{basis}_right", basis) for basis in BASES}
    percent = {
        name: pl.when(pl.col(of) > 0).then(100 * pl.col(part) / pl.col(of))
        for name, (part, of) in shares.items()
    }
    return rests.sort("title", "system").select(
        pl.col("title").alias("System"), "verdicts", **percent
    )


def _cells_note(cells: pl.DataFrame, titles: Mapping[str, str]) -> str:
    """Cells with claims beyond the model's context or of one label, and cells not run again."""
    status, benchmark = pl.col("status"), pl.col("benchmark").replace(titles)
    notes = {
        "beyond": (pl.col("beyond_context") > 0, "beyond_context"),
        "one_label": (status == ONE_LABEL, "rows"),
        "edited": (status == EDITED, "protocol"),
    }
    said = []
    for note, (which, number) in notes.items():
        cell = pl.format("{} on {} ({})", "system", benchmark, number)
        if names := cells.filter(which).select(cell).to_series().to_list():
            said.append(f"{NOTES[note]} {'; '.join(names)}.")
    return " ".join(said)


def comparison_markdown(comparison: pl.DataFrame, most: int = 30) -> str:
    """The clearest differences first: smallest corrected p, then the largest difference.

    Rows without a p-value come last, with the reason.
    """
    by = pl.col("p_holm"), pl.col("difference").abs()
    clearest = comparison.sort(*by, descending=[False, True], nulls_last=[True, False]).head(most)
    shown = clearest.select(
        *("benchmark", "system", "other", "difference", "low", "high"),
        formatted("p", "{:.2g}"),
        pl.coalesce(pl.format("– ({})", "no_p"), formatted("p_holm", "{:.2g}")).alias("p (Holm)"),
        (formatted("rows", "{:,}") + _star(pl.col("limited"))).alias("claims"),
    )
    counted = f"{comparison.height:,} comparisons; the {shown.height} clearest:"
    return f"{NOTES['differences']} {counted}\n\n{frame_markdown(shown)}"
