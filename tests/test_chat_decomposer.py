"""Silver questions through a chat port."""

from collections.abc import Callable, Sequence
from typing import Any

from decomposerl.chat import ChatFailure, ChatReply, ChatRequest, Sampling
from resources.chat_decomposer import ChatDecomposer
from resources.prompts import load_prompt


class ScriptedChat:
    """Answers by what stands in the prompt; records what it was asked."""

    engine = "chat:scripted"

    def __init__(self, script: dict[str, str | ChatFailure]) -> None:
        self.script, self.asked = script, []

    def complete(
        self, requests: Sequence[ChatRequest], parse: Callable[[str], Any] | None = None
    ) -> list[ChatReply | ChatFailure]:
        """As scripted."""
        self.asked.extend(requests)
        return [self._one(request, parse) for request in requests]

    def _one(
        self, request: ChatRequest, parse: Callable[[str], Any] | None
    ) -> ChatReply | ChatFailure:
        content = request.messages[0].content
        found = next(value for key, value in self.script.items() if key in content)
        if isinstance(found, ChatFailure):
            return found
        try:
            if parse:
                parse(found)
        except ValueError as error:
            return ChatFailure("unparsable", str(error), 2, found)
        return ChatReply(found, "stop", "m", 1, 1, 0.0)


PROMPT = load_prompt("silver")
SCRIPT: dict[str, str | ChatFailure] = {
    "first claim": '{"questions": ["Who?", " When  was it?"]}',
    "second claim": "I would ask who.",
    "third claim": ChatFailure("timeout", "60 s passed", 3),
    "fourth claim": "<questions></questions>",
}


def decomposer(**settings: bool) -> ChatDecomposer:
    return ChatDecomposer(ScriptedChat(SCRIPT), PROMPT, Sampling(), **settings)


def test_every_pair_gets_its_questions_or_null_in_order():
    """Failures of every kind are null and counted by reason; no question is an answer too."""
    ours = decomposer()
    pairs = [("Evidence.", f"The {nth} claim.") for nth in ("third", "first", "fourth", "second")]
    assert [None, ["Who?", "When was it?"], [], None] == ours.decompose(pairs)
    assert {"timeout": 1, "unparsable": 1} == ours.failures


def test_the_engine_names_whatever_changes_an_answer():
    """Stored answers of another prompt, form or sampling are never taken for these."""
    engines = {
        decomposer().engine,
        decomposer(structured=True).engine,
        decomposer(thinking=True).engine,
        decomposer(thinking=False).engine,
        ChatDecomposer(ScriptedChat(SCRIPT), PROMPT, Sampling(temperature=0.5)).engine,
        ChatDecomposer(ScriptedChat(SCRIPT), PROMPT, Sampling(max_tokens=9)).engine,
        ChatDecomposer(ScriptedChat(SCRIPT), PROMPT, Sampling(seed=1)).engine,
    }
    assert 7 == len(engines)
    assert all("chat:scripted" in engine for engine in engines)
