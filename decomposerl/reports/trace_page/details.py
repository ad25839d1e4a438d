"""One trace as the JSON object that the page shows; offsets count UTF-16 code units.

Takes a ``TraceItem``, gives its ``Detail`` and what the list needs of it. The keys are read by
``static/app.js``.
"""

import json
import math
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from decomposerl.replies.rulings import CRITERIA
from decomposerl.reports.shown_confidence import VerdictConfidence
from decomposerl.reports.trace_page.items import (
    FINDINGS,
    RANGES,
    ShownReward,
    ShownRuling,
    TraceItem,
)
from decomposerl.traces.grounding import GroundedAnswer, Span, grounded_answer, sentence_spans
from decomposerl.traces.table_cells import table_cells

_WITHOUT = {"NotEnoughInfo": "Not enough information"}
_RULING = ("task", "role", "question", "value", "failure", "engine", "prompt", "reply")
_CONFIDENCE = ("raw", "normalised", "calibrated", "meaning")
_BEYOND_PLANE = "\uffff"
MOST_JUDGE_TEXT = 40_000
"""Characters of the judge's prompts and replies of one trace that a page holds."""


Grounded = Sequence[GroundedAnswer]
"""What was found of each answer of a trace."""


def grounded_answers(item: TraceItem) -> Grounded:
    """The answers of a trace read against its evidence."""
    return [grounded_answer(cycle.question, cycle.answer, item.evidence) for cycle in item.cycles]


def evidence_json(evidence: str) -> dict[str, Any]:
    """A text with the offsets of its sentences."""
    at = utf16(evidence)
    return {"text": evidence, "sentences": [_moved(one, at) for one in sentence_spans(evidence)]}


def detail_json(item: TraceItem, answers: Grounded, evidence: int) -> dict[str, Any]:
    """The page's object for a trace; ``evidence`` is the position of its text in the block."""
    origin, judged = item.origin, item.judged
    return {
        "evidence": evidence,
        "opening": item.opening,
        "closing": "",
        "reply": item.reply,
        "cycles": list(_cycles(item, answers)),
        "basis": item.basis,
        "confidence": _confidence(item.confidence),
        "rewards": [_reward(one) for one in judged.rewards],
        "judge": judge_json(judged.rulings),
        "faults": list(item.faults),
        "warnings": list(item.warnings),
        "notes": item.notes,
        "prompt_hash": origin.prompt_hash,
        "seed": origin.seed,
        "method": origin.method,
        "model": origin.model,
        "protocol": origin.protocol,
        "source": origin.source,
    }


def judge_json(rulings: Sequence[ShownRuling], most: int = MOST_JUDGE_TEXT) -> list[dict[str, Any]]:
    """The rulings; prompts and replies beyond ``most`` characters are left out."""
    shown, left = [], most
    for one in rulings:
        size = len(one.prompt) + len(one.reply)
        values = _plain(one, _RULING)
        shown.append(values if size <= left else values | {"prompt": "", "reply": ""})
        left -= size if size <= left else 0
    return shown


def _cycles(item: TraceItem, answers: Grounded) -> Iterator[dict[str, Any]]:
    to_evidence = utf16(item.evidence)
    for number, (cycle, found) in enumerate(zip(item.cycles, answers, strict=True)):
        to_answer = utf16(cycle.answer)
        yield {
            "question": cycle.question,
            "answer": cycle.answer,
            "thought": cycle.thought or "",
            "status": found.status,
            "spans": [
                {
                    "answer": _moved(one.answer, to_answer),
                    "evidence": _moved(one.evidence, to_evidence),
                    "match": one.match,
                }
                for one in found.grounds
            ],
            "necessity": _necessity(item, number),
            "answerable": _truth(item, "answerability", number),
            "atomicity": _atomicity(item, number),
            "correct": _truth(item, "correctness", number),
            "nearest": _nearest(item, number),
            "cells": [
                str(cell) for cell in table_cells(cycle.question, cycle.answer, item.evidence)
            ],
        }


def _necessity(item: TraceItem, number: int) -> dict[str, str] | None:
    """The finding of a question, and the judge's verdict without it."""
    named = item.judged.necessity
    finding = named[number] if number < len(named) and named[number] in FINDINGS else ""
    without = _ruling(item, "coverage", number)
    if without is None and finding and len(item.cycles) == 1:
        without = "NotEnoughInfo"  # no answer is left, which takes no call
    if not finding and without is None:
        return None
    return {"finding": finding, "without": _WITHOUT.get(without or "", without or "")}


def _ruling(item: TraceItem, task: str, number: int) -> str | None:
    values = (r.value for r in item.judged.rulings if (r.task, r.question) == (task, number))
    return next(values, None)


def _truth(item: TraceItem, task: str, number: int) -> bool | None:
    value = _ruling(item, task, number)
    return None if value is None else value == "1"


def _atomicity(item: TraceItem, number: int) -> list[dict[str, Any]] | None:
    value = _ruling(item, "atomicity", number)
    if value is None or len(value) != len(CRITERIA):
        return None
    marks = zip(CRITERIA, value, strict=True)
    return [{"mark": name.replace("_", " "), "met": digit == "1"} for name, digit in marks]


def _nearest(item: TraceItem, number: int) -> dict[str, Any] | None:
    """The cosine to the nearest earlier question, and that question where it is certain."""
    cosines = item.judged.cosines
    cosine = finite(cosines[number]) if number < len(cosines) else None
    if cosine is None or not number:
        return None
    asked = [cycle.question for cycle in item.cycles[: number + 1]]
    place = asked.index(asked[number])
    certain = 0 if number == 1 else place if place < number else None
    return {"question": certain, "cosine": round(cosine, 4)}


def _reward(one: ShownReward) -> dict[str, Any]:
    low, high = RANGES.get(one.name, (0.0, 1.0))
    values = {"value": finite(one.value), "weight": finite(one.weight) or 0.0}
    return {"name": one.name, "state": one.state, **values, "low": low, "high": high}


def _confidence(one: VerdictConfidence | None) -> dict[str, Any] | None:
    """None where a number that it needs is none."""
    if one is None or finite(one.raw) is None or finite(one.normalised) is None:
        return None
    return _plain(one, _CONFIDENCE) | {"calibrated": finite(one.calibrated)}


def _plain(one: object, names: Sequence[str]) -> dict[str, Any]:
    """Some fields of a value; ``asdict`` took half of the time of a page."""
    return {name: getattr(one, name) for name in names}


def finite(value: float | None) -> float | None:
    """The number, or None for what JSON cannot hold."""
    return value if value is not None and math.isfinite(value) else None


def utf16(text: str) -> Callable[[int], int]:
    """From character offsets of a text to those of its UTF-16 form."""
    if text.isascii() or max(text) <= _BEYOND_PLANE:
        return int
    wide = [place for place, letter in enumerate(text) if letter > _BEYOND_PLANE]
    return lambda offset: offset + bisect_left(wide, offset)


def _moved(span: Span, at: Callable[[int], int]) -> list[int]:
    return [at(span[0]), at(span[1])]


def json_bytes(value: object) -> bytes:
    """Compact JSON in ASCII, so that no half of a surrogate pair is lost or refused.

    Raises:
        ValueError: a number is not finite.
    """
    text = json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return text.encode("ascii")
