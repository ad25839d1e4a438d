"""The learning study: which runs it reads, what it reports on them, which recipes it trains."""

import json
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

from decomposerl import schemas
from decomposerl.training.curves import TRAIN, CurvePoint, curve_rows
from decomposerl.training.experiments import experiment
from documents import shell_lines
from perf import grpo_step
from project import ROOT
from resources.store.parquet import write_parquet
from resources.training.rollout_log import RolloutLog
from studies import learning_study, sampler_gaps, warm_start
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
from studies.sampler_gaps import gaps_table

STEPS = 12
READ = (*VARIANTS, CLEAN)
HEAD = ("held-out claims, sampled",)
PAGE = ROOT / "docs/results/learning.md"
READERS = {
    "studies.learning_study": learning_study._options,
    "studies.sampler_gaps": sampler_gaps._options,
    "studies.warm_start": warm_start._options,
    "perf.grpo_step": grpo_step._options,
}
SECTIONS = {"studies.sampler_gaps": "sampler", "perf.grpo_step": "grpo step"}


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


def table_of(page: str) -> list[list[str]]:
    """The cells of the page's table, its head first."""
    lines = [line for line in page.splitlines() if line.startswith("| ")]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    assert {len(rows[0])} == {len(row) for row in rows}
    return [rows[0], *rows[2:]]


def test_the_table_has_medians_with_their_band(folder: Path, tmp_path: Path):
    """Median, least and greatest of the change and of the clean level."""
    study = Study.read(folder, ["tiny", "tiny_s10"], 5)
    picture = tmp_path / "learning.png"
    page = study_page(replace(study, clean=Study.read(folder, READ, 5).clean), picture)
    head, *rows = table_of(page)
    assert [*HEAD, "before", "change, `tiny`", "clean warm start"] == head
    assert len(_REPORTED) == len(rows)
    for _, *cells in rows:
        assert ["0.250", "+0.500 (0.250..0.750)", "0.750 (0.500..0.875)"] == cells
    assert "\n- `tiny`, labels on all claims: 3 seeds, 12 steps, 2.0 minutes\n" in page
    assert "tiny_s10" not in page
    assert page.startswith("![Each reward over the steps](learning.png)\n")


def test_runs_from_the_same_values_share_a_column(folder: Path, tmp_path: Path):
    """Another start, or another number of seeds, has its own; the clean runs need no level."""
    for seed in (1, 2, 3):
        write_run(folder / "tiny_s10" / str(seed), 0.25, 0.5)
    head, first, *_ = table_of(study_page(Study.read(folder, READ, 5), tmp_path / "learning.png"))
    changes = [f"change, `{name}`" for name in READ]
    assert [*HEAD, "before", *changes[:2], "before", changes[2], "before", changes[3]] == head
    assert ["+0.250 (0.250..0.250)", "0.250", "+0.000±0.198"] == first[3:6]


def test_a_single_run_has_intervals_over_its_claims(folder: Path, tmp_path: Path):
    """1.96 standard errors of both ends, added up as of two samples."""
    write_run(folder / "smol/1", 0.25, 0.75)
    page = study_page(Study.read(folder, ["smol"], 1), tmp_path / "learning.png")
    by_title = {row[0]: row[1:] for row in table_of(page)}
    assert ["0.250", "+0.500±0.198"] == by_title["Format"]
    assert ["0.250", "+0.500"] == by_title["Balanced accuracy, greedy"]


def test_a_measure_that_a_run_lacks_has_no_line(folder: Path, tmp_path: Path):
    """Diversity needs two questions; where no trace had them it is not reported."""
    study = Study.read(folder, VARIANTS, 5)
    del study.outcomes["tiny"][1]["after"]["held_out_sampled/diversity"]
    _, *rows = table_of(study_page(study, tmp_path / "learning.png"))
    assert len(_REPORTED) - 1 == len(rows)
    assert not [row for row in rows if row[0].startswith("Diversity")]


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
    assert "\n- `tiny`, labels on all claims: 1 seed," in report.read_text("utf-8")


def test_every_command_of_the_page_is_accepted(tmp_path: Path):
    """Each program takes its words, and its markers stand on the page that it writes to."""
    (tmp_path / "config.json").touch()
    page, ran = PAGE.read_text("utf-8"), []
    for line in (line for line in shell_lines(PAGE) if " -m " in line):
        module, *words = line.replace("data/control", str(tmp_path)).split(" -m ")[1].split()
        options = READERS[module](words)
        section = SECTIONS.get(module) or vars(options).get("section")
        if section:
            assert ROOT / options.report == PAGE
            assert f"<!-- {section} report: begin -->" in page
        ran.append(module)
    assert set(READERS) == set(ran)


def test_the_table_of_gaps_has_both_gaps_and_the_stop(tmp_path: Path):
    """A sampler that stays at the base is stopped once the policy has moved; others are left."""
    for step in range(4):
        moved = 0.01 * step
        points = {"sampler_gap": moved, "sampler_gap_base": 0.0, "sampler_nll": 1.0}
        rows = curve_rows(
            "k",
            "tiny",
            step,
            TRAIN,
            {name: CurvePoint(mean, 0, 1) for name, mean in points.items()},
        )
        RolloutLog(tmp_path / "never", "k", 1).write_curves(step, TRAIN, rows)
    *_, row = gaps_table(tmp_path).splitlines()
    assert "| never gets the adapter | 0.02/0 |  | step 2 |" == row
