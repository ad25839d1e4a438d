"""Where an answer's quotations stand in the evidence.

Takes an answer and the evidence, gives one ``Citation`` a quotation: found as it is, or in
normal form (letter case, white space, quote marks, dashes, Unicode), or nearly, or not at
all. Offsets always point into the original texts. Below that: the spans between quotation marks,
the normal form with the way back to the original, and the nearest stretch by edit distance.
"""

import re
import unicodedata
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from decomposerl.normal_form import normalised

Match = Literal["exact", "normalised", "fuzzy", "missing"]

MOST_QUOTATIONS = 64
FEWEST_FUZZY_WORDS = 3
"""A name of two words with one of them changed is another name."""
MOST_FUZZY_WORDS = 150
MOST_EDITS = 0.2
"""Share of letters, over the normal forms."""
_MOST_HITS = 1_000  # tries per quotation: a hostile pair of texts can agree almost everywhere
_LONGEST_STRETCH = 8_000  # characters; real words never come near it
_WORD = re.compile(r"\w+(?:'\w+)?")
_NUMBER = re.compile(r"\d+")
_LETTERS = re.compile(r"\w+")
_SENTENCE_END = re.compile(r"[.!?]\W*\Z")
_NEGATION = re.compile(r"\b(?:not|no|never|neither|nor|none|nobody|without)\b|n't\b")
LONGEST_QUOTATION = 2_000
"""Characters. Marks further apart than this are a stray pair."""

# A mark that can open, by what closes it. A straight mark opens before a letter and not after
# one (5" is inches, dogs' is a genitive), and closes the other way round.
# The shortened words that begin with a mark ('tis, '90s) open nothing.
_OPENING = re.compile(
    r"(?<!\w)(?:\"|'(?!(?:\d\ds?|tis|twas|em|til|cause|n)\b))(?=\S)|[“„«‘]", re.IGNORECASE
)
_CLOSING = {
    '"': re.compile(r'(?<=\S)"(?!\w)'),
    "'": re.compile(r"(?<=\S)'(?!\w)"),
    "“": re.compile("[”“]"),
    "„": re.compile("[“”]"),
    "«": re.compile("»"),
    "‘": re.compile(r"’(?!\w)"),
}
# Before the compatibility form, which would make two marks of one, or a space and an accent.
_MARKS = {ord(mark): "'" for mark in '"“”„‟«»‘’‚‛‹›ʼ`´′″'}
_DASHES = dict.fromkeys(map(ord, "‐‑‒–—―−﹘﹣－"), "-")
_EDGES = " '.,;:!?-()[]…*_"
_COST = np.int64(1) << 32  # an edit outweighs any place: one minimum orders by both


@dataclass(frozen=True, slots=True)
class NormalText:
    """``text`` is the form; its character i comes from ``[starts[i], ends[i])`` of the original.

    Stretches are in order and either equal (one character became several) or disjoint.
    """

    text: str
    starts: list[int]
    ends: list[int]

    def span(self, start: int, end: int) -> tuple[int, int] | None:
        """The original's offsets of ``text[start:end]``.

        None where an end would cut a character of the original in two.
        """
        inside_first = start > 0 and self.starts[start - 1] == self.starts[start]
        inside_last = end < len(self.text) and self.starts[end] == self.starts[end - 1]
        if start >= end or inside_first or inside_last:
            return None
        return self.starts[start], self.ends[end - 1]


def normal_text(text: str) -> NormalText:
    """``text`` in normal form with its offsets, without white space and punctuation at its ends.

    Linear; never raises.
    """
    parts: list[str] = []
    starts: list[int] = []
    ends: list[int] = []
    spaced = True  # leading white space goes
    for start, end in _clusters(text):
        form = _folded(text[start:end])
        if form == " " and spaced:
            continue
        spaced = form == " " or (spaced and not form)
        parts.append(form)
        starts += [start] * len(form)
        ends += [end] * len(form)
    whole = "".join(parts)
    left = len(whole) - len(whole.lstrip(_EDGES))
    right = len(whole.rstrip(_EDGES)) if left < len(whole) else left
    return NormalText(whole[left:right], starts[left:right], ends[left:right])


def _clusters(text: str) -> list[tuple[int, int]]:
    """A character with the combining ones after it: the least that can be normalised alone."""
    starts = [index for index, letter in enumerate(text) if not index or not _combines(letter)]
    return list(pairwise([*starts, len(text)]))


@lru_cache(maxsize=4096)
def _combines(letter: str) -> bool:
    """Whether the character can melt into the one before it."""
    first = unicodedata.normalize("NFKD", letter)[0]
    jamo = "\u1160" <= first <= "\u11ff"  # Korean vowels and finals
    return unicodedata.combining(first) != 0 or jamo


@lru_cache(maxsize=8192)
def _folded(cluster: str) -> str:
    """The normal form of one cluster; a space for white space, nothing for invisible ones."""
    if cluster.isspace():
        return " "
    form = normalised("NFKD", cluster.translate(_MARKS)).casefold()
    form = normalised("NFKC", form).translate(_DASHES)
    form = "".join(" " if c.isspace() else c for c in form if unicodedata.category(c) != "Cf")
    return form.strip() or (" " if form else "")


def nearest_window(short: Sequence[int], long: Sequence[int]) -> tuple[int, int, int]:
    """``(start, end, distance)`` of the window of ``long`` nearest to ``short``.

    Ties go to the first end, then to the shortest window. Lengths are below 2**30.
    """
    text = np.asarray(long, dtype=np.int64)
    indices = np.arange(len(text) + 1, dtype=np.int64)
    # A cell holds cost and, below it, how far from the end of the text its window begins.
    row = len(text) - indices
    for word in short:
        row = _next_row(row, text, int(word), indices)
    end = int(np.argmin(row >> 32))
    return len(text) - int(row[end] & (_COST - 1)), end, int(row[end] >> 32)


def edit_distance(first: str, second: str) -> int:
    """Fewest single-character edits from one string to the other (Levenshtein)."""
    text = np.fromiter(map(ord, second), dtype=np.int64, count=len(second))
    indices = np.arange(len(text) + 1, dtype=np.int64)
    row = indices * _COST
    for letter in first:
        row = _next_row(row, text, ord(letter), indices)
    return int(row[-1] >> 32)


def _next_row(
    row: NDArray[np.int64], text: NDArray[np.int64], word: int, indices: NDArray[np.int64]
) -> NDArray[np.int64]:
    """The table's next row: delete ``word``, match or replace it, or insert from the text."""
    best = row + _COST
    np.minimum(best[1:], row[:-1] + (text != word) * _COST, out=best[1:])
    # Insertions run along the row: taking each place's own cost off makes them one running minimum.
    drift = indices * _COST
    nearest: NDArray[np.int64] = np.minimum.accumulate(best - drift) + drift
    return nearest


@dataclass(frozen=True, slots=True)
class Citation:
    """A quotation: ``answer[start:end]``, found at ``evidence[found_start:found_end]``."""

    start: int
    end: int
    match: Match
    found_start: int | None
    found_end: int | None


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


def citations(answer: str, evidence: str) -> tuple[Citation, ...]:
    """One citation for each of the first 64 quotations of ``answer``, in order.

    A match begins and ends at the edge of a word. A fuzzy match has at most ``MOST_EDITS`` of its
    letters edited, holds every number and name of the quotation and as many negations: a changed
    year or country is another statement, however similar. Names are words with a capital
    inside a sentence; at its start only those that the evidence has for names. Quotations of
    fewer than three or more than 150 words have no fuzzy match. Time is
    bounded by 64 × 150 × the words of the evidence.
    """
    spans = quotations(answer)[:MOST_QUOTATIONS]
    source = _source(evidence)
    return tuple(_located(answer, span, source) for span in spans)


_source = lru_cache(maxsize=16)(_Evidence)  # the answers on one document come together


def _located(answer: str, span: tuple[int, int], source: _Evidence) -> Citation:
    quotation = answer[slice(*span)]
    for start in _hits(quotation, source.text):
        return Citation(*span, "exact", start, start + len(quotation))
    normal = normal_text(quotation)
    for start in _hits(normal.text, source.normal.text):
        stretch = source.normal.span(start, start + len(normal.text))
        if stretch is not None:
            return Citation(*span, "normalised", *stretch)
    near = _nearly(quotation, normal, source)
    return Citation(*span, "fuzzy", *near) if near else Citation(*span, "missing", None, None)


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


def _nearly(quotation: str, form: NormalText, source: _Evidence) -> tuple[int, int] | None:
    """The nearest window of words, if it is near enough and says the same."""
    normal, words = form.text, _WORD.findall(form.text)
    if not FEWEST_FUZZY_WORDS <= len(words) <= MOST_FUZZY_WORDS or not source.words:
        return None
    start, end = _nearest_stretch(words, normal, source)
    window = source.normal.text[start:end]
    if not _is_whole(source.normal.text, start, end) or not _says_the_same(normal, window):
        return None
    stretch = source.normal.span(start, end)
    if stretch and _names_the_same(_names(quotation, form), normal, window, source.names):
        near = edit_distance(normal, window) <= MOST_EDITS * max(len(normal), len(window))
        return stretch if near else None
    return None


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


def quotations(text: str) -> list[tuple[int, int]]:
    """Offsets ``(start, end)`` of each quotation's inside, trimmed, in order.

    They do not overlap, and each holds a letter or a digit. Linear in the text, up to a
    logarithm; never raises.
    """
    if _OPENING.search(text) is None:
        return []
    closing = {mark: [m.start() for m in form.finditer(text)] for mark, form in _CLOSING.items()}
    found: list[tuple[int, int]] = []
    index = 0
    while opening := _OPENING.search(text, index):
        ends = closing[opening[0]]
        nearest = bisect_left(ends, opening.end())
        index = opening.end()
        if nearest < len(ends) and ends[nearest] - index <= LONGEST_QUOTATION:
            inside = text[index : ends[nearest]]
            start = index + len(inside) - len(inside.lstrip())
            if any(map(str.isalnum, inside)):
                found.append((start, start + len(inside.strip())))
            index = ends[nearest] + 1
    return found
