"""Silver sub-questions by rules on the claim's wording (paper, "Silver Decomposition").

Takes (evidence, claim) pairs, gives each claim's atomic checks, every one a question that
can be read alone. The claim is cut into clauses (``clause_splits``), each clause into
statements of one fact, each statement is turned into a question. A claim of one fact gives
one question; a claim without a letter or digit gives none.
"""

import re
from collections.abc import Sequence

from decomposerl.text.clauses import AUXILIARIES, PRONOUNS, checks_of, first_finite
from decomposerl.text.sentences import split_sentences
from decomposerl.text.words import STOP_WORDS

RULES = 3
"""Raised whenever the rules change, so that stored results are not mixed."""
MOST = 20
_ASKING = AUXILIARIES | {"what", "which", "who", "how", "why", "when", "where", "whose"}
_OPENING = re.compile(
    r"^(?:\[CONTINUE\]\s*)?(?:(?:however|but|and|so|yet|moreover|furthermore|also|in addition"
    r"|therefore|thus|hence|for example|specifically|interestingly|similarly|overall|note that"
    r"|we (?:can )?(?:also )?(?:see|observe|find|note|show) that),? )+",
    re.IGNORECASE,
)
_LONGEST_SUBJECT = 10
_RELATIVE = {"that", "which", "who", "whom", "whose", "where", "when"}


class RuleDecomposer:
    """A ``Decomposer`` made of rules; it always answers and needs nothing installed."""

    @property
    def engine(self) -> str:
        """The rule set."""
        return f"rule_decomposer:{RULES}"

    def decompose(self, pairs: Sequence[tuple[str, str]]) -> list[list[str] | None]:
        """At most 20 distinct questions of each ``(evidence, claim)`` pair, never null."""
        return [questions_of(claim) for _, claim in pairs]


def questions_of(claim: str) -> list[str]:
    """The atomic checks of one claim as questions, in the order of its wording."""
    found: dict[str, str] = {}
    subject = ""
    for sentence in split_sentences(" ".join(claim.split())):
        rest = _OPENING.sub("", sentence)
        body = (rest if any(map(str.isalnum, rest)) else sentence).rstrip(" .;:!,")
        if not any(letter.isalnum() for letter in body):
            continue
        asking = body.endswith("?") or body.split()[0].lower() in _ASKING
        statement = body.rstrip("? ") if asking else _resolved(body, subject)
        subject = subject or _subject(statement)
        for check in checks_of(statement, asking=asking):
            question = check if check.endswith("?") else _question(check, asking=asking)
            found.setdefault(question.casefold(), question)
    return list(found.values())[:MOST]


def _subject(statement: str) -> str:
    words = statement.split()
    verb = first_finite(words)
    subject = " ".join(words[:verb]) if verb and verb <= _LONGEST_SUBJECT else ""
    return "" if subject.partition(" ")[0].lower() in PRONOUNS else subject.rstrip(",")


def _resolved(statement: str, subject: str) -> str:
    """The first sentence's subject in place of a pronoun that opens a later sentence."""
    first, _, rest = statement.partition(" ")
    return f"{subject} {rest}" if subject and rest and first.lower() in PRONOUNS else statement


def _question(statement: str, *, asking: bool) -> str:
    """A yes-no question; an auxiliary moves to the front where that is safe."""
    text = statement.strip(" ,.;")
    if asking:
        return f"{text[0].upper()}{text[1:]}?"
    words = text.split()
    verb = first_finite(words)
    if (
        verb
        and words[verb] in AUXILIARIES
        and _RELATIVE.isdisjoint(word.lower().strip(",") for word in words[:verb])
        and words[verb] not in {"have", "has", "had", "do", "does", "did"}
    ):
        rest = " ".join(words[verb + 1 :])
        subject = _lowered(" ".join(words[:verb]).rstrip(","))
        return f"{words[verb].capitalize()} {subject} {rest}".strip() + "?"
    return f"Is it true that {_lowered(text)}?"


def _lowered(text: str) -> str:
    """Without the capital of a sentence's first word where it is a function word."""
    first = text.partition(" ")[0]
    return text[0].lower() + text[1:] if first.lower() in STOP_WORDS and first != "I" else text
