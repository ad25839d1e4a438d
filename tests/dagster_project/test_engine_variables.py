"""Variables of the engines: what each may hold, how a machine trains, and what is refused."""

from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from dagster_project.definitions import build_definitions
from dagster_project.engine_choices import EngineChoices, ProfileName, engine_choices
from dagster_project.engine_resources import engine_resources
from dagster_project.engine_variables import names_of_keys, price
from dagster_project.profiles import Profile, profile_from_environment, resources_for
from decomposerl.chat import Price
from decomposerl.errors import ConfigError
from decomposerl.training.estimate import batch_problems
from decomposerl.training.experiment import TINY_BASES
from decomposerl.training.experiments import EXPERIMENTS, PAPER_7B
from project import ROOT
from resources.evaluation.model import EvaluationModelResource
from resources.training.resource import PolicyTrainerResource
from strategies import LAW
from tables import cases_beside

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
    """The chat model alone is asked at several places; a slash at the end means nothing."""
    chosen = engine_choices("local", {"DECOMPOSERL_CHAT_URL": " http://a/v1/ ,https://[::1]:8/v1,"})
    assert chosen.chat_server is not None
    assert ("http://a/v1", "https://[::1]:8/v1") == chosen.chat_server.urls
    for device in ("cpu", "mps", "cuda", "cuda:0", "cuda:11"):
        assert device == engine_choices("local", {"DECOMPOSERL_DEVICE": device}).device


@LAW
@given(st.floats(0, 1e6), st.none() | st.floats(0, 1e6))
def test_a_price_is_read_as_it_was_written(prompt: float, completion: float | None):
    """One amount or two; a completion that is not named costs nothing."""
    said = f"{prompt!r}" if completion is None else f"{prompt!r} / {completion!r}"
    assert Price(prompt, completion or 0.0) == price({"P": said}, "P")


def test_names_that_end_in_key_are_keys():
    """``HF_TOKEN`` and words that merely begin so are not; a started server sees none of them."""
    names = ("KEY", "OPENAI_API_KEY", "MY_KEY", "HF_TOKEN", "KEYBOARD", "MONKEY", "my_key")
    assert ("KEY", "MY_KEY", "OPENAI_API_KEY", "my_key") == names_of_keys(dict.fromkeys(names, "x"))
    env = {"A_KEY": "1", "PATH": "/bin"}
    assert ("A_KEY",) == engine_choices("paper", env).withheld
    made = engine_resources(EngineChoices(withheld=("A_KEY",)), "r", "", ["HF_TOKEN", "MY_TOKEN"])
    assert ["A_KEY", "MY_TOKEN"] == made["evaluation_model"].entries.withheld, "an entry's, too"


URL = "http://127.0.0.1:8004/v1"
OPENAI = "https://api.openai.com/v1"


def asked(name: ProfileName, **variables: str) -> EvaluationModelResource:
    env = {f"DECOMPOSERL_{key}": value for key, value in variables.items()}
    found: EvaluationModelResource = engine_resources(engine_choices(name, env), "r")[
        "evaluation_model"
    ]
    return found


@pytest.mark.parametrize("name", ["local", "paper"])
def test_policies_are_served_where_open_models_are(name: ProfileName):
    """At the URL that a person names, or on the server that is started; a variable overrules it."""
    assert "served" == asked(name, EVALUATION_URL=URL).policies
    assert [URL] == asked(name, EVALUATION_URL=URL).open_models.endpoints
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


def trainer(**variables: str) -> PolicyTrainerResource:
    profile = profile_from_environment({"DECOMPOSERL_DATA": "/data", **variables})
    found = resources_for(profile)["policy_trainer"]
    assert isinstance(found, PolicyTrainerResource)
    return found


def test_a_profile_chooses_device_and_generation():
    """Embedded: the CPU in one thread, whatever the variables; else as they are named.

    Training takes the GPU's pool only where it takes a GPU: on the CPU two may run side by side.
    """
    found = trainer(DECOMPOSERL_DEVICE="cuda", DECOMPOSERL_GENERATION="vllm_colocate")
    assert ("cpu", 1, "transformers") == (found.device, found.threads, found.generation)
    assert "dagster_project.worker" == found.module
    at = {"DECOMPOSERL_DEVICE": "cuda:1", "DECOMPOSERL_GENERATION_URL": SAMPLER}
    for profile in ("local", "paper"):
        for engine in ("transformers", "vllm_colocate", "vllm_server"):
            found = trainer(DECOMPOSERL_PROFILE=profile, DECOMPOSERL_GENERATION=engine, **at)
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
