"""Texts as sets of words or of five-character shingles, numbered and packed.

Takes texts, gives ``PackedSets``: what the joins compare. Exact: two elements have the same
number iff their bytes are equal. ASCII texts are read by a compiled loop, others are split
in Python by the definition, ``text_scan.words``; both give the same sets.

Left out deliberately: comparing sets (``set_join``, ``minhash_join``).
"""

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from decomposerl.kernels.text_scan import words

Shingle = Literal["word", "char_5"]
CHUNK_BYTES = 1 << 18
_EMPTY = ""  # no text has it among its words; two texts without words share it
_SEPARATOR = "\0"
_WINDOW = 5


@dataclass(frozen=True, slots=True)
class PackedSets:
    """Row i holds ``tokens[starts[i]:starts[i + 1]]``, ascending: the rarest element first.

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
    """The set of lower-cased words of each text: the definition that ``packed`` follows.

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


def packed(texts: Sequence[str], shingle: Shingle = "word") -> PackedSets:
    """Every text as its set, elements numbered by how few sets hold them.

    Ties go to the element that appears first.
    """
    from decomposerl.kernels.word_loops import rank_rows

    tokens, counts, hashes = _numbered(*_encoded(texts, shingle))
    starts = np.concatenate((np.zeros(1, np.int64), np.cumsum(counts, dtype=np.int64)))
    frequency = np.bincount(tokens, minlength=len(hashes))
    order = np.argsort(frequency, kind="stable")
    rank = np.empty(len(hashes), np.int32)
    rank[order] = np.arange(len(hashes), dtype=np.int32)
    rank_rows(tokens, starts, rank)
    return PackedSets(tokens, starts, hashes[order])


def _plain(text: str) -> str:
    normal = text if text.isascii() else unicodedata.normalize("NFC", text)
    return " ".join(normal.lower().split())


def _encoded(
    texts: Sequence[str], shingle: Shingle
) -> tuple[NDArray[np.uint8], NDArray[np.int64], NDArray[np.int8]]:
    """All texts as UTF-8, where each starts, and how the loop shall split it."""
    from decomposerl.kernels.word_loops import PIECES, WINDOWS, WORDS

    modes = np.full(len(texts), WORDS if shingle == "word" else WINDOWS, np.int8)
    rows: list[bytes] = []
    for row, text in enumerate(texts):
        plain = text
        if shingle != "word":
            plain = _plain(text)
        elif not text.isascii():
            plain, modes[row] = _SEPARATOR.join(dict.fromkeys(words(text))), PIECES
        rows.append(plain.encode("utf-8", "surrogatepass"))
    lengths = np.fromiter(map(len, rows), np.int64, len(rows))
    starts = np.concatenate((np.zeros(1, np.int64), np.cumsum(lengths)))
    return np.frombuffer(bytearray().join(rows), np.uint8), starts, modes


def _numbered(
    text: NDArray[np.uint8], starts: NDArray[np.int64], modes: NDArray[np.int8]
) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.uint64]]:
    """Distinct element numbers row after row, how many a row, and each element's hash."""
    from decomposerl.kernels.word_loops import number_rows

    vocabulary, parts, counts = _Vocabulary(), [], np.zeros(len(modes), np.int32)
    first = 0
    while first < len(modes):
        wanted = starts[first] + CHUNK_BYTES
        last = max(int(np.searchsorted(starts, wanted, "right")) - 1, first + 1)
        chunk = text[starts[first] : starts[last]]
        seen = vocabulary.make_room(len(chunk) + last - first, _bytes_of(chunk, modes[first:last]))
        out = np.empty(len(chunk) + last - first, np.int32)
        vocabulary.size, used = number_rows(
            chunk,
            starts[first : last + 1] - starts[first],
            modes[first:last],
            vocabulary.arrays,
            vocabulary.size,
            seen,
            out,
            counts[first:last],
        )
        parts.append(out[:used].copy())
        first = last
    tokens = np.concatenate(parts) if parts else np.empty(0, np.int32)
    return tokens, counts, vocabulary.hashes[: vocabulary.size]


def _bytes_of(chunk: NDArray[np.uint8], modes: NDArray[np.int8]) -> int:
    """Most bytes that the new elements of a chunk can have."""
    from decomposerl.kernels.word_loops import WINDOWS

    return len(chunk) * (_WINDOW * 4 if (modes == WINDOWS).any() else 1)


class _Vocabulary:
    """Elements seen so far: a hash table over their bytes, grown between chunks."""

    def __init__(self) -> None:
        self.size = 0
        self.hashes = np.empty(0, np.uint64)
        self._table = np.full(2, -1, np.int32)
        self._arena = np.empty(0, np.uint8)
        self._ends = np.zeros(1, np.int64)
        self._seen = np.empty(0, np.int32)

    @property
    def arrays(
        self,
    ) -> tuple[NDArray[np.int32], NDArray[np.uint8], NDArray[np.int64], NDArray[np.uint64]]:
        """What the loops look elements up in."""
        return self._table, self._arena, self._ends, self.hashes

    def make_room(self, elements: int, size: int) -> NDArray[np.int32]:
        """Let so many more elements of so many bytes in; gives a fresh ``seen`` array."""
        from decomposerl.kernels.word_loops import refill

        wanted = self.size + elements
        if wanted > len(self.hashes):
            self.hashes = _grown(self.hashes, 2 * wanted)
            self._ends = _grown(self._ends, 2 * wanted + 1)
        if wanted * 2 > len(self._table):
            self._table = np.full(1 << (4 * wanted - 1).bit_length(), -1, np.int32)
            refill(self._table, self.hashes, self.size)
        if self._ends[self.size] + size > len(self._arena):
            self._arena = _grown(self._arena, 2 * (int(self._ends[self.size]) + size))
        return np.full(wanted, -1, np.int32)


def _grown(array: NDArray[np.generic], size: int) -> NDArray[np.generic]:
    larger = np.empty(size, array.dtype)
    larger[: len(array)] = array
    return larger
