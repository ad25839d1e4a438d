"""How a machine trains: the profile's variables, its trainer, and accelerate's files."""

from pathlib import Path

import pytest
import yaml

from dagster_project.definitions import build_definitions
from dagster_project.engine_choices import engine_choices
from dagster_project.profiles import Profile, profile_from_environment, resources_for
from decomposerl.errors import ConfigError
from decomposerl.training.estimate import batch_problems
from decomposerl.training.experiment import TINY_BASES
from decomposerl.training.experiments import EXPERIMENTS, PAPER_7B
from project import ROOT
from resources.training.resource import PolicyTrainerResource

CONFIGS = ROOT / "configs/accelerate"
ENGINES = ("transformers", "vllm_colocate", "vllm_server")
URL = "http://127.0.0.1:8003"


def trainer(**variables: str) -> PolicyTrainerResource:
    profile = profile_from_environment({"DECOMPOSERL_DATA": "/data", **variables})
    found = resources_for(profile)["policy_trainer"]
    assert isinstance(found, PolicyTrainerResource)
    return found


def test_the_embedded_profile_trains_on_the_cpu_in_one_thread():
    """Whatever the variables of other profiles say."""
    found = trainer(DECOMPOSERL_DEVICE="cuda", DECOMPOSERL_GENERATION="vllm_colocate")
    assert ("cpu", 1, "transformers") == (found.device, found.threads, found.generation)
    assert "dagster_project.worker" == found.module


@pytest.mark.parametrize("profile", ["local", "paper"])
@pytest.mark.parametrize("engine", ENGINES)
def test_the_other_profiles_choose_device_and_generation(profile: str, engine: str):
    """Each engine by its name; the server at its URL."""
    found = trainer(
        DECOMPOSERL_PROFILE=profile,
        DECOMPOSERL_DEVICE="cuda:1",
        DECOMPOSERL_GENERATION=engine,
        DECOMPOSERL_GENERATION_URL=URL,
    )
    assert ("cuda:1", engine, URL) == (found.device, found.generation, found.generation_url)


@pytest.mark.parametrize(
    ("variables", "said"),
    [
        ({"DECOMPOSERL_GENERATION": "vllm"}, "transformers, vllm_colocate, vllm_server"),
        ({"DECOMPOSERL_GENERATION": "vllm_server"}, "DECOMPOSERL_GENERATION_URL must name"),
        ({"DECOMPOSERL_GENERATION_URL": "somewhere"}, "DECOMPOSERL_GENERATION_URL"),
    ],
)
def test_a_variable_that_cannot_be_is_named(variables: dict[str, str], said: str):
    """The message names the variable and what it may hold."""
    with pytest.raises(ConfigError, match=said):
        engine_choices("local", variables)


def test_training_takes_the_gpus_pool_only_where_it_takes_a_gpu():
    """On the CPU two runs may train side by side."""
    on_gpu = engine_choices("local", {"DECOMPOSERL_DEVICE": "cuda"})
    assert "gpu" == on_gpu.pools["policy"]
    assert "policy" not in engine_choices("local", {}).pools
    assert "policy" not in engine_choices("embedded", {}).pools


def test_the_job_trains_one_recipe_a_partition(tmp_path: Path):
    """Partitions are the recipes, in their order; nothing else is in the job, nothing automatic."""
    job = build_definitions(Profile("embedded", None, tmp_path)).resolve_job_def("train")
    assert job.partitions_def is not None
    assert [one.name for one in EXPERIMENTS] == list(job.partitions_def.get_partition_keys())
    graph = build_definitions(Profile("embedded", None, tmp_path)).resolve_asset_graph()
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
