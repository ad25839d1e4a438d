"""What token counters share: how often they were asked, and bounds that hold for byte BPE.

Takes a ``TokenCounter`` or numbers, gives the same counter with a tally, or bounds.

Left out deliberately: any tokenizer (the modules beside this one).
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from decomposerl.ports import TokenCounter

Ints = NDArray[np.int64]


class TalliedTokens:
    """A ``TokenCounter`` that remembers how many texts it was asked to count."""

    def __init__(self, counter: TokenCounter) -> None:
        """``counter`` does the work."""
        self._counter = counter
        self.counted = 0
        """Texts counted so far."""

    @property
    def unit(self) -> str:
        """The counter's unit."""
        return self._counter.unit

    def count(self, texts: Sequence[str]) -> Ints:
        """The counter's counts, shape (n,)."""
        self.counted += len(texts)
        return self._counter.count(texts)

    def bounds(self, words: Ints, utf8_bytes: Ints) -> tuple[Ints, Ints]:
        """The counter's bounds, shape (n,) each; asking for them counts nothing."""
        return self._counter.bounds(words, utf8_bytes)


def byte_level_bpe_bounds(words: Ints, utf8_bytes: Ints) -> tuple[Ints, Ints]:
    """Least and most tokens of texts with so many white-space words and bytes.

    Holds for byte-level BPE (GPT-2, Llama 3, Qwen) that adds no token of its own:

    - words <= tokens. The text is cut into pre-tokens before any merge, and none has
      characters of two words: white space stands only at its ends, or is all of it. So each
      word has a pre-token for itself, and a pre-token gives at least one token.
    - tokens <= bytes. The tokens of a pre-token are a partition of its bytes into parts that
      are not empty, and the pre-tokens are one of the text's. A normaliser that grows the
      text breaks this; NFC grows a few rare letters only (U+0958, for example).

    It does not hold for SentencePiece models, whose tokens may span words, and in texts with
    the control characters U+001C to U+001F, which are white space to Python and none to a
    tokenizer.
    """
    return words, utf8_bytes
