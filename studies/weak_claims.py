"""Claims with a known answer, made from real evidence: weak supervision of the verifier.

Takes evidence texts; gives, for some of their sentences, a lightly reworded copy that the
evidence supports and a corrupted copy that it contradicts: a changed number, a name of the
same document in another's place, a negation put in or taken out, a word turned into its
opposite, or a remark beside the sentence that calls it false.
"""

import hashlib
import random
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from decomposerl.text.sentences import split_sentences
from decomposerl.text.words import OPPOSITES

_WORDS = (8, 30)
_OPENING = 6
_REORDERED, _SHORTENED, _DOUBTED = 0.3, 0.4, 0.5
"""Shares of the sentences that each treatment is tried on."""
_NAME = re.compile(r"(?<=[a-z,] )[A-Z][\w'’-]+(?: [A-Z][\w'’-]+)*")
_NUMBER = re.compile(r"(?<![\w.,])\d{1,4}(?![\w,]|\.\d)")
_AUXILIARY = re.compile(r"\b(is|was|are|were|has|have|had|can|will|would|could|did|does)\b(?! not)")
_NOT = re.compile(r"\b(is|was|are|were|has|have|had|can|will|would|could|did|does) not\b")
_OPPOSITE = {a: b for pair in OPPOSITES for a, b in (pair.split("/"), pair.split("/")[::-1])}
_REMARKS = (
    "That statement is false.",
    "Fact checkers rated this claim as fake.",
    "There is no truth to it, and the story has been debunked.",
    "This is a hoax that spread on social media.",
)


@dataclass(frozen=True, slots=True)
class WeakClaim:
    """One made claim; ``kind`` says how it was made."""

    evidence: str
    claim: str
    supported: bool
    kind: str


def weak_claims(evidences: Iterable[str], most: int, per_evidence: int = 2) -> list[WeakClaim]:
    """At most ``most`` claims, one supported and one contradicted of each chosen sentence.

    Deterministic: chance is seeded by the evidence text alone.
    """
    out: list[WeakClaim] = []
    for evidence in dict.fromkeys(evidences):
        chance = random.Random(hashlib.sha256(evidence.encode()).digest())  # noqa: S311 - not a secret
        sentences = [s for s in split_sentences(evidence) if _usable(s)]
        for sentence in chance.sample(sentences, min(per_evidence, len(sentences))):
            out.append(WeakClaim(evidence, _reworded(sentence, chance), True, "reworded"))
            corrupted = list(_corrupted(evidence, sentence, chance))
            if corrupted:
                out.append(chance.choice(corrupted))
        if len(out) >= most:
            break
    return out[:most]


def _usable(sentence: str) -> bool:
    words = sentence.split()
    low, high = _WORDS
    return low <= len(words) <= high and sentence[0].isupper() and sentence.endswith(".")


def _reworded(sentence: str, chance: random.Random) -> str:
    """Drop a parenthesis, and then perhaps a side clause or the order of two clauses."""
    text = re.sub(r"\s*\([^()]*\)", "", sentence).rstrip(". ")
    clauses = text.split(", ")
    choice = chance.random()
    if len(clauses) > 1 and choice < _REORDERED and len(clauses[0].split()) <= _OPENING:
        rest = ", ".join(clauses[1:])
        return f"{rest[0].upper()}{rest[1:]} {clauses[0][0].lower()}{clauses[0][1:]}."
    if len(clauses) > 1 and choice < _REORDERED + _SHORTENED:
        kept = ", ".join(clauses[:-1])
        return f"{kept}." if len(kept.split()) >= _WORDS[0] // 2 else f"{text}."
    return f"{text}."


def _corrupted(evidence: str, sentence: str, chance: random.Random) -> Iterator[WeakClaim]:
    made = {
        "number": _other_number(evidence, sentence, chance),
        "name": _other_name(evidence, sentence, chance),
        "negation": _negated(sentence),
        "opposite": _opposed(sentence),
    }
    for kind, claim in made.items():
        if claim is not None:
            yield WeakClaim(evidence, claim, False, kind)
    if chance.random() < _DOUBTED:
        doubted = evidence.replace(sentence, f"{sentence} {chance.choice(_REMARKS)}", 1)
        yield WeakClaim(doubted, _reworded(sentence, chance), False, "doubt")


def _other_number(evidence: str, sentence: str, chance: random.Random) -> str | None:
    found = _NUMBER.search(sentence)
    if found is None:
        return None
    value = int(found[0])
    others = [value + d for d in (-9, -7, -4, -3, -2, 2, 3, 5, 8) if value + d > 0]
    others = [n for n in others if not re.search(rf"\b{n}\b", evidence)]
    if not others:
        return None
    return f"{sentence[: found.start()]}{chance.choice(others)}{sentence[found.end() :]}"


def _other_name(evidence: str, sentence: str, chance: random.Random) -> str | None:
    here: Sequence[str] = _NAME.findall(sentence)
    words = set(sentence.split())
    others = [n for n in dict.fromkeys(_NAME.findall(evidence)) if words.isdisjoint(n.split())]
    if not here or not others:
        return None
    return sentence.replace(chance.choice(here), chance.choice(others), 1)


def _negated(sentence: str) -> str | None:
    if _NOT.search(sentence):
        return _NOT.sub(r"\1", sentence, count=1)
    return _AUXILIARY.sub(r"\1 not", sentence, count=1) if _AUXILIARY.search(sentence) else None


def _opposed(sentence: str) -> str | None:
    for word in sentence.split():
        if word in _OPPOSITE:
            return re.sub(rf"\b{re.escape(word)}\b", _OPPOSITE[word], sentence, count=1)
    return None
