"""Results of ``decomposerl verify`` as traces: in memory, or read back from ``--json``."""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, cast, get_args

from decomposerl.baselines.method import ParseStatus
from decomposerl.errors import SourceFileError
from decomposerl.reports.trace_page.items import TraceItem, TraceOrigin
from decomposerl.reports.verified import VerdictConfidence, VerifiedClaim
from decomposerl.schemas import VERDICTS
from decomposerl.traces.records import group_of, json_object
from decomposerl.traces.trace import Cycle, Verdict


def verified_item(one: VerifiedClaim) -> TraceItem:
    """The trace of a result. Without an id of its own a claim has 16 hex digits over its text."""
    return result_item(json.loads(json.dumps(one.as_json())), "")


def result_item(values: Mapping[str, Any], source: str) -> TraceItem:
    """The trace of one line of ``verify --json``; ``source`` names the file.

    ``gold``, if the line has it, is the label. ``evidence`` is a text or a list of passages, which
    become its lines. Results of earlier versions have none: the sentences that the answers rest
    on take its place, with a warning.

    Raises:
        SourceFileError: a field is missing or not of its type; names it.
    """
    claim, system = _text(values, "claim"), _text(values, "system")
    questions = [_question(one) for one in _list(values, "questions")]
    evidence, warnings = _evidence(values, questions)
    verdict = _verdict(values, "verdict")
    notes = values.get("notes")
    engine, prompt_hash = _text(values, "engine", ""), _text(values, "prompt_hash", "")
    return TraceItem(
        claim_id=_text(values, "claim_id", "") or group_of(claim, evidence),
        claim=claim,
        evidence=evidence,
        origin=TraceOrigin(system, engine, source=source, prompt_hash=prompt_hash),
        verdict=verdict,
        status=_status(values, verdict),
        cycles=tuple(_cycle(one) for one in questions),
        opening=_text(values, "opening", ""),
        reply=_text(values, "reply", ""),
        gold=_verdict(values, "gold"),
        confidence=_confidence(values.get("confidence")),
        warnings=(*map(str, _list(values, "warnings")), *warnings),
        notes=json.dumps(notes, ensure_ascii=False) if notes else "",
    )


@dataclass(slots=True)
class ClaimNames:
    """Gives a claim whose id another claim has already an id of its own."""

    _first: dict[str, str] = field(default_factory=dict)

    def named(self, item: TraceItem) -> TraceItem:
        """The trace; its id is the given one for the first claim with it."""
        if self._first.setdefault(item.claim_id, item.claim) == item.claim:
            return item
        return replace(item, claim_id=f"{item.claim_id}-{group_of(item.claim, '')[:8]}")


def result_line(text: str, source: str, line: int) -> TraceItem:
    """The trace of one JSON line of a file.

    Raises:
        SourceFileError: it is no result; names file and line.
    """
    try:
        return result_item(_object(text), source)
    except SourceFileError as error:
        raise SourceFileError(
            f"{source}, line {line}: {error}; a line is a result of 'decomposerl verify --json'"
        ) from error


def _object(text: str) -> Mapping[str, Any]:
    values = json_object(text)
    if isinstance(values, str):
        raise SourceFileError(values)
    return values


def _evidence(
    values: Mapping[str, Any], questions: list[Mapping[str, Any]]
) -> tuple[str, tuple[str, ...]]:
    if isinstance(passages := values.get("evidence"), list):
        if not all(isinstance(one, str) for one in passages):
            raise SourceFileError("field 'evidence': a passage is no text")
        return "\n".join(passages), ()
    if "evidence" in values:
        return _text(values, "evidence"), ()
    sentences = (str(one) for question in questions for one in _list(question, "evidence"))
    text = "\n".join(dict.fromkeys(sentences))
    return text, ("the result has no evidence: only the sentences behind its answers are shown",)


def _question(value: object) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise SourceFileError("field 'questions': an entry is no object")
    return value


def _text(values: Mapping[str, Any], name: str, otherwise: str | None = None) -> str:
    value = values.get(name)
    value = otherwise if value is None else value
    if not isinstance(value, str):
        raise SourceFileError(f"field '{name}': {'is missing' if value is None else 'is no text'}")
    return value


def _list(values: Mapping[str, Any], name: str) -> list[Any]:
    value = values.get(name) or []
    if not isinstance(value, list):
        raise SourceFileError(f"field '{name}': is no list")
    return value


def _cycle(one: Mapping[str, Any]) -> Cycle:
    return Cycle(_text(one, "question"), _text(one, "answer"), _text(one, "thought", "") or None)


def _status(values: Mapping[str, Any], verdict: Verdict | None) -> ParseStatus:
    status = values.get("status", "unparsed" if verdict is None else "parsed")
    if status not in get_args(ParseStatus):
        raise SourceFileError(f"field 'status': {status!r} is no status")
    return cast("ParseStatus", status)


def _verdict(values: Mapping[str, Any], name: str) -> Verdict | None:
    value = values.get(name)
    if value is not None and value not in VERDICTS:
        raise SourceFileError(f"field '{name}': {value!r} is none of {', '.join(VERDICTS)}")
    return cast("Verdict | None", value)


def _confidence(value: object) -> VerdictConfidence | None:
    if value is None:
        return None
    if not isinstance(value, dict):
        raise SourceFileError("field 'confidence': is no object")
    raw, normalised = _share(value, "raw"), _share(value, "normalised")
    if raw is None or normalised is None:
        raise SourceFileError("field 'confidence': has no raw or no normalised value")
    calibrated = _share(value, "calibrated")
    return VerdictConfidence(raw, normalised, calibrated, _text(value, "meaning", ""))


def _share(values: Mapping[str, Any], name: str) -> float | None:
    value = values.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise SourceFileError(f"field 'confidence': '{name}' is no number")
    return float(value)
