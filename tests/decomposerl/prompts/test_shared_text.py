"""The wording that all systems share, and the worked examples in their prompts."""

import gzip
import re
from functools import cache
from pathlib import Path

import polars as pl
import pytest

from decomposerl.baselines.catalogue import ENTRY_METHODS
from decomposerl.errors import ConfigError
from decomposerl.prompts.template import (
    PromptFile,
    PromptSettings,
    VerdictRule,
    parse_prompt,
    with_labels,
    with_shared_text,
)
from decomposerl.text.sentences import split_sentences
from project import ROOT
from resources.store.prompts import load_policy_prompt, load_prompt
from sample import Sample
from studies.reply_operations import reading
from studies.reply_rows import Row
from toy_corpus import write_sample

QUESTION = load_prompt("question")
CHAT = [method for method in ENTRY_METHODS if method.prompt]
DECOMPOSING = [method.prompt for method in CHAT if method.decomposes]
CORPORA = ROOT.parent / "shared" / "corpora"
CONCLUDING = [
    ("policy", "prompt"),
    *(
        (method.prompt, section)
        for method in CHAT
        for section in load_prompt(method.prompt).sections
        if section in {"verdict", "single_call"}
    ),
    ("self_ask", "transcript"),
]
WITH_EXAMPLES = ("simple_examples", "cot_examples", "few_shot")
LABELS = {
    *((name, "single_call") for name in DECOMPOSING),
    *((name, "verdict") for name in (*WITH_EXAMPLES, "hiss", "folk")),
    *((name, "verdict") for name in ("chen_2024", "qacheck")),
    *(("decomposed_prompting", "verdict"), ("self_ask", "transcript")),
}
"""Sections whose worked examples end with a label."""
each_prompt = pytest.mark.parametrize("prompt", [method.prompt for method in CHAT])
FILE = """<!-- section: ask -->
{demonstrations}

{claim}

{question_rule}
<!-- section: ask_demonstrations -->
One {brace}.
<!-- example -->
Two.
<!-- section: plain -->
{claim}
"""
SHARED = """<!-- section: evidence -->
Wide.
<!-- section: paper -->
Narrow.
<!-- section: examples -->
See:
{examples}
Done.
"""


def resolved(
    rule: VerdictRule = "evidence", shown: int | None = None, text: str = FILE
) -> PromptFile:
    settings = PromptSettings(rule, shown)
    return with_shared_text(parse_prompt("p", text), parse_prompt("question", SHARED), settings)


@cache
def examples(prompt: str) -> dict[str, list[str]]:
    """The worked examples of a prompt file by section, with two labels to choose from."""
    text = (ROOT / f"decomposerl/prompts/{prompt}.md").read_text("utf-8")
    text = with_labels(text, "evidence")
    sections = parse_prompt(prompt, text).sections
    return {
        name.removesuffix("_demonstrations"): body.split("\n<!-- example -->\n")
        for name, body in sections.items()
        if name.endswith("_demonstrations")
    }


def ending(example: str) -> str:
    """The label that an example ends with."""
    return example.rsplit(maxsplit=1)[-1].strip("[]")


def test_rule_and_examples_are_put_in():
    """Once each, examples numbered and first; other sections are as they were."""
    prompt = resolved()
    assert {"ask", "plain"} == set(prompt.sections)
    shown = "See:\nExample 1\n\nOne {brace}.\n\nExample 2\n\nTwo.\nDone.\n\n{claim}\n\nWide."
    assert shown == prompt.sections["ask"]
    assert "{claim}" == prompt.sections["plain"]


def test_settings_decide_wording_and_digest():
    """Each choice that changes a prompt changes its digest, and no other choice does."""
    assert "Narrow." in resolved("paper").sections["ask"]
    assert "{claim}\n\nWide." == resolved(shown=0).sections["ask"]
    assert "Two." not in resolved(shown=1).sections["ask"]
    made = [resolved(), resolved("paper"), resolved(shown=0), resolved(shown=1)]
    assert 4 == len({prompt.digest for prompt in made})
    assert resolved().digest == resolved(shown=2).digest == resolved(shown=3).digest
    plain = parse_prompt("p", "<!-- section: plain -->\n{claim}\n")
    settings = PromptSettings("paper", 0)
    assert plain == with_shared_text(plain, parse_prompt("question", SHARED), settings)


def test_examples_without_their_place_are_refused():
    """A misspelled name would leave the examples out, or a placeholder in."""
    for text in (
        FILE.replace("ask_demonstrations", "plain_demonstrations"),
        FILE.replace("{demonstrations}", "none"),
        FILE.replace("ask_demonstrations", "other"),
    ):
        with pytest.raises(ConfigError, match="'p'"):
            resolved(text=text)


@pytest.mark.parametrize(("rule", "other"), [("evidence", "paper"), ("paper", "evidence")])
def test_every_system_is_asked_the_same_question(rule: VerdictRule, other: str):
    """Under either rule its one text stands once in each prompt that asks for the verdict."""
    for prompt, section in CONCLUDING:
        text = load_prompt(prompt, "", PromptSettings(rule)).sections[section]
        assert 1 == text.count(QUESTION.sections[rule]), (prompt, section)
        assert QUESTION.sections[other] not in text, (prompt, section)


def test_silence_refutes_and_there_is_no_third_answer():
    """The default text says so; the paper's narrower one names contradiction alone."""
    wide, narrow = QUESTION.sections["evidence"], QUESTION.sections["paper"]
    assert "silent" in wide
    assert "silent" not in narrow
    for text in (wide, narrow):
        assert {"Supported", "Refuted"} == set(re.findall(r"^(\w+):", text, re.MULTILINE))
        assert "no third answer" in text


def test_the_users_wording_replaces_ours(tmp_path: Path):
    """Of the question alone too, for baselines and policy, with digests of their own."""
    mine = (ROOT / "decomposerl/prompts/question.md").read_text("utf-8")
    (tmp_path / "question.md").write_text(mine.replace("is silent on a part", "says nothing"))
    for own, ours in (
        (load_prompt("simple", str(tmp_path)), load_prompt("simple")),
        (load_policy_prompt("hub/name", str(tmp_path)), load_policy_prompt("hub/name")),
    ):
        assert any("says nothing" in text for text in own.sections.values())
        assert own.digest != ours.digest


@each_prompt
def test_every_method_has_worked_examples(prompt: str):
    """Two to four in each section that has some, eight of few-shot; the whole method has some.

    The paper prompts a model directly, so Simple and CoT have none; with them they are methods of
    their own, and else the same.
    """
    counts = {section: len(ones) for section, ones in examples(prompt).items()}
    if prompt in {"simple", "cot"}:
        assert {} == counts
        bare = load_prompt(f"{prompt}_examples", "", PromptSettings(demonstrations=0))
        assert bare.sections == load_prompt(prompt).sections
        return
    whole = "single_call" if prompt in DECOMPOSING else "verdict"
    assert 2 <= counts[whole]
    assert set(counts.values()) <= ({8} if prompt == "few_shot" else {2, 3, 4})
    assert prompt not in DECOMPOSING or len(counts) > 1
    bare = load_prompt(prompt, "", PromptSettings(demonstrations=0))
    assert "Example" not in "".join(bare.sections.values())


def test_labels_of_the_examples_are_balanced():
    """As many Supported as Refuted; a silent claim is Refuted, a claim of two hops Supported."""
    for prompt, section in LABELS:
        ones = examples(prompt)[section]
        labels = [ending(one) for one in ones]
        assert labels.count("Supported") == labels.count("Refuted") == len(labels) / 2, prompt
        silent = [ending(one) for one in ones if "fastest ship" in one or "than any comet" in one]
        assert ["Refuted"] == silent, (prompt, section)
        two = ("painter of Grey Shore", "library while", "engineer under whom")
        hops = [ending(one) for one in ones if any(words in one for words in two)]
        assert "Supported" in hops, (prompt, section)


@each_prompt
def test_the_replies_of_examples_are_read_by_their_method(prompt: str):
    """Each shown reply is in the form that the code reads: nothing in it is lost or misread."""
    for section, ones in examples(prompt).items():
        protocol = "single_call" if section == "single_call" else "faithful"
        for example in ones:
            if "\nReply:\n" in example:
                check_reply(f"{prompt}/{protocol}/{section}", example)


def check_reply(operation: str, example: str) -> None:
    shown, reply = example.split("\nReply:\n")
    read = reading(Row(operation, reply, expected=None, prompt=shown))
    prompt, _, section = operation.split("/")
    pairs = reply.count("\nA")
    if section == "single_call":
        assert [ending(reply), pairs] == read
    elif section == "verdict":
        assert ending(reply) == (read[1] if prompt == "folk" else read)
    elif section == "program":
        assert ["ok", reply.count("\n")] == read
    elif section == "work_through":
        assert pairs == read
    elif section == "split":
        assert (0 if reply == "NONE" else reply.count("\n") + 1) == read
    elif section in {"predicates", "questions"} and prompt != "claimdecomp":
        assert [reply.count("\n") + 1] * 2 == read
    elif section == "questions":
        kinds = {"yes": "true", "no": "false"}
        assert [kinds[line.split("| ")[1]] for line in reply.splitlines()] == read
    elif section in {"answer", "check"}:
        truth = re.split(r"\W", reply)[0].lower()
        assert {"yes": "true", "no": "false"}.get(truth, truth) == read
    else:
        assert (None if reply == "NONE" else reply) == read


def test_the_turns_of_a_shown_transcript_are_read():
    """Each step and final line of Self-Ask and Decomposed Prompting, and the label of HiSS."""
    for one in examples("self_ask")["transcript"]:
        for line in one.splitlines():
            turn, _, text = line.partition(": ")
            read = reading(Row("self_ask/faithful/transcript", line, expected=None))
            if turn == "Follow up":
                assert ["question", text] == read
            if turn == "So the final answer is":
                assert ["final", text] == read
    steps = "\n".join(examples("decomposed_prompting")["next_step"])
    shown = re.findall(r"^Step \d+: (\[(\w+)\] (.*)|NONE)$", steps, re.MULTILINE)
    assert steps.count("Step ") == len(shown) > 8
    for line, handler, text in shown:
        operation = "decomposed_prompting/faithful/next_step"
        expected = ["end", ""] if line == "NONE" else [handler, text]
        assert expected == reading(Row(operation, line, expected=None))
    for one in examples("hiss")["verdict"]:
        last = one.splitlines()[-1]
        assert ending(one) == reading(Row("hiss/faithful/verdict", last, expected=None))


def written() -> set[str]:
    """Sentences of the worked examples, of five words or more, plain."""
    every = (one for method in CHAT for ones in examples(method.prompt).values() for one in ones)
    whole = "\n".join(every)
    sentences = (" ".join(one.split()) for one in split_sentences(whole.replace("\n\n", ". ")))
    lines = (re.sub(r"^(?:\d+\. |[QA]\d+: )", "", line) for line in whole.splitlines())
    return {one for one in {*sentences, *lines} if one.count(" ") > 3 and "Sub-claim" not in one}


def shared_with(root: Path) -> set[str]:
    """The sentences that stand in some file below a folder."""
    sentences, found = sorted(written()), set[str]()
    for path in filter(Path.is_file, root.rglob("*")):
        raw = path.read_bytes()
        text = (gzip.decompress(raw) if path.suffix == ".gz" else raw).decode("utf-8", "replace")
        (matched,) = pl.Series([text]).str.extract_many(sentences, overlapping=True).to_list()
        found.update(matched)
    return found


def test_no_example_is_in_the_bundled_sample(sample: Sample, tmp_path: Path):
    """A worked example must not give away a claim that it is tested with."""
    assert len(written()) > 50
    assert set() == shared_with(write_sample(sample, tmp_path))


@pytest.mark.real
@pytest.mark.skipif(not CORPORA.is_dir(), reason="the real corpora are not beside this folder")
def test_no_example_is_in_a_real_corpus():
    """Nor in a benchmark: every example is invented."""
    assert set() == shared_with(CORPORA)
