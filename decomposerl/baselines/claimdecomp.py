"""ClaimDecomp: yes-no questions whose answers vote (Chen et al. 2022).

Yes-no questions are written about what the claim says and what it implies, each with the answer
that would support the claim; each is answered from the evidence with yes, no or unknown; the
answers are counted.

Calls per claim: 1 + k for k questions; 1 where no question could be read; and the repeated calls.
The k answers run concurrently, and the verdict needs no call.

Replies. Questions: one a line, ``1. question? | yes`` or ``… | no``, the answer that supports the
claim, which may stand on the next line; without one it is yes (noted as ``unoriented``), and a
field with another word is not read. Answers:
``Yes``, ``No`` or ``Unknown``, alone or before a reason; a No whose reason is only that the
evidence does not tell is Unknown.

Rule ``half``: of the answers that say yes or no, half or more have to support the claim for
Supported; none that does is Refuted (the publication cuts the same share into its label bands).
Rule ``all``, the conjunction: Supported if every answer supports the claim; one that contradicts it
or is unknown makes it Refuted. An answer that cannot be read, also when repeated, leaves the
verdict open, unless it could not change it.

Not implemented: the trained question generator of the publication (a model at an endpoint can
take its place), and weights of questions.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from decomposerl.baselines.method import (
    ClaimInput,
    Exchange,
    ModelCall,
    ModelReply,
    Procedure,
    Steps,
    Verification,
    ask_read,
    status_of,
)
from decomposerl.baselines.pairs import cycles_of
from decomposerl.baselines.single_call import decomposing
from decomposerl.replies.answers import answer_text, read_truth
from decomposerl.replies.languages import in_english
from decomposerl.replies.lines import plain_text, without_marks
from decomposerl.replies.lists import read_items
from decomposerl.replies.statements import Truth
from decomposerl.traces.trace import Verdict

OPENING = "The claim is turned into yes-no questions, each with the answer that supports it."

Rule = Literal["half", "all"]
"""How the answers make a verdict: the publication's share, or the conjunction."""

_ORIENTED = re.compile(
    r"(.+?)\s*(?:[|(\[]|(?<=\?)[\"'”]?\s*[-–—:→;/]*)\s*(?:[a-z\s-]{0,40}[:=]\s*)?"
    r"(yes|no)(?:[)\].\s|]*|\s?(?:\(|[-–—,.:;]\s|supports\b|would\b)[^|]*)",
    re.IGNORECASE,
)
_ROW = re.compile(
    r"^[^\S\n]*+\|[^\S\n]*+(?:#?(\d{1,2})[.)]?[^\S\n]*+\|[^\S\n]*+)?(?=\S)", re.MULTILINE
)
_OTHER_FIELDS = re.compile(
    r"(?<=\?)([\"'”*_]{0,3}[^\S\n]*)[|｜]([^|｜\n]*)(?:[|｜].*)?$", re.MULTILINE
)
_FIELD = re.compile(r"(?P<question>[^|]*\?[\"'”*_]{0,3})\s*\|\s*(?P<field>[^|]*)")
_FIELD_TRUTH = re.compile(
    r"(?:[a-z\s-]{0,40}[:=]\s*)?\W*(?:(?P<yes>yes|y|true)|no|n|false)\b(?!\s?[/|]|\sor\b)(?:\W.*)?",
    re.IGNORECASE,
)
_LONGEST = 400  # of a question with its answer; the pattern stays fast below it
_NEXT_LINE = re.compile(
    r"\?[*_\"”]*[^\S\n]*\n\s*(?:[-*•→|(]\s*)?(?:[a-z -]{0,40}\s?:|→|\|)[^\S\n]*(yes|no)\b[).]*"
    r"(?=\s|\Z)",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Count:
    """How many answers support the claim, contradict it, cannot be read, and are unknown."""

    agreeing: int
    against: int
    unread: int
    unknown: int = 0
    rule: Rule = "half"

    @property
    def verdict(self) -> Verdict | None:
        """The verdict by the rule; None where the unread could change it."""
        if self.rule == "all":
            if self.against or self.unknown:
                return "Refuted"
            return None if self.unread or not self.agreeing else "Supported"
        lead = self.agreeing - self.against
        if self.agreeing and lead >= self.unread:
            return "Supported"
        return "Refuted" if lead < -self.unread or not (self.agreeing or self.unread) else None


@dataclass(frozen=True, slots=True)
class _YesNo:
    """A question, and its answer that supports the claim, where the reply gave one."""

    text: str
    supporting: Truth | None

    def agrees(self, truth: Truth) -> bool:
        """Whether a yes or no supports the claim."""
        return truth == (self.supporting or "true")


def claimdecomp(rule: Rule = "half") -> Procedure:
    """The faithful procedure: questions, an answer to each, and the verdict by this rule."""

    def procedure(given: ClaimInput) -> Steps:
        call = ModelCall("decompose", "questions", {"claim": given.claim})
        asked: Exchange[tuple[tuple[ModelReply, tuple[str, ...] | None], ...]]
        asked = ask_read(_read_questions, "oriented", call)
        ((written, items),) = yield from asked
        questions = tuple(map(_yes_no, items or ()))
        if not questions:
            return Verification.unread(written, notes={"questions": 0})
        variables = ({"evidence": given.evidence, "question": each.text} for each in questions)
        calls = (ModelCall("verify", "answer", each, max_tokens=128) for each in variables)
        answering: Exchange[tuple[tuple[ModelReply, Truth | None], ...]]
        answering = ask_read(read_truth, "truth", *calls)
        answered = yield from answering
        return _counted(rule, questions, answered)

    return procedure


def _read_questions(text: str) -> tuple[str, ...] | None:
    """The questions, each with its supporting answer behind it, where that is on the next line."""
    plain = plain_text(text).replace("**", "")
    text = _ROW.sub(lambda row: f"{row[1]}. " if row[1] else "", plain)
    text = _OTHER_FIELDS.sub(lambda row: f"{row[1]}| {row[2]}" if row[2].strip() else "", text)
    text = _NEXT_LINE.sub(r"? | \1", text)
    items = [_in_english(item) for item in read_items(text) or ()]
    return None if any(map(_is_unclear, items)) else tuple(items) or None


def _in_english(item: str) -> str:
    """A question with its field's yes or no in English."""
    field = _FIELD.fullmatch(item) if len(item) <= _LONGEST else None
    return f"{field['question']} | {in_english(field['field'].lower())}" if field else item


def _is_unclear(item: str) -> bool:
    """Whether a field stands behind a question that is neither yes nor no."""
    field = _FIELD.fullmatch(item) if len(item) <= _LONGEST else None
    return bool(
        field and field["field"].strip() and not _FIELD_TRUTH.fullmatch(field["field"].strip())
    )


def _yes_no(item: str) -> _YesNo:
    field = _FIELD.fullmatch(item) if len(item) <= _LONGEST else None
    truth = _FIELD_TRUTH.fullmatch(field["field"].strip()) if field else None
    if field and truth:
        return _YesNo(without_marks(field["question"]), "true" if truth["yes"] else "false")
    oriented = _ORIENTED.fullmatch(item) if len(item) <= _LONGEST else None
    if oriented is None:
        return _YesNo(item, None)
    return _YesNo(without_marks(oriented[1]), "true" if oriented[2].lower() == "yes" else "false")


def _counted(
    rule: Rule,
    questions: Sequence[_YesNo],
    answered: Sequence[tuple[ModelReply, Truth | None]],
) -> Verification:
    decisive = [
        question.agrees(truth)
        for question, (_, truth) in zip(questions, answered, strict=True)
        if truth in {"true", "false"}
    ]
    unread = [reply for reply, truth in answered if truth is None]
    unknown = sum(truth == "unknown" for _, truth in answered)
    agreeing, against = sum(decisive), len(decisive) - sum(decisive)
    verdict = Count(agreeing, against, len(unread), unknown, rule).verdict
    answers = [answer_text(reply.text) for reply, _ in answered]
    pairs = [(each.text, answer) for each, answer in zip(questions, answers, strict=True)]
    return Verification(
        verdict,
        status_of(verdict, *unread),
        "\n".join(f"{text} {answer}" for text, answer in pairs),
        cycles_of(pairs),
        OPENING,
        notes={
            "questions": len(questions),
            "agreeing": agreeing,
            "against": against,
            "unknown": unknown,
            "unread": len(unread),
            "unoriented": sum(each.supporting is None for each in questions),
        },
    )


METHOD = decomposing(
    claimdecomp(),
    OPENING,
    name="claimdecomp",
    title="ClaimDecomp",
    publication="Chen et al. 2022",
    calls="1 + k: k questions",
    formula=lambda ended: 1 + int(ended.notes["questions"]),
    revision=2,
)
