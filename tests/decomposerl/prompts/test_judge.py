"""The policy's and the judge's prompts."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from decomposerl.chat import ChatRequest, Message, Sampling
from decomposerl.errors import ConfigError
from decomposerl.prompts.judge import (
    SENTENCE,
    TASKS,
    JudgeSettings,
    bullets,
    judge_request,
    reply_schema,
)
from decomposerl.prompts.policy import policy_messages
from decomposerl.replies.rulings import CRITERIA
from decomposerl.traces.grammar import KINDS
from resources.judge.chat_judge import load_judge_prompts
from resources.store.prompts import load_prompt
from strategies import LAW, any_text

POLICY, JUDGE = load_prompt("policy"), load_judge_prompts()
TAGS, JSON = JudgeSettings(), JudgeSettings(structured=True)
DOCUMENT = "Ilva Marrek opened the bridge in 1921.\nTorbeck has a river."


def text_of(request: ChatRequest) -> str:
    (message,) = request.messages
    assert "user" == message.role
    return message.content


def requests_of(
    asking: JudgeSettings, document: str, claim: str, question: str
) -> dict[str, ChatRequest]:
    """One request of each task."""
    texts = {"document": document, "claim": claim, "question": question}
    return {
        task: judge_request(JUDGE, asking, task, answers=["In 1921.", "Ilva."], **texts)
        for task in TASKS
    }


@pytest.mark.parametrize("asking", [TAGS, JSON], ids=["tags", "json"])
def test_the_document_and_nothing_else_stands_before_the_questions(asking: JudgeSettings):
    """All calls about a document share a prefix that ends behind it: a server computes it once."""
    made = [requests_of(asking, DOCUMENT, "", question) for question in ("Who?", "When?")]
    texts = [text_of(two[task]) for two in made for task in ("answerability", "correctness")]
    shared = f"<document>\n{DOCUMENT}\n</document>\n\n"
    assert all(text.startswith(shared) for text in texts)
    (message,) = policy_messages(POLICY, DOCUMENT, "Ilva opened it.")
    assert message.content.startswith(shared)


@pytest.mark.parametrize("asking", [TAGS, JSON], ids=["tags", "json"])
def test_each_task_shows_what_the_paper_shows(asking: JudgeSettings):
    """Coverage sees neither document nor question, atomicity no document, the others no claim."""
    shown = {"document": "DOC", "claim": "CLA", "question": "QUE"}
    made = requests_of(asking, *shown.values())
    seen = {
        task: {name for name, word in shown.items() if word in text_of(request)}
        for task, request in made.items()
    }
    assert set(TASKS) == set(made)
    assert {
        "answerability": {"document", "question"},
        "atomicity": {"claim", "question"},
        "correctness": {"document", "question"},
        "coverage": {"claim"},
    } == seen
    assert "In 1921." in text_of(made["correctness"])
    assert "- In 1921.\n- Ilva.\n</answers>" in text_of(made["coverage"])


def test_a_request_carries_its_prompt_and_settings():
    """What decides a reply stands in the request, and so in its key: digest, schema, thinking."""
    asking = JudgeSettings(
        Sampling(temperature=0.5, seed=7, max_tokens=9), structured=True, thinking=True
    )
    for task, request in requests_of(asking, DOCUMENT, "C.", "Q?").items():
        assert (asking.sampling, True) == (request.sampling, request.thinking)
        assert JUDGE[task].template == request.template
        assert reply_schema(task) == request.schema
    for request in requests_of(TAGS, DOCUMENT, "C.", "Q?").values():
        assert request.schema is None
        sampling = request.sampling
        assert (0.0, 42, 4_096) == (sampling.temperature, sampling.seed, sampling.max_tokens)


def test_a_schema_is_canonical_and_asks_for_reasons_first():
    """Servers write fields in the schema's order, and a result before its reasons has none."""
    for schema in map(reply_schema, TASKS):
        parsed = json.loads(schema)
        assert schema == json.dumps(parsed, separators=(",", ":"), sort_keys=True)
        assert "analysis" == next(iter(parsed["properties"]))
        assert sorted(parsed["properties"]) == parsed["required"]
        assert parsed["additionalProperties"] is False


def test_the_criteria_are_those_of_the_judge():
    """The prompt lists them in the order in which rewards read a ruling."""
    places = [JUDGE["atomicity"].sections["tags"].index(f"{name}:YES or NO") for name in CRITERIA]
    assert sorted(places) == places


def test_the_policy_prompt_states_the_grammar_and_the_abstention():
    """Every tag of the trace with its closing one, the two labels, and "I don't know"."""
    (message,) = policy_messages(POLICY, DOCUMENT, "Ilva opened it.")
    assert Message("user", message.content) == message
    for kind in KINDS:
        assert f"<{kind}>" in message.content
        assert f"</{kind}>" in message.content
    for words in ("Supported", "Refuted", '"I don\'t know"'):
        assert words in message.content


def test_no_prompt_shows_material_in_the_tag_of_the_reply():
    """A judge that repeats a section whole has not given its answer."""
    for prompt in (JUDGE[name] for name in (*TASKS, SENTENCE)):
        assert "<answer>" not in prompt.sections["prompt"]
        assert 1 == prompt.sections["tags"].count("</answer>")


def test_a_users_prompt_takes_the_place_of_ours(tmp_path: Path):
    """Its words and digest are what is asked; one out of step with the code is an error.

    A prompt that the folder does not hold stays ours.
    """
    for task, prompt in JUDGE.items():
        sections = "".join(
            f"<!-- section: {name} -->\n{text}\n" for name, text in prompt.sections.items()
        )
        (tmp_path / f"{task}.md").write_text(f"{sections}\nBe strict.\n", "utf-8")
    theirs = load_judge_prompts(str(tmp_path))
    asked = judge_request(theirs, JSON, "atomicity", claim="C.", question="Q?")
    assert "Be strict." in text_of(asked)
    assert JUDGE["atomicity"].digest != asked.template.digest
    with pytest.raises(ConfigError, match="placeholders"):
        judge_request(
            theirs | {"coverage": theirs["atomicity"]}, TAGS, "coverage", answers=["A."], claim="C."
        )
    (tmp_path / "coverage.md").unlink()
    assert JUDGE["coverage"] == load_judge_prompts(str(tmp_path))["coverage"]


@pytest.mark.parametrize("asking", [TAGS, JSON], ids=["tags", "json"])
def test_fewer_reasons_change_the_form_alone(asking: JudgeSettings):
    """What stands before the form stays, so that a server's prefix cache serves every form."""
    texts = {"document": DOCUMENT, "claim": "C.", "question": "When?"}
    for reasons in ("one_sentence", "none"):
        short = replace(asking, reasons=reasons)
        for task in TASKS:
            full = judge_request(JUDGE, asking, task, answers=["In 1921."], **texts)
            made = judge_request(JUDGE, short, task, answers=["In 1921."], **texts)
            form = JUDGE[task].filled("json" if asking.structured else "tags")
            before = text_of(full).removesuffix(form)
            assert text_of(made).startswith(before)
            assert text_of(made) != text_of(full)
            schema = "" if made.schema is None else made.schema
            assert (asking.structured and reasons != "none") == ("analysis" in schema)


@LAW
@given(st.lists(any_text, max_size=6))
def test_one_line_an_answer(answers: list[str]):
    """No line break of any kind survives inside an answer; the words do."""
    lines = bullets(answers).splitlines()
    assert len(answers) == len(lines)
    assert all(line.startswith("- ") for line in lines)
