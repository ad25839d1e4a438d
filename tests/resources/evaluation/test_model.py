"""What stands behind each system: opened without asking, closed with the run."""

import json
import os
import shutil
import subprocess
import sys
from itertools import islice
from pathlib import Path
from typing import Any

import dagster as dg
import polars as pl
import pytest

from decomposerl.baselines.catalogue import METHODS
from decomposerl.baselines.method import ModelCall
from decomposerl.errors import ConfigError
from decomposerl.evaluation.systems import System, system_named, systems
from decomposerl.schemas import CURVES
from fault_server import MODEL, FaultServer, replying
from project import PYTHONPATH, ROOT
from resources.evaluation.chat_caller import ChatCaller
from resources.evaluation.generation import Generated
from resources.evaluation.method_prompts import MethodPrompts
from resources.evaluation.model import EvaluationModelResource
from resources.evaluation.opened_system import OpenedSystem
from resources.evaluation.served_policy import ServedModels
from resources.evaluation.weights import weights_digest
from resources.policy_tiny.folder import CHECKPOINT, VIEW
from resources.store.parquet import DataFolder
from resources.training.process import TrainingOutcome
from resources.training.run_store import RunFolder, write_outcome
from resources.verifier.resource import VerifierResource
from resources.vllm.adapters import PolicyAdapter
from resources.vllm.shared import SharedServer
from sample.policy_lessons import lessons

SYSTEMS = systems(METHODS, ["tiny", "paper_7b"])
UNUSED: dict[str, Any] = {"closers": [], "shared": SharedServer()}
"""Of callers that are never asked."""


def system(key: str) -> System:
    return system_named(key, SYSTEMS)


def resource(folder: Path, **changes: object) -> EvaluationModelResource:
    return EvaluationModelResource(**{"results_dir": str(folder / "results"), **changes})


def opened(by: EvaluationModelResource, key: str, folder: Path) -> OpenedSystem:
    verifier = VerifierResource(results_dir=by.results_dir)
    return by.opened(system(key), DataFolder(base_dir=str(folder)), verifier)


def claims() -> pl.DataFrame:
    """Two claims of a world that the tiny policy never saw, chosen so that its traces are whole."""
    rows = [
        {"claim_id": f"c{n}", "claim": one.claim, "evidence": one.view, "passages": [one.view]}
        for n, one in enumerate(islice(lessons(71_007, VIEW), 2))
    ]
    return pl.DataFrame(rows)


def silent(_: str) -> None:
    """Receives the progress of a run."""


def predicted(by: EvaluationModelResource, key: str, folder: Path) -> Generated:
    return opened(by, key, folder).predict("hover", claims(), 0.0, silent)


@pytest.fixture
def trained(tmp_path: Path) -> Path:
    """A data folder with a policy whose adapter changes nothing yet."""
    from peft import LoraConfig, get_peft_model
    from transformers import AutoModelForCausalLM

    shutil.copytree(CHECKPOINT, tmp_path / "base_policy")
    run = RunFolder(tmp_path / "policy" / "tiny")
    base = AutoModelForCausalLM.from_pretrained(CHECKPOINT, dtype="float32")
    get_peft_model(base, LoraConfig(r=2, target_modules=["q_proj"])).save_pretrained(run.adapter)
    CURVES.empty().write_parquet(run.curves)
    write_outcome(run, TrainingOutcome(7, 0, "", run.adapter, run.curves, {}, {}, {}, {}, {}))
    return tmp_path


@pytest.mark.parametrize("key", ["self_ask-rules-faithful", "folk-rules-single_call"])
def test_rules_answer_any_method(key: str, tmp_path: Path):
    """Without a model each method runs to its end; the engine's name says what answered."""
    made = predicted(resource(tmp_path), key, tmp_path)
    assert ["parsed", "parsed"] == made.predictions["parse_status"].to_list()
    assert made.predictions["engine"][0].startswith("rule_chat:4+lexical_verifier:")
    assert {key} == set(made.predictions["system"])
    again = predicted(resource(tmp_path), key, tmp_path)
    assert (2, 0) == (made.asked, again.asked)


def test_quick_claims_are_reported_once(tmp_path: Path):
    """Each message is an event in Dagster's storage, which costs more than a claim by rules."""
    numbered = pl.DataFrame({"claim_id": [f"n{n:03}" for n in range(60)]})
    many = numbered.join(claims().head(1).drop("claim_id"), how="cross")
    said: list[str] = []
    opened(resource(tmp_path), "simple-rules-faithful", tmp_path).predict(
        "hover", many, 0.0, said.append
    )
    assert ["simple-rules-faithful, hover: 60 of 60 claims"] == said


def test_the_verifier_is_the_profiles(tmp_path: Path):
    """It is asked where it is the one that the system names, and no other takes its place."""
    made = predicted(resource(tmp_path), "minicheck-lexical", tmp_path)
    assert 0 == made.predictions["support_score"].null_count()
    with pytest.raises(ConfigError, match="minicheck_hosted; this profile has embedded"):
        predicted(resource(tmp_path), "minicheck-7b", tmp_path)


@pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing` is deprecated")  # the fixture's
def test_a_policy_answers_in_process(trained: Path):
    """Its adapter on its base, the base's own prompt, the recipe's view; how sure it is."""
    tiny = opened(resource(trained), "decomposerl-tiny", trained)
    said: list[str] = []
    made = tiny.predict("hover", claims(), 0.0, said.append)
    assert (2, 0) == (tiny.calls, tiny.hits)
    assert said[-1].endswith("2 of 2 claims")
    assert ["parsed", "parsed"] == made.predictions["parse_status"].to_list()
    assert 0 == made.predictions["confidence_normalised"].null_count()
    assert {"trace"} == set(made.predictions["protocol"])
    assert 0 == made.predictions["trace"].null_count()
    tiny.predict("hover", claims(), 0.0, said.append)
    assert (2, 2) == (tiny.calls, tiny.hits)
    with pytest.raises(ConfigError, match="decomposerl train paper_7b"):
        opened(resource(trained), "decomposerl-paper_7b", trained)


@pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing` is deprecated")  # the fixture's
def test_a_served_policy_is_told_from_one_on_another_base(trained: Path):
    """Its name has the base's files beside the adapter's; a hub's base has its revision."""

    def engine() -> str:
        served_models = ServedModels(endpoints=["http://127.0.0.1:1/v1"])
        by = resource(trained, policies="served", open_models=served_models)
        return opened(by, "decomposerl-tiny", trained).engine

    before = engine()
    assert before == engine()
    template = trained / "base_policy" / "chat_template.jinja"
    template.write_text(template.read_text("utf-8") + " ", "utf-8")
    assert before != engine()
    folder = trained / "policy" / "tiny" / "adapter"
    adapter = PolicyAdapter("tiny-7", folder, "org/m", weights_digest(folder))
    names = {
        ServedModels(endpoints=["http://127.0.0.1:1/v1"], revision=revision)
        .caller("org/m", MethodPrompts(), 42, results=trained, **UNUSED, adapter=adapter)[0]
        .engine
        for revision in ("", "abc", "def")
    }
    assert 3 == len(names)


def test_the_hash_is_over_what_is_sent(tmp_path: Path):
    """The hash depends on how thinking is switched, and on the form of a transcript."""

    def caller(**changes: object) -> ChatCaller:
        served_models = ServedModels(
            **{"endpoints": ["http://127.0.0.1:1/v1"], "likeliest": 0, **changes}
        )
        return served_models.caller("m", MethodPrompts(), 42, results=tmp_path, **UNUSED)[0]

    plain, started = caller(), caller(endpoints=[], vllm=["vllm"])
    every = [plain, caller(thinking_style="qwen"), caller(thinking_style="openai")]
    assert 3 == len({one.prompt_hash("simple") for one in every})
    assert (plain.engine, plain.prompt_hash("simple")) == (
        started.engine,
        started.prompt_hash("simple"),
    )
    assert f"{plain.engine} continued" == caller(continues=True).engine


def test_an_endpoint_is_asked_and_paid(tmp_path: Path):
    """The system's model by its name, with alternatives, each call at the endpoint's price."""
    reply = replying("Supported")
    with FaultServer(usual=reply) as served:
        served_models = ServedModels(endpoints=[served.url], model=MODEL, prompt_price=1.0)
        model = resource(tmp_path, endpoint=served_models)
        made = predicted(model, "simple-endpoint-faithful", tmp_path)
        model.close()
        assert {5} == {body["top_logprobs"] for body in served.asked}
    assert ["Supported", "Supported"] == made.predictions["verdict"].to_list()
    assert [None, None] == made.predictions["confidence_raw"].to_list()  # it gave none
    assert [10e-6, 10e-6] == made.calls["dollars"].to_list()
    assert f"chat:{MODEL}" == made.predictions["engine"][0]


def test_where_nothing_serves_a_model_a_person_is_told(tmp_path: Path):
    """Opening says so, before anything is asked."""
    with pytest.raises(ConfigError, match=r"no endpoint serves 'Qwen/Qwen2\.5-7B-Instruct'"):
        predicted(resource(tmp_path), "cot-qwen2.5-7b-faithful", tmp_path)


def test_dagster_opens_and_closes_it(tmp_path: Path):
    """As a resource of a run: its key comes from the environment and stands in no stored value.

    The run is a process of its own, so that a variable can be set for it alone.
    """
    with FaultServer(usual=replying("Refuted")) as served:
        command = [sys.executable, __file__, served.url, str(tmp_path)]
        environment = {**os.environ, "PYTHONPATH": PYTHONPATH, "TEST_ENDPOINT_KEY": "sk-secret"}
        ran = subprocess.run(
            command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True
        )
        assert {"Bearer sk-secret"} == set(served.authorizations)
    assert ["Refuted", "Refuted"] == json.loads(ran.stdout.splitlines()[-1])
    assert "sk-secret" not in ran.stdout + ran.stderr


def run(url: str, folder: Path) -> None:
    """Predict within a run of Dagster and print the verdicts."""
    served_models = ServedModels(
        endpoints=[url], model=MODEL, api_key=dg.EnvVar("TEST_ENDPOINT_KEY")
    )

    @dg.asset
    def answers(evaluation_model: EvaluationModelResource) -> list[str]:
        made = predicted(evaluation_model, "simple-endpoint-faithful", folder)
        return made.predictions["verdict"].to_list()

    known = {"evaluation_model": resource(folder, endpoint=served_models)}
    found = dg.materialize([answers], resources=known).output_for_node("answers")
    print(repr(known), flush=True)  # noqa: T201 - the parent reads it
    print(json.dumps(found), flush=True)  # noqa: T201 - the parent reads it


if __name__ == "__main__":
    run(sys.argv[1], Path(sys.argv[2]))


def test_wording_is_part_of_the_hash(tmp_path: Path):
    """Another rule or number of worked examples: other prompts, so no stored answer is reused."""

    def hashed(key: str, **changes: object) -> str:
        one = opened(resource(tmp_path, **changes), key, tmp_path)
        return one.task.prompt_hash(one.caller)

    for key in ("simple-rules-faithful", "hiss-rules-single_call"):
        every = [hashed(key)]
        every += [hashed(key, verdict_rule="paper"), hashed(key, demonstrations=0)]
        every += [hashed(key, demonstrations=1), hashed(key, demonstrations=1, seed=1)]
        assert len(every) == len(set(every))
        assert every[0] == hashed(key, demonstrations=4) == hashed(key, demonstrations=9)


@pytest.mark.parametrize(
    ("changes", "limit"),
    [
        ({}, 64),
        ({"thinking": "on"}, 64 + 4_096),
        ({"thinking_style": "qwen"}, 64 + 4_096),
        ({"thinking_style": "openai", "thinking_tokens": 500}, 64 + 500),
        ({"thinking_style": "qwen", "thinking": "off"}, 64),
    ],
)
def test_a_thought_has_tokens_of_its_own(changes: dict[str, object], limit: int):
    """A limit of a few words for the verdict would end inside the thought before it."""
    call = ModelCall("verify", "verdict", {}, max_tokens=64)
    assert limit == ServedModels(**changes).call_settings(42).sampling(call).max_tokens
