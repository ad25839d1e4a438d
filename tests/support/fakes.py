"""Hand-written fakes for the ports."""

import random
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from decomposerl.claims.claim import Record, Reject
from decomposerl.claims.records import broken_field
from decomposerl.claims.source import NativeFile

T = TypeVar("T")
R = TypeVar("R")


@dataclass(frozen=True)
class MemoryPages:
    """A page database in memory: sentences by title, elements by (title, element id)."""

    texts: Mapping[str, Sequence[str]] = field(default_factory=dict)
    parts: Mapping[tuple[str, str], str] = field(default_factory=dict)

    def sentences(self, title: str) -> tuple[str, ...] | None:
        """The page's sentences; None if there is no such page."""
        found = self.texts.get(title)
        return None if found is None else tuple(found)

    def element(self, title: str, element_id: str) -> str | None:
        """One element's text; None if there is no such element."""
        return self.parts.get((title, element_id))


@dataclass(frozen=True)
class MemoryCorpora:
    """A corpora folder in memory: rows by path, page databases by path.

    A row may be a ``Reject``, which then comes out in its place; text that no file can hold is one.
    """

    rows: Mapping[str, Sequence[Mapping[str, object] | Reject]]
    databases: Mapping[str, MemoryPages] = field(default_factory=dict)

    def exists(self, path: str) -> bool:
        """Whether the path has rows."""
        return path in self.rows

    def records(self, file: NativeFile) -> Iterator[Record | Reject]:
        """The rows of a path, numbered from 1; none for an unknown path."""
        for number, row in enumerate(self.rows.get(file.path, ()), start=1):
            broken = None if isinstance(row, Reject) else _broken_text(row)
            if broken is not None:
                yield Reject(file.path, number, broken, "broken_encoding", "lone surrogate")
            else:
                yield row if isinstance(row, Reject) else Record(file.path, number, row)

    def pages(self, path: str) -> MemoryPages | None:
        """The page database of a path, or None."""
        return self.databases.get(path)


def _broken_text(row: Mapping[str, object]) -> str | None:
    try:
        return broken_field(row)
    except (TypeError, ValueError):  # bytes, or a number that nobody can print
        return None


@dataclass
class WordCounter:
    """A token counter that counts words and records the size of each request.

    Its bounds are the words plus and minus ``slack``; None gives no useful bounds.
    """

    asked: list[int] = field(default_factory=list)
    unit: str = "words"
    slack: int | None = None

    def count(self, texts: Sequence[str]) -> NDArray[np.int64]:
        """Number of whitespace-separated words in each text."""
        self.asked.append(len(texts))
        return np.array([len(text.split()) for text in texts], dtype=np.int64)

    def bounds(
        self, words: NDArray[np.int64], utf8_bytes: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The words minus and plus the slack, or trivial bounds."""
        assert (words <= utf8_bytes).all()
        if self.slack is None:
            return np.zeros_like(words), np.full_like(words, np.iinfo(np.int64).max)
        return np.maximum(words - self.slack, 0), words + self.slack


@dataclass
class CapitalisedWords:
    """An entity recogniser that treats every capitalised word as an entity."""

    asked: list[int] = field(default_factory=list)
    engine: str = "capitalised-words"

    def entities(self, texts: Sequence[str]) -> list[list[str]]:
        """The distinct capitalised words of each text, lower-cased."""
        self.asked.append(len(texts))
        return [
            list(dict.fromkeys(word.lower() for word in text.split() if word[:1].isupper()))
            for text in texts
        ]


@dataclass
class ScriptedVerifier:
    """A verifier with a listed probability per claim, by default one from the claim's hash."""

    listed: Mapping[str, float] = field(default_factory=dict)
    asked: list[int] = field(default_factory=list)
    engine: str = "scripted-verifier"
    details: Callable[[], dict[str, int]] = dict

    def support_probability(self, pairs: Sequence[tuple[str, str]]) -> NDArray[np.float64]:
        """One probability per pair; the evidence is ignored."""
        self.asked.append(len(pairs))
        return np.array(
            [self.listed.get(claim, zlib.crc32(claim.encode()) % 101 / 100) for _, claim in pairs]
        )


@dataclass
class BagOfWordsEmbedder:
    """An embedder that sums a fixed random direction per word."""

    asked: list[int] = field(default_factory=list)
    engine: str = "bag-of-words"
    dimensions: int = 32

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Unit vectors: the same words in another order give the same vector."""
        self.asked.append(len(texts))
        sums = [sum(map(self._direction, sorted(text.lower().split()) or [""])) for text in texts]
        return np.array([vector / np.linalg.norm(vector) for vector in sums], dtype=np.float32)

    def _direction(self, word: str) -> NDArray[np.float64]:
        seed = zlib.crc32(word.encode("utf-8", "surrogatepass"))
        return np.random.default_rng(seed).normal(size=self.dimensions)


@dataclass
class ScriptedEmbedder:
    """An embedder that gives the unit vector listed for a text."""

    listed: Mapping[str, Sequence[float]]
    engine: str = "scripted-embedder"

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """The listed vectors, scaled to length 1."""
        rows = np.array([self.listed[text] for text in texts], dtype=np.float64)
        return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True), dtype=np.float32)


@dataclass
class ScriptedDecomposer:
    """A decomposer with listed questions per claim, by default one question per word."""

    listed: Mapping[str, list[str] | None] = field(default_factory=dict)
    asked: list[int] = field(default_factory=list)
    engine: str = "scripted-decomposer"

    def decompose(self, pairs: Sequence[tuple[str, str]]) -> list[list[str] | None]:
        """One answer per pair; the evidence is ignored."""
        self.asked.append(len(pairs))
        return [
            self.listed.get(claim, [f"What about {word}?" for word in claim.split()])
            for _, claim in pairs
        ]


class MemoryArrays:
    """An ``ArrayStore`` in memory; like mapped files, what it gives cannot be written to."""

    def __init__(self) -> None:
        """Nothing is stored yet."""
        self.groups: dict[str, dict[str, NDArray[Any]]] = {}

    def write(self, name: str, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Keep copies."""
        self.groups[name] = {key: array.copy() for key, array in arrays.items()}
        for array in self.groups[name].values():
            array.flags.writeable = False

    def read(self, name: str) -> dict[str, NDArray[Any]]:
        """The kept arrays themselves."""
        return dict(self.groups[name])

    def remove(self, name: str) -> None:
        """Forget a group."""
        del self.groups[name]


class ShuffledMapper:
    """A ``Mapper`` that runs batches in a random order and gives results in the batches' order.

    One batch is run again after all the others, as where its node is lost with its result.
    """

    engine = "shuffled"

    def __init__(self, seed: int = 0) -> None:
        """``seed`` draws the order."""
        self._random = random.Random(seed)

    def map(self, function: Callable[[T], R], batches: Iterable[T]) -> Iterator[R]:
        """As the port's, though not lazy."""
        every = [*batches]
        order = self._random.sample(range(len(every)), len(every))
        done = {number: function(every[number]) for number in [*order, *order[:1]]}
        return (done[number] for number in range(len(every)))
