"""What a verifier model reads about a pair, and how its scores become one probability.

A pair becomes (chunk, claim part) questions. The best chunk counts for each part of the claim, and
the weakest part counts for the claim. Chunks of a document are cut at sentence ends.

The public MiniCheck code does the same with another sentence splitter (NLTK's), so some chunk
borders differ from it. A hosted MiniCheck's chunks are counted with the model's tokenizer if its
``tokenizer.json`` is on this machine, else in UTF-8 bytes, which are never fewer than the tokens.
Nothing is looked up before the first text, or downloaded.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from decomposerl.errors import EngineMissing
from decomposerl.evaluation.entries import ClaimReading
from decomposerl.kernels.text_scan import sentences
from decomposerl.ports import TokenCounter
from decomposerl.text.sentences import split_sentences
from resources.hub.locks import HUB_MODELS, Pin, as_named
from resources.tokens.model_tokens import ModelTokens, tokenizer_file

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


Measure = Callable[[Sequence[str]], Sequence[int]]
"""Sizes of texts, one each, in the unit of a budget."""


def words(texts: Sequence[str]) -> list[int]:
    """Number of white-space separated words of each text."""
    return [len(text.split()) for text in texts]


def utf8_bytes(texts: Sequence[str]) -> list[int]:
    """Bytes of each text, and one for the joint to the next.

    A byte-fallback tokenizer never makes more tokens than this, so a token budget measured in
    bytes is never exceeded.
    """
    return [len(text.encode("utf-8", "surrogatepass")) + 1 for text in texts]


def measure_of(tokens: TokenCounter | None) -> Measure:
    """Sizes by a counter, or in UTF-8 bytes where there is none."""

    def sizes(texts: Sequence[str]) -> list[int]:
        return [int(size) for size in tokens.count(texts)] if tokens and texts else []

    return sizes if tokens else utf8_bytes


def chunks(document: str, budget: int, measure: Measure) -> list[str]:
    """Chunks of whole sentences in order; none for a blank document.

    A chunk ends where the next sentence would exceed ``budget``; a sentence above it has its own
    chunk. Sentences of one line are joined by a space, lines by a line break.

    Raises:
        ValueError: ``budget`` is below 1.
    """
    if budget < 1:
        raise ValueError(f"the chunk budget is {budget}; it must be at least 1")
    joined = [
        (sentence, " " if index else "\n")
        for line in document.splitlines()
        for index, sentence in enumerate(sentences(line))
    ]
    packed: list[str] = []
    room = 0
    for (sentence, joint), size in zip(joined, measure([s for s, _ in joined]), strict=True):
        if packed and size <= room:
            packed[-1] += joint + sentence
            room -= size
        else:
            packed.append(sentence)
            room = budget - size
    return packed


Pair = tuple[str, str]
ClaimSplit = Literal["whole", "min_over_sentences"]
"""``whole``: the claim at once (the public code of 2024 and the leaderboard).
``min_over_sentences``: each sentence by itself (the public code of the 7B model and Granite since
August 2025)."""


def claim_split_of(model: str, reading: ClaimReading = "own") -> ClaimSplit:
    """How ``model`` reads a claim: as the setting says, by default as its publisher's code does.

    That is declared in ``models.toml``; a model without a declaration reads the whole claim.
    """
    if reading != "own":
        return reading
    declared: ClaimSplit = HUB_MODELS.get(model, {}).get("claim_split", "whole")
    return declared


@dataclass(frozen=True, slots=True)
class Questions:
    """All (chunk, claim part) questions, and each pair's (chunks, parts), in order."""

    asked: list[Pair]
    shapes: list[tuple[int, int]]


def combined(scores: NDArray[np.float64], shapes: Sequence[tuple[int, int]]) -> NDArray[np.float64]:
    """One score per pair, shape (pairs,), from one score per question, shape (questions,).

    The maximum over chunks, then the minimum over parts; NaN where any is NaN, since an
    unanswered question might have changed either.
    """
    ends = np.cumsum([0, *(rows * parts for rows, parts in shapes)])
    return np.array(
        [
            scores[start:end].reshape(shape).max(axis=0).min()
            for (start, end), shape in zip(pairwise(ends), shapes, strict=True)
        ],
        dtype=np.float64,
    )


def questions(
    pairs: Sequence[Pair], budget: int, measure: Measure, claim_split: ClaimSplit
) -> Questions:
    """The questions of ``pairs``; blank evidence and a blank claim are asked as they are.

    So is a claim of one sentence: its questions are the same under each split.
    """
    asked: list[Pair] = []
    shapes: list[tuple[int, int]] = []
    for evidence, claim in pairs:
        documents = chunks(evidence, budget, measure) or [""]
        parts = [claim] if claim_split == "whole" else split_sentences(claim)
        parts = parts if len(parts) > 1 else [claim]
        asked += [(document, part) for document in documents for part in parts]
        shapes.append((len(documents), len(parts)))
    return Questions(asked, shapes)
