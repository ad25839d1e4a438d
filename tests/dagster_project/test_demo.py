"""The demo and its jobs."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import dagster as dg
import polars as pl
import pytest
import yaml

from dagster_project import demo
from dagster_project.definitions import defs
from dagster_project.demo import FILE, FinishedParts, baselines, policy
from dagster_project.job_runs import JobRuns, read_config
from dagster_project.jobs import EXAMPLES, JOB_NAMES
from dagster_project.run_progress import RunProgress
from dagster_project.terminal import Terminal
from decomposerl.baselines.catalogue import METHODS
from decomposerl.schemas import PREDICTIONS
from decomposerl.training.curves import MEASURE_NAMES
from decomposerl.training.experiment import BASE_POLICY, CLEAN_POLICY
from decomposerl.training.experiments import experiment
from environment import settings_of
from resources.store.parquet import DataFolder, write_parquet
from resources.training.process import TrainingOutcome
from resources.training.run_inputs import policy_folder
from resources.training.run_store import RunFolder, write_outcome
from toy_corpus import corpus

REPORT = "write_report"
SPLITS = ("held_out_sampled", "held_out_greedy")
ASKED = [("funnel", "demo.yaml"), ("train", "demo_train.yaml"), ("train", "look.yaml")]
ASKED += [("evaluate", f"{name}.yaml") for name in ("demo_evaluate", "evaluate_short")]


def keys_of(job: str) -> set[str]:
    layer = defs.resolve_job_def(job).asset_layer
    return {key.to_user_string() for key in layer.selected_asset_keys}


def test_each_file_is_a_configuration_of_its_job():
    """By Dagster's own reading; the demo trains with fewer steps and claims than its recipe."""
    for job, file in ASKED:
        assert dg.validate_run_config(defs.resolve_job_def(job), read_config(file)), file
    (settings,) = read_config("demo_train.yaml")["ops"].values()
    recipe = experiment(demo.RECIPE)
    assert ["steps", "held_out_claims"] == list(settings["config"])
    assert 0 < settings["config"]["steps"] < recipe.optimization.steps
    assert 0 < settings["config"]["held_out_claims"] < recipe.held_out.claims


@pytest.mark.parametrize("job", JOB_NAMES)
def test_a_job_with_settings_has_an_example_that_stands(job: str):
    """On the job's page; Dagster accepts it, it changes something; each setting is described."""
    definition = defs.resolve_job_def(job)
    nodes = [node for node in definition.all_node_defs if fields_of(node)]
    if job in EXAMPLES:
        assert EXAMPLES[job] in str(definition.description)
        assert dg.validate_run_config(definition, yaml.safe_load(EXAMPLES[job]))
        assert [node for node in nodes if node.name in EXAMPLES[job]]
    else:
        assert [] == [node.name for node in nodes]
    every = ((node.name, *field) for node in nodes for field in fields_of(node).items())
    assert [] == [(node, name) for node, name, field in every if not field.description]


def fields_of(node: object) -> dict[str, dg.Field]:
    schema = getattr(node, "config_schema", None)
    kind = schema.as_field().config_type if schema is not None else None
    return dict(getattr(kind, "fields", {}))


def test_the_jobs_make_every_asset():
    """Each belongs to one job, save what is read once more; a part has no settings of the rest."""
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
    chosen = {dg.AssetKey("deduplicated")}
    part = defs.resolve_job_def("funnel").get_subset(
        asset_selection=chosen, asset_check_selection=set[dg.AssetCheckKey]()
    )
    for given in ({}, {"ops": {"deduplicated": {"config": {"cosine": 0.9}}}}):
        resolved = dg.validate_run_config(part, given)["ops"]
        assert ["deduplicated"] == list(resolved)
        assert {} == given or 0.9 == resolved["deduplicated"]["config"]["cosine"]


def test_the_demo_asks_every_baseline_and_its_policy_on_a_part_of_every_test_set():
    """Each method once, as published; none is asked whole; each part has both labels."""
    for _, file in (one for one in ASKED if one[0] == "evaluate"):
        asked = read_config(file)["ops"]
        predicted = {key for key in keys_of("evaluate") if key.startswith("predictions/")}
        assert {key.replace("/", "__") for key in predicted} == set(asked)
        assert all(settings["config"]["limit"] >= 2 for settings in asked.values())
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
    profile = settings_of(data)
    return demo.Demo(profile, runs, RunProgress(data, terminal=terminal), terminal)


def test_checks_of_predictions_run_once(tmp_path: Path):
    """They are steps of every test set; what they show at the end is the last system's."""
    for ranks in (False, True):
        runs = NotedRuns(ranks=ranks)
        data = tmp_path / str(ranks)
        assert ranks == demo_of(data, runs)._evaluate()
        evaluations = [("evaluate", key, False) for key in baselines()]
        after = [("rank", None, True), ("catalogue", None, True)]
        assert [*evaluations, ("evaluate", policy(), True), *after[: 1 + ranks]] == runs.made


def test_what_was_made_is_not_made_again(tmp_path: Path):
    """A second demo makes what changed and what comes after it, the report too; --again all."""
    changed = f"evaluate/{baselines()[-1]}"
    (tmp_path / "evaluate").mkdir()

    def made(demonstrated: demo.Demo | None = None) -> list[tuple[str, str | None]]:
        runs = NotedRuns()
        last = demonstrated or demo_of(tmp_path, runs)
        last.runs = runs
        assert last._evaluate()
        assert last._report()
        return [(job, part) for job, part, _ in runs.made]

    whole = len(baselines()) + 4
    assert whole == len(made())
    assert [] == made()
    (tmp_path / f"{changed}.parquet").write_bytes(b"another run's")
    after = [baselines()[-1], policy(), None, None, None]
    assert after == [part for _, part in made()]
    (tmp_path / "rank.parquet").write_bytes(b"another ranking")
    assert (REPORT, None) in made()
    forgetful = demo_of(tmp_path, NotedRuns())
    forgetful.finished.forget()
    assert whole == len(made(forgetful))


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
        runs = JobRuns(settings_of(tmp_path), instance)
        for checks in (False, True):
            assert runs.run("rank", log_level="ERROR", checks=checks)
        logs = [instance.all_logs(run.run_id) for run in instance.get_runs()]
    for kind, times in (("ASSET_CHECK_EVALUATION", [1, 0]), ("ASSET_MATERIALIZATION", [2, 2])):
        events = [[one.dagster_event for one in log if one.dagster_event] for log in logs]
        assert times == [[e.event_type_value for e in log].count(kind) for log in events]


def test_a_demo_that_fails_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """A corpus that cannot be read ends it with 1, before anything is trained."""
    profile = settings_of(tmp_path / "data", corpus(tmp_path / "corpora", claims=3))
    (tmp_path / "corpora/toy/claims.jsonl").write_bytes(b"\xff\xfe{")
    with dg.instance_for_test() as instance:
        assert 1 == demo.show(profile, instance)
    assert "the run failed" in capsys.readouterr().out
    assert not (profile.paths.data / "base_policy").exists()


BEFORE = {f"{split}/{name}": 0.25 for split in SPLITS for name in MEASURE_NAMES}


@pytest.mark.parametrize("after", [0.75, None])
def test_what_training_changed_is_a_few_lines(after: float | None, tmp_path: Path):
    """Rewards of sampled claims and the accuracy of greedy ones, with their differences."""
    folder = DataFolder(base_dir=str(tmp_path))
    measured = {} if after is None else dict.fromkeys(BEFORE, after)
    run = RunFolder(policy_folder(folder, "tiny"))
    run.path.mkdir(parents=True)
    outcome = TrainingOutcome(20, 0, "", run.adapter, run.curves, BEFORE, measured, {}, {}, {})
    write_outcome(run, replace(outcome, judge={"engine": "rules"}))
    page = demo.training_page(folder, "tiny")
    lines = [line for line in page.splitlines() if "0.250" in line]
    assert len(demo._HELD_OUT) + 1 == len(lines)
    assert all(("+0.500" in line) == (after is not None) for line in lines)
    assert "20 steps; judge rules" == page.splitlines()[-1]


def prediction(claim_id: str, verdict: str, questions: int, answer: str) -> dict[str, Any]:
    """What the policy said of a claim."""
    cycle = {"question": "When?", "answer": answer, "thought": ""}
    said = {"claim_id": claim_id, "benchmark": "fever", "system": policy(), "verdict": verdict}
    trace = {"opening": "", "cycles": [cycle] * questions, "verdict": verdict}
    said |= {"confidence_raw": 0.798, "confidence_normalised": 0.81, "confidence_bound": False}
    return dict.fromkeys(PREDICTIONS.schema) | said | {"trace": trace, "questions": questions}


def test_the_shown_claim_is_right_and_rests_on_evidence(tmp_path: Path):
    """A wrong verdict is never shown; of the right ones the one with most answers in evidence."""
    folder = DataFolder(base_dir=str(tmp_path))
    evidence = "The bridge opened in 1871. It is long."
    same = {"evidence": evidence, "label": "Supported"}
    claims = [{"claim_id": key, "claim": f"claim {key}"} | same for key in "abc"]
    rows = [
        prediction("a", "Refuted", 3, "The bridge opened in 1871."),
        prediction("b", "Supported", 2, "I don't know."),
        prediction("c", "Supported", 1, "The bridge opened in 1871."),
    ]
    assert demo.shown_claim(folder, policy()) is None
    write_parquet(pl.DataFrame(rows), tmp_path / f"predictions/fever/{policy()}.parquet")
    write_parquet(pl.DataFrame(claims), tmp_path / "benchmark/fever.parquet")
    shown = demo.shown_claim(folder, policy())
    assert shown is not None
    assert ("c", "Supported", "claim c") == (shown.claim_id, shown.verdict, shown.claim)
    assert ("The bridge opened in 1871.",) == shown.questions[0].evidence
    assert shown.confidence is not None
    assert (0.798, 0.81) == (shown.confidence.raw, shown.confidence.normalised)


@pytest.mark.parametrize("job", JOB_NAMES)
def test_a_launchpad_opens_with_every_setting_and_its_default(job: str):
    """Dagster accepts it as it is, and running it is running the job without a configuration.

    A part of every test set may be asked, so evaluations have too many settings to be shown.
    """
    definition = defs.resolve_job_def(job)
    shown = definition.run_config or {}
    if definition.partitions_def is not None:
        (key, *_) = definition.partitions_def.get_partition_keys()
        shown = definition.get_run_config_for_partition_key(key)
    fields = {node.name: set(fields_of(node)) for node in definition.all_node_defs}
    settings = {name: names for name, names in fields.items() if names}
    given = {op: set(one["config"]) for op, one in shown.get("ops", {}).items()}
    assert ({} if job.startswith("evaluate") else settings) == given
    assert set(shown) <= {"ops"}
    defaults, prefilled = (dg.validate_run_config(definition, one) for one in ({}, shown))
    assert defaults == prefilled


# The installation
