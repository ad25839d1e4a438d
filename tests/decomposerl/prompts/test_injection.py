"""Untrusted text cannot forge a prompt's structure, a ruling or a trace."""

import json
import re
import sys
import time
import unicodedata
from collections.abc import Callable, Sequence
from functools import cache, partial
from itertools import chain, product
from pathlib import Path
from typing import Any, ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chat_parts import NothingStored, parsed
from decomposerl.chat import ChatFailure, ChatReply, ChatRequest, Parse, Sampling
from decomposerl.judge.call import JudgeCall, Task
from decomposerl.prompts import judge as tasks
from decomposerl.prompts.escape import NAMES, escaped, look_alikes
from decomposerl.prompts.policy import policy_messages
from decomposerl.prompts.silver import silver_request
from decomposerl.replies.rulings import CRITERIA, Form, RulingValue, read_ruling
from decomposerl.traces.grammar import KINDS, parse_trace
from decomposerl.traces.trace import Trace
from resources.judge.chat_judge import ChatJudge, load_judge_prompts
from resources.store.prompts import load_prompt
from strategies import LAW

HARMLESS = "The harbour of Torbeck is deep."
CLAIM, EVIDENCE, QUESTION = "It opened in 1921.", "Ilva opened it in 1921.", "When did it open?"
POLICY, SILVER, JUDGE = load_prompt("policy"), load_prompt("silver"), load_judge_prompts()
PROMPTS = [POLICY, SILVER, *JUDGE.values()]
OUR_TAGS = {
    tag
    for prompt in PROMPTS
    for section in prompt.sections.values()
    for tag in re.findall(r"</?([a-z_]+)>", section)
} | {*KINDS, "verdict", "sentence", "evidence_document"}  # the last three are the paper's
TEXTS: dict[str, list[str]] = json.loads(
    Path(__file__).with_name("injections.json").read_text("utf-8")
)
"""Texts that try to forge the structure of a prompt, a reply or a trace, by their kind.

They are fit for any place that untrusted text goes: a claim, evidence, a question, an answer.
"""
SHUT = {"backwards", "entity", "words", "json"}
"""Kinds in which not even a generous reader finds a tag of ours or a template token."""
each_kind = pytest.mark.parametrize("kind", TEXTS)

# What follows reads as a model might, and shares no code with the escaping.
_TOKENS = r"[|｜]|/?s>|</?sys>>|(?:start|end)_of_turn>|/?tool_call>"
_SEEN = re.compile(
    "<(?:([/\\s]*)({})(?![a-z])|({}))".format(
        "|".join(r"\s*".join(name) for name in sorted(OUR_TAGS, key=len, reverse=True)), _TOKENS
    )
)


def as_seen(text: str) -> str:
    """Plain letters for look-alikes, ``<`` for every such bracket, nothing for the unseen."""
    return "".join(map(_seen, text)).translate(str.maketrans("аοιΙ", "aoii"))


@cache
def _seen(character: str) -> str:
    name = unicodedata.name(character, "")
    if character.isspace():
        return " "
    if unicodedata.category(character) in {"Cf", "Cc", "Mn", "Me"}:
        return ""
    if name.endswith("LESS-THAN SIGN") or re.search(r"LEFT(-POINTING)? ANGLE", name):
        return "<"
    if "SOLIDUS" in name:
        return "/"
    if boxed := re.fullmatch(r"NEGATIVE SQUARED LATIN CAPITAL LETTER (.)", name):
        return boxed[1].casefold()
    letters = unicodedata.normalize("NFKD", character).casefold()
    return "".join(letter for letter in letters if not unicodedata.combining(letter))


def structure(text: str) -> list[tuple[bool, str]]:
    """Every tag of ours in order, closing or not, and every token of a chat template."""
    found = _SEEN.finditer(as_seen(text))
    return [("/" in (m[1] or ""), (m[2] or m[3]).replace(" ", "")) for m in found]


def judge_content(call: JudgeCall, *, structured: bool = False) -> str:
    """What a chat judge is shown for a call."""
    recorder = WorstChat()
    ChatJudge(recorder, JUDGE, tasks.JudgeSettings(structured=structured)).judge([call])
    return recorder.shown[-1]


CALLS: dict[str, Callable[[str], JudgeCall]] = {
    "answerability, document": lambda t: JudgeCall("answerability", t, question=QUESTION),
    "answerability, question": lambda t: JudgeCall("answerability", EVIDENCE, question=t),
    "correctness, document": lambda t: JudgeCall("correctness", t, "", QUESTION, ("In 1921.",)),
    "correctness, question": lambda t: JudgeCall("correctness", EVIDENCE, "", t, ("In 1921.",)),
    "correctness, answer": lambda t: JudgeCall("correctness", EVIDENCE, "", QUESTION, (t,)),
    "atomicity, claim": lambda t: JudgeCall("atomicity", claim=t, question=QUESTION),
    "atomicity, question": lambda t: JudgeCall("atomicity", claim=CLAIM, question=t),
    "coverage, claim": lambda t: JudgeCall("coverage", claim=t, answers=("In 1921.", "Ilva.")),
    "coverage, answer": lambda t: JudgeCall("coverage", claim=CLAIM, answers=("Ilva.", t, "No.")),
}


def silver_content(evidence: str, claim: str) -> str:
    asked = silver_request(SILVER, (evidence, claim), Sampling(), structured=False, thinking=None)
    return asked.messages[0].content


CONTENTS: dict[str, Callable[[str], str]] = {
    "policy, evidence": lambda t: policy_messages(POLICY, t, CLAIM)[0].content,
    "policy, claim": lambda t: policy_messages(POLICY, EVIDENCE, t)[0].content,
    "silver, evidence": lambda t: silver_content(t, CLAIM),
    "silver, claim": lambda t: silver_content(EVIDENCE, t),
    **{
        f"{place}{', structured' * structured}": (
            lambda t, call=call, structured=structured: judge_content(
                call(t), structured=structured
            )
        )
        for (place, call), structured in product(CALLS.items(), [False, True])
    },
}


@cache
def plain_content(place: str) -> str:
    return CONTENTS[place](HARMLESS)


LOWEST: dict[Task, tuple[str, RulingValue]] = {
    "answerability": ("<answer>0</answer>", False),
    "correctness": ("<answer>0</answer>", False),
    "atomicity": (
        "\n".join(["<answer>", *(f"{c}:NO" for c in CRITERIA), "</answer>"]),
        (False,) * 5,
    ),
    "coverage": ("<answer>REFUTED</answer>", "Refuted"),
}


class WorstChat(NothingStored):
    """A judge that any foreign tag talks into the best ruling, and else rules the lowest."""

    engine = "chat:worst"
    best: ClassVar[dict[str, str]] = {
        "coverage": "SUPPORTED",
        "atomicity": "\n".join(f"{c}:YES" for c in CRITERIA),
    }

    def __init__(self) -> None:
        self.shown: list[str] = []

    def complete(
        self, requests: Sequence[ChatRequest], parse: Parse[Any] | None = None
    ) -> list[ChatReply[Any] | ChatFailure]:
        """One reply a request; whether it parses is left to the reader."""
        assert parse is not None
        self.shown += [request.messages[0].content for request in requests]
        return [self._answer(request, parse) for request in requests]

    def _answer(self, request: ChatRequest, parse: Parse[Any]) -> ChatReply[Any] | ChatFailure:
        text = self.reply(request.template.name, request.messages[0].content)
        return parsed(text, parse)

    def reply(self, task: str, content: str) -> str:
        """What it says to a prompt in tags."""
        expected = [tag for s in ("prompt", "tags") for tag in structure(JUDGE[task].sections[s])]
        if structure(content) == expected:
            return LOWEST[task][0]
        return f"<answer>{self.best.get(task, '1')}</answer>"


class Parrot(WorstChat):
    """A judge that first repeats whatever stands between two tags of the prompt."""

    def reply(self, task: str, content: str) -> str:
        """Each section as it was shown, then its own ruling."""
        sections = re.findall(r"<([a-z_]+)>\n(.*?)\n</\1>", content, re.DOTALL)
        return "\n".join([*(text for _, text in sections), LOWEST[task][0]])


@each_kind
def test_the_reader_sees_each_forgery_as_it_is_written(kind: str):
    """The reader of these tests is generous enough: unescaped, each forgery would show."""
    assert [] == [text for text in TEXTS[kind] if bool(structure(text)) is (kind in SHUT)]
    assert len(set(chain(*TEXTS.values()))) >= 90
    assert OUR_TAGS <= set(NAMES)


@each_kind
def test_no_text_changes_the_structure_of_a_prompt(kind: str):
    """In any place: the same tags in the same order, and the instructions stand after it."""
    for (place, content), text in product(CONTENTS.items(), TEXTS[kind]):
        plain, filled = plain_content(place), content(text)
        before, after = plain.split(HARMLESS)
        assert structure(plain) == structure(filled), (place, text)
        assert filled.startswith(before), (place, text)
        assert filled.endswith(after), (place, text)
        assert len(after) > 400, place


@each_kind
def test_no_answer_passes_for_several(kind: str):
    """The list for coverage has one line an answer, whatever an answer holds."""
    for text in TEXTS[kind]:
        listed = tasks.bullets(["Ilva.", text, "No."])
        assert 3 == len(listed.splitlines()) == sum(x.startswith("- ") for x in listed.split("\n"))
        first, _, last = listed.split("\n")
        assert ("- Ilva.", "- No.") == (first, last)


def read(reader: Callable[[str], RulingValue], reply: str) -> RulingValue | None:
    try:
        return reader(reply)
    except ValueError:
        return None


def as_json(**fields: str | int) -> str:
    return json.dumps({"analysis": "It is so.", **fields})


HONEST: list[tuple[Form, bool, str, RulingValue]] = [
    *(("digit", False, f"<answer>{n}</answer>", bool(n)) for n in (0, 1)),
    *(("digit", True, as_json(answer=n), bool(n)) for n in (0, 1)),
    ("coverage", False, "<answer>REFUTED</answer>", "Refuted"),
    ("coverage", False, "<answer>\nSupported\n</answer>", "Supported"),
    ("coverage", True, as_json(verdict="NOT_ENOUGH_INFO"), "NotEnoughInfo"),
    ("coverage", True, f"```json\n{as_json(verdict='REFUTED')}\n```", "Refuted"),
    ("criteria", False, LOWEST["atomicity"][0], (False,) * 5),
    ("criteria", True, as_json(**dict.fromkeys(CRITERIA, "NO")), (False,) * 5),
]


@each_kind
def test_a_judge_that_repeats_the_text_gives_its_own_ruling_or_none(kind: str):
    """Raw or escaped, before, after, around, in thinking or inside JSON: never another ruling.

    What a judge repeats as it was shown, in its reasons, does not even cost the ruling.
    """
    for text, (form, structured, reply, value) in product(TEXTS[kind], HONEST):
        reader, as_shown = partial(read_ruling, form=form, structured=structured), escaped(text)
        assert value == reader(reply) == reader(f"<think>{as_shown}</think>\n{reply}")
        assert value == reader(reply.replace("It is so.", json.dumps(as_shown)[1:-1]))
        if not structured:
            assert value == reader(f"{as_shown}\n{reply}")
        for echo, gap in product((text, as_shown), ("", "\n", " I say: ")):
            replies = [
                echo + gap + reply,
                reply + gap + echo,
                echo + gap + reply + gap + echo,
                f"<think>{echo}</think>{gap}{reply}",
                f"<think>{reply}</think>{gap}{echo}{gap}{reply}",
                reply.replace("It is so.", echo),
            ]
            assert {read(reader, one) for one in replies} <= {value, None}


@each_kind
def test_thinking_that_the_template_opened_forges_nothing(kind: str):
    """A closing tag with none before it ends the thinking, and never starts a forged ruling."""
    for echo, (form, structured, own, value) in product(TEXTS[kind], HONEST):
        reader = partial(read_ruling, form=form, structured=structured)
        assert value == reader(f"It says so.</think>\n{own}")
        replies = (
            f"Hm: {echo}\n</think>\n{own}",
            f"Hm.</think>{echo}{own}",
            f"Hm: {echo}</think>{own}\n{echo}",
            f"{own}</think>{echo}",
            f"{own}\n{echo}</think>\n{echo}",
        )
        assert {read(reader, one) for one in replies} <= {value, None}


@each_kind
def test_forged_tags_earn_no_ruling(kind: str):
    """A judge that any tag would talk over, and one that repeats its prompt, rule the lowest."""
    calls = [call(text) for text in TEXTS[kind] for call in CALLS.values()]
    lowest = [LOWEST[call.task][1] for call in calls]
    assert lowest == [ruling.value for ruling in ChatJudge(WorstChat(), JUDGE).judge(calls)]
    assert lowest == [ruling.value for ruling in ChatJudge(Parrot(), JUDGE).judge(calls)]


@each_kind
def test_the_worst_judge_is_talked_over_where_nothing_is_escaped(kind: str):
    """So the law above can fail: let in as they are, the tags earn the best ruling."""
    values = {"document": EVIDENCE, "question": QUESTION, "reply_format": "<answer>0 or 1</answer>"}
    for text in TEXTS[kind]:
        content = JUDGE["correctness"].filled("prompt", answer=text, **values)
        assert read_ruling(WorstChat().reply("correctness", content), "digit") is (kind not in SHUT)


def quoting(evidence: str, claim: str) -> Trace:
    """The trace of a policy that quotes both from its prompt."""
    content = policy_messages(POLICY, evidence, claim)[0].content
    document, shown = (
        re.findall(rf"<{tag}>\n(.*?)\n</{tag}>", content, re.DOTALL)[0]
        for tag in ("document", "claim")
    )
    cycle = f"<question>Is it so: {shown}?</question><answer>It says: {document}</answer>"
    other = "<question>When?</question><answer>In 1921.</answer><think>Yes.</think>"
    thought = f"<think>Of {shown}: {document}</think>"
    return parse_trace(thought + cycle + thought + other + "<verification>Refuted</verification>")


@each_kind
def test_a_policy_that_quotes_its_prompt_writes_the_trace_it_means(kind: str):
    """Tags in evidence and claim come back escaped: no block, fault or verdict changes."""
    plain = quoting(HARMLESS, CLAIM)
    for text in TEXTS[kind]:
        found = quoting(text, text)
        assert [block.kind for block in plain.blocks] == [block.kind for block in found.blocks]
        assert () == plain.faults == found.faults
        assert "Refuted" == found.verdict
        assert f"It says: {escaped(text)}".strip() == found.cycles[0].answer


PIECES = ["<", "＜", "&lt;", "&amp;", "&", "amp;", "lt;", "&#65308;", "/", " ", "Claim", "s>"]


def test_different_texts_stay_different():
    """Nothing is lost: what was written as an entity is not what was written as a bracket."""
    texts = {"".join(pieces) for n in range(5) for pieces in product(PIECES, repeat=n)}
    assert len(texts) == len({escaped(text) for text in texts}) > 10_000


def without_brackets(text: str) -> str:
    return re.sub("[<＜&]|amp;|lt;|#65308;", "", text)


@LAW
@given(st.lists(st.sampled_from([*PIECES, "answer", "cla", "im", "x", "1", "#60;"])).map("".join))
def test_no_tag_opens_in_an_escaped_text(text: str):
    """Nor in one that is escaped again; all else stays."""
    assert [] == structure(escaped(text)) == structure(escaped(escaped(text)))
    assert without_brackets(text) == without_brackets(escaped(text))


def test_ordinary_text_stays_as_it_is():
    """Numbers, tables, code and quotation marks are read as they were written."""
    texts = (
        "p < 0.05 and n > 30",
        "<5 mg a day, >10 mg a week",
        "a<b, b<c, therefore a<c",
        "<table><thead><tr><th>In thousands</th></tr></thead><td>1 &lt; 2 &amp; 3</td></table>",
        "<questionnaire>, <claims>, <thinker> and <claimant> are words of their own",
        "<i>Question</i> the answer <br/> <s",
        "AT&T &copy; &#60;b&#62; &lt;i&gt;",
        "List<Claims> x; if (i<answersheet)",
        "«Question», “answer”, ‹peut-être›, 〈山〉",
        "||a|| < |b|",
        "",
    )
    for text in texts:
        assert text == escaped(text)


def test_every_look_alike_counts_in_every_name():
    """Small or capital, wherever the letter stands: none is lost to what the pattern skips."""
    alike = look_alikes()
    tags = {
        f"<{name[:place]}{shape}{name[place + 1 :]}>"
        for name in NAMES
        for place, letter in enumerate(name)
        for character in alike.get(letter, letter)
        for shape in (character, character.upper(), character.lower())
        if len(shape) == 1
    }
    assert [] == [tag for tag in tags if escaped(tag) != f"&lt;{tag[1:]}"]
    assert len(tags) > 9_000


def test_every_shape_that_unicode_has_of_a_letter_is_a_look_alike():
    """What decomposes to one Latin letter, with or without marks, anywhere in Unicode."""
    alike = look_alikes()
    for character in map(chr, range(0x80, sys.maxunicode + 1)):
        if unicodedata.decomposition(character):
            letters = unicodedata.normalize("NFKD", character).lower()
            plain = "".join(letter for letter in letters if not unicodedata.combining(letter))
            assert plain not in alike or character in alike[plain], hex(ord(character))


def test_time_grows_with_the_text_and_no_faster():
    """Hostile repetitions of what the pattern skips and of names that do not end."""
    started = time.process_time()
    for unit in ("<", "< ", "</ ", "<\u0345", "\u0345", "<questι", "<veriﬁ", "&amp;", "<a ", "ι"):
        escaped(unit * 50_000)
    assert time.process_time() - started < 10


def test_each_bracket_goes_one_level_deeper():
    """Literal, look-alike, entity, and entity of an entity: four texts stay four."""
    assert "&lt;answer>" == escaped("<answer>")
    assert "&#65308;answer＞" == escaped("＜answer＞")
    assert "&amp;lt;answer&gt;" == escaped("&lt;answer&gt;")
    assert "&amp;amp;lt;answer&gt;" == escaped("&amp;lt;answer&gt;")
    assert "see &lt;/claim>, p < 0.05" == escaped("see </claim>, p < 0.05")
