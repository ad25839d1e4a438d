"""Prompt files, and the silver prompt."""

import json
from pathlib import Path

import pytest
from hypothesis import given

from decomposerl.chat import Sampling
from decomposerl.errors import ConfigError
from decomposerl.prompts.silver import SCHEMA, silver_request
from decomposerl.prompts.template import PromptFile, parse_prompt
from resources.store.prompts import load_prompt
from strategies import LAW, any_text

FILE = "<!-- section: one -->\nA {place} and {other}.\n<!-- section: two -->\nB\n"
SILVER = load_prompt("silver")


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


def test_a_malformed_file_is_refused():
    """Text outside a section would silently be left out."""
    for text in ("", "no section", "before\n<!-- section: one -->\nA", FILE + FILE):
        with pytest.raises(ConfigError, match="'p'"):
            parse_prompt("p", text)


def test_places_and_values_must_match():
    """A section or value that lacks, or a value too many, is an error, no strange question."""
    for section, values in (("three", {}), ("one", {"place": "x"}), ("two", {"place": "x"})):
        with pytest.raises(ConfigError, match="'p'"):
            parse_prompt("p", FILE).filled(section, **values)


def test_a_users_file_takes_the_place_of_the_packages(tmp_path: Path):
    """Its own digest keeps its replies apart; the prompts it does not hold stay ours."""
    (tmp_path / "silver.md").write_text(FILE, "utf-8")
    assert load_prompt("silver", str(tmp_path)).digest != SILVER.digest
    assert load_prompt("coverage", str(tmp_path)) == load_prompt("coverage")


def test_a_prompt_that_is_not_there_is_refused(tmp_path: Path):
    """A misspelled file and a folder that is not there are errors, not the package's prompts."""
    with pytest.raises(ConfigError, match="other"):
        load_prompt("other")
    (tmp_path / "sliver.md").write_text(FILE, "utf-8")
    with pytest.raises(ConfigError, match=r"sliver\.md.*silver\.md"):
        load_prompt("silver", str(tmp_path))
    with pytest.raises(ConfigError, match="none"):
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


def test_the_prompt_says_how_many_questions_there_may_be():
    """The bounds in the words, in the schema and in the stage are the same."""
    schema = json.loads(SCHEMA)["properties"]["questions"]
    assert isinstance(SILVER, PromptFile)
    assert (
        f"at least {schema['minItems']}, at most {schema['maxItems']}" in SILVER.sections["prompt"]
    )
