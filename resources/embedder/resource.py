"""The embedder as a Dagster resource: MiniLM, sentence-transformers, or an endpoint.

Opening imports no torch: an engine loads its model with its first item.
"""

from functools import partial
from typing import Literal

from pydantic import Field

from decomposerl.errors import ConfigError
from decomposerl.ports import Embedder
from resources.chat.connection import key_of
from resources.chat.endpoint import EndpointConfig
from resources.embedder.hosted import HostedEmbedder
from resources.embedder.minilm import MiniLM
from resources.embedder.sentence_transformers_engine import SentenceEmbedder
from resources.hub.locks import MODELS_LOCK, ModelLocks
from resources.store.resource import MappedResource
from resources.store.stored_ports import StoredEmbedder


class EmbedderResource(MappedResource):
    """The embedder of claims and questions."""

    batch_size: int = Field(default=512, ge=1, description="texts asked and stored at a time")
    engine: Literal["embedded", "sentence_transformers", "hosted"] = Field(
        default="embedded", description="MiniLM on the CPU, any such model, or an endpoint"
    )
    endpoint: EndpointConfig = Field(default=EndpointConfig(), description="the others: the model")
    models_lock: str = Field(default="", description=f"sentence_transformers: {MODELS_LOCK}")
    instruction: str = Field(default="", description="the others: stands before every text")
    dimensions: int = Field(default=0, ge=0, description="hosted: shortened to; 0: as it is")
    in_flight: int = Field(default=8, ge=1, description="hosted: requests at once")

    def open(self) -> StoredEmbedder:
        """A fresh stored port; its ``calls`` and ``hits`` start at zero."""
        mapper = None if self.engine == "hosted" else self.open_mapper()
        return StoredEmbedder(self._embedder(), self.stores(), self.batch_size, mapper)

    def _embedder(self) -> Embedder:
        model = self.endpoint
        if self.engine == "embedded":
            if model.dtype != "float32":
                raise ConfigError("the embedded embedder computes in float32; set dtype to it")
            return MiniLM()
        if self.engine == "sentence_transformers":
            return SentenceEmbedder(
                model.model,
                model.revision or "main",
                model.device or "cpu",
                model.dtype,
                prompt=self.instruction,
                pin=ModelLocks(self.models_lock).cached,
            )
        return HostedEmbedder(
            model.base_url[0] if model.base_url else "",
            model.model,
            partial(key_of, model),
            model.revision,
            self.dimensions,
            self.instruction,
            in_flight=self.in_flight,
        )
