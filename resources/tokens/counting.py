"""Shared parts of token counters: a tally of counted texts, and bounds for byte-level BPE."""

from collections.abc import Sequence
from functools import partial
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

from decomposerl.ports import Mapper, TokenCounter

Ints = NDArray[np.int64]
_TEXTS = 4_096  # of a batch, where a mapper runs them


class TalliedTokens:
    """A ``TokenCounter`` that counts each distinct text once and tallies them.

    A stage sends its texts in batches, and claims share evidence across batches. What is kept of a
    counted text is a digest and its count, about 150 bytes.
    """

    def __init__(self, counter: TokenCounter, mapper: Mapper | None = None) -> None:
        """Wrap ``counter``; a ``mapper`` counts batches of texts elsewhere."""
        self._counter, self._mapper = counter, mapper
        self._known: dict[bytes, int] = {}

    @property
    def counted(self) -> int:
        """Distinct texts counted so far."""
        return len(self._known)

    @property
    def unit(self) -> str:
        """The counter's unit."""
        return self._counter.unit

    def count(self, texts: Sequence[str]) -> Ints:
        """The counter's counts, shape (n,)."""
        digests = [_digest(text) for text in texts]
        new = {
            key: text for key, text in zip(digests, texts, strict=True) if key not in self._known
        }
        if new:
            counts = self._count(list(new.values()))
            self._known |= dict(zip(new, counts.tolist(), strict=True))
        return np.array([self._known[key] for key in digests], np.int64)

    def _count(self, texts: Sequence[str]) -> Ints:
        if self._mapper is None:
            return self._counter.count(texts)
        batches = (texts[start : start + _TEXTS] for start in range(0, len(texts), _TEXTS))
        return np.concatenate([*self._mapper.map(partial(_count, self._counter), batches)])

    def bounds(self, words: Ints, utf8_bytes: Ints) -> tuple[Ints, Ints]:
        """The counter's bounds, shape (n,) each; they do not change the tally."""
        return self._counter.bounds(words, utf8_bytes)


def _digest(text: str) -> bytes:
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()


def _count(counter: TokenCounter, texts: Sequence[str]) -> Ints:
    return counter.count(texts)


def byte_level_bpe_bounds(words: Ints, utf8_bytes: Ints) -> tuple[Ints, Ints]:
    """Least and most tokens of texts with these numbers of white-space words and bytes.

    Valid for byte-level BPE (GPT-2, Llama 3, Qwen) that adds no special tokens:

    - words <= tokens. The text is split into pre-tokens before any merge. No pre-token has
      characters of two words, because white space is only at its ends or is all of it. So each
      word has its own pre-token, which gives at least one token.
    - tokens <= bytes. The tokens of a text partition its bytes into non-empty parts. A normaliser
      that grows the text breaks this; NFC grows only a few rare letters (such as U+0958).

    Not valid for SentencePiece models, whose tokens may span words, and for texts with the control
    characters U+001C to U+001F, which are white space in Python but not in a tokenizer.
    """
    return words, utf8_bytes
