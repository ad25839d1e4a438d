"""What stands behind each system: which can run, opened without asking, closed with the run."""

import json
import re
import shutil
from itertools import islice
from pathlib import Path
from typing import Any

import dagster as dg
import polars as pl
import pytest

from decomposerl.baselines.catalogue import METHODS
from decomposerl.endpoint import Endpoint
from decomposerl.errors import ConfigError, EngineError
from decomposerl.evaluation.entries import SystemEntry
from decomposerl.evaluation.systems import system_named, systems
from environment import having
from evaluation_graph import write_policy_of, write_run
from evaluation_runs import BY_KEY, opened, predicted
from fault_server import MODEL, FaultServer, replying
from resources.chat.endpoint import EndpointConfig
from resources.evaluation.model import EvaluationModelResource, policy_facts
from resources.evaluation.runner import MethodCaller
from resources.policy_tiny.folder import CHECKPOINT, VIEW
from resources.store.integrity import DIGESTS
from resources.store.parquet import DataFolder
from resources.verifier.resource import VerifierResource
from resources.vllm.server import ServerFields
from sample.policy_lessons import lessons
from stand_in_server import adapter, requests_of, serving

POLICY, URL = "decomposerl-tiny", "http://127.0.0.1:9/v1"
NOTHING_SAID = "ignore:`is_gradient_checkpointing` is deprecated"


def caller(folder: Path, **fields: Any) -> MethodCaller:  # noqa: ANN401 - of an endpoint
    """The caller of a person's own endpoint, which is never asked."""
    place, server = {"model": "m", "base_url": [URL], **fields}, ServerFields(vllm=["vllm"])
    own = {"endpoint": EndpointConfig(**place), "server": server, "likeliest": 0}
    with opened(folder, "simple-endpoint-faithful", **own) as system:
        return system.caller


def lesson_claims() -> pl.DataFrame:
    """Two claims of a world that the tiny policy never saw, chosen so that its traces are whole."""
    rows = [
        {"claim_id": f"c{n}", "claim": one.claim, "evidence": one.view, "passages": [one.view]}
        for n, one in enumerate(islice(lessons(71_007, VIEW), 2))
    ]
    return pl.DataFrame(rows)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data folder with a policy whose adapter changes nothing yet."""
    folder = tmp_path_factory.mktemp("trained")
    write_policy_of(folder)
    return folder


@pytest.mark.filterwarnings(NOTHING_SAID)  # the fixture's
def test_a_policy_answers_in_process(trained: Path):
    """Its adapter on its base, the base's own prompt, the recipe's view; how sure it is."""
    said: list[str] = []
    with opened(trained, POLICY) as tiny:
        made, _ = tiny.predict("hover", lesson_claims(), 0.0, said.append)
        assert (2, 0) == (tiny.calls, tiny.hits)
        tiny.predict("hover", lesson_claims(), 0.0, said.append)
        assert (2, 2) == (tiny.calls, tiny.hits)
    assert said[-1].endswith("2 of 2 claims")
    assert ["parsed", "parsed"] == made["parse_status"].to_list()
    assert 0 == made["confidence_normalised"].null_count()
    assert {"trace"} == set(made["protocol"])
    assert 0 == made["trace"].null_count()
    other = system_named("decomposerl-paper_7b", systems(METHODS, ["paper_7b"]))
    with pytest.raises(ConfigError, match="decomposerl train paper_7b"):
        predicted(trained, other)


@pytest.mark.filterwarnings(NOTHING_SAID)  # the fixture's
def test_a_served_policy_is_told_from_one_on_another_base(trained: Path, tmp_path: Path):
    """Its name has the base's files beside the adapter's; a hub's base has its revision."""
    data = shutil.copytree(trained, tmp_path / "data")

    def engine() -> str:
        served = {"policies": "served", "open_models": EndpointConfig(base_url=[URL])}
        with opened(data, POLICY, **served) as one:
            return one.engine

    before = engine()
    assert before == engine()
    template = data / "base_policy" / "chat_template.jinja"
    template.write_text(template.read_text("utf-8") + " ", "utf-8")
    assert before != engine()
    folder = data / "policy" / "tiny" / "adapter"
    names = set()
    for revision in ("", "abc", "def"):
        lora = {"model": "org/m", "adapter": str(folder), "base_url": [URL], "revision": revision}
        entry = SystemEntry(name="a", method="trace", **lora)
        with opened(data, systems([], [], [entry])[0]) as one:
            names.add(one.engine)
    assert 3 == len(names)


def test_the_hash_is_over_what_is_sent(tmp_path: Path):
    """How thinking is switched, the form of a transcript, the verdict rule, worked examples."""
    plain = caller(tmp_path, continues=False)
    started = caller(tmp_path, base_url=[], runs="server", continues=False)
    every = [plain, *(caller(tmp_path, thinking_style=one) for one in ("qwen", "openai"))]
    assert 3 == len({one.prompt_hash("simple") for one in every})
    assert plain.engine == started.engine
    assert plain.prompt_hash("simple") == started.prompt_hash("simple")
    assert f"{plain.engine} continued" == caller(tmp_path, continues=True).engine

    def hashed(key: str, **changes: object) -> str:
        with opened(tmp_path, key, **changes) as one:
            return one.prompt_hash

    for key in ("folk-rules-faithful", "hiss-rules-single_call"):
        every = [hashed(key)]
        every += [hashed(key, verdict_rule="paper"), hashed(key, demonstrations=0)]
        every += [hashed(key, demonstrations=1), hashed(key, demonstrations=1, seed=1)]
        assert len(every) == len(set(every))
        assert every[0] == hashed(key, demonstrations=4) == hashed(key, demonstrations=9)


def test_a_model_without_an_address_answers_in_this_process(tmp_path: Path):
    """Wherever a place of the profile may be: here that of a person's own model."""
    here = EndpointConfig(model=str(CHECKPOINT))
    made = predicted(tmp_path, "simple-endpoint-faithful", 1, endpoint=here).predictions
    assert made["engine"][0].startswith(f"transformers:{CHECKPOINT.name}:")


def test_dagster_opens_and_closes_it(tmp_path: Path, capfd: pytest.CaptureFixture[str]):
    """As a resource of a run: its key comes from the environment and stands in no stored value."""

    @dg.asset
    def answers(evaluation_model: EvaluationModelResource) -> list[str]:
        verifier = VerifierResource(results_dir=evaluation_model.results_dir)
        system, data = BY_KEY["simple-endpoint-faithful"], DataFolder(base_dir=str(tmp_path))
        made = evaluation_model.opened(system, data, verifier)
        return made.predict("hover", lesson_claims(), 0.0, str)[0]["verdict"].to_list()

    with (
        having(TEST_ENDPOINT_KEY="sk-secret"),
        FaultServer(usual=replying("Refuted")) as served,
    ):
        place = EndpointConfig(base_url=[served.url], model=MODEL, key="TEST_ENDPOINT_KEY")
        results = str(tmp_path / "results")
        known = {"evaluation_model": EvaluationModelResource(results_dir=results, endpoint=place)}
        found = dg.materialize([answers], resources=known).output_for_node("answers")
        assert {"Bearer sk-secret"} == set(served.authorizations)
    assert ["Refuted", "Refuted"] == found
    assert "sk-secret" not in repr(known) + "".join(capfd.readouterr())


def test_a_thought_has_tokens_of_its_own():
    """A limit of a few words for the verdict would end inside the thought before it."""
    assert 0 == Endpoint().thought_tokens
    assert 4_096 == Endpoint(model="Qwen/Qwen3-8B", thinking="on").thought_tokens
    assert 500 == Endpoint(thinking_style="openai", thinking_tokens=500).thought_tokens
    assert 0 == Endpoint(thinking_style="qwen", thinking="off").thought_tokens


NAMED = EndpointConfig(base_url=[URL], key="NO_SUCH_KEY")
STARTED = {"open_models": EndpointConfig(runs="server")}
OPEN = "simple-qwen2.5-7b-faithful"


@pytest.mark.parametrize(
    ("key", "fields", "said"),
    [
        (OPEN, {}, "'Qwen/Qwen2.5-7B-Instruct', .*: set DECOMPOSERL_EVALUATION__BASE_URL"),
        (OPEN, STARTED, "no endpoint serves 'Qwen/Qwen2.5-7B-Instruct'"),
        ("simple-endpoint-faithful", {}, "'your own model', .*DECOMPOSERL_ENDPOINT__BASE_URL"),
        ("simple-gpt-4.1-mini-faithful", {"openai": NAMED}, "NO_SUCH_KEY is not set"),
        ("minicheck-7b", {}, "minicheck_hosted.*embedded"),
        (POLICY, {}, "decomposerl train tiny"),
        (POLICY, {"policies": "served"}, "DECOMPOSERL_EVALUATION__BASE_URL"),
    ],
)
def test_what_is_missing_is_named_before_anything_is_asked(
    key: str, fields: dict[str, Any], said: str, tmp_path: Path
):
    """An address, a command, a key, the profile's verifier, a training run."""
    with pytest.raises(ConfigError, match=said):
        predicted(tmp_path, key, **fields)


def test_the_adapter_of_a_policy_is_that_of_the_last_step(servable: Path):
    """As the page of its predictions shows; other systems have no weights."""
    data = DataFolder(base_dir=str(servable))
    adapter = str(data.path / "policy/tiny/adapter")
    assert {"adapter": adapter, "checkpoint": 7} == policy_facts(data, BY_KEY[POLICY])
    assert {} == policy_facts(data, BY_KEY["minicheck-lexical"])


SAYS = ["--says", "<think>So.</think> <verification>Supported</verification>"]
LORA = ["--enable-lora", "--max-lora-rank", "64"]
ALLOWED = {"VLLM_ALLOW_RUNTIME_LORA_UPDATING": "True"}


@pytest.fixture
def servable(tmp_path: Path) -> Path:
    """A data folder with a policy of seven steps."""
    adapter(write_run(tmp_path), rank=2)
    return tmp_path


def predicted_at(folder: Path, url: str, count: int = 2) -> pl.DataFrame:
    """Predictions of claims by the policy at ``url``."""
    place = EndpointConfig(base_url=[f"{url}/v1"])
    return predicted(folder, POLICY, count, policies="served", open_models=place).predictions


def base(folder: Path) -> str:
    return str(folder / "base_policy")


def retrain(folder: Path) -> None:
    """Other weights in the same folder, after as many steps."""
    (folder / "policy/tiny" / DIGESTS).unlink()
    settings = folder / "policy/tiny/adapter/adapter_config.json"
    settings.write_text(json.dumps({**json.loads(settings.read_text()), "lora_alpha": 3}))


def claims_of(asked: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The requests about claims: not those that look whether an adapter is applied."""
    chats = [one for one in asked if one["path"] == "/v1/chat/completions"]
    return [one for one in chats if one["max_tokens"] > 1]


def test_an_adapter_is_loaded_where_the_server_does_not_list_it(servable: Path):
    """Once, by a name with a digest; other weights are another name, loaded beside the first."""
    with serving(servable, *LORA, *SAYS, model=base(servable), **ALLOWED) as url:
        made = predicted_at(servable, url)
        assert ["Supported"] * 2 == made["verdict"].to_list()
        assert predicted_at(servable, url, 4).height == 4
        asked = requests_of(servable)
        retrain(servable)
        predicted_at(servable, url)
    assert made["engine"][0].startswith("chat:tiny-7@")
    assert 1 == sum(one["path"] == "/v1/load_lora_adapter" for one in asked)
    (name,) = {one["model"] for one in claims_of(asked)}
    assert re.fullmatch(r"tiny-7-[0-9a-f]{12}", name)
    assert 4 == len(claims_of(asked))
    chats = claims_of(requests_of(servable))
    assert 2 == len({one["adapter"] for one in chats}) == len({one["model"] for one in chats})
    assert 6 == len(chats)


@pytest.mark.parametrize(
    ("words", "model", "said"),
    [
        (LORA, "org/other", r"serves org/other, .* needs its base .*base_policy"),
        ([], "", "LoRA is not enabled"),
        ([*LORA[:2], "1"], "", "LoRA rank 2 is greater than max_lora_rank 1"),
    ],
)
def test_what_the_server_says_is_in_the_error(
    servable: Path, words: list[str], model: str, said: str
):
    """One with another base, without adapters, or with smaller ones."""
    with (
        serving(servable, *words, *SAYS, model=model or base(servable), **ALLOWED) as url,
        pytest.raises(EngineError, match=said),
    ):
        predicted_at(servable, url)


def test_a_server_that_cannot_load_is_one_error_with_both_ways(servable: Path):
    """The variable, and the words to start with, which work as printed."""
    with (
        serving(servable, *LORA, *SAYS, model=base(servable)) as url,
        pytest.raises(EngineError, match="VLLM_ALLOW_RUNTIME_LORA_UPDATING=True") as caught,
    ):
        predicted_at(servable, url)
    printed = re.search(r"--enable-lora --max-lora-rank 64 --lora-modules \S+", str(caught.value))
    with serving(servable, *printed[0].split(), *SAYS, model=base(servable)) as url:
        assert predicted_at(servable, url).height == 2
