"""Whether an answer says that the document does not tell (paper, section 3.2, joint reward).

Takes an answer, gives yes or no. An abstention goes by other rules than an answer: whether it
is correct is not asked, and it pays where the document cannot answer. A fact must not pass
under that cover, so doubt goes one way: every clause around "I don't know" has to be one that
is known to assert nothing (``traces.nothing_said``) or to say what the document has instead
(``traces.beside_the_point``), or the whole is an answer, for the judge.
"""

import re
import unicodedata
from collections.abc import Iterator

from decomposerl.normal_form import normalised
from decomposerl.traces.beside_the_point import all_beside_the_point
from decomposerl.traces.nothing_said import TELL, asserts_nothing
from decomposerl.traces.reported_facts import DOCUMENT, reports_a_fact, turns_into_fact

MOST_WORDS = 80
"""An honest abstention is short; a longer text says something."""

_MARKS = dict.fromkeys(map(ord, "’‘ʼ`´′‛"), "'") | dict.fromkeys(map(ord, "“”„‟«»″"), '"')
_MARKUP = re.compile(
    r"</?(?:i|b|em|strong|u|p|br|q)\s?/?>|[*#>~]+|(?<!\w)_+|_+(?!\w)"
    r"|^[^\S\n]*(?:[-•·–—]|\d{1,2}[.)])[^\S\n]+",
    re.MULTILINE | re.IGNORECASE,
)
_KNOW = r"""i\s?(?:(?:really|honestly|truly|simply|just|actually|still)\s)?
    (?:don't|dont|do\sn't|do\snot)\s(?:(?:really|actually)\s)?know\b["']?"""
_PHRASE = re.compile(
    r"""(?:(?:(?:i'm|i\sam)\s)?(?:sorry|afraid)\b|(?:my\s)?apologies\b|unfortunately\b
           |regrettably\b|honestly\b|well\b|but\b|that\b|(?:answer|a)\s?:|[\s,.;:!"'()\[-]
           |(?:based\son|from|according\sto|given|going\sby|using)\s"""
    + DOCUMENT
    + r"""\s?,)*+
        """
    + _KNOW,
    re.VERBOSE,
)
_LATER = re.compile(rf"(?<!\w){_KNOW}", re.VERBOSE)
# What a clause can begin with: after a comma or "and", only these begin one, so that lists in
# the thing not known ("the range in Ghana, Togo and Benin") stay whole.
_SUBJECT = rf"(?:it|he|she|they|i|we|there|this|that|these|those|{DOCUMENT})\b"
_HEDGE = r"(?:maybe|perhaps|possibly|probably|presumably|i\s(?:think|believe|guess|suppose|assume))"
_FINITE = (
    r"(?:is|are|was|were|has|had|does|did|can|could|will|would|became|won|wrote|led|made|went|took"
    r"|came|ran|lost|built|held|began|lives?|(?!united\b)[a-z]{2,}ed)\b"
)
_BREAK = re.compile(
    rf"""[;:()\n]|[—–]|\s-{{1,3}}\s
    |[,.\s](?=(?:but|however|although|though|whereas|nevertheless|nonetheless|instead|rather
               |because|except)\b)
    |[,.\s](?={_HEDGE}\b)|\.(?=\s(?:{_SUBJECT}|no\b|not\b))
    |\s(?=(?:as|since|while|given\sthat|so|and|or)\s(?:{_SUBJECT}|no\b|nothing\b))
    |\s(?=and\s(?:(?:does|do|did)(?:n't|\snot)|never)\s{TELL}\b)|\s(?=(?:and|or)\snot\b)|\s(?=and\s(?:is|was|are|were|has|had|says?|states?|gives?|lists?|shows?)\b)
    |(?<!\d),(?=\W*\d)|,(?=\s(?:[\w'-]+\s){{1,4}}{_FINITE})
    |,(?=\s?(?:{_SUBJECT}|(?:no|not|nothing|which|who|so|as|since|and|only|from|based
               |sorry|about|around|approximately|roughly|likely|yet)\b))
    """,
    re.VERBOSE,
)
# How the thing that is not known begins; anything else is a sentence that was run on.
_THING = re.compile(
    r"""\W*(?!(?:[\w']+|for\s(?:sure|certain))\s?,(?!\s(?:or|and|who|what|which|when|where|why|how)\b))
        (?:$|(?:the|an?|any|anything|enough|much|more|this|that|these|those|his|her|its|their|all
        |what|who|whom|whose|which|when|where|why|how|whether|if|about|of|from|based|for|in|at|on|by
        |with|to|given|according|using|exactly|precisely|specifically|definitely|yet|either|is
        |\w+(?:\s\w+)?'s?)(?!\w))""",
    re.VERBOSE,
)
_STOP = re.compile(r"""[.!?]+(?=["')\]\s]|$)|(?<=[a-z]{3})[.!?]+(?=[a-z])""")
_ABBREVIATED = re.compile(r"(?:\b(?:dr|mrs?|ms|st|prof|vs|e\.g|i\.e)|(?<![^\W\d_])[^\W\d_])\Z")


def abstains(answer: str) -> bool:
    """Whether ``answer`` is empty, or says "I don't know" and then asserts nothing.

    "I don't know" or "I do not know" has to stand in it, in any letter case, apostrophe, quotes
    or markup. What stands before and after may say what is not known, that the document does
    not tell, or what it is about; a hedge before a fact ("I don't know exactly, but it says
    1857") makes an answer. "The document does not say", without the phrase, is an answer.
    Time is linear; never raises.
    """
    words = _plain(answer)
    if all(unicodedata.category(character)[0] in "PZC" for character in words):
        return True
    if len(words.split()) > MOST_WORDS:
        return False
    phrase = _PHRASE.match(words) or _LATER.search(words)
    if phrase is None or not _silent(words[: phrase.start()]):
        return False
    first, *others = _sentences(words[phrase.end() :])
    not_known, *clauses = _BREAK.split(first)
    if not (_is_thing(not_known) or asserts_nothing(not_known)):
        return False
    return all_beside_the_point(clauses) and all(_silent(sentence) for sentence in others)


def _silent(text: str) -> bool:
    """Whether each sentence of ``text`` asserts nothing."""
    return all(all_beside_the_point(_BREAK.split(sentence)) for sentence in _sentences(text))


def _is_thing(text: str) -> bool:
    """Whether ``text``, right after "know", is what is not known and no sentence run on."""
    opens = _THING.match(text) is not None and not text.startswith(",")
    return opens and not reports_a_fact(text) and not turns_into_fact(text)


def _plain(answer: str) -> str:
    """Lower case, straight apostrophes and quotes, single spaces, no markup."""
    text = normalised("NFKC", answer.translate(_MARKS)).translate(_MARKS)
    if not text.isascii():  # ASCII has no format characters
        text = "".join(character for character in text if unicodedata.category(character) != "Cf")
    lines = (" ".join(line.split()) for line in _MARKUP.sub("", text).lower().splitlines())
    return "\n".join(line for line in lines if line)


def _sentences(text: str) -> Iterator[str]:
    start = 0
    for stop in _STOP.finditer(text):
        if not _ABBREVIATED.search(text, max(start, stop.start() - 8), stop.start()):
            yield text[start : stop.start()]
            start = stop.end()
    yield text[start:]
