"""Prompt files, the silver prompt and its replies."""

import contextlib
import json
import string
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from decomposerl.chat import Sampling
from decomposerl.errors import ConfigError
from decomposerl.prompts.silver import SCHEMA, read_questions, silver_request
from decomposerl.prompts.template import PromptFile, parse_prompt
from resources.store.prompts import load_prompt
from strategies import LAW, any_text

FILE = "<!-- section: one -->\nA {place} and {other}.\n<!-- section: two -->\nB\n"
SILVER = load_prompt("silver")
question = st.text(
    st.characters(codec="utf-8", exclude_categories=("Cs", "Cc"), exclude_characters="<>"),
    min_size=1,
).filter(lambda text: bool(text.split()))


def one_line(text: str) -> str:
    return " ".join(text.split())


def test_a_file_is_its_sections_and_the_digest_of_its_text():
    """The digest changes with any letter, and not with the line ends of a system."""
    prompt = parse_prompt("p", FILE)
    assert {"one": "A {place} and {other}.", "two": "B"} == prompt.sections
    assert prompt.digest == parse_prompt("p", FILE.replace("\n", "\r\n")).digest
    assert prompt.digest != parse_prompt("p", FILE.replace("B", "b")).digest


@LAW
@given(any_text, any_text)
def test_filling_is_one_pass(place: str, other: str):
    """What is filled in is never read for places: evidence may hold braces of its own."""
    filled = parse_prompt("p", FILE).filled("one", place=place, other=other)
    assert f"A {place} and {other}." == filled
    assert "A {other} and {place}." == parse_prompt("p", FILE).filled(
        "one", place="{other}", other="{place}"
    )


@pytest.mark.parametrize(
    "text",
    ["", "no section", "before\n<!-- section: one -->\nA", FILE + FILE],
    ids=["empty", "plain", "text before", "twice"],
)
def test_a_malformed_file_is_refused(text: str):
    """Text outside a section would silently be left out."""
    with pytest.raises(ConfigError, match="prompt 'p'"):
        parse_prompt("p", text)


@pytest.mark.parametrize(
    ("section", "values"),
    [("three", {}), ("one", {"place": "x"}), ("two", {"place": "x"})],
    ids=["no such section", "a value lacks", "a value too many"],
)
def test_places_and_values_must_match(section: str, values: dict[str, str]):
    """A prompt that was edited out of step with the code is an error, not a strange question."""
    with pytest.raises(ConfigError, match="prompt 'p'"):
        parse_prompt("p", FILE).filled(section, **values)


def test_a_users_file_takes_the_place_of_the_packages(tmp_path: Path):
    """Its own digest keeps its replies apart; the prompts it does not hold stay ours."""
    (tmp_path / "silver.md").write_text(FILE, "utf-8")
    assert load_prompt("silver", str(tmp_path)).digest != SILVER.digest
    assert load_prompt("coverage", str(tmp_path)) == load_prompt("coverage")
    with pytest.raises(ConfigError, match="cannot be read"):
        load_prompt("other")


def test_a_folder_that_would_change_nothing_is_refused(tmp_path: Path):
    """A misspelled file and a folder that is not there are errors, not the package's prompts."""
    (tmp_path / "sliver.md").write_text(FILE, "utf-8")
    with pytest.raises(ConfigError, match=r"sliver\.md, which no engine asks for.*silver\.md"):
        load_prompt("silver", str(tmp_path))
    with pytest.raises(ConfigError, match="no folder of prompts"):
        load_prompt("silver", str(tmp_path / "none"))


@pytest.mark.parametrize("structured", [False, True])
def test_the_document_stands_first(structured: bool):  # noqa: FBT001 - both forms of one law
    """Claims about one document share a prefix, which a server computes once."""
    made = [
        silver_request(
            SILVER, ("Some evidence.", claim), Sampling(), structured=structured, thinking=None
        )
        for claim in ("One claim.", "Another claim.")
    ]
    texts = [request.messages[0].content for request in made]
    shared = len([1 for a, b in zip(*texts, strict=False) if a == b])
    assert texts[0].index("Some evidence.") < texts[0].index("One claim.") < shared * 2
    assert texts[0][: texts[0].index("One claim.")] == texts[1][: texts[1].index("Another claim.")]
    assert (SCHEMA if structured else None) == made[0].schema
    assert ("JSON" in texts[0]) is structured


@LAW
@given(st.lists(question, max_size=20))
def test_questions_come_back_from_either_form(questions: list[str]):
    """Print and parse: JSON, fenced JSON, and tags after thinking give the same list."""
    tags = "".join(f"<question>{text}</question>\n" for text in questions)
    plain = json.dumps({"questions": questions}, ensure_ascii=False)
    thought = "<think>Maybe <questions><question>no</question></questions></think>\n"
    expected = [one_line(text) for text in questions]
    for reply in (plain, json.dumps(questions), f"```json\n{plain}\n```"):
        assert expected == read_questions(reply)
    assert expected == read_questions(f"{thought}Here:\n<questions>\n{tags}</questions>")


@pytest.mark.parametrize(
    "reply",
    [
        "",
        "Who? When?",
        "1. Ilva opened it.\n2. It is old.",
        '{"questions": "Who?"}',
        '{"questions": ["Who?", 3]}',
        '{"other": []}',
        "3",
        "<questions><question>Who?</question> When?",
        "<questions><question>Who</questions>",
        "<questions><question>a<question>b</question></question></questions>",
        "<questions>Who?</questions>",
        "<questions><question> </question></questions>",
        "<think><questions><question>Who?</question></questions>",
    ],
)
def test_any_other_reply_is_refused(reply: str):
    """A reply that was cut or is in a form of its own is asked again, never guessed at."""
    with pytest.raises(ValueError, match=r"\w"):
        read_questions(reply)


@LAW
@given(st.text(string.printable))
def test_a_reply_is_read_or_refused(reply: str):
    """No text makes the parser fail in any other way."""
    with contextlib.suppress(ValueError):
        assert all(read_questions(reply))


def test_the_prompt_says_how_many_questions_there_may_be():
    """The bounds in the words, in the schema and in the stage are the same."""
    schema = json.loads(SCHEMA)["properties"]["questions"]
    assert isinstance(SILVER, PromptFile)
    assert (
        f"at least {schema['minItems']}, at most {schema['maxItems']}" in SILVER.sections["prompt"]
    )
