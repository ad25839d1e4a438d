"""What an answer quotes of the evidence, and the sentences of it that the answer rests on.

Takes an answer with its question and the evidence; gives stretches of both, by their character
offsets, and the answer's status. A quotation is found as it is or but for spelling (letter case,
accents, white space, quote marks, dashes, invisible characters); a changed word makes it another.
"""

import re
import unicodedata
from bisect import bisect_left
from collections.abc import Iterator
from functools import lru_cache
from typing import Literal, NamedTuple

from decomposerl.replies.abstention import abstains
from decomposerl.replies.wordings import Wordings
from decomposerl.text.sentences import split_sentences
from decomposerl.text.words import Sentence, parse

AnswerStatus = Literal["quotes_evidence", "abstained", "not_in_evidence", "unknown"]
GroundMatch = Literal["exact", "normalised", "near"]
Span = tuple[int, int]

MOST_SENTENCES = 3
"""Most sentences of one answer."""
MOST_QUOTATIONS = 64
LONGEST_QUOTATION = 2_000
"""Characters. Marks further apart than this are a stray pair."""
_MOST_HITS = 1_000  # of a quotation: a hostile pair of texts can agree almost everywhere
_LEAST_SHARE = 0.5
_SHORT = 3  # content words below which an answer is read together with its question
_TELLING = 2  # content words of a sentence that is not repeated by chance
_TELLING_LETTERS = 3  # letters or digits of a word that is not found by chance
# Stems of a bare yes, no or verdict, which no words of the evidence bear out.
_BARE = parse(
    "yes no true false correct incorrect right wrong indeed support supports supported refute "
    "refutes refuted claim statement answer verdict evidence enough insufficient information info"
).content
_FORMS = Wordings("grounding")
_MARKS = "\"'“„«‘"  # those that open a quotation
_ALIKE = dict.fromkeys(map(ord, '"“”„‟«»‘’‚‛‹›ʼ`´′″'), "'")
_ALIKE |= dict.fromkeys(map(ord, "‐‑‒–—―−﹘﹣－"), "-")
_EDGES = " '.,;:!?-()[]…*_"
_WORD_GOES_ON = re.compile(r"[^\W_]{2}")


class Ground(NamedTuple):
    """A stretch of the evidence behind an answer, and the words of the answer that it bears out.

    Both are character offsets ``(start, end)``. ``match`` is near where only numbers and most
    words agree.
    """

    evidence: Span
    answer: Span
    match: GroundMatch


class _Placed(NamedTuple):
    """A sentence of a text, with its offsets and its spelling."""

    words: Sentence
    span: Span
    spelling: str


@lru_cache(maxsize=1024)  # rollouts of one claim repeat each other
def grounded_answer(
    question: str, answer: str, evidence: str
) -> tuple[AnswerStatus, tuple[Ground, ...]]:
    """Whether the evidence has an answer's words, and where; not whether that is right.

    ``abstained``: it says nothing (``abstains``). ``not_in_evidence``: nothing is near.
    ``unknown``: there is no evidence, or the answer is a bare yes, no or verdict.
    """
    if abstains(answer):
        return "abstained", ()
    if not evidence.strip() or not says_something(answer):
        return "unknown", ()
    found = grounds(question, answer, evidence)
    return "quotes_evidence" if found else "not_in_evidence", found


def says_something(answer: str) -> bool:
    """Whether an answer has words for the evidence to bear out: more than "Yes" or "Refuted"."""
    return not abstains(answer) and not parse(answer).content <= _BARE


def sentences_behind(question: str, answer: str, evidence: str) -> tuple[str, ...]:
    """At most ``MOST_SENTENCES`` sentences of the evidence, in its order.

    They are those that ``grounds`` touches. Empty means that nothing in the evidence is near, or
    that the answer says nothing (``says_something``).
    """
    if not says_something(answer):
        return ()
    stretches = [ground.evidence for ground in grounds(question, answer, evidence)]
    touched = (
        evidence[start:end]
        for start, end in sentence_spans(evidence)
        if any(first < end and start < last for first, last in stretches)
    )
    return tuple(touched)[:MOST_SENTENCES]


def sentence_spans(evidence: str) -> tuple[Span, ...]:
    """Character offsets of the evidence's sentences, in order."""
    return tuple(sentence.span for sentence in _sentences(evidence))


def grounds(question: str, answer: str, evidence: str) -> tuple[Ground, ...]:
    """The stretches of the evidence that an answer rests on, in the evidence's order.

    They are the sentences that the answer repeats, and what its other words quote. Where
    these quote nothing, it is for each sentence of them the one that holds all of its numbers and
    at least half of its content words, most first; an answer of fewer than three such words is read
    together with its question, and the sentence must hold all of the answer: word for word, or with
    a quarter of the words of both.
    """
    repeated: list[Ground] = []
    rest = list(answer)
    for sentence in _distinct(_sentences(evidence)):
        start, end = sentence.span
        if len(sentence.words.content) >= _TELLING:
            for place in _hits(sentence.spelling, answer):
                if answer[max(0, place[0] - 1) : place[0]].strip():
                    continue  # behind a mark it is a quotation
                exact = answer[slice(*place)] == evidence[start:end]
                repeated.append(Ground((start, end), place, "exact" if exact else "normalised"))
                rest[slice(*place)] = "\n" * (place[1] - place[0])
    others = "".join(rest)
    quoted = [Ground(hit[0], place, hit[1]) for place, hit in quotes(others, evidence) if hit]
    return tuple(sorted({*repeated, *(quoted or _nearest(question, others, evidence))}))


def quotes(answer: str, evidence: str) -> Iterator[tuple[Span, tuple[Span, GroundMatch] | None]]:
    """The first ``MOST_QUOTATIONS`` quotations of an answer, each with its place in the evidence.

    The place begins and ends at the edge of a word; None where the evidence does not have it.
    """
    for start, end in quotations(answer)[:MOST_QUOTATIONS]:
        quotation = answer[start:end]
        form = _spelling(quotation)[0].strip()
        places = list(_hits(form, evidence)) or list(_hits(form.strip(_EDGES), evidence))
        exact = [place for place in places if evidence[slice(*place)] == quotation]
        match: GroundMatch = "exact" if exact else "normalised"
        yield (start, end), ((exact or places)[0], match) if places else None


def quotations(text: str) -> list[Span]:
    """Offsets ``(start, end)`` of each quotation's inside, trimmed, in order.

    They do not overlap, and each holds a letter or a digit. Linear in the text, up to a
    logarithm; never raises.
    """
    closing = {mark: [m.start() for m in _FORMS[mark].finditer(text)] for mark in _MARKS}
    spans: list[Span] = []
    index = 0
    while opening := _FORMS["opening"].search(text, index):
        ends, index = closing[opening[0]], opening.end()
        nearest = bisect_left(ends, index)
        if nearest < len(ends) and ends[nearest] - index <= LONGEST_QUOTATION:
            inside = text[index : ends[nearest]]
            start = index + len(inside) - len(inside.lstrip())
            if any(map(str.isalnum, inside)):
                spans.append((start, start + len(inside.strip())))
            index = ends[nearest] + 1
    return spans


def _hits(wanted: str, text: str) -> Iterator[Span]:
    """Where a spelling stands in a text, with no word cut at either end; hits do not overlap."""
    whole, places = _spelling(text)
    start = whole.find(wanted) if wanted else -1
    for _ in range(_MOST_HITS):
        if start < 0:
            return
        end = next_start = start + len(wanted)
        if _WORD_GOES_ON.search(whole[max(0, start - 1) : start + 1]) or _WORD_GOES_ON.search(
            whole[end - 1 : end + 1]
        ):
            next_start = start + 1
        else:
            yield places[start], places[end - 1] + 1
        start = whole.find(wanted, next_start)


@lru_cache(maxsize=16)  # what is asked of answer and evidence comes together
def _spelling(text: str) -> tuple[str, list[int]]:
    """A text in small letters without accents, with one quote mark, dash and space.

    Then where each of its characters stands in the original.
    """
    form: list[str] = []
    places: list[int] = []
    for place, letter in enumerate(map(_plain, text.translate(_ALIKE))):
        if letter and not (letter == " " and form[-1:] == [" "]):
            form.append(letter)
            places.append(place)
    return "".join(form), places


@lru_cache(maxsize=8192)
def _plain(letter: str) -> str:
    """The small letter without accents, or nothing where there is nothing to see."""
    if letter.isspace():
        return " "
    if unicodedata.category(letter) in {"Mn", "Cf"}:
        return ""
    form = unicodedata.normalize("NFKD", letter.lower())
    return form[0] if all(map(unicodedata.combining, form[1:])) else letter


def _nearest(question: str, rest: str, evidence: str) -> Iterator[Ground]:
    """For each sentence of ``rest`` of the answer the nearest one, where one is near."""
    asked, sentences = parse(question).content, _sentences(evidence)
    without_lead = _FORMS["lead"].sub(lambda lead: " " * len(lead[0]), rest)
    for said, place, _ in _distinct(_placed(without_lead)):
        if not sentences or not said.content:
            continue
        short = len(said.content) < _SHORT
        required, wanted = said.numbers, said.content
        if short:
            required, wanted = said.content, said.content | asked
        shares = [
            len(wanted & words.content) / len(wanted) if required <= words.content else 0.0
            for words, *_ in sentences
        ]
        words, stretch, _ = sentences[shares.index(max(shares))]
        # A small number in a row of words is chance.
        telling = short and any(len(stem) >= _TELLING_LETTERS for stem in said.stems)
        verbatim = f" {' '.join(said.stems)} " in f" {' '.join(words.stems)} "
        near = max(shares) >= (_LEAST_SHARE / 2 if short else _LEAST_SHARE)
        if near or (telling and verbatim):
            yield Ground(stretch, place, "near")


_read = lru_cache(maxsize=1024)(parse)  # of a repeated sentence once: objects cost collections


def _placed(text: str) -> tuple[_Placed, ...]:
    """The parsed sentences of a text, which the splitter only trims."""
    placed, position = [], 0
    whole, places = _spelling(text)
    for sentence in split_sentences(text):
        start = text.index(sentence, position)
        position = start + len(sentence)
        spelling = whole[bisect_left(places, start) : bisect_left(places, position)].strip()
        placed.append(_Placed(_read(sentence), (start, position), spelling))
    return tuple(placed)


def _distinct(sentences: tuple[_Placed, ...]) -> list[_Placed]:
    """The first of those that are spelt alike: a repeated sentence is compared once."""
    return list({one.spelling: one for one in reversed(sentences)}.values())[::-1]


_sentences = lru_cache(maxsize=16)(_placed)  # of the evidence, which answers share
