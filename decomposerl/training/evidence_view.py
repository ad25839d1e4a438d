"""The few evidence sentences that a small policy reads in place of the whole document.

Takes a claim and its evidence, gives the sentences that share entities with the claim, in
the order of the document, one a line. An entity here is a word with a capital or a digit in
both texts: names, years and numbers, in prose and in table rows alike.
"""

import re
from collections import Counter

from decomposerl.kernels.text_scan import sentences
from decomposerl.training.experiment import EvidenceView

_WORD = re.compile(r"[^\W_]+(?:['’-][^\W_]+)*")
_SMALL_TEXT = """
a an the of in on at to for from by with and or but nor not no is was were are be been has have
had it its that this these which who whom whose as while after before under over than into near
about during when where there he she they his her their
"""
_SMALL = frozenset(_SMALL_TEXT.split())
_STEM = 5
"""Letters by which two words count as one: ``sponsored`` and ``sponsors``."""


def evidence_view(claim: str, evidence: str, view: EvidenceView) -> str:
    """At most ``view.most_sentences`` sentences of the evidence, one a line.

    A sentence weighs what its shared words weigh: each the less, the more sentences hold it;
    an entity twice a plain word. A sentence that shares no entity comes in only where none
    does, and then one. Ties go to the earlier sentence.

    Raises:
        ValueError: ``most_sentences`` is not positive.
    """
    if view.most_sentences < 1:
        raise ValueError(f"most_sentences is {view.most_sentences}; it must be at least 1")
    told = [line for line in map(str.strip, sentences(evidence)) if line]
    words = [_words(line) for line in told]
    spread = Counter(stem for each in words for stem in set(each))
    asked = _words(claim)
    named = [any(asked.get(stem) and each[stem] for stem in each) for each in words]
    weight = [_weight(asked, each, spread) for each in words]
    ranked = sorted(range(len(told)), key=lambda i: (not named[i], -weight[i], i))
    shown = min(view.most_sentences, max(1, sum(named)))
    return "\n".join(told[i] for i in sorted(ranked[:shown]))


def _weight(asked: dict[str, bool], told: dict[str, bool], spread: Counter[str]) -> float:
    """How much of what a claim names a sentence holds."""
    shared = [stem for stem in asked if stem in told]
    return sum((2.0 if asked[stem] and told[stem] else 1.0) / spread[stem] for stem in shared)


def _words(text: str) -> dict[str, bool]:
    """Each content word's stem, and whether it is an entity's: a capital or a digit in it."""
    found: dict[str, bool] = {}
    for word in _WORD.findall(text):
        if word.lower() in _SMALL:
            continue
        entity = any(letter.isdigit() or letter.isupper() for letter in word)
        stem = word.lower() if entity else word.lower()[:_STEM]
        found[stem] = found.get(stem, False) or entity
    return found
