"""Which verdict answers alone support, by rules on words (paper, section 3.2, coverage).

The claim is cut into facts. Refuted: an answer denies one, negates it, calls it false, or has
another name, number or year in the place of one that no answer confirms. Supported: the
answers together hold what every fact says. An answer is taken at its word; an abstention, or a
yes or no that names nothing of the claim, carries nothing.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from decomposerl.judge.call import AnswersVerdict
from decomposerl.text.clause_words import first_finite
from decomposerl.text.clauses import checks_of
from decomposerl.text.words import has_opposite
from decomposerl.traces.abstention import abstains
from resources.judge.rule_text import clean
from resources.judge.rule_words import (
    DATING,
    LEAD,
    PLACING,
    Slot,
    Statement,
    read,
    share,
    shared,
    weight,
)

_SUBJECT, _OWN, _WHOLE = 0.4, 0.5, 0.5
"""Least share of a check's subject, of the rest of it, and of the whole, that is confirmed."""
_NAMES = 0.75
"""Least share of the names among the rest."""
_LONGEST = 100
"""Words of a sentence that is cut into facts; a longer one is no claim."""
MOST_CHECKS = 100
"""Facts of a claim at most: a longer text is no claim, and no answers suffice for it."""
_DENIED, _FRAME, _NEAR = 3, 0.5, 0.7
"""Least weight that a "no" shares with the claim, and least shares of a contradiction."""


@dataclass(frozen=True, slots=True, eq=False)
class Check:
    """One fact of a claim, its subject's stems, and the stems of the rest."""

    statement: Statement
    subject: frozenset[str]
    own: frozenset[str]


@dataclass(frozen=True, slots=True, eq=False)
class Answer:
    """What an answer states, and whether it opens with a yes (True) or a no (False).

    ``clauses`` holds each distinct sentence once; ``affirmed`` and ``denied`` are the stems of
    those that are not negated and of those that are, ``content`` is both. ``silent``: it
    abstains.
    """

    silent: bool
    says: bool | None
    clauses: tuple[Statement, ...]
    affirmed: frozenset[str]
    denied: frozenset[str]
    content: frozenset[str]


def verdict(claim: str, answers: Sequence[str]) -> AnswersVerdict:
    """The verdict that the answers support, whatever their order."""
    checks = checks_in(claim)
    known = [answer for answer in map(read_answer, answers) if not answer.silent]
    if not known or not 0 < len(checks) <= MOST_CHECKS:
        return "NotEnoughInfo"
    confirmed = _union(answer.affirmed for answer in known)
    content = _union(check.statement.content for check in checks)
    for check in checks:
        stated = confirmed & (content | {slot.value for slot in check.statement.slots})
        if any(_contradicts(answer, check, content, stated) for answer in known):
            return "Refuted"
    if all(_confirmed(check, known) for check in checks):
        return "Supported"
    return "NotEnoughInfo"


@lru_cache(maxsize=4096)
def checks_in(claim: str) -> tuple[Check, ...]:
    """The facts of a claim that have content, in the order of its wording."""
    pieces: list[str] = []
    for sentence in clean(claim).sentences:
        body = sentence.rstrip(" .;:!,?")
        pieces += checks_of(body) if len(body.split()) <= _LONGEST else [body]
    return tuple(check for check in map(_check, pieces) if check.statement.content)


@lru_cache(maxsize=16_384)
def read_answer(answer: str) -> Answer:
    """What an answer states; what it tells the judge to do is passed over."""
    says: bool | None = None
    clauses: list[str] = []
    for index, sentence in enumerate(clean(answer).sentences):
        if abstains(sentence):
            continue
        lead = LEAD.match(sentence)
        if lead and index == 0:
            says = bool(lead["yes"])
        clauses.append(sentence[lead.end() :] if lead else sentence)
    stated = tuple(
        read(clause) for clause in dict.fromkeys(clauses) if any(map(str.isalnum, clause))
    )
    affirmed = _union(one.content for one in stated if not one.negated)
    denied = _union(one.content for one in stated if one.negated)
    return Answer(abstains(answer), says, stated, affirmed, denied, affirmed | denied)


def _check(text: str) -> Check:
    statement = read(text)
    words = text.rstrip("?").split()
    verb = None if text.endswith("?") else first_finite(words)
    subject = read(" ".join(words[:verb])).content if verb else frozenset[str]()
    own = statement.content - subject
    return Check(statement, subject, own) if own else Check(statement, frozenset(), subject)


def _confirmed(check: Check, answers: Sequence[Answer]) -> bool:
    """Whether the answers that do not deny hold the check's subject, rest and numbers."""
    statement = check.statement
    stems = _union(_said(answer, statement) for answer in answers)
    return (
        check.own & statement.numbers <= stems
        and share(check.subject, statement, stems) >= _SUBJECT
        and share(check.own & statement.names, statement, stems) >= _NAMES
        and share(check.own, statement, stems) >= _OWN
        and share(statement.content, statement, stems) >= _WHOLE
    )


def _said(answer: Answer, statement: Statement) -> frozenset[str]:
    """What an answer holds for a check: its sentences of the same polarity."""
    if answer.says is False and not statement.negated:
        return answer.affirmed if len(answer.affirmed & statement.content) > 1 else frozenset()
    return answer.content if statement.negated else answer.affirmed


@lru_cache(maxsize=16_384)
def _contradicts(
    answer: Answer, check: Check, claim: frozenset[str], confirmed: frozenset[str]
) -> bool:
    """Whether an answer alone speaks against a check, given what all answers confirm of it.

    Kept, since verdicts with one answer left out ask the same of all others.
    """
    return _refused(answer, check) or _conflicts(answer, check, claim, confirmed)


@lru_cache(maxsize=16_384)
def _refused(answer: Answer, check: Check) -> bool:
    return _denies(answer, check) or any(_negates(one, check) for one in answer.clauses)


def _denies(answer: Answer, check: Check) -> bool:
    """A no about the check, unless what follows says just what the check says."""
    if answer.says is not False:
        return False
    statement = check.statement
    about = shared(check.own | statement.names, statement, answer.content)
    if weight(about, statement) < _DENIED or not about & (check.own | statement.names):
        return False
    agrees = answer.denied if statement.negated else answer.affirmed
    return share(check.own, statement, agrees) < _NEAR


def _negates(one: Statement, check: Check) -> bool:
    """The check with the other polarity, its opposite, or the check called false."""
    statement = check.statement
    if one.absent or share(check.own, statement, one.content) < _NEAR:
        return False
    if share(check.subject, statement, one.content) < _SUBJECT and not one.names:
        return False
    opposite = has_opposite(statement.words - one.words, one.words - statement.words)
    return one.negated != statement.negated or opposite or (one.doubts and not statement.doubts)


def _conflicts(
    answer: Answer, check: Check, claim: frozenset[str], confirmed: frozenset[str]
) -> bool:
    """Another value in the place of one of the check's that no answer confirms."""
    statement = check.statement
    open_ = [slot for slot in statement.slots if slot.value not in confirmed]
    if statement.negated or not open_:
        return False
    named = statement.content - (statement.values - confirmed)
    frame = named - {slot.value for slot in open_}

    def conflicts(one: Statement) -> bool:
        if one.negated or (statement.values and not named & one.values):
            return False
        known = share(frame, statement, one.content)
        return any(
            _same_place(slot, other)
            for slot in open_
            if known >= _FRAME
            for other in one.slots
            if other.value not in claim
        )

    return any(map(conflicts, answer.clauses))


def _same_place(one: Slot, other: Slot) -> bool:
    """Whether two values answer the same question; two subjects do not."""
    if one.kind != other.kind:
        return False
    if one.kind == "number":
        return one.after == other.after != ""
    if one.kind == "year":
        return {one.before, other.before} <= DATING or one.before == other.before
    return one.before == other.before and one.before in PLACING


def _union(sets: Iterable[frozenset[str]]) -> frozenset[str]:
    return frozenset[str]().union(*sets)
