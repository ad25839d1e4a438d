"""A study of trained policies as tables: ours beside the paper's.

Takes ``schemas.TRAINING_STUDY``. A difference is called one only if neither its interval over
claims nor that over seeds holds 0.
"""

from collections.abc import Iterator, Mapping

import polars as pl

from decomposerl.evaluation.published import ablation_of, domain_means
from decomposerl.reports.tables import markdown_table
from decomposerl.training.curves import measure_named
from decomposerl.training.studies import Study
from decomposerl.training.study_table import (
    ACCURACY,
    GREEDY,
    SAMPLED,
    SCORED,
    TAUS,
    UNTRAINED,
)

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
