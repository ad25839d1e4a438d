"""A verifier of the user's own: what it is asked, and what is read in its reply."""

import json
import math

import pytest

from decomposerl.chat import ChatReply, ChatRequest, Message, Sampling, Template, Token
from decomposerl.endpoint import Endpoint
from decomposerl.prompts.template import inline_prompt
from decomposerl.prompts.verifier import VerifierForm
from resources.chat.wire import arguments_of, request_key

PROMPT = inline_prompt("verifier", {"system": "Be strict.", "user": "{document}\nClaim: {claim}"})
CLEAR = (("attributable",), ("not attributable", "contradictory"))


def reply(*tokens: tuple[str, dict[str, float]], text: str = "") -> ChatReply[object]:
    """A reply of these tokens, each with the probabilities of what could stand there."""
    made = tuple(
        Token(
            said,
            math.log(chances.get(said, 0.5)),
            tuple((t, math.log(p)) for t, p in chances.items()),
        )
        for said, chances in tokens
    )
    said = text or "".join(token.text for token in made)
    return ChatReply(said, "stop", "m", 1, 1, 0.0, tokens=made)


def test_a_request_is_made_of_the_entrys_words():
    """System and user; what looks like a token of a chat template is escaped."""
    asked = VerifierForm(PROMPT).request("Ice melts.<|im_end|>", "It melts.")
    assert ("system", "Be strict.") == (asked.messages[0].role, asked.messages[0].content)
    assert "Ice melts.&lt;|im_end|>\nClaim: It melts." == asked.messages[1].content
    assert (1, 5) == (asked.sampling.max_tokens, asked.sampling.top_logprobs)


def test_evidence_may_be_a_document_of_the_chat_template():
    """In vLLM's fields; the claim is the assistant's whole message, then the reply begins."""
    form = VerifierForm(None, template='{"guardian_config": {"criteria_id": "groundedness"}}')
    asked = form.request("Ice melts.", "It melts.")
    sent = arguments_of(asked, Endpoint(model="m"), "m")
    assert [{"role": "assistant", "content": "It melts."}] == sent["messages"]
    assert {
        "documents": [{"doc_id": "0", "text": "Ice melts."}],
        "chat_template_kwargs": {"guardian_config": {"criteria_id": "groundedness"}},
    } == sent["extra_body"]
    other = form.request("Ice freezes.", "It melts.")
    assert request_key(asked, "m", "") != request_key(other, "m", "")


def test_requests_without_documents_keep_their_keys():
    """The canonical text of a request is as it was before requests had documents."""
    asked = ChatRequest((Message("user", "x"),), Sampling(), Template("t", "0"))
    assert {"documents", "template_arguments"}.isdisjoint(json.loads(asked.canonical("m", "")))


def test_yes_and_no_are_read_in_any_spelling():
    """The masses of both words at the first token, whichever was sampled."""
    support, denial = VerifierForm(PROMPT).support(
        reply((" Yes", {" Yes": 0.5, "yes": 0.1, "No": 0.3, "Maybe": 0.1}))
    )
    assert (0.6, 0.3) == (pytest.approx(support), pytest.approx(denial))


def test_a_token_may_begin_a_longer_word():
    """Three letters and more: ``Not`` of Not Attributable is no support, nor is a single letter."""
    form = VerifierForm(PROMPT, *CLEAR)
    chances = {"Not": 0.7, "Att": 0.2, "Con": 0.05, "A": 0.05}
    support, denial = form.support(reply(("Not", chances), (" Attribut", {" Attribut": 1.0})))
    assert (0.2, 0.75) == (pytest.approx(support), pytest.approx(denial))


def test_the_verdict_may_stand_in_tags_and_behind_a_thought():
    """Granite Guardian's score, where yes means not grounded; a yes in the thought is none."""
    form = VerifierForm(None, ("no",), ("yes",))
    score = [("<score>", {"<score>": 1.0}), (" yes", {" yes": 0.9, " no": 0.1})]
    assert (0.1, 0.9) == pytest.approx(form.support(reply(*score)))
    thought = [("<think>", {"<think>": 1.0}), ("no", {"no": 1.0}), ("</think>", {"</think>": 1.0})]
    assert (0.1, 0.9) == pytest.approx(form.support(reply(*thought, *score)))


@pytest.mark.parametrize(
    ("text", "support"),
    [
        ("[Extraction] The dam is attributable to him.\n[Conclusion] So, [Not Attributable].", 0),
        ("It is not attributable at first sight. [ATTRIBUTABLE]", 1),
        ("[Contradictory]", 0),
        ("<think>[Attributable]</think>\n[Contradictory]", 0),
    ],
)
def test_a_written_verdict_is_the_last_one(text: str, support: int):
    """The longer word wins where one holds the other; a thought says nothing."""
    form = VerifierForm(PROMPT, *CLEAR, "text")
    assert (support, 1 - support) == form.support(reply(text=text))


@pytest.mark.parametrize(
    ("form", "made"),
    [
        (VerifierForm(PROMPT), reply(text="Yes")),
        (VerifierForm(PROMPT), reply(("Perhaps", {"Perhaps": 1.0}))),
        (VerifierForm(PROMPT, *CLEAR), reply(("Attractive", {"Attractive": 1.0}))),
        (VerifierForm(PROMPT, *CLEAR, "text"), reply(text="unattributable")),
    ],
    ids=["no log probabilities", "other words", "a longer token", "inside a word"],
)
def test_what_is_not_said_is_not_guessed(form: VerifierForm, made: ChatReply[object]):
    """A reply without its words is unreadable."""
    with pytest.raises(ValueError, match=r"\w"):
        form.support(made)
