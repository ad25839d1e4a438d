"""Named entities by rules, on a real spaCy pipeline without a trained model.

Gives each claim's distinct normalised surface forms (paper, appendix "NER Grounding"). The
pipeline is spaCy's blank English one with one component, which joins a token ``Matcher`` for
dates, quantities, symbols and terms (``patterns``), runs of capitalised words
(``decomposerl.text.names``) and quoted titles. The longest span wins. A text without any
capital letter gets runs of two or more plain words in place of names.
"""

import re
from collections.abc import Callable, Sequence
from functools import cached_property
from importlib.metadata import version
from typing import Any

from decomposerl.extras import require
from decomposerl.text.names import Word, guessed_runs, name_runs
from resources.entities.patterns import patterns

RULES = 2
"""Raised whenever the rules change, so that stored results are not mixed."""
_COMPONENT = "claim_entities"
_EDGES = "\"'“”‘’«»()[]{}.,;:!?*_ "
_DETERMINER = re.compile(r"^(?:the|a|an|this|that|these|those|its|his|her|their|our)\s+")
_QUOTED = re.compile(r"[\"“]([^\"“”]{2,60})[\"”]")
_POSSESSIVE = re.compile(r"['’]s?$")


class RuleEntities:
    """An ``EntityRecogniser`` made of rules; spaCy is loaded at the first text."""

    @property
    def engine(self) -> str:
        """Rule set and spaCy's version, whose tokenizer decides what a word is.

        Raises:
            EngineMissing: spaCy is not installed.
        """
        require("spacy")
        major, minor, *_ = version("spacy").split(".")
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

        if not Language.has_factory(_COMPONENT):
            Language.factory(_COMPONENT, func=_make_component)
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


def _make_component(nlp: Any, name: str) -> Callable[[Any], Any]:  # noqa: ANN401 - spaCy's factory signature
    """A component for ``nlp``; ``name`` is the one it has in the pipeline."""
    from spacy.matcher import Matcher
    from spacy.util import filter_spans

    matcher = Matcher(nlp.vocab)
    for label, known in patterns().items():
        matcher.add(label, known)

    def component(doc: Any) -> Any:  # noqa: ANN401 - a spaCy Doc in and out
        words = [Word(token.text, bool(token.whitespace_)) for token in doc]
        spans = matcher(doc, as_spans=True)
        spans += [_span(doc, start, end, "NAME") for start, end in name_runs(words)]
        spans += [_span(doc, start, end, "GUESS") for start, end in guessed_runs(words)]
        for quoted in _QUOTED.finditer(doc.text):
            span = doc.char_span(*quoted.span(1), label="TITLE", alignment_mode="contract")
            spans += [span] if span is not None else []
        doc.ents = filter_spans(spans)
        return doc

    component.__name__ = name
    return component


def _span(doc: Any, start: int, end: int, label: str) -> Any:  # noqa: ANN401 - spaCy types
    from spacy.tokens import Span

    return Span(doc, start, end, label=label)
