"""What a document answers and supports, by rules on words (paper, section 3.2, joint reward).

A question is answerable where one or two sentences hold what it names; an answer is correct
where every sentence of it has a counterpart in the document, with the same polarity. What a
reader would have to conclude, count or calculate is not answerable here, and not correct.

Answers alone refute a claim where one denies a fact of it, negates it, calls it false, or has
another name, number or year in the place of one that no answer confirms; they support it where they
together hold what every fact says. An abstention, or a yes or no that names nothing of the claim,
carries nothing.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from decomposerl.prompts.judge import AnswersVerdict
from decomposerl.replies.abstention import abstains
from decomposerl.text.clauses import AUXILIARIES, checks_of, first_finite
from decomposerl.text.sentences import split_sentences
from decomposerl.text.words import has_opposite
from resources.judge.rule_words import LEAD, Statement, clean, read, share, shared, weight

_ABOUT_DOCUMENT = re.compile(
    r"^(?:does|do|is|are|did) (?:the|this) (?:document|text|evidence|passage|article|source)s?\b"
    r"[^?]*\b(?:mention|say|state|list|include|contain|give|specify|name)",
    re.IGNORECASE,
)
_PART = re.compile(
    r"\s*(?:;|:| -- |—|–|, (?=(?:and|but|while|whereas|which|who|where|so)\b)"
    r"| (?:while|whereas|but) | and (?=never|not|no\b|explicitly|does|did|is|was|has))\s*"
)
_CONTRAST = re.compile(r", (?:and |but )?not (?:by |in |to |for |of |on |at )?[^,;.!?]{1,60}[.!]?$")
_NEGATION = re.compile(
    r"\b(not|no|never|neither|nor|none|nobody|nothing|nowhere|without|cannot|fail\w*|unable|lack\w*"
    r"|absence|denie[ds]|refused|barely|hardly)\b|(?=n['’]t\b)",
    re.IGNORECASE,
)
_WORDS = re.compile(r"\w+")
_CLAUSE = re.compile(r"[;:]|, (?:but|while|although|though) | but ")
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
_CANDIDATES = 8
"""Sentences with most words in common that are also compared loosely."""
_QUESTION_SHARE = 0.34
"""Least share of the question in the place where a short answer stands."""


@dataclass(frozen=True, slots=True, eq=False)
class Document:
    """A document's statements in order, all their stems, and its words as one text.

    ``holders``: for each stem the numbers of the statements that hold it, in order.
    """

    sentences: tuple[Statement, ...]
    holders: Mapping[str, Sequence[int]]
    everything: frozenset[str]
    running: str


@lru_cache(maxsize=64)
def read_document(text: str) -> Document:
    """Take a document apart; calls about one document come together."""
    sentences = tuple(read(sentence) for sentence in clean(text).sentences)
    holders: dict[str, list[int]] = {}
    for at, sentence in enumerate(sentences):
        for root in sentence.content:
            holders.setdefault(root, []).append(at)
    return Document(sentences, holders, frozenset(holders), _running(clean(text).text))


def answerable(document: str, question: str) -> bool:
    """Whether one or two sentences of ``document`` hold what answers ``question``."""
    asked = clean(question)
    if "?" not in question:
        return False
    if _ABOUT_DOCUMENT.search(asked.text):
        return bool(document.strip())
    one, wanted, window = _looked_up(asked.text, document)
    if not wanted or not window:
        return False
    found = _stems(window)
    plain = share(wanted & one.plain, one, found)
    every = share(wanted, one, found)
    if asks_yes_or_no(asked.text):
        return plain >= _YES_PLAIN and every >= _YES_ALL
    values = share(wanted & one.values, one, found)
    return plain >= _WH_PLAIN and values >= _WH_VALUES and every >= _WH_ALL


def answering(document: str, question: str) -> tuple[str, ...]:
    """The one or two sentences that make ``question`` answerable, best first; else none."""
    if not answerable(document, question):
        return ()
    return tuple(one.text for one in _looked_up(clean(question).text, document)[2])


def _looked_up(question: str, document: str) -> tuple[Statement, frozenset[str], list[Statement]]:
    """A question, the stems that it asks about, and the two sentences that hold most of them."""
    one = read(question)
    return one, one.topic, _window(one.topic, one, read_document(document), 2)


def asks_yes_or_no(question: str) -> bool:
    """Whether the question opens with an auxiliary."""
    words = question.split()
    return bool(words) and words[0].lower() in AUXILIARIES


def correct(document: str, question: str, answer: str) -> bool:
    """Whether ``document`` supports every part of ``answer``, read with its question."""
    said = clean(answer)
    if said.orders or not said.sentences:
        return False
    text = said.text
    lead = LEAD.match(text)
    rest = text[lead.end() :] if lead else text
    source = read_document(document)
    asked = read(clean(question).text)
    if any(map(abstains, said.sentences)):
        return False  # nobody is asked about an abstention: this one comes with more
    pieces = [_CONTRAST.sub("", part) for one in split_sentences(rest) for part in _PART.split(one)]
    parts = [read(part) for part in dict.fromkeys(pieces) if any(map(str.isalnum, part))]
    if lead and not _lead_holds(asked, source, parts, yes=bool(lead["yes"])):
        return False
    if len(parts) > min(MOST_PARTS, MOST_COMPARED // (len(source.sentences) or 1)):
        return False
    if not (lead or parts):
        return False
    return all(_supported(part, asked, source) for part in parts)


def _lead_holds(
    asked: Statement, source: Document, parts: Sequence[Statement], *, yes: bool
) -> bool:
    """Whether the document agrees with a yes, or a no, to what is asked."""
    wanted = asked.topic
    window = _window(wanted, asked, source, 1)
    if not wanted or not window:
        return False
    best = window[0]
    every = share(wanted, asked, best.content)
    said = bool(parts) and best.negated != asked.negated
    if yes:
        both = _stems(_window(wanted, asked, source, 2))
        values = wanted & asked.values
        return not said and share(values, asked, both) == 1 and every >= _QUESTION_SHARE
    return said or every < 1 or best.negated != asked.negated


def _supported(part: Statement, asked: Statement, source: Document) -> bool:
    """Whether the document holds one part of an answer."""
    wanted = part.topic
    if len(wanted) >= _SHORT and _running(part.text) in source.running:
        return True
    if part.negated:
        return _denial_holds(part, wanted, source)
    own = (wanted & part.plain) - shared(wanted & part.plain, part, asked.content)
    best = next(iter(_window(wanted, part, source, 1)), None)
    if not wanted or best is None:
        return not wanted
    if (
        not wanted & part.values <= best.content
        or share(own, part, source.everything) < _PLAIN_SHARE
    ):
        return False
    new = (wanted & part.values) | own
    enough = share(new, part, best.content) >= _ONE_SENTENCE
    return enough and not _negated_there(wanted, part, best)


def _negated_there(wanted: frozenset[str], part: Statement, best: Statement) -> bool:
    """Whether the clause of ``best`` that holds most of ``wanted`` is negated."""
    if not best.negated:
        return False
    clauses = [read(clause) for clause in _CLAUSE.split(best.text) if clause.strip()]
    return max(clauses, key=lambda one: share(wanted, part, one.content)).negated


def _denial_holds(part: Statement, wanted: frozenset[str], source: Document) -> bool:
    """A denial holds where the document denies it too, or holds no such value.

    What stands before the negation is asserted.
    """
    cut = _NEGATION.search(part.text)
    asserted = read(part.text[: cut.start()]).values if cut else frozenset[str]()
    denied = read(part.text[cut.end() :]).values & wanted if cut else wanted & part.values
    if not asserted <= source.everything:
        return False
    if not denied <= source.everything:
        return True
    best = next(iter(_window(wanted, part, source, 1)), None)
    if best is None or share(wanted, part, best.content) < _ONE_SENTENCE:
        return True
    return _negated_there(wanted, part, best)


def _window(wanted: frozenset[str], of: Statement, source: Document, most: int) -> list[Statement]:
    """At most ``most`` sentences that together hold most of ``wanted``, best first."""
    chosen: list[Statement] = []
    rest = wanted
    while rest and len(chosen) < most:
        holding = {at for root in rest for at in source.holders.get(root, ())}
        exact = [source.sentences[at] for at in sorted(holding)]
        near = sorted(exact, key=lambda one: -weight(rest & one.content, of))[:_CANDIDATES]
        scored = [(shared(rest, of, one.content), one) for one in near]
        if not scored:
            break
        found, best = max(scored, key=lambda pair: (weight(pair[0], of), -len(pair[1].content)))
        chosen.append(best)
        rest -= found
    return chosen


def _running(text: str) -> str:
    """The words in order, lower-case, a space around each."""
    return f" {' '.join(_WORDS.findall(text.lower()))} "


def _stems(sentences: Iterable[Statement]) -> frozenset[str]:
    first, *others = *(sentence.content for sentence in sentences), frozenset[str]()
    return first.union(*others) if any(others) else first  # one sentence may be all there is


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
