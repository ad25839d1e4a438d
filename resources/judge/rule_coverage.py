"""Which verdict answers alone support, by rules on words (paper, section 3.2, coverage).

The claim is cut into facts. Refuted: an answer denies one, negates it, calls it false, or has
another name, number or year in the place of one that no answer confirms. Supported: the
answers together hold what every fact says. An answer is taken at its word; an abstention, or a
yes or no that names nothing of the claim, carries nothing.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from decomposerl.prompts.judge import AnswersVerdict
from decomposerl.replies.abstention import abstains
from decomposerl.text.clauses import checks_of, first_finite
from decomposerl.text.words import has_opposite
from resources.judge.rule_text import clean
from resources.judge.rule_words import (
    LEAD,
    Statement,
    read,
    share,
    shared,
    weight,
)

_SUBJECT, _OWN = 0.4, 0.5
"""Least share of a check's subject, and of the rest of it, that is confirmed."""
_NAMES = 0.75
"""Least share of the names among the rest."""
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

    ``clauses`` holds each distinct sentence once, ``content`` the stems of all, ``affirmed``
    of those that are not negated. ``silent``: it abstains.
    """

    silent: bool
    says: bool | None
    clauses: tuple[Statement, ...]
    affirmed: frozenset[str]
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
        pieces += checks_of(sentence.rstrip(" .;:!,?"))
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
    content = _union(one.content for one in stated)
    return Answer(abstains(answer), says, stated, affirmed, content)


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
    stems = _union(one.content if statement.negated else one.affirmed for one in answers)
    return (
        check.own & statement.numbers <= stems
        and share(check.subject, statement, stems) >= _SUBJECT
        and share(check.own & statement.names, statement, stems) >= _NAMES
        and share(check.own, statement, stems) >= _OWN
    )


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
    """A no about the check."""
    statement = check.statement
    about = shared(check.own | statement.names, statement, answer.content)
    return answer.says is False and weight(about, statement) >= _DENIED


def _negates(one: Statement, check: Check) -> bool:
    """The check with the other polarity, or its opposite."""
    statement = check.statement
    if share(check.own, statement, one.content) < _NEAR:
        return False
    opposite = has_opposite(statement.words - one.words, one.words - statement.words)
    return one.negated != statement.negated or opposite


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
        for one in answer.clauses
        if not one.negated and share(frame, statement, one.content) >= _FRAME
        for other in one.slots
        if other.value not in claim
    )


def _union(sets: Iterable[frozenset[str]]) -> frozenset[str]:
    return frozenset[str]().union(*sets)
