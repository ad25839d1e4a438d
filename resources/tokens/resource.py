"""The token counter as a Dagster resource: a word-based estimate, or a model's own tokenizer."""

from typing import Literal

import dagster as dg
from pydantic import Field, PrivateAttr

from resources.hub.locks import MODELS_LOCK, ModelLocks
from resources.mapper.pools import OpenMapper, PoolMapper
from resources.mapper.resource import MapperChoice
from resources.profile_defaults import ProfileDefaults
from resources.tokens.counting import TalliedTokens
from resources.tokens.model_tokens import ModelTokens
from resources.tokens.word_tokens import WordTokens


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
