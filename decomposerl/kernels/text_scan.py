"""Sentences, words and the lexical overlap of a claim with its evidence.

Written for English prose and table rows; other scripts are read as Unicode words, those without
spaces by ``unspaced``. These functions are the definitions; ``evidence_scan`` computes the same
numbers for many rows in one compiled pass.
"""

import re

from decomposerl.kernels.code_points import CLOSERS, OPENINGS, QUOTES, TERMINATORS
from decomposerl.kernels.unspaced import cut_unspaced, words_between
from decomposerl.normal_form import normalised

# A run of marks is tried once, from its first mark: from each of them it takes quadratic time.
_MARK = f"[{TERMINATORS}]"
_TERMINATOR = re.compile(rf"(?<!{_MARK}){_MARK}++[{re.escape(CLOSERS)}]*+\s++(?=\S)")
_WORD = re.compile(r"\w+(?:['’]\w+)*")
_NON_WORD = re.compile(r"\W+")
_DOTTED = re.compile(r"(?:[^\W\d_]\.-?)*[^\W\d_]\Z")
_OPENING = re.compile(r"\W*+(?:\d++|[^\W\d_])?")

_ALWAYS_SHORT_TEXT = """
mr mrs ms mx dr prof st jr sr messrs mme mlle gen col lt sgt capt cmdr adm maj rep sen gov pres
hon rev fr supt det insp vs etc cf al viz approx est dept univ inc ltd co corp bros mt ft ste ave
blvd rd jan feb mar apr jun jul aug sep sept oct nov dec ph.d phd m.d b.a m.a
"""
_SHORT_BEFORE_DIGIT_TEXT = """
no nos fl fig figs eq eqs p pp vol vols ch sec art ca c ed eds ref refs tab
"""
_STOP_TEXT = """
a an the this that these those it its he him his she her hers they them their theirs we us our
ours you your yours i me my mine who whom whose which what when where why how there here is are
was were be been being am do does did doing done has have had having will would shall should can
could may might must of in on at by for from to into onto with within without about as and or
but if than then so such also too very just both each any all some more most over under up down
out off again during between among through after before since until while because against
himself herself itself themselves own same other another
"""
ALWAYS_SHORT = frozenset(_ALWAYS_SHORT_TEXT.split())
SHORT_BEFORE_DIGIT = frozenset(_SHORT_BEFORE_DIGIT_TEXT.split())
FUNCTION_WORDS = frozenset(_STOP_TEXT.split())


def sentences(text: str) -> list[str]:
    """Sentences of ``text`` in order, trimmed, none empty.

    A sentence ends at ``.``, ``!``, ``?`` or ``…`` (with closing quotes and brackets)
    before white space and an upper-case letter, a digit or an opening quote, and always at
    a line break. It does not end after an abbreviation (Mr., U.S., e.g.), an initial, or a
    list marker that opens it. So an abbreviation at the end of a sentence joins it to the
    next: the count can be too low, never too high. Only white space is lost.
    """
    parts: list[str] = []
    for line in text.splitlines():
        start = marker = 0
        for match in _TERMINATOR.finditer(line):
            if start >= marker and (opening := _OPENING.match(line, start)):
                marker = opening.end()
            if _ends_sentence(line, start, match, marker):
                parts.append(line[start : match.end()].strip())
                start = match.end()
        if rest := line[start:].strip():
            parts.append(rest)
    return parts if text.isascii() else list(cut_unspaced(parts))


def _ends_sentence(line: str, start: int, match: re.Match[str], marker: int) -> bool:
    following = line[match.end() : match.end() + 2]
    # Two characters are enough: one opening quote or bracket, then the first letter.
    first = following.lstrip(OPENINGS)[:1]
    if not (first.isupper() or first.isdigit() or following[0] in QUOTES):
        return False
    if match.group().rstrip() != ".":  # abbreviations end in one full stop, without a closing quote
        return True
    if match.start() == marker:
        return False
    token = _last_token(line, start, match.start()).lstrip(OPENINGS)
    if _DOTTED.match(token) or token.lower() in ALWAYS_SHORT:
        return False
    return not (first.isdigit() and token.lower() in SHORT_BEFORE_DIGIT)


def _last_token(line: str, start: int, end: int, reach: int = 64) -> str:
    """The last white-space separated token of ``line[start:end]``; empty where there is none."""
    # Mostly a short look back decides; it doubles, so that the time is that of the token's length.
    tokens = line[max(start, end - reach) : end].split()
    if len(tokens) < 2 and reach < end - start:  # noqa: PLR2004 - the first may be cut off
        return _last_token(line, start, end, 2 * reach)
    return tokens[-1] if tokens else ""


def words(text: str) -> list[str]:
    """Lower-cased words of ``text`` in order: runs of Unicode word characters.

    An apostrophe inside a word stays (``don't``, ``o'neill``) and is written straight; a
    possessive ``'s`` goes. Composed and decomposed accents give the same word.
    """
    plain = composed(text).replace("’", "'").lower()
    return [word.removesuffix("'s") for word in words_between(plain, _WORD)]


def content_words(text: str) -> frozenset[str]:
    """The distinct words of ``text`` without function words.

    Negations count as content: a claim that denies its evidence is no copy of it.
    """
    return frozenset(words(text)) - FUNCTION_WORDS


def best_overlap(claim: str, evidence: str, *, table: bool = False) -> float:
    """Share of the claim's content words inside its best single evidence sentence, 0..1.

    Lines of a table are its sentences (paper, "Rule-Based Filtering"). A claim without
    content words scores 0: it copies nothing, and the entity rule decides about it.
    """
    wanted = content_words(claim)
    units = evidence_units(evidence, table=table)
    best = max((len(wanted.intersection(words(unit))) for unit in units), default=0)
    return best / len(wanted) if wanted else 0.0


def evidence_units(evidence: str, *, table: bool) -> list[str]:
    """The sentences of ``evidence``, accents composed, or the non-empty lines of a table."""
    if table:
        return [line for line in evidence.splitlines() if line.strip()]
    return sentences(composed(evidence))


def composed(text: str) -> str:
    """``text`` with accents and their letters as one character where there is one."""
    return text if text.isascii() else normalised("NFC", text)


def normalise_claim(text: str) -> str:
    """``text`` for exact comparison: NFKC, case folded, non-word runs as one space, trimmed.

    Normalising twice changes nothing. Two texts without any word character are equal.
    """
    # Folding can undo the normal form (ΐ, for example), so the form is restored afterwards.
    folded = normalised("NFKC", normalised("NFKC", text).casefold())
    return _NON_WORD.sub(" ", folded).strip()
