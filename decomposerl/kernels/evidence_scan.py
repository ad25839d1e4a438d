"""Sentences, words and overlap of many rows of evidence in one compiled pass.

Reads polars columns and returns exactly the numbers that the definitions in ``text_scan``
give. Blocks of rows run in parallel; memory does not grow with the number of rows.
"""

from dataclasses import dataclass
from functools import lru_cache, partial
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
from numpy.typing import NDArray

from decomposerl.kernels import text_scan
from decomposerl.kernels.code_points import HARD, ODD_CAPITALS, TERMINATOR, code_points
from decomposerl.kernels.threads import Team
from decomposerl.kernels.unspaced import unspaced

if TYPE_CHECKING:
    from decomposerl.kernels.text_loops import DecodedText, LanguageTables, Lexicon, Texts

ROWS_A_BLOCK = 1_024
Columns = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]


@dataclass(frozen=True, slots=True)
class Scan:
    """Per row: sentences (lines of a table), white-space words, and the overlap, 0..1.

    As counted by ``evidence_units``, ``str.split`` and ``best_overlap``.
    """

    sentences: NDArray[np.int64]
    words: NDArray[np.int64]
    overlap: NDArray[np.float64]


def scan(claims: pl.Series, evidence: pl.Series, tables: pl.Series, *, threads: int = 0) -> Scan:
    """Read each row's claim and evidence once; all three series have one entry per row.

    ``evidence`` is the passages joined by line breaks, which no sentence and no word crosses.
    ``tables`` is true where it is a table. ``threads`` 0 is one per core.
    """
    columns = pl.DataFrame({"claim": claims, "evidence": evidence, "table": tables})
    language = _language()
    with Team(threads) as team:
        blocks = columns.iter_slices(ROWS_A_BLOCK)
        scanned = team.run([partial(_scan_block, block, language) for block in blocks])
    whole = [np.concatenate(parts) for parts in zip(*scanned, strict=True)]
    return Scan(*whole) if whole else Scan(*(np.zeros(0, kind) for kind in (int, int, float)))


def _scan_block(block: pl.DataFrame, language: "LanguageTables") -> Columns:
    from decomposerl.kernels.text_loops import BEST, KINDS, SENTENCES, WANTED, WORDS

    tallies = _tallies(block, language)
    # The loops look at one code point at a time. Rows with combining accents are composed and
    # read again.
    hard = np.flatnonzero(tallies[:, KINDS] & HARD)
    plain = block[hard].with_columns(
        pl.Series(name, list(map(text_scan.composed, block[name].gather(hard))), pl.String())
        for name in ("claim", "evidence")
    )
    tallies[hard] = _tallies(plain, language)
    overlap = tallies[:, BEST] / np.maximum(tallies[:, WANTED], 1)
    for row, (claim, evidence, table) in zip(hard, plain.iter_rows(), strict=True):
        # The lower case of these capitals depends on their neighbours, and so do the words of
        # scripts without spaces: the definition decides. Few rows of English have either.
        both = claim + evidence
        if unspaced(both) or any(odd in both for odd in ODD_CAPITALS):
            tallies[row, SENTENCES] = len(text_scan.evidence_units(evidence, table=table))
            overlap[row] = text_scan.best_overlap(claim, evidence, table=table)
    return tallies[:, SENTENCES], tallies[:, WORDS], overlap


def _tallies(block: pl.DataFrame, language: "LanguageTables") -> NDArray[np.int64]:
    """What the loops count in each row as it is written, shape (rows, ``TALLY_COLUMNS``)."""
    from decomposerl.kernels import text_loops as loops

    claims, evidence = _texts(block["claim"]), _texts(block["evidence"])
    tallies = np.zeros((block.height, loops.TALLY_COLUMNS), np.int64)
    rows = loops.TextRows(claims, evidence, np.array(block["table"], np.bool_), tallies)
    claim = _scratch(claims)
    wanted = _lexicon(claim.codes, len(claim.codes))
    loops.scan_rows(rows, language, loops.Scratch(claim, _scratch(evidence), wanted))
    return tallies


def _texts(column: pl.Series) -> "Texts":
    from decomposerl.kernels.text_loops import Texts

    # Arrow's own buffers: the loops read the UTF-8 without a copy or a Python string per row.
    strings = column.to_arrow()
    _, offsets, data = strings.buffers()
    starts = np.frombuffer(offsets, np.int64)[strings.offset :][: len(strings) + 1]
    return Texts(np.frombuffer(data or b"\0", np.uint8), starts)


def _scratch(texts: "Texts") -> "DecodedText":
    """Space to decode the longest of the texts into."""
    from decomposerl.kernels.text_loops import DecodedText

    # A text has no more code points than bytes; one more for the line break that closes it.
    most = int(np.diff(texts.offsets).max(initial=0)) + 1
    positions = (np.empty(most, np.int64) for _ in range(3))
    return DecodedText(np.empty(most, np.uint16), np.empty(most, np.int32), *positions)


def _lexicon(codes: NDArray[np.int32], words: int) -> "Lexicon":
    """An empty lexicon with room for ``words`` words of ``codes``."""
    from decomposerl.kernels.text_loops import WORD_COLUMNS, Lexicon

    # At most a quarter full, so that a look-up rarely meets another word.
    slots = np.full(1 << (4 * words + 16).bit_length(), -1, np.int64)
    return Lexicon(codes, np.empty((words, WORD_COLUMNS), np.int64), slots)


@lru_cache(maxsize=1)
def _language() -> "LanguageTables":
    from decomposerl.kernels.text_loops import LanguageTables

    kinds, lower = code_points()
    # Shifted by one; the lowest bit marks the words that are abbreviations before a digit only.
    short = [_letters(word) << 1 for word in text_scan.ALWAYS_SHORT]
    short += [_letters(word) << 1 | 1 for word in text_scan.SHORT_BEFORE_DIGIT]
    return LanguageTables(
        prose=kinds,
        table=kinds & ~np.uint16(TERMINATOR),  # in a table no full stop ends a row
        lower=lower,
        short=np.array(short, np.int64),
        left_out=_function_words(),
    )


def _function_words() -> "Lexicon":
    from decomposerl.kernels import text_loops

    kinds, lower = code_points()
    text = _texts(pl.Series([" ".join(sorted(text_scan.FUNCTION_WORDS))]))
    decoded = _scratch(text)
    length = text_loops.decode(text, 0, kinds, lower, decoded)
    count = text_loops.find_words(decoded, length)
    lexicon = _lexicon(decoded.codes, count)
    text_loops.collect_words(decoded, count, lexicon, _lexicon(decoded.codes, 0))
    return lexicon


def _letters(word: str) -> int:
    return int.from_bytes(word.encode("ascii"), "big")
