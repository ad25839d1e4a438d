"""A study as tables and figures: the paper's rows beside ours, and what did not show."""

import re

import polars as pl
import pytest

from decomposerl.reports.figure_style import drawn
from decomposerl.reports.study_report import (
    JudgeSpeeds,
    paper_form_markdown,
    paper_form_rows,
    study_curves,
    study_figure,
    study_markdown,
    study_sentence,
)
from decomposerl.training.curves import TRAIN, CurvePoint, curve_rows
from decomposerl.training.studies import STUDIES, Study
from decomposerl.training.study_table import ACCURACY, GREEDY, study_table
from study_outcomes import outcomes, study_named

REWARDS, LEARNING, EPOCHS = (study_named(name) for name in ("rewards", "learning", "epochs"))
SPEEDS: JudgeSpeeds = {"profile": 2_150.0, "tiny": 375_570.0}


@pytest.fixture(scope="module")
def table() -> pl.DataFrame:
    """Without joint quality accuracy and that reward fall, without coverage nothing does."""
    made = outcomes(REWARDS, {"without joint quality": 0.4})
    return study_table(REWARDS, made, "rule_judge; minilm; base_policy_clean")


def cells(markdown: str, head: str) -> dict[str, list[str]]:
    """The rows of the table whose head begins with ``head``, by their first cell."""
    plain = markdown.replace("\\", "")
    (found,) = [part for part in plain.split("\n\n") if part.startswith(f"| {head} |")]
    rows = [line.strip("| ").split(" | ") for line in found.splitlines()[2:]]
    return {first.strip(): [one.strip() for one in rest] for first, *rest in rows}


def test_the_sentence_counts_orders_and_names_what_moved(table: pl.DataFrame):
    """Engine, sizes, pairs; joint quality alone falls from its start; tau has interval and p."""
    said = study_sentence(REWARDS, table)
    named = ("5 seeds", "30 steps", "60 held-out claims", "rule_judge; minilm")
    assert [] == [words for words in named if words not in said]
    counts = [tuple(map(int, one)) for one in re.findall(r"(\d+) of (\d+);\D*(\d+);\D*(\d+)", said)]
    assert [12, 15] == [every for _, every, _, _ in counts]
    assert all(every == same + opposite + rest for same, every, opposite, rest in counts)
    assert all(same > 0 for same, *_ in counts)
    lost = r"without joint quality by -\d+\.\d\. "
    assert 2 <= len(re.findall(lost, said)), "from the full run, and moved by training"
    found = re.search(r"Lower what they should.*?: (.*?); not shown: (.*?)\.", said)
    assert found
    assert ("without joint quality", 6) == (found[1], found[2].count("without"))
    tau = r"[+-]\d\.\d\d \(.*? to .*?\), exact p \d\.\d{3}, in domain; .*, out of domain\."
    assert re.search(tau, said)
    other = study_sentence(EPOCHS, study_table(EPOCHS, outcomes(EPOCHS, {}), "r"))
    assert not re.search("tau|Lower what", other)


def test_variants_that_are_not_trained_are_named_and_left_out():
    """The table, the figure and the sentence are those of the part that is there."""
    part = REWARDS.only({"all seven rewards", "without coverage"})
    made = study_table(part, outcomes(part, {}), "rules")
    assert "missing: without necessity, without diversity" in study_sentence(REWARDS, made)
    assert "missing" not in study_sentence(part, made)
    assert study_markdown(REWARDS, made) == study_markdown(part, made)
    shown = cells(study_markdown(REWARDS, made), "variant | before")
    assert ["all seven rewards", "without coverage"] == list(shown)
    assert drawn(study_figure(REWARDS, made)) == drawn(study_figure(part, made))


def test_nothing_that_is_not_resolved_is_called_a_difference():
    """Variants that differ by chance alone."""
    quiet = study_table(REWARDS, outcomes(REWARDS, {}), "rules")
    assert "by Holm): none." in study_sentence(REWARDS, quiet)
    rows = cells(study_markdown(REWARDS, quiet), "variant | its measure")
    assert {"no"} == {row[-1] for row in rows.values()}


def test_the_tables_have_ours_the_papers_and_what_each_variant_lowers(table: pl.DataFrame):
    """The paper's means with their differences; yes only where its own measure is lower."""
    shown = study_markdown(REWARDS, table)
    rows = cells(shown, "variant | before")
    assert re.fullmatch(r"-\d+\.\d\*", rows["without joint quality"][2])
    assert [one.title for one in REWARDS.variants] == list(rows)
    assert ["86.3", "69.8", "–"] == rows["all seven rewards"][-3:]
    assert ["85.6 (-0.7)", "67.8 (-2.0)", "same"] == rows["without joint quality"][-3:]
    assert ["–", "–", "–"] == rows["without format"][-3:]
    assert "not resolved" == rows["without coverage"][-1]
    moved = cells(shown, "variant | its measure")
    assert {"without joint quality"} == {name for name, row in moved.items() if row[-1] == "yes"}
    rewards = cells(shown, "sampled")
    place = 2 + [one.title for one in REWARDS.variants[1:]].index("without joint quality")
    assert rewards["Joint quality"][place].endswith("*")
    assert not rewards["Coverage"][place].endswith("*")


def test_a_study_that_the_paper_lacks_has_no_column_for_it():
    """Nor commands in its form."""
    shown = study_markdown(LEARNING, study_table(LEARNING, outcomes(LEARNING, {}), "rules"))
    assert "paper" not in shown
    assert "|" not in paper_form_markdown(LEARNING, SPEEDS)


def test_the_papers_form_has_each_runs_command_and_the_judges_hours():
    """A reward that is not paid takes no judge calls; the hours follow from the speed."""
    rows = {command: (calls, h) for *_, command, calls, h in paper_form_rows(REWARDS, SPEEDS)}
    full = rows["decomposerl train paper_7b"]
    assert ("1,027,768", "123.3") == full
    assert 6 == len(rows)
    for name in ("no_necessity", "no_joint"):
        assert float(rows[f"decomposerl train {name}"][1]) < 123.3
    assert full == rows["decomposerl train no_diversity"]
    halved = paper_form_rows(REWARDS, {"profile": 4_300.0})[0][-1]
    assert float(halved) == pytest.approx(123.3 / 2, abs=0.06)
    (_, _, _, calls, hours) = paper_form_rows(study_named("judge"), SPEEDS)[-1]
    assert ("1,027,768", "0.4") == (calls, hours)


@pytest.mark.parametrize("study", STUDIES, ids=lambda one: one.name)
def test_every_study_has_its_figure(study: Study):
    """A point for each variant at its greedy accuracy, in the study's order."""
    made = study_table(study, outcomes(study, {}, seeds=(42, 1)), "rules")
    accuracy = made.filter(measure=ACCURACY, split=GREEDY)
    means = [accuracy.filter(variant=one.title)["mean"][0] for one in study.variants]
    points = [one for one in study_figure(study, made).axes[0].lines if one.get_marker() == "o"]
    assert [*enumerate(means)] == [(*one.get_ydata(), *one.get_xdata()) for one in points]


def test_curves_show_the_variants_that_have_them():
    """A line per variant through its training means; a variant without runs has none."""
    frames = [
        curve_rows("k", "tiny", step, TRAIN, {"total": CurvePoint(2 + step / 10 + seed, 0.1, 8)})
        for seed in (0, 1)
        for step in range(12)
    ]
    runs = [pl.concat(frames[:12]), pl.concat(frames[12:])]
    first, second = (one.title for one in LEARNING.variants[:2])
    for curves in ({first: runs}, {first: runs, second: runs[:1]}):
        figure = study_curves(LEARNING, curves)
        lines = [line for axes in figure.axes for line in axes.lines]
        assert [*curves] == [line.get_label() for line in lines]
        assert [(0, 11)] * len(lines) == [(*line.get_xdata()[[0, -1]],) for line in lines]
        assert 2.5 < lines[0].get_ydata()[0] < lines[0].get_ydata()[-1] < 2.5 + 1.1
        assert drawn(figure).png
