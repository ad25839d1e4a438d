"""MiniCheck-7B: its input form, readings of one token, failures, what is stored; and over HTTP."""

import math
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from pydantic import SecretStr

from chat_parts import NothingStored
from decomposerl.baselines.method import ModelCall
from decomposerl.chat import ChatFailure, ChatReply, ChatRequest, Parse, Token
from decomposerl.endpoint import Endpoint
from decomposerl.errors import ConfigError, EngineError, EngineMissing
from decomposerl.prompts.template import parse_prompt
from decomposerl.prompts.verifier import (
    ONE_TOKEN,
    Use,
    VerifierForm,
    minicheck,
    own_prompt_note,
    pair_prefix,
)
from fakes import WordCounter
from minicheck_package import PREFIX, SYSTEM, USER, write_package
from project import ROOT
from resources.chat.client import ChatClient
from resources.chat.endpoint import config_of
from resources.embedder.hosted import HostedEmbedder
from resources.evaluation.runner import VerifierCaller
from resources.store.prompts import load_prompt
from resources.verifier.chunks import ClaimSplit, claim_split_of
from resources.verifier.hosted import HostedVerifier, Score
from resources.verifier.local import MODELS
from resources.verifier.minicheck_form import minicheck_form, own_form, published_prompt
from resources.verifier.resource import VerifierResource
from strategies import LAW
from tiny_models import tiny_chat
from tiny_server import TinyModel, TinyServer

PROMPT = load_prompt("minicheck")
OWN = minicheck("own", PROMPT)
SPLITS: tuple[ClaimSplit, ...] = get_args(ClaimSplit)
Likeliest = Sequence[tuple[str, float]]


def replying(likeliest: Likeliest) -> ChatReply[Any]:
    """One token with the given probabilities in its place."""
    alternatives = tuple((text, math.log(chance)) for text, chance in likeliest)
    tokens = (Token(*alternatives[0], alternatives),) if alternatives else ()
    return ChatReply("Yes", "length", "fake", 10, 1, 0.0, tokens=tokens)


@dataclass
class ScriptedChat(NothingStored):
    """A chat that answers by what the last message contains; the longest match counts."""

    listed: Mapping[str, Likeliest | ChatFailure]
    engine: str = "chat:fake@1"
    asked: list[ChatRequest] = field(default_factory=list)
    batches: list[int] = field(default_factory=list)

    def complete(
        self, requests: Sequence[ChatRequest], parse: Parse[Any] | None = None
    ) -> list[ChatReply[Any] | ChatFailure]:
        """One outcome a request."""
        self.asked += requests
        self.batches.append(len(requests))
        return [self._outcome(request.messages[-1].content, parse) for request in requests]

    def _outcome(self, text: str, parse: Parse[Any]) -> ChatReply[Any] | ChatFailure:
        match = max((key for key in self.listed if key in text), key=len)
        found = self.listed[match]
        if isinstance(found, ChatFailure):
            return found
        try:
            return replace(replying(found), value=parse(replying(found)))
        except ValueError as error:
            return ChatFailure("unparsable", str(error))


def scores(verifier: HostedVerifier, pairs: Sequence[tuple[str, str]]) -> list[float]:
    """The score of each pair, NaN where there is no answer."""
    return [one.probability for one in verifier.answers(pairs)]


TIMEOUT = ChatFailure("timeout", "too slow")
SURE, UNSURE = [("Yes", 0.9), ("No", 0.1)], [("No", 0.5), ("Yes", 0.2), ("yes", 0.1)]


def test_the_mass_of_yes_is_of_the_word_in_every_spelling():
    """Of the five likeliest; document before claim, one greedy token."""
    reply = replying([("Yes", 0.4), (" no", 0.2), ("▁YES", 0.1), (" Yes", 0.09), ("Yes.", 0.08)])
    assert OWN.support(reply) == pytest.approx((0.59, 0.2))
    assert OWN.support(replying([("▁yes", 0.6), ("▁No", 0.3)])) == pytest.approx((0.6, 0.3))
    six = [("a", 0.3), ("b", 0.2), ("c", 0.1), ("d", 0.09), ("no", 0.08), ("yes", 0.07)]
    assert OWN.support(replying(six)) == pytest.approx((0.0, 0.08))
    request = OWN.request("Ice {claim} melts.", "It is warm.")
    system, user = request.messages
    assert ("system", "user") == (system.role, user.role)
    assert {"Yes", "No"} <= set(system.content.replace('"', " ").split())
    assert "Document: Ice {claim} melts.\nClaim: It is warm." == user.content
    sampling = request.sampling
    assert (0.0, 2024) == (sampling.temperature, sampling.seed)
    assert (1, 5) == (sampling.max_tokens, sampling.top_logprobs)
    assert request.template.digest == PROMPT.digest


@pytest.mark.parametrize(
    "likeliest",
    [
        [("Maybe", 0.9)],
        [("Yesterday", 0.5), ("Nothing", 0.4), ("▁", 0.05), ("", 0.01)],
        [("a", 0.3), ("b", 0.2), ("c", 0.1), ("d", 0.09), ("e", 0.08), ("yes", 0.07)],
    ],
    ids=["another word", "longer words", "sixth"],
)
def test_a_reply_with_neither_word_is_a_failure(likeliest: Likeliest):
    """It says nothing about the claim: never a score of 0, which would read as Refuted."""
    with pytest.raises(ValueError, match="none of yes, no"):
        OWN.support(replying(likeliest))
    chat = ScriptedChat({"Claim": SURE, "odd one": likeliest})
    verifier = HostedVerifier(chat)
    found = scores(verifier, [("e", "plain"), ("e", "odd one")])
    assert [False, True] == np.isnan(found).tolist()
    with pytest.raises(EngineError, match=r"1 of 2 pairs .*unparsable 1: none of yes, no"):
        HostedVerifier(chat).support_probability([("e", "plain"), ("e", "odd one")])
    # Without log probabilities it is the endpoint's fault, and another message.
    with pytest.raises(ValueError, match="no log probabilities"):
        OWN.support(replying([]))


def test_as_a_system_it_fails_by_claim_and_counts_tokens():
    """Those of all chunks. A reply without either word is no failure, and has no score."""
    chat = ScriptedChat({"Claim": SURE, "late one": TIMEOUT, "odd one": [("Maybe", 0.9)]})
    texts = [("One fits. Two fits.", "plain"), ("e", "late one"), ("e", "odd one")]
    calls = [ModelCall("verify", "pair", {"evidence": e, "claim": c}) for e, c in texts]
    verifier = HostedVerifier(chat, tokens=WordCounter(), budget=2)
    well, late, odd = VerifierCaller(verifier).answer("minicheck", calls)
    assert (20, 2) == (well.prompt_tokens, well.completion_tokens)
    assert 0.9 == pytest.approx(float(well.answer.text))
    assert "timeout: too slow" == late.answer.failure
    assert ("", "") == (odd.answer.text, odd.answer.failure)


@pytest.mark.parametrize(("score", "expected"), [("raw", 0.3), ("normalised", 0.3 / 0.8)])
def test_raw_is_the_mass_and_normalised_the_share(score: Score, expected: float):
    """Both of one answer, 0 where no was likely and yes was not; the engine names the chosen."""
    chat = ScriptedChat({"unsure": UNSURE, "denied": [("No", 0.9)]})
    verifier, pairs = HostedVerifier(chat, score=score), [("e", "unsure"), ("e", "denied")]
    assert [expected, 0.0] == pytest.approx(verifier.support_probability(pairs).tolist())
    assert verifier.engine.endswith(f":{score}")
    assert (0,) == verifier.support_probability([]).shape


@LAW
@given(st.lists(st.tuples(st.sampled_from(["Yes", "yes", "No", "x"]), st.floats(1e-6, 0.2))))
def test_both_forms_are_probabilities(likeliest: list[tuple[str, float]]):
    """Raw is at most normalised, and both are in 0..1, whatever is likely beside a word."""
    chat = ScriptedChat({"claim": [("no", 0.2), *likeliest]})
    (raw,) = scores(HostedVerifier(chat), [("e", "claim")])
    (share,) = scores(HostedVerifier(chat, score="normalised"), [("e", "claim")])
    assert 0.0 <= raw <= share + 1e-12
    assert share <= 1.0


@pytest.mark.parametrize(("split", "expected"), [("whole", 0.9), ("min_over_sentences", 0.3)])
def test_long_evidence_and_split_claims(split: ClaimSplit, expected: float):
    """The best chunk of the weakest sentence counts; without a tokenizer bytes bound a chunk."""
    listed = {
        "Claim: One is here. Two is here.": SURE,
        "One fits.\nClaim: One is here.": SURE,
        "One fits.\nClaim: Two is here.": [("No", 1.0)],
        "Two fits.\nClaim: One is here.": [("No", 1.0)],
        "Two fits.\nClaim: Two is here.": UNSURE,
    }
    chat = ScriptedChat(listed)
    verifier = HostedVerifier(chat, claim_split=split, tokens=WordCounter(), budget=2)
    found = verifier.support_probability([("One fits. Two fits.", "One is here. Two is here.")])
    assert found[0] == pytest.approx(expected)
    assert len(chat.asked) == (2 if split == "whole" else 4)
    chat = ScriptedChat({"Claim": SURE})
    HostedVerifier(chat, budget=200).support_probability([("Mmmm 😀😀😀😀😀. " * 20, "x")])
    documents = [request.messages[-1].content.split("\n")[0] for request in chat.asked]
    assert len(documents) > 1
    assert max(len(text.removeprefix("Document: ").encode()) for text in documents) <= 200


@pytest.mark.parametrize(
    ("model", "split"),
    [
        ("bespokelabs/Bespoke-MiniCheck-7B", "min_over_sentences"),
        ("ibm-granite/granite-guardian-3.3-8b", "min_over_sentences"),
        *((published.repo_id, "whole") for published in MODELS.values()),
        ("org/another", "whole"),
    ],
)
def test_a_model_reads_a_claim_as_its_publishers_code_does(
    model: str, split: ClaimSplit, tmp_path: Path
):
    """By default; a setting overrides it, and the engine's name has what was used."""
    assert split == claim_split_of(model)
    endpoint = config_of(Endpoint(model=model))
    settings = {"engine": "minicheck_hosted", "endpoint": endpoint, "allow_own_prompt": True}
    settings["results_dir"] = str(tmp_path)
    for reading, used in (("own", split), ("whole", "whole"), *((s, s) for s in SPLITS)):
        verifier = VerifierResource.model_validate({**settings, "claim_split": reading})
        assert f" claim={used} " in verifier.open().engine


def test_engine_names_keep_apart_whatever_decides():
    """Model, prompt, origin, words, sampling, claim split, budget and its unit."""
    warm = VerifierForm(PROMPT, sampling=replace(ONE_TOKEN, temperature=0.5))
    own = [VerifierForm(PROMPT), VerifierForm(PROMPT, ("a",)), warm]
    own += [VerifierForm(PROMPT, read="text"), VerifierForm(PROMPT, label="prompt=entry@0")]
    chat, other = ScriptedChat({}), ScriptedChat({}, engine="chat:fake@2")
    edited = parse_prompt("minicheck", "<!-- section: system -->\nJudge.")
    verifiers = [
        HostedVerifier(chat),
        HostedVerifier(other),
        HostedVerifier(chat, form=lambda: minicheck("file", edited)),
        HostedVerifier(chat, form=lambda: minicheck("file", PROMPT)),
        HostedVerifier(chat, form=lambda: minicheck("published", PROMPT)),
        HostedVerifier(chat, claim_split="min_over_sentences"),
        HostedVerifier(chat, budget=1_000),
        HostedVerifier(chat, tokens=WordCounter()),
        *(HostedVerifier(chat, form=lambda form=form: form) for form in own),
    ]
    assert len(verifiers) == len({verifier.engine for verifier in verifiers})
    with pytest.raises(ConfigError, match="no section 'user'"):
        verifiers[2].support_probability([("e", "c")])


NO_LOGPROBS = ChatFailure("no_logprobs", "no log probabilities", "Yes", lasting=True)


def test_a_failed_question_leaves_its_pair_unanswered():
    """Whichever of its chunks it is; without log probabilities the first batch is the last."""
    chat = ScriptedChat({"Claim": NO_LOGPROBS})
    with pytest.raises(EngineError, match="no log probabilities"):
        HostedVerifier(chat, batch_size=9).support_probability([("e", f"{n}") for n in range(99)])
    assert 9 == len(chat.asked)
    pairs = [("e", "first"), ("e", "second"), ("e", "third")]
    chat = ScriptedChat({"Claim": SURE, "second": TIMEOUT})
    broken = HostedVerifier(chat, batch_size=2)
    with pytest.raises(EngineError, match=r"1 of 3 pairs .*timeout 1"):
        broken.support_probability(pairs)
    assert 3 == len(chat.asked)
    chat = ScriptedChat({"One": SURE, "Two": TIMEOUT})
    verifier = HostedVerifier(chat, tokens=WordCounter(), budget=2)
    assert np.isnan(scores(verifier, [("One fits. Two fits.", "c")])).all()
    with pytest.raises(EngineError, match="1 of 1 pairs"):
        verifier.support_probability([("One fits. Two fits.", "c")])
    assert {"timeout": 2} == verifier.failures


CLOSE = 1e-4
ASKED = parse_prompt(
    "minicheck",
    "<!-- section: system -->\nYes or No?\n"
    "<!-- section: user -->\nDocument: {document}\nClaim: {claim}\n",
)


def given() -> VerifierForm:
    """The form of these tests."""
    return minicheck("file", ASKED)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_chat(tmp_path_factory.mktemp("chat") / "tiny-chat")


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[TinyServer]:
    with TinyServer(folder) as running:
        yield running


@pytest.fixture(scope="module")
def in_process(folder: Path) -> TinyModel:
    return TinyModel(folder)


def client(server: TinyServer, data: Path | None = None) -> ChatClient:
    chosen = Endpoint(model=server.name, base_url=(server.url,), concurrency=8)
    return ChatClient(chosen, data, lambda: (chosen.base_url, SecretStr("no key")))


def some_pairs(count: int) -> list[tuple[str, str]]:
    rng = random.Random(11)
    words = "ice melts in warm rain and snow falls on Paris".split()
    return [
        (" ".join(rng.choices(words, k=8)), " ".join(rng.choices(words, k=4))) for _ in range(count)
    ]


def masses(model: TinyModel, document: str, claim: str) -> tuple[float, float]:
    """Yes and no among the five likeliest first tokens, from the model's own numbers."""
    messages = given().request(document, claim).messages
    ids = model.prompt_ids([{"role": turn.role, "content": turn.content} for turn in messages])
    with torch.no_grad():
        chances = model.model(input_ids=torch.tensor([ids])).logits[0, -1].softmax(dim=-1)
    likeliest = chances.topk(5)
    found = {"yes": 0.0, "no": 0.0}
    for number, chance in zip(likeliest.indices.tolist(), likeliest.values.tolist(), strict=True):
        text = model.tokenizer.decode([number]).lstrip(" ").lower()
        if text in found:
            found[text] += chance
    return found["yes"], found["no"]


def test_scores_over_http_are_the_models_own(server: TinyServer, in_process: TinyModel):
    """To 1e-4; no score where neither word is likely; embeddings are means of hidden states."""
    pairs = some_pairs(16)
    expected = np.array([masses(in_process, *pair) for pair in pairs])
    assert np.ptp(expected[:, 0]) > 0.1, "a model that answers everything alike proves nothing"
    assert (expected.min(axis=1) > 0).any()
    both = expected.sum(axis=1)
    assert (both == 0).any(), "a model that always says yes or no proves nothing about the rest"
    expected[both == 0] = both[both == 0] = np.nan
    with client(server) as chat:
        raw = scores(HostedVerifier(chat, form=given), pairs)
        share = scores(HostedVerifier(chat, form=given, score="normalised"), pairs)
    close = {"rtol": 0, "atol": CLOSE, "equal_nan": True}
    assert np.allclose(expected[:, 0], raw, **close)
    assert np.allclose(expected[:, 0] / both, share, **close)
    texts = ["ice melts", "", "snow falls on Paris"]
    vectors = HostedEmbedder(server.url, server.name, SecretStr("no key")).embed(texts)
    with torch.no_grad():
        expected = np.array([in_process.embedding(text)[0] for text in texts])
    assert np.allclose(expected, vectors, rtol=0, atol=CLOSE)
    assert np.allclose(1.0, np.linalg.norm(vectors, axis=1), rtol=0, atol=1e-5)


def test_a_second_run_sends_nothing(server: TinyServer, tmp_path: Path):
    """A pair is a hit where all its questions are stored; of others the rest alone is asked."""
    pairs = [*some_pairs(3), (" ".join(f"Ice {n} melts." for n in range(9)), "Ice melts.")]
    first: list[float] = []
    sent = len(server.asked)
    for calls in (4, 0):
        with client(server, tmp_path) as chat:
            verifier = HostedVerifier(chat, form=given, budget=50, batch_size=3)
            scores = verifier.support_probability([*pairs, pairs[0]]).tolist()
        first = first or scores
        assert first == scores
        assert (calls, 5 - calls) == (verifier.calls, verifier.hits)
        questions = verifier.details()["chat asked"]
        assert questions > 4
        assert len(server.asked) - sent == questions


FILE = """<!-- section: system -->
Weigh.
<!-- section: user -->
D {document} C {claim}
<!-- section: pair -->
held: {document}{separator}{claim}
"""
USES: list[Use] = ["chat", "pair"]
every_use = pytest.mark.parametrize("use", USES)


def folder_with(tmp_path: Path, text: str) -> str:
    folder = tmp_path / "prompts"
    folder.mkdir()
    (folder / "minicheck.md").write_text(text, "utf-8")
    return str(folder)


def test_the_installed_package_gives_its_texts_to_the_letter(tmp_path: Path):
    """The package is never imported; each text and origin has a name of its own."""
    search, document = [write_package(tmp_path)], "[CLAIM] {claim} x"
    form = minicheck_form("chat", search=search)
    system, user = form.request(document, "y").messages
    assert ("published", SYSTEM) == (form.origin, system.content)
    assert f"Paper: {document}\nStatement: y" == user.content
    assert PREFIX == pair_prefix(minicheck_form("pair", search=search).prompt)
    texts = [(SYSTEM, USER), (SYSTEM + " ", USER), (SYSTEM, USER + " ")]
    labels = {
        minicheck_form("chat", search=[write_package(tmp_path / str(n), *both)]).label
        for n, both in enumerate(texts)
    }
    assert len(texts) == len(labels)
    assert all(label.startswith("prompt=published@") for label in labels)
    prompt, origins = load_prompt("minicheck"), ("published", "file", "own")
    forms = [minicheck(origin, prompt) for origin in origins]
    assert len(forms) == len({form.label for form in forms})
    assert [False, False, True] == [bool(own_prompt_note(form.label)) for form in forms]


@every_use
def test_the_users_file_comes_first(tmp_path: Path, use: Use):
    """Before the package, and before our own text although that is allowed."""
    search, folder = [write_package(tmp_path)], folder_with(tmp_path, FILE)
    form = minicheck_form(use, folder, allow_own=True, search=search)
    assert ("file", parse_prompt("minicheck", FILE)) == (form.origin, form.prompt)
    assert "held: " == pair_prefix(form.prompt)


@every_use
def test_without_either_it_is_refused_with_both_fixes(tmp_path: Path, use: Use):
    """With what is missing, the install command, the folder, and the way to go on."""
    (tmp_path / "empty").mkdir()
    named = ("minicheck is not installed", "git+https://github.com/Liyan06/MiniCheck.git")
    named += ("minicheck.md", "DECOMPOSERL_PATHS__PROMPTS", "ALLOW_OWN_PROMPT=yes")
    for folder in ("", str(tmp_path / "empty")):
        with pytest.raises(EngineMissing) as error:
            minicheck_form(use, folder, search=[str(tmp_path)])
        assert [] == [one for one in named if one not in str(error.value)]


@every_use
def test_our_own_text_is_used_only_where_it_is_allowed_and_nothing_better_is_here(
    tmp_path: Path, use: Use
):
    """And it is named as ours, also as a copy in the user's folder."""
    nowhere = [str(tmp_path / "nowhere")]
    form = minicheck_form(use, allow_own=True, search=nowhere)
    assert own_form() == form
    assert form.label.startswith("prompt=own@")
    copied = folder_with(tmp_path, (ROOT / "decomposerl/prompts/minicheck.md").read_text("utf-8"))
    assert form == minicheck_form(use, copied, allow_own=True, search=nowhere)
    with pytest.raises(EngineMissing, match="is missing"):
        minicheck_form(use, copied, search=nowhere)
    search = [write_package(tmp_path / "here")]
    assert "published" == minicheck_form(use, allow_own=True, search=search).origin


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("utils.py", "SYSTEM_PROMPT = 'a'\nUSER_PROMPT = '[DOCUMENT] without the other'\n"),
        ("utils.py", "SYSTEM_PROMPT = f'{1}'\nUSER_PROMPT = '[DOCUMENT] [CLAIM]'\n"),
        ("utils.py", "\0"),
        ("utils.py", None),
        ("inference.py", "def batch_tokenize(texts):\n    return texts\n"),
        ("inference.py", None),
    ],
)
def test_another_package_of_that_name_is_not_taken_for_it(
    tmp_path: Path, file: str, text: str | None
):
    """What is not where it is published is missing, and the message names the file."""
    search, changed = [write_package(tmp_path)], tmp_path / "minicheck" / file
    changed.unlink()
    if text is not None:
        changed.write_text(text)
    use, other = USES if file == "utils.py" else USES[::-1]
    with pytest.raises(EngineMissing, match=str(changed)):
        published_prompt(use, search)
    assert published_prompt(other, search).sections
    with pytest.raises(EngineMissing, match=str(changed)):
        minicheck_form(use, search=search)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("<!-- section: user -->\n{document}{claim}\n", "no section 'pair'"),
        ("<!-- section: pair -->\n{claim}{separator}{document}\n", "must end with"),
        ("<!-- section: pair -->\n{document} {claim}\n", "placeholders"),
    ],
)
def test_a_file_that_does_not_fit_the_small_models_is_refused(tmp_path: Path, text: str, said: str):
    """Its section 'pair' is a prefix before document, separator and claim."""
    form = minicheck_form("pair", folder_with(tmp_path, text))
    with pytest.raises(ConfigError, match=said):
        pair_prefix(form.prompt)


def test_minicheck_runs_in_the_form_it_was_trained_on_or_is_refused(tmp_path: Path):
    """Each origin is a name of its own; a refusal comes before a server is started."""
    begun, program = tmp_path / "begun", tmp_path / "vllm"
    program.write_text(f"#!/bin/sh\ntouch {begun}\nexit 1\n")
    program.chmod(0o755)
    endpoint = config_of(Endpoint(model="org/m"))
    settings = {"engine": "minicheck_hosted", "endpoint": endpoint, "vllm_arguments": []}
    settings |= {"results_dir": str(tmp_path), "vllm": [str(program)]}
    cases = (
        ("PROMPTS", {}),
        ("ended with status", {"allow_own_prompt": True}),
        ("ended with status", {"prompts_dir": folder_with(tmp_path, FILE)}),
    )
    for said, changes in cases:
        verifier = VerifierResource.model_validate(settings | changes)
        with pytest.raises(EngineError if changes else EngineMissing, match=said):
            verifier.open().support_probability([("e", "c")])
        assert bool(changes) == begun.exists()
        verifier.close()
