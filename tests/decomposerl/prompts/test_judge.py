"""The policy's and the judge's prompts, and the judge's replies."""

import json
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from decomposerl.chat import ChatRequest, Message, Sampling
from decomposerl.errors import ConfigError
from decomposerl.judge.call import JudgeValue, Ruling
from decomposerl.prompts.judge import (
    CRITERIA,
    CRITERIA_SCHEMA,
    DIGIT_SCHEMA,
    TASKS,
    VERDICT_SCHEMA,
    JudgeSettings,
    answerability_request,
    atomicity_request,
    bullets,
    correctness_request,
    coverage_request,
    read_criteria,
    read_digit,
    read_verdict,
)
from decomposerl.prompts.policy import policy_messages
from decomposerl.traces.blocks import KINDS
from resources.judge.chat_judge import load_judge_prompts
from resources.store.prompts import load_prompt
from strategies import LAW, any_text

POLICY, JUDGE = load_prompt("policy"), load_judge_prompts()
TAGS, JSON = JudgeSettings(), JudgeSettings(structured=True)
DOCUMENT = "Ilva Marrek opened the bridge in 1921.\nTorbeck has a river."
READERS: dict[str, Callable[..., JudgeValue]] = {
    "digit": read_digit,
    "verdict": read_verdict,
    "criteria": read_criteria,
}
FIVE = "\n".join(f"{name}:YES" for name in CRITERIA)


def text_of(request: ChatRequest) -> str:
    (message,) = request.messages
    assert "user" == message.role
    return message.content


def requests_of(
    asking: JudgeSettings, document: str, claim: str, question: str
) -> dict[str, ChatRequest]:
    """One request of each task."""
    return {
        "answerability": answerability_request(JUDGE["answerability"], asking, document, question),
        "atomicity": atomicity_request(JUDGE["atomicity"], asking, claim, question),
        "correctness": correctness_request(
            JUDGE["correctness"], asking, document, (question, "In 1921.")
        ),
        "coverage": coverage_request(JUDGE["coverage"], asking, claim, ["In 1921.", "Ilva."]),
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
    schemas = {"atomicity": CRITERIA_SCHEMA, "coverage": VERDICT_SCHEMA}
    for task, request in requests_of(asking, DOCUMENT, "C.", "Q?").items():
        assert (asking.sampling, True) == (request.sampling, request.thinking)
        assert JUDGE[task].template == request.template
        assert schemas.get(task, DIGIT_SCHEMA) == request.schema
    for request in requests_of(TAGS, DOCUMENT, "C.", "Q?").values():
        assert request.schema is None
        assert (0.0, 42, 4_096) == (
            request.sampling.temperature,
            request.sampling.seed,
            request.sampling.max_tokens,
        )


@pytest.mark.parametrize("schema", [DIGIT_SCHEMA, CRITERIA_SCHEMA, VERDICT_SCHEMA])
def test_a_schema_is_canonical_and_asks_for_reasons_first(schema: str):
    """Servers write fields in the schema's order, and a result before its reasons has none."""
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
    for words in ("Supported", "Refuted", '"I don\'t know"', "two rounds"):
        assert words in message.content
    assert message.content.rstrip().endswith("your reply ends with </verification>.")


def test_no_prompt_shows_material_in_the_tag_of_the_reply():
    """A judge that repeats a section whole has not given its answer."""
    for prompt in JUDGE.values():
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
    asked = atomicity_request(theirs["atomicity"], JSON, "C.", "Q?")
    assert "Be strict." in text_of(asked)
    assert JUDGE["atomicity"].digest != asked.template.digest
    with pytest.raises(ConfigError, match="placeholders"):
        coverage_request(theirs["atomicity"], TAGS, "C.", ["A."])
    (tmp_path / "coverage.md").unlink()
    assert JUDGE["coverage"] == load_judge_prompts(str(tmp_path))["coverage"]


@LAW
@given(st.lists(any_text, max_size=6))
def test_one_line_an_answer(answers: list[str]):
    """No line break of any kind survives inside an answer; the words do."""
    lines = bullets(answers).splitlines()
    assert len(answers) == len(lines)
    assert all(line.startswith("- ") for line in lines)


RULINGS: list[tuple[str, str, str]] = [
    ("digit", "<answer>1</answer>", "1"),
    ("digit", "It says so.\n\n<answer>\n 0 \n</answer>\n\n", "0"),
    ("digit", "<think>Maybe <answer>1</answer>?</think><answer>0</answer>", "0"),
    ("digit", "  <think>\n</think>\n\n<answer>1</answer>", "1"),
    ("digit", "Reasons without an opening tag.</think>\n<answer>1</answer>", "1"),
    ("digit", "<answer>1</answer><|im_end|>", "1"),
    ("digit", "<answer>1</answer>\n</s>\n", "1"),
    ("digit", "<answer>1</answer> I am sure.", "1"),
    ("digit", "<answer>1</answer>\n<answer>1</answer>", "1"),
    ("digit", "The answer is 1.", "1"),
    ("digit", "I reply inside <answer> tags: <answer>1</answer>", "1"),
    ("digit", "<answer>1", "1"),
    ("digit", "<ANSWER>1</ANSWER>", "1"),
    ("digit", "The mayor is open.\n<Answer>0 (not named)", "0"),
    ("digit", r"It is given.\<answer\>1\</answer\>", "1"),
    ("digit", "<answer>1</answer>\n<answer>1", "1"),
    ("verdict", "Neither year is given.\n<Answer>NOT_ENOUGH_INFO", "NotEnoughInfo"),
    ("verdict", r"<verdict>NOT\_ENOUGH\_INFO</verdict>", "NotEnoughInfo"),
    ("criteria", f"<Answer>{FIVE}", "11111"),
    ("criteria", "<answer>" + FIVE.replace("_", r"\_") + "</answer>", "11111"),
    ("criteria", "<answer>" + FIVE.replace(":", "\N{FULLWIDTH COLON}") + "</answer>", "11111"),
    ("criteria", "<answer>\nNO\nYES\n\nYES\nno\n**YES**\n</answer>", "01101"),
    ("criteria", "<answer>\n1. YES\n2. YES\n3. NO\n4. YES\n5. NO", "11010"),
    ("verdict", "<answer>SUPPORTED</answer>", "Supported"),
    ("verdict", "<answer>refuted</answer>", "Refuted"),
    ("verdict", "<answer>Not_Enough_Info</answer>", "NotEnoughInfo"),
    ("verdict", "It is not supported.\n<answer>Not Enough Info</answer>", "NotEnoughInfo"),
    ("verdict", "<answer>Not Enough Information</answer>", "NotEnoughInfo"),
    ("verdict", "<answer>NOT_ENOUGH_INFO: no date</answer>", "NotEnoughInfo"),
    ("verdict", "<verdict>SUPPORTED</verdict>", "Supported"),
    ("criteria", f"<answer>\n{FIVE}\n</answer>", "11111"),
    ("criteria", f"<answer>{FIVE.replace(':', '=')}</answer>", "11111"),
    ("criteria", f"<answer>{FIVE.replace('verifiable:YES', 'verifiable: no')}</answer>", "11101"),
    ("criteria", "<answer>" + "\n\n".join(reversed(FIVE.split("\n"))) + "</answer>", "11111"),
    (
        "criteria",
        f"<answer>{FIVE.replace('is_question:YES', 'IS_QUESTION : No')}</answer>",
        "01111",
    ),
]
JSON_RULINGS: list[tuple[str, str, str]] = [
    ("digit", '{"analysis": "It says so.", "answer": 1}', "1"),
    ("digit", '{"answer": "0"}', "0"),
    ("digit", '```json\n{"answer": 0}\n```', "0"),
    ("digit", '<think>{"answer": 1}</think>\n{"analysis": "<answer>1</answer>", "answer": 0}', "0"),
    ("digit", 'Reasons without an opening tag.</think>\n{"answer": 0}', "0"),
    ("digit", '</think>{"answer": 0}<|im_end|>', "0"),
    ("digit", '{"analysis": "</think>", "answer": 0}', "0"),
    ("digit", '{"answer": true}', "1"),
    ("digit", '```json\n{"answer": 0}\n```\nThe mayor is not named.', "0"),
    ("digit", '{"answer": {"reason": "It is given.", "value": 1}}', "1"),
    ("digit", '{"analysis": {"reasons": ["It says so."]}, "answer": false}', "0"),
    ("verdict", '{"analysis": "", "verdict": "NOT_ENOUGH_INFO"}', "NotEnoughInfo"),
    ("verdict", '{"verdict": "supported"}', "Supported"),
    ("criteria", json.dumps(dict.fromkeys(CRITERIA, "YES") | {"grounded": "NO"}), "11110"),
    ("criteria", json.dumps(dict.fromkeys(CRITERIA, True) | {"verifiable": False}), "11101"),
    ("criteria", json.dumps(dict.fromkeys(CRITERIA, "NO (it is a remark)")), "00000"),
    ("criteria", json.dumps({"analysis": ""} | dict.fromkeys(reversed(CRITERIA), "no")), "00000"),
    (
        "criteria",
        json.dumps({name: {"answer": "YES", "reason": "-"} for name in CRITERIA}),
        "11111",
    ),
    (
        "criteria",
        f"```json\n{json.dumps(dict.fromkeys(CRITERIA, 'NO'))}\n```\nIt is no question.",
        "00000",
    ),
]


@pytest.mark.parametrize(("reader", "reply", "ruling"), RULINGS)
def test_a_ruling_in_tags(reader: str, reply: str, ruling: str):
    """The answer at the end counts, whatever the reasons and the thinking say."""
    assert ruling == Ruling(READERS[reader](reply)).text


@pytest.mark.parametrize(("reader", "reply", "ruling"), JSON_RULINGS)
def test_a_ruling_in_json(reader: str, reply: str, ruling: str):
    """One object with the results, with or without reasons, fenced or not."""
    assert ruling == Ruling(READERS[reader](reply, structured=True)).text


@pytest.mark.parametrize(("reader", "reply", "ruling"), RULINGS + JSON_RULINGS)
def test_a_form_is_read_only_where_it_was_asked_for(reader: str, reply: str, ruling: str):
    """JSON in a reply in tags is text that somebody wrote, and the other way round."""
    assert ruling
    with pytest.raises(ValueError, match=r"\w"):
        READERS[reader](reply, structured=(reader, reply, ruling) in RULINGS)


@pytest.mark.parametrize(
    ("reader", "reply"),
    [
        *((name, "") for name in READERS),
        *((name, "<answer></answer>") for name in READERS),
        *(("digit", text) for text in ("0.", "I rule 1", "<answer>", "1</answer>")),
        ("digit", "<answer>0</answer>\n<answer>1</answer>"),
        ("digit", "<answer>1</answer></answer>"),
        ("digit", "<answer>0</answer></think><answer>1</answer>"),
        ("digit", "<answer>0</answer><|im_end|><answer>1</answer>"),
        ("digit", "<answer>10</answer>"),
        ("digit", "<answer>1.0</answer>"),
        ("digit", "<answer>one</answer>"),
        ("digit", "<answer>0 or 1</answer>"),
        ("digit", "<answer>1</answer><ANSWER>0</ANSWER>"),
        ("digit", "<an\u017fwer>1</an\u017fwer>"),
        ("digit", "<answer>1</answer>\n<answer>0"),
        ("digit", "<answer>1 (or 0"),
        ("digit", "<answer>0</answer>\n<answer>"),
        ("digit", "<think>Hm. <answer>1</answer>"),
        ("digit", "<answer>1</answer><think>Or not?</think>"),
        ("digit", "&lt;answer>1&lt;/answer>"),
        ("verdict", "<answer>NOT SUPPORTED</answer>"),
        ("verdict", "<answer>not refuted</answer>"),
        ("verdict", "<answer>SUPPORTED or REFUTED or NOT_ENOUGH_INFO</answer>"),
        ("verdict", "<answer>unsupported</answer>"),
        ("verdict", "<verdict>SUPPORTED</verdict><answer>REFUTED</answer>"),
        ("criteria", "<answer>YES YES YES YES YES</answer>"),
        ("criteria", f"<answer>{FIVE.replace('grounded:YES', '')}</answer>"),
        ("criteria", f"<answer>{FIVE}\nclear:YES</answer>"),
        ("criteria", "<answer>\nYES\nNO\nYES\nNO</answer>"),
        ("criteria", "<answer>\nYES\nNO\nYES\nNO\nYES\nNO</answer>"),
        ("criteria", "<answer>\nYES\nNO\nYES\nNO\nYES or NO</answer>"),
        ("criteria", f"<answer>YES\nYES\nYES\nYES\nNO</answer><answer>{FIVE}</answer>"),
        ("criteria", f"<answer>{FIVE.replace('grounded:YES', 'grounded:')}"),
        ("criteria", f"<answer>{FIVE}\ngrounded:NO</answer>"),
        ("criteria", f"<answer>{FIVE.replace('grounded:YES', 'verifiable:NO')}</answer>"),
        ("criteria", f"<answer>{FIVE.replace('grounded:YES', 'grounded:YES/NO')}</answer>"),
        ("criteria", f"<answer>{FIVE.replace('grounded:YES', 'grounded YES')}</answer>"),
    ],
)
def test_any_other_reply_in_tags_is_refused(reader: str, reply: str):
    """Cut, doubled, hedged or in a form of its own: asked again, never guessed at."""
    with pytest.raises(ValueError, match=r"\w"):
        READERS[reader](reply)


@pytest.mark.parametrize(
    ("reader", "reply"),
    [
        *(("digit", text) for text in ("1", "[1]", "null", '"1"', "{}", '{"answer": 1', "1e999")),
        ("digit", '{"answer": 1.0}'),
        ("digit", '{"answer": null}'),
        ("digit", '{"answer": [1]}'),
        ("digit", '{"answer": 1, "answer": 0}'),
        ("digit", '```json\n{"answer": 1}\n```\nWait, it is 0.'),
        ("digit", '```json\n{"answer": 1}\n```\n<answer>0</answer>'),
        ("digit", '```json\n{"answer": 1}\n```\n```json\n{"answer": 0}\n```'),
        ("digit", '```json\n{"answer": 1}\n```\n{"answer": 1}'),
        ("digit", '{"answer": {"value": 1, "result": 0}}'),
        ("digit", '{"answer": {"value": 1, "sure": 0}}'),
        ("digit", '{"answer": {"reason": "It is given."}}'),
        ("digit", '{"answer": 1, "sure": "yes"}'),
        ("digit", '{"answer": 1} {"answer": 1}'),
        ("digit", 'So: {"answer": 1}'),
        ("digit", '{"answer": 0}</think>{"answer": 1}'),
        ("digit", 'It says </think>{"answer": 1}</think>{"answer": 0}'),
        ("digit", 'So. <think></think>{"answer": 1}'),
        ("digit", '{"answer": 1}<|im_end|><|im_start|>'),
        ("digit", '{"answer": ' + "9" * 5_000 + "}"),
        ("digit", '{"answer": ' + "[" * 100_000),
        ("verdict", '{"verdict": "NOT SUPPORTED"}'),
        ("verdict", '{"answer": "SUPPORTED"}'),
        ("criteria", json.dumps(dict.fromkeys(CRITERIA[:4], "YES"))),
        ("criteria", json.dumps(dict.fromkeys(CRITERIA, 1))),
        ("criteria", json.dumps({name: {"answer": "YES or NO"} for name in CRITERIA})),
        ("criteria", f"```json\n{json.dumps(dict.fromkeys(CRITERIA, 'YES'))}\n```\ngrounded: NO"),
        ("criteria", json.dumps(dict.fromkeys(CRITERIA, "YES or NO"))),
    ],
)
def test_any_other_reply_in_json_is_refused(reader: str, reply: str):
    """Not the one object with its fields, once each, and their values: asked again."""
    with pytest.raises(ValueError, match=r"\w"):
        READERS[reader](reply, structured=True)


pieces = st.sampled_from(
    [
        *("<answer>", "</answer>", "<think>", "</think>", "0", "1", "SUPPORTED", FIVE, "\n", " "),
        *('{"answer": ', "}", '"', "```json\n", "\n```", "not ", "{", "[", "analysis", ","),
    ]
)


@LAW
@given(st.lists(pieces, max_size=9).map("".join) | st.text(), st.booleans())
def test_a_reply_is_read_or_refused(reply: str, structured: bool):  # noqa: FBT001 - two forms
    """No text makes a parser fail in any other way, or rule what is no ruling."""
    values: dict[Callable[..., JudgeValue], str] = {
        read_digit: "[01]",
        read_verdict: "Supported|Refuted|NotEnoughInfo",
        read_criteria: "[01]{5}",
    }
    for reader, pattern in values.items():
        ruling = ruling_of(partial(reader, structured=structured), reply)
        assert ruling is None or re.fullmatch(pattern, ruling)


def ruling_of(reader: Callable[[str], JudgeValue], reply: str) -> str | None:
    try:
        return Ruling(reader(reply)).text
    except ValueError:
        return None
