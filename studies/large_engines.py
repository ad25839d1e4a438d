"""Engines that compute their answers from the text alone: a pool of any size needs no table.

Shares of the answers lead to about the paper's survivors. Nothing is learned or measured by them:
they stand for engines whose results are there already.
"""

from collections.abc import Sequence
from zlib import crc32

import dagster as dg
import numpy as np
from numpy.typing import NDArray

from perf.inputs import Vectors, scaled_to_one, unit_noise
from resources.profile_defaults import ProfileDefaults

Pair = tuple[str, str]
UNNAMED, IN_BAND, UNASKED = 0.20, 0.215, 0.05
WORDS, LEAST_LETTERS, BLOCK = 1 << 15, 6, 4_096
_ENTITIES, _VERIFIER, _QUESTIONS = b"entities", b"verifier", b"questions"


def shares(texts: Sequence[str], salt: bytes) -> NDArray[np.float64]:
    """A fixed number in 0..1 for each text, shape (n,), independent between salts."""
    start = crc32(salt)
    numbers = [crc32(text.encode(), start) for text in texts]
    return np.array(numbers, np.float64) / 2**32


class MadeEngine:
    """What the engines share: a name, and counts of what they were used for."""

    engine = "made"
    calls = 0

    def __init__(self) -> None:
        """Nothing was answered yet."""
        self.hits = 0

    def details(self) -> dict[str, int | float | str]:
        """Nothing else is counted."""
        return {}


class MadeEntities(MadeEngine):
    """Two entities a claim, one for the share ``UNNAMED``."""

    def entities(self, texts: Sequence[str]) -> list[list[str]]:
        """The entities of each text."""
        self.hits += len(texts)
        return [["Ann"] if low else ["Ann", "Bob"] for low in shares(texts, _ENTITIES) < UNNAMED]


class MadeVerifier(MadeEngine):
    """0.5 for the share ``IN_BAND`` of claims, 0.05 or 0.95 for the others."""

    def support_probability(self, pairs: Sequence[Pair]) -> NDArray[np.float64]:
        """P(supported), shape (n,)."""
        self.hits += len(pairs)
        drawn = shares([claim for _, claim in pairs], _VERIFIER)
        return np.select([drawn < IN_BAND, drawn < (1 + IN_BAND) / 2], [0.5, 0.05], 0.95)


class MadeDecomposer(MadeEngine):
    """Three questions a claim, one for the share ``UNASKED``."""

    def decompose(self, pairs: Sequence[Pair]) -> list[list[str] | None]:
        """The questions of each pair."""
        self.hits += len(pairs)
        drawn = shares([claim for _, claim in pairs], _QUESTIONS)
        return [["Who?"] if low else ["Who?", "Where?", "When?"] for low in drawn < UNASKED]


class MadeEmbedder(MadeEngine):
    """The sum of fixed random vectors of a claim's longer words, so that near copies are near."""

    def __init__(self, dimensions: int) -> None:
        """Vectors have ``dimensions`` numbers."""
        super().__init__()
        self._words = unit_noise(np.random.default_rng(31), WORDS, dimensions)

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Unit vectors, shape (n, d)."""
        self.hits += len(texts)
        vectors = np.empty((len(texts), self._words.shape[1]), np.float32)
        for start in range(0, len(texts), BLOCK):
            block = texts[start : start + BLOCK]
            rows = [self._rows(text) for text in block]
            starts = np.cumsum([0, *map(len, rows)])[:-1]
            gathered = self._words[np.concatenate(rows)]
            np.add.reduceat(gathered, starts, axis=0, out=vectors[start : start + len(block)])
        return scaled_to_one(vectors)

    @staticmethod
    def _rows(text: str) -> list[int]:
        long = [word for word in text.lower().split() if len(word) >= LEAST_LETTERS]
        return [crc32(word.encode()) % WORDS for word in long or [text]]


class MadeResource(ProfileDefaults, dg.ConfigurableResource):  # type: ignore[type-arg]
    """One of the engines, by the name that assets use."""

    port: str
    dimensions: int = 384

    def open(self) -> MadeEngine:
        """The engine; its ``hits`` start at zero."""
        if self.port == "embedder":
            return MadeEmbedder(self.dimensions)
        kinds = {"entities": MadeEntities, "verifier": MadeVerifier, "decomposer": MadeDecomposer}
        return kinds[self.port]()

    def close(self) -> None:
        """Nothing is open."""


def made_resources(dimensions: int) -> dict[str, MadeResource]:
    """The four resources."""
    return {
        port: MadeResource(port=port, dimensions=dimensions)
        for port in ("entities", "verifier", "decomposer", "embedder")
    }
