"""The compiled loop of ``evidence_scan``; imported inside functions, never at start-up.

Each row's claim and evidence are decoded once; the distinct words of the claim are looked up
among those of the evidence, sentence by sentence. A row's tally holds the kinds of its code
points; a caller that finds ``HARD`` among them must compose the accents and scan again.

Decoding gives the kind of each code point, once for all loops, and where words end; sentences end
where ``text_scan.sentences``, the readable definition, ends them.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from decomposerl.kernels.code_points import (
    APOSTROPHE,
    BREAK,
    CLOSER,
    DECIMAL,
    DIGIT,
    OPENING,
    QUOTE,
    SPACE,
    TERMINATOR,
    UPPER,
    WORD,
    Codes,
    Ints,
    Kinds,
)
from decomposerl.kernels.jit import compiled, internal

Text = NDArray[np.uint8]
_OF_TWO_BYTES, _OF_THREE, _OF_FOUR = 0xC0, 0xE0, 0xF0  # least first byte in UTF-8
_PRIME = np.int64(1_099_511_628_211)  # of FNV-1a
_STRAIGHT, _S = np.int32(ord("'")), ord("s")


class Texts(NamedTuple):
    """Text i is ``data[offsets[i]:offsets[i + 1]]``, in UTF-8."""

    data: Text
    offsets: Ints


class DecodedText(NamedTuple):
    """A text by code points: kinds, lower case, and the hash of the word up to each.

    ``words`` are the positions where words end, ``sentences`` those where sentences end.
    """

    kinds: Kinds
    codes: Codes
    hashes: Ints
    words: Ints
    sentences: Ints


@compiled
def decode(texts: Texts, number: int, kinds_of: Kinds, lower_of: Codes, out: DecodedText) -> int:
    """Write kind and lower case of each code point of a text; returns their number."""
    text = texts.data[texts.offsets[number] : texts.offsets[number + 1]]
    kinds, codes = out.kinds, out.codes
    position = count = 0
    while position < len(text):
        code = np.int64(text[position])
        position += 1
        if code >= _OF_TWO_BYTES:
            # The lead byte keeps 7 - (bytes of the character) value bits.
            more = 1 + int(code >= _OF_THREE) + int(code >= _OF_FOUR)
            code &= 0x3F >> more
            for _ in range(more):
                code = code << 6 | np.int64(text[position]) & 0x3F
                position += 1
        kinds[count], codes[count] = kinds_of[code], lower_of[code]
        count += 1
    # A closing line break: the loops below stop at it and need not compare with the length.
    kinds[count], codes[count] = BREAK, 0
    return count


@internal
def count_tokens(kinds: Kinds, length: int) -> tuple[int, int]:
    """Number of runs without white space, and the union of the kinds of all code points."""
    spaces, seen = 0, 0
    for position in range(length):  # no branch: where a run ends is unpredictable
        spaces += kinds[position] & ~kinds[position + 1] & SPACE  # the last one of a run
        seen |= kinds[position]
    starts_at_once = length > 0 and not kinds[0] & SPACE
    ends_in_space = length > 0 and kinds[length - 1] & SPACE != 0
    return spaces // SPACE + starts_at_once - ends_in_space, seen


@compiled
def mix(value: np.int64, code: np.int32) -> np.int64:
    """Hash of ``value`` and one more code point."""
    return (value ^ code) * _PRIME


@compiled
def find_words(decoded: DecodedText, length: int) -> int:
    """Hash all runs of word characters and list where they end; returns their number."""
    kinds, codes, hashes, words, _ = decoded
    count, value = 0, np.int64(0)
    for position in range(length):
        # -1 has all bits set: outside a word the hash starts again from 0, without a branch. Each
        # position is written to the list, and the list grows only where a word ends.
        is_word = np.int64(kinds[position]) & WORD
        value = mix(value, codes[position]) & -is_word
        hashes[position], words[count] = value, position + 1
        count += int(is_word & ~np.int64(kinds[position + 1]))
    return count


@internal
def join_words(decoded: DecodedText, count: int) -> int:
    """Join runs with one apostrophe between them and cut possessives; returns the number left."""
    kinds, codes, hashes, words, _ = decoded
    kept = after = 0
    for number in range(count):
        end = words[number]
        if end <= after:
            continue
        after, value = end, hashes[end - 1]
        while kinds[after] & APOSTROPHE and kinds[after + 1] & WORD:
            end, value = after, mix(value, _STRAIGHT)
            after += 1
            while kinds[after] & WORD:
                value = mix(value, codes[after])
                after += 1
            hashes[after - 1] = value
        possessive = after == end + 2 and codes[end + 1] == _S
        words[kept] = end if possessive else after
        kept += 1
    return kept


@internal
def start_of(kinds: Kinds, position: int) -> int:
    """Where the word that ends at ``position`` starts."""
    while position > 0 and kinds[position - 1] & WORD:
        position -= 1
        if position > 1 and kinds[position - 1] & APOSTROPHE and kinds[position - 2] & WORD:
            position -= 1
    return position


MOST_LETTERS = 7  # of an abbreviation: they are packed into one integer, with a bit to spare
BEFORE_DIGIT = 1
BEGIN: Any = np.int64(0)  # for a literal 0 the callees would be compiled a second time

_STOP, _HYPHEN, _LOW_LINE = ord("."), ord("-"), ord("_")
_BEYOND_ASCII = 0x80


@internal
def is_marker(kinds: Kinds, codes: Codes, start: int, stop: int) -> bool:
    """Whether a number or one letter, after signs at most, is all before the full stop."""
    while start < stop and not kinds[start] & WORD:
        start += 1
    if kinds[start] & DECIMAL:
        while kinds[start] & DECIMAL:
            start += 1
        return start == stop
    return start + 1 == stop and codes[start] != _LOW_LINE


@internal
def is_dotted(kinds: Kinds, codes: Codes, position: int, stop: int) -> bool:
    """Whether letters with full stops between them, such as U.S or J.-P, end at ``stop``."""
    while kinds[position] & WORD and not kinds[position] & DECIMAL and codes[position] != _LOW_LINE:
        position += 1
        if position == stop:
            return True
        if codes[position] != _STOP:
            return False
        position += 1
        if codes[position] == _HYPHEN:
            position += 1
    return False


@internal
def pack_letters(codes: Codes, start: int, stop: int) -> int:
    """The letters as one integer; 0 where they are too many or not all ASCII."""
    if stop - start > MOST_LETTERS:
        return 0
    value = 0
    for position in range(start, stop):
        if codes[position] >= _BEYOND_ASCII:
            return 0
        value = value << 8 | codes[position]
    return value


@internal
def holds(numbers: Ints, number: int) -> bool:
    """Whether ``number`` is among ``numbers``."""
    is_known = False
    for known in numbers:  # a vector instruction compares several; leaving early would not
        is_known |= bool(known == number)
    return is_known


@internal
def begins(kinds: Kinds, position: int) -> int:
    """Which of the kinds UPPER, DIGIT and QUOTE begin a sentence at ``position``; 0 where none."""
    kind = first = kinds[position]
    if kind & OPENING:
        first = kinds[position + 1]
        if first & OPENING:  # only one opening sign is looked through, as in the definition
            first = 0
    return int(first & (UPPER | DIGIT) | kind & QUOTE)


@internal
def is_end(
    kinds: Kinds, codes: Codes, start: int, marks: tuple[int, int, int], short: Ints
) -> bool:
    """Whether the sentence that starts at ``start`` ends with its closing marks.

    ``marks``: their first position, their end, and where the line continues after them.
    """
    stop, closed, following = marks
    beginning = begins(kinds, following)
    if following == closed or beginning == 0:
        return False
    if closed > stop + 1 or codes[stop] != _STOP:
        return True
    if is_marker(kinds, codes, start, stop):
        return False
    end = stop
    while end > start and kinds[end - 1] & SPACE:
        end -= 1
    token = end
    while token > start and not kinds[token - 1] & SPACE:
        token -= 1
    while kinds[token] & OPENING:
        token += 1
    # Compared as integers: numba is slow to compile strings and sets, and slow to compare them.
    letters = pack_letters(codes, token, end)
    if is_dotted(kinds, codes, token, end) or holds(short, letters << 1):
        return False
    return not (beginning & DIGIT and holds(short, letters << 1 | BEFORE_DIGIT))


@internal
def after_signs(kinds: Kinds, position: int) -> tuple[int, int]:
    """Where a run of terminators and closing signs ends, and where its line continues."""
    while kinds[position] & TERMINATOR:
        position += 1
    while kinds[position] & CLOSER:
        position += 1
    closed = position
    while kinds[position] & (SPACE | BREAK) == SPACE:
        position += 1
    return closed, position


@internal
def find_sentences(kinds: Kinds, codes: Codes, length: int, short: Ints, sentences: Ints) -> int:
    """Fill ``sentences`` with the positions where they end; returns their number.

    ``short`` holds the abbreviations as ``pack_letters`` gives them, shifted left by one; the
    lowest bit marks those that are abbreviations only before a digit.
    """
    count = position = 0
    start = BEGIN
    while start < length:
        if kinds[start] & SPACE:  # between two sentences
            position = start = start + 1
            continue
        while not kinds[position] & (TERMINATOR | BREAK):
            position += 1
        ended = True
        if kinds[position] & TERMINATOR:
            stop = position
            closed, position = after_signs(kinds, stop)
            ended = is_end(kinds, codes, start, (stop, closed, position), short)
        if ended:
            sentences[count] = position
            count, start = count + 1, position
    return count


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
