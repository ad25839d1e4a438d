"""Texts as sets of words or of five-character shingles, numbered and packed for the joins.

Exact: two elements have the same number iff their bytes are equal. A compiled loop reads ASCII
texts; others are split in Python by the definition, ``text_scan.words``. Both give equal sets.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from decomposerl.kernels.text_scan import composed, words
from decomposerl.kernels.threads import Team

Array = TypeVar(
    "Array", NDArray[np.int32], NDArray[np.int64], NDArray[np.uint64], NDArray[np.uint8]
)
Shingle = Literal["word", "char_5"]
_Spans = tuple[NDArray[np.uint8], NDArray[np.int64], NDArray[np.int32], NDArray[np.int32]]
PARTS, ROWS_A_PART, ROWS_A_CHUNK = 4, 4_096, 1_024
_EMPTY = ""  # no text has it among its words; two texts without words share it
_SEPARATOR = "\0"
_WINDOW = 5


@dataclass(frozen=True, slots=True)
class PackedSets:
    """Row i is ``tokens[starts[i]:starts[i + 1]]``, ascending: the rarest element first.

    ``tokens`` int32, ``starts`` int64 (n + 1,); ``hashes`` uint64 (vocabulary,) is a hash
    of each element's bytes, the same on every machine.
    """

    tokens: NDArray[np.int32]
    starts: NDArray[np.int64]
    hashes: NDArray[np.uint64]

    @property
    def sizes(self) -> NDArray[np.int64]:
        """Number of elements of each row, shape (n,)."""
        return np.diff(self.starts)


def word_sets(texts: Sequence[str]) -> list[frozenset[str]]:
    """The set of lower-cased words of each text: the definition that ``pack_sets`` follows.

    A text without any word gets the set of one reserved word, so that two such texts are
    duplicates of each other (Jaccard 1) and of nothing else.
    """
    return [frozenset(words(text)) or frozenset((_EMPTY,)) for text in texts]


def shingle_sets(texts: Sequence[str]) -> list[frozenset[str]]:
    """The set of runs of five characters of each text, in lower case, spaces collapsed.

    A shorter text is one shingle.
    """
    plain = map(_plain, texts)
    return [
        frozenset(text[i : i + _WINDOW] for i in range(max(len(text) - _WINDOW + 1, 1)))
        for text in plain
    ]


def pack_sets(texts: Sequence[str], shingle: Shingle = "word", threads: int = 0) -> PackedSets:
    """Every text as its set; elements are numbered from the rarest to the most common.

    The numbers do not depend on ``threads``.
    """
    with Team(threads if len(texts) > ROWS_A_PART else 1) as team:
        # The same parts for any number of threads: ties in rarity are broken by first occurrence.
        cuts = np.linspace(0, len(texts), min(PARTS, len(texts) // ROWS_A_PART + 1) + 1)
        spans = list(itertools.pairwise(cuts.astype(int).tolist()))
        parts = team.run([partial(numbered_rows, texts[a:b], shingle) for a, b in spans])
        return _merged(parts, team)


@dataclass(frozen=True, slots=True)
class NumberedRows:
    """A part of the rows, numbered by its own vocabulary."""

    tokens: NDArray[np.int32]
    counts: NDArray[np.int32]
    vocabulary: "Vocabulary"


def _merged(parts: Sequence[NumberedRows], team: Team) -> PackedSets:
    """Translate all parts to the first one's vocabulary and rank its elements by rarity."""
    from decomposerl.kernels.word_loops import rank_rows

    first = parts[0].vocabulary
    numbers = [np.arange(first.size, dtype=np.int32)]
    numbers += [first.numbers_of(part.vocabulary) for part in parts[1:]]
    frequency = np.zeros(first.size, np.int64)
    for part, number in zip(parts, numbers, strict=True):
        frequency[number] += np.bincount(part.tokens, minlength=len(number))
    order = np.argsort(frequency, kind="stable")
    rank = np.empty(first.size, np.int32)
    rank[order] = np.arange(first.size, dtype=np.int32)
    team.run(
        partial(rank_rows, part.tokens, row_starts(part.counts), rank[number])
        for part, number in zip(parts, numbers, strict=True)
    )
    tokens = np.concatenate([part.tokens for part in parts])
    counts = np.concatenate([part.counts for part in parts])
    return PackedSets(tokens, row_starts(counts), first.hashes()[order])


def row_starts(lengths: NDArray[np.int32] | NDArray[np.int64]) -> NDArray[np.int64]:
    """Where each row starts and the last one ends, shape (n + 1,), from the rows' lengths."""
    return np.concatenate((np.zeros(1, np.int64), np.cumsum(lengths, dtype=np.int64)))


def _plain(text: str) -> str:
    return " ".join(composed(text).lower().replace(_SEPARATOR, " ").split())


def _encoded(
    texts: Sequence[str], shingle: Shingle
) -> tuple[NDArray[np.uint8], NDArray[np.int64], NDArray[np.int8]]:
    """All texts as lower-case UTF-8, where each starts, and how it is to be cut."""
    from decomposerl.kernels.word_loops import PIECES, SPARE, WINDOWS, WORDS

    rows = list(texts) if shingle == "word" else [_plain(text) for text in texts]
    modes = np.full(len(rows), WORDS if shingle == "word" else WINDOWS, np.int8)
    other = [] if "".join(rows).isascii() else [r for r, t in enumerate(rows) if not t.isascii()]
    if shingle == "word":
        for row in other:
            rows[row], modes[row] = _SEPARATOR.join(words(rows[row])), PIECES
    lengths = np.fromiter(map(len, rows), np.int32, len(rows))
    for row in other:
        lengths[row] = len(rows[row].encode("utf-8", "surrogatepass"))
    # ``bytearray.lower`` changes ASCII only: the other texts are in lower case already.
    data = bytearray("".join((*rows, _SEPARATOR * SPARE)), "utf-8", "surrogatepass").lower()
    return np.frombuffer(data, np.uint8), row_starts(lengths), modes


def _cut(texts: Sequence[str], shingle: Shingle) -> _Spans:
    """The elements of every text, row after row, equal ones more than once."""
    from decomposerl.kernels.word_loops import cut_rows

    text, starts, modes = _encoded(texts, shingle)
    # Upper bound of the elements: a word is followed by another byte, and a window begins at
    # every character.
    most = len(text) // (2 if shingle == "word" else 1) + 2 * len(modes)
    begins, sizes = np.empty(most, np.int64), np.empty(most, np.int32)
    counts = np.empty(len(modes), np.int32)
    used = cut_rows(text, starts, modes, begins, sizes, counts)
    return text, begins[:used], sizes[:used], counts


def numbered_rows(texts: Sequence[str], shingle: Shingle) -> NumberedRows:
    """Distinct element numbers row after row, in a vocabulary of these rows alone."""
    tokens, counts = [np.empty(0, np.int32)], [np.empty(0, np.int32)]
    vocabulary = Vocabulary()
    for first in range(0, len(texts), ROWS_A_CHUNK):
        spans = _cut(texts[first : first + ROWS_A_CHUNK], shingle)
        tokens.append(vocabulary.number(spans))
        counts.append(spans[-1])
    return NumberedRows(np.concatenate(tokens), np.concatenate(counts), vocabulary)


class Vocabulary:
    """Elements seen so far: a hash table over their bytes that grows between chunks."""

    def __init__(self) -> None:
        self.size = 0
        self._table = np.full(2, -1, np.int32)
        self._keys = np.empty(0, np.uint64)
        self._arena = np.empty(0, np.uint8)
        self._ends = np.zeros(1, np.int64)
        self._seen = np.empty(0, np.int32)
        self._rows = 0

    def number(self, spans: _Spans) -> NDArray[np.int32]:
        """The distinct elements of each row in order; sets each row's count to their number."""
        from decomposerl.kernels.word_loops import number_rows

        _, begins, sizes, counts = spans
        self._make_room(len(begins), int(sizes.sum()))
        known = (self._table, self._keys, self._arena, self._ends, self._seen)
        out = np.empty(len(begins), np.int32)
        self.size, used = number_rows(spans, known, self.size, self._rows, out)
        self._rows += len(counts)
        return out[:used].copy()

    def hashes(self) -> NDArray[np.uint64]:
        """A hash of each element's bytes."""
        from decomposerl.kernels.word_loops import hash_elements

        hashes = np.empty(self.size, np.uint64)
        hash_elements(self._arena, self._ends, hashes)
        return hashes

    def numbers_of(self, other: "Vocabulary") -> NDArray[np.int32]:
        """The number here of every element of another vocabulary; new ones are added."""
        return self.number(other.spans())

    def spans(self) -> _Spans:
        """All elements in order, one per row."""
        ends = self._ends[: self.size + 1]
        sizes, counts = np.diff(ends).astype(np.int32), np.ones(self.size, np.int32)
        return self._arena, ends[:-1], sizes, counts

    def _make_room(self, elements: int, size: int) -> None:
        """Make room for ``elements`` more elements with ``size`` bytes together."""
        from decomposerl.kernels.word_loops import SPARE, refill

        # Twice what is needed, so that growing costs constant time per element.
        wanted = self.size + elements
        if wanted > len(self._keys):
            self._keys = _grown(self._keys, wanted + self.size)
            self._ends = _grown(self._ends, wanted + self.size + 1)
            self._seen = _grown(self._seen, wanted + self.size)
            self._seen[self.size :] = -1
        if wanted * 2 > len(self._table):  # at most half full: probes stay short
            self._table = np.full(1 << (2 * wanted).bit_length(), -1, np.int32)
            refill(self._table, self._keys, self.size)
        if self._ends[self.size] + size + SPARE > len(self._arena):
            self._arena = _grown(self._arena, 2 * int(self._ends[self.size]) + size + SPARE)


def _grown(array: Array, size: int) -> Array:
    larger: Array = np.empty(size, array.dtype)
    larger[: len(array)] = array
    return larger
