"""Where an answer's quotations stand in the evidence.

Takes an answer and the evidence, gives one ``Citation`` a quotation: found as it is, or in
normal form (letter case, white space, quote marks, dashes, Unicode), or nearly, or not at
all. Offsets always point into the original texts.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Literal

from decomposerl.traces.alignment import edit_distance, nearest_window
from decomposerl.traces.normal_text import NormalText, normal_text
from decomposerl.traces.quotations import quotations

Match = Literal["exact", "normalised", "fuzzy", "missing"]

MOST_QUOTATIONS = 64
FEWEST_FUZZY_WORDS = 3
"""A name of two words with one of them changed is another name."""
MOST_FUZZY_WORDS = 150
_MOST_HITS = 1_000  # tries per quotation: a hostile pair of texts can agree almost everywhere
_LONGEST_STRETCH = 8_000  # characters; real words never come near it
_WORD = re.compile(r"\w+(?:'\w+)?")
_NUMBER = re.compile(r"\d+")
_LETTERS = re.compile(r"\w+")
_SENTENCE_END = re.compile(r"[.!?]\W*\Z")
_NEGATION = re.compile(r"\b(?:not|no|never|neither|nor|none|nobody|without)\b|n't\b")


@dataclass(frozen=True, slots=True)
class Citation:
    """A quotation: ``answer[start:end]``, found at ``evidence[found_start:found_end]``.

    ``similarity`` is 1 for exact and normalised matches, 0 where the quotation is missing,
    and else 1 − edits / length, over the characters of the normal forms.
    """

    start: int
    end: int
    match: Match
    found_start: int | None
    found_end: int | None
    similarity: float


class _Evidence:
    """The evidence with what the looser matches need, made when one of them is asked for."""

    def __init__(self, text: str) -> None:
        self.text = text

    @cached_property
    def normal(self) -> NormalText:
        return normal_text(self.text)

    @cached_property
    def words(self) -> list[re.Match[str]]:
        return list(_WORD.finditer(self.normal.text))

    @cached_property
    def names(self) -> frozenset[str]:
        return frozenset(_names(self.text, self.normal)[0])


def citations(answer: str, evidence: str, *, threshold: float = 0.8) -> tuple[Citation, ...]:
    """One citation for each of the first 64 quotations of ``answer``, in order.

    A match begins and ends at the edge of a word. A fuzzy match is at least ``threshold``
    similar, holds every number and name of the quotation and as many negations: a changed
    year or country is another statement, however similar. Names are words with a capital
    inside a sentence; at its start only those that the evidence has for names. Quotations of
    fewer than three or more than 150 words have no fuzzy match. Time is
    bounded by 64 × 150 × the words of the evidence.

    Raises:
        ValueError: ``threshold`` is not in (0, 1].
    """
    if not 0 < threshold <= 1:
        raise ValueError(f"threshold must be above 0 and at most 1, not {threshold}")
    spans = quotations(answer)[:MOST_QUOTATIONS]
    source = _source(evidence)
    return tuple(_located(answer, span, source, threshold) for span in spans)


@lru_cache(maxsize=16)  # the answers on one document come together
def _source(evidence: str) -> _Evidence:
    return _Evidence(evidence)


def _located(answer: str, span: tuple[int, int], source: _Evidence, threshold: float) -> Citation:
    quotation = answer[slice(*span)]
    for start in _hits(quotation, source.text):
        return Citation(*span, "exact", start, start + len(quotation), 1.0)
    normal = normal_text(quotation)
    for start in _hits(normal.text, source.normal.text):
        stretch = source.normal.span(start, start + len(normal.text))
        if stretch is not None:
            return Citation(*span, "normalised", *stretch, 1.0)
    near = _nearly(answer, span, source, threshold)
    return near or Citation(*span, "missing", None, None, 0.0)


def _hits(part: str, text: str) -> Iterator[int]:
    """Where ``part`` stands in ``text`` with no word cut at either end."""
    start = text.find(part) if part else -1
    for _ in range(_MOST_HITS):
        if start < 0:
            return
        if _is_whole(text, start, start + len(part)):
            yield start
        start = text.find(part, start + 1)


def _is_whole(text: str, start: int, end: int) -> bool:
    """Whether no word goes on beyond either end of a stretch that is not empty."""
    cut_before = start > 0 and _in_word(text[start]) and _in_word(text[start - 1])
    cut_after = end < len(text) and _in_word(text[end - 1]) and _in_word(text[end])
    return not cut_before and not cut_after


def _in_word(letter: str) -> bool:
    """Letters, digits, and what joins to them: accents and invisible characters."""
    return letter.isalnum() or unicodedata.category(letter) in {"Mn", "Mc", "Me", "Cf"}


def _nearly(
    answer: str, span: tuple[int, int], source: _Evidence, threshold: float
) -> Citation | None:
    """The nearest window of words, if it is near enough and says the same."""
    quotation = answer[slice(*span)]
    form = normal_text(quotation)
    normal = form.text
    words = _WORD.findall(normal)
    if not FEWEST_FUZZY_WORDS <= len(words) <= MOST_FUZZY_WORDS or not source.words:
        return None
    start, end = _nearest_stretch(words, normal, source)
    window = source.normal.text[start:end]
    stretch = source.normal.span(start, end) if _is_whole(source.normal.text, start, end) else None
    if stretch is None or not _says_the_same(normal, window):
        return None
    if not _names_the_same(_names(quotation, form), normal, window, source.names):
        return None
    similarity = 1 - edit_distance(normal, window) / max(len(normal), len(window))
    return Citation(*span, "fuzzy", *stretch, similarity) if similarity >= threshold else None


def _nearest_stretch(words: list[str], normal: str, source: _Evidence) -> tuple[int, int]:
    """Offsets in the evidence's normal form: by words first, then by letters around there.

    Empty where no word agrees. A misspelt word at an edge differs as a word; by its letters
    it belongs to the stretch.
    """
    numbers = {word: number for number, word in enumerate(dict.fromkeys(words))}
    long = [numbers.get(word[0], -1) for word in source.words]
    first, last, edits = nearest_window([numbers[word] for word in words], long)
    if edits >= len(words):
        return 0, 0
    around = source.words[max(0, first - edits) : last + edits]
    start, end = around[0].start(), around[-1].end()
    if end - start > _LONGEST_STRETCH:
        return 0, 0
    letters = list(map(ord, source.normal.text[start:end]))
    left, right, _ = nearest_window(list(map(ord, normal)), letters)
    touched = [
        word for word in around if word.end() > start + left and word.start() < start + right
    ]
    return (touched[0].start(), touched[-1].end()) if touched else (0, 0)


def _says_the_same(quotation: str, window: str) -> bool:
    numbers = Counter(_NUMBER.findall(quotation)) - Counter(_NUMBER.findall(window))
    return not numbers and len(_NEGATION.findall(quotation)) == len(_NEGATION.findall(window))


def _names(text: str, normal: NormalText) -> tuple[list[str], list[str]]:
    """Words with a capital in ``text``: those inside a sentence, and those at its start.

    A text all in capitals has none.
    """
    inside: list[str] = []
    first: list[str] = []
    if text.isupper():
        return inside, first
    for word in _LETTERS.finditer(normal.text):
        start = word.start()
        if text[normal.starts[start]].isupper():
            opens = not start or _SENTENCE_END.search(normal.text, max(0, start - 8), start)
            (first if opens else inside).append(_plain(word[0]))
    return inside, first


def _names_the_same(
    names: tuple[list[str], list[str]], quotation: str, window: str, known: frozenset[str]
) -> bool:
    """No name of the quotation is missing, nor one that the window opens with."""
    inside, first = names
    there, quoted = ([_plain(w) for w in _LETTERS.findall(text)] for text in (window, quotation))
    wanted = Counter([*inside, *(word for word in first if word in known)])
    return not wanted - Counter(there) and (there[0] not in known or there[0] in quoted)


def _plain(word: str) -> str:
    """Without accents, which are often lost where a name is written again."""
    letters = unicodedata.normalize("NFKD", word)
    return "".join(letter for letter in letters if not unicodedata.combining(letter))
