"""The spaCy component that finds entities by rules and writes ``doc.ents``.

Left out deliberately: the patterns (``entity_patterns``), the runs of capitalised words
(``entity_names``) and normalisation (``rule_entities``). Imported only once spaCy is.
"""

import re
from collections.abc import Callable
from typing import Any

from decomposerl.text.names import Word, guessed_runs, name_runs
from resources.entities.patterns import patterns

_QUOTED = re.compile(r"[\"“]([^\"“”]{2,60})[\"”]")


def make_component(nlp: Any, name: str) -> Callable[[Any], Any]:  # noqa: ANN401 - spaCy's factory signature
    """A component for ``nlp``; ``name`` is the one it has in the pipeline."""
    from spacy.matcher import Matcher
    from spacy.util import filter_spans

    matcher = Matcher(nlp.vocab)
    for label, found in patterns().items():
        matcher.add(label, found)

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
