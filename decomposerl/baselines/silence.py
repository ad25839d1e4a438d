"""Whether a reply says only that the evidence does not tell.

Doubt goes one way: a clause that may assert something makes it an answer
(``traces.abstention``), so "The evidence does not say so; it opened in 1871." is one.
"""

import re

from decomposerl.replies.lines import bare, without_marks
from decomposerl.traces.abstention import DOCUMENT, abstains

_UNKNOWN_FIRST = re.compile(
    r"(?:the\sanswer\sis\s)?(?:unknown|n/a|unanswerable)\s?(?:[.,;:(—–-]|\Z)"
)
_SILENT = re.compile(
    r"(?:as|because|since|for|so|and)?\s?(?:"
    rf"(?:there\s(?:is|are|was|were)\s)?no\s[^.,;:!?\d]{{1,80}}?\s(?:in|from|by)\s{DOCUMENT}"
    r"|(?:no|neither|none)\s(?:[^.,;:!?\d]{1,60}?\s)?(?:is|are|was|were)\s"
    rf"(?:made\sof\s\w{{1,20}}|mentioned|stated|given|reported|described|specified|provided)(?:\s(?:in|by)\s{DOCUMENT})?"
    rf"|nothing\s(?:in|of)\s[^.,;:!?\d]{{0,20}}?{DOCUMENT}\s(?:says|states|mentions|indicates"
    r"|suggests|tells|shows|confirms)\b[^.,;:!?\d]*"
    rf"|[^.,;:!?\d]{{1,80}}?\s(?:do|does|did)(?:\snot|n't)\s(?:appear|occur)\sin\s{DOCUMENT}"
    r"|(?!(?:he|she|it|they|i|we|you|no|none|nobody)\s)[^.,;:!?\d]{1,60}?\s(?:is|are)(?:\snot|n't)\snamed"
    rf"(?:\s(?:in|by)\s{DOCUMENT})?"
    r"|(?:this|that|it)\s(?:cannot|can't|can\snot)\sbe\s(?:concluded|inferred|derived|judged|told"
    rf"|answered|decided)\s(?:from|by|with)\s{DOCUMENT}"
    r")\W*"
)
_TURN = re.compile(r"\b(?:but|however|although|though)\b")
_LONGEST = 1_000  # of a text that can be silence; patterns stay linear below it


def says_unknown(text: str) -> bool:
    """Whether an answer is empty, or only says that the evidence does not state it.

    "Unknown", also with a reason; "I don't know" as rewards read it; "the evidence does not say".
    """
    words = bare(text)
    unknown = _UNKNOWN_FIRST.match(words)
    turn = _TURN.search(words)
    if unknown and turn:
        return says_nothing(words[turn.end() :])
    return not words or unknown is not None or abstains(text) or says_nothing(text)


def says_nothing(reason: str) -> bool:
    """Whether a reason only says that the evidence does not tell: no clause states a fact."""
    words = without_marks(reason).lower().replace("’", "'")
    if not words or len(words) > _LONGEST:
        return False
    return _SILENT.fullmatch(words) is not None or abstains(f"I don't know. {words}")
