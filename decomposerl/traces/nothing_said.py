"""Clauses that assert nothing about the world: what may stand beside "I don't know".

Takes one clause in lower case, gives whether it is known to say only that information lacks,
what the document is about, or that the writer is sorry and goes on. A denial about the world
("it is not found in Portugal") is a fact, so most denials need the document beside them.
"""

import re
from functools import cache

from decomposerl.traces.reported_facts import (
    DOCUMENT,
    opens_a_fact,
    turns_into_fact,
    without_lead,
)

_IT = rf"(?:none\sof\s{DOCUMENT}|{DOCUMENT})"
TELL = (
    r"(?:say|state|mention|specify|give|provide|include|contain|cover|discuss|describe|address"
    r"|indicate|list|name|report|show|tell|reveal|disclose|identify|clarify|confirm|explain"
    r"|establish|note|record|reference|suggest|detail|document|define|answer|refer|relate|talk|speak|have|offer|support|help|go|touch|link|connect"
    r"|associate|compare|attribute|appear\sto\s(?:say|mention))"
)
"""Verbs of what a document does."""
# "It does not contain gold" is about the world: a pronoun takes only the verbs of texts.
_SPEAK = r"(?:say|state|mention|specify|indicate|tell|clarify)"
# Of "this" alone a pronoun takes more of them: "it does not cover this".
_TREAT = (
    r"(?:address|discuss|cover|describe|report|reveal|disclose|confirm|support|suggest|establish"
    r"|show|explain|answer|identify|note|record|reference|detail|touch\son|refer\sto|allude\sto"
    r"|go\sinto|speak\s(?:of|about))"
)
# Texts are what these are said of, so they need nothing beside them.
_SAID = r"(?:said|stated|mentioned|specified|reported|documented)"
# Said of information and of things: "he was not named" is a fact, "it is not given" is none.
_GIVEN = (
    r"(?:given|provided|indicated|listed|shown|told|revealed|disclosed|described|discussed"
    r"|covered|addressed|clarified|explained|answered|defined|determined|inferred|named|known"
    r"|clear)"
)
# Said of things above all ("not found in Portugal"): these need the document beside them.
_FOUND = (
    r"(?:found|included|contained|available|confirmed|identified|verified|established|supported"
    r"|there|possible|enough|sufficient|offered|suggested|noted|recorded|referenced|alluded\sto"
    r"|referred\sto|touched\s(?:up)?on|gone\sinto|spoken\sof)"
)
_TOLD = rf"(?:{_SAID}|{_GIVEN}|{_FOUND})"
_NOT = r"(?:n't|\snot|\snever|\snowhere)"
_BE = r"(?:(?<!\swhich\s)(?<!\swho\s)(?:is|are|was|were|has\sbeen|have\sbeen))"
_HOW = r"(?:\s(?:\w{1,12}ly|even|at\sall|anywhere|further|ever|here|either))*"
_LACK = (
    r"(?:information|info|evidence|mention|details?|data|references?|statements?|records?"
    r"|answers?|indications?|sources?)\b"
)
_FACT = (
    r"(?:dates?|years?|months?|days?|names?|numbers?|figures?|amounts?|ages?|places?|locations?"
    r"|authors?|titles?|reasons?|causes?|identity|origins?|heights?|lengths?|sizes?|prices?|costs?"
    r"|distances?|scores?|durations?)\b"
)
_WHICH = r"(?:(?:the|any|this|that|these|such|his|her|its|their|exact|specific|further|other)\s)*"
_INFORMATION = (
    rf"{_WHICH}(?:(?:birth|death|release|start|end|full|such|relevant)\s)?(?:{_LACK}|{_FACT})"
    r"(?:\s(?:on|of|about|for)\b[^,\d\"]{1,80}?)?"
)
_SOURCE = rf"(?:{DOCUMENT}|(?:the|this)\s(?:(?:given|provided|available)\s)?information)"
_IN_DOCUMENT = (
    rf"(?:\s(?:in|by|from|within|on)\s(?:any\sof\s)?{_SOURCE}"
    r"(?:\s(?:about|on|of|or|nor|at\sall|anywhere|either|i\swas|you)\b[^\d\"]*)?)"
)
_ABOUT = r"(?:about|on|of|for|regarding|concerning|as\sto)"
_STATED = (
    rf"(?:{_SAID}|given|provided|indicated|listed|shown|told|disclosed|described|discussed"
    r"|explained)"
)
NAMED = (
    r"(?:\s(?!(?:as|that|which|who|how|and\s(?:[\w'-]+\s){1,3}(?:is|are|was|were|has|had|can|will|built"
    r"|won|wrote|led|made|[a-z]{2,}ed))\b)[^\s\d\"]+){1,10}"
)
"""What a document is about: a few words without a value, a quotation or a statement."""
_NUMBERS = "one|two|three|four|five|six|seven|eight|nine|ten|hundred|thousand|million"
GENERAL = (
    r"(?:(?!(?:he|she|it|they|this|that|the|these|those|his|her|its|their|there|we|i|no|not|none"
    rf"|{_NUMBERS})\b)[a-z-]+\s){{0,3}}(?:[a-z-]*[a-z]{{2}}(?<![sui])s|people|men|women|children|animals)"
    r"\s(?:can|could|may|might)(?:\s(?!(?:not|never|no|in|at|near|on|by|from|since|until|during|between"
    rf"|and|but|or|{_NUMBERS})\b)[a-z-]+){{1,8}}"
)
"""What a whole kind can do ("lamps can burn oil"): no name, value, place, time or denial."""

_YEAR = r"(?:the\s)?(?:years?\s)?\d{3,4}"
_ASKED = rf"(?:{_YEAR}|[^,\d\"]{{1,60}}?)"
"""What a question is about: words without a value, or a year alone."""
_PUBLISHED = (
    r"(?:(?:is|was)\s)?(?:published|issued|printed|written|appeared|released|is|was)"
    rf"\s(?:in|on|from)\s(?:[a-z]+\s)?{_YEAR}"
)
KINDS = (
    r"(?:review|abstract|summary|overview|study|survey|article|report|biography|description"
    r"|paper)s?"
)

_FORMS = (
    # the document does not say who …
    rf"{_IT}\s(?:do|does|did|ca|can|could){_NOT}{_HOW}\s{TELL}\b.*",
    rf"{_IT}\s(?:cannot|never){_HOW}\s{TELL}(?:s|es)?\b.*",
    rf"(?:it|they)\s(?:do(?:es)?{_NOT}|never){_HOW}\s{_SPEAK}s?\b.*",
    (
        rf"(?:it|they)\sdo(?:es)?{_NOT}{_HOW}\s{_TREAT}\sthis"
        r"(?:\s(?:question|point|matter|issue|topic|claim|statement))?"
    ),
    rf"(?:it|they)\sdo(?:es)?{_NOT}{_HOW}\s{TELL}\s(?:an?\s|enough\s)?{_INFORMATION}",
    (
        rf"{_IT}\s(?:is|are){_NOT}{_HOW}\s(?:clear|explicit|sufficient|enough|conclusive|specific)"
        rf"(?:\s{_ABOUT}\b[^\d\"]*)?"
    ),
    # … is not mentioned; "was not given the prize" is a fact and fails here
    rf"(?:[^,]{{1,150}}?\s)?{_BE}{_NOT}{_HOW}\s(?:{_SAID}{_HOW}|{_TOLD}{_HOW}{_IN_DOCUMENT})",
    rf"(?:it|this|that)(?:'s|\sis)\snot{_HOW}\s(?:(?:{_SAID}|{_GIVEN}){_HOW}|{_TOLD}{_IN_DOCUMENT})",
    (
        r"(?:it|this|that)(?:'s\snot|\sis\snot|\sisn't)\s(?:clear|known)\s(?:who|what|which|when|where|why|how|if"
        r"|whether)\b[^\d\"]*"
    ),
    rf"{_INFORMATION}\s(?:is|are)(?:n't|\snot){_HOW}\s{_TOLD}{_HOW}{_IN_DOCUMENT}?",
    rf"{_INFORMATION}\s(?:was|were)(?:n't|\snot){_HOW}\s{_STATED}{_HOW}{_IN_DOCUMENT}?",
    rf"(?:{_WHICH}(?:relevant\s)?{_LACK}|{_FACT})\snot{_HOW}\s(?:available|{_STATED}){_IN_DOCUMENT}?",
    # Of a matter alone: "Smith is not named" and "the bridge is not covered" are facts.
    (
        r"(?!(?:he|she|they|i|we|you)\s)(?!no\s|none\s|nobody\s)[^,\d\"]{1,80}?\s(?:is|are)(?:n't|\snot)"
        rf"{_HOW}\s(?:discussed|described|explained){_HOW}"
    ),
    (
        r"no\s(?:single\s|specific\s)?(?:one|person|people|name|individual|author|inventor)\s(?:is|are)"
        r"\s(?:named|mentioned|credited|identified|cited)(?:\s(?:as|for|with)\s(?:the|this|that|its|it|them)"
        rf"\b[^,\d\"]{{0,60}}?)?{_IN_DOCUMENT}?"
    ),
    (
        r"(?:[^,]{1,150}?\s)?(?:cannot|can't|can\snot|could\snot|couldn't)\sbe\s"
        rf"{_TOLD}{_HOW}{_IN_DOCUMENT}"
    ),
    (
        rf"(?:(?:it|this|that|{_INFORMATION})\s)?(?:cannot|can't|can\snot)\sbe\s"
        rf"(?:{_SAID}|{_GIVEN}|confirmed|verified|established|identified){_HOW}"
    ),
    rf"no\s{_INFORMATION}\s(?:is|are)\s{_TOLD}{_HOW}(?:\s(?:about|on)\s(?:it|this|that))?",
    (
        rf"no\s(?:[\w-]+\s){{0,2}}(?:{_LACK}|{_FACT})\s(?:is|are|was|were)\s{_STATED}{_HOW}"
        rf"(?:\s(?:for|of|{_ABOUT})\s[^,\d\"]{{1,80}})?{_IN_DOCUMENT}?"
    ),
    (rf"no\s(?:[\w'-]+\s){{1,4}}(?:is|are)\s(?:mentioned|stated|specified){_HOW}{_IN_DOCUMENT}?"),
    (
        rf"neither(?:\s{_ASKED}\snor\s{_ASKED}|(?:\sof\s[^,\d\"]{{1,30}}?)?)\s(?:is|are)\s(?:{_SAID}{_HOW}{_IN_DOCUMENT}?"
        rf"|{_TOLD}{_HOW}{_IN_DOCUMENT})"
    ),
    (rf"neither\s{_WHICH}{_FACT}\snor\s{_WHICH}{_FACT}\s(?:is|are)\s{_STATED}{_HOW}"),
    rf"[^,]{{1,80}}?\s(?:does|do|did){_NOT}\s(?:appear|occur|feature|come\sup)\s(?:anywhere\s)?in\s{DOCUMENT}",
    rf"(?:it|this|that)\sisn't{_HOW}\s(?:{_SAID}|{_GIVEN}){_HOW}",
    (
        r"[^,\d\"]{1,80}?\s(?:cannot|can't|can\snot)\sbe\s(?:checked|verified|confirmed|answered|settled)"
        rf"\s(?:against|with|from|using|by)\s{DOCUMENT}"
    ),
    (
        r"(?:it|this|that)(?:'s|\sis|\slies|\sfalls)\soutside\s(?:of\s)?(?:the\sscope\sof\s)?(?:what\s)?"
        rf"{DOCUMENT}(?:\s(?:covers|says|discusses|describes))?"
    ),
    rf"{_INFORMATION}\s(?:is|are|remains?)\s(?:unknown|unclear|unstated|unspecified|uncertain)",
    rf"not{_HOW}\s(?:(?:{_SAID}|{_GIVEN}){_HOW}|{_TOLD}{_HOW}{_IN_DOCUMENT})",
    rf"(?:(?:[^,]{{1,80}}?\s(?:is|are)|it's|that's){_NOT}|not){_HOW}\s(?:in|part\sof)\s{DOCUMENT}",
    rf"[^,]{{1,80}}?\s(?:is|are)\s(?:missing|absent|omitted)\sfrom\s{DOCUMENT}",
    rf"(?:none\sof|neither|no(?:\spart\sof)?)\s{DOCUMENT}\s{TELL}(?:s|es)?\b.*",
    r"(?:it\sis\s|it's\s)?not\spossible\sto\s(?:say|tell|know|determine|answer)\b[^\d\"]*",
    rf"without\s(?:any|more|further|additional|other)\s{_LACK}",
    # there is no information on …
    (
        rf"(?:(?:there(?:\s(?:is|are|was|were)|'s)|with|{_IT}\s(?:gives?|has|have|contains?|provides?"
        rf"|offers?|makes?|includes?|shows?|lists?)|it\s(?:gives|provides|offers|contains))\s)?"
        rf"(?:no|not\s(?:enough|any)|insufficient|too\slittle|little)\s(?:[\w-]+\s){{0,3}}{_LACK}"
        rf"(?:\s(?:available|given|provided|here))?(?:\s(?:{_ABOUT}|in|to|from|that|either)\b.*)?"
    ),
    (
        rf"(?:it|{_IT})\s(?:gives?|states?|lists?|mentions?|provides?|reports?|shows?)\s(?:no|neither)"
        rf"\s{_WHICH}{_FACT}(?:\s(?:{_ABOUT}|when|nor|or|in|at)\b.*)?"
    ),
    (
        rf"nothing\s(?:is\s|was\s)?(?:{_SAID}|{_GIVEN}){_HOW}"
        rf"(?:\s{_ABOUT}(?:\b[^\d\"]*|\s{_YEAR})|{_IN_DOCUMENT})?"
    ),
    (
        rf"nothing\s{_ABOUT}\s{_ASKED}\s(?:is|was)\s(?:{_SAID}|{_GIVEN}|recorded|found){_HOW}"
        rf"{_IN_DOCUMENT}?"
    ),
    rf"nothing\s(?:is\s|was\s)?(?:found\s)?in\s{DOCUMENT}(?:\s{TELL}(?:s|es)?\b.*)?",
    rf"(?:there(?:'s|\sis)|i\s(?:see|saw|find|found))\snothing\s(?:(?:{_ABOUT}\s[^,\d\"]+\s)?in\s{DOCUMENT}.*|about\s[^,\d\"]+)",
    (
        rf"i\s(?:see|saw|find|found|have)\sno\s(?:[\w-]+\s){{0,2}}(?:{_LACK}|{_FACT})"
        rf"(?:\s(?:of|for|{_ABOUT})\s[^,\d\"]{{1,80}})?{_IN_DOCUMENT}?"
    ),
    (
        rf"{_IT}\s(?:lacks?|omits?|mentions?\s(?:nothing|no|neither)"
        rf"|fails?\sto\s{TELL}|is\ssilent|is\sunclear|is\sinsufficient|is\sinconclusive)\b.*"
    ),
    rf"(?:it|they|{_IT})\s(?:says?|tells?|states?|shows?|gives?)\s(?:nothing|little)(?:\s{_ABOUT}\b.*)?",
    # the text only covers …: what it is about, without a value, a quotation or a "that"
    (
        rf"{_IT}\s(?:only\s|just\s|merely\s)?(?:covers|discusses|concerns|addresses|deals\swith"
        rf"|is\s(?:only\s)?about|talks\sabout|focuses\s(?:only\s)?on|is\slimited\sto)(?:\sonly)?{NAMED}"
    ),
    rf"{_IT}\s(?:only\s|just\s|merely\s)?is\sabout{NAMED}\sin\s{_YEAR}",
    rf"{_IT}\sis\s(?:only\s|just\s|merely\s)?an?\s(?:[a-z]+\s)?{KINDS}(?:\s(?:of|on|about){NAMED})?",
    (
        rf"(?:it|{_IT})\s(?:only|just|merely)\s(?:mentions|describes|discusses|speaks\sof"
        rf"|talks\sabout|refers\sto){NAMED}"
    ),
    rf"{_IT}\s(?:only|just|merely)\s(?:lists|shows)\s{_WHICH}(?:[a-z]+\s)?[a-z]{{2,}}s",
    (
        rf"{_IT}\s(?:only|just|merely)\s(?:gives|names|states)\s{_WHICH}(?:[a-z-]+\s)?{_FACT}\s(?:of|for)"
        rf"{NAMED}"
    ),
    rf"{_IT}\s(?:has|offers|gives|names|includes)\sno\s(?:[a-z-]+\s)?(?:column|row|entry|section|{_FACT})(?:\s(?:for|on|of)\s[^,\d\"]{{1,60}})?",
    rf"{_IT}\sleaves\s(?:it|this|that)\s(?:open|out|unanswered|unclear|unsaid)",
    rf"{_IT}\s(?:ends|stops)\sbefore\s[^,\d\"]{{1,60}}",
    # I cannot tell; I will move on
    (
        r"i(?:\scannot|\s(?:ca|could|can|am)(?:n't|\snot)|\sam\sunable\sto|'m\snot|'m\sunable\sto)"
        r"(?:\sable\sto)?\s(?:answer|determine|say|tell|find|verify|confirm|establish|identify|know"
        r"|conclude|judge|decide|infer|locate|see)\b.*"
    ),
    (
        r"(?:i(?:'ll|\swill|\smust|\sshould|\sam\sgoing\sto|\shave\sto)?\s|let\s(?:me|us)\s|let's\s)?"
        r"(?:mov(?:e|ing)|go(?:ing)?)\son(?:\sto\sthe\snext\squestion)?"
    ),
    (
        r"(?:it|this|that)(?:'s|\sis|\sremains)\s(?:unknown|unclear|unstated|unspecified|uncertain"
        r"|impossible\sto\s(?:say|tell|know|determine))\b[^\d\"]*"
    ),
    (
        rf"(?:i\s(?:would\s)?need\s)?(?:more|further|additional|other|another)\s{_LACK}"
        r"(?:\s(?:is|are|would\sbe|may\sbe)\s(?:needed|required|necessary))?"
    ),
    r"no\s(?:mention|reference)\sis\smade\s(?:of|to)\s[^,\d\"]{1,60}",
    r"the\s(?:study|report|paper|authors?|statement|review)\s(?:does|do)(?:n't|\snot)\s(?:say|state|mention|report|specify|name|discuss)\b.*",
    rf"it\s(?:isn't|is\snot){_HOW}\s{_SAID}{_IN_DOCUMENT}?\s(?:who|what|which|when|where|why|how|if|whether)\b.*",
    r"(?:i'm|i\sam)\s(?:sorry|afraid)",
    rf"(?:based\son|from|according\sto|given|going\sby|using)\s{DOCUMENT}",
    r"(?:not)?",
)
_ONLY_GENERAL = re.compile(
    rf"(?:it|{DOCUMENT})\s(?:(?:only|just|merely)\s(?:says|states|mentions|notes|explains|describes|reports)"
    rf"|(?:says|states|mentions|notes)\sonly)\s(?:that|how)\s{GENERAL}"
    rf"|{DOCUMENT}\s(?:only|just|merely)\s(?:says|states|mentions|notes)\sthat\s(?:it|the\s{KINDS}"
    rf"|{DOCUMENT})\s{_PUBLISHED}"
    rf"|{DOCUMENT}\sneither\s(?:says|states|supports|confirms)\snor\s(?:denies|refutes|contradicts)"
    r"\s(?:it|this|that|the\s(?:claim|statement))"
    rf"|(?:it|this|that)\s(?:is|goes|lies)\sbeyond\s(?:the\sscope\sof\s|what\s)?{DOCUMENT}"
    r"(?:\s(?:covers|says|discusses|describes))?"
)
"""All but the first would otherwise count as a denial that turns into a fact."""


@cache
def _nothing_said() -> re.Pattern[str]:
    """All forms as one pattern, compiled at first use: it takes a quarter of a second."""
    return re.compile("|".join(f"(?:{form})" for form in _FORMS))


def asserts_nothing(clause: str) -> bool:
    """Whether ``clause`` (lower case, single spaces) is known to assert nothing.

    Connecting words before it are passed over; an empty clause asserts nothing.
    """
    said = without_lead(clause)
    if _ONLY_GENERAL.fullmatch(said):
        return True
    if opens_a_fact(clause) or turns_into_fact(said):
        return False
    return _nothing_said().fullmatch(said) is not None
