"""Named entities by trained spaCy models, as in the paper (appendix "NER Grounding").

Gives each text's distinct normalised surface forms over the union of all models. The paper uses
``en_core_sci_lg`` and ``en_core_web_trf``, the ``local`` profile ``en_core_sci_sm`` and
``en_core_web_sm``. The order of the models does not matter.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import version
from typing import Any

from decomposerl.errors import ConfigError, EngineMissing
from decomposerl.extras import require
from resources.entities.rule_engine import distinct_forms
from resources.entities.spacy_models import SpacyModel

FORMS = 1
"""Increment it when the union or the normalisation changes, to invalidate stored results."""

Span = tuple[int, int, str]
"""First character, one past the last, and the text between."""


@dataclass(frozen=True)
class SpacyEntities:
    """An ``EntityRecogniser``; each model is loaded at the first text.

    ``models`` are package names or folders. A model processes ``batch_size`` texts at a time in
    up to ``processes`` processes; transformers use one, which fills the device. ``gpu`` puts the
    models on the GPU (needs ``cupy``; one process).
    """

    models: tuple[str, ...]
    batch_size: int = 256
    processes: int = 1
    gpu: bool = False

    def __post_init__(self) -> None:
        """Reject invalid settings."""
        if not self.models:
            raise ConfigError("spaCy entities need at least one model name")
        if self.batch_size < 1 or self.processes < 1:
            raise ConfigError("batch_size and processes of the spaCy entities must be at least 1")

    @cached_property
    def engine(self) -> str:
        """Version of spaCy, and each model's name and version.

        Raises:
            EngineMissing: spaCy or a model is not installed.
        """
        require("spacy")
        major, minor, *_ = version("spacy").split(".")
        labels = "+".join(SpacyModel(name).label for name in self.models)
        return f"spacy_entities:{FORMS}:spacy-{major}.{minor}:{labels}"

    def entities(self, texts: Sequence[str]) -> list[list[str]]:
        """Per text its distinct normalised surface forms, in order of first appearance.

        Raises:
            EngineMissing: spaCy, a model or the GPU library is not installed.
        """
        if not texts:
            return []
        spans_by_text: list[set[Span]] = [set() for _ in texts]
        for pipeline in self._pipelines:
            limited = (text[: pipeline.max_length] for text in texts)  # spaCy refuses longer ones
            docs = pipeline.pipe(
                limited, batch_size=self.batch_size, n_process=self._processes(pipeline, len(texts))
            )
            for spans, doc in zip(spans_by_text, docs, strict=True):
                spans.update((e.start_char, e.end_char, e.text) for e in doc.ents)
        return [distinct_forms([text for *_, text in sorted(spans)]) for spans in spans_by_text]

    def _processes(self, pipeline: Any, texts: int) -> int:  # noqa: ANN401 - spaCy's types are not imported here
        factories = (pipeline.get_pipe_meta(name).factory for name in pipeline.pipe_names)
        if self.gpu or any("transformer" in factory for factory in factories):
            return 1
        return min(self.processes, math.ceil(texts / self.batch_size))

    @cached_property
    def _pipelines(self) -> list[Any]:
        models = [SpacyModel(name) for name in self.models]
        _ = self.engine  # fails for a missing model before any is loaded
        if self.gpu:
            _use_gpu()
        return [model.load() for model in models]


def _use_gpu() -> None:
    import spacy

    try:
        spacy.require_gpu()
    except (ValueError, ImportError) as error:
        raise EngineMissing(
            "spaCy finds no usable GPU: pip install cupy-cuda12x (the number is your "
            "CUDA's), or leave gpu off"
        ) from error
