"""Named entities by rules, on a real spaCy pipeline without a trained model.

Takes claims, gives each one's distinct normalised surface forms (paper, appendix "NER
Grounding", whose two models a rule set stands in for). The pipeline is spaCy's blank
English one with one component of ours, which joins two kinds of spans:

* a token ``Matcher`` for dates, numbers with their units, quoted titles, gene-like and
  hyphenated names and lower-case biomedical terms (``entity_patterns``);
* runs of capitalised words (``entity_names``).

The longest span wins. A text without any capital letter after its first word (FaviQ is
written so) keeps numbers, dates and terms, and in place of names gets runs of two or more
words that are neither function words nor verb-like: a guess, of use to a filter that asks
for two entities and to nothing finer.

Left out deliberately: entity types, linking and coreference.
"""

import re
from collections.abc import Sequence
from functools import cached_property
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from decomposerl.errors import EngineMissing

INSTALL = "pip install 'decomposerl[science]'"
RULES = 1
"""Raised whenever the rules change, so that stored results are not mixed."""
_COMPONENT = "claim_entities"
_EDGES = "\"'“”‘’«»()[]{}.,;:!?*_ "
_DETERMINER = re.compile(r"^(?:the|a|an|this|that|these|those|its|his|her|their|our)\s+")
_POSSESSIVE = re.compile(r"['’]s?$")


class RuleEntities:
    """An ``EntityRecogniser`` made of rules; spaCy is loaded at the first text."""

    @property
    def engine(self) -> str:
        """Rule set and spaCy's version, whose tokenizer decides what a word is.

        Raises:
            EngineMissing: spaCy is not installed.
        """
        try:
            major, minor, *_ = version("spacy").split(".")
        except PackageNotFoundError as error:
            raise EngineMissing(f"spaCy is not installed: {INSTALL}") from error
        return f"rule_entities:{RULES}:spacy-{major}.{minor}"

    def entities(self, texts: Sequence[str]) -> list[list[str]]:
        """Per text its distinct normalised surface forms, in order of first appearance.

        Raises:
            EngineMissing: spaCy is not installed.
        """
        if not texts:
            return []
        most = self._pipeline.max_length  # spaCy refuses longer texts
        docs = self._pipeline.pipe((text[:most] for text in texts), batch_size=256)
        return [distinct_forms([span.text for span in doc.ents]) for doc in docs]

    @cached_property
    def _pipeline(self) -> Any:  # noqa: ANN401 - spaCy's types are not imported here
        name = self.engine  # raises with the install command where spaCy is absent
        import spacy
        from spacy.language import Language

        from resources.entities.component import make_component

        if not Language.has_factory(_COMPONENT):
            Language.factory(_COMPONENT, func=make_component)
        pipeline = spacy.blank("en", meta={"name": name.replace(":", "_")})
        pipeline.add_pipe(_COMPONENT)
        return pipeline


def normalise(surface: str) -> str:
    """Case-folded, white space collapsed, without determiner, possessive and edge marks."""
    text = " ".join(surface.split()).strip(_EDGES).casefold()
    text = _DETERMINER.sub("", text)
    return _POSSESSIVE.sub("", text).strip(_EDGES)


def distinct_forms(surfaces: Sequence[str]) -> list[str]:
    """The normalised forms of ``surfaces`` without empty ones, each once, in order."""
    return [form for form in dict.fromkeys(normalise(surface) for surface in surfaces) if form]
