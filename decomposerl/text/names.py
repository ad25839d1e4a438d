"""Runs of capitalised words that look like names, from plain tokens.

Gives half-open index ranges. At the start of a sentence a capital proves nothing: there a
single word counts unless it is a known common word or ends like one.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from decomposerl.text.words import STOP_WORDS, word_set, words_of

_CONNECTORS = word_set("of the de la du von van der den di da del le el al & - –")
_SENTENCE_END = frozenset({".", "!", "?", "\n"})
_COMMON = word_set(
    "people women men man woman patients children adults infants boys girls students scientists "
    "experts doctors studies study research results data mice rats cells genes proteins water "
    "air food money time day year years new old high low large small big great good bad long "
    "short early late young human local despite unlike like given based overall moreover "
    "furthermore thus therefore hence meanwhile instead rather perhaps even still yet today now "
    "yes everyone someone anyone nobody whether within without across around near behind beyond "
    "above below always often sometimes almost half loss lack use risk rates rate levels level "
    "number percentage exposure higher lower therapy surgery drugs drug diet exercise alcohol "
    "coffee cancer disease pregnancy birth death women's men's animals dogs cats birds fish "
    "plants trees books book film films movie movies music song songs album band team teams "
    "game games school schools city town country countries state states war house company law "
    "taxes jobs crime police congress president doctor models model system systems methods "
    "method table accuracy first second third last next former two three four five six seven "
    "eight nine ten"
)
_COMMON_ENDINGS = words_of(
    "ing ed ly ous ive ful less ness ment ments tion tions sion sions ity ities ance ence ism "
    "logy ers ics able ible ical ial sis al ic"
)
_VERBAL = ("ed", "ing", "ly", "n't")
_PLAIN_VERBS = word_set(
    "won made took came went got gave became began ran wrote sang led left sold held found said "
    "says plays played live lived play come comes happen take place started based set born "
    "located known called time name number type part kind year years day world"
)

_SHORTEST_RUN, _LONGEST_RUN = 2, 5
_MOST_CONNECTORS, _LOOK_BACK = 2, 64
_LONG_WORD, _NOUN = 6, 3
"""Letters of a word whose ending is judged, and of a word that may be a noun."""


class Word(NamedTuple):
    """One token and whether white space follows it."""

    text: str
    space: bool


def name_runs(words: Sequence[Word]) -> Iterator[tuple[int, int]]:
    """Ranges of capitalised words, joined over "of", "the", "de", hyphens and the like."""
    position = 0
    while position < len(words):
        if not _capital(words[position].text):
            position += 1
            continue
        end = _run_end(words, position)
        start = position
        if _opens_sentence(words, position):
            start = _without_opening(words, position, end)
        lone_letter = end - start == 1 and len(words[start].text.strip(".")) == 1
        if start < end and not lone_letter:
            yield start, end
        position = end


def guessed_runs(words: Sequence[Word]) -> Iterator[tuple[int, int]]:
    """Ranges of two to five plain words, in a text that has no capital letter at all."""
    if any(letter.isupper() for word in words for letter in word.text):
        return
    start = 0
    for position in range(len(words) + 1):
        if position < len(words) and _noun_like(words[position].text):
            continue
        if _SHORTEST_RUN <= position - start <= _LONGEST_RUN:
            yield start, position
        start = position + 1


def _capital(text: str) -> bool:
    return text[0].isupper() and any(letter.isalpha() for letter in text)


def _run_end(words: Sequence[Word], start: int) -> int:
    """One past the run's last capitalised word; connectors count only between capitals."""
    end = position = start + 1
    while position < len(words):
        text = words[position].text
        if _capital(text) or (text[0].isdigit() and not words[position - 1].space):
            end = position + 1
        elif (
            text not in _CONNECTORS
            or position - end >= _MOST_CONNECTORS
            or (text in {"-", "–"} and (words[position - 1].space or words[position].space))
        ):
            break
        position += 1
    return end


def _opens_sentence(words: Sequence[Word], position: int) -> bool:
    near = words[max(0, position - _LOOK_BACK) : position]
    before = [word.text for word in near if word.text not in {'"', "“", "'", "(", " "}]
    return not before or before[-1] in _SENTENCE_END or before[-1].endswith((".", "!", "?"))


def _without_opening(words: Sequence[Word], start: int, end: int) -> int:
    """Where the name begins in a run that opens a sentence; ``end`` where there is none."""
    while start < end and words[start].text.lower() in (STOP_WORDS | _CONNECTORS):
        start += 1
    if start == end or end - start > 1:
        return start
    text = words[start].text
    if text[1:] != text[1:].lower():  # DNA, McDonald
        return start
    low = text.lower()
    common = low in _COMMON or (len(low) >= _LONG_WORD and low.endswith(tuple(_COMMON_ENDINGS)))
    return end if common else start


def _noun_like(text: str) -> bool:
    return (
        text.isalpha()
        and len(text) >= _NOUN
        and text not in STOP_WORDS
        and text not in _PLAIN_VERBS
        and not text.endswith(_VERBAL)
    )
