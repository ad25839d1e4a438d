"""The judge over the chat client and a real server on loopback, and as the profiles choose it."""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import fault_server as server
from chat_served import FIVE, SoundServer, client, served_chat
from decomposerl.chat import Sampling
from decomposerl.endpoint import Endpoint
from decomposerl.errors import ConfigError, EngineError
from decomposerl.judge.call import Judge, JudgeCall, Ruling
from decomposerl.prompts.judge import SENTENCE, TASKS, JudgeSettings
from decomposerl.prompts.template import parse_prompt
from decomposerl.training.estimate import longest_judge_calls
from decomposerl.training.experiments import PAPER_7B
from documents import joined
from environment import resources_of, settings_of, variables
from fault_server import Answer, FaultServer, replying
from project import ROOT
from resources.judge.chat_judge import ChatJudge, load_judge_prompts
from strategies import law

PROMPTS = load_judge_prompts()
DOCUMENT = "Ilva Marrek opened the bridge in 1921."
ANSWERABLE = JudgeCall("answerability", DOCUMENT, question="Who opened it?")
CORRECT = JudgeCall("correctness", DOCUMENT, question="Who opened it?", answers=("Ilva Marrek.",))
ATOMIC = JudgeCall("atomicity", claim="Ilva opened it in 1921.", question="Who and when?")
COVERAGE = JudgeCall("coverage", claim="Ilva opened it in 1921.", answers=("Ilva.", "In 1921."))
ONE = replying("<answer>1</answer>")
FIVE_RULED = Ruling((True, False, False, True, True))


@contextmanager
def served_judge(
    script: Sequence[Answer] = (),
    usual: Answer = server.WELL,
    data: Path | None = None,
    asking: JudgeSettings | None = None,
    **changes: object,
) -> Iterator[tuple[FaultServer, ChatJudge]]:
    """A judge and the server that it asks."""
    with served_chat(script, usual, data, **changes) as (served, chat):
        yield served, ChatJudge(chat, PROMPTS, asking)


def test_every_task_is_ruled_on_in_order(tmp_path: Path):
    """Four tasks in any order, equal calls once: each ruling is that of its own call."""
    rulings = {
        COVERAGE: Ruling("Supported"),
        JudgeCall("correctness", DOCUMENT, answers=("Ilva. Who else?",)): Ruling(True),
        ANSWERABLE: Ruling(True),
        ATOMIC: FIVE_RULED,
        CORRECT: Ruling(True),
        JudgeCall("answerability", DOCUMENT, question="When?"): Ruling(False),
    }
    with SoundServer() as served, client(served.url, tmp_path) as chat:
        judge: Judge = ChatJudge(chat, PROMPTS)

        @law(25)
        @given(st.lists(st.sampled_from(list(rulings)), max_size=9))
        def holds(calls: list[JudgeCall]) -> None:
            assert [rulings[call] for call in calls] == judge.judge(calls)

        holds()
        assert list(rulings.values()) == judge.judge(list(rulings))
        assert len(rulings) == len(served.asked)


def test_calls_about_a_document_are_sent_together():
    """In the order in which the documents come first, whatever stands between: a server's cache."""
    other = "Torbeck has a river."
    calls = [
        JudgeCall("answerability", document, question=question)
        for question in ("Who?", "When?")
        for document in (DOCUMENT, other)
    ]
    with SoundServer() as served, client(served.url, None, concurrency=1) as chat:
        ChatJudge(chat, PROMPTS).judge(calls)
        sent = [asked["messages"][-1]["content"] for asked in served.asked]
    assert [False, False, True, True] == [other in text for text in sent]


FAILED = [
    (replying("<answer>NOT SUPPORTED</answer>"), "unparsable"),
    (replying("<answer>SUPPORTED</answer>\n<answer>REFUTED</answer>"), "unparsable"),
    (replying("<answer>SUPPORTED</answer>", "length"), "truncated"),
    (server.REASONING, "empty"),
    (server.UNKNOWN_KEY, "refused"),
    (server.BUSY, "rate_limited"),
    (server.CUT, "transport"),
    (server.OTHER_MODEL, "wrong_model"),
]


def test_a_call_that_failed_has_no_value_and_a_reason():
    """Never a 0 and never a verdict; every failed call is counted, none raises."""
    for answer, reason in FAILED:
        with served_judge([ONE], answer) as (_, judge):
            assert [Ruling(True)] == judge.judge([ANSWERABLE])
            assert [Ruling(None, reason)] == judge.judge([COVERAGE])
        assert {reason: 1} == judge.failures


def test_an_endpoint_that_never_answers_is_an_error():
    """A wrong key is an error; it does not become a table of missing rulings."""
    for answer, said in (
        (server.UNKNOWN_KEY, "401"),
        (server.OTHER_MODEL, "wrong_model"),
        (server.BROKEN, "not one of 1 .*server_error"),
    ):
        with served_judge(usual=answer) as (_, judge), pytest.raises(EngineError, match=said):
            judge.judge([COVERAGE])


def test_what_another_was_answered_shows_that_the_endpoint_answers(tmp_path: Path):
    """A filter's 403 is one failed call where all others were answered before, in a thread."""
    with served_judge([ONE], Answer(403, {}, b"{}"), tmp_path) as (_, judge):
        assert [Ruling(True)] == judge.renewed().judge([ANSWERABLE])
        assert [Ruling(True), Ruling(None, "refused")] == judge.judge([ANSWERABLE, COVERAGE])


def test_a_call_that_the_endpoint_failed_is_made_again_at_the_end():
    """Three attempts fail, the rest of the batch is ruled on, then the call is: nothing is lost."""
    for fault in (server.BROKEN, server.BUSY, server.CUT):
        script = [ONE, fault, fault, fault, replying(f"<answer>{FIVE}</answer>"), ONE]
        with served_judge(script, concurrency=1) as (served, judge):
            assert [Ruling(True), Ruling(True), FIVE_RULED] == judge.judge(
                [CORRECT, ANSWERABLE, ATOMIC]
            )
            assert 6 == len(served.asked)
        assert {} == judge.failures


def test_a_call_that_fails_in_both_rounds_is_one_failure():
    """It is counted once, with the reason of the second."""
    with served_judge([ONE], server.BROKEN) as (served, judge):
        judge.judge([ANSWERABLE])
        assert [Ruling(None, "server_error")] == judge.judge([COVERAGE])
        assert 1 + 2 * 3 == len(served.asked)
    assert {"server_error": 1} == judge.failures


def test_what_another_round_would_not_change_is_not_asked_again():
    """A request that is wrong stays wrong, and an unreadable reply was requested twice already."""
    for answer in (server.REFUSED, replying("Perhaps.")):
        with served_judge([ONE], answer) as (served, judge):
            judge.judge([ANSWERABLE])
            assert [None] == [ruling.value for ruling in judge.judge([COVERAGE])]
            assert len(served.asked) <= 3


def test_failures_leave_the_other_calls_alone():
    """One of four calls is refused, one cannot be sent: the others are ruled on, in order."""
    broken = JudgeCall("correctness", DOCUMENT, question="When?", answers=("In \ud800.",))
    script = [ONE, server.REFUSED, replying(f"<answer>{FIVE}</answer>")]
    script += [replying("<answer>SUPPORTED</answer>")]
    with served_judge(script, concurrency=1) as (_, judge):
        *found, unsent = judge.judge([ANSWERABLE, CORRECT, ATOMIC, COVERAGE, broken])
    refused = Ruling(None, "refused")
    assert [Ruling(True), refused, FIVE_RULED, Ruling("Supported")] == found
    assert unsent.value is None
    assert 2 == sum(judge.failures.values())
    assert {"refused", unsent.failure} == set(judge.failures)


def test_rulings_are_stored(tmp_path: Path):
    """A second judge asks nothing, another prompt asks anew; prompt and reply can be shown."""
    with served_judge([ONE], data=tmp_path) as (first, judge):
        assert [Ruling(True)] == judge.judge([ANSWERABLE])
        (prompt, reply), missing = judge.recorded([ANSWERABLE, COVERAGE])
        assert [prompt] == first.prompts
    assert DOCUMENT in prompt
    assert ("<answer>1</answer>", ("", "")) == (reply, missing)
    with FaultServer() as served, client(served.url, tmp_path) as chat:
        assert [Ruling(True)] == ChatJudge(chat, PROMPTS).judge([ANSWERABLE])
        assert [] == served.asked
        ChatJudge(chat, PROMPTS | stricter()).judge([ANSWERABLE])
        assert served.asked


@law(25)
@given(batches=st.lists(st.lists(st.integers(0, 4), max_size=8), max_size=4))
def test_a_ruling_is_asked_for_once_and_a_failure_again(
    tmp_path_factory: pytest.TempPathFactory, batches: list[list[int]]
):
    """Across passes and objects each call that succeeds is sent once, an empty reply's twice."""
    calls = [JudgeCall("answerability", f"{DOCUMENT} {n}", question="Who?") for n in range(5)]
    data = tmp_path_factory.mktemp("data")
    with SilentServer() as served:
        for batch in batches:
            before = len(served.asked)
            with client(served.url, data) as chat:
                judge = ChatJudge(chat, PROMPTS, batch_size=2)
                rulings = judge.judge([ANSWERABLE, *(calls[n] for n in batch)])
            expected = [Ruling(None, "empty") if n == 2 else Ruling(True) for n in batch]
            assert [Ruling(True), *expected] == rulings
            assert 1 + len(batch) == judge.calls + judge.hits
            assert judge.calls + (2 in batch) == len(served.asked) - before
        for n in range(5):
            passes = sum(n in batch for batch in batches)
            prompts = [one for one in served.prompts if f"{DOCUMENT} {n}" in one]
            assert len(prompts) == (2 * passes if n == 2 else min(passes, 1))


class SilentServer(SoundServer):
    """Says nothing about the third document."""

    def _well(self, asked: dict[str, Any], answer: Answer) -> bytes:
        if f"{DOCUMENT} 2" in asked["messages"][-1]["content"]:
            return FaultServer._well(self, asked, replying(""))
        return super()._well(asked, answer)


def test_json_by_schema_and_thinking_are_asked_for():
    """A structured judge sends the task's schema and reads JSON; thinking goes to the server."""
    replies = ['{"answer": 0}', '{"analysis": "", "verdict": "REFUTED"}', "<answer>1</answer>"]
    asking = JudgeSettings(Sampling(seed=7, max_tokens=99), structured=True, thinking=False)
    script = [*map(replying, replies)]
    ways = {"asking": asking, "structured": True, "thinking_style": "qwen"}
    with served_judge(script, **ways) as (served, judge):
        assert [False, "Refuted"] == [r.value for r in judge.judge([ANSWERABLE, COVERAGE])]
        assert [Ruling(None, "unparsable")] == judge.judge([CORRECT])
        first, second, *_ = served.asked
    assert "JSON" in first["messages"][0]["content"]
    assert {"enable_thinking": False} == first["chat_template_kwargs"]
    assert (7, 99, 0.0) == (first["seed"], first["max_tokens"], first["temperature"])
    schemas = [one["response_format"]["json_schema"]["schema"] for one in (first, second)]
    assert [{"analysis", "answer"}, {"analysis", "verdict"}] == [
        set(s["properties"]) for s in schemas
    ]


def stricter() -> dict[str, Any]:
    """The prompts of all tasks with other words."""

    def text(sections: dict[str, str]) -> str:
        return "".join(f"<!-- section: {k} -->\n{v}\nBe strict.\n" for k, v in sections.items())

    return {
        task: parse_prompt(task, text(one.sections))
        for task, one in PROMPTS.items()
        if task in (*TASKS, SENTENCE)
    }


def test_the_engine_names_whatever_changes_a_ruling():
    """Stored rulings of another prompt, form or sampling are never taken for these."""
    askings = [
        JudgeSettings(),
        JudgeSettings(structured=True),
        JudgeSettings(thinking=True),
        JudgeSettings(thinking=False),
        *(JudgeSettings(Sampling(max_tokens=n)) for n in (4_000, 8_000)),
        JudgeSettings(Sampling(temperature=0.5, max_tokens=4_096)),
        JudgeSettings(Sampling(top_p=0.5, max_tokens=4_096)),
        JudgeSettings(Sampling(seed=1, max_tokens=4_096)),
        JudgeSettings(reasons="one_sentence"),
        JudgeSettings(reasons="none"),
    ]
    with client("http://127.0.0.1:1/v1") as chat:
        engines = [ChatJudge(chat, PROMPTS, asking).engine for asking in askings]
        engines += [
            ChatJudge(chat, PROMPTS | {task: prompt}).engine for task, prompt in stricter().items()
        ]
        assert ChatJudge(chat, PROMPTS).engine == engines[0]
    assert 16 == len(engines) == len(set(engines))
    assert all(engine.startswith("chat:tiny ") for engine in engines)


def test_half_a_judge_is_refused_before_anything_is_asked():
    """A task without a prompt, or with another task's prompt, is an error at once."""
    with served_chat() as (served, chat):
        with pytest.raises(ConfigError, match="coverage"):
            ChatJudge(chat, {k: v for k, v in PROMPTS.items() if k != "coverage"})
        with pytest.raises(ConfigError, match="placeholders"):
            ChatJudge(chat, PROMPTS | {"coverage": PROMPTS["atomicity"]})
        assert [] == served.asked


# How it thinks, what its server gets, and the context it needs


PAPER_LONGEST = 9_813
"""Tokens of the longest evidence that the paper trains on."""


THINKING = {
    "": ("max_tokens=1024 thinking=off", {"chat_template_kwargs": {"enable_thinking": False}}),
    "off": ("max_tokens=1024 thinking=off", {}),
    "on": ("max_tokens=8192 thinking=on", {"chat_template_kwargs": {"enable_thinking": True}}),
    "512": ("max_tokens=1536 thinking=512", {"thinking_token_budget": 512}),
    "default": ("max_tokens=8192 thinking=default", {}),
}


@pytest.mark.parametrize("word", THINKING)
def test_how_the_judge_thinks_is_a_variable(word: str, tmp_path: Path):
    """Off by default, bounded or free: in the engine's name and in what the server gets."""
    said, body = THINKING[word]
    change = replying("<answer>1</answer>").change | {"model": "Qwen/Qwen3-32B"}
    with FaultServer(usual=Answer(change=change)) as served:
        env = variables(JUDGE_THINKING=word, JUDGE__BASE_URL=served.url)
        resource = resources_of("paper", tmp_path, env)["judge"]
        with resource.process_config_and_initialize_cm() as judge:
            port = judge.open()
            assert port.engine.endswith(said)
            call = JudgeCall("answerability", "It opened in 1921.", question="When?")
            assert [Ruling(True)] == port.judge([call])
        (asked,) = served.asked
    assert body == {name: asked.get(name) for name in body}
    assert ("thinking_token_budget" in asked) == (word == "512")


@pytest.mark.parametrize("named", [{}, {"RUNS": "vllm"}, {"STRUCTURED": "yes"}])
def test_a_judge_on_vllm_replies_by_schema(named: dict[str, str], tmp_path: Path):
    """By default there alone; the setting decides where it is given; one reader reads both."""
    change = replying('{"analysis": "So.", "answer": 1}').change | {"model": "Qwen/Qwen3-32B"}
    with FaultServer(usual=Answer(change=change)) as served:
        for more in ({}, {"STRUCTURED": "no"}):
            given = {f"JUDGE__{name}": word for name, word in (named | more).items()}
            env = variables(JUDGE__BASE_URL=served.url, **given)
            resource = resources_of("paper", tmp_path, env)["judge"]
            with resource.process_config_and_initialize_cm() as judge:
                assert [Ruling(True)] == judge.open().judge([ANSWERABLE])
        asked = [("response_format" in one, "JSON" in str(one["messages"])) for one in served.asked]
    # Without a schema both requests are one, and its reply is stored.
    assert asked == ([(True, True), (False, False)] if named else [(False, False)])


def test_the_papers_own_judge_is_on_vllm():
    """Its profile says so of the address that it names; a server that is started is vLLM too."""
    judge, started = settings_of(Path(), profile="paper").judge, Endpoint(model="m", runs="server")
    assert ("vllm", "endpoint") == (judge.runs, judge.place)
    assert (True, True) == (judge.enforces_schemas, started.enforces_schemas)
    local = settings_of(Path(), profile="local")
    assert (False, False) == (local.judge.enforces_schemas, local.silver.enforces_schemas)


REFUSED = {
    "Qwen/Qwen3-32B": ["0", "-1", "much"],
    "meta-llama/Llama-3.3-70B-Instruct": ["on", "512"],
    "gpt-5-mini": ["512"],
}


def test_thinking_that_cannot_be_had_is_refused():
    """The setting is named; other models keep their default."""
    for model, word in ((model, word) for model, words in REFUSED.items() for word in words):
        env = variables(JUDGE__MODEL=model, JUDGE_THINKING=word)
        with pytest.raises(ConfigError, match=r"thinking|THINKING"):
            settings_of(Path(), profile="paper", env=env)
    assert "off" == settings_of(Path(), profile="paper").judge.thinking
    plain = settings_of(Path(), profile="paper", env=variables(JUDGE__MODEL="gpt-5-mini"))
    assert "default" == plain.judge.thinking


def test_the_judges_printed_commands_hold_the_longest_call():
    """The paper's longest evidence, a whole trace and a repeated reply fit each judge's context."""
    (need,) = longest_judge_calls(
        [PAPER_LONGEST], PAPER_7B.sampling.max_completion_tokens, 2 * 1_024
    )
    guide = joined((ROOT / "docs/how-to/gpus.md").read_text("utf-8"))
    lines = re.findall(r"^.*vllm serve Qwen/Qwen3-32B\S* .*--port 8000.*$", guide, re.MULTILINE)
    lengths = [int(re.findall(r"--max-model-len (\d+)", line)[0]) for line in lines]
    assert len(lengths) >= 3
    assert min(lengths) >= need
