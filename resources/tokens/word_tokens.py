"""Length of a text in policy tokens, estimated without a tokenizer.

``WordTokens``: the white-space words times 1.3, rounded up, the usual subword expansion of English
prose; two letters of Chinese, Japanese or Thai are a word. ``CautiousTokens``: more than a model's
tokenizer gives for prose and tables.
"""

import re
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from decomposerl.kernels.unspaced import count_words


class WordTokens:
    """A ``TokenCounter`` that needs no tokenizer; unit ``words_x1.3``."""

    unit = "words_x1.3"

    def count(self, texts: Sequence[str]) -> NDArray[np.int64]:
        """``ceil(1.3 * words)`` of each text, shape (n,); an empty text counts 0."""
        return _of_words(np.array([count_words(text) for text in texts], dtype=np.int64))

    def bounds(
        self,
        words: NDArray[np.int64],
        utf8_bytes: NDArray[np.int64],  # noqa: ARG002 - the port's signature
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The count itself, twice: words are all it needs where spaces part them."""
        counts = _of_words(words)
        return counts, counts


class CautiousTokens:
    """Counts for a budget: each digit and sign is a token, four bytes of a word are one.

    Never less than a quarter of the bytes. Letters outside ASCII are a token per two bytes.
    """

    unit = "cautious"
    _PARTS = re.compile(r"[A-Za-z]+|[^\W\d_]+|[^\w\s]|[\d_\n]")

    def count(self, texts: Sequence[str]) -> NDArray[np.int64]:
        """The estimate for each text, shape (n,); an empty text counts 0."""
        return np.array([self._count(text) for text in texts], dtype=np.int64)

    def _count(self, text: str) -> int:
        parts = self._PARTS.findall(text)
        pieces = sum(-(-len(part.encode()) // (4 if part.isascii() else 2)) for part in parts)
        return max(pieces, -(-len(text.encode()) // 4))


def _of_words(words: NDArray[np.int64]) -> NDArray[np.int64]:
    # In whole tenths, because ceil(1.3 * 10) is 14 in floating point.
    return -(-13 * words // 10)
