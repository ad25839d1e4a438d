"""The embedder as a Dagster resource: MiniLM, sentence-transformers, or an endpoint.

Opening imports no torch: an engine loads its model with its first item.
"""

from typing import Literal

from pydantic import Field, SecretStr

from decomposerl.errors import ConfigError
from decomposerl.ports import Embedder
from resources.chat.resource import KeyedResource
from resources.embedder.hosted import HostedEmbedder
from resources.embedder.minilm import MiniLM
from resources.embedder.sentence_transformers_engine import SentenceEmbedder
from resources.embedder.stored import StoredEmbedder
from resources.hub.locks import MODELS_LOCK, ModelLocks

NumberType = Literal["float32", "bfloat16", "float16"]


class EmbedderResource(KeyedResource):
    """The embedder of claims and questions."""

    batch_size: int = Field(default=512, ge=1, description="texts asked and stored at a time")
    engine: Literal["embedded", "sentence_transformers", "hosted"] = Field(
        default="embedded", description="MiniLM on the CPU, any such model, or an endpoint"
    )
    model_path: str = Field(
        default="", description="embedded: model folder; empty for the installed wheel's"
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
        return StoredEmbedder(self._embedder(), self.stores(), self.batch_size, self.open_mapper())

    def _embedder(self) -> Embedder:
        if self.engine == "embedded":
            if self.dtype != "float32":
                raise ConfigError("the embedded embedder computes in float32; set dtype to it")
            return MiniLM(path=self.model_path)
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
