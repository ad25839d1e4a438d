"""A judge made of rules: the four rulings where no model can run (paper, section 3.2).

Takes judge calls, gives a ruling each, the same every time, and none fails. It compares
names, numbers, plain words and polarity and understands nothing; orders and forged tags in
what it reads are passed over, or cost the text that carries them. How well it does stands
in ``docs/explanation/embedded-engines.md``. Five rules on its wording say whether a question is
atomic (7b): "and" is no fault inside a name, a quotation or "between A and B".
"""

import re
from collections.abc import Iterator, Sequence

from decomposerl.judge.call import JudgeCall, JudgeValue, Ruling
from decomposerl.text.clauses import AUXILIARIES
from decomposerl.text.words import word_set
from resources.judge.rule_document import answerable, correct, verdict
from resources.judge.rule_words import FRAME_WORDS, clean, read, shared

_WH = word_set("who whom whose what which when where why how")
_ASKING = re.compile(
    r"\b(?:who|whom|whose|what|which|when|where|why|how|" + "|".join(sorted(AUXILIARIES)) + r")\b",
    re.IGNORECASE,
)
_JOIN = re.compile(r",?\s+(?:and|or|as well as|but)\s+|\s*;\s*")
_QUOTED = re.compile(r"[\"“«][^\"”»]{1,120}[\"”»]|(?<!\w)['‘][^'’]{1,120}['’](?!\w)")
_OPEN = re.compile(
    r"\b(?:why|explain|describe|discuss|elaborate|what about|how about|how (?:do|does|did|can|could"
    r"|should|would|is|are|was|were)|do you|your|opinion|should|significance"
    r"|importance|implications?|what can be said|tell (?:me|us)|impact of)\b",
    re.IGNORECASE,
)
_LEAST_SHARED = 2
_REACH = 500
"""Characters on either side of a conjunction that tell what it joins."""


def atomicity(claim: str, question: str) -> tuple[bool, ...]:
    """The five criteria, shape (5,). Words to the judge cost focus and verifiability."""
    asked = clean(question)
    text = asked.text
    asking = sum(_ASKING.search(part) is not None for part in text.split("?"))
    is_question = "?" in text and asking > 0
    joins = list(_joins(text))
    two_clauses = any(_opens_clause(after) for _, after, _ in joins)
    return (
        is_question,
        asking == 1 and not two_clauses and not asked.orders,
        asking <= 1 and not two_clauses and all(_one_thing(*join) for join in joins),
        is_question and not asked.orders and _OPEN.search(text) is None,
        _grounded(claim, text),
    )


def _joins(text: str) -> Iterator[tuple[str, str, str]]:
    """What stands before and after each conjunction outside quotations, and the conjunction."""
    bare = _QUOTED.sub("Quotation", text).rstrip(" ?.")
    for join in _JOIN.finditer(bare):
        before = bare[max(join.start() - _REACH, 0) : join.start()]
        yield before, bare[join.end() : join.end() + _REACH], join[0].strip(" ,").lower()


def _opens_clause(after: str) -> bool:
    """Whether the words after a conjunction begin a question or a statement of their own."""
    first, *_ = [*after.lower().split(), ""]
    return first in _WH | AUXILIARIES | {"if", "whether", "then"}


def _one_thing(before: str, after: str, mark: str) -> bool:
    """Whether the words around a conjunction name one thing."""
    left, right = before.split(), after.split()
    if mark != "and" or not left or not right:
        return False
    names = left[-1][:1].isupper() and right[0][:1].isupper() and not before.endswith(",")
    return names or re.search(r"\bbetween\b", before.rpartition(",")[2]) is not None


def _grounded(claim: str, text: str) -> bool:
    """Whether the question names something that the claim names."""
    about, asked = read(clean(claim).text), read(text)
    common = shared(asked.topic, asked, about.content)
    wanted = len(asked.content - FRAME_WORDS)
    return (
        bool(common & (about.values | asked.values))
        or len(common) >= _LEAST_SHARED
        or (bool(common) and 2 * len(common) >= wanted)
    )


RULES = 3
"""Raised whenever the rules change, so that stored rulings are not mixed."""


class RuleJudge:
    """A ``Judge`` that needs nothing installed and always rules."""

    @property
    def engine(self) -> str:
        """The rule set."""
        return f"rule_judge:{RULES}"

    def judge(self, calls: Sequence[JudgeCall]) -> list[Ruling]:
        """One ruling a call, in order; ``failure`` is always None."""
        return [Ruling(_value(call)) for call in calls]


def _value(call: JudgeCall) -> JudgeValue:
    match call.task:
        case "answerability":
            return answerable(call.document, call.question)
        case "atomicity":
            return tuple(atomicity(call.claim, call.question))
        case "correctness":
            return all(correct(call.document, call.question, a) for a in call.answers)
        case "coverage":
            return verdict(call.claim, call.answers)
