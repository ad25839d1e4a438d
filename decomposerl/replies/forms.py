"""The patterns of what a line says of a claim, in lower case and single spaces."""

import re

_HOW = (
    r"(?:(?:fully|entirely|completely|wholly|directly|explicitly|clearly|indeed|therefore|thus"
    r"|hence|well|actually|overall|considered|judged|deemed|found|labell?ed|rated|classified"
    r"|marked|as|to\sbe|both|all|quite|strongly|adequately|sufficiently)\s)*"
)
_TRUE = r"supported|borne\sout|backed"
_FALSE = (
    rf"not\s{_HOW}(?:supported|borne\sout|backed)|unsupported|refuted|contradicted|disproved"
    r"|disproven"
)
_UNKNOWN = (
    r"unknown|not\senough\s(?:info(?:rmation)?|evidence)|(?:insufficient|too\slittle)\s(?:info"
    r"(?:rmation)?|evidence)|cannot\sbe\s(?:determined|verified|decided|judged|settled)"
    r"|can(?:'|no)t\s(?:tell|say|determine|be\sdetermined)|undetermined|undecided|unverifiable"
    r"|inconclusive|unclear|uncertain|open|neither\b[^.]*|not\s(?:clear|determinable|verifiable)"
)
WORD = re.compile(
    rf"{_HOW}(?:(?P<false>{_FALSE})|(?P<true>{_TRUE})|(?P<unknown>{_UNKNOWN})"
    rf"|(?P<yes>yes|true|correct)|(?P<no>no|false|incorrect|not\strue))(?![\w'-])(?P<rest>.*)"
)
REASON = re.compile(
    r"\s*(?:[.,;:!)(—–]|-\s|\b(?:because|since|as|by|based|according|given|due|for|from|in\sview"
    r"|in\slight|on\sthe|per|under|with)\b)"
)
# Behind Supported these take it back, or state the other label as well.
TAKEN_BACK = re.compile(
    r"\b(?:but|however|except|although|though|mostly|partly|partially|largely|in\spart|or|if|unless"
    r"|refuted|unsupported|contradict(?:s|ed|ing)?|not\s(?:supported|borne)|nevertheless|yet"
    r"|verdict|unknown|apart\sfrom|only\sin|not\sfully|not\sentirely|not\sall)\b"
)
HEDGED = re.compile(
    r"\W*(?:but|mostly|partly|partially|largely|in\spart|or|if|unless|only|except|to\ssome)\b"
)
DENIED = re.compile(
    r"\A\W*(?:or|if|unless|only\sif|partly|partially|in\spart|mostly|to\ssome)\b|\bverdict\s?:"
    r"|\bclaim\sis\ssupported\b|\A\W*supported\b"
)
BULLET = re.compile(r"\A(?:[-*•–—]|\(?\d{1,2}[.)])\s+")
PART = re.compile(
    r"\A(?:(?:sub-?claim|part|step|predicate|fact|statement|question|answer|claim|verdict|[qap])"
    r"\s?#?\(?\d{1,2}|(?:sub-?claim|sub-?question|question|q|a|follow[-\s]?up"
    r"|intermediate\sanswer|conjunction|sure)\s?\)?\s?[:.])"
)
LABEL = re.compile(
    r"(?:(?:so|thus|therefore|hence|and|in\sconclusion),?\s)?(?:(?:the|my|our)\s)?"
    r"(?P<final>final|overall|concluding|ultimate|combined|correct|right|resulting)?,?\s?"
    r"(?:(?:the|my|our)\s)?(?P<name>verdict|answer|conclusion|label|decision|judge?ment|assessment"
    r"|result|classification|verification|prediction|rating|claim|statement)"
    r"(?P<whole>\s(?:on|for|about|of)\s(?:the\s)?(?:whole|entire|overall)?\s?(?:claim|statement))?"
    r"(?P<part>\s?\(?(?:(?:on|for|of|about)\s)?(?:(?:the\s)?(?:first|second|third|fourth|fifth|last)"
    r"\s)?(?:sub-?claim|part|predicate|statement|step|question)\b[^:]{0,20})?"
    r"\s?(?P<is>:|=|\s[-–—]\s|[-–—]\s|\sis\b(?:\sthat\b)?:?|\Z)\s?(?P<rest>.*)"
)
OPENING = re.compile(
    r"\A(?:so|thus|therefore|hence|overall|in\s(?:conclusion|summary|short|sum)|to\s(?:conclude|sum"
    r"\sup)|conclusion|finally|final|consequently|accordingly|result)\s?[,:—–-]*\s(?P<rest>.*)"
)
_CLAIM = (
    r"(?:the|this)\s(?:(?:whole|entire|full|complete|overall|original|given|above|combined)\s)?"
    r"(?:claim|statement)(?:\s(?:as\sa\swhole|overall|itself|above|in\sfull|in\sits\sentirety))?"
)
_PARTS = r"(?:parts?|statements?|elements?|aspects?|points?|sub-?claims?|predicates?)"
SENTENCE = re.compile(
    rf"(?:{_CLAIM}|(?:all|every|each|both|(?P<no>no))(?:\sof)?(?:\sthe)?\s{_PARTS}"
    rf"(?:\s(?:of|in)\s{_CLAIM})?)"
    r"\s(?:is|are|was|must\sbe|has\sto\sbe|can\sbe|should\sbe|stands|counts\sas)\s"
    r"(?:therefore\s|thus\s|hence\s|then\s|so\s)?(?P<word>.*)"
)
_SOURCE = (
    r"(?:evidence|documents?|passages?|texts?|findings?|facts?|answers?|context|article|source"
    r"|information|abstract|all\sof\sthis|this|these|they)"
)
VERB = re.compile(
    rf"\b{_SOURCE}\s(?:(?P<not>do(?:es)?(?:\snot|n't)|fails?\sto|cannot)\s)?(?:\w+ly\s)?"
    rf"(?:(?P<true>supports?|bears?\sout|confirms?)|(?P<false>refutes?|contradicts?|disproves?))"
    rf"\s(?:(?:every|each|all(?:\sof)?(?:\sthe)?|both)\s{_PARTS}\s(?:of|in)\s)?{_CLAIM}(?!'s)"
    r"(?P<rest>.*)"
)
CONDITION = re.compile(
    r"\b(?:if|whether|unless|when|whenever|either|suppose|assuming|would|could|might|may|should"
    r"|parts?\sof|some\sof|half\sof)\b"
)
NEGATION = re.compile(r"\b(?:not|cannot|never|no|nothing|say|says|reply|claims)\b|n't\b")
CLAUSE = re.compile(r"[,;:]|\b(?:and|so|therefore|thus|hence|which\smeans(?:\sthat)?)\b")
WHOLE = re.compile(r"\b(?:whole|entire|overall|combined|full|complete|entirety)\b")
SINCE = re.compile(r"(?:since|because|as)\b[^,]*,\s(?:so\s|then\s)?(?:the|this)\b")
STOP = re.compile(r"(?<=[.!?])\s+")
SINGLE = re.compile(r"\[[^\[\]]*\]\W*|\\boxed\{[^{}]*\}\W*")
# "The year differs, so the claim is …", "true and false = false, so …": the words behind decide.
SO = re.compile(
    r"(?:[,;.:]|\band)\s(?:so|therefore|thus|hence|and\sso)\s?[,:]?\s?(?:(?:the|my)\s(?:final\s)?"
    r"(?:verdict|answer|label|conclusion)\sis\s|(?:it|this)\s(?:is|must\sbe)\s|"
    rf"{_CLAIM}\s(?:is|must\sbe)\s)?(?P<rest>[^,;.]*(?:[(].*)?)\W*\Z"
)
# "Partly supported, but I would say Refuted": what the writer says in the end decides.
CHOSEN = re.compile(
    r"(?:\bi(?:\s(?:would|will|must|should|do|have\sto)|'d|'ll)?(?:\s(?:still|therefore|thus|rather))?"
    r"\s(?:say|conclude|choose|pick|go\swith|answer|judge|rate|rule|call\sit|lean\s(?:towards?|to))"
    rf"|\b(?:must|have\sto|had\sto)\s(?:choose|pick|decide)\b[^,:.;]{{0,30}})(?:\s?[:,])?\s"
    rf"(?:that\s|it\s(?:is|as|to\sbe)\s|{_CLAIM}\s(?:is|as|to\sbe)\s|for\s)*[\"'“*]*"
    r"(?P<rest>(?:not\s)?(?:supported|refuted|unsupported)\b.*)"
)
NAMED_TRUTH = re.compile(
    r"(?:is\s)?(?:the\s)?(?:claim\s)?(?:is\s)?(?:supported|true|(?P<false>refuted|false))"
    r"(?:\sby\s(?:the\s)?evidence)?\s?[:=?]\s?[\"'*]*(?:yes|true|(?P<no>no|false))\b(?P<rest>.*)"
)
ARROW = re.compile(r"\s*(?:[→⇒⟹➜]|[-=]+>)\s*")
CHOICE = re.compile(
    r"\A(?:supported\s?(?:or|/)\s?refuted|refuted\s?(?:or|/)\s?supported|true\s?(?:or|/)\s?false"
    r"|yes\s?(?:or|/)\s?no)(?:\s?(?:or|/)\s?unknown)?\s?[:?=]\s?"
)
# "None of them is Refuted" beside Supported takes nothing back.
NOT_TAKEN_BACK = re.compile(
    r"\b(?:none|nothing|not|neither|never|no|without)\b[^.;,()]{0,40}?\b(?:refuted|contradict\w*)"
)
SIGNS = re.compile("[\u2600-\u27bf\u2b00-\u2bff\ufe0f\U0001f300-\U0001faff]")
LAST_WORD = re.compile(r"(?:[.:]|,\sso|,)\s(?P<word>[a-z ]{2,20})\.?\Z")
