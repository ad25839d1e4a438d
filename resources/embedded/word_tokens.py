"""Length of a text in policy tokens, estimated from its words.

Takes texts, gives whole numbers: the white-space words times 1.3, rounded up. The factor
is the usual subword expansion of English prose.

Left out deliberately: the policy's own tokenizer, which the other profiles count with.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray


class WordTokens:
    """A ``TokenCounter`` that needs no tokenizer; unit ``words_x1.3``."""

    @property
    def unit(self) -> str:
        """The name recorded as ``token_unit``."""
        return "words_x1.3"

    def count(self, texts: Sequence[str]) -> NDArray[np.int64]:
        """``ceil(1.3 * words)`` of each text, shape (n,); an empty text counts 0."""
        # In whole tenths, because ceil(1.3 * 10) is 14 in floating point.
        tenths = np.array([13 * len(text.split()) for text in texts], dtype=np.int64)
        return -(-tenths // 10)
