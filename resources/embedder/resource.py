"""The embedder as a Dagster resource: MiniLM, sentence-transformers, or an endpoint.

Opening imports no torch: an engine loads its model with its first item.
"""

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, SecretStr

from decomposerl.errors import ConfigError
from decomposerl.ports import Embedder
from resources.chat.resource import KeyedResource
from resources.embedder.hosted import EmbeddingsStopped, HostedEmbedder
from resources.embedder.minilm import MiniLM
from resources.embedder.sentence_transformers_engine import SentenceEmbedder
from resources.hub.locks import MODELS_LOCK, ModelLocks
from resources.store.resource import MappedResource
from resources.store.stored_engine import Answers, StoredEngine, every_row


class StoredEmbedder(StoredEngine[str]):
    """An ``Embedder`` whose vectors are stored (fixed-size lists of float32)."""

    _port = "embedder"

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """As the engine's, shape (n, d); needs one array of the distinct texts in memory.

        Raises:
            EmbeddingsStopped: a request failed; the vectors received are stored by then.
        """
        if not texts:
            return np.asarray(self._inner.embed(texts), dtype=np.float32)
        out: list[NDArray[np.float32]] = []

        def fill(rows: NDArray[np.int64], values: Any) -> None:  # noqa: ANN401 - an Arrow array
            width = values.type.list_size
            if not out:
                out.append(np.full((len(texts), width), np.nan, dtype=np.float32))
            out[0][rows] = values.flatten().to_numpy().reshape(len(values), width)

        positions = self._pass(texts, lambda text: (text,), fill, _answer)
        if len(texts) == int(positions.max()) + 1:
            return out[0]  # no text twice: already in order
        return out[0][positions]


def _answer(engine: Embedder, batch: list[str]) -> Answers:
    stopped: EmbeddingsStopped | None = None
    try:
        rows, raw = every_row(len(batch)), engine.embed(batch)
    except EmbeddingsStopped as error:
        if not len(error.rows):
            raise
        stopped, rows, raw = error, error.rows, error.vectors
    return Answers(rows, _vectors(raw), stopped)


def _vectors(raw: NDArray[np.float32]) -> Any:  # noqa: ANN401 - an Arrow array
    import pyarrow as pa

    raw = np.ascontiguousarray(raw, dtype=np.float32)
    return pa.FixedSizeListArray.from_arrays(pa.array(raw.ravel(), pa.float32()), raw.shape[1])


NumberType = Literal["float32", "bfloat16", "float16"]


class EmbedderResource(KeyedResource, MappedResource):
    """The embedder of claims and questions."""

    batch_size: int = Field(default=512, ge=1, description="texts asked and stored at a time")
    engine: Literal["embedded", "sentence_transformers", "hosted"] = Field(
        default="embedded", description="MiniLM on the CPU, any such model, or an endpoint"
    )
    dtype: NumberType = Field(
        default="float32", description="sentence_transformers: number type inside"
    )
    model: str = Field(default="", description="the others: hub name, folder, or as asked for")
    revision: str = Field(default="", description="the others: of the weights")
    models_lock: str = Field(default="", description=f"sentence_transformers: {MODELS_LOCK}")
    device: str = Field(default="cpu", description="sentence_transformers: torch's name")
    instruction: str = Field(default="", description="the others: stands before every text")
    base_url: str = Field(default="", description="hosted: URL that ends in /v1")
    dimensions: int = Field(default=0, ge=0, description="hosted: shortened to; 0: as it is")
    in_flight: int = Field(default=8, ge=1, description="hosted: requests at once")

    def open(self) -> StoredEmbedder:
        """A fresh stored port; its ``calls`` and ``hits`` start at zero."""
        mapper = None if self.engine == "hosted" else self.open_mapper()
        return StoredEmbedder(self._embedder(), self.stores(), self.batch_size, mapper)

    def _embedder(self) -> Embedder:
        if self.engine == "embedded":
            if self.dtype != "float32":
                raise ConfigError("the embedded embedder computes in float32; set dtype to it")
            return MiniLM()
        if self.engine == "sentence_transformers":
            return SentenceEmbedder(
                self.model,
                self.revision or "main",
                self.device,
                self.dtype,
                prompt=self.instruction,
                pin=ModelLocks(self.models_lock).cached,
            )
        return HostedEmbedder(
            self._checked_url,
            self.model,
            SecretStr(self.api_key),
            self.revision,
            self.dimensions,
            self.instruction,
            in_flight=self.in_flight,
        )

    def _checked_url(self) -> str:
        self.key()
        return self.base_url
