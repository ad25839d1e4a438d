"""The asset ``report``, and what it shows: the study of selectors and the tiny judge."""

import dataclasses
import hashlib
import json
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import dagster as dg
import polars as pl
import pytest

from assets.judge import JUDGE_ASSETS, tiny_judge_heads_asset
from assets.report import report_asset
from assets.studies import selectors
from chromium import needs_chromium, opened_browser
from dagster_project.cli import app
from dagster_project.definitions import defs
from dagster_project.jobs import JOB_NAMES
from decomposerl.errors import SourceFileError
from decomposerl.funnel.selector_comparison import compare_selectors
from decomposerl.funnel.settings import SelectorStudySettings
from decomposerl.kernels.cosine_filter import unit_rows
from decomposerl.reports.figure_style import drawn
from decomposerl.reports.report_parts import ReportData
from decomposerl.reports.run_report import report_sections
from decomposerl.reports.selector_report import (
    selectors_figure,
    selectors_markdown,
    selectors_sentence,
)
from decomposerl.reports.study_report import study_markdown
from decomposerl.reports.study_tables import STUDY_TABLES, study_key
from decomposerl.rewards.settings import RewardSettings
from decomposerl.schemas import (
    JUDGE_AGREEMENT,
    JUDGE_STUDY,
    LEADERBOARD,
    SELECTOR_STUDY,
    SILVER_DECOMPOSED,
)
from decomposerl.training.experiment import Experiment
from decomposerl.training.study_table import study_table
from evaluation_files import SYSTEMS, write_evaluation
from evaluation_graph import TEST_SETS, resources, write_tests
from fakes import BagOfWordsEmbedder
from judge_parts import QUICK, WordJudge, rollouts, write_run
from project import ROOT
from report_parts_made import PNG, run_data
from resources.judge.tiny_judge import TinyJudge
from resources.report.files import FOLDER, HTML, MARKDOWN, TRACES, report_html_path
from resources.report.inputs import ReportNames, read_report_data
from resources.report.studies import CLOCKS, STUDIES, read_studies
from resources.store.integrity import run_path
from resources.store.parquet import DataFolder, StageRun, table_of, write_parquet
from resources.training.judged_runs import judged_runs, rulings_of
from resources.training.resource import PolicyTrainerResource
from strategies import example_row, frame_of
from study_outcomes import outcomes, study_named
from tiny_models import tiny_modernbert

RUNS = ("tiny",)
REWARDS = study_named("rewards")
STUDY_ENGINE = "rule_judge:4; minilm; base_policy_clean"


def in_chromium(test: Callable[..., None]) -> Callable[..., None]:
    for mark in needs_chromium:
        test = mark(test)
    return test


def materialize(data: Path, traces: int = 3) -> dg.ExecuteInProcessResult:
    asset = report_asset((), TEST_SETS, SYSTEMS, ())
    stand_ins = [dg.AssetSpec(key) for key in sorted(asset.asset_deps[asset.key])]
    return dg.materialize(
        [asset, *stand_ins],
        selection=[asset],
        resources={"data_folder": DataFolder(base_dir=str(data))},
        run_config={"ops": {"report": {"config": {"traces": traces}}}},
    )


def record(stage: str, rows: int) -> str:
    run = dict.fromkeys(("rows_in", "rows_kept"), rows) | {"rows_dropped": 0, "rows_rejected": 0}
    made = StageRun(
        stage=stage, run_id="r", finished_at="2026-01-02T03:04:05+00:00", seconds=1.5,
        engine="rules", engine_calls=rows, engine_hits=0, config="{}", **run,
    )  # fmt: skip
    return json.dumps(dataclasses.asdict(made))


@pytest.fixture(scope="module")
def evaluated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with two systems on one test set, and a study's figure."""
    data = tmp_path_factory.mktemp("evaluated")
    write_tests(data)
    claims = pl.read_parquet(data / "benchmark/fever.parquet").drop_nulls(["label", "evidence"])
    write_evaluation(data, "fever", claims)
    for system in SYSTEMS:
        key = f"predictions/fever/{system.key}"
        path = run_path(data, key)
        path.parent.mkdir(exist_ok=True)
        path.write_text(record(key, claims.height), "utf-8")
    (data / "studies").mkdir()
    (data / "studies/growth.png").write_bytes(PNG)
    (data / "studies/growth.svg").write_bytes(b"<svg/>")
    (data / "studies/growth.txt").write_text("It grows.\nThe rest is not shown.", "utf-8")
    (data / "studies/no_figure.png").write_text("no PNG", "utf-8")
    for name in ("rewards", "rewards_curves"):
        (data / f"studies/{name}.png").write_bytes(PNG)
        (data / f"studies/{name}.txt").write_text(f"Said of {name}.", "utf-8")
    table = study_table(REWARDS, outcomes(REWARDS, {}, seeds=(42, 1)), STUDY_ENGINE)
    write_parquet(table, data / "study/rewards.parquet")
    assert materialize(data).success
    return data


def digests(folder: Path) -> Iterator[tuple[str, str]]:
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        yield str(path.relative_to(folder)), hashlib.sha256(path.read_bytes()).hexdigest()


def test_the_report_shows_what_the_folder_has(evaluated: Path):
    """Scores, comparison, reliability, cost and the study; the funnel and training are missing."""
    page = report_html_path(evaluated).read_text("utf-8")
    shown = (evaluated / FOLDER / MARKDOWN).read_text("utf-8")
    figures = {path.name for path in (evaluated / FOLDER / "figures").iterdir()}
    drawn = {"leaderboard", "comparison", "reliability", "cost"}
    assert {f"{name}.{end}" for name in drawn for end in ("svg", "png")} <= figures
    assert {"study-2-growth.png", "study-2-growth.svg"} <= figures
    assert not [name for name in figures if "no_figure" in name]
    for text in (page, shown):
        assert "It grows." in text
        assert "The rest" not in text
        assert "decomposerl run attrition --upstream" in text
        assert "decomposerl train RECIPE" in text
        assert TRACES in text
    assert "2026-01-02 03:04 UTC" in page


def test_a_study_is_one_part_with_all_its_figures_and_its_whole_table(evaluated: Path):
    """Curves beside the figure; every variant with its numbers, and the engine of the table."""
    folder = DataFolder(base_dir=str(evaluated))
    read = read_report_data(folder, ReportNames((), TEST_SETS, SYSTEMS, RUNS))
    sections = {one.title: one for one in report_sections(read)}
    shown = sections["Study: rewards"]
    assert ["study-1-rewards", "study-1-rewards_curves"] == [one.name for one in shown.pictures]
    assert ("Said of rewards.", STUDY_ENGINE) == (shown.sentence, shown.engine)
    assert "Study: rewards_curves" not in sections
    growth = sections["Study: growth"]
    assert ("", "that of the study") == (growth.table, growth.engine)
    table = folder.read("study/rewards")
    assert study_markdown(REWARDS, table) == shown.table
    page = report_html_path(evaluated).read_text("utf-8")
    for row in table.filter(measure="balanced_accuracy", split="held_out_greedy").to_dicts():
        first = row["against"] in {None, REWARDS.against.title}
        for number in ("mean", "low", "claims_low", "seeds_low") if first else ():
            assert row[number] is None or f"{row[number]:.1f}" in page, (row["variant"], number)
    assert STUDY_ENGINE in page


def test_every_study_has_its_table_in_the_report():
    """A new study is shown too; each table is one of the store; each command of the page exists."""
    keys = defs.resolve_asset_graph().get_all_asset_keys()
    studies = {key.to_user_string() for key in keys if key.path[0] == "study"}
    assert {*studies, "tiny_judge_agreement"} == {study_key(name) for name in STUDY_TABLES}
    for name in STUDY_TABLES:
        assert "engine" in table_of(study_key(name)).schema
    commands = " ".join(one.command for one in report_sections(ReportData()))
    known = [one for one in app.registered_commands if one.callback]
    registered = {one.name or one.callback.__name__ for one in known}
    assert set(re.findall(r"decomposerl ([a-z]+)", commands)) <= registered
    assert set(re.findall(r"-j (\w+)", commands)) <= {*JOB_NAMES}
    for name in re.findall(r"studies\.(\w+) ", commands):
        assert (ROOT / "studies" / f"{name}.py").is_file()


def test_numbers_of_the_report_are_those_of_the_tables(evaluated: Path):
    """Calls and right verdicts, counted again from the files."""
    folder = DataFolder(base_dir=str(evaluated))
    read = read_report_data(folder, ReportNames((), TEST_SETS, SYSTEMS, RUNS))
    assert read.calls is not None
    assert read.verdicts is not None
    for system in SYSTEMS:
        predicted = folder.read(f"predictions/fever/{system.key}")
        (row,) = read.calls.filter(system=system.key).to_dicts()
        counted = (row["claims"], row["calls"], row["seconds"])
        assert (predicted.height, predicted.height, 1.5) == counted
    policy = read.verdicts.filter(system=SYSTEMS[1].key)
    assert [0.97] * policy.height == policy["confidence"].to_list()
    assert policy.height == folder.read(f"predictions/fever/{SYSTEMS[1].key}").height
    assert policy["right"].sum() == -(-policy.height // 2)
    assert read.verdicts.filter(system=SYSTEMS[0].key).is_empty()


def test_a_verifiers_confidence_is_that_of_its_verdict(evaluated: Path, tmp_path: Path):
    """P(Supported) 0.2 is a confidence of 0.8 in Refuted."""
    for part in ("benchmark", "predictions", "stage_runs"):
        shutil.copytree(evaluated / part, tmp_path / part)
    folder, key = DataFolder(base_dir=str(tmp_path)), f"predictions/fever/{SYSTEMS[0].key}"
    scored = folder.read(key).with_columns(support_score=pl.lit(0.2))
    write_parquet(scored, tmp_path / f"{key}.parquet")
    read = read_report_data(folder, ReportNames((), TEST_SETS, SYSTEMS[:1], ()))
    assert read.verdicts is not None
    assert {0.2: True, 0.8: True} == dict(read.verdicts.select("confidence", "right").iter_rows())
    assert scored.height == read.verdicts.height


def test_an_empty_folder_gives_a_page_that_names_all_of_it(tmp_path: Path):
    """The report never fails for want of a table; metadata says what is missing.

    Curves without an outcome are those of a run that has not ended; a damaged table is named.
    """
    result = materialize(tmp_path)
    (made,) = result.asset_materializations_for_node("report")
    page = report_html_path(tmp_path)
    missing = report_sections(ReportData())
    assert {HTML, MARKDOWN} == {path.name for path in page.parent.iterdir()}
    assert (page.as_uri(), str(page)) == (made.metadata["page"].value, made.metadata["path"].value)
    assert ", ".join(one.title for one in missing) == made.metadata["missing"].value
    assert len(missing) + 1 == page.read_text("utf-8").count("Next: ")
    (trained,) = run_data().trained
    write_parquet(trained.curves, tmp_path / "policy/tiny/curves.parquet")
    folder = DataFolder(base_dir=str(tmp_path))
    read = read_report_data(folder, ReportNames((), TEST_SETS, SYSTEMS, ("other", *RUNS)))
    (found,) = read.trained
    assert ("tiny", 0, "") == (found.name, found.steps, found.engine)
    (section,) = [one for one in report_sections(read) if one.key == "training-tiny"]
    assert "2 optimizer steps." == section.sentence
    write_parquet(LEADERBOARD.empty().drop("score"), tmp_path / "leaderboard.parquet")
    with pytest.raises(SourceFileError, match=r"leaderboard\.parquet"):
        read_report_data(folder, ReportNames((), TEST_SETS, SYSTEMS, RUNS))


def test_figures_are_previewed_on_the_assets_page(evaluated: Path):
    """Each as an image in the materialization; without traces the page says how to make them.

    Pages, traces and figures have the same bytes where no table changed; nothing else is left.
    """
    before = dict(digests(evaluated / FOLDER))
    (made,) = materialize(evaluated, traces=0).asset_materializations_for_node("report")
    pictures = {name for name, one in made.metadata.items() if "data:image/png" in str(one.value)}
    studies = {"study-1-rewards", "study-1-rewards_curves", "study-2-growth"}
    assert {"leaderboard", "comparison", "reliability", "cost"} | studies == pictures
    assert not (evaluated / FOLDER / TRACES).exists()
    assert "No traces yet" in report_html_path(evaluated).read_text("utf-8")
    (evaluated / FOLDER / "figures/stale.svg").write_text("of an earlier run")
    assert materialize(evaluated).success
    assert before == dict(digests(evaluated / FOLDER))
    assert [FOLDER] == [path.name for path in evaluated.iterdir() if FOLDER in path.name]


@in_chromium
@pytest.mark.parametrize("width", [480, 1280])
def test_a_browser_shows_the_page_from_disk(evaluated: Path, width: int):
    """Its own policy blocks nothing of it, every figure is drawn, and nothing is cut off.

    A study's table, which is wider than a telephone, is read whole by scrolling within it.
    """
    said: list[str] = []
    with opened_browser() as browser:
        page = browser.new_page(viewport={"width": width, "height": 900})
        page.on("console", lambda message: said.append(message.text))
        page.goto(report_html_path(evaluated).as_uri())
        for one in page.query_selector_all("details"):
            one.evaluate("one => { one.open = true }")
        widths = page.evaluate("[...document.images].map(one => one.naturalWidth)")
        wide = page.evaluate("document.documentElement.scrollWidth")
        right = page.evaluate("getComputedStyle(document.querySelector('td.right')).textAlign")
        study = page.locator("#study-1-rewards .table").first
        names = study.locator("tr > :first-child").all_inner_texts()
        study.evaluate("one => { one.scrollLeft = one.scrollWidth }")
        end = study.locator("td").last.bounding_box()
        page.click("text=Every question, answer and verdict")
        page.get_by_text("traces", exact=False).first.wait_for()
    assert [] == said
    assert widths[:4] == [one for one in widths[:4] if one > 0]
    assert wide <= width
    assert right == "right"
    assert [one.title for one in REWARDS.variants] == names[1:]
    assert end is not None
    assert end["x"] + end["width"] <= width


# The study of selectors

CHOSEN = {"selectors": ["facility_location", "k_means", "random"], "seeds": 2}
PLACES = ["Oslo", "Paris", "Lima", "Quito"]
THINGS = ["bridge", "opera", "harbour", "tower", "museum", "school"]


def pool() -> pl.DataFrame:
    """24 claims of two sources and both labels."""
    rows = [
        example_row(
            claim=f"The {thing} of {place} opened in {1880 + 7 * number}.",
            label=["Supported", "Refuted"][number % 2],
            source=["hover", "wice"][place in PLACES[:1]],
            native_id=f"{place} {thing}",
        )
        for place in PLACES
        for number, thing in enumerate(THINGS)
    ]
    return frame_of(SILVER_DECOMPOSED, rows)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dg.ExecuteInProcessResult]:
    data = tmp_path_factory.mktemp("data")
    write_parquet(pool(), data / "silver_decomposed.parquet")
    done = dg.materialize(
        [selectors, dg.AssetSpec("silver_decomposed")],
        selection=[selectors],
        resources=resources(data),
        run_config={"ops": {"study__selectors": {"config": CHOSEN}}},
    )
    return data, done


def test_the_table_and_its_figure_are_on_disk_with_the_engine_named(
    made: tuple[Path, dg.ExecuteInProcessResult],
):
    """A row for each run and the paper's three, each under what made its vectors."""
    data, done = made
    assert done.success
    table = SELECTOR_STUDY.conform(DataFolder(base_dir=str(data)).read("study/selectors"))
    here = table.filter(origin="here")
    assert ["facility_location", *["k_means"] * 2, *["random"] * 2] == here["selector"].to_list()
    assert all(engine.startswith("minilm") for engine in here["engine"])
    assert {24} == set(here["pool"])
    assert 3 == table.filter(origin="paper").height
    assert (here["core_seconds"] >= 0).all()
    drawn_as = {path.name for path in (data / STUDIES).iterdir()}
    assert {f"selectors.{end}" for end in ("png", "svg", "txt")} == drawn_as
    (study,) = read_studies(data)
    assert "selectors" == study.name
    assert study.drawn.svg.lstrip().startswith(b"<?xml")
    assert "of 24 claims under the same quotas" in study.sentence
    assert "with 2 seeds; vectors by minilm" in study.sentence
    (event,) = done.get_asset_materialization_events()
    metadata = event.materialization.metadata
    assert "data:image/png" in str(metadata["figure"].value)
    assert "farthest point | text-embedding-3-large" in str(metadata["selectors"].value)


def test_no_other_job_includes_a_study():
    """A study runs only where it is named, by the job of studies or by itself."""
    graph = defs.resolve_asset_graph()
    studies = {key for key in graph.get_all_asset_keys() if key.path[0] == "study"}
    assert {"studies"} == {graph.get(key).group_name for key in studies}
    jobs = {job.name: job for job in defs.resolve_all_job_defs()}
    holding = {
        name for name, job in jobs.items() if studies & set(job.asset_layer.selected_asset_keys)
    }
    assert {"studies"} == holding - {"__ASSET_JOB"}
    behind = dg.AssetSelection.groups("funnel", "report").upstream().resolve(graph)
    assert not studies & behind


def test_a_table_shows_median_and_range_of_seeds_and_what_the_paper_lacks():
    """Of one run the figure alone; null is a dash; equal inputs draw equal bytes."""
    frame, embedder = pool(), BagOfWordsEmbedder()
    vectors = unit_rows(embedder.embed(frame["claim"].to_list()), frame.height)
    chosen = SelectorStudySettings.model_validate({**CHOSEN, "seeds": 3})
    compared = compare_selectors(vectors, frame, chosen, embedder.engine, CLOCKS)
    lines = selectors_markdown(compared.table).splitlines()[2:]
    rows = [line.strip("| ").split(" | ") for line in lines]
    named = {tuple(cells[:2]): cells[2:] for cells in rows}
    bins = compared.table.filter(selector="random")["bins"].sort().to_list()
    shown = named["random", "bag-of-words"][0]
    low, middle, high = (f"{one:.1f}" for one in bins)
    assert shown == (middle if low == high else rf"{middle} \({low} to {high}\)")
    assert ["66.6", "0.467", "0.653", "7.6", "3.28", "–", "–", "–", "–", "23.70", "–"] == named[
        "facility location", r"text-embedding-3-large \(paper\)"
    ]
    assert drawn(selectors_figure(compared)) == drawn(selectors_figure(compared))
    assert "No selector was run." == selectors_sentence(compared.table.filter(origin="paper"))


# The tiny judge

pytestmark = pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing` is deprecated")
RECIPE = Experiment(
    name="mine", title="Without diversity", rewards=RewardSettings(weights={"diversity": 0.0})
)
ASSETS = [*JUDGE_ASSETS, tiny_judge_heads_asset(None)]


@pytest.fixture(scope="module")
def instance() -> Iterator[dg.DagsterInstance]:
    with dg.instance_for_test() as made:
        yield made


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data folder with a run judged by words, and one by a tiny judge, which has no teacher."""
    folder, tiny = tmp_path_factory.mktemp("data"), WordJudge()
    tiny.engine = "tiny_judge:x"
    write_run(folder, WordJudge(), rollouts(), RECIPE)
    write_run(folder, tiny, rollouts(each=3), Experiment(name="mine_classifiers", title=""))
    return folder


def distil(
    data: Path, instance: dg.DagsterInstance, keys: list[str], **config: object
) -> dg.ExecuteInProcessResult:
    """``config`` by the asset's op."""
    worker, encoder = "dagster_project.worker", str(data / "encoder")
    trainer = PolicyTrainerResource(module=worker, encoder=encoder, grace_s=10)
    return dg.materialize(
        ASSETS,
        selection=keys,
        resources=resources(data) | {"policy_trainer": trainer},
        instance=instance,
        run_config={"ops": {name: {"config": value} for name, value in config.items()}},
        raise_on_error=False,
    )


def test_the_whole_path_from_rulings_to_rewards(data: Path, instance: dg.DagsterInstance):
    """Heads learn the stored rulings in a process of their own; tables and figure name engines."""
    tiny_modernbert(data / "encoder")
    shares = {"teacher": "words", "test_share": 0.25, "dev_share": 0.25}
    ops = {"judge_distillation": shares, "tiny_judge_heads": QUICK.model_dump()}
    result = distil(data, instance, ["*study/judge_rewards"], **ops)
    assert result.success
    engine = TinyJudge(data / "tiny_judge").engine
    agreement = JUDGE_AGREEMENT.conform(pl.read_parquet(data / "tiny_judge_agreement.parquet"))
    named = (agreement["head"].n_unique(), {*agreement["teacher"]}, {*agreement["engine"]})
    assert (8, {"words:1"}, {engine}) == named
    assert 0.8 < agreement.filter(metric="agreement")["value"].mean()
    study = JUDGE_STUDY.conform(pl.read_parquet(data / "study/judge_rewards.parquet"))
    assert {"coverage", "necessity", "joint", "total"} == {*study["reward"]}
    held_out = pl.read_parquet(data / "judge_distillation.parquet").filter(split="test")
    assert [2 * held_out["claim_id"].n_unique()] == study["rollouts"].unique().to_list()
    (made,) = result.asset_materializations_for_node("study__judge_rewards")
    assert "rule_judge:" in str(made.metadata["rulings a second"].value)
    assert "85.8" in str(made.metadata["paper"].value)
    said = (data / "studies/judge_rewards.txt").read_text("utf-8")
    assert engine in said
    assert "words:1" in said
    assert (data / "studies/judge_rewards.svg").read_bytes().startswith(b"<?xml")


def test_the_teacher_is_the_profiles_judge_or_the_one_that_is_named(
    data: Path, tmp_path: Path, instance: dg.DagsterInstance
):
    """Rulings of another judge are not mixed in, but counted; without a run, or an encoder, why."""
    distilled = distil(data, instance, ["judge_distillation"])
    untrained = distil(tmp_path, instance, ["judge_distillation"])
    config = {"encoder": str(data / "no_encoder"), **QUICK.model_dump()}
    heads = distil(data, instance, ["tiny_judge_heads"], tiny_judge_heads=config)
    for result, words in (
        (distilled, ("'rule_judge:", "words:1 (")),
        (untrained, ("train a policy first",)),
        (heads, ("no_encoder cannot be loaded",)),
    ):
        assert not result.success
        (failed,) = result.get_step_failure_events()
        said = str(failed.step_failure_data.error)
        assert [] == [word for word in words if word not in said], said


def test_a_tiny_judge_teaches_nobody(tmp_path: Path):
    """Nor does one of two judges whose names both contain the word."""
    data = DataFolder(base_dir=str(tmp_path))
    made = rollouts(6)
    for number, engine in enumerate(("tiny_judge:x", "words:1", "words:2")):
        judge = WordJudge()
        judge.engine = engine
        write_run(tmp_path, judge, made, Experiment(name=f"run_{number}", title=""))
    runs = judged_runs(data)
    assert "words:1" == rulings_of(runs, "words:1")[0]
    for word, said in (("tiny", "no judge"), ("words", "several judges")):
        with pytest.raises(Exception, match=said):
            rulings_of(runs, word)
    with pytest.raises(Exception, match="no training run 'other'"):
        judged_runs(data, ["other"])
    with pytest.raises(Exception, match="decomposerl train tiny"):
        judged_runs(DataFolder(base_dir=str(tmp_path / "empty")))
