"""The assets of the trick studies: tables, figures and what their pages show."""

import sys
from pathlib import Path

import dagster as dg
import polars as pl
import pytest

from assets.trick_study import trick_signs, tricks, tricks_found
from decomposerl.errors import TrainingError
from decomposerl.reports.tables import markdown_text
from decomposerl.schemas import TRAINING_CLAIMS, TRICK_SIGNS, TRICK_STUDY, TRICKS_FOUND
from decomposerl.training.tricks import TRICKS
from project import PYTHONPATH, ROOT
from resources.embedder.resource import EmbedderResource
from resources.judge.resource import JudgeResource
from resources.store.parquet import DataFolder, ParquetTables, write_parquet
from resources.training.resource import PolicyTrainerResource
from strategies import example_row, frame_of
from studies.trick_page import main
from trick_parts import THIRTY, pool, write_run

SCRIPTED = {
    "study__tricks": {"config": {"claims": 4}},
    "study__trick_signs": {"config": {"claims": 4}},
}
INPUTS = ("training_claims", "training_claims_random", "silver_decomposed", "base_policy")
MARKERS = "\n".join(
    f"<!-- {one} report: begin -->\n<!-- {one} report: end -->" for one in ("tricks", "found")
)


def materialize(
    data: Path, *assets: dg.AssetsDefinition, **ops: object
) -> dg.ExecuteInProcessResult:
    results = str(data / "engine_results")
    return dg.materialize(
        [*assets, *map(dg.AssetSpec, INPUTS)],
        selection=[*assets],
        resources={
            "io_manager": ParquetTables(base_dir=str(data)),
            "data_folder": DataFolder(base_dir=str(data)),
            "judge": JudgeResource(results_dir=results),
            "question_embedder": EmbedderResource(results_dir=results),
            "policy_trainer": PolicyTrainerResource(
                module="study_stand_in",
                python="env",
                launch=[f"PYTHONPATH={PYTHONPATH}", sys.executable],
                grace_s=10,
            ),
        },
        run_config={"ops": ops},
    )


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with all three studies done."""
    folder = tmp_path_factory.mktemp("data")
    write_parquet(pool(), folder / "silver_decomposed.parquet")
    write_run(folder, 4)
    assert materialize(folder, tricks, trick_signs, **SCRIPTED).success
    found = {"study__tricks_found": {"config": {"train": False}}}
    assert materialize(folder, tricks_found, **found).success
    return folder


def test_each_study_is_a_table_that_names_its_engine(data: Path):
    """As many claims as configured, judge and embedder in every row."""
    read = DataFolder(base_dir=str(data)).read
    paid, signs = (
        TRICK_STUDY.conform(read("study/tricks")),
        TRICK_SIGNS.conform(read("study/trick_signs")),
    )
    assert {4} == set(paid["claims"]) == set(signs["claims"])
    assert all(
        "rule_judge" in one and "minilm" in one for one in (*paid["engine"], *signs["engine"])
    )
    found = TRICKS_FOUND.conform(read("study/tricks_found"))
    assert {"tiny_long"} == set(found["experiment"])
    assert {0, 1, 2, 3} == set(found.filter(split="train")["step"])


def test_claims_of_a_third_label_are_not_played(tmp_path: Path):
    """No script can state or deny them; their traces would end without a verdict."""
    claims = pool()
    third = claims.with_columns(
        label=pl.when(pl.col("label") == "Refuted")
        .then(pl.lit("NotEnoughInfo"))
        .otherwise("label"),
        label_rule=pl.lit("keep_middle"),
    )
    write_parquet(third, tmp_path / "silver_decomposed.parquet")
    assert materialize(
        tmp_path, trick_signs, study__trick_signs=SCRIPTED["study__trick_signs"]
    ).success
    signs = DataFolder(base_dir=str(tmp_path)).read("study/trick_signs")
    assert {claims.filter(label="Supported").height} == set(signs["claims"])


def test_figures_lie_where_the_report_looks(data: Path):
    """PNG, SVG and a sentence with the engine."""
    for name in ("tricks", "tricks_found"):
        assert (data / f"studies/{name}.png").read_bytes().startswith(b"\x89PNG")
        assert (data / f"studies/{name}.svg").is_file()
        assert "rule_judge" in (data / f"studies/{name}.txt").read_text("utf-8")


def test_the_same_claims_give_the_same_table_again(data: Path):
    """Draw, scripts and bootstrap are seeded."""
    before = (data / "study/tricks.parquet").read_bytes()
    assert materialize(data, tricks, study__tricks=SCRIPTED["study__tricks"]).success
    assert before == (data / "study/tricks.parquet").read_bytes()


def test_the_page_has_every_trick_with_what_it_earns(data: Path, tmp_path: Path):
    """Between its markers, with a copy of the figure beside the page."""
    page = tmp_path / "studies.md"
    page.write_text(MARKERS, "utf-8")
    for section in ("tricks", "found"):
        main(["--data", str(data), "--section", section, "--report", str(page)])
        assert (tmp_path / f"study_{section}.png").is_file()
    written = page.read_text("utf-8")
    inside = written.split("<!-- tricks report: end -->")[0]
    assert len(TRICKS) + 2 == sum(line.startswith("|") for line in inside.splitlines())
    assert "4 claims; rule_judge" in inside
    assert "`tiny_long`, 4 steps; judge rule_judge" in written


def test_a_run_that_is_missing_is_trained_first(tmp_path: Path):
    """By the same process as the asset ``policy``; what it says when it fails is the study's."""
    write_parquet(pool(THIRTY), tmp_path / "silver_decomposed.parquet")
    for name in ("training_claims", "training_claims_random"):
        claims = frame_of(TRAINING_CLAIMS, [example_row(claim=f"{name} {n}") for n in range(3)])
        write_parquet(claims, tmp_path / f"{name}.parquet")
    (tmp_path / "base_policy").mkdir()
    (tmp_path / "started").touch()
    (tmp_path / "fail").write_text("tiny_long", "utf-8")
    with pytest.raises(TrainingError, match="tiny_long ended with"):
        materialize(tmp_path, tricks_found)
    assert "tiny_long\n" == (tmp_path / "started").read_text("utf-8")


def test_the_results_have_every_trick():
    """docs/results/studies.md: a row for each, as it is called now, and the whole run."""
    page = (ROOT / "docs/results/studies.md").read_text("utf-8")
    inside = page.split("<!-- tricks report: begin -->")[1].split("<!-- tricks report: end -->")[0]
    assert [] == [one.name for one in TRICKS if f"| {markdown_text(one.title)} |" not in inside]
    assert "`tiny_long`, 200 steps" in page
