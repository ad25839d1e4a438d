"""Whether an answer says that the document does not tell (paper, section 3.2, joint reward).

An abstention goes by other rules than an answer: whether it is correct is not asked, and it pays
where the document cannot answer. A fact must not pass under that cover, so doubt goes one way:
every clause around "I don't know" has to be one of ``PHRASES``, which assert nothing, or what the
document has instead with such a phrase behind it ("it describes mills but names no builder"). A
denial about the world ("it is not found in Portugal") is a fact, so most need the document.
"""

import re
import unicodedata
from collections.abc import Iterable, Iterator
from functools import cache

from decomposerl.normal_form import normalised
from decomposerl.replies.languages import DONT_KNOW, UNKNOWN

MOST_WORDS = 80
"""An honest abstention is short; a longer text says something."""
DOCUMENT = (
    r"(?:(?:only|the|this|that|these|any|available|given|provided|supplied|cited|retrieved|evidence"
    r"|source|reference|whole|entire)\s)*"
    r"(?:documents?|texts?|evidence|passages?|articles?|sources?|contexts?|tables?|pages?"
    r"|excerpts?|paragraphs?|abstracts?|snippets?)"
    r"(?:\s(?:provided|given|supplied|above|here|itself|alone))?"
)
"""The words that stand for the evidence document."""

_SAID = r"(?:said|stated|mentioned|specified|reported|documented)"
_TELL = (
    r"(?:say|state|mention|specify|give|provide|include|contain|cover|discuss|describe|address"
    r"|indicate|list|name|report|show|tell|reveal|disclose|identify|clarify|confirm|explain"
    r"|establish|note|record|reference|suggest|detail|document|define|answer|refer|relate|talk"
    r"|speak|have|offer|support|help|go|touch|link|connect|associate|compare|attribute)(?:s|es)?\b"
)
_LACK = (
    r"(?:information|info|evidence|mention|details?|data|references?|statements?|records?"
    r"|answers?|indications?|sources?|dates?|years?|months?|days?|names?|numbers?|figures?|amounts?"
    r"|ages?|places?|locations?|authors?|titles?|reasons?|causes?|identity|origins?|heights?"
    r"|lengths?|sizes?|prices?|costs?|distances?|scores?|durations?)\b"
)
_WHICH = r"(?:(?:the|any|this|that|these|such|his|her|its|their|exact|specific|further|other)\s)*"
_YEAR = r"(?:the\s)?(?:years?\s)?\d{3,4}"
_NUMBERS = "one|two|three|four|five|six|seven|eight|nine|ten|hundred|thousand|million"
_SLOTS = {
    "DOC": DOCUMENT,
    "NOT": r"(?:n't|\snot|\snever|\snowhere)",
    "HOW": r"(?:\s(?:\w{1,12}ly|even|at\sall|anywhere|further|ever|here|either))*",
    "TELL": _TELL,
    # "It does not contain gold" is about the world: a pronoun takes only the verbs of texts.
    "SPEAK": r"(?:say|state|mention|specify|indicate|tell|clarify)s?",
    # Texts are what these are said of, so they need nothing beside them.
    "SAID": _SAID,
    # Said of information and of things: "he was not named" is a fact, "it is not given" is none.
    "GIVEN": rf"(?:{_SAID}|given|provided|indicated|listed|shown|told|revealed|disclosed|described"
    r"|discussed|covered|addressed|clarified|explained|answered|defined|determined|named|known"
    r"|clear)",
    # Said of things above all ("not found in Portugal"): these need the document beside them.
    "FOUND": rf"(?:{_SAID}|given|provided|listed|shown|told|described|discussed|covered|addressed"
    r"|explained|answered|determined|named|known|clear|found|included|contained|available"
    r"|confirmed|identified|verified|established|supported|offered|suggested|referenced|recorded"
    r"|noted|(?:alluded|referred)\sto|touched\son)",
    "STATED": rf"(?:{_SAID}|given|provided|disclosed|indicated|listed|shown|described|discussed"
    r"|explained)",
    "LACK": _LACK,
    "INFORMATION": rf"{_WHICH}(?:(?:birth|death|release|relevant)\s)?{_LACK}"
    r"(?:\s(?:on|of|about|for)\b[^,\d\"]{1,80}?)?",
    "WHICH": _WHICH,
    "IN": rf"(?:\s(?:in|by|from|within|on|against|with)\s{DOCUMENT}"
    r"(?:\s(?:about|on|of|or|nor|at\sall|anywhere|either)\b[^\d\"]*)?)",
    "ABOUT": r"(?:about|on|of|for|regarding|concerning|as\sto|to|in|from|that|either)",
    # What a document is about: a few words without a value, a quotation or a statement.
    "NAMED": r"(?:\s(?!(?:as|that|which|who|how|and\s(?:[\w'-]+\s){1,3}(?:is|are|was|were|has|had"
    r"|can|will|built|won|wrote|led|made|[a-z]{2,}ed))\b)[^\s\d\"]+){1,10}",
    "KINDS": r"(?:review|abstract|summary|overview|study|survey|article|report|biography|paper)s?",
    # What a whole kind can do ("lamps can burn oil"): no name, value, place, time or denial.
    "GENERAL": r"(?:(?!(?:he|she|it|they|this|that|the|these|those|his|her|its|their|there|we|i|no"
    rf"|not|none|{_NUMBERS})\b)[a-z-]+\s){{0,3}}(?:[a-z-]*[a-z]{{2}}(?<![sui])s|people|men|women)"
    r"\s(?:can|could|may|might)(?:\s(?!(?:not|never|no|in|at|near|on|by|from|since|until|during"
    rf"|between|and|but|or|{_NUMBERS})\b)[a-z-]+){{1,8}}",
    "YEAR": _YEAR,
    "DATE": r"(?:[a-z]+[\s-]){0,2}(?:\d{1,2},?\s)?\d{3,4}s?",
    "THING": r"[^,\d\"]{1,80}?",
    "ANY": r".*",
    "WORDS": r"[^\d\"]*",
    "ONLY": r"(?:only|just|merely)",
}
PHRASES = r"""
# the document does not say who …
DOC (do|does|did|ca|can|could)NOTHOW TELLANY
DOC (cannot|never)HOW TELLANY
(none of|neither|no( part of)?) DOC TELLANY
(it|they) (do(es)?NOT|never)HOW SPEAKANY
(it|they) do(es)?NOTHOW TELL (to |on )?(this( (question|point|matter|topic|claim))?
  |((an?|enough) )?INFORMATION)
(study|report|paper|authors?|review) do(es)?NOT TELLANY
DOC (lacks?|omits?|mentions? (nothing|no|neither)|fails? to TELL|is (silent|unclear))\bANY
(it|they|DOC) (says?|tells?|states?|shows?|gives?) (nothing|little)( ABOUT\bANY)?
DOC (is|are)NOTHOW (clear|explicit|sufficient|enough|conclusive|specific)( ABOUT\bWORDS)?
DOC neither (says|states|supports|confirms) nor (denies|refutes|contradicts) (it|this|that)
DOC (leaves (it|this|that) (open|out|unanswered|unclear)|(ends|stops) before [^,\d"]{1,60})
# … is not mentioned; "was not given the prize" is a fact and fails here
(?!.*\b(which|who) (is|was)\b)([^,]{1,150}? )?(is|are|was|were|(has|have) been)NOTHOW
   (SAIDHOWIN?|FOUNDHOWIN)
(it|this|that)('s| is) notHOW (GIVEN|FOUNDIN)HOW
it is( not|n't)HOW (SAID|clear|known)IN? (who|what|which|when|where|why|how|if|whether)\bANY
INFORMATION ((is|are)( not|n't)HOW (GIVEN|available)|((was|were)( not|n't)|not)HOW (STATED
  |available))HOWIN?
INFORMATION (is|are|remains?) (unknown|unclear|unstated|unspecified)
notHOW (GIVENHOW|FOUNDHOWIN)
((THING (is|are)|it's|that's)NOT|not)HOW (in|part of) DOC
(?!(he|she|they|i|we|you|no|none|nobody) )THING (is|are)( not|n't) (discussed|explained)IN?
([^,]{1,150}? )?(cannot|can't|can not|could not|couldn't) be (FOUND|checked|settled)HOWIN
((it|this|that|INFORMATION) )?(cannot|can't|can not) be (GIVEN|confirmed|verified)HOW
[^,]{1,80}? (do|does|did)NOT (appear|occur) (anywhere )?in DOC
[^,]{1,80}? (is|are) (missing|absent|omitted) from DOC
(it|this|that)('s| is| lies| goes) (outside|beyond)( of)?( the scope of)?( what)? DOC( covers)?
# no … is given
no ([\w-]+ ){0,2}LACK (is|are|was|were) (GIVEN|available)HOW( (about|for|of|on) THING)?IN?
no ([\w'-]+ ){1,4}(is|are) (mentioned|stated|specified)IN?
no( single)? (one|person|people|name|author) (is|are) (named|mentioned|credited|identified)( (as
  |for|with) (the|this|that|its|it|them)\b( THING)?)?IN?
no (mention|reference) is made (of|to) THING
neither( of (these|them)| (YEAR|THING) nor (YEAR|THING))? (is|are) SAIDIN?
neither WHICHLACK nor WHICHLACK (is|are) STATED
nothing( (is|was))? GIVENHOW( ABOUT\b(WORDS| YEAR))?IN?
nothing in DOC( TELLANY)?
nothing about (YEAR|THING) (is|was) (GIVEN|recorded)HOWIN?
(there('s| is)|i (see|saw|found)) nothing (about THING|(about THING )?in DOCANY)
# there is no information on …
((there( (is|are|was|were)|'s)|with|it (gives|provides|offers|contains)|DOC (gives?|has|have
  |contains?|provides?|offers?|makes?|includes?|shows?|lists?|names?)) )?(no|not (enough|any)
  |insufficient|too little|little) ([\w-]+ ){0,3}LACK( (available|given|here))?( ABOUT\bANY)?
i (see|saw|find|found|have) no ([\w-]+ ){0,2}LACK( ABOUT THING)?IN?
DOC (has|offers|includes) no ([a-z-]+ )?(column|row|entry|section)( (for|on|of) THING)?
without (any|more|further|additional|other) LACK
(i (would )?need )?(more|further|additional|other|another) LACK( (is|are) (needed|required))?
# the text only covers …
DOC (ONLY )?(covers|discusses|concerns|addresses|deals with|(is )?about|talks about
  |focuses( ONLY)? on|is limited to)( only)?NAMED
DOC (ONLY )?is aboutNAMED in YEAR
DOC is (ONLY )?an? ([a-z]+ )?KINDS( (of|on|about)NAMED)?
(it|DOC) ONLY (mentions|describes|discusses|speaks of|talks about|refers to)NAMED
(it|DOC) (ONLY (says|states|mentions|notes|explains)|(says|states) only) that GENERAL
DOC ONLY (says|states|mentions) that (it|the KINDS|DOC) (was |is )?
  (published|written|appeared) (in|on|from) ([a-z]+ )?YEAR
DOC ONLY (lists|shows) WHICH([a-z]+ )?[a-z]{2,}s
DOC ONLY (gives|names|states) WHICH([a-z-]+ )?LACK (of|for)NAMED
# I cannot tell; I will move on
i( cannot| (ca|could|can|am)(n't| not)| am unable to|'m not|'m unable to)( able to)? (answer
  |determine|say|tell|find|verify|confirm|establish|identify|know|conclude|judge|see)\bANY
(i('ll| will| must| should)? )?mov(e|ing) on( to the next question)?
(it|this|that)('s| is| remains) (unknown|unclear|unstated|impossible to (say|tell))\bWORDS
(it is |it's )?not possible to (say|tell|know|determine|answer)\bWORDS
(i'm|i am) (sorry|afraid)
(based on|from|according to|given) DOC
(not)?
"""
BACKGROUND = r"""
DOC (is|was) (published|written|issued|printed|compiled|dated|from)( (in|on|from))? DATE
DOC dates (from|to|back to) DATE
DOC (ONLY )?(mentions|describes|discusses|covers|concerns|refers to|talks about|speaks of
  |deals with|focuses on|is (only )?about)NAMED
DOC (says|states|mentions|notes|explains) that GENERAL
DOC is (ONLY )?an? ([a-z-]+ ){0,2}KINDS( (of|on|about)NAMED)?
"""
"""What the document has instead; it asserts nothing where a phrase denies the rest behind it."""
_ELIDED = re.compile(
    r"(?:(?:does|do|did)(?:n't|\snot)|never|says?\s(?:nothing|little)|(?:gives?|has|have|contains?"
    r"|provides?|offers?|makes?|names?|lists?|includes?|mentions?)\s(?:no|nothing|neither)|lacks?"
    r"|omits?|is\ssilent|fails?\sto|cannot|(?:only|just|merely)\s(?:gives|names))\b"
)
_WITHOUT = re.compile(
    r"\swithout\s(?:giving|naming|saying|mentioning|stating|specifying|telling|providing|listing"
    r"|explaining|identifying|discussing)\s[^\d\"]*\Z"
)
# "The document mentions Kenya, moving on" leaves the mention standing.
_DENIAL = re.compile(
    r"(?!i\s).*(?:\b(?:no|not|nothing|none|never|neither|cannot|lacks?|omits?|silent"
    r"|fails?)\b|n't\b)"
)
_LEAD = re.compile(
    r"(?:(?:and|or|so|but|yet|also|therefore|thus|hence|as|because|since|while|which|given\sthat"
    r"|however|although|though|unfortunately|sorry|in\sfact|moreover|the(?=\s(?:study|report|paper"
    r"|authors?|review)\sdo))\b|[\s,.\"'\[\]?!-])*+"
)
# "The document says" opens a fact, "what the document says" does not.
_TELLS = re.compile(
    rf"(?P<asked>\b(?:what|whether|where|how|if|which|nothing(?:\sin)?|none\sof|neither|no)\s)?"
    rf"\b{DOCUMENT}\s(?:(?P<only>only|just|merely)\s|clearly\s|explicitly\s)?"
    r"(?:says|states|gives(?!\sthe\s)|(?P<lists>lists|shows|gives(?=\sthe\s))|reports|indicates"
    r"|notes|tells|confirms)\b(?P<none>\s(?:nothing|no|neither|little|only)\b)?"
)
# "None other than Smith", "nothing that contradicts it": the denial turns into a fact.
_TURNS = re.compile(
    r"(?P<asked>\b(?:whether|if)\s(?:(?!than\b)[^,.;:]){0,80}?\bmore\sthan)"
    r"|\b(?:other\s(?:[\w-]+\s){0,4}than|(?:more|else|rather)\sthan|besides|except|excepting"
    r"|excluding|otherwise|apart\sfrom|aside\sfrom|beyond(?!\s(?:what\s|the\sscope\sof\s)?the\s)"
    r"|save\sfor|(?<!nor\s)(?:contradict(?:s|ing)?|refut(?:e|es|ing)|disprov(?:e|es|ing)"
    r"|disput(?:e|es|ing)|den(?:y|ies|ying))|doubts?"
    r"|(?:evidence|information|indication)\s(?:against|(?:to\sthe\s)?contrary))\b"
)
_MARKS = dict.fromkeys(map(ord, "’‘ʼ`´′‛"), "'") | dict.fromkeys(map(ord, "“”„‟«»″"), '"')
_MARKUP = re.compile(
    r"</?(?:i|b|em|strong|u|p|br|q)\s?/?>|[*#>~]+|(?<!\w)_+|_+(?!\w)"
    r"|^[^\S\n]*(?:[-•·–—]|\d{1,2}[.)])[^\S\n]+",
    re.MULTILINE | re.IGNORECASE,
)
_KNOW = (
    r"i\s?(?:(?:really|honestly|truly|simply|just|actually|still)\s)?"
    r"(?:don't|dont|do\sn't|do\snot)\s(?:(?:really|actually)\s)?know\b[\"']?"
)
_OPENING = re.compile(
    r"(?:(?:(?:i'm|i\sam)\s)?(?:sorry|afraid)\b|(?:my\s)?apologies\b|unfortunately\b|regrettably\b"
    r"|honestly\b|well\b|but\b|that\b|(?:answer|a)\s?:|[\s,.;:!\"'()\[-]"
    rf"|(?:based\son|from|according\sto|given|going\sby|using)\s{DOCUMENT}\s?,)*+{_KNOW}"
)
_ABROAD = re.compile(rf"(?:{DONT_KNOW}|{UNKNOWN})\W*")
_LATER = re.compile(rf"(?<!\w){_KNOW}")
# What a clause can begin with: after a comma or "and", only these begin one, so that lists in
# the thing not known ("the range in Ghana, Togo and Benin") stay whole.
_SUBJECT = rf"(?:it|he|she|they|i|we|there|this|that|these|those|{DOCUMENT})\b"
_HEDGE = r"(?:maybe|perhaps|possibly|probably|presumably|i\s(?:think|believe|guess|suppose|assume))"
_FINITE = (
    r"(?:is|are|was|were|has|had|does|did|can|could|will|would|became|won|wrote|led|made|went|took"
    r"|came|ran|lost|built|held|began|lives?|(?!united\b)[a-z]{2,}ed)\b"
)
_BREAK = re.compile(
    r"[;:()\n]|[—–]|\s-{1,3}\s"
    r"|[,.\s](?=(?:but|however|although|though|whereas|nevertheless|nonetheless|instead|rather"
    rf"|because|except|{_HEDGE})\b)"
    rf"|\.(?=\s(?:{_SUBJECT}|no\b|not\b))"
    rf"|\s(?=(?:as|since|while|given\sthat|so|and|or)\s(?:{_SUBJECT}|no\b|nothing\b))"
    rf"|\s(?=and\s(?:(?:does|do|did)(?:n't|\snot)|never)\s{_TELL})|\s(?=(?:and|or)\snot\b)"
    r"|\s(?=and\s(?:is|was|are|were|has|had|says?|states?|gives?|lists?|shows?)\b)"
    rf"|(?<!\d),(?=\W*\d)|,(?=\s(?:[\w'-]+\s){{1,4}}{_FINITE})"
    rf"|,(?=\s?(?:{_SUBJECT}|(?:no|not|nothing|which|who|so|as|since|and|only|from|based"
    r"|sorry|about|around|approximately|roughly|likely|yet)\b))"
)
# How the thing that is not known begins; anything else is a sentence that was run on.
_THING = re.compile(
    r"\W*(?!(?:[\w']+|for\s(?:sure|certain))\s?,"
    r"(?!\s(?:or|and|who|what|which|when|where|why|how)\b))"
    r"(?:$|(?:the|an?|any|anything|enough|much|more|this|that|these|those|his|her|its|their|all"
    r"|what|who|whom|whose|which|when|where|why|how|whether|if|about|of|from|based|for|in|at|on|by"
    r"|with|to|given|according|using|exactly|precisely|specifically|definitely|yet|either|is"
    r"|\w+(?:\s\w+)?'s?)(?!\w))"
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
    if _ABROAD.fullmatch(words):
        return True
    phrase = _OPENING.match(words) or _LATER.search(words)
    if phrase is None or not _silent(words[: phrase.start()]):
        return False
    first, *others = _sentences(words[phrase.end() :])
    thing, *clauses = _BREAK.split(first)
    run_on = thing.startswith(",") or _THING.match(thing) is None
    if (run_on or _has(_TELLS, thing) or _has(_TURNS, thing)) and not asserts_nothing(thing):
        return False
    return _all_silent(clauses) and all(map(_silent, others))


def asserts_nothing(clause: str) -> bool:
    """Whether ``clause`` (lower case, single spaces) is one of ``PHRASES``, or empty.

    Connecting words before it are passed over; one that tells what the document says, or turns a
    denial into a fact, is none.
    """
    said = _said(clause)
    report = _TELLS.match(said)
    silent = report and (report["none"] or report["only"])
    if _has(_TELLS, said[report.end() :] if report and silent else said) or _has(_TURNS, said):
        return False
    return _table(PHRASES).fullmatch(said) is not None


def _has(pattern: re.Pattern[str], text: str) -> bool:
    """Whether ``pattern`` stands in ``text`` other than in what is asked."""
    return any(match["asked"] is None for match in pattern.finditer(text))


def _all_silent(clauses: Iterable[str]) -> bool:
    """Whether the clauses of one sentence assert nothing, each alone or with the next ones.

    A denial may leave its subject out where a clause before it has the document for one.
    """
    pending = about_document = False
    for said in filter(None, map(_said, clauses)):
        elided = f"the document {said.removeprefix('it ')}"
        if other := re.fullmatch(r"not\s(?:about\s)?([^\d\"]{1,80})", said):
            elided = f"the document does not discuss {other[1]}"
        denies = about_document and (other or _ELIDED.match(said.removeprefix("it ")))
        if (denies and asserts_nothing(elided)) or asserts_nothing(said):
            pending = pending and _DENIAL.match(said) is None
        elif _table(BACKGROUND).fullmatch(_WITHOUT.sub("", said)):
            pending = _WITHOUT.search(said) is None
        else:
            return False
        about_document = about_document or re.match(DOCUMENT, said) is not None
    return not pending


def _silent(text: str) -> bool:
    """Whether each sentence of ``text`` asserts nothing."""
    return all(_all_silent(_BREAK.split(sentence)) for sentence in _sentences(text))


def _said(clause: str) -> str:
    """``clause`` without connecting words before it and marks around it."""
    return clause[_LEAD.match(clause).end() :].rstrip(" ,.\"'[]-")  # type: ignore[union-attr]


@cache
def _table(phrases: str) -> re.Pattern[str]:
    """All phrases as one pattern, compiled at first use: it takes a while."""
    lines = re.sub(r"^#.*\n|\n  (?=\S| )", "", phrases.strip(), flags=re.MULTILINE).splitlines()
    text = "|".join(re.sub(r"\((?!\?)", "(?:", line) for line in lines).replace(" ", r"\s")
    slots = re.compile("|".join(sorted(_SLOTS, key=len, reverse=True)))
    return re.compile(slots.sub(lambda slot: _SLOTS[slot[0]], text))


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
