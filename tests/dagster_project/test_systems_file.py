"""``systems.toml`` in the commands: partitions, evaluation, verification, the doctor, ``init``."""

import json
import re
import shutil
import time
from pathlib import Path

import dagster as dg
import polars as pl
import pytest
from typer.testing import CliRunner, Result

from dagster_project.cli import app
from dagster_project.definitions import build_definitions
from dagster_project.profiles import (
    Profile,
    entries_for,
    profile_from_environment,
    resources_for,
    systems_for,
)
from decomposerl.errors import ConfigError
from evaluation_graph import write_tests
from fault_server import MODEL, FaultServer, replying
from project import ROOT
from resources.policy_tiny.folder import CHECKPOINT

KEY = "secret5812"
FEVER = ("--benchmarks", "fever")
Home = dict[str, str | None]


def entry(name: str, url: str, method: str = "simple", **fields: object) -> str:
    given = {"method": method, "model": MODEL, "base_url": url, **fields}
    return "\n".join([f"[{name}]", *(f"{k} = {json.dumps(v)}" for k, v in given.items()), ""])


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """The environment of a small project with test sets on disk."""
    (tmp_path / "home").mkdir()
    shutil.copy(ROOT / "dagster.yaml", tmp_path / "home")
    write_tests(tmp_path / "data", 6)
    return {
        "DECOMPOSERL_DATA": str(tmp_path / "data"),
        "DAGSTER_HOME": str(tmp_path / "home"),
        "DECOMPOSERL_SYSTEMS": None,
        "MY_KEY": KEY,
        "COLUMNS": "200",
    }


def data_of(home: Home) -> Path:
    return Path(home["DECOMPOSERL_DATA"] or "")


def run(home: Home, *words: object) -> Result:
    return CliRunner(env=home).invoke(app, list(map(str, words)))


def write(home: Home, text: str) -> Path:
    path = data_of(home) / "systems.toml"
    path.write_text(text, "utf-8")
    return path


def test_entries_are_partitions_like_all_others(tmp_path: Path):
    """Those of the catalogue are unchanged; your own are offered first; read in no time."""
    before = systems_for(Profile("embedded", None, tmp_path))
    text = "".join(entry(f"mine-{n}", "http://127.0.0.1:9/v1") for n in range(200))
    (tmp_path / "systems.toml").write_text(text)
    profile = Profile("embedded", None, tmp_path)
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


def test_two_entries_are_evaluated_and_ranked_side_by_side(home: Home):
    """Of one model at two endpoints, in the embedded profile; a removed entry breaks nothing.

    A key that is not set is named when it is needed, and others work without it. Results of an
    edited entry are named, and compared with nothing, until they are made again.
    """
    data = data_of(home)
    with (
        FaultServer(usual=replying("Supported")) as first,
        FaultServer(usual=replying("Refuted")) as second,
    ):
        text = entry("always-yes", first.url, title="Yes", key="MY_KEY", prompt_price=2.0)
        keyless = entry("keyless", first.url, key="NO_SUCH_KEY")
        write(home, text + entry("always-no", second.url) + keyless)
        done = run(home, "evaluate", "keyless", "always-yes", "always-no", *FEVER)
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

    write(home, text + entry("always-no", "http://127.0.0.1:9/v1", revision="x"))
    assert 0 == run(home, "evaluate", "simple-rules-faithful", *FEVER).exit_code
    board = pl.read_parquet(data / "leaderboard.parquet").filter(system="always-no")
    cells = board.filter(benchmark="fever").select("status", "score").rows()
    assert {("edited", None)} == set(cells)
    assert "always-no" not in compared(data)
    assert "evaluate again: always-no" in " ".join(run(home, "leaderboard").stdout.split())
    write(home, text)
    done = run(home, "run", "leaderboard", "comparison")
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


def test_another_file_can_be_named(home: Home, tmp_path: Path):
    """By option or variable, for evaluation, verification and the list; then it must be there."""
    asked = ice(tmp_path)
    with FaultServer(usual=replying("Supported")) as served:
        own = tmp_path / "own.toml"
        own.write_text(entry("mine", served.url))
        named = ("--systems", own)
        listed = run(home, "evaluate", "--list", *named)
        assert (0, True) == (listed.exit_code, "mine" in listed.stdout.split("system ")[0])
        assert served.url in listed.stdout
        assert "decomposed_prompting-qwen2.5-14b-single_call" in listed.stdout  # in 80 columns
        done = run(home, "verify", *asked, "--system", "mine", "--json", *named)
        assert (0, "mine") == (done.exit_code, json.loads(done.stdout)["system"])
        home = home | {"DECOMPOSERL_SYSTEMS": str(own)}
        assert 0 == run(home, "verify", *asked, "--system", "mine").exit_code
        assert 0 == run(home, "evaluate", "mine", *FEVER, "--limit", 2).exit_code
    wrong = run(home, "verify", *asked, "--system", "min")
    assert (2, True) == (wrong.exit_code, "systems.toml has mine" in wrong.stderr)
    absent = run(home, "evaluate", "--list", "--systems", tmp_path / "absent.toml")
    assert (2, True) == (absent.exit_code, "absent.toml" in absent.stderr)


@pytest.mark.parametrize("name", ["embedded", "local", "paper"])
def test_endpoint_variables_work_in_every_profile(name: str, tmp_path: Path):
    """An endpoint that is named, open models at a URL, and OpenAI's; policies as before."""
    url = "http://127.0.0.1:8/v1"
    env = {"DECOMPOSERL_PROFILE": name, "DECOMPOSERL_DATA": str(tmp_path)}
    named = env | {
        "OPENAI_API_KEY": KEY,
        "DECOMPOSERL_ENDPOINT_URL": url,
        "DECOMPOSERL_ENDPOINT_MODEL": "mine",
        "DECOMPOSERL_EVALUATION_URL": url,
        "DECOMPOSERL_EVALUATION_CONTEXT": "4096",
    }
    model = resources_for(profile_from_environment(named))["evaluation_model"]
    assert ([url], "mine") == (model.endpoint.endpoints, model.endpoint.model)
    assert "systems.toml" in model.endpoint.context_setting  # the variable is not for it
    assert ([url], 4_096) == (model.open_models.endpoints, model.open_models.context)
    assert ["https://api.openai.com/v1"] == model.openai.endpoints
    assert ["vllm", "serve"] == model.entries.vllm
    plain = profile_from_environment(env)
    usual = resources_for(plain)["evaluation_model"]
    assert [] == usual.endpoint.endpoints
    if name == "embedded":
        assert ("in_process", []) == (usual.policies, usual.open_models.endpoints)
        assert ("in_process", {}) == (model.policies, plain.engines.pools)


def test_a_key_may_be_one_of_the_programs_own(tmp_path: Path):
    """A documented variable, no other of the program's; a file that is none is refused at once."""
    profile, path = Profile("embedded", None, tmp_path), tmp_path / "systems.toml"
    path.write_text(entry("mine", "http://127.0.0.1:9/v1", key="DECOMPOSERL_JUDGE_KEY"))
    assert ["DECOMPOSERL_JUDGE_KEY"] == [one.key for one in entries_for(profile)]
    path.write_text(entry("mine", "http://127.0.0.1:9/v1", key="DECOMPOSERL_MY_KEY"))
    with pytest.raises(ConfigError, match=r"\[mine\] key: "):
        entries_for(profile)
    path.unlink()
    for made in (
        path.mkdir,
        lambda: path.symlink_to("/dev/zero"),
        lambda: path.write_bytes(b"#" * 1_000_001),
        lambda: path.write_bytes(b"# \xff"),
    ):
        made()
        with pytest.raises(ConfigError, match=r"systems\.toml"):
            entries_for(profile)
        path.rmdir() if path.is_dir() else path.unlink()


def test_the_doctor_names_the_entries_that_lack_something(home: Home):
    """Endpoint, key, adapter and model, each with its entry; none of them stops other work."""
    nowhere = "http://127.0.0.1:9/v1"
    lora = '[lora]\nmethod = "trace"\nmodel = "./base"\nadapter = "./nowhere"\n'
    text = entry("dead", nowhere) + entry("keyless", nowhere, key="NO_SUCH_KEY") + lora
    path = write(home, text)
    page = json.loads(run(home, "doctor", "--json").stdout)
    found = {(one["part"], one["what"].split()[0]): one for one in page["findings"]}
    assert "does not answer" in found["endpoint", "[dead]"]["said"]
    assert "not set" == found["key", "[keyless]"]["said"]
    assert ("endpoint", "[keyless]") not in found
    assert "holds no adapter_model" in found["adapter", "[lora]"]["said"]
    assert f"{path.parent}/base" in found["model", "[lora]"]["what"]
    mine = [one for one in page["findings"] if one["what"].startswith("[")]
    assert {"note", "ok"} == {one["state"] for one in mine}
    assert 0 == page["missing"]


def test_init_writes_entries_that_load_once_they_are_uncommented(home: Home):
    """Commented out it has none; nothing is overwritten; what must be pasted is asked for."""
    assert 0 == run(home, "init", "systems").exit_code
    path = data_of(home) / "systems.toml"
    text = path.read_text("utf-8")
    assert () == entries_for(Profile("embedded", None, path.parent))
    elsewhere = path.parent / "my own.toml"
    hint = run(home, "init", "systems", "--systems", elsewhere).stdout
    assert f"DECOMPOSERL_SYSTEMS='{elsewhere}' decomposerl evaluate --list" in hint
    again = run(home, "init", "systems")
    assert (2, True) == (again.exit_code, "is there already" in again.stderr)
    lines = [line.removeprefix("#") for line in text.splitlines() if not line.startswith("# ")]
    whole = "\n".join(lines)
    path.write_text(whole)
    with pytest.raises(ConfigError) as caught:
        entries_for(Profile("embedded", None, path.parent))
    said = str(caught.value)
    assert [("factcg", "pair"), ("clearcheck", "user")] == re.findall(r"\[(\S+)\] (\w+):", said)
    path.write_text(whole.replace("PASTE IT HERE", "{document} {claim}"))
    made = {one.name: one for one in entries_for(Profile("embedded", None, path.parent))}
    assert {"few_shot", "self_ask", "trace", "verifier"} == {one.method for one in made.values()}
    assert '{"guardian_config": {"criteria_id": "groundedness"}, "think": false}' == (
        made["granite-guardian"].template
    )
    assert {"chat", "documents", "classifier", "minicheck"} == {
        one.form for one in made.values() if one.method == "verifier"
    }


def test_an_entry_on_the_tiny_base_is_called_tiny(home: Home, tmp_path: Path):
    """As a policy of it is."""
    shutil.copytree(CHECKPOINT, data_of(home) / "base_policy")
    write(home, '[mine]\nmethod = "trace"\nmodel = "./base_policy"\nrecipe = "tiny"\n')
    done = run(home, "verify", *ice(tmp_path), "--system", "mine", "--json")
    assert any("mine is tiny" in one for one in json.loads(done.stdout)["warnings"])
