"""The engines behind the ports as Dagster resources, each with its memory.

A resource is a few settings; ``open`` gives the port that assets use. Constructing and
opening import neither torch nor spaCy: an engine loads its model at its first item, so a
run that finds every answer stored loads none.

Left out deliberately: what the engines do (``resources.embedded``) and how results are
stored (``resources.results``).
"""

from pathlib import Path
from typing import Literal

import dagster as dg
from pydantic import Field

from resources.embedded.lexical_verifier import LexicalVerifier
from resources.embedded.minilm import MiniLM
from resources.embedded.rule_decomposer import RuleDecomposer
from resources.embedded.rule_entities import RuleEntities
from resources.embedded.word_tokens import WordTokens
from resources.results import (
    ResultStore,
    StoredDecomposer,
    StoredEmbedder,
    StoredEntities,
    StoredVerifier,
)
from resources.token_counting import TalliedTokens

_RESULTS = "folder of stored engine results, shared by all engines"


class TokensResource(dg.ConfigurableResource):  # type: ignore[type-arg]
    """The token counter. It is cheaper than reading a stored result, so none is kept."""

    engine: Literal["embedded"] = Field(default="embedded", description="word-based estimate")

    def open(self) -> TalliedTokens:
        """A fresh counter; its ``counted`` starts at zero."""
        return TalliedTokens(WordTokens())


class EntitiesResource(dg.ConfigurableResource):  # type: ignore[type-arg]
    """The entity recogniser."""

    results_dir: str = Field(description=_RESULTS)
    batch_size: int = Field(default=1024, ge=1, description="texts asked and stored at a time")
    engine: Literal["embedded"] = Field(
        default="embedded", description="spaCy blank pipeline with rules"
    )

    def open(self) -> StoredEntities:
        """A fresh stored port; its ``calls`` and ``hits`` start at zero."""
        return StoredEntities(RuleEntities(), ResultStore(Path(self.results_dir)), self.batch_size)


class EmbedderResource(dg.ConfigurableResource):  # type: ignore[type-arg]
    """The embedder of claims and questions."""

    results_dir: str = Field(description=_RESULTS)
    batch_size: int = Field(default=512, ge=1, description="texts asked and stored at a time")
    engine: Literal["embedded"] = Field(default="embedded", description="MiniLM on the CPU")
    model_path: str = Field(default="", description="model folder; empty for the installed wheel's")
    dtype: Literal["float32", "bfloat16"] = Field(
        default="float32", description="number type inside"
    )

    def open(self) -> StoredEmbedder:
        """A fresh stored port; its ``calls`` and ``hits`` start at zero."""
        model = MiniLM(path=self.model_path, dtype=self.dtype)
        return StoredEmbedder(model, ResultStore(Path(self.results_dir)), self.batch_size)


class VerifierResource(dg.ConfigurableResource):  # type: ignore[type-arg]
    """The claim verifier. Its sentence vectors come from the same stored MiniLM."""

    results_dir: str = Field(description=_RESULTS)
    batch_size: int = Field(default=512, ge=1, description="pairs asked and stored at a time")
    engine: Literal["embedded"] = Field(
        default="embedded", description="lexical and MiniLM features"
    )
    model_path: str = Field(
        default="", description="MiniLM folder; empty for the installed wheel's"
    )
    dtype: Literal["float32", "bfloat16"] = Field(
        default="float32", description="MiniLM's number type"
    )

    def open(self) -> StoredVerifier:
        """A fresh stored port; its ``calls`` and ``hits`` start at zero."""
        embedder = EmbedderResource(
            results_dir=self.results_dir, model_path=self.model_path, dtype=self.dtype
        ).open()
        store = ResultStore(Path(self.results_dir))
        return StoredVerifier(LexicalVerifier(embedder), store, self.batch_size)


class DecomposerResource(dg.ConfigurableResource):  # type: ignore[type-arg]
    """The writer of silver sub-questions."""

    results_dir: str = Field(description=_RESULTS)
    batch_size: int = Field(default=1024, ge=1, description="pairs asked and stored at a time")
    engine: Literal["embedded"] = Field(
        default="embedded", description="rules on the claim's wording"
    )

    def open(self) -> StoredDecomposer:
        """A fresh stored port; its ``calls`` and ``hits`` start at zero."""
        store = ResultStore(Path(self.results_dir))
        return StoredDecomposer(RuleDecomposer(), store, self.batch_size)
