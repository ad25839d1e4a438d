"""Settings: what a user may write and where, what each profile chooses, what one run may change."""

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args

import dagster as dg
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from dagster_project.definitions import build_definitions
from dagster_project.engine_resources import pools_of, resources_for
from dagster_project.environment import (
    corpora_for,
    job_variables,
    known_variables,
    read_settings,
)
from dagster_project.public_figures import PRICES
from dagster_project.settings import FILE, ProfileName
from decomposerl.endpoint import Endpoint
from decomposerl.errors import ConfigError
from decomposerl.funnel.settings import DifficultySettings, RuleSettings, SilverSettings
from decomposerl.training.estimate import batch_problems
from decomposerl.training.experiments import PAPER_7B
from environment import having, lacking, resources_of, settings_of, variables
from project import ROOT
from resources.chat.connection import key_of
from resources.chat.endpoint import EndpointConfig
from resources.store.parquet import DataFolder
from strategies import LAW
from tables import cases_beside
from toy_corpus import SOURCE, corpus

PROFILES: tuple[ProfileName, ...] = get_args(ProfileName)
CANARY = "hidden7391"

# What each profile chooses, and what a variable changes of it


def leaves(value: object, path: str = "") -> dict[str, Any]:
    """Each value inside, by its path; a list is one value."""
    if not isinstance(value, dict):
        return {path: list(value) if isinstance(value, tuple) else value}
    inside = [leaves(one, f"{path}.{name}".strip(".")) for name, one in value.items()]
    return {name: one for part in inside for name, one in part.items()}


def chosen(profile: str, env: Mapping[str, str]) -> dict[str, Any]:
    """What the resources, pools and places of evaluation are with these variables alone."""
    settings = settings_of(Path("/data"), profile=profile, env=env)
    made = resources_for(settings, mapped=True)
    del made["evaluation_model"]  # its places are the settings' own
    evaluated = {name: getattr(settings, name) for name in ("evaluation", "openai", "endpoint")}
    found = {name: one.model_dump() for name, one in (made | evaluated).items()}
    found = leaves(found | {"pools": pools_of(settings)})
    machine = ("verifier.withheld", "policy_trainer.jobs.variables")  # of this environment
    return {name: one for name, one in found.items() if not name.startswith(machine)}


CASES_OF_PROFILES = cases_beside(__file__, "profile_cases")
"""What variables change of a profile's choices, and ``local`` and ``paper`` of those of
``embedded``."""


@pytest.mark.parametrize("profile", PROFILES)
def test_a_profile_and_its_variables_choose_engines_models_and_limits(profile: str):
    """A field that no variable names is the profile's."""
    plain = chosen("embedded", {})
    for row in CASES_OF_PROFILES:
        if profile == row["profile"]:
            found = chosen(profile, variables(**row["variables"]))
            changes = {name: value for name, value in found.items() if plain.get(name) != value}
            assert row["changes"] == changes, row["variables"]
            plain = plain if row["variables"] else found


# Where a setting may stand


OLD = variables(
    CHAT_URL="http://a/v1",
    CHAT_PRICE="1/2",
    JUDGE_KEY="k",
    JUDGE_THINKING="on",
    VLLM="my vllm serve",
    SPACY="a,b",
    EVALUATION_CONTINUES="no",
    DEVICE="cuda",
)
WRITTEN = Path(__file__).with_name("written_settings.toml").read_text("utf-8")


def test_old_names_new_names_and_a_file_say_the_same(tmp_path: Path):
    """New ones are what is passed on to a training process on another machine."""
    written = settings_of(tmp_path, profile="paper", env=OLD)
    (tmp_path / FILE).write_text(WRITTEN)
    assert written == settings_of(tmp_path, profile="paper")
    assert ("my", "vllm", "serve") == written.machine.vllm
    (tmp_path / FILE).unlink()
    passed_on = job_variables(written)
    assert written == read_settings(passed_on)
    assert str(tmp_path) == passed_on["DECOMPOSERL_PATHS__DATA"]


@pytest.mark.parametrize("profile", PROFILES)
def test_a_copied_profile_is_the_profile(profile: str, tmp_path: Path):
    """Its file, named decomposerl.toml, needs no variable."""
    file = ROOT / f"dagster_project/profiles/{profile}.toml"
    (tmp_path / FILE).write_text(file.read_text("utf-8"))
    assert settings_of(tmp_path, profile=profile) == read_settings({}, data=tmp_path)


PROGRAM = """
import dagster as dg
from dagster_project.environment import read_settings
settings = [read_settings() for _ in range(2)][0]
print(settings.profile, settings.paths.data.name, settings.silver.model, settings.judge.model)
print(*(dg.EnvVar(f"{x}_KEY").get_value() for x in "AB"))
"""


def test_the_environment_overrides_dotenv_and_dotenv_the_file(tmp_path: Path):
    """The working folder's file the data folder's; an old name is noticed once, on stderr."""
    own = "DECOMPOSERL_DATA=from_dotenv\nDECOMPOSERL_PROFILE=paper\nDECOMPOSERL_CHAT_MODEL=old\n"
    (tmp_path / ".env").write_text(f"{own}A_KEY=dotenv\nB_KEY=dotenv\nDECOMPOSERL_JUDGE__MODEL=\n")
    (tmp_path / FILE).write_text('[silver]\nmodel = "file"\n[judge]\nmodel = "file"\n')
    (tmp_path / "from_dotenv").mkdir()
    (tmp_path / "from_dotenv" / FILE).write_text('[judge]\nmodel = "data"\n')
    clean = {name: value for name, value in os.environ.items() if "DECOMPOSERL_" not in name}

    def printed() -> tuple[list[str], str]:
        words = [sys.executable, "-c", PROGRAM]
        env = {"DECOMPOSERL_PROFILE": "local", "B_KEY": "environment", **clean}
        done = subprocess.run(
            words, cwd=tmp_path, env=env, capture_output=True, text=True, check=True
        )
        return done.stdout.split(), done.stderr

    said, errors = printed()
    assert "local from_dotenv old file dotenv environment".split() == said
    assert 1 == errors.count("DECOMPOSERL_CHAT_MODEL is now DECOMPOSERL_SILVER__MODEL")
    assert "DECOMPOSERL_DATA" not in errors, "a short name"
    (tmp_path / FILE).unlink()
    assert "data" == printed()[0][3]


# What is refused


KNOWN = sorted(name for name in known_variables() if name.startswith("DECOMPOSERL_"))
MISSPELT = cases_beside(__file__, "misspelt_variables")
"""The last are near the names that Kubernetes forms of a Service."""
IGNORED = [
    *(f"DECOMPOSERL_{name}" for name in ("SERVICE_HOST", "SERVICE_PORT", "SERVICE_PORT_GRPC")),
    *(f"DECOMPOSERL_PORT{name}" for name in ("", "_4266_TCP", "_4266_TCP_ADDR", "_53_UDP_PROTO")),
    *("DECOMPOSERL_CODE_SERVICE_HOST", "DECOMPOSERL_CODE_PORT_4266_TCP_PORT"),
    *("PATH", "DATA", "CORPORA", "MY_DATA", "DAGSTER_HOME", "DECODER_URL"),
]


def test_a_misspelt_variable_is_refused_with_the_nearest():
    """Whatever its value is, which the message does not repeat; others have their own."""
    for row in MISSPELT:
        with pytest.raises(ConfigError, match=f"the nearest is {row['nearest']}") as refused:
            read_settings({row["name"]: CANARY})
        assert CANARY not in str(refused.value)
    for name in IGNORED:
        assert read_settings({}) == read_settings({name: "tcp://10.0.0.7"})


@LAW
@given(st.sampled_from(KNOWN), st.data())
def test_a_variable_with_one_letter_less_is_never_ignored(name: str, data: st.DataObject):
    """What is left is another known variable, or refused."""
    at = data.draw(st.integers(0, len(name) - 1))
    short = name[:at] + name[at + 1 :]
    if short not in KNOWN:
        with pytest.raises(ConfigError, match="the nearest is"):
            read_settings({short: ""})


DEEP = {"file": "a = " + "[" * 9_000, "where": "no TOML", "says": "recursion"}
WRONG = [*cases_beside(__file__, "wrong_settings"), DEEP]
"""Each in a file or in variables; ``where`` is the section and field, or the variable."""


@pytest.mark.parametrize("row", WRONG, ids=lambda row: f"{row['where']} {row['says']}")
def test_what_a_setting_cannot_be_is_one_sentence(row: dict[str, Any], tmp_path: Path):
    """It names file or variable, section and field, and what is right or the nearest name.

    No part of a URL or of a key is repeated.
    """
    (tmp_path / FILE).write_text(row.get("file", ""))
    env = {"DECOMPOSERL_PROFILE": "paper", **variables(**row.get("variables", {}))}
    with pytest.raises(ConfigError) as refused:
        read_settings(env if "variables" in row else {}, data=tmp_path)
    said, place = str(refused.value), str(tmp_path / FILE) if "file" in row else "DECOMPOSERL_"
    assert [] == lacking(said, place, row["where"], row["says"])
    assert CANARY not in said
    assert "\n" not in said
    assert refused.value.__cause__ is None


@pytest.mark.parametrize("scheme", "s3 S3 gs az abfs hdfs file http memory".split())
def test_a_url_is_no_folder(scheme: str):
    """Of corpora, prompts and data, and of a resource that one run configures."""
    for location in (f"{scheme}://b/x", f"{scheme}:/b"):
        for name in ("CORPORA", "PATHS__PROMPTS", "DATA"):
            with pytest.raises(ConfigError, match=f"^DECOMPOSERL_{name}: holds a URL"):
                read_settings(variables(PROFILE="local", **{name: location}))
        with pytest.raises(ConfigError, match="holds a URL"):
            DataFolder(base_dir=location)


def test_a_path_with_a_colon_is_a_path(tmp_path: Path):
    """Only a scheme with a slash makes a URL; a file is no data folder, corpora must be there."""
    for location in ("a:b/c", "/x/a:b", "./s3:/x", "s3", "data 2024-01-01T10:00"):
        found = read_settings({"DECOMPOSERL_DATA": location}).paths.data
        assert Path(location).resolve() == found
    (tmp_path / "file").touch()
    wrong = (("DATA", tmp_path / "file"), ("CORPORA", "/nowhere/at/all"), ("PROFILE", "papre"))
    for name, value in wrong:
        with pytest.raises(ConfigError, match=f"^DECOMPOSERL_{name}: "):
            read_settings({f"DECOMPOSERL_{name}": str(value)})


# Own corpora, bounds, and what the graph makes of a profile


def test_a_users_corpus_joins_sources_or_takes_the_place_of_one(tmp_path: Path):
    """Under any free name; ``replaces`` keeps the graph; a file that is no text is named."""
    toml = corpus(tmp_path / "corpora", claims=3) / "toy/source.toml"
    settings = settings_of(tmp_path / "data", tmp_path / "corpora")
    own = SOURCE.replace("[columns]", 'test = ["toy/test.jsonl"]\n\n[columns]')
    toml.write_text(own.replace('name = "toy"', 'name = "context"'))  # an argument of an asset
    assert ["context", "context"] == [part[-1].name for part in corpora_for(settings)]
    keys = build_definitions(settings).resolve_asset_graph().get_all_asset_keys()
    assert {("claims", "context"), ("benchmark", "context")} <= {tuple(key.path) for key in keys}
    toml.write_text(SOURCE.replace('name = "toy"', 'name = "hover"\nreplaces = true'))
    graphs = (build_definitions(one) for one in (settings, settings_of(tmp_path / "data")))
    replaced, plain = (graph.resolve_asset_graph().get_all_asset_keys() for graph in graphs)
    assert plain == replaced
    toml.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigError, match=r"source\.toml"):
        corpora_for(settings)


def test_bounds_in_the_wrong_order_are_refused():
    """Settings under which every claim would leave with a plausible reason do not start."""
    for settings, bounds, said in (
        (DifficultySettings, {"low": 0.9}, r"\(0\.9\).*\(0\.8\)"),
        (RuleSettings, {"min_tokens": 500, "max_tokens": 400}, "min_tokens"),
        (SilverSettings, {"min_questions": 30}, "min_questions"),
    ):
        with pytest.raises(ValidationError, match=said):
            settings(**bounds)


CONFIGS = ROOT / "configs/accelerate"


@pytest.mark.parametrize("path", sorted(CONFIGS.glob("*.yaml")), ids=lambda path: path.stem)
def test_accelerate_understands_its_files_and_the_papers_batch_divides(path: Path):
    """Accelerate itself reads each without an unknown key; each says that it was not run."""
    from accelerate.commands.config.config_args import load_config_from_file

    read = load_config_from_file(str(path))
    assert [] == batch_problems(PAPER_7B.grpo, read.num_processes)
    assert "NOT RUN on GPUs" in path.read_text("utf-8")
    fsdp = yaml.safe_load(path.read_text("utf-8")).get("fsdp_config", {})
    assert set(fsdp) <= set(read.fsdp_config)
    assert not read.use_cpu


# One field of a resource

KEY = "secret5812"
URL = "http://127.0.0.1:9/v1"
CHANGED = variables(
    MACHINE__DEVICE="cuda:1",
    SILVER__DOLLARS=3,
    SILVER__PROMPT_PRICE=1,
    SILVER__BASE_URL=URL,
    EVALUATION__BASE_URL=URL,
    JUDGE__KEY="JUDGE_KEY",
    EVALUATION__KEY="EVALUATION_KEY",
    ENDPOINT__BASE_URL=URL,
    ENDPOINT__MODEL="mine",
)


def resources(profile: str, folder: Path) -> dict[str, Any]:
    """The resources of a profile in which as much as possible differs from the classes."""
    return resources_for(settings_of(folder / "data", folder, profile, CHANGED))


INSTANCE = dg.DagsterInstance.ephemeral()


def initialized(
    name: str, resource: dg.ConfigurableResource[Any], config: dict[str, Any] | None
) -> dict[str, Any]:
    """The values of a resource as Dagster makes it for a run with this configuration of it."""
    given = None if config is None else {name: {"config": config}}
    with dg.build_resources({name: resource}, resource_config=given, instance=INSTANCE) as found:
        values: dict[str, Any] = getattr(found, name).model_dump()
    return values


def one_field(values: Mapping[str, Any], *, nested: bool) -> dict[str, Any]:
    """A configuration of one field at each depth, with the value that it has."""
    plain = {name: value for name, value in values.items() if isinstance(value, str | int)}
    parts = {name: part for name, part in values.items() if nested and isinstance(part, dict)}
    inner = {name: one_field(part, nested=True) for name, part in parts.items()}
    return dict([*plain.items()][-1:]) | {name: part for name, part in inner.items() if part}


@pytest.mark.parametrize("profile", PROFILES)
def test_one_field_of_a_run_keeps_all_others_of_the_profile(profile: str):
    """For every resource: a run that gives one field, at each depth, has the profile's values."""
    for name, resource in resources(profile, Path.cwd()).items():
        whole = initialized(name, resource, None)
        for nested in (False, True):
            assert whole == initialized(name, resource, one_field(whole, nested=nested))


def test_the_ceiling_that_the_page_sets_keeps_the_models_prices(tmp_path: Path):
    """A limit in dollars in a run's configuration; the prices stay those of the profile."""
    page = (ROOT / "docs/how-to/costs.md").read_text("utf-8")
    (block,) = re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)
    given = yaml.safe_load(block)["resources"]["evaluation_model"]["config"]
    model = resources_of("paper", tmp_path)["evaluation_model"]
    openai = initialized("evaluation_model", model, given)["openai"]
    price = PRICES["gpt-4.1-mini"]
    shown = (openai["dollars"], openai["prompt_price"], openai["completion_price"])
    assert (20.0, price.prompt, price.completion) == shown


def test_a_key_is_found_and_never_shown(tmp_path: Path):
    """A key comes from its variable at its use; the configuration has the variable's name alone."""
    model = resources("paper", tmp_path)["evaluation_model"]
    some = initialized("evaluation_model", model, {"open_models": {"concurrency": 3}})
    named = ("EVALUATION_KEY", 3)
    assert named == (some["open_models"]["key"], some["open_models"]["concurrency"])
    with having(EVALUATION_KEY=KEY):
        assert KEY == key_of(model.open_models).get_secret_value()
    kind = model.get_resource_definition().config_schema.config_type
    listed = repr([field.default_value for field in kind.fields.values()])
    assert "EVALUATION_KEY" in listed
    assert KEY not in listed


@pytest.mark.parametrize("kind", [Endpoint, EndpointConfig])
@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("key", KEY),
        ("base_url", [f"http://user:{KEY}@127.0.0.1/v1"]),
        ("base_url", [f"ftp://{KEY}"]),
    ],
)
def test_a_secret_in_the_wrong_field_is_refused_and_not_shown(
    kind: type[Endpoint], field: str, value: object
):
    """In a file, and in the run configuration of the UI's launchpad, which Dagster records."""
    with pytest.raises(ValidationError) as refused:
        kind(**{field: value})
    assert field in str(refused.value)
    assert KEY not in str(refused.value)


def test_no_asset_takes_a_setting_that_it_does_not_have(tmp_path: Path):
    """Dagster refuses one in a wrong place."""
    graph = build_definitions(settings_of(tmp_path)).resolve_asset_graph()
    nodes = (graph.get(key) for key in graph.materializable_asset_keys)
    kinds = [(n.key, n.assets_def.op.config_schema.as_field().config_type) for n in nodes]
    assert [] == [key for key, kind in kinds if not isinstance(kind, dg.Shape)]
