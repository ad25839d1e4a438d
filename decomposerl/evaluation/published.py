"""The paper's tables as data, and the sizes of published test sets.

Scores are balanced accuracy in percent, as printed. Each row names its line in the paper's LaTeX
source. ``method`` and ``model`` of a row of Tables 1 and 2 are keys of ``evaluation.systems``; the
paper does not say which protocol a row was measured with. ``ABLATIONS`` are the trained runs of its
other tables. A printed mean is the mean of its row, rounded to one decimal, but for those in
``UNEQUAL_MEANS``. The rows of the selectors are in ``funnel.selector_comparison``.
"""

from collections.abc import Mapping
from dataclasses import dataclass

IN_DOMAIN = (
    *("fever", "claimdecomp", "hover", "feverous", "wice"),
    *("ex_fever", "pubhealth", "pubmedclaim", "foolmetwice"),
)
"""The nine in-domain test sets, in the order of the tables' columns."""
OUT_OF_DOMAIN = ("coverbench", "llm_aggrefact")
MEAN_IN, MEAN_OUT = "mean_in_domain", "mean_out_of_domain"
COLUMNS = (*IN_DOMAIN, MEAN_IN, *OUT_OF_DOMAIN, MEAN_OUT)
"""The columns of both tables, in order; the means are the paper's, not computed."""

MEANS = {MEAN_IN: IN_DOMAIN, MEAN_OUT: OUT_OF_DOMAIN}
"""The uniform means, each with its test sets."""
TABLE_TITLES = {1: "Table 1: 7B models", 2: "Table 2: best baseline of each size"}
_BASE = "Base policy, prompted"
_CLASSIFIER = "Fine-tuned classifier"
_DECOMPOSED = "Decomposition, prompted"
_SIZES = "Best baseline of its size"
_OURS = "DecomposeRL"


@dataclass(frozen=True, slots=True)
class PublishedRow:
    """One line of a table; ``scores``, means included, by the names of ``COLUMNS``."""

    table: int
    line: int
    family: str
    title: str
    method: str
    model: str
    scores: Mapping[str, float]


def _row(
    table: int, line: int, family: str, title: str, method: str, model: str, printed: str
) -> PublishedRow:
    figures = (float(figure) for figure in printed.split())
    scores = dict(zip(COLUMNS, figures, strict=True))
    return PublishedRow(table, line, family, title, method, model, scores)


_7B = "qwen2.5-7b"
# fmt: off
PUBLISHED: tuple[PublishedRow, ...] = (
    _row(1, 367, _BASE, "Simple", "simple", _7B,
         "72.7 94.9 71.0 93.5 83.2 82.7 84.2 84.1 86.6 83.7 52.5 74.9 63.7"),
    _row(1, 368, _BASE, "CoT", "cot", _7B,
         "70.0 95.5 70.9 92.2 85.6 83.8 83.8 83.2 85.0 83.3 59.7 77.2 68.5"),
    _row(1, 372, _CLASSIFIER, "MiniCheck-7B", "minicheck", "7b",
         "69.9 77.5 73.8 89.2 87.2 82.9 76.3 83.0 84.5 80.5 54.6 80.3 67.5"),
    _row(1, 376, _DECOMPOSED, "Self-Ask", "self_ask", _7B,
         "66.5 92.7 66.9 91.9 82.5 71.7 84.2 82.6 82.8 80.2 56.9 77.1 67.0"),
    _row(1, 377, _DECOMPOSED, "Decomposed Prompting", "decomposed_prompting", _7B,
         "65.5 95.3 69.0 91.9 85.0 78.0 85.7 82.5 84.1 81.9 55.3 76.2 65.8"),
    _row(1, 378, _DECOMPOSED, "HiSS", "hiss", _7B,
         "67.7 92.8 70.2 92.7 83.6 82.4 79.2 77.0 84.5 81.1 58.3 75.7 67.0"),
    _row(1, 379, _DECOMPOSED, "FOLK", "folk", _7B,
         "65.0 90.8 68.2 91.0 83.6 80.2 80.5 77.8 83.1 80.0 53.8 75.6 64.7"),
    _row(1, 380, _DECOMPOSED, "ProgramFC", "program_fc", _7B,
         "60.5 92.9 65.9 88.2 85.4 74.6 77.4 74.3 76.9 77.3 53.1 73.5 63.3"),
    _row(1, 381, _DECOMPOSED, "Chen-2024", "chen_2024", _7B,
         "65.4 91.1 65.3 87.9 79.6 73.3 83.3 79.2 82.3 78.6 56.8 70.2 63.5"),
    _row(1, 382, _DECOMPOSED, "ClaimDecomp", "claimdecomp", _7B,
         "65.2 78.9 63.5 85.5 79.2 71.6 76.0 77.6 79.4 75.2 52.1 71.6 61.9"),
    _row(1, 383, _DECOMPOSED, "QACheck", "qacheck", _7B,
         "65.4 97.3 59.1 92.7 83.0 65.4 91.0 78.0 81.6 79.3 52.8 68.9 60.9"),
    _row(1, 385, _OURS, "DecomposeRL (s = 1.0)", "decomposerl", "paper_7b",
         "74.1 98.6 76.4 93.1 86.5 87.6 87.5 85.5 87.7 86.3 62.5 77.0 69.8"),
    _row(1, 386, _OURS, "DecomposeRL (s = 0.1)", "decomposerl", "supervision_10",
         "71.4 98.1 70.4 92.9 87.9 82.6 86.9 83.9 87.1 84.6 60.6 78.7 69.7"),
    _row(2, 436, _SIZES, "Simple @ 3B", "simple", "qwen2.5-3b",
         "71.5 94.0 63.7 89.0 73.7 82.0 81.2 78.7 79.3 79.2 51.3 74.0 62.7"),
    _row(2, 437, _SIZES, "Simple @ 7B", "simple", _7B,
         "72.7 94.9 71.0 93.5 83.2 82.7 84.2 84.1 86.6 83.7 52.5 74.9 63.7"),
    _row(2, 438, _SIZES, "Decomposed Prompting @ 14B", "decomposed_prompting", "qwen2.5-14b",
         "71.1 100.0 75.0 90.9 89.0 83.4 86.7 85.3 88.3 85.5 61.3 79.3 70.3"),
    _row(2, 439, _SIZES, "Decomposed Prompting @ 32B", "decomposed_prompting", "qwen2.5-32b",
         "68.6 100.0 76.2 93.2 91.3 85.1 86.8 87.4 90.3 86.5 64.2 79.4 71.8"),
    _row(2, 440, _SIZES, "Self-Ask @ GPT-4.1-mini", "self_ask", "gpt-4.1-mini",
         "70.9 100.0 76.7 93.5 87.2 88.3 86.4 87.1 91.1 86.8 68.6 78.9 73.8"),
    _row(2, 442, _OURS, "DecomposeRL @ 7B", "decomposerl", "paper_7b",
         "74.1 98.6 76.4 93.1 86.5 87.6 87.5 85.5 87.7 86.3 62.5 77.0 69.8"),
)
# fmt: on
"""Both tables, in the order of their lines."""


@dataclass(frozen=True, slots=True)
class AblationRow:
    """One run of an ablation: ``recipe`` of ``training.experiments``, its study and section.

    ``scores`` by the names of ``COLUMNS``: all of them, or those that the paper prints.
    """

    study: str
    section: str
    line: int
    title: str
    recipe: str
    scores: Mapping[str, float]


def _runs(
    study: str, section: str, columns: tuple[str, ...], *rows: tuple[int, str, str, str]
) -> tuple[AblationRow, ...]:
    """The runs of a table whose lines print ``columns``: line, title, recipe, figures."""
    return tuple(
        AblationRow(
            study,
            section,
            line,
            title,
            recipe,
            dict(zip(columns, map(float, printed.split()), strict=True)),
        )
        for line, title, recipe, printed in rows
    )


_FULL = "74.1 98.6 76.4 93.1 86.5 87.6 87.5 85.5 87.7 86.3 62.5 77.0 69.8"
_PARTS = (MEAN_IN, *OUT_OF_DOMAIN)
# fmt: off
ABLATIONS: tuple[AblationRow, ...] = (
    *_runs(
        "sampling", "G.2", _PARTS,
        (1689, "facility location", "paper_7b", "86.3 62.5 77.0"),
        (1690, "uniformly at random", "random_sampling", "84.8 58.2 77.4"),
    ),
    *_runs(
        "supervision", "G.3", COLUMNS,
        (1732, "s = 0.1", "supervision_10",
         "71.4 98.1 70.4 92.9 87.9 82.6 86.9 83.9 87.1 84.6 60.6 78.7 69.7"),
        (1733, "s = 0.3", "supervision_30",
         "73.3 100.0 72.2 93.1 89.5 83.7 89.9 85.4 86.8 86.0 58.1 75.8 67.0"),
        (1734, "s = 0.5", "supervision_50",
         "72.1 98.6 70.8 93.9 90.1 82.3 86.9 83.9 85.4 84.9 54.3 75.7 65.0"),
        (1735, "s = 0.7", "supervision_70",
         "74.2 100.0 74.6 94.3 87.7 85.9 87.2 85.1 87.2 86.2 54.4 76.3 65.4"),
        (1736, "s = 1.0", "paper_7b", _FULL),
    ),
    *_runs(
        "rewards", "Table 3 and G.4", COLUMNS,
        (1786, "all seven rewards", "paper_7b", _FULL),
        (1788, "without necessity", "no_necessity",
         "73.3 98.6 74.0 94.4 89.0 87.3 88.3 83.8 87.5 86.2 53.9 76.1 65.0"),
        (1789, "without coverage", "no_coverage",
         "72.8 98.6 73.4 94.0 89.5 86.4 87.3 86.2 87.3 86.2 57.1 74.6 65.9"),
        (1790, "without diversity", "no_diversity",
         "71.9 97.3 73.6 93.6 89.0 86.6 86.9 85.6 86.5 85.7 58.2 74.9 66.6"),
        (1791, "without joint quality", "no_joint",
         "72.7 97.3 74.2 93.8 87.4 86.8 85.5 86.3 86.9 85.6 61.5 74.0 67.8"),
        (1792, "without question count", "no_question_count",
         "72.6 100.0 71.8 93.5 86.3 86.1 89.9 87.3 88.0 86.2 60.9 75.3 68.1"),
    ),
    *_runs(
        "scale", "G.5", (MEAN_IN, MEAN_OUT),
        (1816, "7B policy", "paper_7b", "86.3 69.8"),
        (1816, "3B policy", "paper_3b", "83.9 63.2"),
    ),
    *_runs(
        "judge", "G.6", _PARTS,
        (1856, "Qwen3-32B as judge", "paper_7b", "86.3 62.5 77.0"),
        (1857, "the tiny judge", "tiny_judge", "85.8 61.0 76.4"),
    ),
    *_runs(
        "epochs", "G.7", _PARTS,
        (1895, "two epochs", "paper_7b", "86.3 62.5 77.0"),
        (1896, "one epoch", "one_epoch", "86.2 58.6 72.2"),
    ),
)
# fmt: on
"""The paper's runs by ablation, in the order of its sections. G.5 gives its means in the text."""
UNEQUAL_MEANS: Mapping[tuple[str, str, str], float] = {("rewards", "no_joint", MEAN_IN): 85.7}
"""Printed means that their row does not have: study, recipe, column to the row's mean.

Without joint quality the row has 770.9 / 9 = 85.656, printed 85.6; its difference to the full
ensemble is then -0.6, as without diversity, and not the -0.7 of Table 3.
"""
CONTRADICTIONS: tuple[tuple[str, str, str], ...] = (
    ("Table 3, G.4", "without joint quality, in-domain mean 85.6, difference -0.7",
     "the row's nine figures have the mean 85.66: 85.7 and -0.6, the same as without diversity"),
    ("G.4", "CoverBench drops by 1.6 to 8.6", "without joint quality it drops by 1.0"),
    ("G.4", "without necessity CoverBench drops more than twice the next-largest drop",
     "8.6 is 1.6 times the 5.4 without coverage"),
    ("G.5", "the caption has +0.6 over the best 3B baseline, out of domain",
     "63.2 - 62.7 = +0.5, as the text says"),
    ("G.1, G.6", "a run takes 48 hours on four GPUs",
     "G.6 has 120 hours on two (240 GPU-hours), or 48 on one with the tiny judge"),
)  # fmt: skip
"""Where the ablations contradict themselves: section, what is printed, what the figures give."""


def ablation_of(study: str) -> Mapping[str, AblationRow]:
    """The paper's runs of an ablation by recipe; empty where the paper has none."""
    return {row.recipe: row for row in ABLATIONS if row.study == study}


def domain_means(row: AblationRow) -> tuple[float, float]:
    """In-domain and out-of-domain mean; the latter from its two sets where it is not printed."""
    outside = row.scores.get(MEAN_OUT)
    if outside is None:
        outside = sum(row.scores[name] for name in OUT_OF_DOMAIN) / len(OUT_OF_DOMAIN)
    return row.scores[MEAN_IN], outside


@dataclass(frozen=True, slots=True)
class PublishedTestSet:
    """Size of a published test set after the label rule; ``supported`` is None if unknown."""

    rows: int
    supported: int | None
    source: str

    @property
    def supported_share(self) -> float | None:
        """Share of Supported claims, None if unknown."""
        return None if self.supported is None else self.supported / self.rows


TEST_SET_SIZES: Mapping[str, PublishedTestSet] = {
    "feverous": PublishedTestSet(2_962, 1_411, "the ProgramFC release of its dev split"),
    "hover": PublishedTestSet(4_000, 2_000, "its dev split; labels of the test split are hidden"),
    "coverbench": PublishedTestSet(733, None, "its data card"),
    "llm_aggrefact": PublishedTestSet(29_320, None, "its data card, test split"),
}
"""By the catalogue's name, for test sets whose counts are public. A corpus with other counts is
another split or release, and its scores are not comparable with published ones."""
SHARE_TOLERANCE = 0.02
"""How far the share of Supported claims may be off."""
