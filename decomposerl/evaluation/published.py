"""The paper's tables as data, and the sizes of published test sets: ``published.toml``, read once.

Scores are balanced accuracy in percent, as printed. Each row names its line in the paper's LaTeX
source. ``method`` and ``model`` of a row of Tables 1 and 2 are keys of ``evaluation.systems``; the
paper does not say which protocol a row was measured with. ``ABLATIONS`` are the trained runs of its
other tables. A printed mean is the mean of its row, rounded to one decimal, but for those in
``unequal_means`` of the file, which also names where the paper contradicts itself. The rows of the
selectors are in ``funnel.selector_comparison``.
"""

import tomllib
from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import Any, NamedTuple

DATA: Mapping[str, Any] = tomllib.loads(
    files(__package__).joinpath("published.toml").read_text("utf-8")
)
"""All of the file."""
IN_DOMAIN, OUT_OF_DOMAIN = (tuple[str, ...](DATA[name]) for name in ("in_domain", "out_of_domain"))
"""The test sets, in the order of the tables' columns."""
MEAN_IN, MEAN_OUT = "mean_in_domain", "mean_out_of_domain"
COLUMNS = (*IN_DOMAIN, MEAN_IN, *OUT_OF_DOMAIN, MEAN_OUT)
"""The columns of both tables, in order; the means are the paper's, not computed."""
MEANS = {MEAN_IN: IN_DOMAIN, MEAN_OUT: OUT_OF_DOMAIN}
"""The uniform means, each with its test sets."""
SHARE_TOLERANCE = 0.02
"""How far a test set's share of Supported claims may be off the published one."""


class PublishedRow(NamedTuple):
    """One line of a table of the paper, or one run of an ablation.

    ``table`` is the table's number or the study's name, ``family`` the group of rows or the study's
    section, ``model`` of an ablation its recipe (``training.experiments``). ``scores`` have the
    names of ``COLUMNS``: all of them, or those that the paper prints.
    """

    table: int | str
    line: int
    family: str
    title: str
    method: str
    model: str
    scores: Mapping[str, float]


def _scores(columns: Sequence[str], printed: str) -> Mapping[str, float]:
    return dict(zip(columns, map(float, printed.split()), strict=True))


TABLE_TITLES = {int(number): table["title"] for number, table in DATA["tables"].items()}
PUBLISHED = tuple(
    PublishedRow(int(number), line, family, title, method, model, _scores(COLUMNS, printed))
    for number, table in DATA["tables"].items()
    for line, family, title, method, model, printed in table["rows"]
)
"""Both tables, in the order of their lines."""
CARDS: Mapping[str, Mapping[str, Any]] = DATA["cards"]
"""Weights that the authors published, by the family of their rows: ``model``, ``row`` (method and
model of their row of table 1), and ``scores``, those of the model's card that it has."""
ABLATIONS = tuple(
    PublishedRow(
        name, line, study["section"], title, "decomposerl", recipe, _scores(columns, printed)
    )
    for name, study in DATA["studies"].items()
    for columns in [study.get("columns", COLUMNS)]
    for line, title, recipe, printed in study["rows"]
)
"""The paper's runs by ablation, in the order of its sections."""
TEST_SET_SIZES: Mapping[str, Mapping[str, Any]] = DATA["test_sets"]
"""``rows`` and ``supported`` (where it is known) after the label rule, and their ``source``, by the
catalogue's name. A corpus with other counts is another split or release, and its scores are not
comparable with published ones."""


def ablation_of(study: str) -> Mapping[str, PublishedRow]:
    """The paper's runs of an ablation by recipe; empty where the paper has none."""
    return {row.model: row for row in ABLATIONS if row.table == study}


def domain_means(row: PublishedRow) -> tuple[float, float]:
    """In-domain and out-of-domain mean; the latter from its two sets where it is not printed."""
    outside = row.scores.get(MEAN_OUT)
    if outside is None:
        outside = sum(row.scores[name] for name in OUT_OF_DOMAIN) / len(OUT_OF_DOMAIN)
    return row.scores[MEAN_IN], outside
