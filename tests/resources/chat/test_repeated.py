"""The second request, where a reply could not be read: another seed, and a line with the form."""

from dataclasses import replace
from pathlib import Path

import pytest

from chat_parts import PLAIN, request
from chat_served import client, reasons, served_chat, stored_texts
from decomposerl.chat import ChatReply, Message, Sampling
from decomposerl.judge.call import JudgeCall, Ruling
from decomposerl.prompts.judge import JudgeSettings
from fault_server import REASONING, TRUNCATED, Answer, FaultServer, replying
from resources.chat.settings import Ceilings
from resources.decomposer.chat_engine import ChatDecomposer
from resources.judge.chat_judge import ChatJudge, load_judge_prompts
from resources.store.prompts import load_prompt

LINE = 'End with "good".'
ASKED = request(1, again=LINE)
AGAIN = load_prompt("again").sections
CLAIM = "Ilva opened the bridge in 1921."


def good(reply: ChatReply[object]) -> str:
    if "good" not in reply.text:
        raise ValueError("not good")
    return reply.text


def test_the_line_is_no_part_of_the_key():
    """Replies that were stored before the line was written stay valid."""
    assert request(1).canonical("m", "r") == ASKED.canonical("m", "r")
    assert ASKED.repeated().canonical("m", "r") != ASKED.canonical("m", "r")


def test_the_line_ends_the_last_message_of_the_user():
    """Whatever stands behind it: a transcript that is continued stays the last message."""
    for roles, expected in {
        "user": ["x\n\nL"],
        "system user": ["x", "x\n\nL"],
        "user assistant": ["x\n\nL", "x"],
        "user assistant user": ["x", "x", "x\n\nL"],
        "system": ["x"],
        "": [],
    }.items():
        messages = tuple(Message(role, "x") for role in roles.split())
        repeated = replace(ASKED, messages=messages, again="L").repeated()
        assert expected == [message.content for message in repeated.messages]
        assert roles.split() == [message.role for message in repeated.messages]


def test_a_request_without_seed_or_line_is_repeated_as_it_is():
    """None is not a number to add to; no line, no empty one."""
    plain = request(1, sampling=Sampling(seed=None))
    assert plain == plain.repeated()
    assert (PLAIN.seed or 0) + 1_000 == request(1).repeated().sampling.seed
    once = ASKED.repeated()
    assert "" == once.again
    assert once.messages == once.repeated().messages


@pytest.mark.parametrize("stored", [True, False], ids=["cache", "no cache"])
def test_the_second_request_differs_and_its_reply_is_kept_under_the_first(
    tmp_path: Path, *, stored: bool
):
    """One call more, with the line; the next run finds the reply under the first request's key."""
    data = tmp_path if stored else None
    with FaultServer([replying("bad"), replying("good")]) as served:
        with client(served.url, data) as chat:
            assert ["good"] == [one.value for one in chat.complete([ASKED], good)]
        first, second = served.asked
        assert (42, 1_042) == (first["seed"], second["seed"])
        assert ["q 1", f"q 1\n\n{LINE}"] == served.prompts
        assert {"seed", "messages"} == {name for name in first if first[name] != second[name]}
        if stored:
            with client(served.url, data) as chat:
                assert ["good"] == [one.value for one in chat.recall([request(1)], good)]
                assert ["good"] == [one.value for one in chat.complete([ASKED], good)]
                assert [("good", None)] == [(o.text, o.value) for o in chat.complete([ASKED])]
            assert 2 == len(served.asked)


def test_a_stored_reply_that_no_longer_reads_is_the_first_attempt(tmp_path: Path):
    """The one request that follows has the line already, and its reply takes the place."""
    with FaultServer([replying("bad"), replying("good")]) as served:
        with client(served.url, tmp_path) as chat:
            chat.complete([ASKED])
        with client(served.url, tmp_path) as chat:
            assert ["good"] == [one.value for one in chat.complete([ASKED], good)]
            assert ["good"] == stored_texts(chat)
        assert ["q 1", f"q 1\n\n{LINE}"] == served.prompts


def test_what_cannot_be_stored_is_asked_for_with_the_line_too(tmp_path: Path):
    """Half a surrogate pair is no text, so the reply could not be read."""
    with served_chat([replying("\ud800"), replying("good")], data=tmp_path) as (served, chat):
        assert ["good"] == [one.value for one in chat.complete([ASKED], good)]
        assert ["q 1", f"q 1\n\n{LINE}"] == served.prompts


def test_a_retry_after_a_fault_of_the_endpoint_is_the_same_request():
    """The line blames a reply; where none came there is nothing to blame."""
    fault = replace(replying("x"), status=500)
    with served_chat([fault, replying("good")]) as (served, chat):
        assert ["good"] == [one.value for one in chat.complete([ASKED], good)]
        assert ["q 1", "q 1"] == served.prompts
        assert [42, 42] == [body["seed"] for body in served.asked]


def test_the_ceiling_counts_the_longer_request():
    """The expected tokens of the second request are those of its own text."""
    for again, reason in (("", "unparsable"), ("word " * 200, "budget")):
        with served_chat(usual=replying("bad"), ceilings=Ceilings(tokens=300)) as (_, chat):
            assert [reason] == reasons(chat.complete([request(1, again=again)], good))


CALLS = {
    "digit": JudgeCall("answerability", "Torbeck.", question="Who?"),
    "criteria": JudgeCall("atomicity", claim=CLAIM, question="Who?"),
    "coverage": JudgeCall("coverage", claim=CLAIM, answers=("Ilva.",)),
}
RULINGS = {
    "digit": ("<answer>1</answer>", True),
    "criteria": ("is_question single_focus no_conjunctions verifiable grounded", (True,) * 5),
    "coverage": ("<answer>SUPPORTED</answer>", "Supported"),
}


@pytest.mark.parametrize("form", CALLS)
@pytest.mark.parametrize("structured", [False, True])
def test_the_judge_names_its_form(form: str, *, structured: bool, tmp_path: Path):
    """Each task its own; the ruling is that of the second reply, and costs nothing again."""
    text, value = RULINGS[form]
    names = text.split()
    if structured:
        field = {"digit": '"answer": 1', "coverage": '"verdict": "SUPPORTED"'}
        text = "{" + field.get(form, ", ".join(f'"{name}": "YES"' for name in names)) + "}"
    elif form == "criteria":
        text = "<answer>{}</answer>".format("\n".join(f"{name}:YES" for name in names))
    with FaultServer([replying("I cannot say."), replying(text)]) as served:
        for _ in range(2):
            with client(served.url, tmp_path) as chat:
                asking = JudgeSettings(structured=structured)
                judge = ChatJudge(chat, load_judge_prompts(), asking)
                assert [Ruling(value)] == judge.judge([CALLS[form]])
        first, second = served.prompts
        assert second == f"{first}\n\n{AGAIN['json' if structured else form]}"


@pytest.mark.parametrize("structured", [False, True])
def test_the_decomposer_names_its_form(*, structured: bool):
    """Tags or JSON, as it was asked for."""
    text = '{"questions": ["Who?"]}'
    with served_chat([replying("I cannot say."), replying(text)]) as (served, chat):
        silver = ChatDecomposer(chat, load_prompt("silver"), Sampling(), structured=structured)
        assert [["Who?"]] == silver.decompose([("Evidence.", CLAIM)])
        first, second = served.prompts
        assert second == f"{first}\n\n{AGAIN['json' if structured else 'silver']}"


def test_a_users_lines_take_the_place_of_the_packages():
    """``again.md`` of a prompt folder serves the judge and the decomposer as it does methods."""
    theirs = replace(load_prompt("again"), sections=dict.fromkeys(AGAIN, "Once more."))
    with served_chat(usual=replying("I cannot say.")) as (served, chat):
        ChatJudge(chat, load_judge_prompts(), again=theirs).judge([CALLS["digit"]])
        ChatDecomposer(
            chat, load_prompt("silver"), Sampling(), again=theirs, most_unanswered=1.0
        ).decompose([("Evidence.", CLAIM)])
        assert 2 == sum(prompt.endswith("\n\nOnce more.") for prompt in served.prompts)


CUT = {"truncated": TRUNCATED, "reasoning alone": REASONING}


@pytest.mark.parametrize("fault", CUT.values(), ids=CUT)
def test_a_reply_that_was_cut_off_is_asked_for_with_more_room(fault: Answer, tmp_path: Path):
    """Greedy and without thinking it would loop again: it is sampled, with twice the tokens."""
    asked = replace(ASKED, resample=True, thinking=False)
    with FaultServer([fault, replying("good")]) as served:
        for _ in range(2):
            with client(served.url, tmp_path, thinking_style="qwen") as chat:
                assert ["good"] == [one.value for one in chat.complete([asked], good)]
        first, second = served.asked
    assert (42, 0.0, 50) == tuple(first[name] for name in ("seed", "temperature", "max_tokens"))
    assert (1_042, 0.3, 100) == tuple(
        second[name] for name in ("seed", "temperature", "max_tokens")
    )
    assert ["q 1", f"q 1\n\n{LINE}"] == served.prompts


@pytest.mark.parametrize("thinking", [None, True])
def test_a_thought_that_used_up_the_tokens_is_left_out(*, thinking: bool | None):
    """The same token limit, no thinking and no bound on it; other models get more room."""
    asked = replace(ASKED, resample=True, thinking=thinking, thinking_tokens=9)
    with FaultServer([REASONING, replying("good")] * 2) as served:
        for style in ("qwen", "none"):
            with client(served.url, None, thinking_style=style) as chat:
                assert ["good"] == [one.value for one in chat.complete([asked], good)]
        bound, silent, plain, longer = served.asked
    assert 9 == bound["thinking_token_budget"]
    assert {"enable_thinking": False} == silent["chat_template_kwargs"]
    assert 50 == bound["max_tokens"] == silent["max_tokens"]
    assert (50, 100) == (plain["max_tokens"], longer["max_tokens"])
    unknown = {"thinking_token_budget", "chat_template_kwargs"}
    assert not unknown & (set(plain) | set(longer) | (set(silent) - {"chat_template_kwargs"}))


def test_a_reply_that_cannot_be_read_is_sampled_with_its_own_limits():
    """At temperature 0 another seed alone would give the same reply; a warmer one stays so."""
    warm = Sampling(temperature=0.8, max_tokens=50)
    replies = [replying("bad"), replying("good")] * 2
    with served_chat(replies) as (served, chat):
        for asked in (ASKED, replace(ASKED, sampling=warm)):
            chat.complete([replace(asked, resample=True)], good)
    assert [0.0, 0.3, 0.8, 0.8] == [body["temperature"] for body in served.asked]
    assert {50} == {body["max_tokens"] for body in served.asked}


def test_a_reply_that_is_cut_off_twice_is_a_failure(tmp_path: Path):
    """Two requests, one failure with the reason, nothing stored."""
    with served_chat(usual=TRUNCATED, data=tmp_path) as (served, chat):
        (failure,) = chat.complete([replace(ASKED, resample=True)], good)
        assert ("truncated", 2) == (failure.reason, failure.attempts)
        assert (2, []) == (len(served.asked), stored_texts(chat))


def test_a_longer_reply_that_does_not_fit_reports_the_first_fault():
    """The second request asks for more tokens than the context has; the cause is the first."""
    refused = Answer(400, {}, b'{"error": {"message": "longer than the context"}}')
    with served_chat([TRUNCATED, refused]) as (_, chat):
        (found,) = chat.complete([replace(ASKED, resample=True)], good)
    assert ("truncated", 1) == (found.reason, found.attempts)


def test_the_bound_of_a_thought_is_part_of_the_key_where_there_is_one():
    """Requests without one keep the keys of their stored replies."""
    bound = replace(ASKED, thinking_tokens=9)
    assert "thinking_tokens" not in ASKED.canonical("m", "r")
    assert ASKED.canonical("m", "r") != bound.canonical("m", "r")
    assert replace(bound, thinking_tokens=8).canonical("m", "r") != bound.canonical("m", "r")
    assert ASKED.canonical("m", "r") == replace(ASKED, resample=True).canonical("m", "r")
