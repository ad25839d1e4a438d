"""The engines that the funnel needs, as Protocols.

Each port takes a sequence and returns one answer per item, in order. ``engine`` names the
program behind it and is written into every table that it contributes to. Engines are in
``resources``.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

Batch = TypeVar("Batch")
Result = TypeVar("Result")


class TokenCounter(Protocol):
    """Counts how long a text is for the policy."""

    @property
    def unit(self) -> str:
        """What is counted, recorded as ``token_unit`` (for example ``words_x1.3``)."""
        ...

    def count(self, texts: Sequence[str]) -> NDArray[np.int64]:
        """Length of each text in ``unit``, shape (n,)."""
        ...

    def bounds(
        self, words: NDArray[np.int64], utf8_bytes: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Lower and upper bounds of ``count`` for texts of these white-space words and bytes.

        Must hold for every text. Where both are equal for all texts nothing is counted; an
        engine without bounds returns 0 and the largest int64.
        """
        ...


class EntityRecogniser(Protocol):
    """Finds named entities (paper, appendix "NER Grounding")."""

    @property
    def engine(self) -> str:
        """Name of the program behind the port."""
        ...

    def entities(self, texts: Sequence[str]) -> list[list[str]]:
        """Per text its distinct normalised surface forms, in order of first appearance."""
        ...


class Verifier(Protocol):
    """Scores how well evidence supports a claim (paper, "Difficulty-Based Filtering")."""

    @property
    def engine(self) -> str:
        """Name of the program behind the port."""
        ...

    def support_probability(self, pairs: Sequence[tuple[str, str]]) -> NDArray[np.float64]:
        """P(supported) of each ``(evidence, claim)`` pair, shape (n,), range 0..1."""
        ...


class Embedder(Protocol):
    """Maps claims or questions to unit vectors."""

    @property
    def engine(self) -> str:
        """Name of the program and model behind the port."""
        ...

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Unit-normalised vectors, shape (n, d)."""
        ...


class Decomposer(Protocol):
    """Writes the silver sub-questions of a claim (paper, "Silver Decomposition")."""

    @property
    def engine(self) -> str:
        """Name of the program and model behind the port."""
        ...

    def decompose(self, pairs: Sequence[tuple[str, str]]) -> list[list[str] | None]:
        """Sub-questions of each ``(evidence, claim)`` pair; null where no answer came."""
        ...


class Mapper(Protocol):
    """Runs a function over batches: in this process, in several, or on a cluster."""

    @property
    def engine(self) -> str:
        """Where batches run: ``in process``, ``processes (2)``, ``ray (2 nodes)``."""
        ...

    def map(
        self, function: Callable[[Batch], Result], batches: Iterable[Batch]
    ) -> Iterator[Result]:
        """The result of each batch, in the order of ``batches``.

        Lazy: a batch is taken from ``batches`` when a worker will soon be free, so a bounded
        number is in memory. ``function`` must be picklable, and is unpickled once a worker: what
        it opens, such as a model, stays open between batches. A batch may run twice, as where
        its first result is lost. The first exception ends the map; it is raised here with a note
        that has the number of its batch, from 0.
        """
        ...


class ArrayStore(Protocol):
    """Named groups of arrays that the tasks of one step share: a folder that every worker sees.

    Picklable; what a task writes, every later task can read.
    """

    def write(self, name: str, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Store a group whole, or replace it."""
        ...

    def read(self, name: str) -> dict[str, NDArray[Any]]:
        """The arrays of a group, read-only, in memory only as far as they are used."""
        ...

    def remove(self, name: str) -> None:
        """Forget a group, which nothing reads again."""
        ...


@dataclass(frozen=True, slots=True)
class Tasks:
    """What a step needs to run as tasks of bounded memory: workers, and arrays they share."""

    mapper: Mapper
    arrays: ArrayStore
