"""Verifiers of the user's own: at an endpoint by log probabilities, classifiers in process."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer

from decomposerl.errors import ConfigError, EngineError, EngineMissing
from decomposerl.prompts.template import inline_prompt
from decomposerl.prompts.verifier import ONE_TOKEN, VerifierForm
from fault_server import BROKEN, MODEL, REFUSED, Answer, FaultServer, replying
from resources.chat.client import ChatClient
from resources.chat.settings import ChatSettings
from resources.verifier.classifier import ClassifierVerifier
from resources.verifier.own_chat import OwnChatVerifier
from tiny_models import tiny_deberta, tiny_gpt2, tiny_roberta

PROMPT = inline_prompt("verifier", {"user": "{document}\n{claim}"})
PAIR = inline_prompt("verifier", {"pair": "{document} So: {claim}?"})
PAIRS = [("the cat sat on a mat", "the dog ran"), ("the dog ran to Paris", "a cat was born")]
LONG = ("The cat sat on a mat. The dog ran to London. The prize was won in Paris.", "the dog ran")
CLOSE = 1e-5
Make = Callable[..., OwnChatVerifier]


def spelled(**chances: float) -> Answer:
    """A reply of one token with these log probabilities."""
    likely = [{"token": word, "logprob": chance} for word, chance in chances.items()]
    token = {**likely[0], "top_logprobs": likely}
    message = {"content": likely[0]["token"]}
    choice = {"index": 0, "finish_reason": "stop", "message": message}
    return Answer(change={"choices": [choice | {"logprobs": {"content": [token]}}]})


@pytest.fixture
def clients() -> Iterator[list[ChatClient]]:
    """The clients of a test, closed after it."""
    made: list[ChatClient] = []
    yield made
    for client in made:
        client.close()


@pytest.fixture
def verifier(clients: list[ChatClient], tmp_path: Path) -> Make:
    """A verifier at a server's endpoint, by its settings; all store their replies."""

    def made(served: FaultServer, *, logprobs: bool = True, **fields: Any) -> OwnChatVerifier:  # noqa: ANN401
        chosen = ChatSettings(
            model=MODEL, endpoints=(served.url,), attempts=1, needs_logprobs=logprobs
        )
        clients.append(ChatClient(chosen, tmp_path))
        form = fields.pop("form", VerifierForm(PROMPT))
        return OwnChatVerifier(
            clients[-1], lambda: ("prompt=entry@0", form), **{"budget": 1_000, **fields}
        )

    return made


def test_the_best_chunk_counts_and_costs_are_summed(verifier: Make):
    """One request a chunk; the share of both words; a second time nothing is asked."""
    script = [spelled(No=-0.2, Yes=-2.0), spelled(Yes=-0.1, No=-3.0), spelled(No=-0.1)]
    with FaultServer(script) as served:
        form = replace(VerifierForm(PROMPT), sampling=replace(ONE_TOKEN, max_tokens=8))
        engine = verifier(served, budget=25, form=form)
        (one,) = engine.answers([LONG])
        (again,) = engine.answers([LONG])
        assert 3 == len(served.asked)
    best = np.exp(-0.1) / (np.exp(-0.1) + np.exp(-3.0))
    assert best == pytest.approx(one.probability) == pytest.approx(again.probability)
    assert (30, 15, False, True) == (
        *(one.prompt_tokens, one.completion_tokens),
        *(one.cached, again.cached),
    )
    raw = verifier(served, budget=25, score="raw", form=form)
    assert [pytest.approx(np.exp(-0.1))] == raw.support_probability([LONG]).tolist()
    assert raw.engine != engine.engine


def test_a_reply_that_cannot_be_read_is_no_failure_of_the_endpoint(verifier: Make):
    """It has no probability and no failure; a refused request has its reason, others go on."""
    with FaultServer([spelled(Yes=-0.1)], usual=spelled(Perhaps=-0.1)) as served:
        first, second = verifier(served).answers(PAIRS)
    assert (1.0, "") == (first.probability, first.failure)
    assert np.isnan(second.probability)
    assert "" == second.failure
    with FaultServer([REFUSED]) as served:
        _, refused = verifier(served).answers([PAIRS[0], LONG])
    assert refused.failure.startswith("refused: ")
    assert np.isnan(refused.probability)


def test_a_text_verdict_needs_no_log_probabilities(verifier: Make):
    """The last word; none are requested."""
    form = VerifierForm(PROMPT, ("attributable",), ("not attributable",), "text")
    form = replace(form, sampling=replace(form.sampling, max_tokens=99, top_logprobs=0))
    with FaultServer(usual=replying("[Inference] Fine. [Not Attributable]")) as served:
        engine = verifier(served, form=form, logprobs=False)
        assert [0.0, 0.0] == engine.support_probability(PAIRS).tolist()
        assert "logprobs" not in served.asked[0]


@pytest.mark.parametrize(
    ("usual", "said"), [(BROKEN, "server_error"), (replying("Yes"), "no_logprobs")]
)
def test_an_endpoint_that_cannot_answer_is_one_error(usual: Answer, said: str, verifier: Make):
    """Dead, or without log probabilities: no table of unread claims."""
    with FaultServer(usual=usual) as served:
        answers = verifier(served).answers
        with pytest.raises(EngineError, match=said):
            answers(PAIRS)


def test_every_setting_is_part_of_the_engines_name(verifier: Make):
    """Answers under other words, chunks or samplings are never mixed."""
    with FaultServer() as served:
        warm = replace(VerifierForm(PROMPT).sampling, temperature=0.5)
        forms = [VerifierForm(PROMPT, ("a",)), VerifierForm(PROMPT, sampling=warm)]
        engines = [verifier(served, form=form) for form in forms]
        engines += [verifier(served), verifier(served, budget=9)]
        assert 4 == len({one.engine for one in engines})


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    made = tmp_path_factory.mktemp("classifiers")
    return {"roberta": tiny_roberta(made / "roberta"), "deberta": tiny_deberta(made / "deberta")}


def plainly(folder: Path, *texts: str, supported: int = 1) -> float:
    """P(supported) of one unpadded row."""
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForSequenceClassification.from_pretrained(folder).eval()
    with torch.no_grad():
        logits = model(**tokenizer(*texts, return_tensors="pt")).logits
    return float(logits.softmax(-1)[0, supported])


@pytest.mark.parametrize("name", ["roberta", "deberta"])
def test_a_classifier_reads_a_pair_or_the_text_of_its_form(folders: dict[str, Path], name: str):
    """As the model reads one unpadded row; the class of support is a setting."""
    folder = folders[name]
    pairs = [plainly(folder, *one) for one in PAIRS]
    forms = [plainly(folder, f"{one} So: {claim}?") for one, claim in PAIRS]
    made = ClassifierVerifier(str(folder)).support_probability(PAIRS)
    formed = ClassifierVerifier(str(folder), form=PAIR).support_probability(PAIRS)
    other = ClassifierVerifier(str(folder), supported_class=0).support_probability(PAIRS)
    assert np.allclose(pairs, made, rtol=0, atol=CLOSE)
    assert np.allclose(forms, formed, rtol=0, atol=CLOSE)
    assert np.allclose(1.0, made + other, rtol=0, atol=CLOSE)
    assert np.ptp([*pairs, *forms]) > CLOSE, "a model that answers all alike proves nothing"


def test_a_long_text_is_its_best_chunk_and_never_too_long(folders: dict[str, Path]):
    """Chunks at sentence ends; one that is longer than the context loses its end, not the claim."""
    folder = folders["roberta"]
    chunked = ClassifierVerifier(str(folder), chunk=30).support_probability([LONG])
    parts = [f"{one.strip()}." for one in LONG[0].split(".") if one]
    best = max(plainly(folder, part, LONG[1]) for part in parts)
    assert [pytest.approx(best, abs=CLOSE)] == chunked.tolist()
    cut = ClassifierVerifier(str(folder), chunk=400, context=40)
    kept = cut._encoded(*LONG)["input_ids"]
    assert 40 == len(kept)
    whole = cut._tokenizer.decode(kept)
    assert whole.count(LONG[1]) == 1
    assert whole.startswith("<s>The cat")


def test_a_decoder_is_a_classifier_too(tmp_path: Path):
    """Rows of different lengths in one batch have the scores that each has alone."""
    folder = tiny_gpt2(tmp_path / "gpt2")
    together = ClassifierVerifier(str(folder), form=PAIR).support_probability(PAIRS)
    alone = [plainly(folder, f"{document} So: {claim}?") for document, claim in PAIRS]
    assert together == pytest.approx(alone, abs=CLOSE)


def test_a_classifier_that_is_not_there_is_named(folders: dict[str, Path]):
    """The command that brings it; a class that the model does not have."""
    with pytest.raises(EngineMissing, match="hf download nobody/nothing --revision main"):
        ClassifierVerifier("nobody/nothing").support_probability(PAIRS)
    with pytest.raises(EngineMissing, match="neither a folder nor a hub model"):
        ClassifierVerifier("/no/such/folder").support_probability(PAIRS)
    wrong = ClassifierVerifier(str(folders["roberta"]), supported_class=2)
    with pytest.raises(ConfigError, match="has 2 classes, 0 to 1; supported_class is 2"):
        wrong.support_probability(PAIRS)
