"""The evidence sentences that an answer rests on.

Takes an answer with its question and the evidence; gives sentences of the evidence, word for word.
"""

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache

from decomposerl.text.sentences import split_sentences
from decomposerl.text.words import Sentence, parse
from decomposerl.traces.abstention import abstains
from decomposerl.traces.citations import citations

MOST_SENTENCES = 3
"""Most sentences of one answer."""
_LEAST_SHARE = 0.5
_SHORT = 3
"""Content words below which an answer is read together with its question."""
_TELLING = 2
"""Content words of a sentence that is not repeated by chance."""
_LEAD = re.compile(r"^\W*(?:yes|no|true|false|correct|incorrect)\b[\s,.:;!–—-]*", re.IGNORECASE)


def sentences_behind(question: str, answer: str, evidence: str) -> tuple[str, ...]:
    """At most ``MOST_SENTENCES`` sentences of the evidence, in its order; none for an abstention.

    They are those that the answer repeats as they are, and those that its other words quote. Where
    these quote nothing, it is for each sentence of them the one that holds all of its numbers and
    at least half of its content words, most first; an answer of fewer than three such words is read
    together with its question, and the sentence must hold all of the answer. Empty means that
    nothing in the evidence is near.
    """
    if abstains(answer):
        return ()
    sentences = split_sentences(evidence)
    places, rest = _repeated(answer, evidence)
    quoted = _quoted(rest, evidence, sentences)
    places += quoted or [place for place in _nearest(question, rest, evidence) if place >= 0]
    return tuple(sentences[place] for place in sorted(set(places))[:MOST_SENTENCES])


def _quoted(answer: str, evidence: str, sentences: Sequence[str]) -> list[int]:
    """The places of the sentences that the answer's quotations touch."""
    found = [
        (one.found_start, one.found_end)
        for one in citations(answer, evidence)
        if one.found_start is not None and one.found_end is not None
    ]
    spans = _spans(evidence, sentences) if found else []
    return [
        place
        for start, end in found
        for place, (first, last) in enumerate(spans)
        if first < end and start < last
    ]


def _spans(evidence: str, sentences: Sequence[str]) -> list[tuple[int, int]]:
    """Offsets of the sentences, which the splitter gives in order and only trims."""
    spans, position = [], 0
    for sentence in sentences:
        start = evidence.index(sentence, position)
        position = start + len(sentence)
        spans.append((start, position))
    return spans


def _repeated(answer: str, evidence: str) -> tuple[list[int], str]:
    """The places of the sentences that the answer repeats, white space apart; its other words."""
    rest = f" {' '.join(answer.split())} "
    places = []
    for place, one in enumerate(_parsed(evidence)):
        text = f" {' '.join(one.text.split())} "
        if len(one.content) >= _TELLING and text in rest:
            places.append(place)
            rest = rest.replace(text, " \n ")
    return places, rest


def _nearest(question: str, answer: str, evidence: str) -> Iterator[int]:
    """For each sentence of the answer the place of the nearest one, -1 where none is near."""
    index = _parsed(evidence)
    asked = parse(question).content
    for text in split_sentences(_LEAD.sub("", answer)):
        said = parse(text)
        if not said.content:
            continue
        short = len(said.content) < _SHORT
        required = said.content if short else said.numbers
        wanted = said.content | asked if short else said.content
        scores = [
            len(wanted & one.content) / len(wanted) if required <= one.content else 0.0
            for one in index
        ]
        best = max(range(len(scores)), key=lambda place: scores[place], default=-1)
        yield (
            best
            if best >= 0 and scores[best] >= (_LEAST_SHARE / 2 if short else _LEAST_SHARE)
            else -1
        )


@lru_cache(maxsize=16)
def _parsed(evidence: str) -> tuple[Sentence, ...]:
    """The parsed sentences; the answers on one document come together."""
    return tuple(map(parse, split_sentences(evidence)))
