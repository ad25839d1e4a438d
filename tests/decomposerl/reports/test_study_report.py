"""A study as tables and figures: the paper's rows beside ours, and what did not show."""

import io
import re

import numpy as np
import polars as pl
import pytest
from numpy.typing import NDArray
from PIL import Image

from decomposerl.reports.figure_style import PALETTE, drawn
from decomposerl.reports.paper_form import JudgeSpeeds, paper_form_markdown, paper_form_rows
from decomposerl.reports.study_figure import study_curves, study_figure
from decomposerl.reports.study_report import study_markdown, study_sentence
from decomposerl.training.curves import TRAIN, CurvePoint, curve_rows
from decomposerl.training.studies import STUDIES, Study, study_named
from decomposerl.training.study_table import study_table
from study_outcomes import outcomes

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


def test_the_sentence_names_engine_and_size_and_counts_orders(table: pl.DataFrame):
    """Of the fifteen pairs of the paper's six runs, twelve differ in domain and all out of it."""
    said = study_sentence(REWARDS, table)
    assert "5 seeds, 30 steps, 60 held-out claims; engine: rule_judge; minilm" in said
    assert re.search(r"\(p < 0.05 by Holm\): without joint quality by -\d+\.\d\. ", said)
    counts = re.findall(r"(\d+) of (\d+); opposite: (\d+); not resolved: (\d+)", said)
    assert ["12", "15"] == [every for _, every, _, _ in counts]
    for same, every, opposite, rest in counts:
        assert int(every) == int(same) + int(opposite) + int(rest)
        assert int(same) > 0


def test_the_sentence_says_what_training_moved(table: pl.DataFrame):
    """Greedy accuracy and the sum of rewards against each variant's own start."""
    said = study_sentence(REWARDS, table)
    assert re.search(
        r"Greedy accuracy, moved by training: without joint quality by -\d+\.\d\. "
        r"Sum of rewards on sampled traces, moved by training: ", said
    )  # fmt: skip
    moved = cells(study_markdown(REWARDS, table), "variant | before")["without joint quality"][2]
    assert re.fullmatch(r"-\d+\.\d\*", moved)


def test_the_sentence_says_what_is_lowered_and_how_the_order_agrees(table: pl.DataFrame):
    """Only joint quality falls; Kendall's tau has its interval and p, in domain and out of it."""
    said = study_sentence(REWARDS, table)
    found = re.search(r"Lower what they should, on sampled traces: (.*?); not shown: (.*?)\.", said)
    assert found
    lower, others = found.groups()
    assert "without joint quality" == lower
    assert 6 == others.count("without")
    assert re.search(
        r"Kendall's tau with the paper's order \(95 % over seeds\): [+-]\d\.\d\d \(.*? to .*?\), "
        r"exact p \d\.\d{3}, in domain; .*, out of domain\.", said
    )  # fmt: skip
    for absent in ("tau", "Lower what"):
        assert absent not in study_sentence(EPOCHS, study_table(EPOCHS, outcomes(EPOCHS, {}), "r"))


def test_variants_that_are_not_trained_are_named_and_left_out():
    """The table, the figure and the sentence are those of the part that is there."""
    part = REWARDS.only({"all seven rewards", "without coverage"})
    made = study_table(part, outcomes(part, {}), "rules")
    said = study_sentence(REWARDS, made)
    assert "because runs are missing: without necessity, without diversity" in said
    assert "missing" not in study_sentence(part, made)
    assert study_markdown(REWARDS, made) == study_markdown(part, made)
    assert ["all seven rewards", "without coverage"] == list(
        cells(study_markdown(REWARDS, made), "variant | before")
    )
    assert drawn(study_figure(REWARDS, made)) == drawn(study_figure(part, made))


def test_nothing_that_is_not_resolved_is_called_a_difference():
    """Variants that differ by chance alone."""
    quiet = study_table(REWARDS, outcomes(REWARDS, {}), "rules")
    assert "from all seven rewards (p < 0.05 by Holm): none." in study_sentence(REWARDS, quiet)
    rows = cells(study_markdown(REWARDS, quiet), "variant | its measure")
    assert {"no"} == {row[-1] for row in rows.values()}


def test_the_tables_have_ours_the_papers_and_what_each_variant_lowers(table: pl.DataFrame):
    """The paper's means with their differences; yes only where its own measure is lower."""
    shown = study_markdown(REWARDS, table)
    rows = cells(shown, "variant | before")
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
    assert "The paper has no such study." == paper_form_markdown(LEARNING, SPEEDS)


def test_the_papers_form_has_each_runs_command_and_the_judges_hours():
    """A reward that is not paid takes no judge calls; the hours follow from the speed."""
    rows = {
        command: (calls, hours) for *_, command, calls, hours in paper_form_rows(REWARDS, SPEEDS)
    }
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


def pixels(png: bytes) -> NDArray[np.int64]:
    with Image.open(io.BytesIO(png)) as picture:
        return np.asarray(picture.convert("RGB"), np.int64)


def inked(png: bytes, colour: str) -> int:
    wanted = [int(colour[at : at + 2], 16) for at in (1, 3, 5)]
    return int((abs(pixels(png) - wanted).max(-1) < 16).sum())


@pytest.mark.parametrize("study", STUDIES, ids=lambda one: one.name)
def test_every_study_has_its_figure(study: Study):
    """A point for each variant; equal tables give equal bytes."""
    made = study_table(study, outcomes(study, {}, seeds=(42, 1)), "rules")
    figure = drawn(study_figure(study, made))
    assert figure == drawn(study_figure(study, made))
    assert inked(figure.png, PALETTE[-1]) > 20 * len(study.variants)


def test_curves_show_the_variants_that_have_them():
    """A line per variant through its training means; a variant without runs has none."""
    frames = [
        curve_rows("k", "tiny", step, TRAIN, {"total": CurvePoint(2 + step / 10 + seed, 0.1, 8)})
        for seed in (0, 1)
        for step in range(12)
    ]
    runs = [pl.concat(frames[:12]), pl.concat(frames[12:])]
    first, second = (one.title for one in LEARNING.variants[:2])
    both = drawn(study_curves(LEARNING, {first: runs, second: runs[:1]})).png
    alone = drawn(study_curves(LEARNING, {first: runs})).png
    assert min(inked(alone, PALETTE[-1]), inked(both, PALETTE[4])) > 100
    assert inked(alone, PALETTE[4]) < inked(both, PALETTE[4]) / 3
