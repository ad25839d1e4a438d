"""The token counter as a Dagster resource: a word-based estimate, or a model's own tokenizer."""

from collections.abc import Sequence
from functools import partial
from hashlib import blake2b
from typing import Literal

import dagster as dg
import numpy as np
from numpy.typing import NDArray
from pydantic import Field, PrivateAttr

from decomposerl.ports import Mapper, TokenCounter
from resources.hub.locks import MODELS_LOCK, ModelLocks
from resources.mapper.pools import OpenMapper, PoolMapper
from resources.mapper.resource import MapperChoice
from resources.profile_defaults import ProfileDefaults
from resources.tokens.model_tokens import ModelTokens
from resources.tokens.word_tokens import WordTokens

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


class TokensResource(ProfileDefaults, dg.ConfigurableResource):  # type: ignore[type-arg]
    """The token counter. Counting is faster than reading stored results, so none are stored."""

    engine: Literal["embedded", "tokenizer"] = Field(
        default="embedded", description="word-based estimate, or a model's own tokenizer"
    )
    model: str = Field(default="", description="tokenizer: folder or hub name of the policy")
    revision: str = Field(default="main", description="tokenizer: branch or commit")
    models_lock: str = Field(default="", description=MODELS_LOCK)

    mapper: MapperChoice = Field(
        default=MapperChoice(), description="tokenizer: where its batches run"
    )

    _opened: OpenMapper | None = PrivateAttr(default=None)

    def open(self) -> TalliedTokens:
        """A fresh counter; its ``counted`` starts at zero."""
        if self.engine == "embedded":
            return TalliedTokens(WordTokens())
        self._opened = mapper = self.mapper.open()
        return TalliedTokens(
            ModelTokens(self.model, self.revision, ModelLocks(self.models_lock).cached),
            mapper if isinstance(mapper, PoolMapper) else None,
        )

    def teardown_after_execution(self, context: dg.InitResourceContext) -> None:  # noqa: ARG002 - Dagster's signature
        """End the mapper's workers."""
        if self._opened is not None:
            self._opened.close()
