"""The few evidence sentences that a small policy reads in place of the whole document.

They are those that share entities with the claim. An entity here is a word with a capital or a
digit in both texts: names, years and numbers, in prose and in table rows. Judge and rewards always
read the whole document.
"""

import re
from collections import Counter
from collections.abc import Callable, Sequence

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
    """At most ``view.most_sentences`` sentences in document order, one per line.

    A sentence's weight is the sum over the words that it shares with the claim, each divided by
    the number of sentences that contain it; an entity counts twice. Where no sentence shares an
    entity, one is shown. Ties go to the earlier sentence.

    Raises:
        ValueError: ``most_sentences`` is not positive.
    """
    if view.most_sentences < 1:
        raise ValueError(f"most_sentences is {view.most_sentences}; it must be at least 1")
    lines, ranked, named = _ranked(claim, evidence)
    shown = min(view.most_sentences, max(1, named))
    return "\n".join(lines[i] for i in sorted(ranked[:shown]))


def best_sentences(
    claim: str, evidence: str, budget: int, cost: Callable[[Sequence[str]], Sequence[int]]
) -> list[str]:
    """As many sentences as ``budget`` pays for, in document order.

    They are taken in the order of ``evidence_view``, those without a shared entity last; one that
    is too long for what is left is passed over. ``cost`` gives the tokens of each sentence.
    """
    lines, ranked, _ = _ranked(claim, evidence)
    costs, kept = cost(lines), []
    for place in ranked:
        if costs[place] <= budget:
            budget -= int(costs[place])
            kept.append(place)
    return [lines[place] for place in sorted(kept)]


def _ranked(claim: str, evidence: str) -> tuple[list[str], list[int], int]:
    """Sentences, their places from the nearest to the claim on, how many share an entity."""
    lines = [line for line in map(str.strip, sentences(evidence)) if line]
    stems = [_stems(line) for line in lines]
    spread = Counter(stem for each in stems for stem in each)
    claim_stems = _stems(claim)
    named = [any(claim_stems.get(stem) and each[stem] for stem in each) for each in stems]
    weight = [_weight(claim_stems, each, spread) for each in stems]
    ranked = sorted(range(len(lines)), key=lambda i: (not named[i], -weight[i], i))
    return lines, ranked, sum(named)


def _weight(claim: dict[str, bool], line: dict[str, bool], spread: Counter[str]) -> float:
    shared = [stem for stem in claim if stem in line]
    return sum((2.0 if claim[stem] and line[stem] else 1.0) / spread[stem] for stem in shared)


def _stems(text: str) -> dict[str, bool]:
    """Each content word's stem, and whether it is an entity's."""
    stems: dict[str, bool] = {}
    for word in _WORD.findall(text):
        if word.lower() in _SMALL:
            continue
        entity = any(letter.isdigit() or letter.isupper() for letter in word)
        stem = word.lower() if entity else word.lower()[:_STEM]
        stems[stem] = stems.get(stem, False) or entity
    return stems
