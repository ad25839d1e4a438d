"""The variables of a call, parsed: pairs, passages, statements.

Takes texts in the forms that methods write them, gives their parts.
"""

import re
from collections.abc import Mapping

from decomposerl.text.clauses import AUXILIARIES
from resources.judge.rule_document import asks_yes_or_no

_PAIR = re.compile(r"^Q(\d+): (.*)\nA\1: (.*)$", re.MULTILINE)
_PASSAGE = re.compile(r"^\[?(\d+)[.\]):]+ ?(.*)$", re.MULTILINE)
_TRUE_THAT = re.compile(r"^is it true that ", re.IGNORECASE)
_NUMBER = re.compile(r"^\d+\. ")


def pairs_in(variables: Mapping[str, str]) -> list[tuple[str, str]]:
    """Questions with their answers, in order, from ``qa``."""
    return [(question, answer) for _, question, answer in _PAIR.findall(variables.get("qa", ""))]


def known_statements(variables: Mapping[str, str]) -> list[str]:
    """What is known beside the evidence: answers of ``qa``, lines of ``known``."""
    known = variables.get("known", "")
    lines = [] if known.strip().lower() == "none" else known.splitlines()
    statements = (_NUMBER.sub("", line.strip()) for line in lines)
    return [*(answer for _, answer in pairs_in(variables)), *filter(None, statements)]


def passages_in(text: str) -> list[tuple[int, str]]:
    """Numbered lines as number and text."""
    return [(int(number), passage) for number, passage in _PASSAGE.findall(text)]


def evidence_in(variables: Mapping[str, str]) -> str | None:
    """The evidence of a call, from ``evidence`` or numbered ``passages``; None: it has none."""
    if "evidence" in variables:
        return variables["evidence"]
    if "passages" not in variables:
        return None
    return "\n".join(passage for _, passage in passages_in(variables["passages"]))


def asked_already(question: str, variables: Mapping[str, str]) -> bool:
    """Whether earlier pairs, statements or the transcript contain a question, ignoring case."""
    written = "\n".join(variables.get(name, "") for name in ("qa", "transcript", "known"))
    return question.casefold() in written.casefold()


def statement_of(question: str) -> str:
    """A yes-no question as the statement that it asks about; any other text as it is.

    A leading auxiliary is removed and not moved, because its position is unknown.
    """
    text = question.strip().rstrip("?").strip()
    bare = _TRUE_THAT.sub("", text)
    if bare == text and asks_yes_or_no(question):
        first, _, rest = text.partition(" ")
        bare = rest if first.lower() in AUXILIARIES else text
    return f"{bare[:1].upper()}{bare[1:]}."
