"""A study of trained policies as tables and figures: ours beside the paper's.

Takes ``schemas.TRAINING_STUDY``. A difference is called one only if neither its interval over
claims nor that over seeds holds 0. Also a study with the paper's models, as commands and costs.
"""

from collections.abc import Iterator, Mapping, Sequence
from textwrap import fill
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
from numpy.typing import NDArray

from decomposerl.evaluation.published import ablation_of, domain_means
from decomposerl.reports.cost import Rate
from decomposerl.reports.figure_style import (
    GREY,
    INK,
    PALETTE,
    REST,
    label_text,
    legend,
    new_grid,
)
from decomposerl.reports.tables import markdown_table
from decomposerl.reports.training_plan import judging_cost
from decomposerl.training.curves import TRAIN, measure_named, smoothed
from decomposerl.training.estimate import (
    PAPER_CLAIMS,
    TINY_JUDGE_TOKENS,
    JudgeTokens,
    estimate_run,
)
from decomposerl.training.experiment import JudgeChoice
from decomposerl.training.experiments import experiment
from decomposerl.training.studies import Study
from decomposerl.training.study_table import (
    ACCURACY,
    GREEDY,
    SAMPLED,
    SCORED,
    TAUS,
    UNTRAINED,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


_DOMAINS = {"in_domain": "in domain", "out_of_domain": "out of domain"}
_Row = Mapping[str, object]
_SIGNIFICANT = 0.05


def study_sentence(study: Study, table: pl.DataFrame) -> str:
    """Size and engine of the study, what differs, and how many of the paper's orders show.

    Variants of ``study`` that the table lacks are named.
    """
    first = table.row(0, named=True)
    there = study.only(set(table["variant"]))
    steps = sorted({int(one) for one in table["steps"]})
    runs = (
        f"{study.title}: {_seeds(first['seeds'])}, {' or '.join(map(str, steps))} steps, "
        f"{first['claims']} held-out claims; engine: {first['engine']}."
    )
    said = [runs, *_missing(study, there), _gained(table), _differing(study, table)]
    said += _lowered(there, table)
    return " ".join([*said, *_order_counts(table), *_rank_agreement(table)])


def _missing(study: Study, there: Study) -> Iterator[str]:
    titles = [one.title for one in study.variants if one not in there.variants]
    if titles:
        yield f"Not compared, because runs are missing: {', '.join(titles)}."


def _gained(table: pl.DataFrame) -> str:
    """What training moves against each variant's own start."""
    parts = []
    for name, measure, split in (
        ("Greedy accuracy", ACCURACY, GREEDY),
        ("Sum of rewards on sampled traces", "total", SAMPLED),
    ):
        rows = table.filter(pl.col("resolved"), against=UNTRAINED, measure=measure, split=split)
        places = 1 if measure == ACCURACY else 2
        moved = [
            f"{row['variant']} by {row['difference']:+.{places}f}"
            for row in rows.iter_rows(named=True)
        ]
        parts.append(f"{name}, moved by training: {', '.join(moved) or 'none'}.")
    return " ".join(parts)


def _differing(study: Study, table: pl.DataFrame) -> str:
    compared = _against_first(study, table).filter(measure=ACCURACY, split=GREEDY)
    moved = [
        f"{row['variant']} by {row['difference']:+.1f}"
        for row in compared.filter(pl.col("p_holm") < _SIGNIFICANT).iter_rows(named=True)
    ]
    said = "; ".join(moved) or "none"
    return f"Differs in accuracy from {study.against.title} (p < {_SIGNIFICANT} by Holm): {said}."


def _lowered(study: Study, table: pl.DataFrame) -> Iterator[str]:
    """Which variants lower the measure that they should."""
    rows = _against_first(study, table).filter("own_measure", split=SAMPLED)
    lower = [row["variant"] for row in rows.iter_rows(named=True) if _lowers(row)]
    titles = rows["variant"].unique(maintain_order=True)
    others = [one for one in titles if one not in lower]
    if lower or others:
        yield (
            f"Lower what they should, on sampled traces: {', '.join(lower) or 'none'}; "
            f"not shown: {', '.join(others) or 'none'}."
        )


def _lowers(row: _Row) -> bool:
    difference = row["difference"]
    return bool(row["resolved"]) and isinstance(difference, float) and difference < 0


def _order_counts(table: pl.DataFrame) -> Iterator[str]:
    rows = table.filter(measure=ACCURACY, split=GREEDY)
    for column, where in _DOMAINS.items():
        orders = rows[f"order_{column}"].drop_nulls().to_list()
        if orders:
            counts = [orders.count(one) for one in ("same", "opposite", "not resolved")]
            yield (
                f"Pairs ordered as in the paper {where}: {counts[0]} of {len(orders)}; "
                f"opposite: {counts[1]}; not resolved: {counts[2]}."
            )


def _rank_agreement(table: pl.DataFrame) -> Iterator[str]:
    """Kendall's tau with the paper's order."""
    found = []
    for measure, where in zip(TAUS.values(), _DOMAINS.values(), strict=True):
        for row in table.filter(measure=measure).drop_nulls("mean").iter_rows(named=True):
            tau = _bounded(row["mean"], row["low"], row["high"], 2, "+")
            found.append(f"{tau}, exact p {_p_value(row['p'])}, {where}")
    if found:
        yield f"Kendall's tau with the paper's order (95 % over seeds): {'; '.join(found)}."


def study_markdown(study: Study, table: pl.DataFrame) -> str:
    """``compared_markdown``, and every reward's difference."""
    there = study.only(set(table["variant"]))
    return f"{compared_markdown(study, table)}\n\n{_reward_table(there, table)}"


def compared_markdown(study: Study, table: pl.DataFrame) -> str:
    """The variants with the paper's rows, and what each should move.

    Variants of ``study`` that the table lacks are left out.
    """
    study = study.only(set(table["variant"]))
    moved = _moved_table(study, table)
    return "\n\n".join([_accuracy_table(study, table), *([moved] if moved else [])])


def _accuracy_table(study: Study, table: pl.DataFrame) -> str:
    """Greedy accuracy; what training gained; differences, intervals over claims, then seeds."""
    rows = []
    chosen = table.filter(measure=ACCURACY, split=GREEDY)
    published = bool(study.section)
    for variant in study.variants:
        row = _one(chosen, variant.title, study)
        cells = [
            variant.title,
            _number(row["before"], 1),
            _bounded(row["mean"], row["low"], row["high"], 1),
            _gain_cell(chosen, variant.title),
            *_difference_cells(row, 1),
        ]
        rows.append(cells + (_paper_cells(study, row) if published else []))
    head = ["variant", "before", "accuracy, %", "gain", "difference (claims)", "(seeds)"]
    head += ["p (Holm)"]
    head += ["paper in domain", "out of domain", "order"] if published else []
    return markdown_table(head, rows)


def _gain_cell(table: pl.DataFrame, title: str) -> str:
    """What training moved, ``*`` where it is resolved."""
    row = table.filter(variant=title, against=UNTRAINED).row(0, named=True)
    return f"{_number(row['difference'], 1, '+')}{'*' if row['resolved'] else ''}"


def _difference_cells(row: _Row, places: int) -> list[str]:
    if row["against"] is None:
        return ["–", "–", "–"]
    over_claims = (row["difference"], row["claims_low"], row["claims_high"])
    return [
        _bounded(*over_claims, places, "+"),
        _range(row["seeds_low"], row["seeds_high"], places),
        _p_value(row["p_holm"]),
    ]


def _paper_cells(study: Study, row: _Row) -> list[str]:
    """The paper's means with their differences to its first run, and whether ours has their signs.

    One word where both are alike, else one for each domain.
    """
    printed = ablation_of(study.name)
    first = dict(zip(_DOMAINS, domain_means(printed[study.against.paper]), strict=True))
    cells = []
    for column, whole in first.items():
        mean = row[f"paper_{column}"]
        if not isinstance(mean, float):
            cells.append("–")
            continue
        moved = "" if row["against"] is None else f" ({round(mean - whole, 2):+.1f})"
        cells.append(f"{mean:.1f}{moved}")
    orders = [row[f"order_{column}"] or "–" for column in first]
    return [*cells, "; ".join(map(str, dict.fromkeys(orders)))]


def _moved_table(study: Study, table: pl.DataFrame) -> str:
    """Whether each variant lowers the measure that it should; empty where none should."""
    rows = []
    for row in _against_first(study, table).filter("own_measure").iter_rows(named=True):
        name = measure_named(str(row["measure"])).title
        cells = [row["variant"], name, *_difference_cells(row, 3)]
        rows.append([*cells, "yes" if _lowers(row) else "no"])
    head = ["variant", "its measure", "difference (claims)", "(seeds)", "p (Holm)", "lower"]
    return markdown_table(head, rows) if rows else ""


def _reward_table(study: Study, table: pl.DataFrame) -> str:
    """Sampled traces: the first variant at both ends, the others' differences to it after training.

    ``*`` is resolved.
    """
    rows = []
    for measure in (ACCURACY, *SCORED):
        chosen = table.filter(measure=measure, split=SAMPLED)
        places = 1 if measure == ACCURACY else 3
        first, *rest = (_one(chosen, variant.title, study) for variant in study.variants)
        cells = [
            f"{_number(row['difference'], places, '+')}{'*' if row['resolved'] else ''}"
            for row in rest
        ]
        unit = ", %" if measure == ACCURACY else ""
        title = measure_named(measure).title + unit
        ends = [_number(first[end], places) for end in ("before", "mean")]
        rows.append([title, *ends, *cells])
    head = ["sampled", f"{study.against.title}, before", "after"]
    return markdown_table([*head, *(one.title for one in study.variants[1:])], rows)


def _seeds(count: int) -> str:
    return f"{count} seed{'s' * (count != 1)}"


def _against_first(study: Study, table: pl.DataFrame) -> pl.DataFrame:
    return table.filter(pl.col("against") == study.against.title)


def _one(table: pl.DataFrame, title: str, study: Study) -> _Row:
    """A variant's row of one measure and split: compared with the first, or the first itself."""
    against = None if title == study.against.title else study.against.title
    chosen = table.filter(pl.col("variant") == title, pl.col("against").eq_missing(against))
    row: _Row = chosen.row(0, named=True)
    return row


def _number(value: object, places: int, sign: str = "") -> str:
    return f"{value:{sign}.{places}f}" if isinstance(value, float) else "–"


def _p_value(value: object) -> str:
    least = 0.001  # 0.000 would say that nothing is left to chance
    return f"< {least}" if isinstance(value, float) and value < least else _number(value, 3)


def _range(low: object, high: object, places: int) -> str:
    if not isinstance(low, float) or not isinstance(high, float):
        return "–"
    return f"{low:.{places}f} to {high:.{places}f}"


def _bounded(mean: object, low: object, high: object, places: int, sign: str = "") -> str:
    bounds = _range(low, high, places)
    return _number(mean, places, sign) + (f" ({bounds})" if bounds != "–" else "")


JudgeSpeeds = Mapping[JudgeChoice, float]
"""Tokens a second of each judge on one card."""
PAPER_FORM_HEAD = ("paper", "variant", "command", "judge calls", "judge GPU-hours")


def paper_form_rows(study: Study, speeds: JudgeSpeeds) -> list[tuple[str, str, str, str, str]]:
    """The study with the paper's policy: each run's command and what its judge takes.

    Sampling and updates come on top.
    """
    rows = []
    for variant in study.variants:
        if not variant.paper:
            continue
        recipe = experiment(variant.paper)
        lengths = TINY_JUDGE_TOKENS if recipe.judge == "tiny" else JudgeTokens()
        found = estimate_run(recipe, PAPER_CLAIMS, lengths)
        line = judging_cost(found, recipe.judge, Rate(tokens_per_s=speeds[recipe.judge]))
        calls, hours = f"{found.judge_calls:,}", f"{line.gpu_hours:,.1f}"
        command = f"decomposerl train {recipe.name}"
        rows.append((study.section, variant.title, command, calls, hours))
    return rows


def paper_form_markdown(study: Study, speeds: JudgeSpeeds) -> str:
    """``paper_form_rows`` as a table; a sentence where the paper has no such study."""
    rows = paper_form_rows(study, speeds)
    return markdown_table(PAPER_FORM_HEAD, rows) if rows else "The paper has no such study."


_ROW, _HEAD, _ENGINE = 0.34, 2.0, 44
_WINDOW, _COLUMNS = 9, 3
_DRAWN = (*SCORED, "verdict_given", "right_among_given")
_PAPER = {"paper_in_domain": "Paper, in domain", "paper_out_of_domain": "Paper, out of domain"}
_COLOURS = (PALETTE[-1], PALETTE[4], PALETTE[2], PALETTE[5], PALETTE[0], PALETTE[1], INK, REST)
_STYLES = ("-", "--", ":", "-.")


def study_figure(study: Study, table: pl.DataFrame) -> "Figure":
    """A row for each variant, panels for accuracy here and in the paper, and for its own measure.

    Points are means over seeds with 95 % intervals over seeds; a filled point of the last panel
    differs from the first variant beyond claims and seeds. A line marks the first variant. Variants
    that the table lacks are left out.
    """
    study = study.only(set(table["variant"]))
    own = table.filter("own_measure", split=SAMPLED, against=study.against.title)
    panels = [*(_PAPER if study.section else ())]
    count = 1 + len(panels) + (not own.is_empty())
    height = _HEAD + _ROW * len(study.variants)
    figure, ((first, *rest),) = new_grid(3.2 + 2.6 * count, height, 1, count, shared_x=False)
    rows = [_after(table, variant.title) for variant in study.variants]
    _points(first, rows)
    first.set_title(f"Here ({rows[0]['seeds']} seeds)", loc="left", fontsize=11, color=INK)
    engine = fill(f"engine: {label_text(str(table['engine'][0]))}", _ENGINE)
    first.set_xlabel(f"balanced accuracy, %\n{engine}", fontsize=9.5)
    _names(first, [variant.title for variant in study.variants])
    for axes, column in zip(rest, panels, strict=False):
        _published(axes, [row[column] for row in rows], _PAPER[column])
    if not own.is_empty():
        _own(rest[-1], study, own)
    for axes in rest:
        axes.set_ylim(first.get_ylim())
        axes.set_yticks([])
    return figure


def _after(table: pl.DataFrame, title: str) -> dict[str, float | None]:
    """Greedy accuracy of a variant; every row of it has the same mean."""
    row: dict[str, float | None] = table.filter(variant=title, measure=ACCURACY, split=GREEDY).row(
        0, named=True
    )
    return row


def _points(axes: "Axes", rows: Sequence[Mapping[str, float | None]]) -> None:
    for place, row in enumerate(rows):
        mean, low, high = row["mean"], row["low"], row["high"]
        if low is not None and high is not None:
            axes.plot([max(low, 0.0), min(high, 100.0)], [place, place], color=GREY, linewidth=1.6)
        if mean is not None:
            axes.plot([mean], [place], "o", color=PALETTE[-1], markersize=6)
    if rows[0]["mean"] is not None:
        axes.axvline(rows[0]["mean"], color=GREY, linewidth=0.8, linestyle=":")


def _published(axes: "Axes", means: Sequence[float | None], title: str) -> None:
    for place, mean in enumerate(means):
        if mean is not None:
            axes.plot([mean], [place], "D", color=INK, markersize=5)
            axes.annotate(f"{mean:.1f}", (mean, place), (6, 4), textcoords="offset points",
                          fontsize=8.5, color=INK)  # fmt: skip
    if means[0] is not None:
        axes.axvline(means[0], color=GREY, linewidth=0.8, linestyle=":")
    axes.margins(x=0.25)
    axes.locator_params(axis="x", nbins=4)
    axes.set_title(title, loc="left", fontsize=11, color=INK)
    axes.set_xlabel("balanced accuracy, %")


def _own(axes: "Axes", study: Study, own: pl.DataFrame) -> None:
    """Differences of what each variant should lower, with the intervals over seeds."""
    places = {variant.title: place for place, variant in enumerate(study.variants)}
    for row in own.drop_nulls("difference").iter_rows(named=True):
        place, mean = places[row["variant"]], row["difference"]
        if row["seeds_low"] is not None:
            axes.plot([row["seeds_low"], row["seeds_high"]], [place] * 2, color=GREY, linewidth=1.6)
        fill = PALETTE[4] if row["resolved"] else "white"
        axes.plot([mean], [place], "s", color=PALETTE[4], markerfacecolor=fill, markersize=6)
    axes.axvline(0.0, color=GREY, linewidth=0.8, linestyle=":")
    axes.set_title("What it should lower", loc="left", fontsize=11, color=INK)
    axes.set_xlabel("difference of that reward")


def _names(axes: "Axes", titles: Sequence[str]) -> None:
    axes.set_yticks(range(len(titles)), [label_text(one) for one in titles], color=INK)
    axes.set_ylim(len(titles) - 0.5, -0.5)


def study_curves(study: Study, curves: Mapping[str, Sequence[pl.DataFrame]]) -> "Figure":
    """Each reward over the training steps by variant: medians over seeds, smoothed.

    Bands are minimum and maximum over seeds. ``curves`` are ``CURVES``, one frame per seed; a
    variant that does not pay a reward has no line for it.
    """
    from matplotlib.ticker import MaxNLocator

    rows = -(-len(_DRAWN) // _COLUMNS)
    figure, grid = new_grid(11.0, 1.2 + 2.2 * rows, rows, _COLUMNS)
    panels = [axes for line in grid for axes in line]
    for axes, name in zip(panels, _DRAWN, strict=False):
        axes.set_title(measure_named(name).title, loc="left", fontsize=11)
        for place, variant in enumerate(study.variants):
            lines = [_smoothed(one, name) for one in curves.get(variant.title, ())]
            _band(axes, [one for one in lines if len(one)], variant.title, place)
    for axes in panels[len(_DRAWN) :]:
        axes.set_visible(False)
    for axes in panels[len(_DRAWN) - _COLUMNS : len(_DRAWN)]:
        axes.set_xlabel("optimizer steps")
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.tick_params(labelbottom=True)
    legend(figure, panels[0], columns=4)
    return figure


def _band(axes: "Axes", lines: Sequence[NDArray[np.float64]], title: str, place: int) -> None:
    if not lines:
        return
    length = min(map(len, lines))
    stack = np.stack([line[:length] for line in lines])
    steps, colour = np.arange(length), _COLOURS[place % len(_COLOURS)]
    style = _STYLES[place % len(_STYLES)]
    axes.fill_between(steps, stack.min(0), stack.max(0), color=colour, alpha=0.12, linewidth=0)
    middle = np.median(stack, axis=0)
    axes.plot(
        steps,
        middle,
        color=colour,
        linestyle=style,
        linewidth=1.7,
        marker="o" if length == 1 else "",
        label=label_text(title),
    )


def _smoothed(curves: pl.DataFrame, measure: str) -> NDArray[np.float64]:
    """Moving means of a measure's training means, in order of steps."""
    chosen = curves.filter(pl.col("split") == TRAIN, pl.col("measure") == measure).sort("step")
    return np.array(smoothed(chosen["mean"].to_list(), _WINDOW), dtype=float)
