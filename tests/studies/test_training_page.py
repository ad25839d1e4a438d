"""The trained studies of the results page: made from the tables alone, and none is left out."""

from pathlib import Path

import polars as pl
import pytest

from decomposerl.reports.judge_figure import agreement_markdown
from decomposerl.reports.tables import markdown_text
from decomposerl.schemas import JUDGE_AGREEMENT, JUDGE_STUDY
from decomposerl.training.studies import STUDIES
from decomposerl.training.study_table import study_table
from project import ROOT
from report_parts_made import PNG
from resources.store.parquet import write_parquet
from studies.training_page import main
from study_outcomes import outcomes, study_named

REWARDS = study_named("rewards")
PART = REWARDS.only({"all seven rewards", "without coverage", "without diversity"})


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A part of one study, the tiny judge's heads and rewards, and a page with the markers."""
    table = study_table(PART, outcomes(PART, {}, seeds=(42, 1)), "rule_judge:4; base_policy_clean")
    write_parquet(table, tmp_path / "study/rewards.parquet")
    judged = {
        "reward": "joint", "metric": "rank_correlation", "value": 0.5, "low": 0.25, "high": 0.75,
        "rollouts": 40, "groups": 10, "engine": "tiny:1", "teacher": "r:3",
    }  # fmt: skip
    made = pl.DataFrame([judged], schema=JUDGE_STUDY.schema)
    write_parquet(made, tmp_path / "study/judge_rewards.parquet")
    one = {"metric": "kappa", "value": 0.5, "rows": 40, "documents": 10, "shortened": 3,
           "engine": "tiny:1", "teacher": "r:3"}  # fmt: skip
    heads = [{**one, "head": head} for head in ("answerability", "coverage")]
    heads.append({**one, "head": "coverage", "metric": "agreement", "low": 0.25, "high": 0.75})
    agreed = pl.DataFrame(heads, schema=JUDGE_AGREEMENT.schema)
    write_parquet(agreed, tmp_path / "tiny_judge_agreement.parquet")
    (tmp_path / "studies").mkdir()
    for name in ("rewards", "judge_rewards"):
        (tmp_path / f"studies/{name}.png").write_bytes(PNG)
    marks = "<!-- trained studies report: begin -->\n<!-- trained studies report: end -->"
    (tmp_path / "page.md").write_text(f"Before.\n{marks}\nAfter.\n", "utf-8")
    return tmp_path


def written(data: Path) -> str:
    main(["--data", str(data), "--report", str(data / "page.md")])
    return (data / "page.md").read_text("utf-8")


def test_the_page_has_each_study_and_says_what_was_not_run(data: Path):
    """A study with its engine, size and what shows; every other study by name; the text around."""
    page = written(data)
    parts = {part.partition("\n")[0]: part for part in page.split("\n### ")[1:]}
    assert len(STUDIES) + 2 == len(parts)
    (shown,) = (part for head, part in parts.items() if head.startswith(REWARDS.title))
    for named in ("2 seeds", "30 steps", "60 held-out claims", "rule_judge:4; base_policy_clean",
                  "without necessity, without joint quality"):  # fmt: skip
        assert markdown_text(named) in shown
    judged = parts["Rewards by the tiny judge (G.6)"]
    assert "Engine: tiny:1; r:3." in judged
    assert "0.50 \\[0.25, 0.75\\]" in judged
    heads = parts["Heads of the tiny judge (G.6)"]
    assert "Engine: tiny:1; r:3." in heads
    assert " 6 texts were shortened." in heads, "each head's once"
    assert agreement_markdown(pl.read_parquet(data / "tiny_judge_agreement.parquet")) in heads
    for study in STUDIES:
        if study != REWARDS:
            (part,) = [one for head, one in parts.items() if head.startswith(study.title)]
            assert f"`study/{study.name}` was not run." in part
    assert ("Before.\n", "After.\n") == (page[:8], page[-7:])
    committed = (ROOT / "docs/results/studies.md").read_text("utf-8")
    assert [] == [study.name for study in STUDIES if f"### {study.title}" not in committed]


def test_heads_that_were_not_measured_are_said_so(data: Path):
    """Without the asset's table the part says what to run."""
    (data / "tiny_judge_agreement.parquet").unlink()
    assert "`tiny_judge_agreement` was not run." in written(data)


def test_tables_and_figures_are_kept_beside_the_page(data: Path):
    """A later run without the data changes nothing; a new table replaces the kept one."""
    page = written(data)
    assert "![One reward removed](study_rewards.png)" in page
    assert "(study_rewards.parquet)" in page
    assert PNG == (data / "study_rewards.png").read_bytes()
    assert page == written(data)
    source, kept = data / "study/rewards.parquet", data / "study_rewards.parquet"
    assert source.read_bytes() == kept.read_bytes()
    source.unlink()
    assert page == written(data)
    table = study_table(PART, outcomes(PART, {}, seeds=(42, 1)), "another judge")
    write_parquet(table, source)
    assert "engine: another judge." in written(data)
    source.unlink()
    kept.unlink()
    assert "study_rewards" not in written(data)


def test_a_study_may_lie_in_another_data_folder(
    data: Path, tmp_path_factory: pytest.TempPathFactory
):
    """It takes no other study off the page."""
    study, other = study_named("votes"), tmp_path_factory.mktemp("votes")
    table = study_table(study, outcomes(study, {}, seeds=(42, 1)), "other rules")
    write_parquet(table, other / "study/votes.parquet")
    (other / "studies").mkdir()
    (other / "studies/votes.png").write_bytes(PNG)
    main(["--data", str(data), str(other), "--report", str(data / "page.md")])
    page = (data / "page.md").read_text("utf-8")
    for name in ("rewards", "votes", "judge_rewards"):
        assert f"`study/{name}` was not run." not in page
        assert PNG == (data / f"study_{name}.png").read_bytes()
    assert "engine: other rules." in page
