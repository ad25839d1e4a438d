"""MiniCheck-7B over a chat port: readings of one token, failures, and what is stored."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chat_parts import NothingStored
from decomposerl.chat import ChatFailure, ChatReply, ChatRequest, Parse, Token
from decomposerl.errors import ConfigError, EngineError
from decomposerl.prompts.minicheck import MiniCheckForm, minicheck_request, yes_and_no
from decomposerl.prompts.template import parse_prompt
from fakes import WordCounter
from resources.store.prompts import load_prompt
from resources.verifier.minicheck_hosted import HostedMiniCheck, Score
from resources.verifier.questions import ClaimSplit
from strategies import LAW

PROMPT = load_prompt("minicheck")
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
        self,
        requests: Sequence[ChatRequest],
        parse: Parse[Any] | None = None,
    ) -> list[ChatReply[Any] | ChatFailure]:
        """One outcome a request."""
        assert parse is not None
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
            return ChatFailure("unparsable", str(error), 2)


TIMEOUT = ChatFailure("timeout", "too slow", 3)
SURE, UNSURE = [("Yes", 0.9), ("No", 0.1)], [("No", 0.5), ("Yes", 0.2), ("yes", 0.1)]


def test_the_mass_of_yes_is_of_the_word_in_every_spelling():
    """Letter case and a space before do not count; longer words do; a sixth token is not seen."""
    reply = replying([("Yes", 0.4), (" no", 0.2), ("▁YES", 0.1), (" Yes", 0.09), ("Yes.", 0.08)])
    assert yes_and_no(reply) == pytest.approx((0.59, 0.2))
    assert yes_and_no(replying([("▁yes", 0.6), ("▁No", 0.3)])) == pytest.approx((0.6, 0.3))
    six = [("a", 0.3), ("b", 0.2), ("c", 0.1), ("d", 0.09), ("no", 0.08), ("yes", 0.07)]
    assert yes_and_no(replying(six)) == pytest.approx((0.0, 0.08))


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
    with pytest.raises(ValueError, match="neither yes nor no"):
        yes_and_no(replying(likeliest))
    chat = ScriptedChat({"Claim": SURE, "odd one": likeliest})
    verifier = HostedMiniCheck(chat)
    scores = verifier.support_scores([("e", "plain"), ("e", "odd one")])
    for both in (scores.raw, scores.normalised):
        assert [False, True] == np.isnan(both).tolist()
    with pytest.raises(
        EngineError, match=r"1 of 2 pairs got no answer .*unparsable 1: neither yes nor no"
    ):
        HostedMiniCheck(chat).support_probability([("e", "plain"), ("e", "odd one")])


def test_a_reply_without_log_probabilities_says_so():
    """That is the endpoint's, and another message than a word that is missing."""
    with pytest.raises(ValueError, match="carries no log probabilities of its first token"):
        yes_and_no(replying([]))


def test_the_request_is_the_public_models_contract():
    """A system and a user message, document line before claim line, one greedy token of five."""
    request = minicheck_request(PROMPT, "Ice {claim} melts.", "It is warm.")
    system, user = request.messages
    assert ("system", "user") == (system.role, user.role)
    assert {"Yes", "No"} <= set(system.content.replace('"', " ").split())
    assert "Document: Ice {claim} melts.\nClaim: It is warm." == user.content
    sampling = request.sampling
    assert (0.0, 2024) == (sampling.temperature, sampling.seed)
    assert (1, 5) == (sampling.max_tokens, sampling.top_logprobs)
    assert request.template.digest == PROMPT.digest


def test_raw_is_the_mass_and_normalised_the_share():
    """Both forms of one answer; 0 in both where no was likely and yes was not."""
    chat = ScriptedChat({"unsure": UNSURE, "denied": [("No", 0.9)]})
    forms = HostedMiniCheck(chat).support_scores([("e", "unsure"), ("e", "denied")])
    assert [0.3, 0.0] == pytest.approx(forms.raw.tolist())
    assert [0.3 / 0.8, 0.0] == pytest.approx(forms.normalised.tolist())
    assert (0,) == HostedMiniCheck(chat).support_probability([]).shape


@LAW
@given(st.lists(st.tuples(st.sampled_from(["Yes", "yes", "No", "x"]), st.floats(1e-6, 0.2))))
def test_both_forms_are_probabilities(likeliest: list[tuple[str, float]]):
    """Raw is at most normalised, and both are in 0..1, whatever is likely beside a word."""
    chat = ScriptedChat({"claim": [("no", 0.2), *likeliest]})
    forms = HostedMiniCheck(chat).support_scores([("e", "claim")])
    assert 0.0 <= forms.raw[0] <= forms.normalised[0] + 1e-12
    assert forms.normalised[0] <= 1.0


@pytest.mark.parametrize(("split", "expected"), [("whole", 0.9), ("min_over_sentences", 0.3)])
def test_long_evidence_and_split_claims(split: ClaimSplit, expected: float):
    """The best chunk counts for each sentence of the claim, and the weakest sentence counts."""
    listed = {
        "Claim: One is here. Two is here.": SURE,
        "One fits.\nClaim: One is here.": SURE,
        "One fits.\nClaim: Two is here.": [("No", 1.0)],
        "Two fits.\nClaim: One is here.": [("No", 1.0)],
        "Two fits.\nClaim: Two is here.": UNSURE,
    }
    chat = ScriptedChat(listed)
    verifier = HostedMiniCheck(chat, claim_split=split, tokens=WordCounter(), budget=2)
    found = verifier.support_probability([("One fits. Two fits.", "One is here. Two is here.")])
    assert found[0] == pytest.approx(expected)
    assert len(chat.asked) == (2 if split == "whole" else 4)


def test_without_a_tokenizer_bytes_keep_within_the_context():
    """Letters of four bytes fill a chunk four times as fast; no chunk is above the budget."""
    chat = ScriptedChat({"Claim": SURE})
    HostedMiniCheck(chat, budget=200).support_probability([("Mmmm 😀😀😀😀😀. " * 20, "x")])
    documents = [request.messages[-1].content.split("\n")[0] for request in chat.asked]
    assert len(documents) > 1
    assert max(len(text.removeprefix("Document: ").encode()) for text in documents) <= 200


def test_engine_names_keep_apart_whatever_decides():
    """Model, prompt, its origin, claim split, budget and its unit each change the name."""
    chat, other = ScriptedChat({}), ScriptedChat({}, engine="chat:fake@2")
    edited = parse_prompt("minicheck", "<!-- section: system -->\nJudge.")
    verifiers = [
        HostedMiniCheck(chat),
        HostedMiniCheck(other),
        HostedMiniCheck(chat, form=lambda: MiniCheckForm("file", edited)),
        HostedMiniCheck(chat, form=lambda: MiniCheckForm("file", PROMPT)),
        HostedMiniCheck(chat, form=lambda: MiniCheckForm("published", PROMPT)),
        HostedMiniCheck(chat, claim_split="min_over_sentences"),
        HostedMiniCheck(chat, budget=1_000),
        HostedMiniCheck(chat, tokens=WordCounter()),
    ]
    assert len(verifiers) == len({verifier.engine for verifier in verifiers})
    with pytest.raises(ConfigError, match="no section 'user'"):
        verifiers[2].support_probability([("e", "c")])


def test_a_failed_question_is_no_score():
    """The pair stays without an answer, the others are scored; all were asked."""
    pairs = [("e", "first"), ("e", "second"), ("e", "third")]
    chat = ScriptedChat({"Claim": SURE, "second": TIMEOUT})
    broken = HostedMiniCheck(chat, batch_size=2)
    with pytest.raises(EngineError, match=r"1 of 3 pairs got no answer .*timeout 1"):
        broken.support_probability(pairs)
    assert 3 == len(chat.asked)


def test_one_failed_chunk_leaves_the_whole_pair_unanswered():
    """Another chunk's high score does not stand in for a chunk that nobody judged."""
    chat = ScriptedChat({"One": SURE, "Two": TIMEOUT})
    verifier = HostedMiniCheck(chat, tokens=WordCounter(), budget=2)
    forms = verifier.support_scores([("One fits. Two fits.", "c")])
    assert np.isnan(forms.raw).all()
    assert np.isnan(forms.normalised).all()
    with pytest.raises(EngineError, match="1 of 1 pairs"):
        verifier.support_probability([("One fits. Two fits.", "c")])
    assert {"timeout": 2} == verifier.failures


@pytest.mark.parametrize(("score", "expected"), [("raw", 0.3), ("normalised", 0.375)])
def test_the_score_is_chosen_and_named(score: Score, expected: float):
    """One reply gives both scores; their engine names differ."""
    chat = ScriptedChat({"Claim": UNSURE})
    verifier = HostedMiniCheck(chat, score=score)
    assert verifier.support_probability([("e", "c")])[0] == pytest.approx(expected)
    scores = verifier.support_scores([("e", "c")])
    assert (0.3, 0.375) == pytest.approx((scores.raw[0], scores.normalised[0]))
    assert verifier.engine.endswith(f":{score}")


NO_LOGPROBS = ChatFailure("no_logprobs", "no log probabilities", 1, "Yes", lasting=True)


def test_an_endpoint_without_log_probabilities_is_refused():
    """The error says what is needed, and a batch of a thousand cost one question."""
    chat = ScriptedChat({"Claim": NO_LOGPROBS})
    pairs = [("e", f"claim {n}") for n in range(1_000)]
    with pytest.raises(EngineError, match=r"no log probabilities.* needs an endpoint that gives"):
        HostedMiniCheck(chat).support_probability(pairs)
    assert 1 == len(chat.asked)


def test_only_the_first_question_is_asked_alone():
    """Once the endpoint has shown its log probabilities, batches go out whole."""
    chat = ScriptedChat({"Claim": SURE})
    verifier = HostedMiniCheck(chat)
    for start in (0, 5):
        verifier.support_probability([("e", f"claim {n}") for n in range(start, start + 5)])
    assert [1, 4, 5] == chat.batches


@pytest.mark.parametrize(
    ("failure", "said"),
    [
        (ChatFailure("refused", "HTTP 401: wrong key", 1, lasting=True), "HTTP 401: wrong key"),
        (ChatFailure("budget", "ceiling of 5 calls", 0), "stopped at the ceiling of 5 calls"),
        (TIMEOUT, "not one of 2 requests was answered .*too slow"),
    ],
)
def test_an_endpoint_that_answers_nothing_is_told_with_its_words(failure: ChatFailure, said: str):
    """The error holds what the endpoint said, not the number of missing answers alone."""
    with pytest.raises(EngineError, match=said):
        HostedMiniCheck(ScriptedChat({"Claim": failure})).support_scores([("e", "c"), ("e", "d")])
