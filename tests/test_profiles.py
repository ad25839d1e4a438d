"""The environment and the settings: what a user may write, and what is refused with a sentence."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from pydantic import ValidationError
from toy_corpus import SOURCE, corpus

from dagster_project.definitions import build_definitions
from dagster_project.profiles import (
    Profile,
    benchmarks_for,
    profile_from_environment,
    sources_for,
)
from decomposerl.errors import ConfigError
from decomposerl.funnel.settings import DifficultySettings, RuleSettings, SilverSettings

ROOT = Path(__file__).resolve().parent.parent


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
    """After ``fill_environment`` Dagster sees the file's variables; the environment wins."""
    (tmp_path / ".env").write_text("A_KEY=from_file\nB_KEY=from_file\n")
    program = (
        "import dagster as dg; from dagster_project.profiles import fill_environment; "
        "fill_environment(); print(dg.EnvVar('A_KEY').get_value(), dg.EnvVar('B_KEY').get_value())"
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
