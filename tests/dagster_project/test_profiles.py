"""The environment and the settings: what a user may write, and what one run may change."""

import functools
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from copy import deepcopy
from itertools import zip_longest
from pathlib import Path
from typing import Any, get_args, get_origin

import dagster as dg
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ValidationError

from dagster_project.definitions import build_definitions
from dagster_project.engine_choices import EngineChoices, ProfileName, engine_choices
from dagster_project.engine_resources import engine_resources
from dagster_project.engine_variables import names_of_keys, price
from dagster_project.profiles import (
    Profile,
    benchmarks_for,
    known_variables,
    profile_from_environment,
    resources_for,
    sources_for,
)
from decomposerl.chat import Price
from decomposerl.errors import ConfigError
from decomposerl.funnel.settings import DifficultySettings, RuleSettings, SilverSettings
from decomposerl.training.estimate import batch_problems
from decomposerl.training.experiment import TINY_BASES
from decomposerl.training.experiments import EXPERIMENTS, PAPER_7B
from environment import variables
from project import ROOT
from resources.chat.endpoint import key_of
from resources.corpora.resource import CorporaResource
from resources.evaluation.model import EvaluationModelResource
from resources.training.resource import PolicyTrainerResource
from strategies import LAW
from tables import cases_beside
from toy_corpus import SOURCE, corpus

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
    """Whatever its value is, which the message does not repeat."""
    for row in MISSPELT:
        with pytest.raises(ConfigError, match=f"the nearest is {row['nearest']}") as refused:
            profile_from_environment({row["name"]: "hidden7391"})
        assert "hidden7391" not in str(refused.value)


def test_other_programs_may_have_their_variables():
    """Those of Kubernetes for a Service named like the project, too; ours are in the example."""
    assert Profile("embedded", None, ROOT / "data") == profile_from_environment({})
    for name in IGNORED:
        assert profile_from_environment({}) == profile_from_environment({name: "tcp://10.0.0.7"})
    text = (ROOT / ".env.example").read_text("utf-8")
    documented = set(re.findall(r"^(?:# ?)?([A-Z][A-Z_]+)=", text, re.MULTILINE))
    assert known_variables() | {"DAGSTER_HOME", "DAGSTER_MODULE_NAME"} == documented


@LAW
@given(st.sampled_from(KNOWN), st.data())
def test_a_variable_with_one_letter_less_is_never_ignored(name: str, data: st.DataObject):
    """What is left is another known variable, or refused."""
    at = data.draw(st.integers(0, len(name) - 1))
    short = name[:at] + name[at + 1 :]
    if short not in KNOWN:
        with pytest.raises(ConfigError, match="the nearest is"):
            profile_from_environment({short: ""})


@pytest.mark.parametrize("scheme", "s3 S3 gs az abfs hdfs file http memory".split())
def test_a_url_is_no_folder(scheme: str, tmp_path: Path):
    """Of corpora, prompts and data, and of a resource that one run configures."""
    folder = resources_for(Profile("embedded", None, tmp_path))["data_folder"]
    for location in (f"{scheme}://b/x", f"{scheme}:/b"):
        for name in ("CORPORA", "PROMPTS", "DATA"):
            environment = {f"DECOMPOSERL_{name}": location, "DECOMPOSERL_PROFILE": "local"}
            with pytest.raises(ConfigError, match=f"^DECOMPOSERL_{name} holds a URL"):
                profile_from_environment(environment)
        with pytest.raises(ConfigError, match="holds a URL"):
            type(folder)(base_dir=location)


def test_a_path_with_a_colon_is_a_path(tmp_path: Path):
    """Only a scheme with a slash makes a URL; a file is no data folder, corpora must be there."""
    for location in ("a:b/c", "/x/a:b", "./s3:/x", "s3", "data 2024-01-01T10:00"):
        found = profile_from_environment({"DECOMPOSERL_DATA": location}).data
        assert Path(location).resolve() == found
    (tmp_path / "file").touch()
    wrong = (("DATA", tmp_path / "file"), ("CORPORA", "/nowhere/at/all"), ("PROFILE", "papre"))
    for name, value in wrong:
        with pytest.raises(ConfigError, match=f"DECOMPOSERL_{name}"):
            profile_from_environment({f"DECOMPOSERL_{name}": str(value)})


PROGRAM = """
import dagster as dg
from dagster_project.profiles import load_env_file, profile_from_environment
profile = profile_from_environment()
load_env_file()
print(profile.name, profile.data.name, *(dg.EnvVar(f"{x}_KEY").get_value() for x in "AB"))
"""


def test_a_dotenv_file_fills_in_what_the_environment_leaves_open(tmp_path: Path):
    """For the command line, and after ``load_env_file`` for Dagster; the environment wins."""
    own = "DECOMPOSERL_DATA=from_file\nDECOMPOSERL_PROFILE=paper\n"
    (tmp_path / ".env").write_text(f"{own}A_KEY=from_file\nB_KEY=from_file\n")
    shell = {name: value for name, value in os.environ.items() if "DECOMPOSERL_" not in name}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        cwd=tmp_path,
        env={"DECOMPOSERL_PROFILE": "embedded", "B_KEY": "from_environment", **shell},
        capture_output=True,
        text=True,
        check=True,
    )
    assert ["embedded", "from_file", "from_file", "from_environment"] == done.stdout.split()


def test_a_users_corpus_joins_sources_and_may_have_any_free_name(tmp_path: Path):
    """Also that of an argument of an asset; its test files join the benchmarks."""
    folder = corpus(tmp_path / "corpora", claims=3)
    toml = SOURCE.replace("[columns]", 'test = ["toy/test.jsonl"]\n\n[columns]')
    (folder / "toy/source.toml").write_text(toml.replace('name = "toy"', 'name = "context"'))
    profile = Profile("embedded", folder, tmp_path / "data")
    assert "context" == sources_for(profile)[-1].name == benchmarks_for(profile)[-1].name
    keys = build_definitions(profile).resolve_asset_graph().get_all_asset_keys()
    assert {("claims", "context"), ("benchmark", "context")} <= {tuple(key.path) for key in keys}


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
    toml = corpus(tmp_path / "corpora", claims=3) / "toy/source.toml"
    profile = Profile("embedded", tmp_path / "corpora", tmp_path)
    toml.write_text(SOURCE.replace('name = "toy"', 'name = "hover"'))
    with pytest.raises(ConfigError, match="'hover'"):
        sources_for(profile)
    toml.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigError, match=r"source\.toml"):
        sources_for(profile)
    toml.unlink()
    toml.mkdir()
    with pytest.raises(ConfigError, match=r"source\.toml"):
        sources_for(profile)


def test_bounds_in_the_wrong_order_are_refused():
    """Settings under which every claim would leave with a plausible reason do not start."""
    for settings, bounds, said in (
        (DifficultySettings, {"low": 0.9}, r"\(0\.9\).*\(0\.8\)"),
        (RuleSettings, {"min_tokens": 500, "max_tokens": 400}, "min_tokens"),
        (SilverSettings, {"min_questions": 30}, "min_questions"),
    ):
        with pytest.raises(ValidationError, match=said):
            settings(**bounds)


CANARY = "hidden7391"
WRONG = cases_beside(__file__, "wrong_variables")


@pytest.mark.parametrize("row", WRONG, ids=lambda row: f"{row['name']}={row['value']}")
def test_what_a_variable_cannot_mean_is_one_sentence(row: dict[str, str]):
    """It names the variable and what would be right, and repeats no part of a URL."""
    variable = f"DECOMPOSERL_{row['name']}"
    with pytest.raises(ConfigError) as refused:
        engine_choices("paper", {variable: row["value"]})
    said = str(refused.value)
    assert variable in said
    assert row["says"] in said
    assert "\n" not in said
    assert CANARY not in said
    assert refused.value.__cause__ is None or not variable.endswith("_URL")


def test_two_chat_endpoints_are_two():
    """Chat is asked at several places; names that end in KEY are keys, which no server sees."""
    chosen = engine_choices("local", {"DECOMPOSERL_CHAT_URL": " http://a/v1/ ,https://[::1]:8/v1,"})
    assert chosen.chat_server is not None
    assert ("http://a/v1", "https://[::1]:8/v1") == chosen.chat_server.urls
    for device in ("cpu", "mps", "cuda", "cuda:0", "cuda:11"):
        assert device == engine_choices("local", {"DECOMPOSERL_DEVICE": device}).device
    names = ("KEY", "OPENAI_API_KEY", "MY_KEY", "HF_TOKEN", "KEYBOARD", "MONKEY", "my_key")
    assert ("KEY", "MY_KEY", "OPENAI_API_KEY", "my_key") == names_of_keys(dict.fromkeys(names, "x"))
    env = {"A_KEY": "1", "PATH": "/bin"}
    assert ("A_KEY",) == engine_choices("paper", env).withheld
    made = engine_resources(EngineChoices(withheld=("A_KEY",)), "r", "", ["HF_TOKEN", "MY_TOKEN"])
    assert ["A_KEY", "MY_TOKEN"] == made["evaluation_model"].server.withheld, "an entry's, too"


@LAW
@given(st.floats(0, 1e6), st.none() | st.floats(0, 1e6))
def test_a_price_is_read_as_it_was_written(prompt: float, completion: float | None):
    """One amount or two; a completion that is not named costs nothing."""
    said = f"{prompt!r}" if completion is None else f"{prompt!r} / {completion!r}"
    assert Price(prompt, completion or 0.0) == price({"P": said}, "P")


URL = "http://127.0.0.1:8004/v1"
OPENAI = "https://api.openai.com/v1"


def asked(name: ProfileName, **named: str) -> EvaluationModelResource:
    made = engine_resources(engine_choices(name, variables(**named)), "r")
    found: EvaluationModelResource = made["evaluation_model"]
    return found


@pytest.mark.parametrize("name", ["local", "paper"])
def test_policies_are_served_where_open_models_are(name: ProfileName):
    """At the URL that a person names, or on the server that is started; a variable overrules it."""
    assert "served" == asked(name, EVALUATION_URL=URL).policies
    assert [URL] == asked(name, EVALUATION_URL=URL).open_models.base_url
    assert ("served" if name == "paper" else "in_process") == asked(name).policies
    here = asked(name, EVALUATION_URL=URL, EVALUATION_POLICIES="in_process")
    assert "in_process" == here.policies
    assert "served" == asked(name, EVALUATION_POLICIES="served").policies
    assert "in_process" == asked("embedded").policies


def test_a_row_is_asked_in_one_form_wherever_its_server_comes_from():
    """A vLLM goes on from a turn, named or started; a person's own endpoint where they say so."""
    for found in (asked("paper"), asked("paper", EVALUATION_URL=URL), asked("local")):
        assert found.open_models.continues
    assert not asked("paper", EVALUATION_URL=URL, EVALUATION_CONTINUES="no").open_models.continues
    assert not asked("paper", EVALUATION_URL=OPENAI).open_models.continues
    assert not asked("paper").openai.continues
    own = {"ENDPOINT_URL": URL, "ENDPOINT_MODEL": "m"}
    assert not asked("paper", **own).endpoint.continues
    assert asked("paper", **own, ENDPOINT_CONTINUES="yes").endpoint.continues


SAMPLER = "http://127.0.0.1:8003"
CONFIGS = ROOT / "configs/accelerate"


def trainer(**named: str) -> PolicyTrainerResource:
    profile = profile_from_environment(variables(DATA="/data", **named))
    found = resources_for(profile)["policy_trainer"]
    assert isinstance(found, PolicyTrainerResource)
    return found


def test_a_profile_chooses_device_and_generation():
    """Embedded: the CPU in one thread, whatever the variables; else as they are named.

    Training takes the GPU's pool only where it takes a GPU: on the CPU two may run side by side.
    """
    found = trainer(DEVICE="cuda", GENERATION="vllm_colocate")
    assert ("cpu", 1, "transformers") == (found.device, found.threads, found.generation)
    assert "dagster_project.worker" == found.module
    at = {"DEVICE": "cuda:1", "GENERATION_URL": SAMPLER}
    for profile in ("local", "paper"):
        for engine in ("transformers", "vllm_colocate", "vllm_server"):
            found = trainer(PROFILE=profile, GENERATION=engine, **at)
            chosen = (found.device, found.generation, found.generation_url)
            assert ("cuda:1", engine, SAMPLER) == chosen, profile
    assert "gpu" == engine_choices("local", {"DECOMPOSERL_DEVICE": "cuda"}).pools["policy"]
    assert "policy" not in engine_choices("local", {}).pools | engine_choices("embedded", {}).pools


def test_the_job_trains_one_recipe_a_partition(tmp_path: Path):
    """Partitions are the recipes, in their order; nothing else is in the job, nothing automatic."""
    definitions = build_definitions(Profile("embedded", None, tmp_path))
    job, graph = definitions.resolve_job_def("train"), definitions.resolve_asset_graph()
    assert job.partitions_def is not None
    assert [one.name for one in EXPERIMENTS] == list(job.partitions_def.get_partition_keys())
    keys = {key.to_user_string() for key in job.asset_layer.executable_asset_keys}
    assert {"policy"} == keys
    (node,) = (graph.get(key) for key in job.asset_layer.executable_asset_keys)
    assert node.automation_condition is None
    wanted = {"training_claims", "training_claims_random", "silver_decomposed", *TINY_BASES}
    assert wanted == {key.to_user_string() for key in node.parent_keys}


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

Value = Any  # whatever a field of a resource holds
Path_ = tuple[str, ...]  # names of fields, outermost first
KEY = "secret5812"
KEYS = ("OPENAI_API_KEY", *(f"DECOMPOSERL_{role}_KEY" for role in "JUDGE EVALUATION".split()))
URLS = dict.fromkeys(
    ("DECOMPOSERL_CHAT_URL", "DECOMPOSERL_EVALUATION_URL"), "http://127.0.0.1:9/v1"
)
OWN = {"DECOMPOSERL_ENDPOINT_URL": "http://127.0.0.1:8/v1", "DECOMPOSERL_ENDPOINT_MODEL": "mine"}


def resources(profile: str, folder: Path) -> dict[str, Any]:
    """The resources of a profile in which as much as possible differs from the classes."""
    places = {"CORPORA": str(folder), "DATA": str(folder / "data"), "DEVICE": "cuda:1"}
    environment = variables(PROFILE=profile, CHAT_PRICE="1/2", CHAT_DOLLARS="3", **places)
    named = environment | URLS | OWN | dict.fromkeys(KEYS, KEY)
    return resources_for(profile_from_environment(named))


def inside(values: dict[str, Any], path: Path_) -> Value:
    """The value at a path of field names."""
    for name in path:
        values = values[name]
    return values


def put(values: dict[str, Any], path: Path_, value: Value) -> None:
    """Set the value at a path, in dicts that are made where there are none."""
    *folders, last = path
    for name in folders:
        values = values.setdefault(name, {})
    values[last] = value


VALID = {"key": "OTHER_KEY", "device": "mps", "structured": True, "continues": True}


def another(name: str, annotation: Value, value: Value) -> Value:
    """A valid value of a field that is not this one."""
    if name in VALID:
        return not value if value is True else VALID[name]
    if isinstance(value, dict):
        return {"scifact": "rationales"}  # of LoadSettings.readings
    if get_args(annotation) and get_origin(annotation) is not list:
        return next(one for one in get_args(annotation) if one != value)
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return type(value)(1 if value != 1 else 0.5 if isinstance(value, float) else 2)
    return ["other"] if isinstance(value, list) else "other"


def fields(kind: type[BaseModel], path: Path_ = ()) -> Iterator[tuple[Path_, Any]]:
    """Each field that holds a plain value, at every depth, with its type."""
    for name, field in kind.model_fields.items():
        inner = field.annotation
        if isinstance(inner, type) and issubclass(inner, BaseModel):
            yield from fields(inner, (*path, name))
        else:
            yield (*path, name), inner


def in_turn(kind: type[BaseModel]) -> list[list[tuple[Path_, Any]]]:
    """Every field once, at most one of each nested resource at a time."""
    parts: dict[str, list[tuple[Path_, Any]]] = {}
    for path, annotation in fields(kind):
        parts.setdefault(path[0] if len(path) > 1 else "", []).append((path, annotation))
    rows = zip_longest(*parts.values())
    return [[one for one in row if one is not None] for row in rows]


INSTANCE = dg.DagsterInstance.ephemeral()
CASES = [
    pytest.param(profile, name, chosen, id=f"{profile}-{name}-{number}")
    for profile in get_args(ProfileName)
    for name, resource in resources("embedded", Path.cwd()).items()
    for number, chosen in enumerate(in_turn(type(resource)))
]


def initialized(name: str, resource: Value, config: dict[str, Any] | None) -> dict[str, Any]:
    """The values of a resource as Dagster makes it for a run with this configuration of it."""
    given = None if config is None else {name: {"config": config}}
    with dg.build_resources({name: resource}, resource_config=given, instance=INSTANCE) as found:
        values: dict[str, Any] = getattr(found, name).model_dump()
    return values


@functools.cache
def unconfigured(profile: str, name: str) -> tuple[Value, dict[str, Any]]:
    """A resource of a profile, and its values in a run that configures nothing."""
    resource = resources(profile, Path.cwd())[name]
    return resource, initialized(name, resource, None)


@pytest.fixture(scope="module")
def keys() -> Iterator[None]:
    """Dagster reads keys from the environment of the run."""
    before = {name: os.environ[name] for name in KEYS if name in os.environ}
    os.environ.update(dict.fromkeys(KEYS, KEY))
    yield
    for name in KEYS:
        del os.environ[name]
    os.environ.update(before)


@pytest.mark.usefixtures("keys")
@pytest.mark.parametrize(("profile", "name", "chosen"), CASES)
def test_one_field_of_a_run_keeps_all_others_of_the_profile(
    profile: str, name: str, chosen: list[tuple[Path_, Value]]
):
    """For every profile, resource and field: the run has the profile's values and that one.

    One field of each nested resource at once: a field that changes another is seen all the same.
    """
    resource, whole = unconfigured(profile, name)
    config, expected = dict[str, Any](), deepcopy(whole)
    for path, kind in chosen:
        value = another(path[-1], kind, inside(whole, path))
        put(config, path, value)
        put(expected, path, value)
    assert whole != expected
    assert expected == initialized(name, resource, config)


@pytest.mark.usefixtures("keys")
def test_a_key_is_found_and_never_shown(tmp_path: Path):
    """A key comes from its variable at its use; the configuration has the variable's name alone."""
    model = resources("paper", tmp_path)["evaluation_model"]
    some = initialized("evaluation_model", model, {"open_models": {"concurrency": 3}})
    named = ("DECOMPOSERL_EVALUATION_KEY", 3)
    assert named == (some["open_models"]["key"], some["open_models"]["concurrency"])
    assert KEY == key_of(model.open_models).get_secret_value()
    kind = model.get_resource_definition().config_schema.config_type
    shown = repr([field.default_value for field in kind.fields.values()])
    assert "DECOMPOSERL_EVALUATION_KEY" in shown
    assert KEY not in shown
    corpora = resources("embedded", tmp_path)["corpora"]
    for config in ({}, {"settings": {}}):  # an empty one is the profile's, at any depth
        assert initialized("corpora", corpora, None) == initialized("corpora", corpora, config)
    verifier = resources("paper", tmp_path)["verifier"]
    some = initialized("verifier", verifier, {"engine": "embedded", "batch_size": 512})
    expected = ("embedded", 512, verifier.model)
    assert expected == (some["engine"], some["batch_size"], some["model"]), "as without a profile"


@pytest.mark.usefixtures("keys")
def test_no_asset_takes_a_setting_that_it_does_not_have(tmp_path: Path):
    """Dagster refuses one in a wrong place; a run keeps the folder where it sets the rule alone."""
    graph = build_definitions(Profile("embedded", None, tmp_path)).resolve_asset_graph()
    nodes = (graph.get(key) for key in graph.materializable_asset_keys)
    kinds = [(n.key, n.assets_def.op.config_schema.as_field().config_type) for n in nodes]
    assert [] == [key for key, kind in kinds if not isinstance(kind, dg.Shape)]

    given: list[CorporaResource] = []

    @dg.asset
    def reader(corpora: CorporaResource) -> None:
        given.append(corpora)

    corpora = {"config": {"settings": {"label_rule": "middle_is_refuted"}}}
    quiet = {"console": {"config": {"log_level": "CRITICAL"}}}
    dg.materialize(
        [reader],
        resources={"corpora": resources("embedded", tmp_path)["corpora"]},
        run_config={"resources": {"corpora": corpora}, "loggers": quiet},
        instance=INSTANCE,
    )
    assert (str(tmp_path), "middle_is_refuted") == (given[0].root, given[0].settings.label_rule)
