"""A policy at inference: in this process and at an endpoint, and how sure it is."""

import json
import math
import shutil
import warnings
from collections.abc import Callable, Sequence
from functools import cache
from itertools import islice
from pathlib import Path

import pytest
import torch
from peft import LoraConfig, get_peft_model
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM

from decomposerl.baselines.method import ClaimInput, ModelCall, ModelReply
from decomposerl.endpoint import Endpoint
from decomposerl.errors import EngineError
from evaluation_parts import prompts_in, run_all, shelf
from resources.chat.client import ChatClient
from resources.evaluation.local_model import (
    SMALL,
    LocalModel,
    few_threads,
    load_weights,
    weights_digest,
    weights_name,
)
from resources.evaluation.model import trace_procedure
from resources.evaluation.runner import (
    ChatCaller,
    MethodCaller,
    MethodPrompts,
    Prediction,
)
from resources.hub.adapters import zero_product
from resources.policy_tiny.folder import CHECKPOINT, VIEW
from resources.store.prompts import load_policy_prompt, load_prompt
from sample.policy_lessons import lessons
from tiny_server import TinyServer

FRESH_SEED, CLAIMS = 71_007, 2
PROMPTS = MethodPrompts(given={"policy": load_policy_prompt(str(CHECKPOINT))})
BASE = Endpoint(model=str(CHECKPOINT))
MOST = 420


@cache
def fresh(count: int = CLAIMS) -> dict[str, ClaimInput]:
    """Claims of a world that the tiny policy never saw, chosen so that its traces are whole."""
    made = islice(lessons(FRESH_SEED, VIEW), count)
    return {f"c{n}": ClaimInput(one.claim, one.view) for n, one in enumerate(made)}


def calls(max_tokens: int = MOST) -> list[ModelCall]:
    cases = ({"document": one.evidence, "claim": one.claim} for one in fresh().values())
    return [
        ModelCall("procedure", "prompt", variables, max_tokens=max_tokens) for variables in cases
    ]


@cache
def model(**batching: int) -> LocalModel:
    """The tiny policy in this process, loaded once."""
    return LocalModel(BASE, PROMPTS, **batching)


@cache
def answers() -> list[ModelReply]:
    return [reply.answer for reply in model().answer("policy", calls())]


def teacher_forced(caller: LocalModel, call: ModelCall, ids: Sequence[int]) -> torch.Tensor:
    """Log probabilities at each of the written tokens' places, in one plain pass."""
    prompt = caller._ids("policy", call)
    with torch.inference_mode():
        whole = caller._loaded[0](torch.tensor([[*prompt, *ids]])).logits[0].float()
    return whole.log_softmax(dim=-1)[len(prompt) - 1 : -1]


def test_log_probabilities_are_those_of_a_plain_pass():
    """Tokens and alternatives as by teacher forcing, in a batch or alone."""
    caller = model()
    vocabulary = caller._loaded[1].get_vocab()
    for call, answer in zip(calls(), answers(), strict=True):
        ids = caller._loaded[1](answer.text, add_special_tokens=False)["input_ids"]
        assert answer.text == "".join(token.text for token in answer.tokens)
        assert len(ids) == len(answer.tokens) < len(vocabulary)
        expected = teacher_forced(caller, call, ids)
        for number, row, token in zip(ids, expected, answer.tokens, strict=True):
            assert token.logprob == pytest.approx(row[number].item(), abs=1e-4)
            listed = [value for _, value in token.alternatives]
            assert listed == pytest.approx(row.topk(5).values.tolist(), abs=1e-4)
            assert token.logprob == max(listed)  # greedy
            assert sum(map(math.exp, listed)) <= 1 + 1e-5
    alone = model(size=1).answer("policy", calls())
    assert [answer.text for answer in answers()] == [one.answer.text for one in alone]
    assert {False} == {one.answer.truncated for one in alone}
    assert [len(one.answer.tokens) + 1 for one in alone] == [one.completion_tokens for one in alone]


def adapted(adapter: str) -> Endpoint:
    """The tiny policy with an adapter."""
    return Endpoint(model=str(CHECKPOINT), adapter=adapter)


def verified(
    caller: MethodCaller, folder: Path, most: int = MOST, count: int = CLAIMS
) -> list[Prediction]:
    procedure = trace_procedure(VIEW, most)
    return run_all(procedure, "policy", fresh(count), caller, shelf(folder))


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> list[Prediction]:
    """What this process says of the claims."""
    return verified(model(), tmp_path_factory.mktemp("here"))


def test_an_endpoint_gives_what_this_process_gives(here: list[Prediction], tmp_path: Path):
    """Verdicts and confidence over HTTP are those of the same weights here, in single precision."""
    folder = shutil.copytree(CHECKPOINT, tmp_path / "single")
    AutoModelForCausalLM.from_pretrained(CHECKPOINT, dtype="float32").save_pretrained(folder)
    with TinyServer(folder) as served:
        endpoint = Endpoint(model=served.name, base_url=(served.url,))
        with ChatClient(endpoint, None, needs_logprobs=False) as chat:
            caller = ChatCaller(chat, Endpoint(concurrency=2), PROMPTS)
            there = verified(caller, tmp_path / "there")
            assert CLAIMS == len(served.asked)
            silent = ChatCaller(chat, Endpoint(concurrency=1), PROMPTS, top_logprobs=0)
            (without,) = verified(silent, tmp_path / "without", count=1)
    for one, other in zip(here, there, strict=True):
        assert one.verification.reply == other.verification.reply
        assert one.confidence.raw == pytest.approx(other.confidence.raw, abs=1e-4)
    assert without.confidence is None  # unavailable, never 1
    assert here[0].verification.verdict == without.verification.verdict


def test_samples_differ_by_their_seed():
    """Further samples of a call are other texts, and the same each time."""
    drawn = [
        ModelCall(c.operation, c.template, c.variables, max_tokens=40, temperature=1.5, sample=n)
        for c in calls()[:1]
        for n in (1, 2, 3)
    ]
    texts, again = (
        [reply.answer.text for reply in model().answer("policy", drawn)] for _ in range(2)
    )
    assert 1 < len(set(texts))
    assert texts == again


def test_the_limit_cuts_and_says_so(tmp_path: Path):
    """A cut trace has no verdict, a long prompt its length; a reply ends at its stop string."""
    found = verified(model(), tmp_path, most=20)
    assert {("truncated", None)} == {(o.verification.status, o.verification.verdict) for o in found}
    assert {20} == {one.calls[0]["completion_tokens"] for one in found}
    evidence = " ".join(f"Sentence number {n} is here." for n in range(600))
    claims = fresh(1) | {"long": ClaimInput("Sentence number 7 is here.", evidence)}
    asked, shelved = trace_procedure(None, 50), shelf(tmp_path / "long")
    found = run_all(asked, "policy", claims, model(), shelved, most_failed=0)
    assert ["truncated", "unparsed"] == [one.verification.status for one in found]
    assert "too_long: the prompt has" in found[1].verification.reply
    assert ["c0"] == list(shelved.read(["c0", "long"]))
    (first,) = answers()[:1]
    (call,) = calls()[:1]
    stopped = ModelCall("answer", "prompt", call.variables, stop=("</think>",), max_tokens=MOST)
    (cut,) = model().answer("policy", [stopped])
    assert first.text.partition("</think>")[0] == cut.answer.text
    assert not cut.answer.truncated
    prompts = prompts_in(tmp_path)
    plain = ModelCall("answer", "first", {"claim": "x"}, continues="Once upon", max_tokens=3)
    caller = LocalModel(BASE, prompts)
    ids = caller._ids("simple", plain)
    assert caller._loaded[1].decode(ids).endswith("<|im_start|>Once upon")
    assert caller.answer("simple", [plain])[0].answer.truncated


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.manual_seed(1)
    folder = tmp_path_factory.mktemp("written") / "adapter"
    base = AutoModelForCausalLM.from_pretrained(CHECKPOINT, dtype="float32")
    lora = LoraConfig(r=4, target_modules=["q_proj", "v_proj"], init_lora_weights=False)
    with warnings.catch_warnings(action="ignore", category=FutureWarning):
        get_peft_model(base, lora).save_pretrained(folder)
    return folder


@pytest.fixture
def adapter(written: Path, tmp_path: Path) -> str:
    """An adapter on the tiny policy that changes what it says."""
    return str(shutil.copytree(written, tmp_path / "adapter"))


def test_an_adapter_is_applied_and_named(adapter: str):
    """It changes answers and name; one that is replaced after it was named is refused."""
    changed = LocalModel(adapted(adapter), PROMPTS)
    (reply,) = changed.answer("policy", calls(8)[:1])
    (plain,) = model().answer("policy", calls(8)[:1])
    assert plain.answer.tokens != reply.answer.tokens
    assert changed.engine != model().engine
    assert changed.engine.startswith(f"transformers:{CHECKPOINT.name}:")
    again = LocalModel(adapted(adapter), PROMPTS)
    assert "adapter:" in again.engine
    configure(Path(adapter), lora_alpha=3)
    with pytest.raises(EngineError, match="was replaced while it was read"):
        again.answer("policy", calls(8)[:1])


def test_an_adapter_is_part_of_its_model_and_has_one_name(adapter: str):
    """A small model takes one thread; the folder and order of modules are no part of a name."""
    loaded, _ = load_weights(adapted(adapter))
    assert not any("lora" in name for name, _ in loaded.named_parameters())
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        with few_threads(loaded):
            assert 1 == torch.get_num_threads()
        assert 2 == torch.get_num_threads()
        with few_threads(torch.nn.Embedding(SMALL, 1)):
            assert 2 == torch.get_num_threads()
    finally:
        torch.set_num_threads(before)
    before = weights_digest(Path(adapter))
    modules = json.loads((Path(adapter) / "adapter_config.json").read_text())["target_modules"]
    for order in (sorted(modules), sorted(modules, reverse=True)):
        configure(Path(adapter), target_modules=order, base_model_name_or_path="/elsewhere")
        assert before == weights_digest(Path(adapter))
    configure(Path(adapter), target_modules=modules[:1])
    assert before != weights_digest(Path(adapter))
    (Path(adapter) / "adapter_config.json").write_text("[" * 100_000)
    with pytest.raises(EngineError, match=r"adapter_config\.json is no adapter's configuration"):
        weights_digest(Path(adapter))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda name, tensor: {name.replace("model.layers", "layers"): tensor}, "no place for"),
        (lambda name, tensor: {} if "layers.1" in name else {name: tensor}, "leaves unset"),
        (lambda name, tensor: {name: tensor * ("lora_A" in name)}, "zero everywhere"),
    ],
)
def test_an_adapter_that_is_not_applied_is_refused(
    adapter: str, change: Callable[[str, torch.Tensor], dict[str, torch.Tensor]], said: str
):
    """Of another base, of a part of it, or without an effect; the first three tensors are named."""
    file = Path(adapter) / "adapter_model.safetensors"
    stored = {k: v for name, one in load_file(file).items() for k, v in change(name, one).items()}
    save_file(stored, file)
    with pytest.raises(EngineError, match=said) as refused:
        load_weights(adapted(adapter))
    assert 3 == str(refused.value).count("lora_")
    assert "more" in str(refused.value)


def test_what_was_trained_beside_a_zero_product_is_a_change():
    """A bias, a magnitude or a whole layer; without one the product alone decides."""
    pair = {"q.lora_A.weight": torch.ones(2, 4), "q.lora_B.weight": torch.zeros(4, 2)}
    assert "zero everywhere" in zero_product(pair)
    for name in ("q.lora_B.bias", "q.lora_magnitude_vector", "lm_head.weight"):
        assert "" == zero_product(pair | {name: torch.zeros(4)})
    assert "" == zero_product(pair | {"q.lora_B.weight": torch.ones(4, 2)})


def configure(adapter: Path, **changes: object) -> None:
    settings = adapter / "adapter_config.json"
    settings.write_text(json.dumps({**json.loads(settings.read_text("utf-8")), **changes}))


def test_whatever_changes_what_a_base_reads_changes_its_name(tmp_path: Path):
    """Tokenizer, chat template and settings as well as weights; not a file beside them."""
    folder = tmp_path / "base"
    shutil.copytree(CHECKPOINT, folder)
    before = weights_name(Endpoint(model=str(folder)))
    (folder / "README.md").write_text("words", "utf-8")
    assert before == weights_name(Endpoint(model=str(folder)))
    names = {before}
    for file in ("tokenizer.json", "chat_template.jinja", "config.json", "model.safetensors"):
        with (folder / file).open("ab") as stream:
            stream.write(b" ")
        names.add(weights_name(Endpoint(model=str(folder))))
    assert 5 == len(names)
    assert {"org/m@a float32", "org/m@b float32"} == {
        weights_name(Endpoint(model="org/m", revision=revision)) for revision in ("a", "b")
    }


def test_a_policy_is_asked_in_the_words_of_its_base():
    """The prompt that a base was warm-started on, else the project's."""
    assert load_prompt("policy").digest != load_policy_prompt(str(CHECKPOINT)).digest
    assert load_prompt("policy") == load_policy_prompt("Qwen/Qwen2.5-7B-Instruct")
    other = MethodPrompts().hash("policy", [])
    assert PROMPTS.hash("policy", []) != other
