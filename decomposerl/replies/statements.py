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

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from decomposerl.replies.languages import in_english
from decomposerl.replies.lines import SIGNS, bare, one_line
from decomposerl.replies.wordings import Wordings

Truth = Literal["true", "false", "unknown"]
Kind = Literal["final", "label", "sentence", "word"]
_FORMS = Wordings("statements")
_LONGEST_LINE = 2_000  # of a line that can state a verdict; patterns stay linear below it
_LONGEST_LABEL = 60
_OWN_NAMES = ("claim", "statement")
"""Labels that the prompts use for the claim itself: only a bare verdict behind them is one."""


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
    label = _FORMS["label"].fullmatch(_plain(line)) if len(line) < _LONGEST_LABEL else None
    return label is not None and not bare(label["rest"])


def _plain(line: str) -> str:
    """A line in lower case and single spaces, without bullet, signs, or JSON and math around it."""
    text = SIGNS.sub("", line.strip()).replace("$", "").replace("\\text{", "{").replace("{{", "{")
    text = _FORMS["bullet"].sub("", one_line(text)).strip("*_` ").lower().replace("’", "'")
    text = in_english(_FORMS["choice"].sub("", text.replace("}}", "}")))
    named = _FORMS["named_truth"].fullmatch(text)  # "supported: false"
    if named is not None:
        holds = bool(named["false"]) is bool(named["no"])
        text = f"verdict: {'supported' if holds else 'refuted'}{named['rest']}"
    return text


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
    weak = step or alone
    concluded = _concluded(text, weak=weak)
    if _FORMS["part"].match(text) and not (step and text.startswith("answer")):
        return Statement("label", concluded[0], number) if alone and concluded else None
    kind, rest = _labelled(text, weak=weak)
    if kind == "part":
        return None
    if concluded is not None:
        opens = _FORMS["word"].match(_unwrapped(rest))
        other = "true" if concluded[0] == "false" else "false"
        # "Supported, so the claim is Refuted"
        denied = opens and opens[other] and _FORMS["reason"].match(opens["rest"])
        return None if denied else Statement(kind or concluded[1], concluded[0], number)
    if not kind and _FORMS["single"].fullmatch(text):
        kind = "final"
    opening = None if kind else _FORMS["opening"].match(text)
    if opening:
        rest = opening["rest"]
    read = _word(_unwrapped(rest), weak=weak or bool(kind), step=step)
    if read is None and step and (last := _FORMS["last_word"].search(rest)):
        read = _word(last["word"], weak=True)
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
    while (label := _FORMS["label"].fullmatch(text)) is not None and label["is"]:
        final = label["final"] or label["whole"] or label["name"] == "conclusion"
        if label["part"]:
            return "part", label["rest"]
        named = label["name"]
        a_step = named in _OWN_NAMES or (named == "answer" and not (final or kind or weak))
        if a_step and not _is_verdict(label["rest"], alone=named in _OWN_NAMES):
            return ("", text) if named in _OWN_NAMES else ("part", label["rest"])
        kind = "final" if final or kind == "final" else "label"
        text = label["rest"]
    return kind, text


def _is_verdict(text: str, *, alone: bool) -> bool:
    """Whether a text opens with Supported or Refuted; ``alone``: and holds nothing else."""
    read = _word(_unwrapped(text), weak=False)
    return read is not None and read[0] != "unknown" and not (alone and read[1])


def _concluded(text: str, *, weak: bool) -> tuple[Truth, Literal["final", "label"]] | None:
    """What the end of a line concludes: behind an arrow, or behind "so" and the like."""
    *before, last = _FORMS["arrow"].split(text)
    if before:
        kind, rest = _labelled(last, weak=weak)
        read = _word(_unwrapped(rest), weak=weak or bool(kind)) if kind != "part" else None
        return None if read is None else (read[0], "final" if kind == "final" else "label")
    for form in (_FORMS["so"], _FORMS["chosen"]):
        found = form.search(text)
        read = _word(_unwrapped(found["rest"]), weak=weak) if found else None
        if read is not None and (form is _FORMS["chosen"] or not read[1]):
            return read[0], "final"
    return None


def _word(text: str, *, weak: bool, step: bool = False) -> tuple[Truth, str] | None:
    """The truth that a text opens with, and its reason; None for a hedge or anything else."""
    words = _FORMS["word"].match(text.strip("*_`\"' <>"))
    if words is None or (not weak and (words["yes"] or words["no"])):
        return None
    truth: Truth = "unknown" if words["unknown"] else "true"
    if words["false"] or words["no"]:
        truth = "false"
    rest = words["rest"].lstrip("*_`\"'” <>")
    reason = rest.strip("*_`\"'”.,;:()–—- ")
    if reason and not _FORMS["reason"].match(rest):
        return None
    hedged = _FORMS["hedged"].match if step else _FORMS["taken_back"].search
    if (truth == "true" and hedged(_FORMS["not_taken_back"].sub("", reason))) or (
        truth == "false" and _FORMS["denied"].search(reason)
    ):
        return None
    return truth, reason


def _sentence(text: str) -> tuple[Truth, bool] | None:
    """What the sentences of a line state about the claim, and whether as the conclusion.

    None where they state nothing, or disagree.
    """
    read: set[tuple[Truth, bool]] = set()
    for sentence in _FORMS["stop"].split(text):
        verb, claim = _FORMS["verb"].search(sentence), _FORMS["sentence"].search(sentence)
        match = verb or claim
        if match is None or _under_condition(sentence[: match.start()]):
            continue
        whole = bool(_FORMS["whole"].search(match[0]) or _FORMS["since"].match(sentence))
        if claim is not None:
            word = _word(claim["word"], weak=True)
            if claim["no"]:  # "No part of the claim is supported."
                word = ("false", "") if word and word[0] == "true" else None
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
    clause = _FORMS["clause"].split(before)[-1]
    return bool(_FORMS["condition"].search(before) or _FORMS["negation"].search(clause))
