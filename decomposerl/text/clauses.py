"""A statement into statements of one fact each, by the marks its wording leaves.

Takes one sentence without its full stop, gives statements (or, where only an existence can
be asked, ready questions). Splits at relative clauses and appositions, conjoined clauses
and verb phrases, participles after a noun, lists, and adjuncts of time and place. English, without
a parser: a finite verb is an auxiliary, a listed form, or a lower-case word that ends like one.
"""

import re
from collections.abc import Callable, Sequence

from decomposerl.text.words import word_set

AUXILIARIES = word_set(
    "is are was were has have had do does did can could will would should may might must"
)
DETERMINERS = word_set("a an the this that these those its his her their our my your some any")
PRONOUNS = word_set("he she it they this these those")
PREPOSITIONS = word_set(
    "of in on at by for from to with into onto upon over under about between among through during "
    "after before since until near as than against alongside within without toward towards"
)
PARTICIPLES = word_set(
    "directed written produced starring released located founded based named known featuring "
    "played born published built owned composed created designed performed recorded established "
    "headquartered hosted portrayed edited developed invented called titled situated "
    "containing depicting"
)
_VERBS = word_set(
    "won quit made took came went got gave became began ran wrote sang led left sold held found "
    "said says lost met saw knew grew fell fought built bought brought taught caught thought sent "
    "spent kept stood understood told wore drove rose broke spoke chose drew flew threw hit cut "
    "put set read beat let hurt cost sat lay paid heard shot dealt died plays lives contains "
    "includes causes increases reduces decreases leads shows inhibits promotes regulates requires "
    "affects improves induces produces prevents targets works stars features follows remains "
    "becomes makes takes gives holds serves belongs consists refers comes goes runs lies appears "
    "begins ends receives provides allows helps offers uses outperforms achieves performs "
    "demonstrates enhances impairs activates suppresses mediates binds encodes interacts "
    "correlates results depends differs shares owns operates covers play share star contain "
    "include outperform achieve perform live work lead have show"
)
_NO_NOUN = PREPOSITIONS - {"of"} | {"and", "but"} | AUXILIARIES
_SHORTEST_PAST = 5


def is_finite(words: Sequence[str], position: int) -> bool:
    """Whether the word at ``position`` reads as a finite verb of a statement."""
    word = words[position].strip(",;:")
    if word in AUXILIARIES or word in _VERBS:
        return position > 0 and words[position - 1].lower() not in {"the", "a", "an", "to"}
    before = words[position - 1].lower() if position else ""
    return (
        word.endswith("ed")
        and word.islower()
        and len(word) >= _SHORTEST_PAST
        and not (word in PARTICIPLES and words[position + 1 : position + 2] == ["by"])
        and not before.endswith("ly")
        and before not in DETERMINERS | PREPOSITIONS | AUXILIARIES | {"and", "or", ""}
    )


def first_finite(words: Sequence[str], start: int = 1, end: int | None = None) -> int | None:
    """Index of the first finite verb in ``words[start:end]``; None where there is none."""
    stop = len(words) if end is None else min(end, len(words))
    return next((at for at in range(start, stop) if is_finite(words, at)), None)


def starts_with_verb(words: Sequence[str]) -> bool:
    """Whether a phrase goes on as a verb phrase without a subject of its own."""
    if not words:
        return False
    at = 1 if words[0] in {"also", "then", "later", "not", "never", "only"} and words[1:] else 0
    word = words[at].strip(",")
    past = word.endswith("ed") and word.islower() and len(word) >= _SHORTEST_PAST
    return word in AUXILIARIES or word in _VERBS or past


def noun_phrase_start(words: Sequence[str], end: int) -> int:
    """Where the noun phrase that ends before ``end`` begins."""
    at = end - 1
    while at > 0:
        before = words[at - 1]
        if before.endswith((",", ";", ":")) or before.lower() in _NO_NOUN:
            break
        if is_finite(words, at - 1):
            break
        at -= 1
        if words[at].lower() in DETERMINERS:
            break
    return at


def has_detail(text: str) -> bool:
    """Whether a phrase holds a number or a capitalised word after its first word."""
    return bool(re.search(r"\d", text) or re.search(r"\s[\"“(]?[A-Z]", " " + text))


_BETWEEN = re.compile(
    r"^(?P<np>[^,]{2,80}), (?P<mark>who|which|whose|a|an|the) (?P<body>.+?), (?P<rest>.+)$"
)
_TRAILING = re.compile(r"^(?P<main>.+?), (?P<mark>who|which|whose|where) (?P<body>.+)$")
_JOIN = re.compile(r",? (?:and|but|yet|while|whereas|although|though|however)(?: also| then)? |; ")
_RELATIVE = re.compile(r" (?P<mark>that|who|which) (?P<body>.+)$")
_SAYING = word_set(
    "say says said show shows showed state states stated claim claims claimed believe believes "
    "find finds found suggest suggests suggested clear evident likely so such note observe argue "
    "hypothesize indicate indicates demonstrate demonstrates report reports reported fact aware "
    "unaware sure certain confident"
)
_TIME = (
    r"(?:in|on|since|until|by|during|before|after|from|around) (?:the )?(?:[\w,]+ ){0,2}\d{3,4}s?"
)
_NAME = r"[A-Z][\w'’.-]*(?:,? (?:(?:of|the|de|and) )?[A-Z][\w'’.-]*)*"
_PLACE = rf"(?:in|at|near|alongside|against) (?:the )?(?:\w+ )?{_NAME}"
_RANK = (
    r"(?:at|with|for|by|over|under|about) (?:number |over |about |more than |less than )?"
    r"[$€£]?\d[\d.,]*%?(?: \w+)?"
)
_ADJUNCT = re.compile(rf",? \b(?:{_TIME}|{_PLACE}|{_RANK})(?=[ ,.]|$)")
_TOGETHER = re.compile(
    r"\b(?:same|both|between|together|different|each other|compared|neither|combin\w+|than)\b"
)
_LIST = re.compile(
    r"(?P<items>(?:[^\s,]+(?: [^\s,]+){0,3}, )+)?(?P<one>[^\s,]+(?: [^\s,]+){0,3}),? "
    r"(?:and|or|as well as) (?P<two>[^\s,]+(?: [^\s,]+){0,3})$"
)
_CONTEXT = re.compile(
    r"^(?P<base>.+) (?P<link>in|among|amongst|during|via|through|after|following|within|without"
    r"|when|if|under|because of|due to) (?P<rest>[^,]*[a-z][^,]*)$"
)
_BEFORE_PARTICIPLE = word_set("and not been also first")
LONGEST = 200
_SHORT, _UNEVEN = 3, 2


def checks_of(sentence: str, *, asking: bool = False) -> list[str]:
    """Statements of one fact each, in order; a question is only cut at its lists.

    A sentence of more than ``LONGEST`` words is left whole: it is none, and cutting it costs
    time that grows with its square.
    """
    if len(sentence.split()) > LONGEST:
        return [sentence]
    if asking:
        return _each(_lists(sentence), _context)
    pieces = [sentence]
    for split in (_inserted, _conjoined, _trailing, _conjoined, _restrictive, _participle):
        pieces = _each(pieces, split)
    return _each(_each(_each(pieces, _adjuncts), _lists), _context)


def _each(pieces: list[str], split: Callable[[str], list[str]]) -> list[str]:
    return [one for piece in pieces for one in ([piece] if piece.endswith("?") else split(piece))]


def _inserted(text: str) -> list[str]:
    """``X, who was B, did C`` and ``X, a B, did C``."""
    found = _BETWEEN.match(text)
    if found is None or not starts_with_verb(found["rest"].split()):
        return [text]
    np, mark, body = found["np"], found["mark"], found["body"]
    if len(np.split()) > 8 or first_finite(np.split()):  # noqa: PLR2004 - longer is no noun phrase
        return [text]
    links = {"who": "", "which": "", "whose": "'s"}
    extra = f"{np}{links[mark]} {body}" if mark in links else f"{np} is {mark} {body}"
    return [extra, f"{np} {found['rest']}"]


def _conjoined(text: str) -> list[str]:
    """``X did A and did B``, ``X did A, but Y did B``; the subject is carried over."""
    for join in _JOIN.finditer(text):
        left, right = text[: join.start()], text[join.end() :]
        words = right.split()
        before = left.split()
        verb = first_finite(before)
        if verb is None or not words:
            continue
        if starts_with_verb(words):
            return [left, *_conjoined(f"{' '.join(before[:verb])} {right}")]
        if words[0].lower() in {"he", "she", "it", "they"} and len(words) > 1:
            return [left, *_conjoined(f"{' '.join(before[:verb])} {' '.join(words[1:])}")]
        own = first_finite(words, 1, 7)
        if own is not None:
            return [left, *_conjoined(right)]
    return [text]


def _trailing(text: str) -> list[str]:
    """``… of Y, who did B``: one statement about X, one about the noun before the comma."""
    found = _TRAILING.match(text)
    if found is None:
        return [text]
    words = found["main"].split()
    noun = " ".join(words[noun_phrase_start(words, len(words)) :])
    body, mark = found["body"].split(", "), found["mark"]
    if mark == "where":
        return [found["main"], f"{body[0]} at {noun}"]
    link = "'s" if mark == "whose" else ""
    return [found["main"], f"{noun}{link} {', '.join(body)}"]


def _restrictive(text: str) -> list[str]:
    """``the B that did C is D``: asks that such a B exists, and the whole."""
    found = _RELATIVE.search(text)
    if found is None:
        return [text]
    before = text[: found.start()].split()
    if not before or before[-1].lower().strip(",") in _SAYING | AUXILIARIES:
        return [text]
    noun = before[noun_phrase_start(before, len(before)) :]
    body = found["body"].split()
    own = 0 if starts_with_verb(body) else first_finite(body) or 0
    following = first_finite(body, own + 2)
    clause = " ".join(body[: following or len(body)]).split(", ")[0].rstrip(",")
    if len(clause.split()) < 2 or noun[0].lower() not in DETERMINERS:  # noqa: PLR2004 - a verb and a word
        return [text]
    return [_exists(noun, f"{found['mark']} {clause}"), text]


def _participle(text: str) -> list[str]:
    """``X is a B directed by Y``: one statement for B, one for the participle."""
    words = text.split()
    verb = first_finite(words)
    for at, word in enumerate(words):
        if word not in PARTICIPLES or not 0 < at < len(words) - 1:
            continue
        if words[at - 1].lower().strip(",") in AUXILIARIES | _BEFORE_PARTICIPLE:
            continue
        if verb and verb < at and words[verb] in {"is", "was", "are", "were"}:
            subject, link = " ".join(words[:verb]), words[verb]
            tail = " ".join(words[at:])
            rest = (
                f"{subject} stars {tail[9:]}" if word == "starring" else f"{subject} {link} {tail}"
            )
            return [" ".join(words[:at]).rstrip(","), rest]
        noun = words[noun_phrase_start(words, at) : at]
        following = first_finite(words, at + 1)
        if noun and noun[0].lower() in DETERMINERS:
            return [_exists(noun, " ".join(words[at : following or len(words)])), text]
    return [text]


def _exists(noun: list[str], clause: str) -> str:
    """The question whether there is a B that did C."""
    kept = noun[1:] if noun[0].lower() in DETERMINERS else noun
    name = " ".join(kept).strip(",")
    clause = clause.strip(" ,.")
    if len(noun) == len(kept) and name[:1].isupper():
        return f"Is there {name} {clause}?"
    article = "an" if name[:1].lower() in "aeiou" else "a"
    return f"Is there {article} {name} {clause}?"


def _adjuncts(text: str) -> list[str]:
    """One statement per adjunct of time, place or rank, where more than one fact is left."""
    verb = first_finite(text.split())
    if verb is None:
        return [text]
    start = len(" ".join(text.split()[: verb + 1]))
    found = [m for m in _ADJUNCT.finditer(text) if m.start() >= start]
    if not found:
        return [text]
    base = text[: found[0].start()].rstrip(" ,")
    ends = [*(m.start() for m in found[1:]), len(text)]
    parts = [
        f"{base} {text[m.start() : end].strip(' ,')}" for m, end in zip(found, ends, strict=True)
    ]
    rest = base[start:].strip()
    if has_detail(rest) and len(rest.split()) >= _SHORT:
        return [base, *parts]
    return parts if len(parts) > 1 else [text]


def _context(text: str) -> list[str]:
    """``X does A in lower-case circumstances``: the statement without and with them."""
    found = _CONTEXT.match(text)
    if found is None or _TOGETHER.search(text) or has_detail(found["rest"]):
        return [text]
    words = found["base"].split()
    verb = 0 if words[0].lower() in AUXILIARIES else first_finite(words)
    least = 2 * _SHORT if verb == 0 else _SHORT
    if verb is None or len(words) - verb - 1 < least or words[-1].lower() in {"not", "and", "or"}:
        return [text]
    return [found["base"].rstrip(","), text]


def _lists(text: str) -> list[str]:
    """``X did A, B and C``: one statement per item of a list that ends the statement."""
    if _TOGETHER.search(text):
        return [text]
    words = text.split()
    verb = 0 if words[0].lower() in AUXILIARIES else first_finite(words)
    if verb is None:
        return [text]
    head, tail = " ".join(words[: verb + 1]), " ".join(words[verb + 1 :])
    found = _LIST.search(tail)
    if found is None:
        return [text]
    items = [item for item in (found["items"] or "").split(", ") if item]
    every = [*items, str(found["one"]), str(found["two"])]
    lead, first = _lead(every[0], every[-1])
    if len(every[-1].split()) - len(first.split()) >= _UNEVEN:
        return [text]  # "head and neck reconstruction": the items share their last words
    stem = f"{head} {tail[: found.start()]}{lead}".strip()
    return [f"{stem} {item}" for item in (first, *every[1:])]


def _lead(first: str, last: str) -> tuple[str, str]:
    """Split ``directed by A`` into what all items share and the first item.

    The shared part ends at the last preposition, or before a determiner that the last item
    has too; otherwise the first item is as long as the last one.
    """
    words, width = first.split(), len(last.split())
    for at in range(len(words) - 1, -1, -1):
        low = words[at].lower()
        if low in DETERMINERS and last.partition(" ")[0].lower() in DETERMINERS:
            return " ".join(words[:at]) + " " if at else "", " ".join(words[at:])
        if low in PREPOSITIONS and at + 1 < len(words):
            return " ".join(words[: at + 1]) + " ", " ".join(words[at + 1 :])
    cut = max(len(words) - width, 0)
    return (" ".join(words[:cut]) + " " if cut else ""), " ".join(words[cut:])
