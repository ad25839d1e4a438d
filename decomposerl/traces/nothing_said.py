"""Clauses that assert nothing about the world: what may stand beside "I don't know".

Takes one clause in lower case, gives whether it is known to say only that information lacks,
what the document is about, or that the writer is sorry and goes on.

Left out deliberately: anything else. An unknown clause counts as an assertion.
"""

import re

DOCUMENT = (
    r"(?:(?:only|the|this|that|these|any|available|given|provided|supplied|cited|evidence|source"
    r"|reference|whole|entire)\s)*"
    r"(?:documents?|texts?|evidence|passages?|articles?|sources?|contexts?|tables?|pages?"
    r"|excerpts?|paragraphs?)"
    r"(?:\s(?:provided|given|supplied|above|here|itself|alone))?"
)
"""A verbose-safe pattern for the words that stand for the evidence document."""

_IT = rf"(?:{DOCUMENT}|it|they|nothing|none\sof\s{DOCUMENT})"
_TELL = (
    r"(?:say|state|mention|specify|give|provide|include|contain|cover|discuss|describe|address"
    r"|indicate|list|name|report|show|tell|reveal|disclose|identify|clarify|confirm|explain"
    r"|establish|note|detail|document|define|answer|refer|talk|speak|have|offer|support)"
)
_TOLD = (
    r"(?:said|stated|mentioned|specified|given|provided|included|contained|covered|discussed"
    r"|described|addressed|indicated|listed|named|reported|shown|told|revealed|disclosed"
    r"|identified|clarified|confirmed|explained|established|documented|defined|answered|found"
    r"|determined|verified|inferred|known|available|clear|there|possible|enough|sufficient)"
)
_NOT = r"(?:n't|\snot|\snever|\snowhere)"
_HOW = r"(?:\s(?:\w{1,12}ly|even|at\sall|anywhere|further|ever|here|either))*"
_LACK = (
    r"(?:information|info|evidence|mention|details?|data|references?|statements?|records?"
    r"|answers?|indications?|sources?)\b"
)
_WHERE = r"(?:\s(?:in|by|from|within|on|at\sall|anywhere|here|either)\b[^\d\"]*)?"
_NAMED = r"(?:\s(?!as\b|that\b|which\b|who\b)[^\s\d\"]+){1,10}"

_FORMS = (
    # the document does not say who …
    rf"{_IT}\s(?:do|does|did|ca|can|could){_NOT}{_HOW}\s{_TELL}\b.*",
    rf"{_IT}\scannot{_HOW}\s{_TELL}\b.*",
    # … is not mentioned in the document; "was not given the prize" is a fact and fails here
    rf"(?:[^,]{{1,150}}?\s)?(?:is|are|was|were|has\sbeen|have\sbeen){_NOT}{_HOW}\s{_TOLD}{_HOW}{_WHERE}",
    rf"(?:[^,]{{1,150}}?\s)?(?:cannot|can't|can\snot|could\snot|couldn't)\sbe\s{_TOLD}{_HOW}{_WHERE}",
    rf"no(?:\s[\w-]+){{1,4}}\s(?:is|are)\s{_TOLD}{_HOW}{_WHERE}",
    rf"not{_HOW}\s{_TOLD}{_HOW}{_WHERE}",
    rf"[^,]{{1,80}}?\s(?:is|are){_NOT}{_HOW}\s(?:in|part\sof)\s{DOCUMENT}",
    rf"[^,]{{1,80}}?\s(?:is|are)\s(?:missing|absent|omitted)\sfrom\s{DOCUMENT}",
    rf"(?:none\sof|neither|no)\s{DOCUMENT}\s{_TELL}(?:s|es)?\b[^\d\"]*",
    rf"without\s(?:any|more|further|additional|other)\s{_LACK}",
    # there is no information on …
    (
        rf"(?:(?:there(?:\s(?:is|are|was|were)|'s)|with|{_IT}\s(?:gives?|has|have|contains?|provides?"
        rf"|offers?|makes?|includes?))\s)?(?:no|not\s(?:enough|any)|insufficient|too\slittle|little)"
        rf"\s(?:[\w-]+\s){{0,3}}{_LACK}.*"
    ),
    rf"nothing\s(?:is\s|was\s)?(?:{_TOLD}|in|about|on)\b[^\d\"]*",
    (
        rf"{_IT}\s(?:lacks?|omits?|says?\snothing|mentions?\s(?:nothing|no|neither)"
        rf"|fails?\sto\s{_TELL}|is\ssilent|is\sunclear|is\sinsufficient|is\sinconclusive)\b.*"
    ),
    # the text only covers …: what it is about, without a value, a quotation or a "that"
    (
        rf"{_IT}\s(?:only\s|just\s|merely\s)?(?:covers|discusses|concerns|addresses|deals\swith"
        rf"|is\s(?:only\s)?about|talks\sabout|focuses\s(?:only\s)?on|is\slimited\sto)(?:\sonly)?{_NAMED}"
    ),
    rf"{_IT}\s(?:only|just|merely)\s(?:mentions|describes|speaks\sof|refers\sto){_NAMED}",
    # I cannot tell; I will move on
    (
        r"i(?:\scannot|\s(?:ca|could|can|am)(?:n't|\snot)|\sam\sunable\sto|'m\snot|'m\sunable\sto)"
        r"(?:\sable\sto)?\s(?:answer|determine|say|tell|find|verify|confirm|establish|identify|know"
        r"|conclude|judge|decide|infer|locate|see)\b.*"
    ),
    rf"i\s(?:have|find|found|see|saw)\s(?:no|nothing)\b(?:\s[\w-]+){{0,3}}?(?:\s{_LACK}.*)?",
    r"i\s?(?:don't|do\snot|didn't|did\snot)\s(?:know|find|see|have)\b.*",
    (
        r"(?:i(?:'ll|\swill|\smust|\sshould|\sam\sgoing\sto|\shave\sto)?\s|let\s(?:me|us)\s|let's\s)?"
        r"(?:mov(?:e|ing)|go(?:ing)?)\son(?:\sto\sthe\snext\squestion)?"
    ),
    (
        r"(?:it|this|that)\s(?:is|remains)\s(?:unknown|unclear|unstated|unspecified|uncertain"
        r"|impossible\sto\s(?:say|tell|know|determine))\b[^\d\"]*"
    ),
    (
        rf"(?:i\s(?:would\s)?need\s)?(?:more|further|additional|other|another)\s{_LACK}"
        r"(?:\s(?:is|are|would\sbe|may\sbe)\s(?:needed|required|necessary))?"
    ),
    rf"(?:from|in|within|by|using|with|given|based\son|according\sto)\s{DOCUMENT}",
    r"(?:i'm\s|i\sam\s)?sorry|(?:my\s)?apologies|exactly|for\s(?:sure|certain)|unknown|unclear|n/a",
    r"",
)
_NOTHING_SAID = re.compile("|".join(f"(?:{form})" for form in _FORMS))
_LEAD = re.compile(
    r"(?:(?:and|or|so|but|also|therefore|thus|hence|as|because|since|while|which|given\sthat"
    r"|however|although|though|unfortunately|sorry|in\sfact|moreover)\b|[\s,.\"'\[\]?!-])*+"
)


def asserts_nothing(clause: str) -> bool:
    """Whether ``clause`` (lower case, single spaces) is known to assert nothing.

    Connecting words before it are passed over; an empty clause asserts nothing.
    """
    said = clause[_LEAD.match(clause).end() :].rstrip(" ,.\"'[]-")  # type: ignore[union-attr]
    return _NOTHING_SAID.fullmatch(said) is not None
