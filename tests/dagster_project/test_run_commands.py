"""``decomposerl run``, ``train`` and ``evaluate``: jobs on the instance that the UI reads."""

import re
import shlex
import shutil
import sys
from pathlib import Path

import dagster as dg
import polars as pl
import pytest
from typer.testing import CliRunner, Result

from dagster_project.cli import app
from dagster_project.profiles import use_instance
from dagster_project.stages import Stage, condensed, missing_upstream, stages_named
from decomposerl.errors import ConfigError
from evaluation_graph import write_tests
from project import PYTHONPATH, ROOT
from resources.policy_tiny.folder import CHECKPOINT
from toy_corpus import corpus
from training_graph import write_claims
from training_stand_in import STEPS

CLAIMS = 12
SOURCES = ("claims/a", "claims/b")
GRAPH = {
    stage.key: stage
    for stage in (
        Stage("claims/a", "sources", ""),
        Stage("claims/b", "sources", ""),
        Stage("filtered", "funnel", "", SOURCES, frozenset(SOURCES)),
        Stage("selected", "funnel", "", ("filtered",), frozenset({"filtered"})),
        Stage("policy", "training", "", ("selected",), frozenset({"selected"}), partitioned=True),
        Stage("table", "training", "", ("policy", "selected")),
    )
}  # fmt: skip


@pytest.fixture
def home(tmp_path: Path) -> dict[str, str]:
    """The environment of a small project: a corpus, an empty data folder, an instance."""
    (tmp_path / "home").mkdir()
    shutil.copy(ROOT / "dagster.yaml", tmp_path / "home")
    return {
        "DECOMPOSERL_CORPORA": str(corpus(tmp_path / "corpora", CLAIMS)),
        "DECOMPOSERL_DATA": str(tmp_path / "data"),
        "DAGSTER_HOME": str(tmp_path / "home"),
    }


def run(home: dict[str, str], *words: str) -> Result:
    return CliRunner(env=home).invoke(app, list(words))


def recorded(home: dict[str, str]) -> list[dg.DagsterRun]:
    """The runs of the instance, as the UI lists them."""
    with dg.DagsterInstance.from_config(home["DAGSTER_HOME"]) as instance:
        return list(instance.get_runs())


def test_a_stage_runs_on_the_instance_with_a_line_of_its_own(home: dict[str, str]):
    """Rows and seconds on the terminal, the run in the UI's history, Dagster's lines in a log."""
    done = run(home, "run", "claims/toy")
    assert 0 == done.exit_code, done.output
    line, log = done.stderr.splitlines()
    assert ["✓", "claims/toy", str(CLAIMS), "rows"] == line.split()[:4]
    assert line.endswith(" s")
    assert CLAIMS == pl.read_parquet(Path(home["DECOMPOSERL_DATA"]) / "claims/toy.parquet").height
    (made,) = recorded(home)
    assert dg.DagsterRunStatus.SUCCESS is made.status
    assert {dg.AssetKey(["claims", "toy"])} == made.asset_selection
    assert log.endswith(f"logs/{made.run_id}.log")
    assert "RUN_SUCCESS" in Path(log.partition(": ")[2]).read_text("utf-8")


def test_the_report_is_run_where_nothing_is_there_yet(home: dict[str, str]):
    """Its address is the output, so that a browser can be given it."""
    done = run(home, "run", "report")
    assert 0 == done.exit_code, done.output
    page = Path(home["DECOMPOSERL_DATA"]) / "report/report.html"
    assert [page.as_uri()] == done.stdout.splitlines()
    assert "decomposerl train RECIPE" in page.read_text("utf-8")


def test_warnings_of_a_stage_are_shown(home: dict[str, str]):
    """A corpus that is not there, without Dagster's ids before it; ``-v`` shows its events."""
    done = run(home, "run", "claims/hover")
    warning, line, _ = done.stderr.splitlines()
    assert warning.startswith("· claims/hover: ")
    assert ["✓", "claims/hover", "0", "rows"] == line.split()[:4]
    loud = run(home, "run", "claims/hover", "-v").stderr
    assert "✓ claims/hover" in loud
    assert ["RUN_SUCCESS" in one for one in (done.stderr, loud)] == [False, True]


def test_a_run_that_fails_says_why_and_where_its_log_is(home: dict[str, str]):
    """Exit code 1, one sentence; the stack trace is in the log."""
    (Path(home["DECOMPOSERL_CORPORA"]) / "toy/claims.jsonl").write_bytes(b"\xff\xfe{")
    done = run(home, "run", "claims/toy")
    assert 1 == done.exit_code
    *_, step, last = done.stderr.splitlines()
    assert step.startswith("✗ claims/toy ")
    assert "100.0% of 1 rows" in last
    log = Path(last.rpartition("(log: ")[2].rstrip(")"))
    assert "Stack Trace" in log.read_text("utf-8")
    (made,) = recorded(home)
    assert dg.DagsterRunStatus.FAILURE is made.status


def test_the_help_lists_every_stage(home: dict[str, str]):
    """Those of the reader's own corpora and of errors' commands too; none that has partitions."""
    shown = run(home, "run", "--help").stdout
    for stage in ("claims/toy", "deduplicated", "study/selectors"):
        assert re.search(rf"^ +{stage}(?:$| )", shown, re.MULTILINE), stage
    assert "predictions/" not in shown
    assert {"catalog", "leaderboard comparison"} <= set(hints())
    for words in hints():
        for word in words.split():
            assert re.search(rf"^ +{word}(?:$| )", shown, re.MULTILINE), (words, hints()[words])
    broken = CliRunner(env=home | {"DECOMPOSERL_PROFILE": "odd"}).invoke(app, ["run", "--help"])
    assert (0, True) == (broken.exit_code, "DECOMPOSERL_PROFILE is 'odd'" in broken.stderr)


def test_a_group_stands_for_its_stages():
    """Each stage once; what is missing upstream ends at what is on disk, with what needs it."""
    named = stages_named(["sources", "selected", "claims/b"], GRAPH)
    assert ["claims/a", "claims/b", "selected"] == named
    with pytest.raises(ConfigError, match="'training'"):
        stages_named(["training"], GRAPH)
    assert "sources, selected" == condensed(["claims/b", "selected", "claims/a"], GRAPH)

    def missing(key: str, *on_disk: str) -> dict[str, list[str]]:
        return missing_upstream([key], GRAPH, on_disk.__contains__)

    assert {} == missing("selected", "filtered")
    assert {"claims/b": ["filtered"], "filtered": ["selected"]} == missing("selected", "claims/a")
    assert {"selected": []} == missing("table", "filtered")


HINT = re.compile(r"decomposerl run ((?:[a-z_]+ )*[a-z_]+)(?= --|[\"'\n])")


def hints() -> dict[str, str]:
    """Every ``decomposerl run`` line with plain names in an error of the code, with its file."""
    files = (
        path
        for name in ("assets", "decomposerl", "resources")
        for path in (ROOT / name).rglob("*.py")
    )
    return {line: path.name for path in files for line in HINT.findall(path.read_text("utf-8"))}


def test_the_instance_is_that_of_make(tmp_path: Path):
    """Its folder is named by DAGSTER_HOME where that is set, and must be there."""
    shutil.copy(ROOT / "dagster.yaml", tmp_path)
    environment: dict[str, str] = {}
    assert tmp_path / ".dagster_home" == use_instance(environment, tmp_path)
    assert {"DAGSTER_HOME": str(tmp_path / ".dagster_home")} == environment
    assert (ROOT / "dagster.yaml").read_bytes() == (
        tmp_path / ".dagster_home/dagster.yaml"
    ).read_bytes()
    assert tmp_path == use_instance({"DAGSTER_HOME": str(tmp_path)})
    with pytest.raises(ConfigError, match="names no folder"):
        use_instance({"DAGSTER_HOME": str(tmp_path / "absent")})


@pytest.fixture
def training(home: dict[str, str], tmp_path: Path) -> list[str]:
    """What ``train`` needs on disk, and the option for a trainer that only plays one."""
    data = Path(home["DECOMPOSERL_DATA"])
    write_claims(data)
    shutil.copytree(CHECKPOINT, data / "base_policy")
    python = tmp_path / "python"
    path, program = shlex.quote(str(PYTHONPATH)), shlex.quote(sys.executable)
    # The words are: -m, the module, and those of the stand-in.
    python.write_text(
        f'#!/bin/sh\nshift 2\nPYTHONPATH={path} exec {program} -m training_stand_in "$@"\n'
    )
    python.chmod(0o755)
    config = tmp_path / "train.yaml"
    config.write_text(
        f"ops: {{policy: {{config: {{held_out_claims: 2, python: {python}}}}}}}", "utf-8"
    )
    return ["--config", str(config)]


def test_training_is_a_partition_of_the_policy(home: dict[str, str], training: list[str]):
    """Recipe and seed name it; the steps are shown as they come, and the adapter at the end."""
    done = run(home, "train", "tiny", "--seed", "2", "--steps", "7", *training)
    assert 0 == done.exit_code, done.output
    lines = done.stderr.splitlines()
    assert [STEPS] == [sum(f"of {STEPS}:" in line for line in lines)]
    assert any(line.startswith("✓ policy ") for line in lines)
    assert "policy/tiny-seed_2/adapter" in done.stdout
    assert "decomposerl evaluate decomposerl-tiny-seed_2" in done.stdout
    (made,) = recorded(home)
    assert ("train", "tiny-seed_2") == (made.job_name, made.tags["dagster/partition"])
    config = made.run_config["ops"]["policy"]["config"]
    assert (7, 2) == (config["steps"], config["held_out_claims"])


def test_a_dry_run_shows_its_page_and_trains_nothing(home: dict[str, str], training: list[str]):
    """The run is in the history; no adapter is named, as there is none."""
    done = run(home, "train", "tiny", "--dry-run", *training)
    assert 0 == done.exit_code, done.output
    assert "30 steps will be made" in done.stderr
    assert "" == done.stdout
    assert not (Path(home["DECOMPOSERL_DATA"]) / "policy/tiny/adapter").exists()


def test_a_training_without_its_claims_fails(home: dict[str, str]):
    """The sentence names what is missing; the run is in the history."""
    done = run(home, "train", "tiny")
    assert 1 == done.exit_code
    assert "training_claims.parquet is not there" in done.stderr.splitlines()[-1]
    assert "first: decomposerl run training_claims --upstream" in done.stderr
    assert ["train"] == [one.job_name for one in recorded(home)]


SIMPLE, COT, UNTRAINED = "simple-rules-faithful", "cot-rules-faithful", "decomposerl-tiny"


def test_systems_are_evaluated_ranked_and_shown(home: dict[str, str]):
    """Each in a run of its own, on the test sets that were named; others stay out of the table."""
    data = Path(home["DECOMPOSERL_DATA"])
    write_tests(data)
    done = run(home, "evaluate", SIMPLE, "--benchmarks", "fever", "--limit", "4")
    assert 0 == done.exit_code, done.output
    assert re.search(r"^✓ predictions/fever +4 rows", done.stderr, re.MULTILINE)
    assert "Simple @ rules *" in done.stdout
    done = run(home, "evaluate", COT, UNTRAINED, COT, "--benchmarks", " fever,fever")
    assert 1 == done.exit_code
    assert "CoT @ rules " in done.stdout
    assert "Simple @ rules" not in done.stdout
    failure = [line for line in done.stderr.splitlines() if "(log: " in line]
    assert 1 == len(failure)
    assert "tiny" in failure[0]
    assert 12 == pl.read_parquet(data / f"predictions/fever/{COT}.parquet").height
    assert not (data / f"predictions/wice/{COT}.parquet").exists()
    ran = [(one.job_name, one.tags.get("dagster/partition")) for one in recorded(home)]
    assert [("rank", None), ("evaluate", UNTRAINED), ("evaluate", COT)] == ran[:3]
    assert 5 == len(ran)
