"""Words for the document, and what in a clause reports a fact from it.

"The document says" opens a fact, "what the document says" does not, and "no founder other than
Smith" turns a denial into one. Takes a clause in lower case.
"""

import re

DOCUMENT = (
    r"(?:(?:only|the|this|that|these|any|available|given|provided|supplied|cited|retrieved|evidence"
    r"|source|reference|whole|entire)\s)*"
    r"(?:documents?|texts?|evidence|passages?|articles?|sources?|contexts?|tables?|pages?"
    r"|excerpts?|paragraphs?|abstracts?|snippets?)"
    r"(?:\s(?:provided|given|supplied|above|here|itself|alone))?"
)
"""A verbose-safe pattern for the words that stand for the evidence document."""

_LEAD = re.compile(
    r"(?:(?:and|or|so|but|yet|also|therefore|thus|hence|as|because|since|while|which|given\sthat"
    r"|however|although|though|unfortunately|sorry|in\sfact|moreover)\b|[\s,.\"'\[\]?!-])*+"
)
_TELLS = re.compile(
    rf"""\b(?P<asked>(?:what|whether|where|how|if|which|nothing(?:\sin)?|none\sof|neither|no)\s)?{DOCUMENT}
        \s(?:(?P<only>only|just|merely)\s|clearly\s|explicitly\s)?
        (?:says|states|gives(?!\sthe\s)|(?P<lists>lists|shows|gives(?=\sthe\s))|reports|indicates|notes|tells|confirms)\b
        (?P<none>\s(?:nothing|no|neither|little)\b)?""",
    re.VERBOSE,
)
# "None other than Smith", "nothing that contradicts it": the denial turns into a fact.
_TURNS = re.compile(
    r"""\b(?:(?P<asked>(?:whether|if)\s(?:(?!than\b)[^,.;:]){0,80}?\bmore\sthan)
        |other\s(?:[\w-]+\s){0,4}than|(?:more|else|rather)\sthan|besides|except|excepting|excluding
        |otherwise|apart\sfrom|aside\sfrom|beyond|save\sfor|contradict(?:s|ing)?|refut(?:e|es|ing)
        |disprov(?:e|es|ing)|disput(?:e|es|ing)|den(?:y|ies|ying)|doubts?
        |(?:evidence|information|indication)\s(?:against|(?:to\sthe\s)?contrary))\b""",
    re.VERBOSE,
)


def without_lead(clause: str) -> str:
    """``clause`` without connecting words before it and marks around it."""
    return clause[_LEAD.match(clause).end() :].rstrip(" ,.\"'[]-")  # type: ignore[union-attr]


def opens_a_fact(clause: str) -> bool:
    """Whether "the document says" stands in ``clause``, other than "the document only lists"."""
    start = _LEAD.match(clause).end()  # type: ignore[union-attr]
    for found in _TELLS.finditer(clause, start):
        silent = found["none"] or (found["only"] and found["lists"])
        if found["asked"] is None and not (silent and found.start() == start):
            return True  # with or without a stop before it
    return False


def reports_a_fact(clause: str) -> bool:
    """Whether ``clause`` has "the document says", other than in "what the document says"."""
    return any(found["asked"] is None for found in _TELLS.finditer(clause))


def turns_into_fact(clause: str) -> bool:
    """Whether ``clause`` turns a denial into a fact ("no founder other than Smith")."""
    return any(found["asked"] is None for found in _TURNS.finditer(clause))
