"""The compiled loop of ``evidence_scan``; imported inside functions, never at start-up.

Each row's claim and evidence are decoded once; the distinct words of the claim are looked up
among those of the evidence, sentence by sentence. A row's tally holds the kinds of its code
points; a caller that finds ``HARD`` among them must compose the accents and scan again.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from decomposerl.kernels.code_points import Codes, Ints, Kinds
from decomposerl.kernels.decoding_loops import (
    DecodedText,
    Texts,
    count_tokens,
    decode,
    find_words,
    join_words,
    start_of,
)
from decomposerl.kernels.jit import compiled, internal
from decomposerl.kernels.sentence_loops import find_sentences

Flags = NDArray[np.bool_]

# The columns of a row's tally.
SENTENCES, WORDS, BEST, WANTED, KINDS = 0, 1, 2, 3, 4
TALLY_COLUMNS = 5
# The columns of a lexicon's words: SEEN is the number of the last sentence that had one.
START, END, HASH, SEEN = 0, 1, 2, 3
WORD_COLUMNS = 4
_ABSENT = -1


class Lexicon(NamedTuple):
    """Distinct words of ``codes`` behind a hash table, ``slots``, whose size is a power of two."""

    codes: Codes
    words: Ints
    slots: Ints


class LanguageTables(NamedTuple):
    """Kinds in prose and in tables (where no full stop ends a row), lower case, known words.

    ``short`` holds the abbreviations for ``find_sentences``, ``left_out`` the function words.
    """

    prose: Kinds
    table: Kinds
    lower: Codes
    short: Ints
    left_out: Lexicon


class TextRows(NamedTuple):
    """Claims, their evidence, whether it is a table, and the tallies to fill."""

    claims: Texts
    evidence: Texts
    tables: Flags
    tallies: Ints


class Scratch(NamedTuple):
    """Space that each row reuses: its decoded claim and evidence, and the claim's words."""

    claim: DecodedText
    evidence: DecodedText
    wanted: Lexicon


@internal
def same(codes: Codes, start: int, known: Codes, known_start: int, length: int) -> bool:
    """Whether two runs of lower-case code points are equal."""
    step = 0
    while step < length and codes[start + step] == known[known_start + step]:
        step += 1
    return step == length


@internal
def slot_of(value: int, slots: int) -> int:
    """Slot of a hash among ``slots``, a power of two."""
    # FNV mixes upwards only, so the high half is folded into the bits that are used.
    return (value ^ value >> 32) & (slots - 1)


@internal
def find(lexicon: Lexicon, value: int, codes: Codes, start: int, end: int) -> tuple[int, int]:
    """Number of the word in the lexicon (-1: absent) and the slot where it is or belongs."""
    words, slots = lexicon.words, lexicon.slots
    slot = slot_of(value, len(slots))
    while slots[slot] != _ABSENT:
        word = slots[slot]
        length = words[word, END] - words[word, START]
        alike = words[word, HASH] == value and length == end - start
        if alike and same(codes, start, lexicon.codes, words[word, START], length):
            return word, slot
        slot = (slot + 1) & (len(slots) - 1)
    return _ABSENT, slot


@compiled
def collect_words(decoded: DecodedText, count: int, lexicon: Lexicon, left_out: Lexicon) -> int:
    """Fill the lexicon with the text's distinct words except ``left_out``; returns their number."""
    codes, words, slots = lexicon
    kept = 0
    slots[:] = _ABSENT
    for end in decoded.words[:count]:
        value, start = decoded.hashes[end - 1], start_of(decoded.kinds, end)
        word, slot = find(lexicon, value, codes, start, end)
        if word == _ABSENT and find(left_out, value, codes, start, end)[0] == _ABSENT:
            slots[slot] = kept
            words[kept, START], words[kept, END] = start, end
            words[kept, HASH], words[kept, SEEN] = value, _ABSENT
            kept += 1
    return kept


@internal
def most_in_one(decoded: DecodedText, count: int, wanted: Lexicon) -> int:
    """Most distinct wanted words inside one sentence."""
    kinds, codes, hashes, words, sentences = decoded
    known, slots = wanted.words, wanted.slots
    most = here = sentence = 0
    for end in words[:count]:
        # Nearly all words of the evidence are not the claim's: an empty slot needs no word start.
        value = hashes[end - 1]
        if slots[slot_of(value, len(slots))] == _ABSENT:
            continue
        while end > sentences[sentence]:
            sentence, here = sentence + 1, 0
        word, _ = find(wanted, value, codes, start_of(kinds, end), end)
        if word != _ABSENT and known[word, SEEN] != sentence:
            known[word, SEEN] = sentence
            here += 1
            most = max(most, here)
    return most


@compiled
def scan_rows(rows: TextRows, language: LanguageTables, room: Scratch) -> None:
    """Fill the tally of each row."""
    claim, evidence, lower = room.claim, room.evidence, language.lower
    for row in range(len(rows.tables)):
        kinds_of = language.table if rows.tables[row] else language.prose
        length = decode(rows.claims, row, kinds_of, lower, claim)
        _, claim_kinds = count_tokens(claim.kinds, length)
        count = join_words(claim, find_words(claim, length))
        slots = 16
        # Sized for this claim, because clearing the slots takes time in proportion to them.
        while slots < 4 * count:
            slots *= 2
        wanted = Lexicon(claim.codes, room.wanted.words, room.wanted.slots[:slots])
        tally = rows.tallies[row]
        tally[WANTED] = collect_words(claim, count, wanted, language.left_out)
        length = decode(rows.evidence, row, kinds_of, lower, evidence)
        tally[WORDS], kinds = count_tokens(evidence.kinds, length)
        tally[KINDS] = kinds | claim_kinds
        count = join_words(evidence, find_words(evidence, length))
        tally[SENTENCES] = find_sentences(
            evidence.kinds, evidence.codes, length, language.short, evidence.sentences
        )
        tally[BEST] = most_in_one(evidence, count, wanted)
