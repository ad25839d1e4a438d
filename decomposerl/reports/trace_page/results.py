"""Results of ``decomposerl verify`` as traces: in memory, or read back from ``--json``."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from pydantic import TypeAdapter, ValidationError

from decomposerl.errors import SourceFileError
from decomposerl.reports.trace_page.items import TraceItem, TraceOrigin
from decomposerl.reports.verified import VerifiedClaim
from decomposerl.traces.records import group_of, json_object
from decomposerl.traces.trace import Cycle, Verdict

_ABSENT = {"verdict": None, "confidence": None, "questions": (), "engine": "", "warnings": ()}
_EARLIER = "the result has no evidence: only the sentences behind its answers are shown"


@dataclass(frozen=True, slots=True)
class _Line(VerifiedClaim):
    """A result that was read; ``gold`` is the label, if the line has it."""

    gold: Verdict | None = None


_LINE = TypeAdapter(_Line)


def verified_item(one: VerifiedClaim) -> TraceItem:
    """The trace of a result. Without an id of its own a claim has 16 hex digits over its text."""
    return _item(one, "", None)


def result_item(values: Mapping[str, Any], source: str) -> TraceItem:
    """The trace of one line of ``verify --json``; ``source`` names the file.

    ``gold``, if the line has it, is the label. ``evidence`` is a text or a list of passages, which
    become its lines. Results of earlier versions have none: the sentences that the answers rest
    on take its place, with a warning.

    Raises:
        SourceFileError: a field is missing or not of its type; names it.
    """
    given = _ABSENT | {name: value for name, value in values.items() if value is not None}
    given.setdefault("status", "parsed" if given["verdict"] else "unparsed")
    passages = given.get("evidence")
    if isinstance(passages, list) and all(isinstance(one, str) for one in passages):
        given["evidence"] = "\n".join(passages)
    try:
        one = _LINE.validate_python(given)
    except ValidationError as error:
        fault = error.errors()[0]
        name = ".".join(map(str, fault["loc"]))
        why = "is missing" if fault["type"] == "missing" else fault["msg"]
        raise SourceFileError(f"field '{name}': {why}") from error
    if passages is None:
        sentences = dict.fromkeys(text for asked in one.questions for text in asked.evidence)
        one = replace(one, evidence="\n".join(sentences), warnings=(*one.warnings, _EARLIER))
    return _item(one, source, one.gold)


def _item(one: VerifiedClaim, source: str, gold: Verdict | None) -> TraceItem:
    cycles = (Cycle(asked.question, asked.answer, asked.thought or None) for asked in one.questions)
    return TraceItem(
        claim_id=one.claim_id or group_of(one.claim, one.evidence),
        claim=one.claim,
        evidence=one.evidence,
        origin=TraceOrigin(one.system, one.engine, source=source, prompt_hash=one.prompt_hash),
        verdict=one.verdict,
        status=one.status,
        cycles=tuple(cycles),
        opening=one.opening,
        reply=one.reply,
        gold=gold,
        confidence=one.confidence,
        warnings=one.warnings,
        notes=json.dumps(dict(one.notes), ensure_ascii=False) if one.notes else "",
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
    values = json_object(text)
    try:
        return result_item(values if isinstance(values, dict) else {}, source)
    except SourceFileError as error:
        why = values if isinstance(values, str) else error
        raise SourceFileError(
            f"{source}, line {line}: {why}; a line is a result of 'decomposerl verify --json'"
        ) from error
