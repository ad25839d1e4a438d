"""What a chunk for a hosted MiniCheck is measured in: its own tokens where they can be counted.

Takes what a person set and the verifier's model, gives a ``TokenCounter``. The model's own
tokenizer is taken where its ``tokenizer.json`` lies on this machine; else UTF-8 bytes, which
are never fewer than the tokens. Nothing is looked for before the first question.

Left out deliberately: cutting (``resources.verifier.chunks``), and fetching a tokenizer.
"""

from collections.abc import Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from decomposerl.errors import EngineMissing
from resources.tokens.model_tokens import ModelTokens, tokenizer_file
from resources.verifier.chunks import utf8_bytes

BYTES = "bytes"
Ints = NDArray[np.int64]


class ChunkTokens:
    """A ``TokenCounter`` of sentences; each counts one more for what joins it to the next."""

    def __init__(self, tokenizer: str, model: str, revision: str = "") -> None:
        """``tokenizer`` is a folder, a hub name, or ``bytes``; empty for that of ``model``."""
        self._asked, self._model, self._revision = tokenizer, model, revision or "main"

    @property
    def unit(self) -> str:
        """The name recorded with the engine: answers over other chunks never mix with these."""
        return BYTES if self._tokens is None else f"{self._tokens.unit}+joint"

    def count(self, texts: Sequence[str]) -> Ints:
        """Size of each text, shape (n,).

        Raises:
            EngineMissing: a tokenizer was named and is not there; says the command.
        """
        if self._tokens is None:
            return np.array(utf8_bytes(texts), np.int64)
        return self._tokens.count(texts) + 1

    def bounds(self, words: Ints, utf8_bytes: Ints) -> tuple[Ints, Ints]:  # noqa: ARG002 - the port's signature
        """None: sentences are always counted."""
        return np.zeros_like(words), np.full_like(words, np.iinfo(np.int64).max)

    @cached_property
    def _tokens(self) -> ModelTokens | None:
        if self._asked:
            return None if self._asked == BYTES else ModelTokens(self._asked)
        try:
            found = tokenizer_file(self._model, self._revision)
        except EngineMissing:  # without the hub's package there is no cache to look into
            found = None
        return ModelTokens(self._model, self._revision) if found else None
