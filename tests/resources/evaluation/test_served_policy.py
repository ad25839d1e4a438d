"""A policy on a running vLLM server: the adapter is listed, loaded, or an error says how."""

import json
import re
import shutil
from pathlib import Path

import polars as pl
import pytest

from decomposerl.baselines.catalogue import METHODS
from decomposerl.errors import EngineError
from decomposerl.evaluation.systems import system_named, systems
from decomposerl.schemas import BENCHMARK_CLAIMS, CURVES
from evaluation_graph import claim_row
from resources.evaluation.generation import Generated
from resources.evaluation.model import EvaluationModelResource
from resources.evaluation.served_policy import ServedModels
from resources.policy_tiny.folder import CHECKPOINT
from resources.store.parquet import DataFolder, write_parquet
from resources.training.process import TrainingOutcome
from resources.training.run_store import RunFolder, write_outcome
from resources.verifier.resource import VerifierResource
from resources.vllm.adapters import PolicyAdapter
from stand_in_server import adapter, requests_of, serving

POLICY = system_named("decomposerl-tiny", systems(METHODS, ["tiny"]))
SAYS = ["--says", "<think>So.</think> <verification>Supported</verification>"]
LORA = ["--enable-lora", "--max-lora-rank", "64"]
ALLOWED = {"VLLM_ALLOW_RUNTIME_LORA_UPDATING": "True"}


@pytest.fixture
def trained(tmp_path: Path) -> Path:
    """A data folder with a policy of seven steps."""
    run = RunFolder(tmp_path / "policy" / "tiny")
    run.path.mkdir(parents=True)
    adapter(run.adapter, rank=2)
    shutil.copytree(CHECKPOINT, tmp_path / "base_policy")
    write_parquet(CURVES.empty(), run.curves)
    write_outcome(run, TrainingOutcome(7, 0, "", run.adapter, run.curves, {}, {}, {}, {}, {}))
    return tmp_path


def predicted(folder: Path, url: str, count: int = 2) -> Generated:
    """Predictions of claims by the policy at ``url``."""
    frame = pl.DataFrame([claim_row(n) for n in range(count)], schema=BENCHMARK_CLAIMS.schema)
    by = EvaluationModelResource(
        results_dir=str(folder / "results"),
        policies="served",
        open_models=ServedModels(endpoints=[f"{url}/v1"]),
    )
    data, verifier = DataFolder(base_dir=str(folder)), VerifierResource(results_dir=by.results_dir)
    try:
        system = by.opened(POLICY, data, verifier)
        return system.predict("fever", BENCHMARK_CLAIMS.conform(frame), 0.0, str)
    finally:
        by.close()


def base(folder: Path) -> str:
    return str(folder / "base_policy")


def retrain(folder: Path) -> None:
    """Other weights in the same folder, after as many steps."""
    settings = folder / "policy/tiny/adapter/adapter_config.json"
    settings.write_text(json.dumps({**json.loads(settings.read_text()), "lora_alpha": 3}))


def test_an_adapter_is_loaded_where_the_server_does_not_list_it(trained: Path):
    """Once, by a name with a digest; the engine and its stored replies do not have that name."""
    with serving(trained, *LORA, *SAYS, model=base(trained), **ALLOWED) as url:
        made = predicted(trained, url).predictions
        assert ["Supported"] * 2 == made["verdict"].to_list()
        assert predicted(trained, url, 4).predictions.height == 4
    assert made["engine"][0].startswith("chat:tiny-7@")
    asked = requests_of(trained)
    assert 1 == sum(one["path"] == "/v1/load_lora_adapter" for one in asked)
    (name,) = {one["model"] for one in asked}
    assert re.fullmatch(r"tiny-7-[0-9a-f]{12}", name)
    assert 4 == sum(one["path"] == "/v1/chat/completions" for one in asked)


def test_an_adapter_of_another_training_is_never_asked(trained: Path):
    """The same recipe and step with other weights is another name, loaded beside the first."""
    with serving(trained, *LORA, *SAYS, model=base(trained), **ALLOWED) as url:
        predicted(trained, url)
        retrain(trained)
        predicted(trained, url)
    chats = [one for one in requests_of(trained) if one["path"] == "/v1/chat/completions"]
    assert 2 == len({one["adapter"] for one in chats}) == len({one["model"] for one in chats})
    assert 4 == len(chats)


def test_a_server_that_cannot_load_is_one_error_with_both_ways(trained: Path):
    """The variable, and the words to start with, which then work as printed."""
    with (
        serving(trained, *LORA, *SAYS, model=base(trained)) as url,
        pytest.raises(EngineError, match="VLLM_ALLOW_RUNTIME_LORA_UPDATING=True") as caught,
    ):
        predicted(trained, url)
    printed = re.search(
        r"--enable-lora --max-lora-rank 64 --lora-modules \S+=\S+", str(caught.value)
    )
    assert printed is not None
    words = printed[0].rstrip(".").split()
    with serving(trained, *words, *SAYS, model=base(trained)) as url:
        assert predicted(trained, url).predictions.height == 2


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "LoRA is not enabled"),
        (["--enable-lora", "--max-lora-rank", "1"], "LoRA rank 2 is greater than max_lora_rank 1"),
    ],
)
def test_what_the_server_says_is_in_the_error(trained: Path, words: list[str], said: str):
    """A server without adapters, or with smaller ones, names its reason."""
    with (
        serving(trained, *words, *SAYS, model=base(trained), **ALLOWED) as url,
        pytest.raises(EngineError, match=said),
    ):
        predicted(trained, url)


def test_a_server_of_another_base_loads_nothing(trained: Path):
    """An adapter on the wrong weights would answer nonsense; the error has the base."""
    with (
        serving(trained, *LORA, model="org/other", **ALLOWED) as url,
        pytest.raises(EngineError, match=r"serves org/other, .* needs its base .*base_policy"),
    ):
        predicted(trained, url)


def test_a_started_server_is_given_the_adapter():
    """By the name that it is asked by."""
    one = PolicyAdapter("tiny-7", Path("/policy/adapter"), "base", "0a1b2c3d4e5f")
    words = ServedModels().server("base", one).command().words(8000)
    rest = words[words.index("--enable-lora") :]
    assert ["--enable-lora", "--max-lora-rank", "64", "--lora-modules"] == rest[:4]
    assert ["tiny-7-0a1b2c3d4e5f=/policy/adapter"] == rest[4:]
