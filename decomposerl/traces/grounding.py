"""What an answer rests on in the evidence, and whether the evidence says otherwise.

Takes an answer with its question and the evidence; gives stretches and sentences of the evidence,
word for word, and the answer's status.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, NamedTuple

from decomposerl.replies.abstention import abstains
from decomposerl.text.sentences import split_sentences
from decomposerl.text.words import Sentence, parse
from decomposerl.traces.citations import citations

AnswerStatus = Literal["quotes_evidence", "abstained", "contradicted", "not_in_evidence", "unknown"]
GroundMatch = Literal["exact", "normalised", "near"]
Span = tuple[int, int]

MOST_SENTENCES = 3
"""Most sentences of one answer."""
_LEAST_SHARE = 0.5
_SHORT = 3
"""Content words below which an answer is read together with its question."""
_TELLING = 2
"""Content words of a sentence that is not repeated by chance."""
_TELLING_LETTERS = 3
"""Letters or digits of a word that is not found by chance."""
_ABOUT_THE_SAME = 0.6
"""Least share of question and answer in a sentence whose number can contradict the answer."""
_DENIES = 0.75
"""Least share of a negated answer in a sentence that states the contrary."""
_NOT_DENIED = re.compile(
    r"(?:\bnot|n['’]t)\s+(?:only|just|merely)\b|(?:\bnot|n['’]t)\b.*\b(?:until|before)\b",
    re.IGNORECASE,
)
_YEAR = re.compile(r"1\d{3}|20\d{2}")
_BARE = parse(
    "yes no true false correct incorrect right wrong indeed support supports supported refute "
    "refutes refuted claim statement answer verdict evidence enough insufficient information info"
).content
"""Stems of a bare yes, no or verdict, which no words of the evidence bear out."""
_LEAD = re.compile(r"^\W*(?:yes|no|true|false|correct|incorrect)\b[\s,.:;!–—-]*", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Ground:
    """A stretch of the evidence behind an answer, and the words of the answer that it bears out.

    Both are character offsets ``(start, end)``; ``answer`` is None where it cannot be located.
    ``match`` is near where only numbers and most words agree. ``place`` is the number of the
    (first) sentence in the evidence, from 0.
    """

    answer: Span | None
    evidence: Span
    match: GroundMatch
    place: int


class _Placed(NamedTuple):
    """A sentence of the evidence, its offsets, and its words with a space at both ends."""

    sentence: Sentence
    start: int
    end: int
    spaced: str


@dataclass(frozen=True, slots=True)
class GroundedAnswer:
    """An answer's status and the stretches of the evidence that it was decided by."""

    status: AnswerStatus
    grounds: tuple[Ground, ...]


@lru_cache(maxsize=1024)  # rollouts of one claim repeat each other
def grounded_answer(question: str, answer: str, evidence: str) -> GroundedAnswer:
    """Whether the evidence has an answer's words; whether that is right is not checked.

    ``abstained``: it says nothing (``abstains``). ``contradicted``: a sentence about the same thing
    has other numbers, none of which the answer gives, while the evidence has none of the answer's;
    or it states what the answer negates. ``not_in_evidence``: nothing is near. ``unknown``: there
    is no evidence, or the answer is a bare yes, no or verdict.
    """
    if abstains(answer):
        return GroundedAnswer("abstained", ())
    if not evidence.strip() or not says_something(answer):
        return GroundedAnswer("unknown", ())
    found = grounds(question, answer, evidence)
    against = _against(question, answer, evidence, found)
    if against:
        return GroundedAnswer("contradicted", against)
    return GroundedAnswer("quotes_evidence" if found else "not_in_evidence", found)


def says_something(answer: str) -> bool:
    """Whether an answer has words for the evidence to bear out: more than "Yes" or "Refuted"."""
    return not abstains(answer) and not _read(answer).content <= _BARE


def sentences_behind(question: str, answer: str, evidence: str) -> tuple[str, ...]:
    """At most ``MOST_SENTENCES`` sentences of the evidence, in its order.

    They are those that ``grounds`` touches. Empty means that nothing in the evidence is near, or
    that the answer says nothing (``says_something``).
    """
    if not says_something(answer):
        return ()
    sentences = _placed(evidence)
    places = {
        place
        for ground in grounds(question, answer, evidence)
        for place, (_, first, last, _) in enumerate(sentences)
        if first < ground.evidence[1] and ground.evidence[0] < last
    }
    return tuple(sentences[place].sentence.text for place in sorted(places)[:MOST_SENTENCES])


def grounds(question: str, answer: str, evidence: str) -> tuple[Ground, ...]:
    """The stretches of the evidence that an answer rests on, in the evidence's order.

    They are the sentences that the answer repeats, and what its other words quote. Where
    these quote nothing, it is for each sentence of them the one that holds all of its numbers and
    at least half of its content words, most first; an answer of fewer than three such words is read
    together with its question, and the sentence must hold all of the answer: word for word, or with
    a quarter of the words of both.
    """
    repeated, rest = _repeated(answer, evidence)
    others = _quoted(rest, answer, evidence) or list(_nearest(question, rest, answer, evidence))
    return tuple(sorted({*repeated, *others}, key=lambda one: (one.evidence, one.answer or ())))


def _quoted(rest: str, answer: str, evidence: str) -> list[Ground]:
    """What the quotations in ``rest`` of the answer stand for."""
    matches: dict[str, GroundMatch] = {"exact": "exact", "normalised": "normalised"}
    found = []
    for one in citations(rest, evidence):
        if one.found_start is None or one.found_end is None:
            continue
        places = (place for place, it in enumerate(_placed(evidence)) if one.found_start < it.end)
        span = _located(rest[one.start : one.end], answer)
        stretch, match = (one.found_start, one.found_end), matches.get(one.match, "near")
        found.append(Ground(span, stretch, match, next(places, 0)))
    return found


def _repeated(answer: str, evidence: str) -> tuple[list[Ground], str]:
    """The sentences that the answer repeats, white space apart, and its other words."""
    rest = f" {' '.join(answer.split())} "
    found = []
    for place, (one, start, end, text) in enumerate(_placed(evidence)):
        if len(one.content) >= _TELLING and text in rest:
            span = _located(text.strip(), answer)
            exact = span is not None and answer[slice(*span)] == one.text
            found.append(Ground(span, (start, end), "exact" if exact else "normalised", place))
            rest = rest.replace(text, " \n ")
    return found, rest


def _located(part: str, text: str) -> Span | None:
    """Where ``part``, whose white space may differ, stands in ``text``."""
    start = text.find(part)
    if start >= 0:
        return start, start + len(part)
    found = re.search(r"\s+".join(map(re.escape, part.split())), text) if part.strip() else None
    return None if found is None else found.span()


def _nearest(question: str, rest: str, answer: str, evidence: str) -> Iterator[Ground]:
    """For each sentence of ``rest`` of the answer the nearest one, where one is near."""
    index = _placed(evidence)
    asked = _read(question).content
    for text in dict.fromkeys(split_sentences(_LEAD.sub("", rest))):
        said = _read(text)
        if not said.content:
            continue
        short = len(said.content) < _SHORT
        required = said.content if short else said.numbers
        wanted = said.content | asked if short else said.content
        scores = [
            len(wanted & one.content) / len(wanted) if required <= one.content else 0.0
            for one, _, _, _ in index
        ]
        best = max(range(len(scores)), key=lambda place: scores[place], default=-1)
        if best < 0:
            return
        near = scores[best] >= (_LEAST_SHARE / 2 if short else _LEAST_SHARE)
        if near or (short and _verbatim(said, index[best].sentence)):
            _, start, end, _ = index[best]
            yield Ground(_located(text, answer), (start, end), "near", best)


def _verbatim(said: Sentence, sentence: Sentence) -> bool:
    """Whether a sentence has the answer's content words in a row; a small number is chance."""
    telling = any(len(stem) >= _TELLING_LETTERS for stem in said.stems)
    return telling and f" {' '.join(said.stems)} " in f" {' '.join(sentence.stems)} "


def _against(
    question: str, answer: str, evidence: str, found: Sequence[Ground]
) -> tuple[Ground, ...]:
    """The sentences that contradict a sentence of the answer; none where it quotes its source."""
    if any(one.match != "near" for one in found):
        return ()
    asked = _read(question)
    against = []
    for text in dict.fromkeys(split_sentences(_LEAD.sub("", answer))):
        said = _read(text)
        place = _other_number(asked, said, evidence)
        if place < 0:
            place = _denied(said, evidence)
        if place >= 0:
            _, start, end, _ = _placed(evidence)[place]
            against.append(Ground(_located(text, answer), (start, end), "near", place))
    return tuple(dict.fromkeys(against))


def _other_number(asked: Sentence, said: Sentence, evidence: str) -> int:
    """The place of the sentence about the same thing with other numbers of the same kind, or -1."""
    own = said.numbers - asked.numbers
    topic = (said.content | asked.content) - said.numbers - asked.numbers
    if not own or not topic or own & _numbers(evidence):
        return -1
    best, most = -1, _ABOUT_THE_SAME
    for place, (one, _, _, _) in enumerate(_placed(evidence)):
        share = len(topic & one.content) / len(topic)
        better = share > most or (share == most and best < 0)
        if better and _alike(own, one.numbers - asked.numbers):
            best, most = place, share
    return best


def _alike(some: frozenset[str], others: frozenset[str]) -> bool:
    """Whether both have a year, or both another number."""
    kinds = [{bool(_YEAR.fullmatch(number)) for number in each} for each in (some, others)]
    return not kinds[0].isdisjoint(kinds[1])


def _denied(said: Sentence, evidence: str) -> int:
    """The place of the sentence that states what a negated one denies, or -1."""
    if not said.negated or len(said.content) < _TELLING or _NOT_DENIED.search(said.text):
        return -1
    shares = [
        0.0
        if one.negated or not said.numbers <= one.numbers
        else len(said.content & one.content) / len(said.content)
        for one, _, _, _ in _placed(evidence)
    ]
    best = max(range(len(shares)), key=lambda place: shares[place], default=-1)
    return best if best >= 0 and shares[best] >= _DENIES else -1


_read = lru_cache(maxsize=1024)(parse)


def sentence_spans(evidence: str) -> tuple[Span, ...]:
    """Character offsets of the evidence's sentences, in order."""
    return tuple((start, end) for _, start, end, _ in _placed(evidence))


@lru_cache(maxsize=16)  # the answers on one document come together
def _placed(evidence: str) -> tuple[_Placed, ...]:
    """The parsed sentences, which the splitter only trims."""
    placed, position = [], 0
    for text in split_sentences(evidence):
        start = evidence.index(text, position)
        position = start + len(text)
        placed.append(_Placed(parse(text), start, position, f" {' '.join(text.split())} "))
    return tuple(placed)


@lru_cache(maxsize=16)
def _numbers(evidence: str) -> frozenset[str]:
    return frozenset().union(*(one.numbers for one, _, _, _ in _placed(evidence)))
