"""A judge made of rules: the four rulings where no model can run (paper, section 3.2).

Takes judge calls, gives a ruling each, the same every time, and none fails. It compares
names, numbers, plain words and polarity and understands nothing; orders and forged tags in
what it reads are passed over, or cost the text that carries them. How well it does stands
in ``docs/explanation/embedded-engines.md``.

A question is answerable where one or two sentences hold what it names; an answer is correct
where every sentence of it has a counterpart in the document, with the same polarity. What a
reader would have to conclude, count or calculate is not answerable here, and not correct. Five
rules on its wording say whether a question is atomic (7b): "and" is no fault inside a name, a
quotation or "between A and B".

Answers alone refute a claim where one denies a fact of it, negates it, calls it false, or has
another name, number or year in the place of one that no answer confirms; they support it where they
together hold what every fact says. An abstention, or a yes or no that names nothing of the claim,
carries nothing.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from decomposerl.judge.call import JudgeCall, Ruling
from decomposerl.replies.abstention import abstains
from decomposerl.schemas import Verdict
from decomposerl.text.clauses import AUXILIARIES, checks_of, first_finite
from decomposerl.text.sentences import split_sentences
from decomposerl.text.words import has_opposite, word_set
from resources.judge.rule_words import (
    FRAME_WORDS,
    LEAD,
    Document,
    Statement,
    clean,
    pattern,
    read,
    read_document,
    running,
    share,
    shared,
    weight,
)

RULES = 3
"""Raised whenever the rules change, so that stored rulings are not mixed."""
_ABOUT_DOCUMENT, _NEGATION, _OPEN = map(pattern, ("about_document", "negation", "open"))
_PART = re.compile(
    r"\s*(?:;|:| -- |—|–|, (?=(?:and|but|while|whereas|which|who|where|so)\b)"
    r"| (?:while|whereas|but) | and (?=never|not|no\b|explicitly|does|did|is|was|has))\s*"
)
_CONTRAST = re.compile(r", (?:and |but )?not (?:by |in |to |for |of |on |at )?[^,;.!?]{1,60}[.!]?$")
_CLAUSE = re.compile(r"[;:]|, (?:but|while|although|though) | but ")
_WH = word_set("who whom whose what which when where why how")
_ASKING = re.compile(rf"\b(?:{'|'.join(sorted(_WH | AUXILIARIES))})\b", re.IGNORECASE)
_JOIN = re.compile(r",?\s+(?:and|or|as well as|but)\s+|\s*;\s*")
_QUOTED = re.compile(r"[\"“«][^\"”»]{1,120}[\"”»]|(?<!\w)['‘][^'’]{1,120}['’](?!\w)")
_WH_PLAIN, _WH_VALUES, _WH_ALL = 0.5, 0.75, 0.6
"""Least shares of a wh-question's plain words, names and numbers, and of all it names."""
_YES_PLAIN, _YES_ALL = 0.3, 0.5
"""The same of a yes-no question."""
_ONE_SENTENCE, _PLAIN_SHARE, _SHORT = 0.6, 0.5, 3
"""Least share of an answer's part in one sentence, of its plain words in the document."""
MOST_PARTS = 1_000
"""Distinct parts of an answer to one question; more are none, and nobody checks them all."""
MOST_COMPARED = 10_000_000
"""The same times the sentences of the document."""
_QUESTION_SHARE = 0.34
"""Least share of the question in the place where a short answer stands."""
_SUBJECT, _OWN, _NAMES = 0.4, 0.5, 0.75
"""Least share of a check's subject, of the rest, and of names in the rest, that is confirmed."""
MOST_CHECKS = 100
"""Facts of a claim at most: a longer text is no claim, and no answers suffice for it."""
_DENIED, _FRAME, _NEAR = 3, 0.5, 0.7
"""Least weight that a "no" shares with the claim, and least shares of a contradiction."""
_LEAST_SHARED = 2
_REACH = 500
"""Characters on either side of a conjunction that tell what it joins."""


class RuleJudge:
    """A ``Judge`` that needs nothing installed and always rules."""

    @property
    def engine(self) -> str:
        """The rule set."""
        return f"rule_judge:{RULES}"

    def judge(self, calls: Sequence[JudgeCall]) -> list[Ruling]:
        """One ruling a call, in order; ``failure`` is always None."""
        return [Ruling(_value(call)) for call in calls]


def _value(call: JudgeCall) -> bool | tuple[bool, ...] | Verdict:
    match call.task:
        case "answerability":
            return answerable(call.document, call.question)
        case "atomicity":
            return atomicity(call.claim, call.question)
        case "correctness":
            return all(correct(call.document, call.question, a) for a in call.answers)
        case "coverage":
            return verdict(call.claim, call.answers)


# == Answerability ==


def answerable(document: str, question: str) -> bool:
    """Whether one or two sentences of ``document`` hold what answers ``question``."""
    text = clean(question).text
    if "?" not in question:
        return False
    if _ABOUT_DOCUMENT.search(text):
        return bool(document.strip())
    asked = read(text)
    wanted, window = asked.topic, read_document(document).window(asked.topic, asked, 2)
    if not window:
        return False
    held = _union(sentence.content for sentence in window)
    parts = (wanted & asked.plain, wanted & asked.values, wanted)
    plain, values, every = (share(part, asked, held) for part in parts)
    if asks_yes_or_no(text):
        return plain >= _YES_PLAIN and every >= _YES_ALL
    return plain >= _WH_PLAIN and values >= _WH_VALUES and every >= _WH_ALL


def answering(document: str, question: str) -> tuple[str, ...]:
    """The one or two sentences that make ``question`` answerable, best first; else none."""
    if not answerable(document, question):
        return ()
    asked = read(clean(question).text)
    window = read_document(document).window(asked.topic, asked, 2)
    return tuple(sentence.text for sentence in window)


def asks_yes_or_no(question: str) -> bool:
    """Whether the question opens with an auxiliary."""
    words = question.split()
    return bool(words) and words[0].lower() in AUXILIARIES


# == Correctness ==


def correct(document: str, question: str, answer: str) -> bool:
    """Whether ``document`` supports every part of ``answer``, read with its question."""
    said = clean(answer)
    # Nobody is asked about an abstention: this one comes with more.
    if said.orders or not said.sentences or any(map(abstains, said.sentences)):
        return False
    lead = LEAD.match(said.text)
    rest = said.text[lead.end() :] if lead else said.text
    source, asked = read_document(document), read(clean(question).text)
    pieces = (part for each in split_sentences(rest) for part in _PART.split(each))
    parts = _statements(_CONTRAST.sub("", part) for part in pieces)
    if lead and not _lead_holds(asked, source, parts, yes=bool(lead["yes"])):
        return False
    if len(parts) > min(MOST_PARTS, MOST_COMPARED // (len(source.sentences) or 1)):
        return False
    return bool(lead or parts) and all(_supported(part, asked, source) for part in parts)


def _lead_holds(
    asked: Statement, source: Document, parts: Sequence[Statement], *, yes: bool
) -> bool:
    """Whether the document agrees with a yes, or a no, to what is asked."""
    wanted = asked.topic
    window = source.window(wanted, asked, 2)
    if not window:
        return False
    best = window[0]
    every = share(wanted, asked, best.content)
    said = bool(parts) and best.negated != asked.negated
    if yes:
        both = _union(sentence.content for sentence in window)
        values = share(wanted & asked.values, asked, both)
        return not said and values == 1 and every >= _QUESTION_SHARE
    return said or every < 1 or best.negated != asked.negated


def _supported(part: Statement, asked: Statement, source: Document) -> bool:
    """Whether the document holds one part of an answer."""
    wanted = part.topic
    if len(wanted) >= _SHORT and running(part.text) in source.running:
        return True
    best = next(iter(source.window(wanted, part, 1)), None)
    if part.negated:
        return _denial_holds(part, best, source)
    if not wanted or best is None:
        return not wanted
    plain, values = wanted & part.plain, wanted & part.values
    own = plain - shared(plain, part, asked.content)
    if not values <= best.content or share(own, part, source.everything) < _PLAIN_SHARE:
        return False
    enough = share(values | own, part, best.content) >= _ONE_SENTENCE
    return enough and not _negated_there(part, best)


def _negated_there(part: Statement, best: Statement) -> bool:
    """Whether the clause of ``best`` that holds most of ``part`` is negated."""
    if not best.negated:
        return False
    clauses = [read(clause) for clause in _CLAUSE.split(best.text) if clause.strip()]
    return max(clauses, key=lambda clause: share(part.topic, part, clause.content)).negated


def _denial_holds(part: Statement, best: Statement | None, source: Document) -> bool:
    """A denial holds where the document denies it too, or holds no such value.

    What stands before the negation is asserted.
    """
    cut = _NEGATION.search(part.text)
    asserted = read(part.text[: cut.start()]).values if cut else frozenset[str]()
    denied = part.topic & (read(part.text[cut.end() :]).values if cut else part.values)
    if not asserted <= source.everything:
        return False
    if not denied <= source.everything or best is None:
        return True
    held = share(part.topic, part, best.content)
    return held < _ONE_SENTENCE or _negated_there(part, best)


# == Coverage ==


@dataclass(frozen=True, slots=True, eq=False)
class Check:
    """One fact of a claim, its subject's stems, and the stems of the rest."""

    statement: Statement
    subject: frozenset[str]
    own: frozenset[str]


@dataclass(frozen=True, slots=True, eq=False)
class Answer:
    """What an answer states, and whether it opens with a yes (True) or a no (False).

    ``clauses`` holds each distinct sentence once, ``content`` the stems of all, ``affirmed``
    of those that are not negated.
    """

    says: bool | None
    clauses: tuple[Statement, ...]
    affirmed: frozenset[str]
    content: frozenset[str]


def verdict(claim: str, answers: Sequence[str]) -> Verdict:
    """The verdict that the answers support, whatever their order."""
    checks = checks_in(claim)
    known = [answer for answer in map(read_answer, answers) if answer is not None]
    if not known or not 0 < len(checks) <= MOST_CHECKS:
        return "NotEnoughInfo"
    confirmed = _union(answer.affirmed for answer in known)
    content = _union(check.statement.content for check in checks)
    for check in checks:
        stated = confirmed & (content | {slot.value for slot in check.statement.slots})
        if any(_contradicts(answer, check, content, stated) for answer in known):
            return "Refuted"
    return "Supported" if all(_confirmed(check, known) for check in checks) else "NotEnoughInfo"


@lru_cache(maxsize=4096)
def checks_in(claim: str) -> tuple[Check, ...]:
    """The facts of a claim that have content, in the order of its wording."""
    pieces: list[str] = []
    for sentence in clean(claim).sentences:
        pieces += checks_of(sentence.rstrip(" .;:!,?"))
    return tuple(check for check in map(_check, pieces) if check.statement.content)


@lru_cache(maxsize=16_384)
def read_answer(answer: str) -> Answer | None:
    """What an answer states, None of an abstention; orders to the judge are passed over."""
    if abstains(answer):
        return None
    says: bool | None = None
    clauses: list[str] = []
    for index, sentence in enumerate(clean(answer).sentences):
        if abstains(sentence):
            continue
        lead = LEAD.match(sentence)
        if lead and index == 0:
            says = bool(lead["yes"])
        clauses.append(sentence[lead.end() :] if lead else sentence)
    stated = _statements(clauses)
    affirmed = _union(clause.content for clause in stated if not clause.negated)
    content = _union(clause.content for clause in stated)
    return Answer(says, stated, affirmed, content)


def _statements(pieces: Iterable[str]) -> tuple[Statement, ...]:
    """Each distinct piece that has a word, taken apart."""
    return tuple(read(each) for each in dict.fromkeys(pieces) if any(map(str.isalnum, each)))


def _check(text: str) -> Check:
    statement = read(text)
    words = text.rstrip("?").split()
    verb = None if text.endswith("?") else first_finite(words)
    subject = read(" ".join(words[:verb])).content if verb else frozenset[str]()
    own = statement.content - subject
    return Check(statement, subject, own) if own else Check(statement, frozenset(), subject)


def _confirmed(check: Check, answers: Sequence[Answer]) -> bool:
    """Whether the answers that do not deny hold the check's subject, rest and numbers."""
    statement, own = check.statement, check.own
    stems = _union(each.content if statement.negated else each.affirmed for each in answers)
    return (
        own & statement.numbers <= stems
        and share(check.subject, statement, stems) >= _SUBJECT
        and share(own & statement.names, statement, stems) >= _NAMES
        and share(own, statement, stems) >= _OWN
    )


@lru_cache(maxsize=16_384)
def _contradicts(
    answer: Answer, check: Check, claim: frozenset[str], confirmed: frozenset[str]
) -> bool:
    """Whether an answer alone speaks against a check, given what all answers confirm of it.

    Kept, since verdicts with one answer left out ask the same of all others.
    """
    return _denies(answer, check) or _conflicts(answer, check, claim, confirmed)


@lru_cache(maxsize=16_384)
def _denies(answer: Answer, check: Check) -> bool:
    """A no about the check, or the check with the other polarity, or its opposite."""
    statement, own = check.statement, check.own
    about = shared(own | statement.names, statement, answer.content)
    if answer.says is False and weight(about, statement) >= _DENIED:
        return True
    return any(
        clause.negated != statement.negated
        or has_opposite(statement.words - clause.words, clause.words - statement.words)
        for clause in answer.clauses
        if share(own, statement, clause.content) >= _NEAR
    )


def _conflicts(
    answer: Answer, check: Check, claim: frozenset[str], confirmed: frozenset[str]
) -> bool:
    """Another value in the place of one of the check's that no answer confirms."""
    statement = check.statement
    open_ = [slot for slot in statement.slots if slot.value not in confirmed]
    if statement.negated or not open_:
        return False
    places = {(slot.before, slot.kind) for slot in open_ if slot.before}
    frame = statement.content - (statement.values - confirmed) - {slot.value for slot in open_}
    return any(
        (other.before, other.kind) in places
        for clause in answer.clauses
        if not clause.negated and share(frame, statement, clause.content) >= _FRAME
        for other in clause.slots
        if other.value not in claim
    )


def _union(sets: Iterable[frozenset[str]]) -> frozenset[str]:
    first, *others = [*sets, frozenset[str]()]
    return first.union(*others) if any(others) else first  # one sentence may be all there is


# == Atomicity ==


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
