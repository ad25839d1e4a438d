"""Questions through a chat port, and by rules: one a fact, each readable alone."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chat_parts import NothingStored, parsed, settings
from decomposerl.chat import ChatFailure, ChatReply, ChatRequest, FailureReason, Parse, Sampling
from decomposerl.errors import ConfigError, EngineError
from decomposerl.text.clauses import checks_of
from fault_server import FaultServer, replying
from resources.chat.client import ChatClient
from resources.decomposer.chat_engine import ChatDecomposer
from resources.decomposer.rule_engine import MOST, RuleDecomposer, questions_of
from resources.store.prompts import load_prompt
from strategies import law


class ScriptedChat(NothingStored):
    """Answers by what stands in the prompt; records what it was asked."""

    engine = "chat:scripted"

    def __init__(self, script: dict[str, str | ChatFailure]) -> None:
        self.script, self.asked = script, []

    def complete(
        self, requests: Sequence[ChatRequest], parse: Parse[Any] | None = None
    ) -> list[ChatReply[Any] | ChatFailure]:
        """As scripted."""
        self.asked.extend(requests)
        return [self._one(request, parse) for request in requests]

    def _one(self, request: ChatRequest, parse: Parse[Any] | None) -> ChatReply[Any] | ChatFailure:
        content = request.messages[0].content
        found = next(value for key, value in self.script.items() if key in content)
        return found if isinstance(found, ChatFailure) else parsed(found, parse)


PROMPT = load_prompt("silver")
SCRIPT: dict[str, str | ChatFailure] = {
    "first claim": '{"questions": ["Who?", " When  was it?"]}',
    "second claim": "I would ask who.",
    "third claim": ChatFailure("timeout", "60 s passed"),
    "fourth claim": "<questions></questions>",
}


def decomposer(**chosen: Any) -> ChatDecomposer:  # noqa: ANN401 - any setting
    return ChatDecomposer(ScriptedChat(SCRIPT), PROMPT, Sampling(), **chosen)


def test_every_pair_gets_its_questions_or_null_in_order():
    """Failures of every kind are null and counted by reason; no question is an answer too."""
    ours = decomposer(most_unanswered=0.5)
    pairs = [("Evidence.", f"The {nth} claim.") for nth in ("third", "first", "fourth", "second")]
    assert [None, ["Who?", "When was it?"], [], None] == ours.decompose(pairs)
    assert {"timeout": 1, "unparsable": 1} == ours.failures


def test_the_engine_names_whatever_changes_an_answer():
    """Stored answers of another prompt, form or sampling are never taken for these."""
    changes = [{}, {"structured": True}, {"thinking": True}, {"thinking": False}]
    engines = {decomposer(**change).engine for change in changes}
    engines.add(decomposer(sends_temperature=False).engine)
    for sampling in (Sampling(temperature=0.5), Sampling(max_tokens=9), Sampling(seed=1)):
        engines.add(ChatDecomposer(ScriptedChat(SCRIPT), PROMPT, sampling).engine)
    assert 8 == len(engines)
    assert "temperature=default" in decomposer(sends_temperature=False).engine
    assert all("chat:scripted" in engine for engine in engines)


WELL = '{"questions": ["Who?"]}'
KEY_FAULT = ChatFailure("refused", "HTTP 401: wrong key", lasting=True)
GIVEN_UP = ChatFailure("circuit_open", "no endpoint: HTTP 401: wrong key", lasting=True)
SPENT = ChatFailure("budget", "ceiling of 10.00 US dollars")


def asked(outcomes: Sequence[str | ChatFailure], **chosen: Any) -> list[list[str] | None]:  # noqa: ANN401 - any setting
    """The answers to as many claims as there are outcomes."""
    script = {f"claim {n:03}.": outcome for n, outcome in enumerate(outcomes)}
    ours = ChatDecomposer(ScriptedChat(script), PROMPT, Sampling(), **chosen)
    return ours.decompose([("Evidence.", f"The claim {n:03}.") for n in range(len(outcomes))])


STOPS: dict[str, tuple[list[str | ChatFailure], str]] = {
    "key": ([KEY_FAULT], "refused: HTTP 401: wrong key"),
    "key in the middle": ([WELL] * 98 + [KEY_FAULT, GIVEN_UP], "refused: HTTP 401: wrong key"),
    "model": ([ChatFailure("wrong_model", "serves 'b'", lasting=True)], "wrong_model: .*'b'"),
    "outage": ([ChatFailure("transport", "nobody")] * 9, "not one of 9 .*nobody"),
    "money": ([WELL] * 99 + [SPENT], "ceiling of 10.00 US dollars"),
}


@pytest.mark.parametrize(("outcomes", "said"), STOPS.values(), ids=STOPS)
def test_what_no_other_claim_can_mend_stops_the_stage(outcomes: list[str | ChatFailure], said: str):
    """A wrong key, an outage and a ceiling are reported with their words, whatever the share."""
    for share in (0.05, 1.0):
        with pytest.raises(EngineError, match=said):
            asked(outcomes, most_unanswered=share)


@pytest.mark.parametrize("reason", ["unparsable", "timeout", "refused", "truncated"])
def test_too_many_claims_without_an_answer_stop_the_stage(reason: FailureReason):
    """Five of a hundred may stay unanswered, six not; the message says why, and how many."""
    fault = ChatFailure(reason, "said so")
    assert 5 == asked([WELL] * 95 + [fault] * 5).count(None)
    with pytest.raises(EngineError, match=f"6 of 100 .*0.05 .*{reason} 6 .*said so"):
        asked([WELL] * 94 + [fault] * 6)
    assert 6 == asked([WELL] * 94 + [fault] * 6, most_unanswered=1.0).count(None)
    assert 0 == asked([], most_unanswered=0.0).count(None)
    # A fault of one endpoint of several: another endpoint answers the rest.
    assert 3 == asked([WELL] * 97 + [KEY_FAULT] * 3).count(None)


def test_the_share_is_of_the_whole_stage():
    """A run that asks only for what an earlier one left counts that one's answers too."""
    pairs = [("Evidence.", f"The claim {n}.") for n in range(100)]
    for stored, fails in ((99, False), (19, False), (9, True)):
        left = ChatDecomposer(RememberingChat(stored), PROMPT, Sampling(), batch_size=7)
        if fails:
            with pytest.raises(EngineError, match=f"1 of {stored + 1} "):
                left.decompose(pairs[: stored + 1])
        else:
            assert [["Who?"]] * stored + [None] == left.decompose(pairs[: stored + 1])
        assert (1, stored) == (left.calls, left.hits)


class RememberingChat(ScriptedChat):
    """A chat whose store has the first answers; to others it gives none."""

    def __init__(self, stored: int) -> None:
        super().__init__({"": "I would ask who."})
        self.left = stored

    def complete(
        self, requests: Sequence[ChatRequest], parse: Parse[Any] | None = None
    ) -> list[ChatReply[Any] | ChatFailure]:
        """Stored replies first."""
        known = min(self.left, len(requests))
        self.left -= known
        reply: ChatReply[Any] = ChatReply(WELL, "stop", "m", 1, 1, 0.0, cached=True)
        stored = replace(reply, value=parse(reply) if parse else None)
        return [*[stored] * known, *super().complete(requests[known:], parse)]


def test_calls_and_hits_count_pairs(tmp_path: Path):
    """A pair is asked once in a run and never in the next; all else is a hit."""
    pairs = [("Evidence.", f"The claim {n % 10}.") for n in range(25)]
    with FaultServer(usual=replying(WELL)) as served:
        for calls in (10, 0):
            with ChatClient(settings(served.url), tmp_path) as chat:
                writer = ChatDecomposer(chat, PROMPT, Sampling(), batch_size=4)
                assert [["Who?"]] * 25 == writer.decompose(pairs)
                assert (calls, 25 - calls) == (writer.calls, writer.hits)
                assert (calls, 10 - calls) == tuple(
                    writer.details()[f"chat {name}"] for name in ("calls", "hits")
                )
    assert 10 == len(served.asked)


def test_a_stop_keeps_what_was_answered_and_the_next_run_asks_the_rest(tmp_path: Path):
    """No null is stored as an answer: of ten claims the ceiling left five, and five are asked."""
    pairs = [("Evidence.", f"The claim {n}.") for n in range(10)]

    def run(url: str, ceiling: int) -> list[list[str] | None]:
        chosen = settings(url, calls=ceiling)
        with ChatClient(chosen, tmp_path) as chat:
            return ChatDecomposer(chat, PROMPT, Sampling()).decompose(pairs)

    with FaultServer(usual=replying(WELL)) as served:
        with pytest.raises(EngineError, match="5 calls"):
            run(served.url, 5)
        assert 5 == len(served.asked)
        assert [["Who?"]] * 10 == run(served.url, 0)
        assert 10 == len(set(served.prompts)) == len(served.asked)


def test_a_share_is_between_none_and_all():
    """Anything else is a mistake in the settings."""
    for share in (-0.1, 1.1):
        with pytest.raises(ConfigError, match="most_unanswered"):
            decomposer(most_unanswered=share)


# By rules


TAKEN_APART = {
    "Maria Keller, who was born in 1963, was a painter.": [
        "Was Maria Keller born in 1963?",
        "Was Maria Keller a painter?",
    ],
    "Anna Berg was born in Oslo and moved to Lima.": [
        "Was Anna Berg born in Oslo?",
        "Is it true that Anna Berg moved to Lima?",
    ],
    "The statue is made of marble, stone and gold.": [
        f"Is the statue made of {what}?" for what in ("marble", "stone", "gold")
    ],
    # A later sentence's question can be read without the one before it.
    "Maria Keller was a painter. She was born in Oslo.": [
        "Was Maria Keller a painter?",
        "Was Maria Keller born in Oslo?",
    ],
}
ONE_FACT = [
    "Quinn passed away in Rhode Island.",
    "Saturn has many hydrocarbon pools on its surface.",
    "Is resected stomach volume related to weight loss?",
    "The city is larger than the town.",
]


def test_joined_facts_are_taken_apart():
    """Clauses, verb phrases, lists and adjuncts each give a question; a single fact gives one."""
    assert TAKEN_APART == {claim: questions_of(claim) for claim in TAKEN_APART}
    assert len(questions_of("The album was released in 1996 at number 9 on the chart.")) >= 2
    assert [1] * len(ONE_FACT) == [len(questions_of(claim)) for claim in ONE_FACT]


def test_a_list_whose_items_share_their_last_words_stays_whole():
    """The last item tells: two words more than the first, and the items are not items alone."""
    shared = "Orla Dunn studied painting and modern landscape architecture"
    assert [shared] == checks_of(shared)
    first = "Ilva Torbeck painted ferries, very old stone harbours and mills"
    assert 3 == len(checks_of(first))


def test_a_claim_without_text_has_no_question():
    """Blank claims and bare punctuation hold no fact."""
    assert [[], []] == RuleDecomposer().decompose([("evidence", ""), ("evidence", " ... ")])


_CLAIM_WORDS = st.sampled_from(
    "Maria Keller Oslo the a was is and , who that which in 1990 of by film directed painter "
    'not ? . " wrote it She marble stone'.split(" ")
)


@law(150)
@given(words=st.lists(_CLAIM_WORDS, max_size=25), text=st.text(max_size=30))
def test_any_claim_gives_distinct_questions(words: list[str], text: str):
    """At most twenty, distinct, ending in one question mark, none exactly where no text is."""
    for claim in (" ".join(words), text):
        found = questions_of(claim)
        assert len(found) <= MOST
        assert len({question.casefold() for question in found}) == len(found)
        assert all(question.endswith("?") and len(question) > 1 for question in found)
        assert any(letter.isalnum() for letter in claim) == bool(found)
        assert found == questions_of(claim)
