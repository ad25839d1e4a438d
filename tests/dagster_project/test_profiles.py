"""The environment and the settings: what a user may write, and what is refused with a sentence."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from dagster_project.definitions import build_definitions
from dagster_project.profiles import (
    Profile,
    benchmarks_for,
    known_variables,
    profile_from_environment,
    resources_for,
    sources_for,
)
from decomposerl.errors import ConfigError
from decomposerl.funnel.settings import DifficultySettings, RuleSettings, SilverSettings
from project import ROOT
from strategies import LAW
from toy_corpus import SOURCE, corpus


def test_without_variables_the_bundled_sample_and_the_data_folder_of_the_project():
    """The defaults are those that the README states."""
    profile = profile_from_environment({})
    assert Profile("embedded", None, ROOT / "data") == profile


@pytest.mark.parametrize(
    ("environment", "sentence"),
    [
        ({"DECOMPOSERL_PROFILE": "papre"}, "must be one of embedded, local, paper"),
        ({"DECOMPOSERL_CORPORA": "/nowhere/at/all"}, "names no folder"),
    ],
)
def test_a_wrong_variable_is_refused_by_name(environment: dict[str, str], sentence: str):
    """The message names the variable and what would be right."""
    with pytest.raises(ConfigError, match=sentence):
        profile_from_environment(environment)


KNOWN = sorted(name for name in known_variables() if name.startswith("DECOMPOSERL_"))
MISSPELT = [
    ("DECOMPOSERL_CORPUS", "DECOMPOSERL_CORPORA"),
    ("decomposerl_corpora", "DECOMPOSERL_CORPORA"),
    ("DECOMPOSERL_Corpora", "DECOMPOSERL_CORPORA"),
    ("DECOMPOSER_DATA", "DECOMPOSERL_DATA"),
    ("DECOPMOSERL_PROFILE", "DECOMPOSERL_PROFILE"),
    ("DECOMPOSE_RL_DATA", "DECOMPOSERL_DATA"),
    ("DECOMPOSERL-DATA", "DECOMPOSERL_DATA"),
    ("\ufeffDECOMPOSERL_DATA", "DECOMPOSERL_DATA"),
    ("DECOMPOSERL_JUDGE_URLS", "DECOMPOSERL_JUDGE_URL"),
]


@pytest.mark.parametrize(("name", "nearest"), MISSPELT)
def test_a_misspelt_variable_is_refused_with_the_nearest(name: str, nearest: str):
    """Whatever its value is, which the message does not repeat."""
    with pytest.raises(ConfigError, match=f"the nearest is {nearest}") as refused:
        profile_from_environment({name: "hidden7391"})
    assert "hidden7391" not in str(refused.value)


SERVICES = [
    "DECOMPOSERL_SERVICE_HOST",
    "DECOMPOSERL_SERVICE_PORT",
    "DECOMPOSERL_SERVICE_PORT_GRPC",
    "DECOMPOSERL_PORT",
    "DECOMPOSERL_PORT_4266_TCP",
    "DECOMPOSERL_PORT_4266_TCP_ADDR",
    "DECOMPOSERL_PORT_53_UDP_PROTO",
    "DECOMPOSERL_CODE_SERVICE_HOST",
    "DECOMPOSERL_CODE_PORT_4266_TCP_PORT",
]


@pytest.mark.parametrize("name", SERVICES)
def test_variables_of_kubernetes_services_are_no_misspelling(name: str):
    """Every pod has them where a Service is named like the project."""
    assert profile_from_environment({}) == profile_from_environment({name: "tcp://10.0.0.7:4266"})


@pytest.mark.parametrize("name", ["DECOMPOSERL_PORTS", "DECOMPOSERL_SERVICE", "DECOMPOSERL_PORT_A"])
def test_other_names_near_a_services_are_still_refused(name: str):
    """Only the names that Kubernetes forms are left alone."""
    with pytest.raises(ConfigError, match="the nearest is"):
        profile_from_environment({name: ""})


@LAW
@given(st.sampled_from(KNOWN), st.data())
def test_a_variable_with_one_letter_less_is_never_ignored(name: str, data: st.DataObject):
    """What is left is another known variable, or refused."""
    at = data.draw(st.integers(0, len(name) - 1))
    short = name[:at] + name[at + 1 :]
    if short not in KNOWN:
        with pytest.raises(ConfigError, match="the nearest is"):
            profile_from_environment({short: ""})


def test_other_programs_may_have_their_variables():
    """Names that are not like ours are nobody's business here."""
    others = dict.fromkeys(
        ("PATH", "DATA", "CORPORA", "MY_DATA", "DAGSTER_HOME", "DECODER_URL"), ""
    )
    assert profile_from_environment({}) == profile_from_environment(others)


def test_the_example_documents_exactly_the_variables_that_are_read():
    """Two of them are Dagster's own."""
    text = (ROOT / ".env.example").read_text("utf-8")
    documented = set(re.findall(r"^(?:# ?)?([A-Z][A-Z_]+)=", text, re.MULTILINE))
    assert known_variables() | {"DAGSTER_HOME", "DAGSTER_MODULE_NAME"} == documented


SCHEMES = ["s3", "S3", "gs", "az", "abfs", "hdfs", "file", "http", "memory"]


@pytest.mark.parametrize(
    "location", [f"{one}:{rest}" for one in SCHEMES for rest in ("//b/x", "/b")]
)
def test_a_url_is_no_folder(location: str, tmp_path: Path):
    """Of corpora, prompts and scratch, of a resource that one run configures; of data by scheme."""
    bucket = location in {"s3://b/x", "gs://b/x", "az://b/x"}
    for name in ("CORPORA", "PROMPTS", "SCRATCH", *([] if bucket else ["DATA"])):
        environment = {f"DECOMPOSERL_{name}": location, "DECOMPOSERL_PROFILE": "local"}
        with pytest.raises(ConfigError, match=f"^DECOMPOSERL_{name} holds a URL"):
            profile_from_environment(environment)
    folder = resources_for(Profile("embedded", None, tmp_path))["data_folder"]
    with pytest.raises(ConfigError, match="holds a URL"):
        type(folder)(base_dir=location)


@pytest.mark.parametrize("location", ["a:b/c", "/x/a:b", "./s3:/x", "s3", "data 2024-01-01T10:00"])
def test_a_path_with_a_colon_is_a_path(location: str):
    """Only a scheme with a slash makes a URL."""
    found = profile_from_environment({"DECOMPOSERL_DATA": location}).data
    assert Path(location).resolve() == found


def test_a_file_is_no_data_folder(tmp_path: Path):
    """It is refused before anything is read."""
    (tmp_path / "data").write_text("")
    with pytest.raises(ConfigError, match="DECOMPOSERL_DATA names a file"):
        profile_from_environment({"DECOMPOSERL_DATA": str(tmp_path / "data")})


def printed(program: str, folder: Path, **environment: str) -> list[str]:
    """The words that a program prints which starts in ``folder``."""
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=folder,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.split()


def test_a_program_that_runs_the_graph_finds_keys_in_a_dotenv_file(tmp_path: Path):
    """After ``load_env_file`` Dagster sees the file's variables; the environment wins."""
    (tmp_path / ".env").write_text("A_KEY=from_file\nB_KEY=from_file\n")
    program = (
        "import dagster as dg; from dagster_project.profiles import load_env_file; "
        "load_env_file(); print(dg.EnvVar('A_KEY').get_value(), dg.EnvVar('B_KEY').get_value())"
    )
    found = printed(program, tmp_path, B_KEY="from_environment")
    assert ["from_file", "from_environment"] == found


def test_a_dotenv_file_fills_in_what_the_environment_leaves_open(tmp_path: Path):
    """The command line reads ``.env`` like the dagster commands; the environment wins."""
    (tmp_path / ".env").write_text("DECOMPOSERL_DATA=from_file\nDECOMPOSERL_PROFILE=paper\n")
    program = (
        "from dagster_project.profiles import profile_from_environment as read;"
        "profile = read(); print(profile.name, profile.data.name)"
    )
    found = printed(program, tmp_path, DECOMPOSERL_PROFILE="embedded")
    assert ["embedded", "from_file"] == found


def test_a_users_corpus_joins_sources_and_may_have_any_free_name(tmp_path: Path):
    """A corpus named like an argument of an asset still loads into the graph."""
    folder = corpus(tmp_path / "corpora", claims=3)
    toml = folder / "toy" / "source.toml"
    toml.write_text(SOURCE.replace('name = "toy"', 'name = "context"'))
    profile = Profile("embedded", folder, tmp_path / "data")
    assert sources_for(profile)[-1].name == "context"
    keys = build_definitions(profile).resolve_asset_graph().get_all_asset_keys()
    assert ["claims", "context"] in [list(key.path) for key in keys]


def test_a_users_test_files_join_the_benchmarks(tmp_path: Path):
    """Test files that a user names are held against the training claims like the eleven."""
    folder = corpus(tmp_path / "corpora", claims=3)
    toml = folder / "toy" / "source.toml"
    toml.write_text(SOURCE.replace("[columns]", 'test = ["toy/test.jsonl"]\n\n[columns]'))
    assert benchmarks_for(Profile("embedded", folder, tmp_path))[-1].name == "toy"


def test_a_copy_of_a_corpus_of_the_paper_keeps_its_place_in_the_graph(tmp_path: Path):
    """``claims/hover`` reads the user's file; no asset is added, none is there twice."""
    folder = corpus(tmp_path / "corpora", claims=3)
    plain = build_definitions(Profile("embedded", tmp_path / "none", tmp_path / "data"))
    copy = SOURCE.replace('name = "toy"', 'name = "hover"\nreplaces = true')
    (folder / "toy" / "source.toml").write_text(copy)
    profile = Profile("embedded", folder, tmp_path / "data")
    keys = build_definitions(profile).resolve_asset_graph().get_all_asset_keys()
    assert plain.resolve_asset_graph().get_all_asset_keys() == keys
    (hover,) = [one for one in sources_for(profile) if one.name == "hover"]
    assert ["toy/claims.jsonl"] == [file.path for file in hover.files]


def test_unreadable_and_colliding_source_files_are_named(tmp_path: Path):
    """A source.toml that is no text, or takes a name of the catalogue, is a ConfigError."""
    folder = corpus(tmp_path / "corpora", claims=3)
    toml = folder / "toy" / "source.toml"
    profile = Profile("embedded", folder, tmp_path)
    toml.write_text(SOURCE.replace('name = "toy"', 'name = "hover"'))
    with pytest.raises(ConfigError, match="'hover' is taken"):
        sources_for(profile)
    toml.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigError, match=r"source\.toml cannot be read"):
        sources_for(profile)
    toml.unlink()
    toml.mkdir()
    with pytest.raises(ConfigError, match=r"source\.toml cannot be read"):
        sources_for(profile)


def test_bounds_in_the_wrong_order_are_refused():
    """Settings under which every claim would leave with a plausible reason do not start."""
    with pytest.raises(ValidationError, match=r"low \(0.9\) is above high \(0.8\)"):
        DifficultySettings(low=0.9)
    with pytest.raises(ValidationError, match="min_tokens"):
        RuleSettings(min_tokens=500, max_tokens=400)
    with pytest.raises(ValidationError, match="min_questions"):
        SilverSettings(min_questions=30)
