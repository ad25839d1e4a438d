"""The learning study: which runs it reads, what it reports on them, which recipes it trains."""

import json
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

from decomposerl import schemas
from decomposerl.training.experiments import experiment
from resources.store.parquet import write_parquet
from studies import learning_study
from studies.learning_report import (
    _COLOURS,
    _DRAWN,
    _REPORTED,
    CLEAN,
    TITLES,
    Study,
    _smoothed,
    study_page,
)
from studies.learning_study import VARIANTS, _recipe

STEPS = 12
READ = (*VARIANTS, CLEAN)


def write_run(folder: Path, before: float, after: float, stopped: str = "") -> None:
    """A run whose measures all rise in a line, from ``before`` to ``after``."""
    folder.mkdir(parents=True)
    outcome = {
        "steps": STEPS,
        "stopped": stopped,
        "before": dict.fromkeys(_REPORTED, before),
        "after": {} if stopped else dict.fromkeys(_REPORTED, after),
        "seconds": {"generation": 60.0, "judging": 30.0, "update": 30.0, "held_out": 90.0},
    }
    (folder / "outcome.json").write_text(json.dumps(outcome), "utf-8")
    rows = [
        {
            "run": "ab" * 8,
            "experiment": folder.parent.name,
            "step": step,
            "split": split,
            "measure": measure,
            "mean": before + (after - before) * step / (STEPS - 1),
            "spread": None if measure == "balanced_accuracy" else 0.5,
            "rows": 49,
        }
        for step in reversed(range(STEPS))
        for split in ("train", "held_out_sampled")
        for measure in (*_DRAWN, "balanced_accuracy")
    ]
    write_parquet(pl.DataFrame(rows, schemas.CURVES.schema), folder / "curves.parquet")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Three seeds that learn and one of each control; one stopped, one without an outcome."""
    for seed, after in ((1, 0.75), (2, 0.5), (3, 1.0)):
        write_run(tmp_path / "tiny" / str(seed), 0.25, after)
    write_run(tmp_path / "tiny" / "4", 0.25, 0.9, stopped="the budget is spent")
    (tmp_path / "tiny" / "5").mkdir()
    write_run(tmp_path / "tiny_shuffled" / "1", 0.25, 0.25)
    for seed, level in ((1, 0.875), (2, 0.5), (3, 0.75)):
        write_run(tmp_path / CLEAN / str(seed), level, level)
    return tmp_path


def test_finished_runs_are_read_and_no_others(folder: Path):
    """One that stopped early, or has no outcome, or is of a seed not asked for, is left out."""
    study = Study.read(folder, READ, 5)
    assert {"tiny": 3, "tiny_s10": 0, "tiny_shuffled": 1, CLEAN: 3} == {
        name: len(each) for name, each in study.outcomes.items()
    }
    assert [0.75, 0.5, 1.0] == [one["after"][_REPORTED[0]] for one in study.outcomes["tiny"]]
    assert {name: len(each) for name, each in study.curves.items()} == {
        name: len(each) for name, each in study.outcomes.items()
    }
    assert [dict.fromkeys(_REPORTED, level) for level in (0.875, 0.5, 0.75)] == study.clean
    assert 2 == len(Study.read(folder, VARIANTS, 2).outcomes["tiny"])
    assert 2 == len(Study.read(folder, VARIANTS, 2).clean)
    assert [] == Study.read(folder / "tiny", VARIANTS, 2).clean


def table_of(page: str, variant: str) -> list[list[str]]:
    """The cells of a variant's table, without its head."""
    part = page.split(f"### `{variant}`")[1].partition("###")[0]
    lines = [line for line in part.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def test_the_table_has_medians_with_their_band(folder: Path, tmp_path: Path):
    """Median, least and greatest of both ends and of the change; the control's level beside."""
    page = study_page(Study.read(folder, READ, 5), tmp_path / "learning.png")
    rows = table_of(page, "tiny")
    assert len(_REPORTED) == len(rows)
    for _, before, after, change, level in rows:
        assert "0.250 (0.250 to 0.250)" == before
        assert "0.750 (0.500 to 1.000)" == after
        assert "+0.500 (+0.250 to +0.750)" == change
        assert "0.750 (0.500 to 0.875)" == level
    assert [4] * len(_REPORTED) == [len(row) for row in table_of(page, CLEAN)]
    assert "\n3 seeds, 12 steps, 2.0 minutes" in page
    assert "tiny_s10" not in page
    assert "![Each reward over the steps](learning.png)" in page


def test_a_single_run_has_intervals_over_its_claims(folder: Path, tmp_path: Path):
    """1.96 standard errors at both ends; those of the change add up as of two samples."""
    write_run(folder / "smol/1", 0.25, 0.75)
    page = study_page(Study.read(folder, ["smol"], 1), tmp_path / "learning.png")
    by_title = {row[0]: row[1:] for row in table_of(page, "smol")}
    assert by_title["Format, sampled"] == [
        "0.250 (0.110 to 0.390)",
        "0.750 (0.610 to 0.890)",
        "+0.500 (+0.302 to +0.698)",
    ]
    assert ["0.250", "0.750", "+0.500"] == by_title["Balanced accuracy, sampled"]


def test_a_measure_that_a_run_lacks_has_no_line(folder: Path, tmp_path: Path):
    """Diversity needs two questions; where no trace had them it is not reported."""
    study = Study.read(folder, VARIANTS, 5)
    del study.outcomes["tiny"][1]["after"]["held_out_sampled/diversity"]
    page = study_page(replace(study, clean=[]), tmp_path / "learning.png")
    rows = table_of(page, "tiny")
    assert len(_REPORTED) - 1 == len(rows)
    assert not [row for row in rows if row[0].startswith("Diversity")]
    assert {4} == {len(row) for row in rows}


def inked(path: Path, colour: str) -> int:
    """How many pixels of a picture are nearly of a colour."""
    import numpy as np
    from PIL import Image

    with Image.open(path) as picture:
        pixels = np.asarray(picture.convert("RGB"), np.int64)
    wanted = [int(colour[at : at + 2], 16) for at in (1, 3, 5)]
    return int((abs(pixels - wanted).max(-1) < 16).sum())


def test_the_picture_shows_the_runs(folder: Path, tmp_path: Path):
    """The same runs give the same picture, other runs another, and none an empty one."""
    study = Study.read(folder, VARIANTS, 5)
    pictures = [tmp_path / f"{number}.png" for number in range(4)]
    study_page(study, pictures[0])
    study_page(study, pictures[1])
    study_page(Study.read(folder, ["tiny_shuffled"], 5), pictures[2])
    study_page(Study.read(folder / "nothing", VARIANTS, 5), pictures[3])
    assert pictures[0].read_bytes() == pictures[1].read_bytes()
    assert pictures[0].read_bytes() != pictures[2].read_bytes()
    tiny, shuffled = (_COLOURS[name] for name in ("tiny", "tiny_shuffled"))
    assert inked(pictures[0], tiny) > 1_000
    assert inked(pictures[0], shuffled) > 1_000
    assert (0, 0) == (inked(pictures[2], tiny), inked(pictures[3], tiny))
    assert inked(pictures[2], shuffled) > 2 * inked(pictures[3], shuffled)  # text is as grey


def test_a_line_is_the_moving_mean_of_the_training_steps(folder: Path):
    """In the order of steps, of the training split alone; a gap is passed over, as are none."""
    curves = pl.read_parquet(folder / "tiny/1/curves.parquet")
    line = _smoothed(curves, "total")
    assert STEPS == len(line)
    assert list(line) == sorted(line)
    assert line[5] == pytest.approx(0.25 + 0.5 * 5 / (STEPS - 1))
    gap = pl.when(step=0, measure="total").then(None).otherwise(pl.col("mean")).alias("mean")
    assert _smoothed(curves.with_columns(gap), "total")[0] > line[0]
    assert 0 == len(_smoothed(curves, "no_such_measure"))


def test_variants_are_the_recipes_with_another_seed():
    """It is what ``policy`` trains under the name with that seed."""
    for name in set(TITLES) - {CLEAN}:
        assert experiment(f"{name}-seed_3") == _recipe(name, 3, None)
    assert 0.1 == _recipe("tiny_s10", 1, None).supervision
    assert _recipe("tiny_shuffled", 1, None).shuffle_rewards


def test_the_clean_start_is_the_same_recipe_on_another_base(tmp_path: Path):
    """Its base is in the recipe, so another one is another run."""
    clean, tiny = _recipe(CLEAN, 1, tmp_path), experiment("tiny")
    assert str(tmp_path) == clean.model
    assert clean.digest != _recipe(CLEAN, 1, tmp_path / "other").digest
    assert tiny == replace(clean, name="tiny", model=tiny.model, seed=tiny.seed)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--variants", "tiny", "paper_7b"], "paper_7b"),
        (["--seeds", "0"], "--seeds"),
        (["--seeds", "many"], "--seeds"),
        (["--control", "no/such/folder"], "contains no model"),
        (["--variants", "tiny", CLEAN], "needs --control"),
        (["--epochs", "2"], "--epochs"),
    ],
)
def test_wrong_words_are_refused(words: list[str], said: str, capsys: pytest.CaptureFixture[str]):
    """Before anything is trained or written, with the word that was wrong."""
    with pytest.raises(SystemExit) as refused:
        learning_study.main(words)
    assert 2 == refused.value.code
    assert said in capsys.readouterr().err


def test_a_run_that_fails_is_named_and_the_page_written_all_the_same(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    """No claims lie in the data folder: the exit status is 1, and what was done is printed."""
    report = tmp_path / "page.md"
    markers = [f"<!-- learning report: {end} -->" for end in ("begin", "end")]
    report.write_text("\n".join(markers), "utf-8")
    words = ["--data", str(tmp_path / "empty"), "--out", str(folder), "--seeds", "1"]
    words += ["--variants", "tiny", "--picture", str(tmp_path / "learning.png")]
    assert 1 == learning_study.main([*words, "--report", str(report)])
    assert f"tiny:1: failed, see {folder / 'tiny-1.log'}" in capsys.readouterr().out
    assert "training_claims.parquet is not there" in (folder / "tiny-1.log").read_text("utf-8")
    assert "### `tiny`: labels on all claims\n\n1 seed," in report.read_text("utf-8")
