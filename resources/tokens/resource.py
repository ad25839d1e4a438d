"""The token counter as a Dagster resource: a word-based estimate, or a model's own tokenizer."""

from typing import Literal

import dagster as dg
from pydantic import Field

from resources.hub.locks import MODELS_LOCK, ModelLocks
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

    def open(self) -> TalliedTokens:
        """A fresh counter; its ``counted`` starts at zero."""
        if self.engine == "embedded":
            return TalliedTokens(WordTokens())
        return TalliedTokens(
            ModelTokens(self.model, self.revision, ModelLocks(self.models_lock).cached)
        )
