"""``docs/reference/paper.md``: the paper's tables as data, and where they contradict themselves."""

from collections.abc import Iterator, Mapping

from decomposerl.claims.catalogue import BENCHMARKS
from decomposerl.evaluation.published import (
    ABLATIONS,
    COLUMNS,
    DATA,
    MEAN_IN,
    MEAN_OUT,
    PUBLISHED,
    TABLE_TITLES,
    PublishedRow,
)
from decomposerl.training.studies import STUDIES
from studies.reference.markdown import MADE, code, paragraphs, table

_INTRODUCTION = """\
Balanced accuracy in percent, as printed; none of these figures was measured by this project.
`decomposerl/evaluation/published.toml` has them as data. The leaderboard shows Tables 1 and 2
beside your rows, the [studies](../how-to/studies.md) the others; those of G.1 are in the table of
[the selectors](../results/studies.md#selectors). A test checks every mean against its row.
"""
_HEADS = {one.name: one.title for one in BENCHMARKS} | {MEAN_IN: "Mean in", MEAN_OUT: "Mean out"}
_TITLES = {study.name: study.title for study in STUDIES}


def page() -> str:
    """The page as Markdown."""
    return paragraphs(
        "# The paper's tables", _INTRODUCTION, MADE, *_tables(), *_ablations(), *_off()
    )


def _tables() -> Iterator[str]:
    for number, title in TABLE_TITLES.items():
        rows = [(row.title, *_cells(row.scores)) for row in PUBLISHED if row.table == number]
        yield f"## {title}"
        yield table(("System", *(_HEADS[name] for name in COLUMNS)), rows)


def _ablations() -> Iterator[str]:
    """A table for each study, with the columns that the paper prints."""
    by_study: dict[str, list[PublishedRow]] = {}
    for row in ABLATIONS:
        by_study.setdefault(str(row.table), []).append(row)
    for study, rows in by_study.items():
        printed = [name for name in COLUMNS if name in rows[0].scores]
        yield f"## {rows[0].family}: {_TITLES[study].lower()}"
        yield table(
            ("Run", "Recipe", *(_HEADS[name] for name in printed)),
            [(row.title, code(row.model), *_cells(row.scores)) for row in rows],
        )


def _cells(scores: Mapping[str, float]) -> list[str]:
    return [f"{scores[name]:.1f}" for name in COLUMNS if name in scores]


def _off() -> Iterator[str]:
    yield "## Where the ablations contradict themselves"
    unequal = ", ".join(
        f"{code(row['recipe'])} ({_HEADS[row['column']].lower()}: {row['mean']:.1f})"
        for row in DATA["unequal_means"]
    )
    yield f"Every printed mean is that of its row, but for {unequal}."
    yield table(
        ("Section", "Printed", "The figures give"), map(dict.values, DATA["contradictions"])
    )
