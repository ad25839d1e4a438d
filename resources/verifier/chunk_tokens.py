"""Token counter for the chunks of a hosted MiniCheck.

Counts with the model's tokenizer if its ``tokenizer.json`` is on this machine, else in UTF-8 bytes,
which are never fewer than the tokens. Nothing is looked up before the first text, or downloaded.
"""

from collections.abc import Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from decomposerl.errors import EngineMissing
from resources.hub.locks import Pin, as_named
from resources.tokens.model_tokens import ModelTokens, tokenizer_file
from resources.verifier.chunks import utf8_bytes

BYTES = "bytes"
Ints = NDArray[np.int64]


class ChunkTokens:
    """A ``TokenCounter`` of sentences; each counts one more for the joint to the next."""

    def __init__(self, tokenizer: str, model: str, revision: str = "", pin: Pin = as_named) -> None:
        """``tokenizer`` is a folder, a hub name, or ``bytes``; empty for that of ``model``.

        ``pin`` gives the commit that is read for a revision.
        """
        self._tokenizer, self._model, self._revision = tokenizer, model, revision or "main"
        self._pin = pin

    @property
    def unit(self) -> str:
        """The name recorded with the engine, so that answers over other chunks are never mixed."""
        return BYTES if self._tokens is None else f"{self._tokens.unit}+joint"

    def count(self, texts: Sequence[str]) -> Ints:
        """Size of each text, shape (n,).

        Raises:
            EngineMissing: the named tokenizer is missing; the message has the command.
        """
        if self._tokens is None:
            return np.array(utf8_bytes(texts), np.int64)
        return self._tokens.count(texts) + 1

    def bounds(self, words: Ints, utf8_bytes: Ints) -> tuple[Ints, Ints]:  # noqa: ARG002 - the port's signature
        """No bounds: sentences are always counted."""
        return np.zeros_like(words), np.full_like(words, np.iinfo(np.int64).max)

    @cached_property
    def _tokens(self) -> ModelTokens | None:
        if self._tokenizer:
            return None if self._tokenizer == BYTES else ModelTokens(self._tokenizer, pin=self._pin)
        try:
            file = tokenizer_file(self._model, self._pin(self._model, self._revision))
        except EngineMissing:  # without the hub's package there is no local cache
            file = None
        return ModelTokens(self._model, self._revision, self._pin) if file else None
