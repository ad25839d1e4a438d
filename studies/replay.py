"""Engines that answer from recorded tables, without any model.

A folder that ``record`` filled has ``<port>.parquet`` with ``key`` and ``value``, and memory-mapped
vectors in ``embedder.npy``. An input that was not recorded is an error.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import dagster as dg
import numpy as np
import polars as pl
from numpy.typing import NDArray
from pydantic import Field

from decomposerl.errors import EngineError
from resources.profile_defaults import ProfileDefaults
from resources.store.parquet import write_parquet
from resources.store.paths import LocalPath
from resources.store.result_store import key_of
from resources.store.temporary import replace_file

Pair = tuple[str, str]
_SHOWN = 80
_BLOCK = 4_096


class _Replay:
    """One recorded table and how often it was used."""

    port: str

    def __init__(self, folder: Path) -> None:
        """Reads nothing before the first item."""
        self._path = folder / f"{self.port}.parquet"
        self._rows: dict[str, int] | None = None
        self._values: Any = None
        self.engine = f"replay of {folder.name}"
        """Name of the engine: the folder of its recorded answers."""
        self.calls = 0
        """Items sent to an engine: none."""
        self.hits = 0
        """Items answered from the table."""

    def details(self) -> dict[str, int | float | str]:
        """Nothing else is counted."""
        return {}

    def _load(self, table: pl.DataFrame) -> Any:  # noqa: ANN401 - a series, or the path of the vectors
        return table["value"]

    def _find(self, items: Sequence[tuple[str, ...]]) -> NDArray[np.int64]:
        """Row of each item's record, shape (n,); an error shows the last part of an item.

        Raises:
            EngineError: there is no table, or an item was never recorded.
        """
        if self._rows is None:
            if not self._path.is_file():
                raise EngineError(f"{self.engine}: there is no {self._path}")
            table = pl.read_parquet(self._path)  # once: the file may be replaced meanwhile
            self._rows = {key: row for row, key in enumerate(table["key"].to_list())}
            self._values = self._load(table)
        rows = np.empty(len(items), np.int64)
        for position, item in enumerate(items):
            row = self._rows.get(key_of(*item))
            if row is None:
                raise EngineError(
                    f"{self.engine}: the {self.port} has no record of '{item[-1][:_SHOWN]}'"
                )
            rows[position] = row
        self.hits += len(items)
        return rows


class ReplayEmbedder(_Replay):
    """An ``Embedder`` over recorded vectors."""

    port = "embedder"

    def _load(self, table: pl.DataFrame) -> Path:  # noqa: ARG002 - keys alone
        return self._path.with_suffix(".npy")

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """The recorded vectors, shape (n, d)."""
        rows = self._find([(text,) for text in texts])
        vectors = np.empty((len(rows), self._mapped().shape[1]), np.float32)
        for start in range(0, len(rows), _BLOCK):
            block = slice(start, start + _BLOCK)
            # A new memory map each time, so that pages that were read are released.
            np.take(self._mapped(), rows[block], axis=0, out=vectors[block])
        return vectors

    def _mapped(self) -> NDArray[np.float32]:
        vectors: NDArray[np.float32] = np.load(self._values, mmap_mode="r")
        return vectors


class ReplayVerifier(_Replay):
    """A ``Verifier`` over recorded probabilities."""

    port = "verifier"

    def support_probability(self, pairs: Sequence[Pair]) -> NDArray[np.float64]:
        """The recorded probabilities, shape (n,)."""
        rows = self._find(pairs)
        chances: NDArray[np.float64] = self._values[rows].to_numpy()
        return chances


class ReplayEntities(_Replay):
    """An ``EntityRecogniser`` over recorded surface forms."""

    port = "entities"

    def entities(self, texts: Sequence[str]) -> list[list[str]]:
        """The recorded forms of each text."""
        rows = self._find([(text,) for text in texts])
        forms: list[list[str]] = self._values[rows].to_list()
        return forms


class ReplayDecomposer(_Replay):
    """A ``Decomposer`` over recorded questions; a recorded null is a missing answer."""

    port = "decomposer"

    def decompose(self, pairs: Sequence[Pair]) -> list[list[str] | None]:
        """The recorded questions of each pair."""
        rows = self._find(pairs)
        asked: list[list[str] | None] = self._values[rows].to_list()
        return asked


def record(
    folder: Path,
    replay: type[_Replay],
    items: Sequence[tuple[str, ...]],
    answers: pl.Series | NDArray[np.float32],
) -> None:
    """Write the answers that ``replay`` gives for ``items``, replacing earlier ones.

    ``items`` are ``(text,)`` or ``(evidence, claim)``; a repeated item keeps its last
    answer.
    """
    keys = pl.Series("key", [key_of(*item) for item in items], dtype=pl.String())
    path = folder / f"{replay.port}.parquet"
    if isinstance(answers, pl.Series):
        write_parquet(pl.DataFrame({"key": keys, "value": answers}), path)
        return
    replace_file(path.with_suffix(".npy"), lambda file: _save(file, answers))
    write_parquet(pl.DataFrame({"key": keys}), path)


def _save(path: Path, vectors: NDArray[np.float32]) -> None:
    with path.open("wb") as handle:
        np.save(handle, vectors)


class ReplayResource(ProfileDefaults, dg.ConfigurableResource):  # type: ignore[type-arg]
    """What the four resources share: the folder of the tables."""

    folder: LocalPath = Field(description="folder of recorded answers")

    def close(self) -> None:
        """Nothing is open."""


class ReplayEmbedderResource(ReplayResource):
    """Recorded vectors under the key ``embedder``."""

    def open(self) -> ReplayEmbedder:
        """The port; its ``calls`` and ``hits`` start at zero."""
        return ReplayEmbedder(Path(self.folder))


class ReplayVerifierResource(ReplayResource):
    """Recorded probabilities under the key ``verifier``."""

    def open(self) -> ReplayVerifier:
        """The port; its ``calls`` and ``hits`` start at zero."""
        return ReplayVerifier(Path(self.folder))


class ReplayEntitiesResource(ReplayResource):
    """Recorded surface forms under the key ``entities``."""

    def open(self) -> ReplayEntities:
        """The port; its ``calls`` and ``hits`` start at zero."""
        return ReplayEntities(Path(self.folder))


class ReplayDecomposerResource(ReplayResource):
    """Recorded questions under the key ``decomposer``."""

    def open(self) -> ReplayDecomposer:
        """The port; its ``calls`` and ``hits`` start at zero."""
        return ReplayDecomposer(Path(self.folder))


def replay_resources(folder: Path) -> dict[str, ReplayResource]:
    """The four resources over one folder, by the names that assets use."""
    kinds = {
        "embedder": ReplayEmbedderResource,
        "verifier": ReplayVerifierResource,
        "entities": ReplayEntitiesResource,
        "decomposer": ReplayDecomposerResource,
    }
    return {name: kind(folder=str(folder)) for name, kind in kinds.items()}
