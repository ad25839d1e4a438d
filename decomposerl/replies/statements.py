r"""What one line of a reply says of the claim, in whatever form models say it.

======== ============================================================================
final    ``Final verdict: Refuted``, ``Overall, the claim is Refuted``, ``[Refuted]``,
         ``Since part 1 fails, the whole claim is Refuted.``, ``So the final answer is Refuted``
label    ``Verdict: Refuted``; the word may stand on the next line
sentence ``The claim is Refuted because …``, ``The evidence supports the claim.``
word     ``Refuted``, ``Refuted (a reason)``, ``Refuted. A reason.``
======== ============================================================================

"Not supported" is Refuted. A hedge ("Supported, mostly", "Supported or Refuted", "if the claim is
Supported") is no statement, nor is the verdict of a part ("Verdict 1: …", "Sub-claim 2: …",
``A1: …``). "Cannot be determined" is a statement without a verdict.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from decomposerl.replies.lines import bare, one_line

Truth = Literal["true", "false", "unknown"]
Kind = Literal["final", "label", "sentence", "word"]
_LONGEST_LINE = 2_000  # of a line that can state a verdict; patterns stay linear below it
_LONGEST_LABEL = 60
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
_WORD = re.compile(
    rf"{_HOW}(?:(?P<false>{_FALSE})|(?P<true>{_TRUE})|(?P<unknown>{_UNKNOWN})"
    rf"|(?P<yes>yes|true|correct)|(?P<no>no|false|incorrect|not\strue))(?![\w'-])(?P<rest>.*)"
)
_REASON = re.compile(
    r"\s*(?:[.,;:!)(—–]|-\s|\b(?:because|since|as|by|based|according|given|due|for|from|in\sview"
    r"|in\slight|on\sthe|per|under|with)\b)"
)
# Behind Supported these take it back, or state the other label as well.
_TAKEN_BACK = re.compile(
    r"\b(?:but|however|except|although|though|mostly|partly|partially|largely|in\spart|or|if|unless"
    r"|refuted|unsupported|contradict(?:s|ed|ing)?|not\s(?:supported|borne)|nevertheless|yet"
    r"|verdict|unknown|apart\sfrom|only\sin|not\sfully|not\sentirely|not\sall)\b"
)
_HEDGED = re.compile(
    r"\W*(?:but|mostly|partly|partially|largely|in\spart|or|if|unless|only|except|to\ssome)\b"
)
_DENIED = re.compile(
    r"\A\W*(?:or|if|unless|only\sif|partly|partially|in\spart|mostly|to\ssome)\b|\bverdict\s?:"
    r"|\bclaim\sis\ssupported\b|\A\W*supported\b"
)
_BULLET = re.compile(r"\A(?:[-*•–—]|\(?\d{1,2}[.)])\s+")
_PART = re.compile(
    r"\A(?:(?:sub-?claim|part|step|predicate|fact|statement|question|answer|claim|verdict|[qap])"
    r"\s?#?\(?\d{1,2}|(?:sub-?claim|sub-?question|question|q|a|follow[-\s]?up"
    r"|intermediate\sanswer|conjunction|sure)\s?\)?\s?[:.])"
)
_LABEL = re.compile(
    r"(?:(?:so|thus|therefore|hence|and|in\sconclusion|overall)?,?\s?(?:the|my|our)?\s?)"
    r"(?P<final>final|overall|concluding|ultimate|combined)?\s?"
    r"(?P<name>verdict|answer|conclusion|label|decision|judge?ment|assessment|result"
    r"|classification|verification|prediction|rating)"
    r"(?P<whole>\s(?:on|for|about|of)\s(?:the\s)?(?:whole|entire|overall)?\s?(?:claim|statement))?"
    r"(?P<part>\s?\(?(?:(?:on|for|of|about)\s)?(?:(?:the\s)?(?:first|second|third|fourth|fifth|last)"
    r"\s)?(?:sub-?claim|part|predicate|statement|step|question)\b[^:]{0,20})?"
    r"\s?(?P<is>:|=|\s[-–—]\s|[-–—]\s|\sis\b(?:\sthat\b)?:?|\Z)\s?(?P<rest>.*)"
)
_OPENING = re.compile(
    r"\A(?:so|thus|therefore|hence|overall|in\s(?:conclusion|summary|short|sum)|to\s(?:conclude|sum"
    r"\sup)|conclusion|finally|final|consequently|accordingly|result)\s?[,:—–-]*\s(?P<rest>.*)"
)
_CLAIM = (
    r"(?:the|this)\s(?:(?:whole|entire|full|complete|overall|original|given|above|combined)\s)?"
    r"(?:claim|statement)(?:\s(?:as\sa\swhole|overall|itself|above|in\sfull|in\sits\sentirety))?"
)
_SENTENCE = re.compile(
    rf"{_CLAIM}\s(?:is|are|was|must\sbe|has\sto\sbe|can\sbe|should\sbe|stands|counts\sas)\s"
    r"(?:therefore\s|thus\s|hence\s|then\s|so\s)?(?P<word>.*)"
)
_SOURCE = (
    r"(?:evidence|documents?|passages?|texts?|findings?|facts?|answers?|context|article|source"
    r"|information|abstract|all\sof\sthis|this|these|they)"
)
_VERB = re.compile(
    rf"\b{_SOURCE}\s(?:(?P<not>do(?:es)?(?:\snot|n't)|fails?\sto|cannot)\s)?(?:\w+ly\s)?"
    rf"(?:(?P<true>supports?|bears?\sout|confirms?)|(?P<false>refutes?|contradicts?|disproves?))"
    rf"\s{_CLAIM}(?!'s)(?P<rest>.*)"
)
_CONDITION = re.compile(
    r"\b(?:if|whether|unless|when|whenever|either|suppose|assuming|would|could|might|may|should"
    r"|parts?\sof|some\sof|half\sof)\b"
)
_NEGATION = re.compile(r"\b(?:not|cannot|never|no|nothing|say|says|reply|claims)\b|n't\b")
_CLAUSE = re.compile(r"[,;:]|\b(?:and|so|therefore|thus|hence|which\smeans(?:\sthat)?)\b")
_WHOLE = re.compile(r"\b(?:whole|entire|overall|combined|full|complete|entirety)\b")
_SINCE = re.compile(r"(?:since|because|as)\b[^,]*,\s(?:so\s|then\s)?(?:the|this)\b")
_STOP = re.compile(r"(?<=[.!?])\s+")
_FIELD = re.compile(r'\{?\s*"(\w{1,20})"\s*:\s*"([^"]*)"\s*,?\s*\}?')
_SINGLE = re.compile(r"\[[^\[\]]*\]\W*|\\boxed\{[^{}]*\}\W*")


@dataclass(frozen=True, slots=True)
class Statement:
    """What one line says of the whole claim. ``line`` counts the reply's lines from 0."""

    kind: Kind
    truth: Truth
    line: int
    reason: str = ""


def joined(lines: Iterable[str]) -> list[str]:
    """Lines, each label without a word joined with the line after it."""
    whole: list[str] = []
    open_label = False
    for line in lines:
        if open_label and not _is_label(line):
            whole[-1] = f"{whole[-1].rstrip(':').rstrip()}: {line}"
            open_label = False
        else:
            whole.append(line)
            open_label = _is_label(line)
    return whole


def _is_label(line: str) -> bool:
    """Whether a line is a label and nothing else."""
    label = _LABEL.fullmatch(_plain(line)) if len(line) < _LONGEST_LABEL else None
    return label is not None and not bare(label["rest"])


def _plain(line: str) -> str:
    """A line in lower case and single spaces, without a bullet or a field's JSON around it."""
    field = _FIELD.fullmatch(line.strip())
    text = f"{field[1]}: {field[2]}" if field else line
    return _BULLET.sub("", one_line(text)).strip("*_` ").lower().replace("’", "'")


def statements(lines: Sequence[str], *, step: bool) -> Iterator[Statement]:
    """The statements of a reply's lines, in order. ``step``: a yes or no is one, too."""
    alone = len(lines) == 1
    for number, line in enumerate(lines):
        if len(line) <= _LONGEST_LINE:
            statement = _statement(_plain(line), number, step=step, alone=alone)
            if statement is not None:
                yield statement


def _statement(text: str, number: int, *, step: bool, alone: bool) -> Statement | None:
    """The statement of one line; in a ``step``, or ``alone``, a yes or no is one."""
    if _PART.match(text) and not (step and text.startswith("answer")):
        return None
    kind, rest = _labelled(text, weak=step or alone)
    if kind == "part":
        return None
    if not kind and _SINGLE.fullmatch(text):
        kind = "final"
    opening = None if kind else _OPENING.match(text)
    if opening:
        rest = opening["rest"]
    read = _word(_unwrapped(rest), weak=step or alone or bool(kind), step=step)
    if read is not None:
        return Statement(kind or ("final" if opening else "word"), read[0], number, read[1])
    sentence = _sentence(rest)
    if sentence is None:
        return None
    truth, whole = sentence
    return Statement(kind or ("final" if opening or whole else "sentence"), truth, number)


def _unwrapped(text: str) -> str:
    """A short text without the brackets, tags or quotes around all of it; a longer one as it is."""
    return bare(text) if len(text) < _LONGEST_LABEL else text


def _labelled(text: str, *, weak: bool) -> tuple[Literal["final", "label", "part", ""], str]:
    """The kind of a line's labels, empty where there is none, and the words behind them."""
    kind: Literal["final", "label", "part", ""] = ""
    while (label := _LABEL.fullmatch(text)) is not None and label["is"]:
        final = label["final"] or label["whole"] or label["name"] == "conclusion"
        if label["part"]:
            return "part", label["rest"]
        a_step = label["name"] == "answer" and not (final or kind or weak)
        if a_step and _word(_unwrapped(label["rest"]), weak=False) is None:
            return "part", label["rest"]
        kind = "final" if final or kind == "final" else "label"
        text = label["rest"]
    return kind, text


def _word(text: str, *, weak: bool, step: bool = False) -> tuple[Truth, str] | None:
    """The truth that a text opens with, and its reason; None for a hedge or anything else."""
    words = _WORD.match(text.strip("*_`\"' "))
    if words is None or (not weak and (words["yes"] or words["no"])):
        return None
    truth: Truth = "unknown" if words["unknown"] else "true"
    if words["false"] or words["no"]:
        truth = "false"
    rest = words["rest"].lstrip("*_`\"'”")
    reason = rest.strip("*_`\"'”.,;:()–— ")
    if reason and not _REASON.match(rest):
        return None
    hedged = _HEDGED.match if step else _TAKEN_BACK.search
    if (truth == "true" and hedged(reason)) or (truth == "false" and _DENIED.search(reason)):
        return None
    return truth, reason


def _sentence(text: str) -> tuple[Truth, bool] | None:
    """What the sentences of a line state about the claim, and whether as the conclusion.

    None where they state nothing, or disagree.
    """
    read: set[tuple[Truth, bool]] = set()
    for sentence in _STOP.split(text):
        verb, claim = _VERB.search(sentence), _SENTENCE.search(sentence)
        match = verb or claim
        if match is None or _under_condition(sentence[: match.start()]):
            continue
        whole = bool(_WHOLE.search(match[0]) or _SINCE.match(sentence))
        if claim is not None:
            word = _word(claim["word"], weak=True)
        else:
            word = _word(f"supported{match['rest']}", weak=True)
            if match["false"] or match["not"]:
                both = match["false"] and match["not"]
                word = None if both else ("false", "")
        if word is not None:
            read.add((word[0], whole))
    if len({truth for truth, _ in read}) != 1:
        return None
    return next(iter(read))[0], any(whole for _, whole in read)


def _under_condition(before: str) -> bool:
    """Whether the words before a statement make it a condition, a question or its denial."""
    clause = _CLAUSE.split(before)[-1]
    return bool(_CONDITION.search(before) or _NEGATION.search(clause))
