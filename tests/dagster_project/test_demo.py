"""The demo: its jobs make the whole graph, its files fit, training and evaluation are printed."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import dagster as dg
import polars as pl
import pytest
import yaml

from dagster_project import demo, demo_pages
from dagster_project.definitions import defs
from dagster_project.demo import baselines, policy
from dagster_project.finished_parts import FILE, FinishedParts
from dagster_project.job_runs import JobRuns, read_config
from dagster_project.jobs import EXAMPLES, JOB_NAMES
from dagster_project.profiles import Profile
from dagster_project.run_progress import RunProgress
from dagster_project.terminal import Terminal
from decomposerl.baselines.catalogue import METHODS
from decomposerl.training.curves import MEASURE_NAMES
from decomposerl.training.experiment import BASE_POLICY, CLEAN_POLICY
from decomposerl.training.experiments import experiment
from resources.store.parquet import DataFolder, write_parquet
from resources.training.process import TrainingOutcome
from resources.training.run_inputs import policy_folder
from resources.training.run_store import RunFolder, write_outcome
from toy_corpus import corpus

REPORT = "write_report"
SPLITS = ("held_out_sampled", "held_out_greedy")
ASKED = [
    ("funnel", "demo.yaml"),
    ("train", "demo_train.yaml"),
    ("train", "look.yaml"),
    ("evaluate", "demo_evaluate.yaml"),
    ("evaluate", "evaluate_short.yaml"),
]


def keys_of(job: str) -> set[str]:
    layer = defs.resolve_job_def(job).asset_layer
    return {key.to_user_string() for key in layer.selected_asset_keys}


@pytest.mark.parametrize(("job", "file"), ASKED)
def test_each_file_is_a_configuration_of_its_job(job: str, file: str):
    """Every asset and setting that a file names exists, by Dagster's own reading."""
    assert dg.validate_run_config(defs.resolve_job_def(job), read_config(file))


@pytest.mark.parametrize("job", JOB_NAMES)
def test_a_job_with_settings_has_an_example_that_stands(job: str):
    """It is on the job's page, Dagster accepts it, and it changes something of the job."""
    definition = defs.resolve_job_def(job)
    nodes = definition.all_node_defs
    settings = [node for node in nodes if fields_of(node) and node.name in EXAMPLES.get(job, "")]
    if job in EXAMPLES:
        assert EXAMPLES[job] in str(definition.description)
        assert dg.validate_run_config(definition, yaml.safe_load(EXAMPLES[job]))
        assert settings
    else:
        assert [] == [node.name for node in nodes if fields_of(node)]


def test_every_setting_of_an_asset_is_described():
    """The launchpad shows the description beside the field."""
    assets = [one for one in defs.assets or [] if isinstance(one, dg.AssetsDefinition)]
    bare = {
        f"{asset.key.to_user_string()}.{name}"
        for asset in assets
        for name, field in fields_of(asset.op).items()
        if not field.description
    }
    assert set() == bare


def fields_of(node: object) -> dict[str, dg.Field]:
    schema = getattr(node, "config_schema", None)
    kind = schema.as_field().config_type if schema is not None else None
    return dict(getattr(kind, "fields", {}))


def test_the_jobs_make_every_asset():
    """Each asset belongs to one job; the catalogue's and the test sets are read once more."""
    made = {name: keys_of(name) for name in JOB_NAMES}
    every = {key.to_user_string() for key in defs.resolve_asset_graph().get_all_asset_keys()}
    again = {name: made.pop(name) for name in ("test_sets", "catalogue")}
    assert every == set().union(*made.values())
    assert len(every) == sum(map(len, made.values()))
    assert {BASE_POLICY, CLEAN_POLICY, "training_claims_random"} == made["training_inputs"]
    assert {"policy"} == made["train"]
    assert {"leaderboard", "comparison"} == made["rank"]
    assert {"report"} == made["write_report"]
    assert {"attrition", "chat_replies", "catalog"} == again["catalogue"] <= made["funnel"]
    assert again["test_sets"] == {key for key in made["funnel"] if key.startswith("benchmark/")}


def test_the_demo_trains_a_part_of_its_recipe():
    """Steps and held-out claims are fewer than the recipe's, all else is the recipe's."""
    (settings,) = read_config("demo_train.yaml")["ops"].values()
    recipe = experiment(demo.RECIPE)
    assert ["steps", "held_out_claims"] == list(settings["config"])
    assert 0 < settings["config"]["steps"] < recipe.optimization.steps
    assert 0 < settings["config"]["held_out_claims"] < recipe.held_out.claims


@pytest.mark.parametrize("file", [file for job, file in ASKED if job == "evaluate"])
def test_a_part_of_every_test_set_is_asked(file: str):
    """No test set is forgotten, which would be asked whole; each part has both labels."""
    asked = read_config(file)["ops"]
    assert set(asked) == {
        key.replace("/", "__") for key in keys_of("evaluate") if key.startswith("predictions/")
    }
    assert all(settings["config"]["limit"] >= 2 for settings in asked.values())


def test_the_demo_evaluates_every_baseline_and_its_policy():
    """Each method once, as published, and the policy."""
    assert [method.name for method in METHODS] == [one.partition("-")[0] for one in baselines()]
    assert [] == [one for one in baselines() if "single_call" in one]
    assert "decomposerl-tiny" == policy()


@dataclass
class NotedRuns(JobRuns):
    """Notes each run as job, partition and whether it has checks; ranking may fail."""

    ranks: bool = True
    made: list[tuple[str, str | None, bool]] = field(default_factory=list)

    def run(
        self,
        job: str,
        config: Mapping[str, Any] | None = None,
        partition: str | None = None,
        log_level: str = "INFO",
        *,
        checks: bool = True,
    ) -> bool:
        """Whether it succeeds; the policy alone has a configuration."""
        assert bool(config) == (partition == policy())
        assert log_level == "INFO"
        self.made.append((job, partition, checks))
        return self.ranks or job != "rank"

    def keys(self, job: str) -> set[str]:
        """One asset of each job."""
        return {job}


def demo_of(data: Path, runs: NotedRuns) -> demo.Demo:
    terminal = Terminal(quiet=True)
    profile = Profile("embedded", None, data)
    return demo.Demo(profile, runs, RunProgress(data, terminal=terminal), terminal)


@pytest.mark.parametrize("ranks", [True, False])
def test_checks_of_predictions_run_once(ranks: bool, tmp_path: Path):  # noqa: FBT001 - parametrized
    """They are steps of every test set; what they show at the end is the last system's."""
    runs = NotedRuns(ranks=ranks)
    assert ranks == demo_of(tmp_path, runs)._evaluate()
    evaluations = [("evaluate", key, False) for key in baselines()]
    after = [("rank", None, True), ("catalogue", None, True)]
    assert [*evaluations, ("evaluate", policy(), True), *after[: 1 + ranks]] == runs.made


def test_what_was_made_is_not_made_again(tmp_path: Path):
    """A second demo makes what changed and what comes after it, and --again makes all."""
    changed = f"evaluate/{baselines()[-1]}"
    (tmp_path / "evaluate").mkdir()
    assert demo_of(tmp_path, NotedRuns())._evaluate()
    again = NotedRuns()
    assert demo_of(tmp_path, again)._evaluate()
    assert [] == again.made
    (tmp_path / f"{changed}.parquet").write_bytes(b"another run's")
    last = NotedRuns()
    assert demo_of(tmp_path, last)._evaluate()
    assert [baselines()[-1], policy(), None, None] == [part for _, part, _ in last.made]
    whole, forgetful = NotedRuns(), demo_of(tmp_path, NotedRuns())
    forgetful.runs = whole
    forgetful.finished.forget()
    assert forgetful._evaluate()
    assert len(baselines()) + 3 == len(whole.made)


def test_the_report_follows_what_it_shows(tmp_path: Path):
    """It is made once, and again where a part before it was."""
    for changes, made in ((False, [REPORT]), (False, []), (True, [REPORT])):
        runs = NotedRuns()
        last = demo_of(tmp_path, runs)
        if changes:
            (tmp_path / "rank.parquet").write_bytes(b"another ranking")
        assert last._evaluate()
        assert last._report()
        assert made == [job for job, _, _ in runs.made if job == REPORT]


def test_a_part_is_made_again_where_it_may_differ(tmp_path: Path):
    """Another configuration, profile, file of a part before it, or a damaged record."""
    (tmp_path / "table").mkdir()
    table = tmp_path / "first.parquet"
    table.write_bytes(b"1")

    def has(profile: str = "p", settings: Mapping[str, Any] | None = None) -> list[bool]:
        finished = FinishedParts(tmp_path, profile)
        first = finished.has("first", settings or {}, {"first"})
        return [first, finished.has("second/part", {}, {"table"})]

    finished = FinishedParts(tmp_path, "p")
    assert not finished.has("first", {}, {"first"})
    finished.add("first", {}, {"first"})
    finished.add("second/part", {}, {"table"})
    assert [True, True] == has()
    assert [False, False] == has(profile="other")
    assert [False, False] == has(settings={"limit": 2})
    (tmp_path / "table/part.parquet").write_bytes(b"2")
    assert [True, False] == has()
    (tmp_path / "table/part.parquet").unlink()
    table.write_bytes(b"12")
    assert [False, False] == has()
    (tmp_path / FILE).write_text("[]")
    assert [False, False] == has()


def test_a_job_can_be_run_without_its_checks(tmp_path: Path):
    """Its assets are made all the same, and no check is recorded."""
    with dg.instance_for_test() as instance:
        runs = JobRuns(Profile("embedded", None, tmp_path), instance)
        for checks in (False, True):
            assert runs.run("rank", log_level="ERROR", checks=checks)
        logs = [instance.all_logs(run.run_id) for run in instance.get_runs()]
    kinds = [[one.get_dagster_event().event_type_value for one in log if one.is_dagster_event]
             for log in logs]  # fmt: skip
    assert [2, 0] == [events.count("ASSET_CHECK_EVALUATION") for events in kinds]
    assert [2, 2] == [events.count("ASSET_MATERIALIZATION") for events in kinds]


def test_a_job_without_its_inputs_fails_and_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    """Nothing is trained where the funnel left nothing."""
    profile = Profile("embedded", None, tmp_path)
    with dg.instance_for_test() as instance:
        done = JobRuns(profile, instance).run("train", read_config("demo_train.yaml"), demo.RECIPE)
    assert not done
    assert "training_claims.parquet is not there" in capsys.readouterr().err
    assert [] == list(tmp_path.glob("policy*"))


def test_a_demo_that_fails_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """A corpus that cannot be read ends it with 1, before anything is trained."""
    profile = Profile("embedded", corpus(tmp_path / "corpora", claims=3), tmp_path / "data")
    (tmp_path / "corpora/toy/claims.jsonl").write_bytes(b"\xff\xfe{")
    with dg.instance_for_test() as instance:
        assert 1 == demo.show(profile, instance)
    assert "the run failed" in capsys.readouterr().out
    assert not (profile.data / "base_policy").exists()


OUTCOME = TrainingOutcome(
    steps=20,
    resumed_from=0,
    stopped="",
    adapter=Path("adapter"),
    curves=Path("curves.parquet"),
    before={f"{split}/{name}": 0.25 for split in SPLITS for name in MEASURE_NAMES},
    after={},
    seconds={},
    judge={"engine": "rules"},
    versions={},
)


@pytest.mark.parametrize("after", [0.75, None])
def test_what_training_changed_is_a_few_lines(after: float | None, tmp_path: Path):
    """Rewards of sampled claims and the accuracy of greedy ones, with their differences."""
    measured = {} if after is None else dict.fromkeys(OUTCOME.before, after)
    run = RunFolder(policy_folder(folder_of(tmp_path), "tiny"))
    run.path.mkdir(parents=True)
    outcome = replace(OUTCOME, after=measured, adapter=run.adapter, curves=run.curves)
    write_outcome(run, outcome)
    page = demo_pages.training_page(folder_of(tmp_path), "tiny")
    lines = [line for line in page.splitlines() if "0.250" in line]
    assert len(demo_pages._HELD_OUT) + 1 == len(lines)
    assert all(("+0.500" in line) == (after is not None) for line in lines)
    assert "20 steps; judge rules" == page.splitlines()[-1]


def folder_of(data: Path) -> DataFolder:
    return DataFolder(base_dir=str(data))


def prediction(claim_id: str, verdict: str, questions: int, answer: str) -> dict[str, Any]:
    cycles = [
        {"question": f"When, {n}?", "answer": answer, "thought": ""} for n in range(questions)
    ]
    trace = {"opening": "", "cycles": cycles, "verdict": verdict}
    return {
        **dict.fromkeys(("reply", "notes", "prompt_hash"), ""),
        "claim_id": claim_id,
        "benchmark": "fever",
        "system": policy(),
        "method": "decomposerl",
        "model": "tiny",
        "protocol": "trace",
        "engine": "made up",
        "verdict": verdict,
        "parse_status": "parsed",
        "questions": questions,
        "abstentions": 0,
        "calls": 1,
        "trace": trace,
        "seed": 0,
    }


def test_the_shown_claim_is_right_and_rests_on_evidence(tmp_path: Path):
    """A wrong verdict is never shown; of the right ones the one with most answers in evidence."""
    folder = folder_of(tmp_path)
    evidence = "The bridge opened in 1871. It is long."
    claims = [
        {"claim_id": key, "claim": f"claim {key}", "evidence": evidence, "label": "Supported"}
        for key in "abc"
    ]
    rows = [
        prediction("a", "Refuted", 3, "The bridge opened in 1871."),
        prediction("b", "Supported", 2, "I don't know."),
        prediction("c", "Supported", 1, "The bridge opened in 1871."),
    ]
    assert demo_pages.shown_claim(folder, policy()) is None
    write_parquet(pl.DataFrame(rows), tmp_path / f"predictions/fever/{policy()}.parquet")
    write_parquet(pl.DataFrame(claims), tmp_path / "benchmark/fever.parquet")
    shown = demo_pages.shown_claim(folder, policy())
    assert shown is not None
    assert ("c", "Supported", "claim c") == (shown.claim_id, shown.verdict, shown.claim)
    assert ("The bridge opened in 1871.",) == shown.questions[0].evidence
