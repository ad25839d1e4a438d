"""Scripts that write no spaces between words: Chinese, Japanese, Thai and their like.

A run of such letters counts as its pairs of neighbours, which need no dictionary and overlap as
words do. Texts in other scripts are not changed by anything here.
"""

import re
from collections.abc import Iterable, Iterator

import polars as pl

# Thai and Lao, Burmese, Khmer, kana, Han (with the iteration mark), half-width kana.
_RANGES = (
    *((0x0E00, 0x0EFF), (0x1000, 0x109F), (0x1780, 0x17FF), (0x3005, 0x3007), (0x3040, 0x30FF)),
    *((0x31F0, 0x31FF), (0x3400, 0x4DBF), (0x4E00, 0x9FFF), (0xF900, 0xFAFF), (0xFF66, 0xFF9D)),
    (0x20000, 0x323AF),
)
_LETTERS = "".join(f"{chr(first)}-{chr(last)}" for first, last in _RANGES)
_RUN = re.compile(f"([{_LETTERS}]+)")
# A full stop of these scripts needs no space behind it. Thai and Lao have none: there a space ends
# a phrase, unless it belongs to one of the two marks of repetition and abbreviation.
_THAI = "\u0e01-\u0e2e\u0e30-\u0e45\u0e47-\u0eff"
_END = re.compile(
    rf"(?:[。！？｡။។]|(?<=[{_LETTERS}])[!?])+[\"'”’)\]»」』）】》]*"
    rf"|(?<=[{_THAI}])(?P<phrase>\s+)(?=[{_THAI}])"
)
_THAI_SENTENCE = 40  # letters that a sentence has at least, about eight words
_LETTERS_A_WORD = 2


def unspaced(text: str) -> bool:
    """Whether a letter of ``text`` is of such a script."""
    return not text.isascii() and _RUN.search(text) is not None


def unspaced_rows(texts: pl.Series) -> pl.Series:
    """``unspaced`` of each text."""
    return texts.str.contains(f"[{_LETTERS}]")


def cut_unspaced(sentences: Iterable[str]) -> Iterator[str]:
    """Sentences cut at the full stops of these scripts, in Thai at a space after 40 letters.

    Trimmed, none empty; only white space is lost.
    """
    for sentence in sentences:
        start = 0
        for match in _END.finditer(sentence) if unspaced(sentence) else ():
            if not match["phrase"] or match.start() - start >= _THAI_SENTENCE:
                yield sentence[start : match.end()].strip()
                start = match.end()
        if rest := sentence[start:].strip():
            yield rest


def words_between(text: str, spaced: re.Pattern[str]) -> list[str]:
    """The words of ``text`` in order: matches of ``spaced``; of these scripts pairs of letters.

    A letter alone is a word, too.
    """
    if not unspaced(text):
        return spaced.findall(text)
    found: list[str] = []
    for place, piece in enumerate(_RUN.split(text)):
        pairs = (piece[i : i + 2] for i in range(max(len(piece) - 1, 1)))
        found += pairs if place % 2 else spaced.findall(piece)
    return found


def count_words(text: str) -> int:
    """The white-space words of ``text``, two letters of these scripts as one word."""
    if not unspaced(text):
        return len(text.split())
    runs = (-(-len(run) // _LETTERS_A_WORD) for run in _RUN.findall(text))
    return len(_RUN.sub(" ", text).split()) + sum(runs)
