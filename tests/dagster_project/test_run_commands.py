"""``decomposerl run``, ``train`` and ``evaluate``: jobs on the instance that the UI reads.

``systems.toml`` in these commands, in verification, the doctor and ``init``.
"""

import json
import re
import shlex
import shutil
import sys
import time
from pathlib import Path
from typing import Any

import dagster as dg
import polars as pl
import pytest
from typer.testing import CliRunner, Result

from dagster_project.cli import app
from dagster_project.definitions import build_definitions
from dagster_project.environment import entries_for, systems_for, use_instance
from dagster_project.stages import Stage, condensed, missing_upstream, stages_named
from decomposerl.errors import ConfigError
from environment import settings_of, variables
from evaluation_graph import write_tests
from fault_server import MODEL, FaultServer, replying
from project import PYTHONPATH, ROOT
from resources.policy_tiny.folder import CHECKPOINT
from toy_corpus import corpus
from training_graph import write_claims
from training_stand_in import STEPS

CLAIMS = 12
Home = dict[str, Any]
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
def home(tmp_path: Path) -> Home:
    """The environment of a small project: a corpus, an empty data folder, an instance."""
    (tmp_path / "home").mkdir()
    shutil.copy(ROOT / "dagster.yaml", tmp_path / "home")
    places = {"CORPORA": corpus(tmp_path / "corpora", CLAIMS), "DATA": tmp_path / "data"}
    return {"DAGSTER_HOME": str(tmp_path / "home"), **variables(**places)}


def run(home: Home, *words: object) -> Result:
    return CliRunner(env=home).invoke(app, list(map(str, words)))


def recorded(home: Home) -> list[dg.DagsterRun]:
    """The runs of the instance, as the UI lists them."""
    with dg.DagsterInstance.from_config(home["DAGSTER_HOME"]) as instance:
        return list(instance.get_runs())


def test_a_stage_runs_on_the_instance_with_a_line_of_its_own(home: Home):
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


def test_the_report_is_run_where_nothing_is_there_yet(home: Home):
    """Its address is the output, so that a browser can be given it."""
    done = run(home, "run", "report")
    assert 0 == done.exit_code, done.output
    page = Path(home["DECOMPOSERL_DATA"]) / "report/report.html"
    assert [page.as_uri()] == done.stdout.splitlines()
    assert "decomposerl train RECIPE" in page.read_text("utf-8")


def test_warnings_of_a_stage_are_shown(home: Home):
    """A corpus that is not there, without Dagster's ids before it; ``-v`` shows its events."""
    done = run(home, "run", "claims/hover")
    warning, line, _ = done.stderr.splitlines()
    assert warning.startswith("· claims/hover: ")
    assert ["✓", "claims/hover", "0", "rows"] == line.split()[:4]
    loud = run(home, "run", "claims/hover", "-v").stderr
    assert "✓ claims/hover" in loud
    assert ["RUN_SUCCESS" in one for one in (done.stderr, loud)] == [False, True]


def test_a_run_that_fails_says_why_and_where_its_log_is(home: Home):
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


def test_the_help_lists_every_stage(home: Home):
    """Those of the reader's own corpora and of errors' commands too; none that has partitions."""
    shown = run(home, "run", "--help").stdout
    listed = {*re.findall(r"^ +(\w[\w/]*)(?: |$)", shown, re.MULTILINE)}
    listed |= {*re.findall(r"\b(?:claims|benchmark)/\w+", shown)}
    assert {"claims/toy", "deduplicated", "study/selectors"} <= listed
    assert "predictions/" not in shown
    assert {"catalog", "leaderboard comparison"} <= set(hints())
    assert {} == {line: file for line, file in hints().items() if not {*line.split()} <= listed}
    broken = CliRunner(env=home | {"DECOMPOSERL_PROFILE": "odd"}).invoke(app, ["run", "--help"])
    assert (0, True) == (broken.exit_code, "DECOMPOSERL_PROFILE: must be" in broken.stderr)


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


def hints() -> Home:
    """Every ``decomposerl run`` line with plain names in an error of the code, with its file."""
    packages = ("assets", "decomposerl", "resources")
    files = (path for name in packages for path in (ROOT / name).rglob("*.py"))
    return {line: path.name for path in files for line in HINT.findall(path.read_text("utf-8"))}


def test_the_instance_is_that_of_make(tmp_path: Path):
    """Its folder is named by DAGSTER_HOME where that is set, and must be there."""
    shutil.copy(ROOT / "dagster.yaml", tmp_path)
    environment: dict[str, str] = {}
    assert tmp_path / ".dagster_home" == use_instance(environment, tmp_path)
    assert {"DAGSTER_HOME": str(tmp_path / ".dagster_home")} == environment
    copied = tmp_path / ".dagster_home/dagster.yaml"
    assert (ROOT / "dagster.yaml").read_bytes() == copied.read_bytes()
    assert tmp_path == use_instance({"DAGSTER_HOME": str(tmp_path)})
    with pytest.raises(ConfigError, match="names no folder"):
        use_instance({"DAGSTER_HOME": str(tmp_path / "absent")})


@pytest.fixture
def training(home: Home, tmp_path: Path) -> list[str]:
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
    config, settings = tmp_path / "train.yaml", f"{{held_out_claims: 2, python: {python}}}"
    config.write_text(f"ops: {{policy: {{config: {settings}}}}}", "utf-8")
    return ["--config", str(config)]


def test_training_is_a_partition_of_the_policy(home: Home, training: list[str]):
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


def test_a_dry_run_shows_its_page_and_trains_nothing(home: Home, training: list[str]):
    """The run is in the history; no adapter is named, as there is none."""
    done = run(home, "train", "tiny", "--dry-run", *training)
    assert 0 == done.exit_code, done.output
    assert "30 steps will be made" in done.stderr
    assert "" == done.stdout
    assert not (Path(home["DECOMPOSERL_DATA"]) / "policy/tiny/adapter").exists()


def test_the_papers_models_do_not_learn_from_the_bundled_sample(home: Home):
    """Not even dry: the profile without corpora is refused before a run begins."""
    paper = home | {"DECOMPOSERL_PROFILE": "paper", "DECOMPOSERL_CORPORA": None}
    for words in (("paper_7b",), ("paper_7b", "--dry-run")):
        done = run(paper, "train", *words)
        assert 2 == done.exit_code
        assert "set DECOMPOSERL_CORPORA" in done.stderr
    assert [] == recorded(home)


def test_a_training_without_its_claims_fails(home: Home):
    """The sentence names what is missing; the run is in the history."""
    done = run(home, "train", "tiny")
    assert 1 == done.exit_code
    assert "training_claims.parquet is not there" in done.stderr.splitlines()[-1]
    assert "first: decomposerl run training_claims --upstream" in done.stderr
    assert ["train"] == [one.job_name for one in recorded(home)]


SIMPLE, COT, UNTRAINED = "simple-rules-faithful", "cot-rules-faithful", "decomposerl-tiny"


def test_systems_are_evaluated_ranked_and_shown(home: Home):
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


# ``systems.toml``

KEY = "secret5812"
FEVER = ("--benchmarks", "fever")


def entry(name: str, url: str, method: str = "simple", **fields: object) -> str:
    given = {"method": method, "model": MODEL, "base_url": url, **fields}
    return "\n".join([f"[{name}]", *(f"{k} = {json.dumps(v)}" for k, v in given.items()), ""])


@pytest.fixture
def tested(home: Home, tmp_path: Path) -> Home:
    """The same without a corpus, with test sets on disk and a key."""
    write_tests(tmp_path / "data", 6)
    unset = {"DECOMPOSERL_CORPORA": None, "DECOMPOSERL_PATHS__SYSTEMS": None}
    return {**home, **unset, "MY_KEY": KEY, "COLUMNS": "200"}


def data_of(tested: Home) -> Path:
    return Path(tested["DECOMPOSERL_DATA"])


def write(tested: Home, text: str) -> Path:
    path = data_of(tested) / "systems.toml"
    path.write_text(text, "utf-8")
    return path


def test_entries_are_partitions_like_all_others(tmp_path: Path):
    """Those of the catalogue are unchanged; your own are offered first; read in no time."""
    before = systems_for(settings_of(tmp_path))
    text = "".join(entry(f"mine-{n}", "http://127.0.0.1:9/v1") for n in range(200))
    (tmp_path / "systems.toml").write_text(text)
    profile = settings_of(tmp_path)
    started = time.monotonic()
    every = systems_for(profile)
    assert time.monotonic() - started < 1.0
    assert before == every[: len(before)]
    graph = build_definitions(profile).resolve_asset_graph()
    keys = graph.get(dg.AssetKey(["predictions", "fever"])).partitions_def.get_partition_keys()
    assert {one.key for one in every} == set(keys)
    assert all(key.startswith("mine-") for key in keys[:200])
    for key in (["scores", "fever"], ["calibrations"]):
        assert list(keys) == list(graph.get(dg.AssetKey(key)).partitions_def.get_partition_keys())


def test_two_entries_are_evaluated_and_ranked_side_by_side(tested: Home):
    """Of one model at two endpoints, in the embedded profile; a removed entry breaks nothing.

    A key that is not set is named when it is needed, and others work without it. Results of an
    edited entry are named, and compared with nothing, until they are made again.
    """
    data = data_of(tested)
    first, second = (FaultServer(usual=replying(said)) for said in ("Supported", "Refuted"))
    with first, second:
        text = entry("always-yes", first.url, title="Yes", key="MY_KEY", prompt_price=2.0)
        keyless = entry("keyless", first.url, key="NO_SUCH_KEY")
        write(tested, text + entry("always-no", second.url) + keyless)
        done = run(tested, "evaluate", "keyless", "always-yes", "always-no", *FEVER)
        assert (1, True) == (done.exit_code, "NO_SUCH_KEY" in done.stderr), done.output
        assert {f"Bearer {KEY}"} == set(first.authorizations)
        assert {"Bearer none"} == set(second.authorizations)
    assert KEY not in done.output
    written = [path.read_bytes() for path in data.parent.rglob("*") if path.is_file()]
    assert [] == [content for content in written if KEY.encode() in content]
    assert re.search(r"^Yes .*50.0", done.stdout, re.MULTILINE)
    assert re.search(r"^always-no .*50.0", done.stdout, re.MULTILINE)
    for name, verdict in (("always-yes", "Supported"), ("always-no", "Refuted")):
        said = pl.read_parquet(data / f"predictions/fever/{name}.parquet")["verdict"]
        assert {verdict} == set(said)
    calls = pl.read_parquet(data / "calls/fever/always-yes.parquet")
    assert [pytest.approx(10 * 2e-6)] * 6 == calls["dollars"].to_list()
    assert {"always-yes", "always-no"} <= compared(data)

    write(tested, text + entry("always-no", "http://127.0.0.1:9/v1", revision="x"))
    assert 0 == run(tested, "evaluate", "simple-rules-faithful", *FEVER).exit_code
    board = pl.read_parquet(data / "leaderboard.parquet").filter(system="always-no")
    cells = board.filter(benchmark="fever").select("status", "score").rows()
    assert {("edited", None)} == set(cells)
    assert "always-no" not in compared(data)
    assert "evaluate again: always-no" in " ".join(run(tested, "leaderboard").stdout.split())
    write(tested, text)
    done = run(tested, "run", "leaderboard", "comparison")
    assert 0 == done.exit_code, done.output
    assert "always-no" not in set(pl.read_parquet(data / "leaderboard.parquet")["system"])
    assert (data / "predictions/fever/always-no.parquet").is_file()


def compared(data: Path) -> set[str]:
    """The systems of the pairs that were compared."""
    pairs = pl.read_parquet(data / "comparison.parquet")
    return {*pairs["system"], *pairs["other"]}


def ice(folder: Path) -> tuple[object, ...]:
    """A claim with its evidence, as options of ``verify``."""
    (folder / "evidence.txt").write_text("Ice is cold.")
    return ("--claim", "Ice is cold.", "--evidence", folder / "evidence.txt")


def test_another_file_can_be_named(tested: Home, tmp_path: Path):
    """By option or variable, for evaluation, verification and the list; then it must be there."""
    asked = ice(tmp_path)
    with FaultServer(usual=replying("Supported")) as served:
        own = tmp_path / "own.toml"
        own.write_text(entry("mine", served.url))
        named = ("--systems", own)
        listed = run(tested, "evaluate", "--list", *named)
        assert (0, True) == (listed.exit_code, "mine" in listed.stdout.split("system ")[0])
        assert served.url in listed.stdout
        assert "decomposed_prompting-qwen2.5-14b-single_call" in listed.stdout  # in 80 columns
        done = run(tested, "verify", *asked, "--system", "mine", "--json", *named)
        assert (0, "mine") == (done.exit_code, json.loads(done.stdout)["system"])
        tested = tested | {"DECOMPOSERL_PATHS__SYSTEMS": str(own)}
        assert 0 == run(tested, "verify", *asked, "--system", "mine").exit_code
        assert 0 == run(tested, "evaluate", "mine", *FEVER, "--limit", 2).exit_code
    wrong = run(tested, "verify", *asked, "--system", "min")
    assert (2, True) == (wrong.exit_code, "systems.toml has mine" in wrong.stderr)
    absent = run(tested, "evaluate", "--list", "--systems", tmp_path / "absent.toml")
    assert (2, True) == (absent.exit_code, "absent.toml" in absent.stderr)


def test_a_key_may_be_one_of_the_programs_own(tmp_path: Path):
    """A documented variable, no other of the program's; a file that is none is refused at once."""
    profile, path = settings_of(tmp_path), tmp_path / "systems.toml"
    path.write_text(entry("mine", "http://127.0.0.1:9/v1", key="DECOMPOSERL_JUDGE_KEY"))
    assert ["DECOMPOSERL_JUDGE_KEY"] == [one.key for one in entries_for(profile)]
    path.write_text(entry("mine", "http://127.0.0.1:9/v1", key="DECOMPOSERL_MY_KEY"))
    with pytest.raises(ConfigError, match=r"\[mine\] key: "):
        entries_for(profile)
    path.unlink()
    large, text = b"#" * 1_000_001, b"# \xff"
    writes = (lambda: path.write_bytes(large), lambda: path.write_bytes(text))
    for made in (path.mkdir, lambda: path.symlink_to("/dev/zero"), *writes):
        made()
        with pytest.raises(ConfigError, match=r"systems\.toml"):
            entries_for(profile)
        path.rmdir() if path.is_dir() else path.unlink()


def test_the_doctor_names_the_entries_that_lack_something(tested: Home):
    """Endpoint, key, adapter and model, each with its entry; none of them stops other work."""
    nowhere = "http://127.0.0.1:9/v1"
    lora = '[lora]\nmethod = "trace"\nmodel = "./base"\nadapter = "./nowhere"\n'
    text = entry("dead", nowhere) + entry("keyless", nowhere, key="NO_SUCH_KEY") + lora
    path = write(tested, text)
    page = json.loads(run(tested, "doctor", "--json").stdout)
    found = {(one["part"], one["what"].split()[0]): one for one in page["findings"]}
    assert "does not answer" in found["endpoint", "[dead]"]["said"]
    assert "not set" == found["key", "[keyless]"]["said"]
    assert ("endpoint", "[keyless]") not in found
    assert "holds no adapter_model" in found["adapter", "[lora]"]["said"]
    assert f"{path.parent}/base" in found["model", "[lora]"]["what"]
    mine = [one for one in page["findings"] if one["what"].startswith("[")]
    assert {"note", "ok"} == {one["state"] for one in mine}
    assert 0 == page["missing"]


def test_init_writes_entries_that_load_once_they_are_uncommented(tested: Home):
    """Commented out it has none; nothing is overwritten; what must be pasted is asked for."""
    assert 0 == run(tested, "init", "systems").exit_code
    path = data_of(tested) / "systems.toml"
    text = path.read_text("utf-8")
    assert () == entries_for(settings_of(path.parent))
    elsewhere = path.parent / "my own.toml"
    hint = run(tested, "init", "systems", "--systems", elsewhere).stdout
    assert f"DECOMPOSERL_PATHS__SYSTEMS='{elsewhere}' decomposerl evaluate --list" in hint
    again = run(tested, "init", "systems")
    assert (2, True) == (again.exit_code, "is there already" in again.stderr)
    lines = [line.removeprefix("#") for line in text.splitlines() if not line.startswith("# ")]
    whole = "\n".join(lines)
    path.write_text(whole)
    with pytest.raises(ConfigError) as caught:
        entries_for(settings_of(path.parent))
    said = str(caught.value)
    assert [("factcg", "pair"), ("clearcheck", "user")] == re.findall(r"\[(\S+)\] (\w+):", said)
    path.write_text(whole.replace("PASTE IT HERE", "{document} {claim}"))
    made = {one.name: one for one in entries_for(settings_of(path.parent))}
    assert {"few_shot", "self_ask", "trace", "verifier"} == {one.method for one in made.values()}
    guardian = '{"guardian_config": {"criteria_id": "groundedness"}, "think": false}'
    assert guardian == made["granite-guardian"].template
    forms = {one.form for one in made.values() if one.method == "verifier"}
    assert {"chat", "documents", "classifier", "minicheck"} == forms


def test_an_entry_on_the_tiny_base_is_called_tiny(tested: Home, tmp_path: Path):
    """As a policy of it is."""
    shutil.copytree(CHECKPOINT, data_of(tested) / "base_policy")
    write(tested, '[mine]\nmethod = "trace"\nmodel = "./base_policy"\nrecipe = "tiny"\n')
    done = run(tested, "verify", *ice(tmp_path), "--system", "mine", "--json")
    assert any("mine is tiny" in one for one in json.loads(done.stdout)["warnings"])
